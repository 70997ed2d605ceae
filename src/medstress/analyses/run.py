"""What analyses are handed: a run, its cells, and the results of other analyses.

A *cell* is the trials behind one row, as arrays. Every share is read from a cell and every paired
difference from two; masks give seeds, slices and splits.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import compress
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from medstress.analyses.people import unheard, with_words_of_people
from medstress.core.arms import Arm, AttackRecord, Place
from medstress.core.outcomes import Verdict
from medstress.core.text import Edit
from medstress.core.trials import Queries, Trial
from medstress.stats.estimate import Estimate, with_worst
from medstress.stats.paired import Difference, difference
from medstress.stats.shares import Mask, Units, number_units, rate
from medstress.store.reader import StoredInquiry
from medstress.store.trials import Folder

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
_PLACES = {verdict: i for i, verdict in enumerate(Verdict)}
NEVER = int(np.iinfo(np.int64).max)
"""The query of a first success that never came."""
LEDGER = ("asked", "paid", "cached", "failed", "ahead", "baseline", "other", "interrupted")
"""Names of the counts of queries, in the order of `summary --json`."""
Metric: TypeAlias = Literal["accuracy", "accuracy_after", "asr"]


_NUMBER = re.compile(r"((?<![^ =(])-?\d+(?:\.\d+)?|\d+)")
"""A number in a label; a hyphen between words is no sign."""


def _order(label: str) -> tuple[str | float, ...]:
    """Return what labels are sorted by: words and numbers in turn.

    >>> sorted(["n=-2", "n=10", "n=-30", "n=2"], key=_order)
    ['n=-30', 'n=-2', 'n=2', 'n=10']
    """
    parts = _NUMBER.split(label)
    return tuple(float(part) if i % 2 else part for i, part in enumerate(parts))


@dataclass(frozen=True, slots=True)
class Analysis(Generic[R_co]):
    """One capability: a typed result of a run, which shows itself (`medstress.analyses.shown`)."""

    name: str
    """Key in `summary --json`, and anchor in the report."""
    compute: Callable[[Run], R_co | None]
    """Returns the result; None where the run has nothing of the kind."""
    is_quiet: bool = False
    """Whether results have only tables that are not brief, and pictures: no remark or decision."""


class Run:
    """A run as it is read; nothing here writes, asks, or reaches a database.

    Attributes:
        folder: what its folder stores.
        manifest: the run's manifest.
        trials: all finished trials in the plan's order, with what people say of them.
    """

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.manifest: Mapping[str, Any] = folder.manifest
        self.trials: Sequence[Trial] = with_words_of_people(folder)
        self._results: dict[str, Any] = {}

    @classmethod
    def open(cls, path: Path) -> Run:
        """Read a run folder.

        Raises:
            StoreError: see `Folder`.
        """
        return cls(Folder(path))

    def of(self, analysis: Analysis[R]) -> R | None:
        """Return the result of an analysis, computed once."""
        if analysis.name not in self._results:
            self._results[analysis.name] = analysis.compute(self)
        return cast("R | None", self._results[analysis.name])

    @property
    def name(self) -> str:
        """The name of the experiment."""
        return str(self.manifest["config"]["experiment"]["name"])

    @property
    def is_complete(self) -> bool:
        """Whether every planned trial has ended."""
        return bool(self.manifest["complete"])

    @cached_property
    def cells(self) -> Sequence[Cell]:
        """A cell for each place and attack over its seeds, sorted; controls have cells too.

        Numbers in labels are sorted as numbers: n=-30 comes before n=-2.
        """
        trials: dict[tuple[Place, str], list[Trial]] = defaultdict(list)
        of_arm: dict[int, list[Trial]] = {}  # seeds share a list; to hash an arm takes long
        for trial in self.trials:
            arm = trial.arm
            if id(arm) not in of_arm:
                of_arm[id(arm)] = trials[arm.place, arm.attack.label]
            of_arm[id(arm)].append(trial)
        return [Cell.of(trials[key]) for key in sorted(trials, key=lambda k: (k[0], _order(k[1])))]

    @cached_property
    def attacks(self) -> Sequence[Cell]:
        """The cells of attacks: those of no control."""
        return [cell for cell in self.cells if not cell.arm.is_control]

    @cached_property
    def _controls(self) -> Mapping[tuple[Place, str], Sequence[Cell]]:
        controls: dict[tuple[Place, str], list[Cell]] = defaultdict(list)
        for cell in self.cells:
            if cell.arm.control_of is not None:
                controls[cell.place, cell.arm.control_of].append(cell)
        return controls

    def controls(self, cell: Cell) -> dict[str, Cell]:
        """Return the control arms of an attack by name, on the seeds of its cell."""
        own = self._controls.get((cell.place, cell.attack.label), ())
        return {control.attack.name: control.on_seeds(cell.seeds) for control in own}

    @cached_property
    def unheard(self) -> frozenset[str]:
        """The trials that only raters judged who are not believed."""
        return unheard(self.folder.reviews)

    @cached_property
    def clean(self) -> Mapping[Place, Mapping[str, Trial]]:
        """Place -> id of an item -> a trial whose clean answer is known: arms share that answer."""
        clean: dict[Place, dict[str, Trial]] = defaultdict(dict)
        for trial in self.trials:
            if trial.before is not None:
                clean[trial.arm.place].setdefault(trial.item.id, trial)
        return clean

    @cached_property
    def answered(self) -> Mapping[Place, Sequence[Trial]]:
        """Place -> one trial for each clean item that got an answer, by model, then by place."""
        places: dict[Place, dict[str, Trial]] = defaultdict(dict)
        for trial in self.trials:
            if trial.is_answered:
                places[trial.arm.place].setdefault(trial.item.id, trial)
        order = sorted(places, key=lambda place: (place.victim, place))
        return {place: list(places[place].values()) for place in order}

    @cached_property
    def by_model(self) -> Mapping[str, Sequence[Trial]]:
        """Label of a model -> its trials, sorted by label."""
        trials: dict[str, list[Trial]] = defaultdict(list)
        for trial in self.trials:
            trials[trial.arm.place.victim].append(trial)
        return dict(sorted(trials.items()))

    def inquiries(self, purpose: str) -> list[StoredInquiry]:
        """Return what was asked after the trials for a purpose, in order."""
        return [one for one in self.folder.inquiries if one.purpose == purpose]

    def names(self, trial: Trial) -> frozenset[str]:
        """Return the names that a trial's queries put in, case-folded; read when first wanted."""
        drawn = self.folder.names.get(trial.number, frozenset())
        first = None if trial.first is None else trial.first.name
        return drawn if first is None else drawn | {first}

    def edits(self, trial: Trial) -> Sequence[tuple[int, tuple[Edit, ...]]]:
        """Return (query, edits) of a trial's perturbed queries; read when first wanted."""
        return self.folder.edits.get(trial.number, ())

    def ledger(self, cell: Cell) -> dict[str, int]:
        """Return the queries of a cell under the names of `LEDGER`; asked = paid + cached + failed.

        The first four are sums over its trials.
        """
        sums = cell.queries.sum(axis=0).tolist()
        counts = {**dict.fromkeys(LEDGER, 0), **dict(zip(LEDGER[:4], sums, strict=False))}
        for seed in cell.seeds:
            key = (*cell.place, cell.attack.label, seed)
            for name, n in self.folder.other_counts.get(key, {}).items():
                counts[name] += n
        return counts


class Reading(NamedTuple):
    """What a share counts, trial by trial, as read and at its worst; every part of shape (n,)."""

    counts: Mask
    """Counts in the share."""
    hit: Mask
    may_count: Mask
    """Counts, or would with other answers."""
    least: Mask
    """Is a hit whatever the open answers were."""
    most: Mask
    """Is a hit, or might be."""

    def only(self, kept: Mask) -> Reading:
        """Return the reading of some trials alone."""
        return self._replace(counts=self.counts & kept, may_count=self.may_count & kept)

    def at(self, places: NDArray[Any]) -> Reading:
        """Return the reading of some trials in some order: by number, or by mask."""
        return Reading(*(part[places] for part in self))


def share_of(reading: Reading, units: Units) -> Estimate:
    """Estimate a share, with its worst ends where answers are open (METHODS 1.5).

    Args:
        reading: what it counts.
        units: of the answers, shape (levels, n).
    """
    hits, may = reading.hit[reading.counts], reading.may_count
    estimate = rate(hits, units[:, reading.counts])
    is_open = [reading.least[may] != reading.most[may], reading.counts != may]
    if not any(part.any() for part in is_open):
        return estimate
    least, most = (rate(part[may], units[:, may]) for part in (reading.least, reading.most))
    return with_worst(estimate, least, most)


@dataclass(frozen=True, kw_only=True, eq=False)
class Cell:
    """The trials behind one row: of one attack in one place, some seeds, all items or a slice.

    Masks and other columns have the shape (n,).
    """

    trials: Sequence[Trial]
    """In the plan's order."""
    units: Units
    """Numbers of document, item and part of each trial, shape (3, n)."""
    seed: NDArray[np.int64]
    """The place of its seed in `seeds`."""
    eligible: Mask
    """Right on the clean item, so attacked."""
    answered: Mask
    """The clean item was asked and answered."""
    open_clean: Mask
    """The clean answer is unreadable or missing."""
    lacks: Mask
    """An answer under attack is unreadable or missing."""
    mute: Mask
    """Attacked, and none of its answers could be read."""
    unseen: Mask
    """Attacked, and the model saw probes or the same text alone."""
    unread: Mask
    """The first success is an unreadable answer."""
    ended: NDArray[np.int64]
    """Place of its `Trial.ended` in the order of `Verdict`."""
    lost_clean: Mask
    """The clean item got no answer."""
    queries: NDArray[np.int64]
    """A `Queries` of each trial, shape (n, 10)."""
    first: NDArray[np.int64]
    """The query of the first success, `NEVER` without one."""
    seeds: Sequence[int | None]
    """Ascending."""

    @classmethod
    def of(cls, trials: Sequence[Trial]) -> Cell:
        """Return the cell of trials of one attack in one place; there must be one."""
        # All trials that ended alike have the same marks.
        alike: dict[tuple[Verdict, str | None], int] = {}
        number = [alike.setdefault((t.ended, t.at), len(alike)) for t in trials]
        one_of = dict(zip(number, trials, strict=True))
        marks = [
            (t.is_eligible, t.is_answered, t.is_open_clean, t.is_lost, not t.is_asked_clean)
            for t in (one_of[i] for i in range(len(alike)))
        ]
        eligible, answered, open_clean, lost, lost_clean = np.array(marks, dtype=bool)[number].T
        ended = np.array([_PLACES[one_of[i].ended] for i in range(len(alike))])[number]
        unread = np.array([t.first is not None and _is_unread(t) for t in trials], dtype=bool)
        queries = np.array([t.queries for t in trials], dtype=np.int64)
        q = Queries(*queries.T)
        first = np.array([NEVER if t.first is None else t.first.query for t in trials])
        unseen = eligible & (first == NEVER) & (q.asked <= q.probes + q.unchanged)
        # A perturbed copy that equals its original was asked: nothing was there to change.
        never_asked = unseen & (not trials[0].arm.attack.whole_copy)
        seeds = sorted({t.arm.seed for t in trials}, key=lambda s: (s is not None, s or 0))
        places = {seed: i for i, seed in enumerate(seeds)}
        return cls(
            trials=tuple(trials),
            units=number_units([t.path for t in trials]),
            seed=np.array([places[t.arm.seed] for t in trials]),
            eligible=eligible,
            answered=answered,
            open_clean=open_clean,
            lacks=lost | (q.unreadable > 0) | (q.failed > 0) | never_asked,
            mute=eligible & q.none_read,
            unseen=unseen,
            unread=unread,
            ended=ended,
            lost_clean=lost_clean,
            queries=queries,
            first=first,
            seeds=list(places),
        )

    @property
    def arm(self) -> Arm:
        """That of the first trial; `place`, `attack` and `control_of` hold for all."""
        return self.trials[0].arm

    @property
    def place(self) -> Place:
        """Where the attack was tried."""
        return self.arm.place

    @property
    def attack(self) -> AttackRecord:
        """The attack."""
        return self.arm.attack

    @property
    def labels(self) -> dict[str, str]:
        """Data set, group, victim and attack, as rows of results name them."""
        return {**self.place._asdict(), "attack": self.attack.label}

    @property
    def budget(self) -> int:
        """The most queries an item; of an attack without a budget, the most that a trial asked."""
        return max(self.attack.budget, int(self.queries[:, 0].max()))

    def where(self, kept: Mask) -> Cell | None:
        """Return the cell with some of its trials; None if there is none."""
        if not kept.any():
            return None
        used, seed = np.unique(self.seed[kept], return_inverse=True)
        columns = {name: getattr(self, name)[kept] for name in _COLUMNS}
        return replace(
            self,
            trials=tuple(compress(self.trials, kept.tolist())),
            units=self.units[:, kept],
            seed=seed,
            seeds=[self.seeds[i] for i in used],
            **columns,
        )

    def on_seeds(self, seeds: Iterable[int | None]) -> Cell:
        """Return the cell on some seeds.

        An attack without random numbers (seed None) counts for every seed, and every seed next to
        it. A cell that has none of the seeds is returned whole.
        """
        wanted = {*seeds, None}
        if None in seeds or set(self.seeds) <= wanted:
            return self
        return self.where(np.array([seed in wanted for seed in self.seeds])[self.seed]) or self

    def by_seed(self) -> Iterator[Cell]:
        """Yield the cell of each seed."""
        for i, _ in enumerate(self.seeds):
            cell = self.where(self.seed == i)
            assert cell is not None
            yield cell

    def by_attempt(self) -> Cell:
        """Return the cell in which a success counts at its attempt: budgets are attempts there."""
        first = [
            NEVER if t.first is None else t.first.attempt or t.first.query for t in self.trials
        ]
        return replace(self, first=np.array(first))

    def flipped(self, budget: int) -> Mask:
        """Return which trials are flipped within a budget."""
        return np.asarray(self.eligible & (self.first <= budget))

    def surely(self, budget: int) -> Mask:
        """Return which trials are flipped within a budget by an answer that could be read."""
        return np.asarray(self.flipped(budget) & ~self.unread)

    def maybe(self, budget: int) -> Mask:
        """Return which trials may be flipped within a budget: flipped, or an answer is open."""
        return np.asarray(~self.eligible | self.flipped(budget) | self.lacks)

    def read(self, metric: Metric, budget: int | None = None) -> Reading:
        """Return what a share counts.

        Args:
            metric: `accuracy` on clean items, `accuracy_after` the attack, or `asr`.
            budget: perturbed queries; default: the attack's.
        """
        b = self.budget if budget is None else budget
        right, may_be_answered = self.eligible, self.answered | self.open_clean
        if metric == "accuracy":
            return Reading(self.answered, right, may_be_answered, right, right | self.open_clean)
        if metric == "accuracy_after":
            kept = right & ~self.flipped(b)
            most = self.open_clean | (right & ~self.surely(b))
            return Reading(self.answered, kept, may_be_answered, right & ~self.maybe(b), most)
        may_be_right = right | self.open_clean
        return Reading(right, self.flipped(b), may_be_right, self.surely(b), self.maybe(b))

    def share(self, reading: Reading) -> Estimate:
        """Estimate a share, with its worst ends where answers are open (METHODS 1.5)."""
        return share_of(reading, self.units)

    def rate(self, hits: Mask, counts: Mask) -> Estimate:
        """Estimate the share of hits among some trials."""
        return rate(hits[counts], self.units[:, counts])

    @cached_property
    def pairings(self) -> Sequence[tuple[str, str, int]]:
        """`Trial.pairing` of each trial: an attack is paired with each of its controls."""
        return [trial.pairing for trial in self.trials]

    def mask(self, holds: Callable[[Trial], bool]) -> Mask:
        """Return which trials something holds of."""
        return np.array([holds(trial) for trial in self.trials], dtype=bool)

    def has(self, *verdicts: Verdict) -> Mask:
        """Return which trials ended in one of some ways."""
        return np.isin(self.ended, [_PLACES[verdict] for verdict in verdicts])

    def items(self, kept: Mask | None = None) -> int:
        """Count the items, of all trials or of some."""
        kept_all = np.ones(len(self.trials), dtype=bool) if kept is None else kept
        return len(np.unique(self.units[1][kept_all]))

    def one_per_item(self) -> Cell:
        """Return the cell with one trial an item: clean answers are shared.

        One whose clean item was answered if there is one, then the smallest seed and repeat.
        """
        seeds = np.array([seed or 0 for seed in self.seeds])[self.seed]
        repeats = np.array([t.repeat for t in self.trials])
        order = np.lexsort((repeats, seeds, ~self.answered))
        kept = np.zeros(len(self.trials), dtype=bool)
        kept[order[np.unique(self.units[1][order], return_index=True)[1]]] = True
        cell = self.where(kept)
        assert cell is not None
        return cell


_APART = ("trials", "units", "seed", "seeds")
_COLUMNS = tuple(one.name for one in fields(Cell) if one.name not in _APART)
"""What `Cell.where` cuts besides trials, units and seeds."""


def _is_unread(trial: Trial) -> bool:
    first = trial.first
    return (
        bool(trial.item.choices)
        and first is not None
        and first.answer.answer is None
        and trial.queries.unreadable > 0
    )


class Pairs:
    """Trials of two cells on the same item, part, repeat and seed.

    Attributes:
        first: places in the first cell, shape (n,).
        second: places in the second cell.
        units: of the pairs, shape (3, n); documents that either cell knows.
    """

    __slots__ = ("first", "second", "units")

    def __init__(self, first: NDArray[np.int64], second: NDArray[np.int64], units: Units) -> None:
        self.first, self.second, self.units = first, second, units

    def where(self, kept: Mask) -> Pairs:
        """Return some of the pairs."""
        return Pairs(self.first[kept], self.second[kept], self.units[:, kept])

    def __len__(self) -> int:
        return len(self.first)


def pair(first: Cell, second: Cell, key: Callable[[Trial], Any] | None = None) -> Pairs:
    """Pair trials of two cells; one without random numbers counts for every seed of the other.

    Args:
        first: a cell, whose items and parts the pairs have.
        second: the other, perhaps of a run that knows other documents.
        key: what both trials of a pair have alike, but for the seed; default: `Trial.pairing`.
    """
    own_keys, other_keys = (
        cell.pairings if key is None else map(key, cell.trials) for cell in (first, second)
    )
    places: dict[Any, list[tuple[int | None, int]]] = defaultdict(list)
    for j, (trial, at) in enumerate(zip(second.trials, other_keys, strict=True)):
        places[at].append((trial.arm.seed, j))
    both = [
        (i, j)
        for i, (trial, at) in enumerate(zip(first.trials, own_keys, strict=True))
        for seed, j in places.get(at, ())
        if trial.arm.seed == seed or None in (trial.arm.seed, seed)
    ]
    ours, others = np.array(both, dtype=np.int64).reshape(-1, 2).T
    units = first.units[:, ours]
    units[0] = _joined(units[0], second.units[0, others])
    return Pairs(ours, others, units)


def _joined(first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the units that hold all that either side has in one: each the least of `first`."""
    joined, before = first, None
    while before is None or (joined != before).any():
        before = joined
        for side in (second, first):
            least = np.full(side.max(initial=-1) + 1, NEVER)
            np.minimum.at(least, side, joined)
            joined = least[side]
    return joined


def compared(
    first: Cell, second: Cell, metric: Metric = "asr", budget: int | None = None
) -> Difference:
    """Estimate how much larger a share is in one cell than in another, on what both hold."""
    pairs = pair(first, second)
    ours, others = first.read(metric, budget), second.read(metric, budget)
    return contrast(ours.at(pairs.first), others.at(pairs.second), pairs.units)


def contrast(first: Reading, second: Reading, units: Units, level: float = 0.95) -> Difference:
    """Estimate how much more often one cell has a hit than another, pair by pair.

    Args:
        first: the reading of the first cell, one place a pair (`Reading.at`).
        second: the same of the second.
        units: of the pairs, shape (levels, n).
        level: of the interval, two-sided.

    Returns:
        The difference on the pairs that count in both. Where answers are open it knows its worst
        ends, and p is the largest that they allow: 1 where they may turn the sign.
    """
    both, may = first.counts & second.counts, first.may_count & second.may_count

    def of(kept: Mask, ours: Mask, others: Mask) -> Difference:
        return difference(ours[kept], others[kept], units[:, kept], level)

    net = of(both, first.hit, second.hit)
    is_open = any(
        ((part.least != part.most) & may).any() or (part.counts != part.may_count).any()
        for part in (first, second)
    )
    if not is_open:
        return net
    least, most = of(may, first.least, second.most), of(may, first.most, second.least)
    estimate = with_worst(net.estimate, least.estimate, most.estimate)
    may_turn = (least.estimate.value or 0.0) <= 0.0 <= (most.estimate.value or 0.0)
    p = None if net.p is None else max(net.p, least.p or 0.0, most.p or 0.0)
    return replace(net, estimate=estimate, p=1.0 if may_turn and p is not None else p)
