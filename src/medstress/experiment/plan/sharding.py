"""The part of a plan that one shard runs; plan and fingerprint are those of the whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from medstress.core.shards import Shard, cut
from medstress.experiment.file.config import LIMITS
from medstress.experiment.plan.plan import Caps, Prepared
from medstress.store.shards import KEY, PLACES


def take_shard(prepared: Prepared, shard: Shard) -> None:
    """Let a prepared experiment with open victims run one shard.

    Args:
        prepared: the whole plan, with passages fitted to the victims.
        shard: which part.
    """
    whole = prepared.portion
    shards = cut([part.questions for part in prepared.datasets], shard.of)
    positions = {
        part.label: {
            item.id: position
            for position, (item, number) in enumerate(zip(part.questions, numbers, strict=True))
            if number == shard.number
        }
        for part, numbers in zip(prepared.datasets, shards, strict=True)
    }
    own = {
        (item.id, item.hash)
        for part, numbers in zip(prepared.datasets, shards, strict=True)
        for item, number in zip(part.questions, numbers, strict=True)
        if number == shard.number
    }
    told = {
        "number": shard.number,
        "of": shard.of,
        "n_trials": prepared.n_trials(),
        "positions": positions,
        **_places_of_parts(prepared, positions),
    }
    prepared.portion = replace(
        whole,
        shard=shard,
        asks=lambda victim, item: (item.id, item.hash) in own and whole.asks(victim, item),
        notes={**whole.notes, KEY: told},
        caps=part_of_limits(prepared, shard),
    )


def _places_of_parts(
    prepared: Prepared, positions: Mapping[str, Mapping[str, int]]
) -> dict[str, Any]:
    """Return which of the victims of one name is asked about an item, if several share names.

    The plan has all items of the first victim before those of the second, and results tell the
    name alone: (name, data set, item) -> place of the victim.
    """
    names, asks = prepared.portion.names, prepared.portion.asks
    places: dict[str, dict[str, dict[str, int]]] = {}
    for place, victim in enumerate(prepared.victims):
        if victim.label not in names:
            continue
        of_name = places.setdefault(names[victim.label], {})
        for part in prepared.datasets:
            of_name.setdefault(part.label, {}).update(
                (item.id, place)
                for item in part.questions
                if item.id in positions[part.label] and asks(victim.label, item)
            )
    return {PLACES: places} if places else {}


def part_of_limits(prepared: Prepared, shard: Shard) -> Caps:
    """Return a shard's part of the experiment's limits; the parts of all shards sum to them."""
    settings = prepared.experiment.experiment
    parts: dict[str, Any] = {}
    for name in LIMITS:
        whole = getattr(settings, name)
        if whole is None:
            continue
        parts[name] = shard.share(whole) if isinstance(whole, int) else whole / shard.of
    return Caps(**parts)
