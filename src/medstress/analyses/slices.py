"""Accuracy and ASR of parts of the data, with intervals that all hold together.

Which slices an item is in follows from the item and from the manifest's entry `slices`, which was
fixed before the first query: `by`, `label`, `cuts` of lengths by data set, `types` by group.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

import numpy as np

from medstress.analyses.run import Analysis, Cell, Reading, Run, contrast, pair
from medstress.analyses.shown import (
    HIDDEN,
    Chart,
    OfAttack,
    Point,
    Remark,
    Shown,
    Table,
    attack_labels,
    column,
    panel,
    right_ones,
    table,
)
from medstress.analyses.success import reach, readings
from medstress.core.arms import Place
from medstress.stats.estimate import Estimate, sidak, unknown, with_worst
from medstress.stats.shares import Mask, simultaneous

WIDE = 0.4
"""A wider interval says next to nothing."""
POST_HOC = "post hoc"
"""Label of slices that were chosen or changed after the first query."""
NONE = "(none)"
"""The value of an item that lacks the property."""
LENGTHS = ("option_length", "question_length")
TYPES = ("type", "semantic_group")
SUBJECTS = ("subject", "subject_name", "topic")
"""Columns that `subject` may mean, in this order."""
_SHOWN, _LONGEST = 3, 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice(OfAttack):
    """One part of the data under one attack."""

    by: str
    value: str
    n_items: int
    accuracy: Estimate
    asr: Estimate
    asr_net: Mapping[str, Estimate]
    """a - c by control; as all intervals here, it holds together with those of other slices."""
    cell: Cell = field(metadata=HIDDEN)
    """Its trials."""
    level: float = field(metadata=HIDDEN)
    """Of each interval, so that those of all slices of the attack hold together at 95 %."""

    @property
    def name(self) -> str:
        """The property and its value, as people read them."""
        value = self.value if len(self.value) <= _LONGEST else f"{self.value[: _LONGEST - 1]}…"
        return f"{self.by.replace('_', ' ')} = {value}"

    @property
    def is_too_small(self) -> bool:
        """Whether its interval says next to nothing, or there is none."""
        low, high = self.asr.low, self.asr.high
        return low is None or high is None or high - low > WIDE


@dataclass(frozen=True, slots=True, kw_only=True)
class Slices(Shown):
    """All slices of a run."""

    rows: Sequence[Slice]
    is_post_hoc: bool = field(metadata=HIDDEN)
    title = "Slices"

    def tables(self) -> Sequence[Table]:
        """Every slice."""
        fields = list(FIELDS)
        for name in dict.fromkeys(name for row in self.rows for name in row.asr_net):
            heading, tip = (
                f"Net of {name.replace('_', ' ')}",
                "more often than under harmless edits",
            )
            key = f"asr_net_{name}"
            fields.append(column(heading, f"asr_net.{name}", "score", tip, key=key, wide=True))
        caption = "Slices; the intervals of all slices of an attack hold together"
        return [table("slices", caption, self.rows, fields)]

    def charts(self) -> Sequence[Chart]:
        """What every slice loses."""
        places = [row.cell.place for row in self.rows]
        points = [
            Point(row.name, row.asr, row.attack, panel(row.cell.place, places))
            for row in self.rows
            if row.asr.n
        ]
        y = f"share of {right_ones(self.rows[0].cell.trials[0])} lost"
        return [Chart("slices", "Lost under attack, by slice", "dots", "slice", y, points)]

    def remarks(self) -> Iterator[Remark]:
        """Say which slices differ, which are too small, and whether they were chosen late."""
        if self.is_post_hoc:
            yield Remark(
                "post_hoc_slices",
                "The slices are post hoc: [slices] was added or changed after the first query, so "
                "a bad slice may have been chosen because it is bad.",
            )
        attacked = [row for row in self.rows if not row.cell.attack.asks_clean_only]
        if small := [row for row in attacked if row.is_too_small]:
            names = list(dict.fromkeys(row.name for row in small))
            shown = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
            yield Remark(
                "small_slices",
                f"{len(small)} of {len(attacked)} slices have too few questions to say anything: "
                f"their interval is wider than {WIDE:g} ({shown}).",
            )
        families: dict[tuple[str, ...], list[Slice]] = defaultdict(list)
        for row in attacked:
            families[*row.place, row.attack, row.by].append(row)
        for rows in families.values():
            yield from _difference(rows)


def _difference(rows: Sequence[Slice]) -> Iterator[Remark]:
    """Say which slice of a property surely loses more than others, by intervals that hold together;
    or that none is shown to."""
    ends = [row.asr.ends for row in rows]
    lows = [-1.0 if low is None else low for low, _ in ends]
    i = max(range(len(rows)), key=lambda i: (lows[i], rows[i].asr.n))
    worst, at, by = rows[i], (*rows[i].place, rows[i].attack), rows[i].by.replace("_", " ")
    lower = [
        row
        for row, (_, high) in zip(rows, ends, strict=True)
        if high is not None and high < lows[i]
    ]
    if lower:
        names = ", ".join(row.name for row in lower[:_SHOWN])
        others = f"{names} and {len(lower) - _SHOWN} more" if len(lower) > _SHOWN else names
        sentence = f"{worst.attack}: {worst.name} loses more than {others}."
        yield Remark("slice_differs", sentence, at)
    elif len(rows) > 1 and all(low is not None for low, _ in ends):
        sentence = f"{worst.attack}: no slice by {by} is shown to lose more than another."
        yield Remark("no_slice_differs", sentence, at, "note")


def slices_of(run: Run) -> Slices | None:
    """Compute the slices of every attack; None without `[slices]`."""
    described = run.manifest.get("slices")
    if not described:
        return None
    slicer = Slicer(described)
    rows = [row for cell in run.attacks for row in of_cell(run, cell, slicer)]
    return Slices(rows=rows, is_post_hoc=described["label"] == POST_HOC)


SLICES = Analysis("slices", slices_of)


def of_cell(run: Run, cell: Cell, slicer: Slicer) -> list[Slice]:
    """Return the slices of one attack: its readings by slice, at Sidak's level.

    Items that cannot be attacked are in no slice; an item may be in several slices of a property.
    """
    counted = cell.answered | cell.open_clean
    members: dict[tuple[str, str], list[int]] = defaultdict(list)
    for i in np.flatnonzero(counted).tolist():
        for name in slicer.slices_of(cell.trials[i].item, cell.place):
            members[name].append(i)
    names = sorted(members)
    places = np.arange(len(cell.trials))
    masks = [np.isin(places, members[name]) for name in names]
    accuracies = _together(cell, cell.read("accuracy"), masks)
    if cell.attack.asks_clean_only:
        rates = [unknown("nothing was attacked") for _ in names]
    else:
        rates = _together(cell, cell.read("asr"), masks)
    nets, parts = _nets(run, cell, masks), [cell.where(mask) for mask in masks]
    return [
        Slice(
            **cell.labels,
            by=by,
            value=value,
            n_items=part.items(),
            accuracy=accuracies[i],
            asr=rates[i],
            asr_net={control: estimates[i] for control, estimates in nets.items()},
            cell=part,
            level=sidak(len(names)),
        )
        for i, ((by, value), part) in enumerate(zip(names, parts, strict=True))
        if part is not None
    ]


def _together(cell: Cell, reading: Reading, masks: Sequence[Mask]) -> list[Estimate]:
    """Estimate a share of every slice, with its worst ends."""

    def of(hits: Mask, counts: Mask) -> list[Estimate]:
        kept = [counts & mask for mask in masks]
        return simultaneous([(hits[some], cell.units[:, some]) for some in kept])

    shares = of(reading.hit, reading.counts)
    least, most = of(reading.least, reading.may_count), of(reading.most, reading.may_count)
    return list(map(with_worst, shares, least, most))


def _nets(run: Run, cell: Cell, masks: Sequence[Mask]) -> dict[str, list[Estimate]]:
    """Estimate a - c of every slice by control, by Tango's interval at Sidak's level."""
    left, level = reach(run, cell), sidak(len(masks))
    nets: dict[str, list[Estimate]] = {}
    for name, control in run.controls(cell).items():
        pairs = pair(cell, control)
        ours, others = readings(cell, control, pairs, cell.budget, left)
        kept = [mask[pairs.first] for mask in masks]
        nets[name] = [
            contrast(ours.at(some), others.at(some), pairs.units[:, some], level).estimate
            for some in kept
        ]
    return nets


class Slicer:
    """Tells which slices items are in."""

    def __init__(self, described: Mapping[str, Any]) -> None:
        """Take the manifest's entry `slices`."""
        self._described = described
        self._slices: dict[tuple[Place, str], list[tuple[str, str]]] = {}

    def slices_of(self, item: Any, place: Place) -> list[tuple[str, str]]:
        """Return (property, value) of the slices that an item is in.

        Only `type`, `semantic_group` and columns that hold lists can put an item into several
        slices of one property. The first two are those of all entities that an attack on the group
        may replace, in options other than the right one.
        """
        key = place, item.id
        if key not in self._slices:
            by = self._described["by"]
            self._slices[key] = [(name, v) for name in by for v in self._values(item, name, place)]
        return self._slices[key]

    def _values(self, item: Any, by: str, place: Place) -> Sequence[str]:
        if by == "key":
            return (item.key,)
        if by in LENGTHS:
            return (_third(length_of(item, by), self._described["cuts"][place.dataset][by]),)
        if by in TYPES:
            types = self._described["types"].get(place.group)
            return _types_of(item, types, grouped=by == "semantic_group")
        return values_of_column(item, by)


def length_of(item: Any, by: str) -> int:
    """Return the characters of a question, or of its options on average."""
    if by == "question_length":
        return len(item.question)
    return round(fmean(len(text) for text in item.options))


def column_of(item: Any, by: str) -> str | None:
    """Return the metadata column that a property means; None if the item has none."""
    names = SUBJECTS if by == "subject" else (by,)
    return next((name for name in names if item.metadata.get(name) not in (None, "")), None)


def values_of_column(item: Any, by: str) -> Sequence[str]:
    """Return the values of a metadata column, one or a list; `NONE` where it is empty."""
    name = column_of(item, by)
    value = None if name is None else item.metadata[name]
    if isinstance(value, list | tuple):
        return sorted(set(map(str, value))) or (NONE,)
    return (NONE if value is None else str(value),)


def _third(length: int, cuts: Sequence[int]) -> str:
    """Return the name of the slice that a length is in; names do not overlap.

    >>> [_third(length, [92, 113]) for length in (92, 93, 114)]
    ['up to 92 characters', '93 to 113 characters', '114 characters and more']
    """
    if not cuts:
        return "any length"
    above = [cut for cut in cuts if cut < length]
    if not above:
        return f"up to {cuts[0]} characters"
    low = above[-1] + 1
    if len(above) == len(cuts):
        return f"{low} characters and more"
    high = cuts[len(above)]
    return f"{low} characters" if low == high else f"{low} to {high} characters"


def _types_of(item: Any, types: Sequence[str] | None, *, grouped: bool) -> Sequence[str]:
    from medstress.entities.groups import SEMANTIC_TYPES

    names = set()
    for mention in item.mentions:
        is_option = mention.field in item.choices and mention.field != item.key
        if is_option and (types is None or mention.type in types):
            kind = SEMANTIC_TYPES.get(mention.type)
            if grouped:
                names.add(kind.group if kind else mention.type)
            else:
                names.add(f"{mention.type} ({kind.name})" if kind else mention.type)
    return sorted(names) or (NONE,)


FIELDS = (
    column("Slice", "name"),
    *attack_labels(),
    column("Questions", "n_items", "count"),
    column("Accuracy", "accuracy", "share", wide=True),
    column("Lost (ASR)", "asr", "share", "lost, of what was right"),
)
