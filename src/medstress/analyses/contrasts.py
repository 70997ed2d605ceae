"""The measures of one arm in A and in B, paired: what they are, and what intervals show of B.

Where both arms draw names at random, what is shown rests on names like these: items and names are
resampled together, because an item test speaks of the names that were drawn. Unreadable answers of
B count as lost; what speaks for B has to hold with those of A counted as right. Where calls failed,
or answers about harmless edits are unreadable, it has to hold whatever these would have been.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import floor
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from medstress.analyses.run import Cell, Metric, Pairs, Reading, Run, pair
from medstress.analyses.scores import Scored, scored
from medstress.analyses.scores import scores as scores_of
from medstress.analyses.shown import (
    ENTITIES,
    HIDDEN,
    TEXTS,
    Noun,
    OfAttack,
    control_words,
    noun_of,
)
from medstress.analyses.success import doubt, reach, readings
from medstress.core.outcomes import Verdict
from medstress.core.trials import Trial
from medstress.stats.estimate import Ends, Estimate, negated
from medstress.stats.paired import (
    ASSUMED,
    LEAST_UNITS,
    Difference,
    detectable,
    difference,
    difference_of_names,
    mean,
    p_of_names,
)
from medstress.stats.resampling import Drawn
from medstress.stats.shares import Mask, Numbers, Units, rate

Decision: TypeAlias = Literal[
    "worse",
    "nothing to compare",
    "undecided",
    "worse by less than the margin",
    "no worse than the margin",
    "equivalent within the margin",
    "better",
]
"""What a row can show of B, the one to heed first."""
Places: TypeAlias = NDArray[np.int64]
Called: TypeAlias = tuple[Mapping[str, str], Mapping[str, str]]
"""Label of an attack -> its name, in A and in B."""
Claim: TypeAlias = Literal["better", "worse", "equivalent", "no worse"]
_WORDS = {
    "accuracy_after": "accuracy after",
    "accuracy": "accuracy before",
    "asr": "lost (ASR)",
    "asr_net": "lost net of {control}",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Detectable:
    """The smallest difference that as many pairs find with 80 % power."""

    discordance: float
    """Share of the pairs in which A and B differ."""
    difference: float | None
    """None if so few find none."""
    is_assumed: bool
    """Whether fewer were seen to differ, so that the discordance is a guess."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """One measure of one arm in A and in B; differences are B minus A."""

    a: OfAttack
    b: OfAttack
    metric: str
    words: str = field(default="", metadata=HIDDEN)
    """The measure in words, where it is a score."""
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
    """Pairs that a failed call leaves open, or that no edit was shown."""
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
    """Of what decides; for names like these at least that of the items, and of `asr_net` at least
    that of what is lost to the attack."""
    p_adjusted: float | None = None
    power: Sequence[Detectable] = ()
    """Of shares that decide."""
    claims: frozenset[Claim] = field(metadata=HIDDEN)
    """What the intervals show of B, before p has a say."""
    noun: Noun = field(metadata=HIDDEN)
    n_differ: int | None = field(default=None, metadata=HIDDEN)
    """Items (documents) on which A and B differ; None where the measure is no share."""
    doubt: str | None = field(default=None, metadata=HIDDEN)
    """Why something is not claimed although the intervals show it."""
    why: str = field(default="", metadata=HIDDEN)
    """Why nothing is decided, or what shows that A and B are equivalent; else empty."""

    @property
    def decisive(self) -> Estimate:
        """What decides: the difference for names like these, where there is one."""
        return self.names_like_these or self.difference

    @property
    def measure(self) -> str:
        """The measure in a few words."""
        words = self.words or _WORDS[self.metric]
        return words.format(control=(self.control or "").replace("_", " "))

    def labels(self, name: str, called: Called = ({}, {})) -> str:
        """Return a label of the arms: `dataset`, `group`, `victim` or `attack`; or its name."""
        own = getattr(self.a, name), getattr(self.b, name)
        a, b = (names.get(label, label) for names, label in zip(called, own, strict=True))
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
    is_of_one_model: bool = False
    """Whether A and B attack the same model, of which harmless edits say the same."""

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
        a, b = (OfAttack(**cell.labels) for cell in cells)
        noun = noun_of(trials[0])
        counts = {
            "n_items": len({trials[i].item.id for i in self.pairs.first}),
            "n_pairs": len(self.pairs),
            "noun": TEXTS if noun is ENTITIES else noun,  # which items are
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
    sides = (arm.first, a), (arm.second, b)
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
        wanted = metric or (wanted if scores.after is None else f"{scores.scoring.main}_after")
        every = [scores_of(run, cell) for run, cell in sides]
        for name in scores.shown(wanted):
            row = _of_score(arm, scores, name, margin, decides=name == wanted)
            whys = [of.doubt(name) if of and not arm.is_of_one_model else None for of in every]
            yield _doubted(row, _doubts(whys))
    judged = arm.where(_ended(a)[both.first] & _ended(b)[both.second])
    if not len(judged.pairs):
        return
    i, j = judged.pairs.first, judged.pairs.second
    common = judged.where(np.asarray(a.eligible[i] & b.eligible[j]))
    whys = [None if arm.is_of_one_model else doubt(*side, arm.budget) for side in sides]
    doubts = _doubts(whys)
    for share in shares:
        kept = common if share == "asr" else judged
        row = _of_share(kept, share, margin, decides=share == wanted)
        yield row if share == "accuracy" else _doubted(row, doubts)
    controls = arm.first.controls(a), arm.second.controls(b)
    for name in controls[0]:
        if name in controls[1]:
            cells = controls[0][name], controls[1][name]
            yield _of_net(common, name, cells, margin, doubts, decides=wanted == "asr_net")


def _doubts(whys: Iterable[str | None]) -> dict[str, frozenset[Claim]]:
    """Return why the attack says too little of a model, and what is not claimed then.

    Where harmless edits lose more of B's answers nothing speaks for it, and of A's nothing for
    equality.

    Args:
        whys: which harmless edits surely lose more than the attack, in A and in B.
    """
    sides: Sequence[tuple[str, frozenset[Claim]]] = (
        ("A", frozenset({"equivalent"})),
        ("B", frozenset({"equivalent", "no worse", "better"})),
    )
    both = zip(whys, sides, strict=True)
    return {f"{why} in {name}": claims for why, (name, claims) in both if why is not None}


def _doubted(row: Contrast, doubts: Mapping[str, frozenset[Claim]]) -> Contrast:
    for why, claims in doubts.items():
        if row.claims & claims:
            row = replace(row, claims=row.claims - claims, doubt=why)
    return row


def _ended(cell: Cell) -> Mask:
    """Return which trials are more than a measurement and could be attacked."""
    return ~cell.has(Verdict.MEASURED, Verdict.NOT_ATTACKABLE)


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


def _good(cell: Cell, metric: Metric, budget: int | None, places: Places) -> _Good:
    """Read trials of a cell, at some places; `budget` is None for all queries."""
    clean = cell.open_clean & ~cell.answered
    failed = _failed(cell, budget)
    reading = cell.read(metric, budget).at(places)
    if metric == "asr":
        return _held(reading, failed[places])
    failed = clean if metric == "accuracy" else clean | failed
    return _Good(reading.hit, reading.least, reading.most, failed[places])


def _held(reading: Reading, failed: Mask) -> _Good:
    return _Good(~reading.hit, ~reading.most, ~reading.least, failed)


def _failed(cell: Cell, budget: int | None) -> Mask:
    """Return which trials a failed call under attack leaves open, or that no edit was shown."""
    lacks = cell.eligible & cell.mask(lambda t: _lacks_calls(t, budget))
    if not cell.attack.whole_copy:
        lacks |= cell.unseen
    return np.asarray(lacks & ~cell.flipped(cell.budget if budget is None else budget))


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
    a = _good(arm.a, metric, arm.budget, pairs.first)
    b = _good(arm.b, metric, arm.budget, pairs.second)
    units, names = pairs.units, _names(arm, metric)

    def way(a_held: Mask, b_held: Mask) -> Difference:
        gain = difference(b_held, a_held, units)
        if not isinstance(names, str) and gain.p is not None:
            took = (
                [(arm.a, pairs.first[b_held & ~a_held])],
                [(arm.b, pairs.second[a_held & ~b_held])],
            )
            gain = replace(gain, p=max(gain.p, _p_of_names(*took)))
        return _of_names(gain, b_held.astype(np.float64) - a_held, units, names)

    ways = [way(a.read, b.read)]
    if b.failed.any():
        ways.append(way(a.read, b.read | b.failed))
    if (a.best != a.read).any():
        ways.append(way(a.best, b.read))
    gain = difference(b.read, a.read, units)
    seen = (gain.only_first + gain.only_second) / max(len(pairs), 1)
    worth = floor(len(pairs) / gain.estimate.effect)
    first, second = gain.only_second, gain.only_first
    return arm.contrast(
        metric,
        decides,
        n_worst=int((a.read != a.plain).sum() + (b.read != b.plain).sum()),
        n_open=int((a.failed | b.failed).sum()),
        value_a=rate(a.read == is_good, units),
        value_b=rate(b.read == is_good, units),
        only_a=first if is_good else second,
        only_b=second if is_good else first,
        power=[
            Detectable(discordance=d, difference=detectable(worth, d), is_assumed=d != seen)
            for d in ((seen,) if seen >= ASSUMED[0] else ASSUMED)
            if decides
        ],
        **_shown(gain, ways, names, is_good=is_good),
        claims=_claims(ways, margin, n_differ := _n_units(pairs, a.read != b.read)),
        n_differ=n_differ,
    )


class _Names(NamedTuple):
    """The names that each pair rests on, and how many the arm with fewer drew."""

    drawn: Sequence[frozenset[str]]
    n: int


def _of_names(
    gain: Difference, values: Numbers, units: Units, names: _Names | str, reach: float = 1.0
) -> Difference:
    """Return what decides: the difference for names like these, where there are names.

    Its intervals reach at least as far as those for exactly these names.

    Args:
        gain: for exactly these names.
        values: of the pairs, whose mean it is.
        units: of the pairs.
        names: of the pairs; or why there are none.
        reach: the largest value there can be.
    """
    if isinstance(names, str):
        return gain
    like = difference_of_names(values, units[0], names.drawn, names.n, reach=reach)
    if like.p is not None and gain.p is not None:
        # Where nearly all pairs agree, the interval over items and names is too short.
        one, other = like.estimate, gain.estimate
        low, high = _wider((one.low, one.high), (other.low, other.high))
        return replace(
            like,
            estimate=replace(
                one, low=low, high=high, method=f"{one.method}, at least {other.method}"
            ),
            interval90=_wider(like.interval90, gain.interval90),
            p=max(like.p, gain.p),
        )
    if names.n > 1 and (n := len(np.unique(units[0]))) > 1 and gain.p is not None:
        # No two pairs differ: of names like these as many answers are known as names were drawn.
        one, m, value = gain.estimate, min(n, names.n), float(values.mean())
        alike = Drawn(m, "names", (-reach, reach))
        low, high = _wider((one.low, one.high), alike.ends(value))
        method = f"{one.method}, at least {m} independent answers, for {names.n} names were drawn"
        narrow = _wider(gain.interval90, alike.ends(value, 0.9))
        estimate = replace(one, low=low, high=high, method=method)
        return replace(gain, estimate=estimate, interval90=narrow)
    return like


def _wider(*intervals: Ends) -> Ends:
    """Return the ends that reach as far as all intervals."""
    lows, highs = zip(*intervals, strict=True)
    return min(x for x in lows if x is not None), max(x for x in highs if x is not None)


_Took: TypeAlias = Sequence[tuple[Cell, Places]]
"""Arms, each with the places of trials that only it lost."""


def _p_of_names(first: _Took, second: _Took) -> float:
    """Return `p_of_names` of what took items on one side alone; an item that no name took is its
    own."""
    a, b = (
        {
            (cell.attack.draws_names and t.first and t.first.name) or t.item.id
            for cell, places in side
            for t in (cell.trials[k] for k in places)
        }
        for side in (first, second)
    )
    return p_of_names(a, b)


def _shown(
    gain: Difference,
    ways: Sequence[Difference],
    names: _Names | str,
    *,
    is_good: bool,
) -> dict[str, Any]:
    """Return the parts of a contrast that say how large the difference is."""
    basis = _signed(ways[0], is_good=is_good)
    has_names = not isinstance(names, str) and basis.estimate.low is not None
    reason = names if isinstance(names, str) else basis.estimate.method
    return {
        "difference": _signed(gain, is_good=is_good).estimate,
        "names_like_these": basis.estimate if has_names else None,
        "names_reason": None if has_names else reason,
        "interval90": basis.interval90,
        "p": basis.p,
    }


_Drawing: TypeAlias = tuple[Run, Cell, Places]
"""A run, one of its cells, and the places of the trials that a difference rests on."""


def _names(arm: Matched, metric: str, *controls: _Drawing) -> _Names | str:
    """Return the names of the pairs; or why nothing is said of names like these.

    Those of controls that draw names as well count too.
    """
    if metric == "accuracy":
        return "clean answers rest on no name"
    if not (arm.a.attack.draws_names and arm.b.attack.draws_names):
        return "the attack draws no names"
    if None in (arm.a.arm.seed, arm.b.arm.seed):
        return "the attack is deterministic: it draws no other names from the same vocabulary"
    if not len(arm.pairs):
        return "no pair"
    attacks = (arm.first, arm.a, arm.pairs.first), (arm.second, arm.b, arm.pairs.second)
    drawing = [c for c in controls if c[1].attack.draws_names and c[1].arm.seed is not None]
    sides = [
        [_drawn(run, cell.trials[i], first_only=arm.is_stored) for i in places]
        for run, cell, places in (*attacks, *drawing)
    ]
    if arm.is_stored and any(len(names) > 1 for side in sides for names in side):
        return "a stored edit puts in several names, and which of them decides is unknown"
    drawn = [frozenset[str]().union(*of_pair) for of_pair in zip(*sides, strict=True)]
    # A model that knows nothing is shown no name: then the other's names are all that matter.
    n_names = [len(frozenset().union(*side)) for side in sides if sum(map(bool, side)) > 1]
    return _Names(drawn, min(n_names, default=0))


def _drawn(run: Run, trial: Trial, *, first_only: bool) -> frozenset[str]:
    if not first_only:
        return run.names(trial)
    _, edits = next(iter(run.edits(trial)), (0, ()))
    return frozenset(edit.replacement.casefold() for edit in edits)


def _of_net(
    arm: Matched,
    control: str,
    controls: tuple[Cell, Cell],
    margin: float | None,
    doubts: Mapping[str, frozenset[Claim]],
    *,
    decides: bool,
) -> Contrast:
    """Return the contrast of what is lost net of a control, on what is known in all four arms.

    A net is lower where harmless edits take more, which makes no model better. So what it shows has
    to hold of what is lost to the attack as well: noise that is independent of the loss moves the
    two in opposite ways.
    """
    at = [_partners(cell, own) for cell, own in zip((arm.a, arm.b), controls, strict=True)]
    net = arm.where((at[0][arm.pairs.first] >= 0) & (at[1][arm.pairs.second] >= 0))
    pairs = net.pairs

    def good(run: Run, cell: Cell, control: Cell, places: Places, of: Places) -> list[_Good]:
        """Read an attack and its control, as far as gates and repeats let the attack ask."""
        both = Pairs(places, of[places], cell.units[:, places])
        budget = cell.budget if arm.budget is None else arm.budget
        read = readings(cell, control, both, budget, reach(run, cell))
        failed = _failed(cell, arm.budget)[both.first], _failed(control, arm.budget)[both.second]
        return list(map(_held, read, failed))

    a, c = good(arm.first, arm.a, controls[0], pairs.first, at[0])
    b, d = good(arm.second, arm.b, controls[1], pairs.second, at[1])

    def gain(a: Mask, c: Mask, b: Mask, d: Mask) -> Numbers:
        """Return what A loses net of its control, minus what B does, where these held."""
        lost = (one.astype(np.float64) for one in (c, a, d, b))
        control_a, attack_a, control_b, attack_b = lost
        return np.asarray((control_a - attack_a) - (control_b - attack_b))

    # As shown an answer that is open counts against the model: against A, then for B.
    shown = gain(a.read, c.best, b.read, d.best)
    ends = gain(a.best, c.read, b.read, d.best), gain(a.read, c.best, b.read | b.failed, d.read)
    values = [shown, *(way for way in ends if (way != shown).any())]
    units = net.pairs.units
    names = _names(
        net,
        "asr_net",
        (arm.first, controls[0], at[0][pairs.first]),
        (arm.second, controls[1], at[1][pairs.second]),
    )
    means = [mean(way, units, 2.0) for way in values]
    if not isinstance(names, str) and means[0].p is not None:
        more, less = shown > 0, shown < 0
        of_a, of_b = (at[0][pairs.first], at[1][pairs.second])
        took = (
            [
                (arm.a, pairs.first[more & b.read & ~a.read]),
                (controls[1], of_b[more & c.best & ~d.best]),
            ],
            [
                (arm.b, pairs.second[less & a.read & ~b.read]),
                (controls[0], of_a[less & d.best & ~c.best]),
            ],
        )
        means[0] = replace(means[0], p=max(means[0].p, _p_of_names(*took)))
    ways = [_of_names(m, way, units, names, 2.0) for m, way in zip(means, values, strict=True)]
    row = net.contrast(
        "asr_net",
        decides,
        control=control,
        n_worst=sum(int((one.read != one.plain).sum()) for one in (a, b, c, d)),
        n_open=int((a.failed | b.failed | c.failed | d.failed).sum()),
        value_a=mean(c.best.astype(np.float64) - a.read, units).estimate,
        value_b=mean(d.best.astype(np.float64) - b.read, units).estimate,
        **_shown(means[0], ways, names, is_good=False),
        claims=_claims(ways, margin, n_differ := _n_units(net.pairs, shown != 0)),
        n_differ=n_differ,
    )
    alone = _of_share(net, "asr", margin, decides=False)
    if row.p is not None and alone.p is not None:
        row = replace(row, p=max(row.p, alone.p))
    why = f"{control_words(control)} may make or hide the difference"
    return _doubted(row, {**doubts, why: frozenset(get_args(Claim)) - alone.claims})


def _partners(cell: Cell, control: Cell) -> Places:
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
    claims = _claims_of(gain, margin)
    if gain.estimate.value is None and gain.p is not None and (value_a.low or 0.0) > 0:
        claims = frozenset({"worse"})  # B says nothing where A surely says something
    return arm.contrast(
        metric,
        decides,
        words=scores.words(metric),
        n_items=scores.n_items,
        n_pairs=scores.n_items,
        value_a=value_a,
        value_b=value_b,
        difference=change.estimate,
        names_reason="a score of a whole data set rests on no single name",
        interval90=change.interval90,
        p=change.p,
        claims=claims,
    )


def _signed(change: Difference, *, is_good: bool) -> Difference:
    """Turn a difference over where more of a measure is bad."""
    if is_good:
        return change
    low, high = change.interval90
    ends = (None, None) if low is None or high is None else (0.0 - high, 0.0 - low)
    return replace(change, estimate=negated(change.estimate), interval90=ends)


def _n_units(pairs: Pairs, differ: Mask) -> int:
    return len(np.unique(pairs.units[0][differ]))


def _claims(ways: Sequence[Difference], margin: float | None, n_differ: int) -> frozenset[Claim]:
    """Return what holds in every way in which open answers may have ended."""
    claims = frozenset.intersection(*(_claims_of(way, margin) for way in ways))
    return claims if n_differ >= LEAST_UNITS else claims - {"better", "worse"}


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
