"""Rows whose question lies inside another field: ``{"data": {...}}``, ``{"question": {...}}``."""

from __future__ import annotations

from collections.abc import Sequence

from medstress.datasets.forms.naming import QUESTIONS, called
from medstress.datasets.tables.table import RowOrError

_INNER = ("data", "question")


def unnested(rows: Sequence[tuple[str, RowOrError]]) -> Sequence[tuple[str, RowOrError]]:
    """Return rows with the fields of such an object as their own, if most rows have one."""
    fields = [row for _, row in rows if isinstance(row, dict)]
    for name in _INNER:
        inner = [row[name] for row in fields if isinstance(row.get(name), dict)]
        if len(inner) > len(fields) / 2 and all(called(each, QUESTIONS) for each in inner):
            return [
                (
                    place,
                    {**{k: v for k, v in row.items() if k != name}, **row[name]}
                    if isinstance(row, dict) and isinstance(row.get(name), dict)
                    else row,
                )
                for place, row in rows
            ]
    return rows
