"""`[slices]`: which slices an item is in, fixed before the first query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np

from medstress.core.errors import UsageError, did_you_mean
from medstress.core.items import Question
from medstress.entities.semantic_types import SEMANTIC_TYPES
from medstress.experiment.file.config import SlicesTable
from medstress.experiment.file.criteria_tables import COMPUTED
from medstress.experiment.plan.dataset_parts import DatasetPart
from medstress.experiment.plan.plan import Prepared

SPECIFIED, POST_HOC = "pre-specified", "post hoc"
"""Labels: the slices were fixed before the first query, or chosen or changed after it."""
NONE = "(none)"
"""The value of an item that lacks the property."""
_LENGTHS = ("option_length", "question_length")
_TYPES = ("type", "semantic_group")
_SUBJECTS = ("subject", "subject_name", "topic")
"""Columns that `subject` may mean, in this order."""
_MOST_VALUES = 200


def check_slices(prepared: Prepared) -> None:
    """Check that the properties of `[slices]` exist.

    Raises:
        UsageError: a property is neither computed nor a metadata column, or has too many values;
            the message names it.
    """
    table = prepared.experiment.slices
    if table is None:
        return
    items = [item for part in prepared.datasets for item in part.questions]
    if not prepared.kind.is_judged or prepared.kind.unit_type is not None:
        raise UsageError(
            "[slices]: expected items whose answers are right or wrong, but the data are "
            f"{prepared.kind.name}; leave the table out"
        )
    are_questions = all(isinstance(item, Question) for item in items)
    columns = sorted({str(name) for item in items for name in item.metadata})
    for by in table.by:
        if by in COMPUTED:
            if by != "key" and not are_questions:
                raise UsageError(f"[slices] by: {by!r} is for questions, not {prepared.kind.name}")
            continue
        if not any(_column(item, by) for item in items):
            known = [*COMPUTED, *columns]
            raise UsageError(
                f"[slices] by: no item has {by!r}{did_you_mean(by, known)} (there are: "
                f"{', '.join(known)})"
            )
        n = len({value for item in items for value in _values_of_column(item, by)})
        if n > _MOST_VALUES:
            raise UsageError(
                f"[slices] by: {by!r} has {n:,} values, which are too many slices (at most "
                f"{_MOST_VALUES}); name a coarser property"
            )


def describe_slices(
    prepared: Prepared, known: Mapping[str, Any] | None, *, is_asked: bool
) -> dict[str, Any] | None:
    """Return the manifest entry `slices`; None without the table.

    Args:
        prepared: the experiment.
        known: the folder's entry, whose cut points are kept.
        is_asked: whether the folder's run has asked a query.

    Returns:
        `by`, `label`, `cuts` of lengths by data set, and `types` by group.
    """
    table = prepared.experiment.slices
    if table is None:
        return None
    label = SPECIFIED
    if is_asked:
        is_kept = known is not None and known["by"] == list(table.by)
        label = known["label"] if known is not None and is_kept else POST_HOC
    kept = (known or {}).get("cuts", {})
    cuts = {
        part.label: {**_cuts(part, table), **kept.get(part.label, {})} for part in prepared.datasets
    }
    types = {
        group.label: sorted(group.resources.types)
        for group in prepared.question_groups
        if group.table is not None
    }
    return {"by": list(table.by), "label": label, "cuts": cuts, "types": types}


def _cuts(part: DatasetPart, table: SlicesTable) -> dict[str, list[int]]:
    """Return the lengths that divide a data set's items into thirds, in characters.

    They are lengths of items, and at most the second longest, so that no slice is empty: fewer than
    two where lengths tie, and none where all are equal.
    """
    found = {}
    for by in _LENGTHS:
        lengths = [_length(item, by) for item in part.questions if isinstance(item, Question)]
        if by in table.by and lengths:
            found[by] = thirds(lengths)
    return found


def thirds(lengths: Sequence[int]) -> list[int]:
    """Return the lengths up to which the first and the second third go.

    >>> thirds([5, 6, 7, 8, 9, 10]), thirds([92, 92, 113, 113]), thirds([1, 3, 3, 3]), thirds([4])
    ([6, 8], [92], [1], [])
    """
    shorter = [length for length in lengths if length < max(lengths)]
    if not shorter:
        return []
    cuts = np.quantile(lengths, [1 / 3, 2 / 3], method="inverted_cdf")
    return sorted({min(int(cut), max(shorter)) for cut in cuts})


def _length(item: Question, by: str) -> int:
    if by == "question_length":
        return len(item.question)
    return round(fmean(len(text) for text in item.options))


def slices_of(
    item: Any, described: Mapping[str, Any], dataset: str, group: str
) -> Iterator[tuple[str, str]]:
    """Yield (property, value) of the slices that an item is in.

    Only `type` and `semantic_group` can put an item into several slices of one property: those of
    all entities that an attack on the group may replace, in options other than the key.

    Args:
        item: the item.
        described: the manifest entry (`describe_slices`).
        dataset: label of its data set.
        group: label of the group under attack.
    """
    for by in described["by"]:
        for value in _values(item, by, described, dataset, group):
            yield by, value


def _values(
    item: Any, by: str, described: Mapping[str, Any], dataset: str, group: str
) -> Sequence[str]:
    if by == "key":
        return (item.gold,)
    if by in _LENGTHS:
        return (_third(_length(item, by), described["cuts"][dataset][by]),)
    if by in _TYPES:
        return _types(item, described["types"].get(group), grouped=by == "semantic_group")
    return _values_of_column(item, by)


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


def _types(item: Question, types: Sequence[str] | None, *, grouped: bool) -> Sequence[str]:
    found = {
        mention.type
        for mention in item.mentions
        if mention.field in item.letters
        and mention.field != item.key
        and (types is None or mention.type in types)
    }
    known = {each: SEMANTIC_TYPES.get(each) for each in found}
    if grouped:
        named = {kind.group if kind else each for each, kind in known.items()}
    else:
        named = {f"{each} ({kind.name})" if kind else each for each, kind in known.items()}
    return sorted(named) or (NONE,)


def _column(item: Any, by: str) -> str | None:
    """Return the metadata column that a property means; None if the item has none."""
    names = _SUBJECTS if by == "subject" else (by,)
    return next((name for name in names if item.metadata.get(name) not in (None, "")), None)


def _values_of_column(item: Any, by: str) -> Sequence[str]:
    name = _column(item, by)
    value = None if name is None else item.metadata[name]
    if isinstance(value, list | tuple):
        return sorted({str(each) for each in value}) or (NONE,)
    return (NONE if value is None else str(value),)
