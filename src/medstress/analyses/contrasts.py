"""The measures of one arm in A and in B, paired: what they are, and what intervals show of B.

Where both arms draw names at random, what is shown rests on names like these: items and names are
resampled together, because an item test speaks of the names that were drawn. Unreadable answers of
B count as lost; what speaks for B has to hold with those of A counted as right. Where calls failed,
it has to hold whatever the answers would have been.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import floor
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from medstress.analyses.as_json import HIDDEN
from medstress.analyses.compared_scores import Scored, scored
from medstress.analyses.run import Cell, Metric, Pairs, Run, pair
from medstress.core.outcomes import Verdict
from medstress.core.trials import Trial
from medstress.stats.estimate import Ends, Estimate, negated
from medstress.stats.means import difference_of_names, mean
from medstress.stats.paired import Difference, difference
from medstress.stats.power import ASSUMED, detectable, detectable_mean
from medstress.stats.shares import Mask, Numbers, mean_size, rate, tally

Decision: TypeAlias = Literal[
    "worse",
    "nothing to compare",
    "undecided",
    "worse by less than the margin",
    "no worse than the margin",
    "equivalent within the margin",
    "better",
]
Claim: TypeAlias = Literal["better", "worse", "equivalent", "no worse"]
METRICS = ("accuracy_after", "accuracy", "asr", "asr_net")
LEAST_UNITS = 6
"""Items (documents) that differ, below which nothing is better or worse: of five that all go one
way the exact p is .0625."""
_WORDS = {
    "accuracy_after": "accuracy after",
    "accuracy": "accuracy before",
    "asr": "lost (ASR)",
    "asr_net": "lost net of {control}",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmLabel:
    """The labels of an arm."""

    dataset: str
    group: str
    victim: str
    attack: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Detectable:
    """The smallest difference that as many pairs find with 80 % power."""

    discordance: float
    """Share of the pairs in which A and B differ; of net losses the mean squared difference."""
    difference: float | None
    """None if so few find none."""
    is_assumed: bool
    """Whether fewer were seen to differ, so that the discordance is a guess."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """One measure of one arm in A and in B; differences are B minus A."""

    a: ArmLabel
    b: ArmLabel
    metric: str
    control: str | None = None
    """What `asr_net` is net of."""
    decides: bool
    """Whether the verdict of the whole rests on it."""
    verdict: Decision = "undecided"
    sentence: str = ""
    n_items: int
    n_pairs: int
    n_worst: int = 0
    """Trials in which an unreadable or failed answer counts against a model."""
    n_open: int = 0
    """Pairs that a failed call leaves open."""
    value_a: Estimate
    value_b: Estimate
    only_a: int | None = None
    """Pairs that count in A alone; None where the measure is no share."""
    only_b: int | None = None
    difference: Estimate
    """For exactly these names."""
    names_like_these: Estimate | None = None
    names_reason: str | None = None
    """Why there is none."""
    interval90: Ends
    """Of what decides: equivalence rests on it."""
    p: float | None
    """Of what decides; for names like these at least that of the items."""
    p_adjusted: float | None = None
    power: Sequence[Detectable] = ()
    """Of rows that decide."""
    claims: frozenset[Claim] = field(metadata=HIDDEN)
    """What the intervals show of B, before p has a say."""
    noun: str = field(metadata=HIDDEN)

    @property
    def measure(self) -> str:
        """The measure in a few words."""
        words = _WORDS.get(self.metric, self.metric.replace("_", " ").replace("f1", "F1"))
        return words.format(control=(self.control or "").replace("_", " "))

    def labels(self, name: str) -> str:
        """Return a label of the arms: `dataset`, `group`, `victim` or `attack`."""
        a, b = getattr(self.a, name), getattr(self.b, name)
        return str(a) if a == b else f"{a} → {b}"


@dataclass(frozen=True, slots=True)
class Matched:
    """One arm in A and in B, with pairs of its trials."""

    first: Run
    second: Run
    a: Cell
    b: Cell
    pairs: Pairs
    is_stored: bool = False
    """Whether it asks stored edits: then the first alone counts, which no answer chose."""

    @property
    def budget(self) -> int | None:
        """Queries that count; None for all."""
        return 1 if self.is_stored else None

    def where(self, kept: Mask) -> Matched:
        """Return the arm with some of its pairs."""
        return replace(self, pairs=self.pairs.where(kept))

    def contrast(self, metric: str, decides: bool, **parts: Any) -> Contrast:
        """Return a contrast of these pairs."""
        cells, trials = (self.a, self.b), self.a.trials
        a, b = (ArmLabel(**c.place._asdict(), attack=c.attack.label) for c in cells)
        counts = {
            "n_items": len({trials[i].item.id for i in self.pairs.first}),
            "n_pairs": len(self.pairs),
            "noun": "question" if getattr(trials[0].item, "letters", "") else "item",
        }
        return Contrast(a=a, b=b, metric=metric, decides=decides, **{**counts, **parts})


def contrasts(
    arm: Matched, *, is_of_models: bool, metric: str | None, margin: float | None
) -> Iterator[Contrast]:
    """Yield every measure of one arm.

    Args:
        arm: with all its pairs.
        is_of_models: whether models are compared; else attacks, or what these draw names from.
        metric: the measure that decides. Default: accuracy after the attack, or the main score of
            the perturbed copy; where models are not what is compared, asr.
        margin: the largest difference that does not matter.
    """
    a, b, both = arm.a, arm.b, arm.pairs
    scores = scored(arm.first, a, arm.second, b, both)
    shares: tuple[Metric, ...] = ("accuracy_after", "accuracy", "asr")
    if a.attack.asks_clean_only:
        shares = shares[1:2]
    elif scores is not None or arm.is_stored:
        shares = shares[2:]
    elif not is_of_models:
        shares = tuple(share for share in shares if share in ("asr", metric))
    wanted = metric or shares[0]
    if scores is not None:
        wanted = metric or (wanted if scores.after is None else f"{scores.main}_after")
        for name in scores.shown(wanted):
            yield _of_score(arm, scores, name, margin, decides=name == wanted)
    judged = arm.where(_ended(a)[both.first] & _ended(b)[both.second])
    if not len(judged.pairs):
        return
    i, j = judged.pairs.first, judged.pairs.second
    known = judged.where(np.asarray(a.eligible[i] & b.eligible[j]))
    for share in shares:
        kept = known if share == "asr" else judged
        yield _of_share(kept, share, margin, decides=share == wanted)
    controls = arm.first.controls(a), arm.second.controls(b)
    for name in controls[0]:
        if name in controls[1]:
            cells = controls[0][name], controls[1][name]
            yield _of_net(known, name, cells, margin, decides=wanted == "asr_net")


def _ended(cell: Cell) -> Mask:
    """Return which trials are more than a measurement and could be attacked."""
    return cell.mask(lambda t: t.verdict not in (Verdict.MEASURED, Verdict.NOT_ATTACKABLE))


class _Good(NamedTuple):
    """Which trials are good for the model; each of shape (n,)."""

    plain: Mask
    """As a summary counts: an unreadable answer is no success."""
    read: Mask
    """An unreadable or missing answer is not good."""
    best: Mask
    """It is good wherever it might be."""
    failed: Mask
    """A failed call leaves it open."""

    def at(self, places: NDArray[np.int64]) -> _Good:
        """Return it for some trials."""
        return _Good(*(mask[places] for mask in self))


def _good(cell: Cell, metric: Metric, budget: int | None) -> _Good:
    reading, b = cell.read(metric, budget), cell.budget if budget is None else budget
    clean = cell.open_clean & ~cell.answered
    attacked = cell.eligible & cell.mask(lambda t: _lacks_calls(t, budget)) & ~cell.flipped(b)
    if metric == "asr":
        return _Good(~reading.hit, ~reading.most, ~reading.least, attacked)
    failed = clean if metric == "accuracy" else clean | attacked
    return _Good(reading.hit, reading.least, reading.most, failed)


def _lacks_calls(t: Trial, budget: int | None) -> bool:
    """Return whether a call under attack failed or never came.

    Cut at one query, an unreadable answer is open as well: which query it is of is not stored.
    """
    q = t.queries
    is_cut = budget is not None and q.asked > budget and q.unreadable > 0
    return t.verdict in (Verdict.FAILED, Verdict.CUT_SHORT) or q.failed > 0 or is_cut


def _of_share(arm: Matched, metric: Metric, margin: float | None, *, decides: bool) -> Contrast:
    """Return the contrast of a share; `asr` is bad for the model, the others are good."""
    pairs, is_good = arm.pairs, metric != "asr"
    a = _good(arm.a, metric, arm.budget).at(pairs.first)
    b = _good(arm.b, metric, arm.budget).at(pairs.second)
    names = _names(arm, metric) if decides else "only a row that decides has one"
    ways = [_gain(pairs, a.read, b.read, names)]
    if b.failed.any():
        ways.append(_gain(pairs, a.read, b.read | b.failed, names))
    if (a.best != a.read).any():
        ways.append(_gain(pairs, a.best, b.read, names))
    gain, basis = difference(b.read, a.read, pairs.units), ways[0]
    has_names = not isinstance(names, str) and basis.estimate.low is not None
    p = gain.p if basis.p is None or gain.p is None else max(gain.p, basis.p)
    seen = (gain.only_first + gain.only_second) / max(len(pairs), 1)
    worth = floor(len(pairs) / gain.estimate.effect)
    first, second = gain.only_second, gain.only_first
    return arm.contrast(
        metric,
        decides,
        n_worst=int((a.read != a.plain).sum() + (b.read != b.plain).sum()),
        n_open=int((a.failed | b.failed).sum()),
        value_a=rate(a.read == is_good, pairs.units),
        value_b=rate(b.read == is_good, pairs.units),
        only_a=first if is_good else second,
        only_b=second if is_good else first,
        difference=_signed(gain, is_good=is_good).estimate,
        names_like_these=_signed(basis, is_good=is_good).estimate if has_names else None,
        names_reason=None
        if has_names
        else names
        if isinstance(names, str)
        else basis.estimate.method,
        interval90=_signed(basis, is_good=is_good).interval90,
        p=None if basis.p is None else p,
        power=[
            Detectable(discordance=d, difference=detectable(worth, d), is_assumed=d != seen)
            for d in _discordances(seen)
            if decides
        ],
        claims=_claims(ways, margin, pairs, a.read != b.read),
    )


class _Names(NamedTuple):
    """The names that each pair rests on, and how many the arm with fewer drew."""

    drawn: Sequence[frozenset[str]]
    n: int


def _gain(pairs: Pairs, a: Mask, b: Mask, names: _Names | str) -> Difference:
    """Return what B has more of than A: for names like these where there are any."""
    items = difference(b, a, pairs.units)
    if isinstance(names, str):
        return items
    gain = difference_of_names(b.astype(np.float64) - a, pairs.units[0], names.drawn, names.n)
    if gain.estimate.low is None and names.n > 1 and len(np.unique(pairs.units[0])) > 1:
        # No two pairs differ, so that names add nothing to what items leave open.
        method = f"{items.estimate.method}; all pairs agree, whatever their names"
        return replace(items, estimate=replace(items.estimate, method=method))
    return gain


def _names(arm: Matched, metric: str) -> _Names | str:
    """Return the names of the pairs; or why nothing is said of names like these."""
    if metric == "accuracy":
        return "clean answers rest on no name"
    if not (arm.a.attack.draws_names and arm.b.attack.draws_names):
        return "the attack draws no names"
    if None in (arm.a.arm.seed, arm.b.arm.seed):
        return "the attack is deterministic: it draws no other names from the same vocabulary"
    if not len(arm.pairs):
        return "no pair"
    sides = [
        [_drawn(run, cell.trials[i], first_only=arm.is_stored) for i in places]
        for run, cell, places in (
            (arm.first, arm.a, arm.pairs.first),
            (arm.second, arm.b, arm.pairs.second),
        )
    ]
    if arm.is_stored and any(len(names) > 1 for side in sides for names in side):
        return "a stored edit puts in several names, and which of them decides is unknown"
    drawn = [one | other for one, other in zip(*sides, strict=True)]
    # A model that knows nothing is shown no name: then the other's names are all that matter.
    n_names = [len(frozenset().union(*side)) for side in sides if sum(map(bool, side)) > 1]
    return _Names(drawn, min(n_names, default=0))


def _drawn(run: Run, trial: Trial, *, first_only: bool) -> frozenset[str]:
    if not first_only:
        return run.names(trial)
    _, edits = next(iter(run.edits(trial)), (0, ()))
    return frozenset(edit.replacement.casefold() for edit in edits)


def _of_net(
    arm: Matched, control: str, controls: tuple[Cell, Cell], margin: float | None, *, decides: bool
) -> Contrast:
    """Return the contrast of what is lost net of a control, on what is known in all four arms."""
    at = [_partners(cell, own) for cell, own in zip((arm.a, arm.b), controls, strict=True)]
    net = arm.where((at[0][arm.pairs.first] >= 0) & (at[1][arm.pairs.second] >= 0))
    i, j = net.pairs.first, net.pairs.second
    places = ((arm.a, i), (controls[0], at[0][i]), (arm.b, j), (controls[1], at[1][j]))
    a, c, b, d = (_good(cell, "asr", arm.budget).at(k) for cell, k in places)

    def gain(a: Mask, c: Mask, b: Mask, d: Mask) -> Numbers:
        """Return what A loses net of its control, minus what B does, where these held."""
        lost = (one.astype(np.float64) for one in (c, a, d, b))
        control_a, attack_a, control_b, attack_b = lost
        return np.asarray((control_a - attack_a) - (control_b - attack_b))

    ways = [gain(a.read, c.read, b.read, d.read)]
    if (b.failed | c.failed).any():
        ways.append(gain(a.read, c.read | c.failed, b.read | b.failed, d.read))
    if (a.best != a.read).any() or d.failed.any():
        ways.append(gain(a.best, c.read, b.read, d.read | d.failed))
    units, n = net.pairs.units, len(net.pairs)
    means = [mean(way, units, 2.0) for way in ways]
    seen = float((ways[0] ** 2).mean()) if n else 0.0
    worth = min(n / mean_size(tally(level)[0]) for level in units) if n else 0.0
    return net.contrast(
        "asr_net",
        decides,
        control=control,
        n_worst=int((a.read != a.plain).sum() + (b.read != b.plain).sum()),
        n_open=int((a.failed | b.failed | c.failed | d.failed).sum()),
        value_a=mean(c.read.astype(np.float64) - a.read, units).estimate,
        value_b=mean(d.read.astype(np.float64) - b.read, units).estimate,
        difference=_signed(means[0], is_good=False).estimate,
        names_reason="not computed for a difference of differences",
        interval90=_signed(means[0], is_good=False).interval90,
        p=means[0].p,
        power=[
            Detectable(
                discordance=square,
                difference=detectable_mean(worth, square) if n else None,
                is_assumed=square != seen,
            )
            for square in _discordances(seen)
            if decides
        ],
        claims=_claims(means, margin, net.pairs, ways[0] != 0),
    )


def _partners(cell: Cell, control: Cell) -> NDArray[np.int64]:
    """Return for each trial the place of its control's, where that knew the item; else -1."""
    pairs = pair(cell, control)
    at = np.full(len(cell.trials), -1)
    at[pairs.first[::-1]] = pairs.second[::-1]  # the first of several stays
    at[(at >= 0) & ~control.eligible[at]] = -1
    return at


def _of_score(
    arm: Matched, scores: Scored, metric: str, margin: float | None, *, decides: bool
) -> Contrast:
    """Return the contrast of a score of the whole data set; a drop is bad for the model."""
    value_a, value_b, change = scores.contrast(metric)
    gain = _signed(change, is_good=not metric.endswith("_drop"))
    return arm.contrast(
        metric,
        decides,
        n_items=scores.n_items,
        n_pairs=scores.n_items,
        value_a=value_a,
        value_b=value_b,
        difference=change.estimate,
        names_reason="a score of a whole data set rests on no single name",
        interval90=change.interval90,
        p=change.p,
        claims=_claims_of(gain, margin),
    )


def _signed(change: Difference, *, is_good: bool) -> Difference:
    """Turn a difference over where more of a measure is bad."""
    if is_good:
        return change
    low, high = change.interval90
    ends = (None, None) if low is None or high is None else (0.0 - high, 0.0 - low)
    return replace(change, estimate=negated(change.estimate), interval90=ends)


def _discordances(seen: float) -> Sequence[float]:
    """Return at which discordance power is said: at that of this run, or where few differ, two."""
    return (seen,) if seen >= ASSUMED[0] else ASSUMED


def _claims(
    ways: Sequence[Difference], margin: float | None, pairs: Pairs, differ: Mask
) -> frozenset[Claim]:
    """Return what holds in every way in which open answers may have ended."""
    claims = frozenset.intersection(*(_claims_of(way, margin) for way in ways))
    is_enough = len(np.unique(pairs.units[0][differ])) >= LEAST_UNITS
    return claims if is_enough else claims - {"better", "worse"}


def _claims_of(gain: Difference, margin: float | None) -> frozenset[Claim]:
    low, high, (low90, high90) = gain.estimate.low, gain.estimate.high, gain.interval90
    if low is None or high is None:
        return frozenset()
    claims: set[Claim] = {"better"} if low > 0 else {"worse"} if high < 0 else set()
    if margin is not None and low > -margin:
        claims.add("no worse")
    if margin is not None and low90 is not None and high90 is not None:
        claims |= {"equivalent", "no worse"} if -margin < low90 and high90 < margin else set()
    return frozenset(claims)
