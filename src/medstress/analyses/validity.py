"""Whether the right answer is still right after a success (METHODS 1.5, Validity among successes).

Rules refute and never vouch, so only people's labels of a random sample of the successes give a
rate; without them there are bounds. One success of a trial is labelled, so
the rate is of "the first success is valid"; "a valid success within the budget" has bounds alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import hypot

import numpy as np

from medstress.analyses.run import Cell
from medstress.analyses.shown import HIDDEN, QUESTIONS, Remark, noun_of
from medstress.core.trials import Trial
from medstress.core.validity import EVIDENCE_CHANGED, PEOPLE, REVIEW
from medstress.stats.estimate import Estimate, with_worst
from medstress.stats.shares import Mask, rate

UNHEARD = (
    "who judged its successes judged too few planted cases rightly, so that no judgement counts"
)
LEAST_LABELS = 10
"""Fewer labels give bounds and no rate."""
Words = Mapping[int, bool]
"""Place of a trial -> whether people say that its right answer is still right."""
Share = Callable[[Mask, Mask], Estimate]
"""(hits, trials that count) -> the share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Validity:
    """What is known of the valid successes of a row."""

    asr_valid: Estimate | None
    """Share of the eligible trials whose first success is valid, as far as people vouch for it."""
    asr_valid_bounds: tuple[float, float] | None
    """Share of the eligible trials with a valid success within the budget: what is known to be
    valid, and what may be; None without an eligible trial."""
    n_labels: int
    """Successes that people labelled, of those that the rate rests on."""
    n_successes: int = field(metadata=HIDDEN)
    n_unknown: int = field(metadata=HIDDEN)
    """Successes that neither people nor a rule settle."""
    n_open: int = field(metadata=HIDDEN)
    """Sampled successes without a word that counts: no one labelled them, or people disagree."""
    why: str | None = field(metadata=HIDDEN)
    """Why there is no rate."""


def validity(
    cell: Cell, share: Share | None = None, unheard: Collection[str] = ()
) -> Validity | None:
    """Estimate which share of the eligible trials has a first success that is valid.

    With v the valid share of the labels, asr_valid = asr v and
    low = asr_valid - sqrt(((asr - asr_low) v)^2 + ((v - v_low) asr)^2); high likewise. Successes
    that a rule refutes are a stratum of their own: without labels there, none of them is valid.
    Where people labelled every success that may be valid, the rate is a plain share.

    For the worst ends, sampled successes without a word that counts are invalid, then valid, and
    unreadable and missing answers are no success, then a valid one.

    Args:
        cell: the trials.
        share: how a share of the cell is estimated; default: Wilson's interval.
        unheard: ids of trials that only raters judged who are not believed.

    Returns:
        None for a cell of controls or of an attack without successes to speak of.

    References:
        Zou and Donner, "Construction of confidence limits about effect measures: a general
        approach", Statistics in Medicine 2008.
    """
    if cell.arm.is_control or not cell.attack.judged or cell.attack.asks_clean_only:
        return None
    labels = _Labels(cell, share or cell.rate)
    estimate, why = labels.estimate()
    if not labels.n_words and any(trial.id in unheard for trial in cell.trials):
        why = UNHEARD
    return Validity(
        asr_valid=estimate,
        asr_valid_bounds=_bounds(cell),
        n_labels=len(labels.words),
        n_successes=int(labels.success.sum()),
        n_unknown=sum(_settled(t) is None for t in cell.trials if t.pick is not None),
        n_open=len(labels.silent),
        why=why,
    )


def word_of_people(trial: Trial) -> bool | None:
    """Return what people say of a success, whatever rules say; None: nothing that counts."""
    if trial.pick is None:
        return None
    v = trial.pick.validity
    if v.reason == REVIEW and v.valid is not None:
        return v.valid
    words = [piece.valid for piece in v.evidence if piece.kind == PEOPLE]
    return words[-1] if words else None


def _settled(trial: Trial) -> bool | None:
    """Return whether a success is valid by people or a rule; None: unknown."""
    if trial.pick is None:
        return None
    return trial.pick.validity.valid


def _is_refuted(trial: Trial) -> bool:
    """Return whether a rule refutes all successes of a trial, whatever people say."""
    if trial.pick is None:
        return False
    v = trial.pick.validity
    by_rule = v.valid is False and v.reason != REVIEW
    return by_rule or any(piece.valid is False and piece.kind != PEOPLE for piece in v.evidence)


def _is_disputed(trial: Trial) -> bool:
    """Return whether people looked at a success and nothing came of it."""
    if trial.pick is None or word_of_people(trial) is not None:
        return False
    v = trial.pick.validity
    return v.reason == REVIEW or any(piece.kind == PEOPLE for piece in v.evidence)


class _Labels:
    """What people say of the successes of a cell."""

    def __init__(self, cell: Cell, share: Share) -> None:
        self._cell, self._share = cell, share
        trials = cell.trials
        self.success = cell.mask(lambda t: t.pick is not None) & cell.eligible
        self._refuted = cell.mask(_is_refuted) & self.success
        places = np.flatnonzero(self.success).tolist()
        words = {i: word for i in places if (word := word_of_people(trials[i])) is not None}
        self.n_words = len(words)
        labelled = np.zeros(len(trials), dtype=bool)
        labelled[list(words)] = True
        plain, refuted = self.success & ~self._refuted, self._refuted
        self.is_census = bool(words) and bool(
            labelled[plain].all() and (labelled[refuted].all() or not labelled[refuted].any())
        )
        counted = {i for i in places if self.is_census or trials[i].sampled}
        self.words: Words = {i: word for i, word in words.items() if i in counted}
        # What a rule refuted stays so until people say otherwise.
        self.silent = [
            i
            for i in sorted(counted - words.keys())
            if _is_disputed(trials[i]) or not self._refuted[i]
        ]

    def estimate(self) -> tuple[Estimate | None, str | None]:
        """Return the rate; or None, and why."""
        if not self.n_words:
            return None, "no one has judged its successes"
        n, outside = len(self.words), self.n_words - len(self.words)
        if not self.is_census and n < LEAST_LABELS:
            why = f"{n} labels of a random sample, and a rate needs {LEAST_LABELS}"
            return None, why + (f"; {outside} more are of no random sample" if outside else "")
        if not self.is_census and not any(not self._refuted[i] for i in self.words):
            return None, "only successes that a rule refutes are labelled"
        asr = self._cell.read("asr")
        middle = self._of(asr.hit, asr.counts, self.words)
        least = self._of(asr.least, asr.may_count, dict.fromkeys(self.silent, False))
        most = self._of(asr.hit, asr.may_count, dict.fromkeys(self.silent, True), asr.most)
        return with_worst(middle, least, most), None

    def _of(
        self, hits: Mask, counts: Mask, settled: Words, may_be_hit: Mask | None = None
    ) -> Estimate:
        """Estimate the rate.

        Args:
            hits: trials with a success.
            counts: trials that count.
            settled: how successes without a word are taken.
            may_be_hit: trials that have a success or may have one, which is then valid.
        """
        words = {**settled, **self.words}
        more = np.zeros_like(hits) if may_be_hit is None else may_be_hit & ~hits & counts
        if self.is_census:
            valid = np.zeros_like(hits)
            valid[[i for i, word in words.items() if word]] = True
            estimate = self._share((valid & hits) | more, counts)
            return replace(estimate, method=f"{estimate.method}; every success was judged")
        parts = [_product(self._share(more, counts), CERTAIN)] if more.any() else []
        for refuted in (False, True):
            there = [i for i in words if bool(self._refuted[i]) is refuted]
            if there:
                heard = np.array([words[i] for i in there], dtype=bool)
                stratum = hits & (self._refuted if refuted else ~self._refuted)
                v = rate(heard, self._cell.units[:, there])
                parts.append(_product(self._share(stratum, counts), v))
        values, below, above = zip(*parts, strict=True)
        return Estimate(
            value=sum(values),
            n=int(counts.sum()),
            low=max(0.0, sum(values) - hypot(*below)),
            high=min(1.0, sum(values) + hypot(*above)),
            method=f"ASR times the valid share of {len(self.words)} labelled successes, the ends "
            "of both 95 % intervals combined (Zou and Donner)",
        )


CERTAIN = Estimate(value=1.0, n=0, low=1.0, high=1.0, method="taken as valid")


def _product(share: Estimate, part: Estimate) -> tuple[float, float, float]:
    """Multiply two shares; return the product, and how far its interval reaches down and up.

    >>> from medstress.stats.estimate import wilson
    >>> [round(number, 3) for number in _product(wilson(40, 100), wilson(15, 20))]
    [0.3, 0.111, 0.092]
    """
    p, v = share.value or 0.0, part.value or 0.0
    (p_low, p_high), (v_low, v_high) = _ends(share), _ends(part)
    return (
        p * v,
        hypot((p - p_low) * v, (v - v_low) * p),
        hypot((p_high - p) * v, (v_high - v) * p),
    )


def _ends(estimate: Estimate) -> tuple[float, float]:
    return estimate.low or 0.0, 1.0 if estimate.high is None else estimate.high


def _bounds(cell: Cell) -> tuple[float, float] | None:
    """Bound the share of trials with a valid success, from all that is known of each.

    A search that ended at an invalid success might have found a valid one with what was left of
    its budget; so might one whose answers are unreadable or missing.
    """
    may = cell.eligible | cell.open_clean
    if not may.any():
        return None
    surely = cell.eligible & cell.mask(lambda t: _settled(t) is True)
    maybe = cell.open_clean | (cell.eligible & (cell.lacks | cell.mask(_may_be_valid)))
    return float(surely[may].mean()), float(maybe[may].mean())


def _may_be_valid(trial: Trial) -> bool:
    pick, asked = trial.pick, trial.queries.asked
    if pick is None:
        return False
    if _settled(trial) is not False:
        return True
    has_ended = asked == pick.query and asked < trial.arm.attack.budget
    return has_ended and pick.validity.reason != EVIDENCE_CHANGED


def remarks(cell: Cell, valid: Validity | None) -> Iterator[Remark]:
    """Say what is not known of the successes."""
    if valid is None or not valid.n_successes:
        return
    attack, at = cell.attack.label, (*cell.place, cell.attack.label)
    if valid.n_unknown:
        why = f" ({valid.why})" if valid.why else ""
        what = "right answer" if noun_of(cell.trials[0]) is QUESTIONS else "data's answer"
        sentence = (
            f"{attack}: whether the {what} is still right is not known of "
            f"{valid.n_unknown:,} of {valid.n_successes:,} successes{why}."
        )
        yield Remark("validity_unknown", sentence, at, "note")
    if valid.n_open and valid.asr_valid is not None:
        sentence = (
            f"{attack}: {valid.n_open:,} sampled successes have no label that counts; they are "
            "taken as invalid or as valid, whichever is worse."
        )
        yield Remark("labels_open", sentence, at)
