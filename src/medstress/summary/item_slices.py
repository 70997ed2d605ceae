"""The slices that an item is in; goes with this room (`medstress.analyses.slices.Slicer`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from medstress.analyses.slices import Slicer
from medstress.core.arms import Place


def slices_of(
    item: Any, described: Mapping[str, Any], dataset: str, group: str
) -> list[tuple[str, str]]:
    """Return (property, value) of the slices that an item is in."""
    return Slicer(described).slices_of(item, Place(dataset, group, ""))
