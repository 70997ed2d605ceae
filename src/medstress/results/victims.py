"""The victims of a manifest; models that share the items, one for each fold, are one victim."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def victim_of(label: str, entry: Mapping[str, Any]) -> str:
    """Return the name in rows of an entry of the manifest's `victims`."""
    return str(entry.get("part_of", label))


def entries_of(manifest: Mapping[str, Any], victim: str) -> dict[str, Mapping[str, Any]]:
    """Return the manifest's entries of a victim by their labels; several if folds were trained."""
    entries: Mapping[str, Mapping[str, Any]] = manifest["victims"]
    return {label: each for label, each in entries.items() if victim_of(label, each) == victim}
