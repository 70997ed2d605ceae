"""Labelled pairs of names: what a checker is measured on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medstress.core.errors import DataError
from medstress.datasets.tables.objects import jsonl_lines, parse_line
from medstress.entities.names import normalise

_KEYS = ("a", "b", "same", "type", "distance")
_NEEDED = _KEYS[:3]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two names and the truth about them."""

    a: str
    """The right answer."""
    b: str
    """The name that is drawn in place of a wrong one."""
    same: bool
    """Whether b is right where a is."""
    type: str = ""
    """Type of the entities, such as `drugs`; empty: not said."""
    distance: float | str | None = None
    """How far b lies from a, or the name of a stratum."""


def read_pairs(path: Path) -> list[Pair]:
    """Read a JSONL file, one pair a line.

    Raises:
        DataError: no pair, a row is malformed, two rows contradict each other, or all pairs have
            one label.
        UsageError: the file cannot be read.
    """
    pairs = []
    labelled: dict[frozenset[str], tuple[str, Pair]] = {}
    for place, line in jsonl_lines(path):
        try:
            pair = _pair(parse_line(line))
        except DataError as error:
            raise DataError(f"{path}, {place}: {error}") from error
        names = frozenset(map(normalise, (pair.a, pair.b)))
        earlier, first = labelled.setdefault(names, (place, pair))
        if first.same != pair.same:
            raise DataError(
                f"{path}, {earlier} and {place}: expected one label for {first.a!r} and "
                f"{first.b!r}, got same = {str(first.same).lower()} and same = "
                f"{str(pair.same).lower()}; keep the line that is right"
            )
        pairs.append(pair)
    if not pairs:
        raise DataError(
            f"{path}: expected one JSON object a line with the keys a, b and same, got an empty "
            "file; write some pairs"
        )
    check_classes(pairs, str(path))
    return pairs


def check_classes(pairs: list[Pair], what: str) -> None:
    """Refuse pairs of one label, on which one of the two rates is undefined.

    Raises:
        DataError: all pairs are the same, or none.
    """
    labels = {pair.same for pair in pairs}
    if len(labels) == 1:
        known, rate = ("true", "specificity") if True in labels else ("false", "sensitivity")
        raise DataError(
            f"{what}: expected pairs with same = true and with same = false, got {len(pairs):,} "
            f"pairs that all say {known}, so the {rate} cannot be measured; add pairs of the other "
            "label"
        )


def _pair(row: Any) -> Pair:
    if not isinstance(row, Mapping):
        raise DataError("expected one JSON object a line")
    unknown = [key for key in row if key not in _KEYS]
    missing = [key for key in _NEEDED if key not in row]
    if unknown or missing:
        what = f"no key {missing[0]!r}" if missing else f"the key {unknown[0]!r}"
        raise DataError(
            f"expected the keys a, b, same and, if known, type and distance, got {what}; rename it"
        )
    for key in ("a", "b"):
        if not isinstance(row[key], str) or not row[key].strip():
            raise DataError(f"key {key!r}: expected a name, got {row[key]!r}; give some text")
    if not isinstance(row["same"], bool):
        raise DataError(f"key 'same': expected true or false, got {row['same']!r}")
    distance, kind = row.get("distance"), row.get("type", "")
    is_number = isinstance(distance, (int, float)) and not isinstance(distance, bool)
    if distance is not None and not isinstance(distance, str):
        if not is_number or not math.isfinite(distance):
            raise DataError(
                f"key 'distance': expected a number or a name of a stratum, got {distance!r}"
            )
        distance = float(distance)
    if not isinstance(kind, str):
        raise DataError(f"key 'type': expected a text such as 'drugs', got {kind!r}")
    return Pair(a=row["a"], b=row["b"], same=row["same"], type=kind, distance=distance)
