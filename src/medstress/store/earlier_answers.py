"""What a run says about the next run of its models: lengths of answers, how often they flip, and
how fast they come."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from medstress.core.errors import StoreError
from medstress.core.outcomes import Verdict
from medstress.store.database import FILE
from medstress.store.opening import interpreting, open_for_reading
from medstress.store.spending import VICTIM, Spending, read_spending
from medstress.store.views import make_views

T = TypeVar("T")
_SAME = ("template", "answer_by", "decoding", "prompted")
"""Parts of a victim's task that its answers' lengths depend on."""
_TRIALS = """
SELECT a.spec LIKE '%"control_of":%', t.verdict, COUNT(*),
       TOTAL(json_extract(t.result, '$.n_asked'))
FROM trials t JOIN arms a ON a.id = t.arm WHERE a.victim = ? GROUP BY 1, 2
"""
_ATTACKED = (Verdict.HELD, Verdict.FLIPPED)
_LOST = (Verdict.ALREADY_WRONG, Verdict.UNREADABLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierAnswers:
    """Counts of one victim in one run."""

    n_calls: int
    """Computed calls."""
    tokens_in: int
    """Tokens they read."""
    tokens_out: int
    """Tokens they wrote."""
    seconds: float
    """Seconds that workers spent on them."""
    n_right: int
    """Attacked trials: right at baseline."""
    n_lost: int
    """Trials that were wrong or unreadable at baseline."""
    asked: tuple[int, int]
    """Queries with an edit: of attacks, of controls."""
    flipped: tuple[int, int]
    """Trials that flipped: of attacks, of controls."""
    datasets: frozenset[str]
    """Hashes of the run's data sets."""
    in_turns: bool
    """Whether an attack of the run asked in conversations."""


def earlier_answers(
    folder: Path, model_hash: str, task: Mapping[str, Any]
) -> EarlierAnswers | None:
    """Return the counts of a model that a run asked in the same way; None if it did not.

    Args:
        folder: a folder, which need not hold a run; one that cannot be read counts as none.
        model_hash: the model's identity.
        task: the specification of the victim's task.
    """
    return _read_from(folder, lambda db: _read(db, model_hash, task))


def spent_in(folder: Path) -> list[Spending]:
    """Return what the run in a folder has used up; nothing if none can be read."""
    return _read_from(folder, read_spending) or []


def _read_from(folder: Path, read: Callable[[sqlite3.Connection], T]) -> T | None:
    """Read the run in a folder; None if there is none that can be read."""
    path = folder / FILE
    if not path.is_file():
        return None
    try:
        with interpreting(path):
            opened = open_for_reading(path)
            with closing(opened.db) as db:
                if opened.is_empty:
                    return None
                make_views(db)
                return read(db)
    except (StoreError, sqlite3.Error):
        return None


def _read(
    db: sqlite3.Connection, model_hash: str, task: Mapping[str, Any]
) -> EarlierAnswers | None:
    manifest = {key: json.loads(value) for key, value in db.execute("SELECT * FROM manifest")}
    label = next(
        (
            label
            for label, each in manifest.get("victims", {}).items()
            if each.get("model_hash") == model_hash and _is_same(each.get("task", {}), task)
        ),
        None,
    )
    spent = [s for s in read_spending(db) if (s.role, s.victim) == (VICTIM, label)]
    if label is None or not spent:
        return None
    asked, flipped, right, lost = [0, 0], [0, 0], 0, 0
    for of_control, verdict, n, n_asked in db.execute(_TRIALS, (label,)):
        if verdict in _ATTACKED:
            right += n
            asked[of_control] += int(n_asked)
            flipped[of_control] += n * (verdict == Verdict.FLIPPED)
        elif verdict in _LOST:
            lost += n
    return EarlierAnswers(
        n_calls=spent[0].n_calls,
        tokens_in=spent[0].tokens_in,
        tokens_out=spent[0].tokens_out,
        seconds=spent[0].seconds,
        n_right=right,
        n_lost=lost,
        asked=(asked[0], asked[1]),
        flipped=(flipped[0], flipped[1]),
        datasets=frozenset(str(each.get("hash")) for each in manifest.get("datasets", {}).values()),
        in_turns=any("reasoning_tokens" in spec for spec in manifest.get("attacks", {}).values()),
    )


def _is_same(known: Mapping[str, Any], task: Mapping[str, Any]) -> bool:
    # The task may hold tuples where the manifest holds lists.
    return all(json.dumps(known.get(key)) == json.dumps(task.get(key)) for key in _SAME)
