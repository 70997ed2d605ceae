"""Choose the calls that a back end gets in one batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import islice

from medstress.core.calls import Backend, Reply
from medstress.engine.backend_queue import BackendQueue, CallGroup, QueuedCall
from medstress.engine.shared_answers import KnownAnswers


def next_batch(
    queue: BackendQueue,
    size: int,
    known: KnownAnswers,
    deliver: Callable[[QueuedCall, Reply], None],
) -> list[QueuedCall]:
    """Fill a batch from a queue; calls with a stored answer are delivered instead.

    Args:
        queue: of one back end.
        size: the largest number of calls in the batch.
        known: answers that are stored already.
        deliver: hands a reply to every trial that waits for the call.
    """
    batch: list[QueuedCall] = []
    while len(batch) < size:
        groups = _groups(queue, size - len(batch), starts=not batch)
        if not groups:
            break
        entries = [entry for group in groups for entry in group.entries]
        stored = known.lookup([entry.key for entry in entries])
        needed = len(entries) - len(stored)
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


def deliver_known(
    queue: BackendQueue, known: KnownAnswers, deliver: Callable[[QueuedCall, Reply], None]
) -> None:
    """Deliver the waiting calls with a stored answer; the others go on waiting."""
    groups = queue.take_all()
    entries = [entry for group in groups for entry in group.entries]
    stored = known.lookup([entry.key for entry in entries])
    for group in groups:
        if missing := _undelivered(group.entries, stored, deliver):
            queue.add(replace(group, entries=missing))


def _groups(queue: BackendQueue, room: int, *, starts: bool) -> list[CallGroup]:
    """Take the next groups that fit; an isolated group only at the start of a batch."""
    if starts and queue.next_is_alone:
        group = queue.take(room, alone=True)
        return [group] if group is not None else []
    groups: list[CallGroup] = []
    while room > 0 and (group := queue.take(room)) is not None:
        groups.append(group)
        room -= len(group.entries)
    return groups


def _takes_all(group: CallGroup, queue: BackendQueue) -> bool:
    """True if a trial's next calls go before other trials: prompts of one item share most."""
    return group.ahead_is_certain and queue.backend.traits.ahead > 0


def _missing(
    entries: list[QueuedCall], known: KnownAnswers, deliver: Callable[[QueuedCall, Reply], None]
) -> list[QueuedCall]:
    """Return the calls ahead of need that are not stored; nobody waits for the others."""
    if not entries:
        return []
    return _undelivered(entries, known.lookup([entry.key for entry in entries]), deliver)


def _undelivered(
    entries: list[QueuedCall],
    stored: Mapping[bytes, Reply],
    deliver: Callable[[QueuedCall, Reply], None],
) -> list[QueuedCall]:
    """Deliver the stored entries and return the others."""
    for entry in entries:
        if entry.key in stored:
            deliver(entry, stored[entry.key])
    return [entry for entry in entries if entry.key not in stored]


def most_held(backend: Backend) -> int:
    """Return the largest number of calls that a back end works on at once."""
    return backend.traits.batch_size * backend.traits.workers
