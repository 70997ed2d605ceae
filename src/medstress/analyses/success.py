"""How often an attack succeeds, how soon, and what the model knew before.

References:
    Xian et al., "Assessing biomedical knowledge robustness in large language models by
    query-efficient sampling attacks", TMLR 2025, Table 1.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import exp, lgamma, log, log1p
from statistics import fmean, median

import numpy as np

from medstress.analyses.run import NEVER, Cell
from medstress.analyses.shown import FLAT, Remark, where
from medstress.core.outcomes import Verdict
from medstress.core.trials import Queries, Trial
from medstress.stats.estimate import Estimate, unknown, wilson_ends
from medstress.stats.resampling import mean_over

EVERY_BUDGET = 1_000
"""Up to this budget `asr_at` lists every one, beyond it those at which the share changes."""
MOST_OF_A_REASON = 200
"""Characters of an error that a warning gives."""
_TOO_LONG = re.compile("too long for the context|more than the .* (positions|context)")
"""What back ends say of a prompt that its model's context does not hold."""
FAIL_AGAIN = "they fail again as they are: choose a larger context, or fewer attempts"
UNSEEN = 0.1
"""Share of the eligible trials without an edit above which nothing is judged by an attack."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Trials by how they ended.

    n_trials = n_already_wrong + n_not_attackable + n_unreadable_at_baseline
    + n_failed_at_baseline + n_eligible, and
    n_eligible = n_flipped + n_held + n_measured + n_cut_short + n_failed.
    """

    n_items: int
    n_trials: int
    n_already_wrong: int
    n_not_attackable: int
    n_unreadable_at_baseline: int
    n_failed_at_baseline: int
    n_eligible: int
    n_flipped: int
    n_held: int
    n_measured: int
    n_cut_short: int
    n_failed: int
    n_unreadable_answers: int
    n_unreadable_under_attack: int
    """Eligible trials none of whose answers under attack could be read."""
    n_never_asked: int
    """Eligible trials that showed the model no edit."""
    n_unchanged: int
    n_ties: int
    n_rejected: int
    """Attempts that gates or repeats took away."""

    @property
    def share_unseen(self) -> float:
        """Share of the eligible trials that showed the model no edit."""
        return self.n_never_asked / self.n_eligible if self.n_eligible else 0.0

    @property
    def is_unseen(self) -> bool:
        """Whether too many eligible trials showed no edit to judge anything by the attack."""
        return self.share_unseen > UNSEEN

    @property
    def is_tied(self) -> bool:
        """Whether a hash decides nearly every answer, because options share the best score."""
        return self.n_ties >= self.n_trials - self.n_not_attackable > 0


def counts(cell: Cell) -> Counts:
    """Count the trials of a cell."""
    n_ended = np.bincount(cell.ended, minlength=len(Verdict)).tolist()
    n_lost = np.bincount(cell.ended[cell.lost_clean], minlength=len(Verdict)).tolist()
    ended, lost = (dict(zip(Verdict, numbers, strict=True)) for numbers in (n_ended, n_lost))
    queries = Queries(*cell.queries.sum(axis=0).tolist())
    return Counts(
        n_items=cell.items(),
        n_trials=len(cell.trials),
        n_already_wrong=ended[Verdict.ALREADY_WRONG],
        n_not_attackable=ended[Verdict.NOT_ATTACKABLE],
        n_unreadable_at_baseline=ended[Verdict.UNREADABLE],
        n_failed_at_baseline=sum(n_lost),
        n_eligible=int(cell.eligible.sum()),
        n_flipped=ended[Verdict.FLIPPED],
        n_held=ended[Verdict.HELD],
        n_measured=ended[Verdict.MEASURED],
        n_cut_short=ended[Verdict.CUT_SHORT] - lost[Verdict.CUT_SHORT],
        n_failed=ended[Verdict.FAILED] - lost[Verdict.FAILED],
        n_unreadable_answers=queries.unreadable,
        n_unreadable_under_attack=int(cell.mute.sum()),
        n_never_asked=int(cell.unseen.sum()),
        n_unchanged=queries.unchanged,
        n_ties=queries.ties,
        n_rejected=queries.rejected,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AboveChance:
    """Exact one-sided test of "no better than guessing", each item once, failed answers wrong."""

    p: float | None
    method: str = (
        "exact binomial test against chance, greater; each item once, failed answers as wrong"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """What the model knew before any edit, and what is left under attack."""

    accuracy: Estimate
    """Right / answered, of what could be attacked."""
    chance: float | None
    """max(mean of 1/options, share of the commonest key); None where answers are no choice."""
    above_chance: AboveChance
    accuracy_after: Estimate
    """(eligible - flipped) / answered."""
    letter_mass: Estimate
    """Mean probability of all option letters together after clean prompts."""

    @property
    def is_near_chance(self) -> bool:
        """Whether what was right cannot be told from guessing."""
        low = self.accuracy.ends[0]
        return self.chance is not None and low is not None and low <= self.chance

    def is_too_few(self, n_items: int) -> bool:
        """Return whether even a perfect model could not be told from guessing on so few items."""
        if self.chance is None or not n_items:
            return False
        return wilson_ends(n_items, n_items)[0] <= self.chance


def knowledge(cell: Cell) -> Knowledge:
    """Estimate accuracy before and after, beside chance."""
    items = cell.one_per_item()
    asked = [trial for trial in items.trials if trial.is_answered]
    chance = _chance(asked)
    masses = [(i, t.before.mass) for i, t in enumerate(cell.trials) if t.before is not None]
    weighed = [(i, mass) for i, mass in masses if mass is not None]
    p = None
    if chance is not None and any(t.verdict is not Verdict.UNREADABLE for t in asked):
        clean = items.answered | items.open_clean
        p = _at_least(int(items.eligible[clean].sum()), int(clean.sum()), chance)
    return Knowledge(
        accuracy=cell.share(cell.read("accuracy")),
        chance=chance,
        above_chance=AboveChance(p=p),
        accuracy_after=cell.share(cell.read("accuracy_after")),
        letter_mass=_mean(cell, weighed, "mean letter mass"),
    )


def _chance(asked: Sequence[Trial]) -> float | None:
    """Return max(mean of 1/options, share of the commonest key) over items (METHODS 1.2)."""
    letters = [trial.item.choices for trial in asked]
    if not letters or not all(letters):
        return None
    keys = Counter(trial.item.key for trial in asked)
    return max(fmean(1 / len(some) for some in letters), max(keys.values()) / len(asked))


def _at_least(k: int, n: int, p: float) -> float:
    """Return the probability of k or more hits in n trials of probability p."""
    if k <= 0 or p >= 1:
        return 1.0
    logs = (
        lgamma(n + 1) - lgamma(i + 1) - lgamma(n - i + 1) + i * log(p) + (n - i) * log1p(-p)
        for i in range(k, n + 1)
    )
    return min(1.0, sum(map(exp, logs)))


@dataclass(frozen=True, slots=True, kw_only=True)
class AtBudget:
    """A share within a budget."""

    budget: int
    estimate: Estimate = field(metadata=FLAT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToSuccess:
    """Perturbed queries up to the first success, over successes; None without any."""

    median: float | None
    mean: float | None

    @classmethod
    def of(cls, numbers: Sequence[int]) -> ToSuccess:
        """Return median and mean of some numbers."""
        if not numbers:
            return cls(median=None, mean=None)
        return cls(median=float(median(numbers)), mean=fmean(numbers))


@dataclass(frozen=True, slots=True, kw_only=True)
class Success:
    """How often and how soon an attack succeeds."""

    asr: Estimate
    """Flipped / eligible."""
    asr_decided: Estimate
    """Flipped / (flipped + held)."""
    asr_asked: Estimate
    """Flipped / eligible that saw an edit."""
    asr_at: Sequence[AtBudget]
    queries_to_success: ToSuccess
    key_probability_change: Estimate
    """Mean change of P(right answer) to the first success, else to the last answer."""


def success(cell: Cell) -> Success:
    """Estimate ASR(B) = flipped within B / eligible, for the budget and every smaller one."""
    reading = cell.read("asr")
    decided = cell.has(Verdict.FLIPPED, Verdict.HELD)
    queries = [trial.first.query for trial in cell.trials if trial.first is not None]
    changes = list(_probability_changes(cell))
    return Success(
        asr=cell.share(reading),
        asr_decided=cell.share(reading.only(decided)),
        asr_asked=cell.share(reading.only(~cell.unseen)),
        asr_at=at_budgets(cell),
        queries_to_success=ToSuccess.of(queries),
        key_probability_change=_mean(cell, changes, "attacked answers"),
    )


def at_budgets(cell: Cell) -> list[AtBudget]:
    """Read ASR at every smaller budget off one run: queries do not depend on the budget."""
    last = cell.budget
    steps = {int(b) for b in cell.first[cell.eligible] if b != NEVER}
    every = range(1, last + 1)
    shown = every if last <= EVERY_BUDGET else sorted({1, last, *(b for b in steps if b <= last)})
    points: list[AtBudget] = []
    for b in shown:
        if points and b not in steps:
            points.append(AtBudget(budget=b, estimate=points[-1].estimate))
        else:
            points.append(AtBudget(budget=b, estimate=cell.share(cell.read("asr", b))))
    return points


def _probability_changes(cell: Cell) -> Iterator[tuple[int, float]]:
    """Yield place and change of P(key): to the first success, else to the last answer."""
    for i in np.flatnonzero(cell.eligible).tolist():
        trial = cell.trials[i]
        after = trial.last if trial.first is None else trial.first.answer
        letters = trial.item.choices
        if not (letters and trial.before and after):
            continue
        if trial.before.scores is not None and after.scores is not None:
            at = letters.index(trial.item.key)
            yield i, exp(after.scores[at]) - exp(trial.before.scores[at])


def _mean(cell: Cell, values: Sequence[tuple[int, float]], what: str) -> Estimate:
    """Estimate a mean over trials, documents drawn whole."""
    if not values:
        return unknown(f"no {what}")
    places = [i for i, _ in values]
    return mean_over(np.array([v for _, v in values]), cell.units[0][places], what)


def fails_again(reasons: Iterable[str | None]) -> bool:
    """Return whether all failed trials had prompts that are too long.

    >>> fails_again(["the prompt is too long for the context of 'gpt'"])
    True
    >>> fails_again(["the server is busy"])
    False
    """
    return all(reason and _TOO_LONG.search(reason) for reason in reasons)


_SENTENCES: Mapping[str, str] = {
    "near_chance": "{victim} is not above chance on {dataset}: what it loses cannot be told from "
    "guessing.",
    "failed": "{attack}: {failed:,} of {n_trials:,} trials failed; {advice}.{why}",
    "unreadable_under_attack": "{attack}: in {n_unreadable_under_attack:,} of {n_eligible:,} "
    "trials no answer under attack could be read, so they may be lost.",
    "saw_no_edit": "{attack}: in {n_never_asked:,} of {n_eligible:,} trials the model saw no edit, "
    "so nothing is judged by this attack.",
    "ties": "{victim} gives its best score to several options in nearly every answer; a hash of "
    "question and letter decides then.",
}


def remarks(cell: Cell, n: Counts, knows: Knowledge | None) -> Iterator[Remark]:
    """Say what a reader of the rates has to know."""
    notes = [t.note for t in cell.trials if t.verdict is Verdict.FAILED]
    commonest = Counter(filter(None, notes)).most_common(1)
    facts = {
        **cell.labels,
        **asdict(n),
        "failed": n.n_failed + n.n_failed_at_baseline,
        "advice": FAIL_AGAIN if fails_again(notes) else "run again with --retry-failed",
        "why": "".join(
            f" {times:,} times: {' '.join(note.split())[:MOST_OF_A_REASON]}"
            for note, times in commonest
        ),
    }
    # Where nothing could be read, nobody knows what the model knows: p is None.
    is_near = knows is not None and knows.is_near_chance and knows.above_chance.p is not None
    is_clean = cell.attack.asks_clean_only
    is_unseen = n.is_unseen and not is_clean
    holds = (is_near, facts["failed"], n.n_unreadable_under_attack, is_unseen, n.is_tied)
    for (rule, sentence), is_so in zip(_SENTENCES.items(), holds, strict=True):
        if is_so:
            if is_clean and rule == "near_chance":
                sentence = f"{sentence.partition(':')[0]}."
            yield Remark(rule, sentence.format(**facts), where(cell.place, cell.attack.label))
