"""`[slices]`: which slices an item is in, fixed before the first query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from medstress.analyses.slices import (
    LENGTHS,
    POST_HOC,
    column_of,
    length_of,
    values_of_column,
)
from medstress.core.errors import UsageError, did_you_mean
from medstress.core.items import Question
from medstress.experiment.file.config import SlicesTable
from medstress.experiment.file.criteria_tables import COMPUTED
from medstress.experiment.plan.dataset_parts import DatasetPart
from medstress.experiment.plan.plan import Prepared

SPECIFIED = "pre-specified"
"""Label of slices that were fixed before the first query; others are `POST_HOC`."""
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
    if not prepared.kind.is_judged or prepared.kind.has_parts:
        raise UsageError(
            "[slices]: expected items whose answers are right or wrong, but the data are "
            f"{prepared.kind.name}; leave the table out"
        )
    are_questions = prepared.kind.draws_names
    columns = sorted({str(name) for item in items for name in item.metadata})
    for by in table.by:
        if by in COMPUTED:
            if by != "key" and not are_questions:
                raise UsageError(f"[slices] by: {by!r} is for questions, not {prepared.kind.name}")
            continue
        if not any(column_of(item, by) for item in items):
            known = [*COMPUTED, *columns]
            raise UsageError(
                f"[slices] by: no item has {by!r}{did_you_mean(by, known)} (there are: "
                f"{', '.join(known)})"
            )
        n = len({value for item in items for value in values_of_column(item, by)})
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
    for by in LENGTHS:
        lengths = [length_of(item, by) for item in part.questions if item.kind == Question.kind]
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
