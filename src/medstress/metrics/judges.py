"""What judges make of items before any edit, and the items on which their word counts for nothing.

A judge that misses the key of the clean item cannot tell whether an edit leaves it right. Its votes
are set aside where they are cast (`medstress.attacks.judges`); here such items are shown apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from medstress.metrics.counts import is_eligible, is_flipped, unit_of
from medstress.metrics.shares import rate
from medstress.metrics.tries import tries
from medstress.rows import TrialRow


def judge_fields(trials: Sequence[TrialRow]) -> dict[str, Any]:
    """The fields of a summary row that are about judges; nothing known where none was asked.

    Returns:
        `judges`, a row for each: items about which it was asked before any edit (`n_items`), those
        whose key it missed (`n_wrong`, `wrong`); `n_items_unjudged`, those that all missed;
        `asr_unjudged` and `asr_judged`, the success rate on these and on all other items.
    """
    asked = _knowing(trials)
    names = dict.fromkeys(name for knows in asked.values() for name in knows)
    missed = _unknown(asked)
    return {
        "judges": [_judge(name, asked) for name in names],
        "n_items_unjudged": len(missed),
        "asr_unjudged": _asr(trials, missed, inside=True),
        "asr_judged": _asr(trials, missed, inside=False),
    }


def unjudged_items(trials: Sequence[TrialRow]) -> set[str]:
    """Items that every judge who was asked missed before any edit: no vote on them counts."""
    return _unknown(_knowing(trials))


def _unknown(asked: Mapping[str, Mapping[str, bool]]) -> set[str]:
    return {item for item, knows in asked.items() if not any(knows.values())}


def _judge(name: str, asked: Mapping[str, Mapping[str, bool]]) -> dict[str, Any]:
    wrong = sorted(item for item, knows in asked.items() if not knows.get(name, True))
    n_items = sum(name in knows for knows in asked.values())
    return {"judge": name, "n_items": n_items, "n_wrong": len(wrong), "wrong": wrong}


def _knowing(trials: Sequence[TrialRow]) -> dict[str, dict[str, bool]]:
    """Item -> judge -> whether most of its votes before any edit were for the key."""
    found: dict[str, dict[str, bool]] = {}
    for row in trials:
        for made, _ in tries(row):
            for name, told in made.get("judges", {}).items():
                letters = told["clean"]
                knows = letters.count(row.key) * 2 > len(letters)
                found.setdefault(row.item_id, {})[name] = knows
    return found


def _asr(trials: Sequence[TrialRow], items: set[str], *, inside: bool) -> dict[str, Any]:
    return rate(
        (unit_of(row), is_flipped(row))
        for row in trials
        if is_eligible(row) and (row.item_id in items) is inside
    ).as_json()
