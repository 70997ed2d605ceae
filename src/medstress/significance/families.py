"""Families of a run's tests, fixed before the first query or later, stored in the manifest."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from medstress.core.hashing import content_hash
from medstress.experiment.file.config import SignificanceTable
from medstress.metrics.significance.families import Adjust, Family
from medstress.metrics.significance.members import POST_HOC, PRE_SPECIFIED, Scope, settings_key
from medstress.significance.settings import Settings

KEY = "tests"
"""Manifest entry: settings of tests -> the requested families, or why they were refused."""
FIXED = "fixed_family"
"""Manifest entry: the family that `[test]` fixes before the first query, with its hash."""
REFUSED = "refused: "
EARLIER_LOOPS = 10
"""Default of `loops` in earlier versions."""


def fixed_family(table: SignificanceTable | None) -> dict[str, Any]:
    """Return the manifest entry of the fixed family; empty if `[test]` fixes none."""
    if table is None or not (table.items or table.trials):
        return {}
    family = {"items": sorted(table.items), "trials": sorted(table.trials)}
    return {FIXED: {**family, "hash": _hash(table.items, table.trials)}}


def _hash(items: Collection[str], trials: Collection[str]) -> str:
    return content_hash([sorted(items), sorted(trials)])


def scope_of(settings: Settings, manifest: Mapping[str, Any]) -> Scope:
    """Return the family that the settings request, pre-specified if the run began with it."""
    label = None
    if settings.items or settings.trials:
        began_with = manifest.get(FIXED, {}).get("hash")
        is_same = began_with == _hash(settings.items, settings.trials)
        label = PRE_SPECIFIED if is_same else POST_HOC
    return Scope(
        family=settings.family,
        adjust=settings.adjust,
        items=settings.items,
        trials=settings.trials,
        label=label,
    )


def with_scope(
    manifest: Mapping[str, Any], settings: Settings, scope: Scope
) -> dict[str, dict[str, Any]]:
    """Return the manifest entry with the family of these settings appended.

    Families requested earlier with the same settings stay in front of it.
    """
    requested = {
        "family": scope.family.value,
        "adjust": scope.adjust.value,
        "items": list(scope.items),
        "trials": list(scope.trials),
        "label": scope.label,
    }
    key = settings_key(settings.as_json())
    known = [(one, _read(one)) for one in _stored(manifest, key)]
    before = [one for one, other in known if other and _ordered(other) != _ordered(scope)]
    return {KEY: {**manifest.get(KEY, {}), key: [*before, requested]}}


def with_refusal(
    manifest: Mapping[str, Any], settings: Settings, why: str
) -> dict[str, dict[str, Any]]:
    """Return the manifest entry with the reason why these settings could not be followed."""
    key = settings_key(settings.as_json())
    before = [one for one in _stored(manifest, key) if _read(one) is not None]
    return {KEY: {**manifest.get(KEY, {}), key: [*before, f"{REFUSED}{why}"]}}


def scopes_of(manifest: Mapping[str, Any]) -> tuple[dict[str, list[Scope]], list[str]]:
    """Return the families of a run's tests by settings, and the reasons of refused ones."""
    scopes: dict[str, list[Scope]] = {}
    refused: list[str] = []
    for key in manifest.get(KEY, {}):
        for stored in _stored(manifest, key):
            scope = _read(stored)
            if scope is None:
                refused.append(stored.removeprefix(REFUSED))
            else:
                scopes.setdefault(key, []).append(scope)
    return scopes, refused


def _stored(manifest: Mapping[str, Any], key: str) -> list[Any]:
    """Return the stored families of settings; earlier versions stored only the last one."""
    stored = manifest.get(KEY, {}).get(key, [])
    return stored if isinstance(stored, list) else [stored]


def _ordered(scope: Scope) -> Scope:
    """Return the same family with its names sorted; their order has no meaning."""
    return replace(scope, items=tuple(sorted(scope.items)), trials=tuple(sorted(scope.trials)))


def _read(stored: Any) -> Scope | None:
    """Decode a stored family; None if it was refused."""
    if isinstance(stored, str):
        # The first version stored only the family's name.
        return None if stored.startswith(REFUSED) else Scope(family=Family(stored))
    return Scope(
        family=Family(stored["family"]),
        adjust=Adjust(stored["adjust"]),
        items=tuple(stored["items"]),
        trials=tuple(stored["trials"]),
        label=stored["label"],
    )


def earlier_key(settings: Settings, given: Collection[str]) -> str:
    """Return the key under which earlier versions, without `max_calls`, stored these settings.

    A run that they tested is complete; only `medstress test` tests it again by today's rule.

    Args:
        settings: today's settings.
        given: keys that `[test]` sets; the default of `loops` has changed.
    """
    names = ("null", "controls", "stop_at", "statistic", "loops", "generator")
    values = {name: settings.as_json()[name] for name in names}
    return settings_key(values if "loops" in given else {**values, "loops": EARLIER_LOOPS})
