"""The part of a plan that one shard runs; plan and fingerprint are those of the whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from medstress.core.shards import Shard, cut
from medstress.experiment.file.config import LIMITS
from medstress.experiment.plan.plan import Caps, Prepared
from medstress.store.shards import KEY


def take_shard(prepared: Prepared, shard: Shard) -> None:
    """Let a prepared experiment with open victims run one shard.

    Args:
        prepared: the whole plan, with passages fitted to the victims.
        shard: which part.
    """
    whole = prepared.portion
    shards = cut([part.questions for part in prepared.datasets], shard.of)
    own = frozenset(
        (item.id, item.hash)
        for part, numbers in zip(prepared.datasets, shards, strict=True)
        for item, number in zip(part.questions, numbers, strict=True)
        if number == shard.number
    )
    entry = {"number": shard.number, "of": shard.of, "n_trials": prepared.n_trials(), "first": 0}
    prepared.portion = replace(
        whole,
        shard=shard,
        own=own,
        notes={**whole.notes, KEY: entry},
        caps=part_of_limits(prepared, shard),
    )


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


def go_on(prepared: Prepared, known: Mapping[str, Any]) -> None:
    """Give the trials that an extension adds places after those of the plan that it extends.

    So they stand in a run that is extended on one machine.

    Args:
        prepared: the shard that is to run.
        known: the folder's manifest, of the same shard.
    """
    portion, before = prepared.portion, known[KEY]
    entry, first = portion.notes[KEY], before["first"]
    if before["n_trials"] != entry["n_trials"]:
        first += before["n_trials"]
    notes = {**portion.notes, KEY: {**entry, "first": first}}
    prepared.portion = replace(portion, first_place=first, notes=notes)
