"""Pairs of trials of two arms on the same item, part, repeat and seed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.metrics.counts import unit_of
from medstress.metrics.old_stats.shares import Unit

Key: TypeAlias = tuple[str, int, str, int]
"""(hash of the item, which of several items with that hash, its part, repeat)."""
Trials: TypeAlias = Mapping[Key, Mapping[int | None, TrialRow]]
"""Key -> seed -> trial."""


class Pair(NamedTuple):
    """Two trials that differ in the factor alone."""

    unit: Unit
    """(Document, item and part), the widest first."""
    a: TrialRow
    """The trial of A."""
    b: TrialRow
    """The trial of B."""
    control_a: TrialRow | None = None
    """The trial of A's control on the same item and seed."""
    control_b: TrialRow | None = None
    """The same of B."""


def by_key(rows: Iterable[TrialRow]) -> Trials:
    """Arrange the trials of one arm by what they share with those of another.

    Trials that are only measured, and those whose item the attack cannot edit, are left out.
    """
    kept = [r for r in rows if r.verdict not in (Verdict.MEASURED, Verdict.NOT_ATTACKABLE)]
    ids: dict[str, set[str]] = defaultdict(set)
    for row in kept:
        ids[row.item_hash].add(row.item_id)
    # Items of one content are told apart by their rank, for their identifiers may differ.
    rank = {(h, item): i for h, items in ids.items() for i, item in enumerate(sorted(items))}
    found: dict[Key, dict[int | None, TrialRow]] = defaultdict(dict)
    for row in kept:
        place = rank[row.item_hash, row.item_id]
        found[row.item_hash, place, row.unit, row.repeat][row.seed] = row
    return found


def pairs_of(first: Trials, second: Trials) -> list[Pair]:
    """Pair the trials of two arms; the only trial of a deterministic attack stands for every seed.

    Returns:
        The pairs, in the order of A's items; those of one item are not independent.
    """
    return [
        Pair(unit_of(a), a, b)
        for key in first
        if key in second
        for a, b in _seeds(first[key], second[key])
    ]


def with_controls(pairs: Iterable[Pair], first: Trials, second: Trials) -> list[Pair]:
    """Return the pairs for which both arms have a trial of their control, with these trials."""
    ours, theirs = _by_item(first), _by_item(second)
    found = []
    for pair in pairs:
        controls = _same(ours, pair.a), _same(theirs, pair.b)
        if controls[0] is not None and controls[1] is not None:
            found.append(pair._replace(control_a=controls[0], control_b=controls[1]))
    return found


def _seeds(
    first: Mapping[int | None, TrialRow], second: Mapping[int | None, TrialRow]
) -> Iterator[tuple[TrialRow, TrialRow]]:
    for ours, a in first.items():
        for theirs, b in second.items():
            if ours == theirs or ours is None or theirs is None:
                yield a, b


def _by_item(trials: Trials) -> dict[tuple[str, str, int, int | None], TrialRow]:
    rows = (row for seeds in trials.values() for row in seeds.values())
    return {(row.item_id, row.unit, row.repeat, row.seed): row for row in rows}


def _same(
    known: Mapping[tuple[str, str, int, int | None], TrialRow], row: TrialRow
) -> TrialRow | None:
    found = known.get((row.item_id, row.unit, row.repeat, row.seed))
    return found or known.get((row.item_id, row.unit, row.repeat, None))
