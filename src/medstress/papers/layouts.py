"""The papers whose layouts come with medstress."""

from __future__ import annotations

from collections.abc import Mapping

from medstress.core.errors import UsageError, did_you_mean
from medstress.papers import araujo2020, medfuzz2024, xian2025
from medstress.papers.layout import Layout

LAYOUTS: Mapping[str, Layout] = {
    each.LAYOUT.name: each.LAYOUT for each in (xian2025, medfuzz2024, araujo2020)
}
"""Layouts by their name."""


def layout_named(name: str) -> Layout:
    """Return a layout.

    Raises:
        UsageError: no paper of this name.
    """
    if name not in LAYOUTS:
        raise UsageError(
            f"--paper: unknown paper {name!r}{did_you_mean(name, LAYOUTS)} "
            f"(known: {', '.join(LAYOUTS)})"
        )
    return LAYOUTS[name]
