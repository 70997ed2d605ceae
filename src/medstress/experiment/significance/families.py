"""The family of a run's tests: fixed before the first query or later, kept in the manifest."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from medstress.experiment.config import SignificanceTable
from medstress.experiment.significance.settings import Settings
from medstress.hashing import content_hash
from medstress.metrics.significance import Adjust, Family
from medstress.metrics.success_families import POST_HOC, PRE_SPECIFIED, Scope, settings_key

KEY = "tests"
"""Manifest entry: settings of tests -> their families as asked for, or why they were refused."""
FIXED = "fixed_family"
"""Manifest entry: the family that `[test]` fixed before the first query, with its hash."""
REFUSED = "refused: "
EARLIER_LOOPS = 10
"""Default of `loops` by which earlier versions tested."""


def fixed_family(table: SignificanceTable | None) -> dict[str, Any]:
    """What the manifest keeps of the family before anything is asked; empty where none is fixed."""
    if table is None or not (table.items or table.trials):
        return {}
    told = {"items": sorted(table.items), "trials": sorted(table.trials)}
    return {FIXED: {**told, "hash": _hash(table.items, table.trials)}}


def _hash(items: Collection[str], trials: Collection[str]) -> str:
    return content_hash([sorted(items), sorted(trials)])


def scope_of(settings: Settings, manifest: Mapping[str, Any]) -> Scope:
    """The family that settings ask for, pre-specified where the run began with it."""
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
    """The manifest's entry with the family of these settings in it, asked for last.

    Families that were asked for with the same settings before stay beside it.
    """
    told = {
        "family": scope.family.value,
        "adjust": scope.adjust.value,
        "items": list(scope.items),
        "trials": list(scope.trials),
        "label": scope.label,
    }
    key = settings_key(settings.as_told())
    known = [(one, _read(one)) for one in _kept(manifest, key)]
    before = [one for one, other in known if other and _ordered(other) != _ordered(scope)]
    return {KEY: {**manifest.get(KEY, {}), key: [*before, told]}}


def with_refusal(
    manifest: Mapping[str, Any], settings: Settings, why: str
) -> dict[str, dict[str, Any]]:
    """The manifest's entry with why these settings could not be followed."""
    key = settings_key(settings.as_told())
    before = [one for one in _kept(manifest, key) if _read(one) is not None]
    return {KEY: {**manifest.get(KEY, {}), key: [*before, f"{REFUSED}{why}"]}}


def scopes_of(manifest: Mapping[str, Any]) -> tuple[dict[str, list[Scope]], list[str]]:
    """The families of all tests of a run, by settings, and why others were refused."""
    found: dict[str, list[Scope]] = {}
    refused: list[str] = []
    for key in manifest.get(KEY, {}):
        for told in _kept(manifest, key):
            scope = _read(told)
            if scope is None:
                refused.append(told.removeprefix(REFUSED))
            else:
                found.setdefault(key, []).append(scope)
    return found, refused


def _kept(manifest: Mapping[str, Any], key: str) -> list[Any]:
    """All that is kept of settings; earlier versions kept their last family alone."""
    kept = manifest.get(KEY, {}).get(key, [])
    return kept if isinstance(kept, list) else [kept]


def _ordered(scope: Scope) -> Scope:
    """The same family with its names in order, which says nothing."""
    return replace(scope, items=tuple(sorted(scope.items)), trials=tuple(sorted(scope.trials)))


def _read(told: Any) -> Scope | None:
    """A family; None where it was refused."""
    if isinstance(told, str):
        # The first edition kept the family's name alone.
        return None if told.startswith(REFUSED) else Scope(family=Family(told))
    return Scope(
        family=Family(told["family"]),
        adjust=Adjust(told["adjust"]),
        items=tuple(told["items"]),
        trials=tuple(told["trials"]),
        label=told["label"],
    )


def earlier_key(settings: Settings, given: Collection[str]) -> str:
    """The settings as earlier versions kept them, which had no `max_calls`.

    A run that was tested by them is complete: to ask everything again by today's rule takes
    `medstress test`.

    Args:
        settings: of now.
        given: keys that `[test]` has; the default of `loops` has changed.
    """
    names = ("null", "controls", "stop_at", "statistic", "loops", "generator")
    told = {name: settings.as_told()[name] for name in names}
    return settings_key(told if "loops" in given else {**told, "loops": EARLIER_LOOPS})
