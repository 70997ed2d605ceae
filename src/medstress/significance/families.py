"""The family of a run's tests, fixed before the first query and stored in the manifest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from medstress.analyses.families import Scope, settings_key
from medstress.analyses.significance import REFUSED
from medstress.analyses.significance import SCOPES as KEY
from medstress.core.errors import UsageError
from medstress.core.hashing import content_hash
from medstress.experiment.file.config import SignificanceTable
from medstress.significance.settings import Settings

FIXED = "fixed_family"
"""Manifest entry: the items that `[test]` names before the first query, with their hash."""


def fixed_family(table: SignificanceTable | None) -> dict[str, Any]:
    """Return the manifest entry of the fixed family; empty if `[test]` names no items."""
    if table is None or not table.items:
        return {}
    items = sorted(table.items)
    return {FIXED: {"items": items, "hash": content_hash(items)}}


def scope_of(settings: Settings, manifest: Mapping[str, Any]) -> Scope:
    """Return the family that the settings request.

    Raises:
        UsageError: the run began with another family.
    """
    began_with = manifest.get(FIXED, {}).get("items", [])
    if began_with != sorted(settings.items):
        named = ", ".join(began_with[:8]) or "none"
        raise UsageError(
            f"[test] items: they are named before the first query, and this run began with {named}:"
            " give the same, or begin another run with --out"
        )
    return Scope(adjust=settings.adjust, items=settings.items)


def with_scope(
    manifest: Mapping[str, Any], settings: Settings, scope: Scope
) -> dict[str, dict[str, Any]]:
    """Return the manifest entry with the family of these settings."""
    requested = {"adjust": scope.adjust.value, "items": list(scope.items)}
    return {KEY: {**manifest.get(KEY, {}), settings_key(settings.as_json()): requested}}


def with_refusal(
    manifest: Mapping[str, Any], settings: Settings, why: str
) -> dict[str, dict[str, Any]]:
    """Return the manifest entry with the reason why these settings could not be followed."""
    return {KEY: {settings_key(settings.as_json()): f"{REFUSED}{why}", **manifest.get(KEY, {})}}
