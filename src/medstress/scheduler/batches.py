"""Which calls go out together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import islice

from medstress.calls import Reply
from medstress.scheduler.lane import BackendQueue, CallGroup, QueuedCall
from medstress.scheduler.sharing import KnownAnswers


def next_batch(
    queue: BackendQueue,
    size: int,
    known: KnownAnswers,
    deliver: Callable[[QueuedCall, Reply], None],
) -> list[QueuedCall]:
    """Fill a batch from a queue; what is stored already is delivered instead.

    Args:
        lane: the queue.
        size: most calls of the batch.
        known: where an answer may be already.
        deliver: tells every trial that waits for a call.
    """
    batch: list[QueuedCall] = []
    while len(batch) < size:
        groups = _groups(queue, size - len(batch), starts=not batch)
        if not groups:
            break
        asked = [entry for group in groups for entry in group.entries]
        stored = known.lookup([entry.key for entry in asked])
        needed = len(asked) - len(stored)
        for group in groups:
            missing = group.entries
            if stored:
                missing = _undelivered(missing, stored, deliver)
            needed -= len(missing)
            if len(batch) + len(missing) > size:
                queue.add(replace(group, entries=missing))
                continue
            batch += missing
            if missing and not missing[0].alone:
                n = size - len(batch)
                if not _takes_all(group, queue):
                    # Room is kept for what the other groups need now.
                    n = min(queue.backend.traits.ahead, max(n - needed, 0))
                if n > 0:
                    batch += _missing(list(islice(group.ahead, n)), known, deliver)
        if batch and batch[0].alone:
            break
    return batch


def _groups(queue: BackendQueue, room: int, *, starts: bool) -> list[CallGroup]:
    """The next groups that fit; one that goes alone only where it starts the batch."""
    if starts and queue.next_is_alone:
        group = queue.take(room, alone=True)
        return [group] if group is not None else []
    groups: list[CallGroup] = []
    while room > 0 and (group := queue.take(room)) is not None:
        groups.append(group)
        room -= len(group.entries)
    return groups


def _takes_all(group: CallGroup, queue: BackendQueue) -> bool:
    """Whether what a trial asks next goes before other trials: prompts of an item share most."""
    return group.ahead_is_certain and queue.backend.traits.ahead > 0


def _missing(
    entries: list[QueuedCall], known: KnownAnswers, deliver: Callable[[QueuedCall, Reply], None]
) -> list[QueuedCall]:
    """Work ahead that is not stored; the rest is dropped, nobody waits for it."""
    if not entries:
        return []
    return _undelivered(entries, known.lookup([entry.key for entry in entries]), deliver)


def _undelivered(
    entries: list[QueuedCall],
    stored: Mapping[bytes, Reply],
    deliver: Callable[[QueuedCall, Reply], None],
) -> list[QueuedCall]:
    """The entries that are not stored; the others are delivered."""
    for entry in entries:
        if entry.key in stored:
            deliver(entry, stored[entry.key])
    return [entry for entry in entries if entry.key not in stored]
