"""A sentence on how much of a vocabulary an attack tried."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def coverage_sentence(row: Mapping[str, Any] | None) -> str | None:
    """Describe a row of `analysis.coverage`, without a full stop.

    >>> row = {"statement": "every allowed name was tried on every item", "n_distinct": 1200}
    >>> coverage_sentence({**row, "n_names": 1250, "share_of_vocabulary": 0.96})
    'every allowed name was tried on every item, 1,200 of the 1,250 of the vocabulary (96.0 %)'
    """
    if row is None:
        return None
    statement = str(row["statement"])
    if row["n_names"] is None or row["share_of_vocabulary"] is None:
        return statement
    share = 100 * row["share_of_vocabulary"]
    names = f"{row['n_distinct']:,} of the {row['n_names']:,} of the vocabulary ({share:.1f} %)"
    return f"{statement}, {names}"
