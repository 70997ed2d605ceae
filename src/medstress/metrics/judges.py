"""What judges make of items before any edit, and the items on which their word counts for nothing.

A judge that misses the key of the clean item cannot tell whether an edit leaves it right. Its votes
are set aside where they are cast (`medstress.attacks.judges`); here such items are shown apart. So
are those on which its votes cannot be read: they say nothing of what it knows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from medstress.attacks.judges import picks_key
from medstress.metrics.counts import is_eligible, is_flipped, unit_of
from medstress.metrics.shares import rate
from medstress.metrics.tries import tries
from medstress.rows import TrialRow


class Known(StrEnum):
    """What the votes of a judge before any edit say of it."""

    KEY = "key"
    """Most are for the key."""
    OTHER = "other"
    """Most can be read, and no more than half are for the key."""
    UNREADABLE = "unreadable"
    """Most cannot be read, so that nobody knows what it knows."""


def known(letters: Sequence[str | None], key: str) -> Known:
    """Say what votes before any edit show.

    >>> [known(votes, "A").value for votes in (["A", "A", None], ["A", "B", None], [None] * 3)]
    ['key', 'other', 'unreadable']
    """
    if picks_key(letters, key):
        return Known.KEY
    return Known.UNREADABLE if letters.count(None) * 2 > len(letters) else Known.OTHER


def judge_fields(trials: Sequence[TrialRow]) -> dict[str, Any]:
    """The fields of a summary row that are about judges; nothing known where none was asked.

    Returns:
        `judges`, a row for each: items about which it was asked before any edit (`n_items`), those
        whose key it missed (`n_wrong`, `wrong`), those on which its votes cannot be read
        (`n_unreadable`, `unreadable`); `n_items_unjudged`, those whose key no judge picks, and
        `n_items_unreadable`, of these the ones on which a judge is unreadable;
        `asr_unjudged` and `asr_judged`, the success rate on unjudged and on all other items.
    """
    asked = clean_votes(trials)
    names = dict.fromkeys(name for votes in asked.values() for name in votes)
    unjudged = _unjudged(asked)
    unreadable = [item for item in unjudged if Known.UNREADABLE in asked[item].values()]
    return {
        "judges": [_judge(name, asked) for name in names],
        "n_items_unjudged": len(unjudged),
        "n_items_unreadable": len(unreadable),
        "asr_unjudged": _asr(trials, unjudged, inside=True),
        "asr_judged": _asr(trials, unjudged, inside=False),
    }


def unjudged_items(trials: Sequence[TrialRow]) -> set[str]:
    """Items whose key no judge who was asked picks before any edit: no vote on them counts."""
    return _unjudged(clean_votes(trials))


def clean_votes(trials: Sequence[TrialRow]) -> dict[str, dict[str, Known]]:
    """Item -> judge -> what its votes before any edit show."""
    found: dict[str, dict[str, Known]] = {}
    for row in trials:
        for made, _ in tries(row):
            for name, told in made.get("judges", {}).items():
                found.setdefault(row.item_id, {})[name] = known(told["clean"], row.key)
    return found


def _unjudged(asked: Mapping[str, Mapping[str, Known]]) -> set[str]:
    return {item for item, votes in asked.items() if Known.KEY not in votes.values()}


def _judge(name: str, asked: Mapping[str, Mapping[str, Known]]) -> dict[str, Any]:
    votes = {item: each[name] for item, each in sorted(asked.items()) if name in each}
    wrong = [item for item, what in votes.items() if what is Known.OTHER]
    unreadable = [item for item, what in votes.items() if what is Known.UNREADABLE]
    return {
        "judge": name,
        "n_items": len(votes),
        "n_wrong": len(wrong),
        "wrong": wrong,
        "n_unreadable": len(unreadable),
        "unreadable": unreadable,
    }


def _asr(trials: Sequence[TrialRow], items: set[str], *, inside: bool) -> dict[str, Any]:
    return rate(
        (unit_of(row), is_flipped(row))
        for row in trials
        if is_eligible(row) and (row.item_id in items) is inside
    ).as_json()
