"""Criteria: judged by the ends of intervals, open answers at their worst; every row has to meet
them.

A criterion is met, missed, or not judged: where the run is not complete, where more than a tenth of
the eligible trials saw no edit, and where nothing can be counted. Where an arm draws names at
random, the interval holds for names like these too (METHODS 1.5).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from medstress.analyses.results import RESULTS
from medstress.analyses.run import Analysis, Cell, Pairs, Reading, Run, contrast, pair
from medstress.analyses.shown import (
    HIDDEN,
    Decision,
    Entry,
    Outcome,
    Remark,
    Shown,
    Table,
    column,
    table,
)
from medstress.analyses.slices import SLICES, Slice
from medstress.analyses.success import UNSEEN, at_budget, doubt, reach, readings
from medstress.analyses.validity import validity
from medstress.core.errors import MedstressError
from medstress.core.hashing import content_hash
from medstress.core.trials import Trial
from medstress.stats.estimate import Ends, Estimate, quantile, wilson_ends
from medstress.stats.paired import LEAST_UNITS, difference_of_names
from medstress.stats.resampling import Drawn
from medstress.stats.shares import Mask, Numbers, Units, rate

Criterion = Mapping[str, Any]
"""As the manifest keeps it: metric, a limit, and where it is read."""
OpenRun = Callable[[Run, str], Run]
"""(this run, folder as the criterion names it) -> the baseline run."""
LIMITS = ("max_high", "min_low")
SHARES = ("accuracy", "accuracy_after", "asr")
OF_CONTROLS = ("control", "asr_net")
OF_SUCCESSES = ("asr_valid",)
MOST_LOST = (("max_high", "asr"), ("max_high", "asr_valid"), ("min_low", "accuracy_after"))
"""Limits on what may be lost: not met where harmless edits lose more than the attack."""
PLACES = ("dataset", "group", "victim", "attack")
NOT_COMPLETE = "the run is not complete"
NO_ROW = "no row of the run is what `where` asks for"
NOTHING = "nothing could be counted"
NO_BASELINE = "the baseline "
"""Begins every reason that lies in the run that a criterion compares with."""
FOR_NAMES = (
    "Intervals of criteria hold for names like those that were drawn too, those of the results for "
    "exactly these names."
)
FEW_DIFFER = f"attack and control differ on {{n}} items, and fewer than {LEAST_UNITS} may be chance"
NO_UPPER_NET = "noise lowers what is net of a control, so an upper limit says nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A criterion, judged by the row that is worst off."""

    metric: str
    at_budget: int | None
    bound: Mapping[str, float]
    """`max_high` or `min_low`."""
    control: str | None
    slice: Mapping[str, str] | None
    against: Mapping[str, str | None] | None
    row: Mapping[str, str] | None
    estimate: Estimate | None
    met: bool | None
    """None: not judged."""
    reason: str | None
    """Why it is missed or not judged."""
    caution: str | None = None
    """What a reader has to know even where it is met."""
    asked: Criterion = field(metadata=HIDDEN)
    """The criterion: `slice` and `control` above are those of the worst row."""

    @property
    def words(self) -> str:
        """The criterion in words."""
        ((limit, value),) = self.bound.items()
        parts = [f"{self.metric} {'at most' if limit == 'max_high' else 'at least'} {value:g}"]
        parts += [f"within {self.at_budget} queries"] if self.at_budget is not None else []
        parts += [f"control {self.control}"] if self.control else []
        parts += [f"against {self.against['run']}"] if self.against else []
        parts += [f"{s['by']} = {s.get('value', 'any')}"] if (s := self.asked.get("slice")) else []
        return ", ".join((*parts, *self.asked.get("where", {}).values()))

    @property
    def verdict(self) -> str:
        """`met`, `missed` or `not judged`."""
        return {True: "met", False: "missed", None: "not judged"}[self.met]


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements(Shown):
    """All criteria of a run."""

    rows: Sequence[Judged]
    title = "Criteria"
    is_brief = True

    @property
    def fails(self) -> bool:
        """Whether one is missed or not judged: exit code 3."""
        return any(row.met is not True for row in self.rows)

    def tables(self) -> Sequence[Table]:
        """One line a criterion."""
        notes = (
            [FOR_NAMES]
            if any(r.estimate and "two-way" in r.estimate.method for r in self.rows)
            else []
        )
        return [table("requirements", "Criteria", self.rows, FIELDS, n_labels=1, notes=notes)]

    def remarks(self) -> Iterator[Remark]:
        """Say which criteria are missed or not judged, and that the run was extended."""
        return (remark for row in self.rows for remark in _remarks(row))

    def decisions(self) -> Sequence[Decision]:
        """Return a case for each criterion: missed is a failure, not judged an error."""
        outcomes: Mapping[bool | None, Outcome] = {True: "ok", False: "failed", None: "error"}
        return [
            Decision(
                name=row.words,
                outcome=outcomes[row.met],
                sentence=f"{row.words} is {row.verdict}"
                + (f": {row.reason}" if row.reason else "")
                + (f" ({row.caution})" if row.caution else ""),
            )
            for row in self.rows
        ]


def _remarks(row: Judged) -> Iterator[Remark]:
    at = tuple(row.row.values()) if row.row else ()
    if row.met is not True:
        rule = "criterion_missed" if row.met is False else "criterion_not_judged"
        sentence = f"The criterion {row.words} is {row.verdict}: {row.reason}."
        yield Remark(rule=rule, where=at, sentence=sentence)
    if row.caution:
        sentence = f"The criterion {row.words}: {row.caution}."
        yield Remark(rule="criterion_extended", where=at, sentence=sentence)


class Measured(NamedTuple):
    """What a criterion reads in one row."""

    row: Mapping[str, str]
    estimate: Estimate | None
    why: str | None = None
    """Why it cannot be judged."""
    more: Mapping[str, Any] = {}
    """Which control, slice or baseline."""
    doubt: str | None = None
    """Why it is not met although no end is beyond the limit."""


def requirements_of(run: Run, open_run: OpenRun | None = None) -> Requirements | None:
    """Judge the criteria that were fixed before the first query; None without any.

    Args:
        run: the run.
        open_run: opens baseline runs; without it, criteria against one are not judged.
    """
    fixed = run.manifest.get("require")
    if not fixed or not fixed["criteria"]:
        return None
    n = fixed.get("extended", 0)
    times = "once" if n == 1 else f"{n} times"
    caution = f"the run was extended {times} after its first query" if n else None
    reader, rows = _Reader(run, open_run), []
    for criterion in fixed["criteria"]:
        if not run.is_complete:
            judged = _judged(criterion, None, None, NOT_COMPLETE)
        else:
            judged = judge(criterion, list(reader.measure(criterion)))
        rows.append(replace(judged, caution=caution))
    return Requirements(rows=rows)


def judge(criterion: Criterion, rows: Sequence[Measured]) -> Judged:
    """Judge a criterion by what is read in every row that it is about.

    One row that misses the limit makes it missed, whatever could not be judged; else one that
    cannot be judged leaves it open.
    """
    if not rows:
        return _judged(criterion, None, None, _why_no_row(criterion))
    upper = "max_high" in criterion
    if upper and criterion["metric"] == "asr_net":
        return _judged(criterion, None, None, NO_UPPER_NET)
    limit = float(criterion["max_high" if upper else "min_low"])

    def beyond(row: Measured) -> float | None:
        """Return how far the end that decides lies beyond the limit; None if nothing decides."""
        if row.why is not None or row.estimate is None or not row.estimate.n:
            return None
        end = row.estimate.ends[1 if upper else 0]
        return None if end is None else (end - limit if upper else limit - end)

    distances = [
        (distance, i) for i, row in enumerate(rows) if (distance := beyond(row)) is not None
    ]
    far, i = max(distances, default=(0.0, -1), key=lambda one: (one[0], -one[1]))
    if far > 0:
        end = far + limit if upper else limit - far
        side, way = ("upper", "above") if upper else ("lower", "below")
        estimate = rows[i].estimate
        is_open = estimate is not None and estimate.worst is not None
        at_worst = ", with unreadable and missing answers at their worst" if is_open else ""
        reason = f"its {side} end is {end:.3f}, {way} {limit:g}{at_worst}"
        return _judged(criterion, rows[i], False, reason)
    for row in rows:
        if beyond(row) is None:
            return _judged(criterion, row, None, row.why or _why_open(row.estimate))
    for row in rows:
        if row.doubt:
            return _judged(criterion, row, None, row.doubt)
    return _judged(criterion, rows[i], True, None)


def _why_no_row(criterion: Criterion) -> str:
    """Return what the run has not, of what a criterion asks for."""
    if (part := criterion.get("slice")) is None:
        return NO_ROW if criterion.get("where") else f"no row of the run has {criterion['metric']}"
    among = " that `where` asks for" if criterion.get("where") else ""
    return f"no row of the run{among} has a slice {part['by']} = {part.get('value', 'any')}"


def _why_open(estimate: Estimate | None) -> str:
    if estimate is not None and estimate.method.startswith("undefined: "):
        return f"the score is {estimate.method}"
    if estimate is None or not estimate.n:
        return NOTHING
    return f"it has no interval: {estimate.method}"


def _judged(
    criterion: Criterion, at: Measured | None, met: bool | None, reason: str | None
) -> Judged:
    more = {**criterion, **(at.more if at else {})}
    return Judged(
        metric=criterion["metric"],
        at_budget=criterion.get("at_budget"),
        bound={name: criterion[name] for name in LIMITS if name in criterion},
        control=more.get("control"),
        slice=more.get("slice"),
        against=more.get("against"),
        row=at and at.row,
        estimate=at and at.estimate,
        met=met,
        reason=reason,
        asked=criterion,
    )


class _Reader:
    """Reads what criteria are about in the rows of a run."""

    def __init__(self, run: Run, open_run: OpenRun | None) -> None:
        self._run, self._open_run = run, open_run
        self._baseline = cache(self._opened)

    def measure(self, criterion: Criterion) -> Iterator[Measured]:
        """Yield what the criterion reads in every row, or slice of a row, that it is about.

        Rows of controls are read only where `where` names them, and rows in which nothing was
        attacked only for what the model knew before.
        """
        where, wanted = criterion.get("where", {}), criterion.get("slice")
        slices = self._run.of(SLICES) if wanted else None
        for cell in self._run.cells:
            at = dict(zip(PLACES, (*cell.place, cell.attack.label), strict=True))
            is_meant = not cell.arm.is_control or where.get("attack") == at["attack"]
            if not is_meant or any(at[key] != value for key, value in where.items()):
                continue
            if cell.attack.asks_clean_only and criterion["metric"] != "accuracy":
                continue
            if wanted is None:
                yield self._of_cell(criterion, cell, at)
                continue
            for row in slices.rows if slices else ():
                is_here = (*row.cell.place, row.attack) == (*cell.place, cell.attack.label)
                if is_here and row.by == wanted["by"] and wanted.get("value") in (None, row.value):
                    yield self._of_cell(criterion, cell, at, row)

    def _of_cell(
        self, criterion: Criterion, whole: Cell, at: Mapping[str, str], part: Slice | None = None
    ) -> Measured:
        """Read a metric in a row, or in one of its slices, and what makes it doubtful."""
        read = self._read(criterion, whole, at, part)
        limits = ((name, criterion["metric"]) for name in LIMITS if name in criterion)
        if read.why is not None or not any(limit in MOST_LOST for limit in limits):
            return read
        cell, level = (whole, 0.95) if part is None else (part.cell, part.level)
        why = doubt(self._run, cell, criterion.get("at_budget"), whole, level)
        return read._replace(doubt=why)

    def _read(
        self, criterion: Criterion, whole: Cell, at: Mapping[str, str], part: Slice | None
    ) -> Measured:
        metric, budget = criterion["metric"], criterion.get("at_budget")
        cell = whole if part is None else part.cell
        more = {} if part is None else {"slice": {"by": part.by, "value": part.value}}
        if metric != "accuracy" and (why := _unseen(cell)):
            return Measured(at, None, why, more)
        if budget is not None and budget > whole.budget:
            why = f"the attack asks at most {whole.budget} queries, fewer than {budget}"
            return Measured(at, None, why, more)
        if "against" in criterion:
            return self._against(criterion, cell, at)
        if metric in OF_CONTROLS:
            return self._net(criterion, whole, at, part, more)
        if metric in SHARES and (metric == "accuracy" or cell.attack.judged):
            reading = cell.read(metric, budget)
            share = cell.share(reading) if part is None else getattr(part, metric)
            if metric != "accuracy":
                level = 0.95 if part is None else part.level
                share = self._with_names(share, cell, reading, level)
            return Measured(at, share, None, more)
        if metric == "asr_valid" and cell.attack.judged:
            return self._valid(cell, at)
        results = self._run.of(RESULTS)
        rows = [row for row in results.rows if row.cell is cell] if results else []
        for of in (row.scores for row in rows if row.scores and metric in row.scores.columns):
            limits_loss = ("_drop" if "max_high" in criterion else "_after") in metric
            why = of.doubt(metric) if limits_loss else None
            return Measured(at, of.columns[metric], None, more, why)
        return Measured(at, None, f"the row has no {metric}", more)

    def _net(
        self,
        criterion: Criterion,
        whole: Cell,
        at: Mapping[str, str],
        part: Slice | None,
        more: Mapping[str, Any],
    ) -> Measured:
        """Read what a control flips, or what an attack flips that its control does not."""
        metric, name = criterion["metric"], criterion.get("control")
        by_name = self._run.controls(whole)
        if name is None and len(by_name) == 1:
            (name,) = by_name
        if name not in by_name:
            several = f"several controls ({', '.join(by_name)}), and the criterion names none"
            missing = f"no control {name!r}" if name else "no control"
            return Measured(at, None, f"the row has {several if by_name and not name else missing}")
        cell, control = whole if part is None else part.cell, by_name[name]
        more = {**more, "control": name}
        if why := _unseen(control):
            return Measured(at, None, f"of its control {why}", more)
        budget = criterion.get("at_budget") or whole.budget
        left, pairs = reach(self._run, whole), pair(cell, control)
        ours, others = readings(cell, control, pairs, budget, left)
        second = _Side(self._run, control, pairs.second, others)
        if metric == "control":
            share = at_budget(cell, control, pairs, budget, left).control
            return Measured(at, _for_names(share, [second], pairs.units, 0.95), None, more)
        first = _Side(self._run, cell, pairs.first, ours)
        net = _difference(first, second, pairs, part)
        n = contrast(ours, others, pairs.units).n_units
        is_chance = n < LEAST_UNITS and (net.ends[0] or 0.0) > 0
        return Measured(at, net, FEW_DIFFER.format(n=n) if is_chance else None, more)

    def _against(self, criterion: Criterion, cell: Cell, at: Mapping[str, str]) -> Measured:
        """Read how much larger a share is than in the baseline run, trial by trial."""
        against, metric = criterion["against"], criterion["metric"]
        other = self._baseline(against["run"])
        if isinstance(other, str):
            return Measured(at, None, other)
        place = cell.place._replace(victim="")
        cells = [
            one
            for one in other.cells
            if one.place._replace(victim="") == place and one.attack.label == cell.attack.label
        ]
        namesakes = [one for one in cells if one.place.victim == cell.place.victim]
        chosen = namesakes or cells
        if len(chosen) != 1:
            return Measured(at, None, f"{NO_BASELINE}has no such row, or several models")
        (before,) = chosen
        more = {"against": {**against, "victim": before.place.victim}}
        if metric != "accuracy" and (why := _unseen(before)):
            return Measured(at, None, f"of the baseline {why}", more)
        pairs = pair(cell, before, key=_across_runs)
        budget = criterion.get("at_budget") or cell.budget
        ours = cell.read(metric, budget).at(pairs.first)
        others = before.read(metric, budget).at(pairs.second)
        if metric == "accuracy":
            return Measured(at, contrast(ours, others, pairs.units).estimate, None, more)
        first = _Side(self._run, cell, pairs.first, ours)
        second = _Side(other, before, pairs.second, others)
        return Measured(at, _difference(first, second, pairs, None), None, more)

    def _opened(self, name: str) -> Run | str:
        """Return a baseline run; or why it cannot be used."""
        if self._open_run is None:
            return f"{NO_BASELINE}was not opened"
        try:
            other = self._open_run(self._run, name)
        except MedstressError as error:
            return f"{NO_BASELINE}cannot be read: {error}"
        if not other.is_complete:
            return f"{NO_BASELINE}is not complete"
        fixed = self._run.manifest["require"].get("baselines", {}).get(name)
        if fixed is not None and fixed["outcomes"] != outcomes(other.trials):
            return f"{NO_BASELINE}has changed since the first query"
        return other

    def _valid(self, cell: Cell, at: Mapping[str, str]) -> Measured:
        """Read the rate of valid successes; it is ASR where nothing succeeded."""

        def share(hits: Mask, kept: Mask) -> Estimate:
            units, places = cell.units[:, kept], np.flatnonzero(kept)
            settled = hits[kept]
            every = np.ones(len(settled), dtype=bool)
            reading = Reading(every, settled, every, settled, settled)
            side = _Side(self._run, cell, places, reading)
            return _for_names(rate(settled, units), [side], units, 0.95)

        valid = validity(cell, share, self._run.unheard)
        if valid is None:
            return Measured(at, None, "the row has no asr_valid")
        if valid.n_successes or valid.asr_valid is not None:
            return Measured(at, valid.asr_valid, valid.why)
        reading = cell.read("asr")
        return Measured(at, self._with_names(cell.share(reading), cell, reading, 0.95))

    def _with_names(self, share: Estimate, cell: Cell, reading: Reading, level: float) -> Estimate:
        """Return a share of all trials of a cell that holds for names like these too."""
        side = _Side(self._run, cell, np.arange(len(cell.trials)), reading)
        return _for_names(share, [side], cell.units, level)


def outcomes(trials: Sequence[Trial]) -> str:
    """Hash how every trial ended, which is all that a criterion reads of a baseline."""
    ends = [
        (
            trial.id,
            trial.verdict.value,
            trial.at,
            None if trial.first is None else trial.first.query,
            trial.queries.unreadable,
            trial.queries.failed,
        )
        for trial in trials
    ]
    return content_hash(sorted(ends, key=lambda end: end[0]))


def _across_runs(trial: Trial) -> tuple[str, str, str, int]:
    item_id, unit, repeat = trial.pairing
    return item_id, trial.item.hash, unit, repeat


def _unseen(cell: Cell) -> str | None:
    """Return how many eligible trials saw no edit, where these are too many to judge."""
    n = int(cell.eligible.sum())
    unseen = int(cell.unseen.sum())
    return f"{unseen} of {n} eligible trials saw no edit" if unseen > UNSEEN * n else None


class _Side(NamedTuple):
    """One cell behind a share or a difference, one place a value."""

    run: Run
    cell: Cell
    places: NDArray[np.int64]
    """Its trial behind each value."""
    reading: Reading

    @property
    def draws(self) -> bool:
        """Whether its arm draws names at random."""
        return self.cell.attack.draws_names and self.cell.seeds != [None]


def _difference(first: _Side, second: _Side, pairs: Pairs, part: Slice | None) -> Estimate:
    """Estimate how much larger a share is in the first cell, for names like these if drawn."""
    level = 0.95 if part is None else part.level
    net = contrast(first.reading, second.reading, pairs.units, level).estimate
    return _for_names(net, [first, second], pairs.units, level)


def _for_names(estimate: Estimate, sides: Sequence[_Side], units: Units, level: float) -> Estimate:
    """Widen an interval so that it holds for names like these, not only for those drawn.

    It then reaches as far as the interval over items and that over items and names together: the
    latter is too short where nearly all trials agree. Where all agree, names count as the answers.

    Args:
        estimate: a share of one side, or the difference of two, with its interval over items.
        sides: one, or two.
        units: of the values, shape (levels, n).
        level: of the interval.
    """
    drawn = [side for side in sides if side.draws]
    if not drawn or estimate.low is None or estimate.high is None:
        return estimate
    names = [[s.run.names(s.cell.trials[i]) for i in s.places.tolist()] for s in drawn]
    together = [frozenset[str]().union(*both) for both in zip(*names, strict=True)]
    one, other = sides[0].reading, sides[-1].reading
    is_share = len(sides) == 1

    def of(hits: Mask, others: Mask, kept: Mask) -> Estimate:
        values: Numbers = hits[kept].astype(np.float64)
        values = values if is_share else values - others[kept]
        places = np.flatnonzero(kept).tolist()
        some, items = [together[i] for i in places], units[0][kept]
        n_names = min(len(frozenset[str]().union(*(side[i] for i in places))) for side in names)
        estimate = difference_of_names(values, items, some, n_names, level).estimate
        if estimate.low is not None or not places:
            return estimate
        # All agree, or one name was drawn: as many answers as there are names, or items.
        m, centre = max(min(n_names, len(set(items.tolist()))), 1), float(values.mean())
        if is_share:
            low, high = wilson_ends(centre * m, m, quantile(level))
        else:
            low, high = Drawn(m, "names", (-1.0, 1.0)).ends(centre, level)
        method = f"{m} independent answers, for {n_names} names were drawn ({estimate.method})"
        return replace(estimate, value=centre, low=low, high=high, method=method)

    counts, may = one.counts & other.counts, one.may_count & other.may_count
    by_names = of(one.hit, other.hit, counts)
    floor = 0.0 if is_share else -1.0
    low, high = _reach((estimate.low, estimate.high), by_names, floor)
    worst = estimate.worst
    if worst is not None:
        bottom = _reach(worst, of(one.least, other.most, may), floor)[0]
        top = _reach(worst, of(one.most, other.least, may), floor)[1]
        worst = min(bottom, low), max(top, high)
    method = f"{by_names.method}, at least {estimate.method}"
    return replace(estimate, low=low, high=high, worst=worst, method=method)


def _reach(ends: Ends, by_names: Estimate, floor: float) -> tuple[float, float]:
    """Return the ends that reach as far as both intervals."""
    low, high = (floor if ends[0] is None else ends[0]), (1.0 if ends[1] is None else ends[1])
    if by_names.low is None or by_names.high is None:
        return low, high
    return min(low, max(by_names.low, floor)), max(high, by_names.high)


def open_relative(run: Run, name: str) -> Run:
    """Return a baseline run; its folder is relative to the experiment file.

    Raises:
        StoreError: the folder holds no run that can be read.
    """
    return Run.open(Path(run.manifest["base"]) / Path(name).expanduser())


REQUIREMENTS = Analysis("requirements", partial(requirements_of, open_run=open_relative))


def _worst(row: Judged) -> str | None:
    """Return the row and the slice that are worst off."""
    part = row.slice and f"{row.slice['by']} = {row.slice.get('value', 'any')}"
    return " · ".join((*(row.row or {}).values(), *([part] if part else []))) or None


FIELDS = (
    column("Criterion", "words"),
    column("Worst row", _worst),
    column("Value", "estimate", "share"),
    column("Met", lambda r: Entry(value=r.verdict, lines=(r.caution,) if r.caution else ())),
    column("Why", "reason"),
)
