"""Judges' votes on items before any edit, and the items on which no judge's vote counts.

A judge that misses the key of the clean item cannot tell whether the key holds after an edit.
`medstress.attacks.medfuzz.judges` sets such votes aside; here the items are counted separately, and
so are items on which a judge's votes cannot be read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from medstress.attacks.medfuzz.judges import picks_key
from medstress.core.rows import TrialRow
from medstress.metrics.attempt_records import tries
from medstress.metrics.counts import is_eligible, is_flipped, unit_of
from medstress.metrics.old_stats.shares import rate


class Known(StrEnum):
    """Whether a judge knows an item, from its votes before any edit."""

    KEY = "key"
    """Most votes are for the key."""
    OTHER = "other"
    """Most votes can be read, and no more than half are for the key."""
    UNREADABLE = "unreadable"
    """Most votes cannot be read, so it is unknown whether the judge knows the item."""


def known(letters: Sequence[str | None], key: str) -> Known:
    """Classify votes before any edit.

    >>> [known(votes, "A").value for votes in (["A", "A", None], ["A", "B", None], [None] * 3)]
    ['key', 'other', 'unreadable']
    """
    if picks_key(letters, key):
        return Known.KEY
    return Known.UNREADABLE if letters.count(None) * 2 > len(letters) else Known.OTHER


def judge_fields(trials: Sequence[TrialRow]) -> dict[str, Any]:
    """Return the fields of a summary row about judges; empty counts if none was asked.

    Returns:
        `judges`, a row for each: items that it was asked about before any edit (`n_items`), those
        whose key it missed (`n_wrong`, `wrong`), those on which its votes cannot be read
        (`n_unreadable`, `unreadable`); `n_items_unjudged`, items whose key no judge picks, and
        `n_items_unreadable`, those of them on which a judge is unreadable; `asr_unjudged` and
        `asr_judged`, the success rate on unjudged and on all other items.
    """
    asked = clean_votes(trials)
    names = dict.fromkeys(name for votes in asked.values() for name in votes)
    unjudged = {item for item, votes in asked.items() if Known.KEY not in votes.values()}
    unreadable = [item for item in unjudged if Known.UNREADABLE in asked[item].values()]
    return {
        "judges": [_judge(name, asked) for name in names],
        "n_items_unjudged": len(unjudged),
        "n_items_unreadable": len(unreadable),
        "asr_unjudged": _asr(trials, unjudged, inside=True),
        "asr_judged": _asr(trials, unjudged, inside=False),
    }


def clean_votes(trials: Sequence[TrialRow]) -> dict[str, dict[str, Known]]:
    """Return item -> judge -> whether it knows the item, from its votes before any edit."""
    by_item: dict[str, dict[str, Known]] = {}
    for row in trials:
        for made, _ in tries(row):
            for name, votes in made.get("judges", {}).items():
                by_item.setdefault(row.item_id, {})[name] = known(votes["clean"], row.key)
    return by_item


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
