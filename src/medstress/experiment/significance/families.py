"""The family of a run's tests: fixed before the first query or later, kept in the manifest."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from medstress.experiment.config import SignificanceTable
from medstress.experiment.significance.settings import Settings
from medstress.hashing import content_hash
from medstress.metrics.significance import Adjust, Family
from medstress.metrics.success_families import Scope, settings_key

KEY = "tests"
"""Manifest entry: settings of tests -> their family, or why they were refused."""
FIXED = "fixed_family"
"""Manifest entry: the family that `[test]` fixed before the first query, with its hash."""
REFUSED = "refused: "
PRE_SPECIFIED, POST_HOC = "pre-specified", "post hoc"
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
    """The manifest's entry with the family of these settings in it."""
    told = {
        "family": scope.family.value,
        "adjust": scope.adjust.value,
        "items": list(scope.items),
        "trials": list(scope.trials),
        "label": scope.label,
    }
    return {KEY: {**manifest.get(KEY, {}), settings_key(settings.as_told()): told}}


def with_refusal(
    manifest: Mapping[str, Any], settings: Settings, why: str
) -> dict[str, dict[str, Any]]:
    """The manifest's entry with why these settings could not be followed."""
    key = settings_key(settings.as_told())
    return {KEY: {**manifest.get(KEY, {}), key: f"{REFUSED}{why}"}}


def scopes_of(manifest: Mapping[str, Any]) -> tuple[dict[str, Scope], list[str]]:
    """The families of all tests of a run, by settings, and why others were refused."""
    found: dict[str, Scope] = {}
    refused: list[str] = []
    for key, told in manifest.get(KEY, {}).items():
        if isinstance(told, str):
            # Earlier versions kept the family's name alone.
            if told.startswith(REFUSED):
                refused.append(told.removeprefix(REFUSED))
            else:
                found[key] = Scope(family=Family(told))
            continue
        found[key] = Scope(
            family=Family(told["family"]),
            adjust=Adjust(told["adjust"]),
            items=tuple(told["items"]),
            trials=tuple(told["trials"]),
            label=told["label"],
        )
    return found, refused


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
