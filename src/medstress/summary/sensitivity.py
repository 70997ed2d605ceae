"""`[sensitivity]` in a summary: what the manifest says of formats, and their comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from medstress.core.rows import TrialRow
from medstress.metrics.sensitivity import sensitivity


def describe_sensitivity(
    manifest: Mapping[str, Any], trials: Sequence[TrialRow], pooled: Sequence[Mapping[str, Any]]
) -> dict[str, Any] | None:
    """Return the key `sensitivity`; None if the run asks every victim in one format."""
    stored = manifest.get("sensitivity")
    if not stored:
        return None
    return {
        **sensitivity(trials, pooled, stored["formats"]),
        "left_out": list(stored["left_out"]),
    }


def models_of(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Return label of a victim -> the model behind it, of victims asked in several formats."""
    formats = (manifest.get("sensitivity") or {}).get("formats") or {}
    return {label: each["victim"] for label, each in formats.items()}
