"""The part of a plan that one shard runs; plan and fingerprint are those of the whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from medstress.core.errors import OtherRunError
from medstress.core.shards import Shard, cut
from medstress.experiment.file.config import LIMITS
from medstress.experiment.plan.plan import Caps, Prepared
from medstress.store.shards import KEY, shard_of


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


def check_shard(
    folder: Path,
    known: Mapping[str, Any],
    prepared: Prepared,
    begun: Callable[[], Iterable[tuple[str, str, str]]],
) -> None:
    """Check that a folder holds the shard that is to run, and that none of its items left it.

    The trials that an extension adds get places after those of the plan that it extends, as in a
    run that is extended on one machine.

    Args:
        folder: the run folder.
        known: its manifest; empty if it is new.
        prepared: the experiment.
        begun: gives data set, id and hash of the items whose trials have begun.

    Raises:
        OtherRunError: the folder holds another shard, or a whole run.
    """
    if not known:
        return
    held, portion = shard_of(known), prepared.portion
    if held != portion.shard:
        holds = "a whole run" if held is None else f"shard {held}"
        asked = "no --shard was given" if portion.shard is None else f"--shard is {portion.shard}"
        hint = "" if held is None else f" give --shard {held}, or"
        raise OtherRunError(
            f"{folder} holds {holds}, but {asked};{hint} choose another folder with --out", folder
        )
    if portion.own is None:
        return
    strays = [item for _, item, hash_ in begun() if (item, hash_) not in portion.own]
    if strays:
        raise OtherRunError(
            f"{folder} holds {len(strays)} items, such as {strays[0]!r}, that belong to other "
            "shards now that the plan has other items (a --limit that is raised puts items in "
            "between); run all shards to the end as they were, merge them, and run the new plan in "
            "the merged folder, which asks what is new alone",
            folder,
        ).with_command("medstress merge DIR... --out DIR")
    before, entry = known[KEY], portion.notes[KEY]
    first = before["first"]
    if before["n_trials"] != entry["n_trials"]:
        first += before["n_trials"]
    notes = {**portion.notes, KEY: {**entry, "first": first}}
    prepared.portion = replace(portion, first_place=first, notes=notes)
