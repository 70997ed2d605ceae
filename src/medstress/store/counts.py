"""What the ledger counts, in one pass over the calls that trials consumed, in the plan's order.

If several queries share a call, the first of them in the plan's order pays for it, so that the
counts do not depend on which was computed first, nor on restarts. Answers from the shared cache are
free.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from medstress.core.calls import FROM_CACHE
from medstress.store.forgetting import attempts
from medstress.store.key_index import KEY_BYTES

ArmRow: TypeAlias = int
_VICTIM = "victim"


@dataclass(slots=True, kw_only=True)
class Counts:
    """Counts of a run, by rows of its trials and arms."""

    queries: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    """Trial -> queries of its attack that it paid, got for nothing, and lost."""
    others: defaultdict[ArmRow, defaultdict[str, int]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(int))
    )
    """Arm -> `baseline`, `other`, `ahead`: what was asked besides."""
    roles: defaultdict[ArmRow, dict[str, list[int]]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    """Arm -> role -> computed calls, tokens in and tokens out; a shared call counts for its first
    trial."""
    calls: defaultdict[ArmRow, list[int]] = field(
        default_factory=lambda: defaultdict(lambda: [0, 0])
    )
    """Arm -> calls and queries of the model about items and their edits, cached ones too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answers:
    """The answers of a run; arrays by row, whose first place is empty."""

    same: NDArray[np.int64]
    """A number that answers to the same call share: two shards may have bought it."""
    trial: NDArray[np.int64]
    """The trial that asked, or `FROM_CACHE`."""
    tokens: NDArray[np.int64]
    """Tokens in and out, shape (n, 2)."""


def count(db: sqlite3.Connection, arms: Mapping[int, ArmRow], inquiries: Container[int]) -> Counts:
    """Count what the trials of a run consumed.

    Args:
        db: the run, with its views.
        arms: trial -> row of its arm.
        inquiries: trials that are questions of analyses, whose calls no arm pays.
    """
    counts, answers, begun = Counts(), _answers(db), attempts(db)
    is_free = np.zeros(len(answers.same) + 1, dtype=bool)
    is_free[answers.same[1:][answers.trial[1:] == FROM_CACHE]] = True
    free, paid, seen = bytearray(is_free), bytearray(len(is_free)), bytearray(len(is_free))
    same = answers.same.tolist()
    current, queries = 0, dict[tuple[str, int | None], list[bool]]()
    without = dict[bytes, int]()  # calls whose answer is not stored
    for trial, attempt, role, purpose, query, call, answer, key, is_lost in db.execute(
        "SELECT trial, attempt, role, purpose, query, call, answer, key, error IS NOT NULL "
        "FROM main.exchanges ORDER BY trial, attempt, seq"
    ):
        if attempt != begun.get(trial, 0):
            continue
        if trial != current:
            _end(counts, current, queries, arms)
            current = trial
        if is_lost:
            number = 0
        elif answer is not None:
            number = same[answer] if answer > 0 else 0
        elif (number := without.get(key, 0)) == 0:
            number = without[key] = len(paid)
            for part in (free, paid, seen):
                part.append(0)
        if number and not seen[number]:
            seen[number] = 1
            if answer is not None and answers.trial[answer] > FROM_CACHE and trial not in inquiries:
                of = counts.roles[arms[trial]].setdefault(role, [0, 0, 0])
                of[0] += 1
                of[1] += int(answers.tokens[answer, 0])
                of[2] += int(answers.tokens[answer, 1])
        if role != _VICTIM:
            continue
        pays = bool(number and not paid[number])
        if pays:
            paid[number] = 1
        state = queries.setdefault((purpose, query), [False, False])
        state[0] |= bool(is_lost)
        state[1] |= pays and not free[number]
        if purpose in ("baseline", "attack"):
            calls = counts.calls[arms[trial]]
            calls[0] += 1
            calls[1] += call == 0
    _end(counts, current, queries, arms)
    is_seen = np.frombuffer(seen, dtype=bool)
    for trial in answers.trial[1:][~is_seen[answers.same[1:]]].tolist():
        if trial in arms:
            counts.others[arms[trial]]["ahead"] += 1
    return counts


def _end(
    counts: Counts,
    trial: int,
    queries: dict[tuple[str, int | None], list[bool]],
    arms: Mapping[int, ArmRow],
) -> None:
    """Count the queries of a trial, and forget them."""
    paid = cached = lost = 0
    for (purpose, _), (is_lost, is_paid) in queries.items():
        if purpose != "attack":
            counts.others[arms[trial]]["baseline" if purpose == "baseline" else "other"] += 1
        elif is_lost:
            lost += 1
        elif is_paid:
            paid += 1
        else:
            cached += 1
    if paid or cached or lost:
        counts.queries[trial] = paid, cached, lost
    queries.clear()


def _answers(db: sqlite3.Connection) -> _Answers:
    (n,) = db.execute("SELECT COALESCE(MAX(id), 0) FROM answers").fetchone()
    numbers = np.zeros((n + 1, 3), dtype=np.int64)
    keys = np.zeros(n + 1, dtype=f"S{KEY_BYTES}")
    rows = db.execute("SELECT id, key, trial, tokens_in, tokens_out FROM answers ORDER BY id")
    for row, key, *values in rows:
        keys[row], numbers[row] = key, values
    same = np.zeros(n + 1, dtype=np.int64)
    same[1:] = np.unique(keys[1:], return_inverse=True)[1] + 1
    return _Answers(same=same, trial=numbers[:, 0], tokens=numbers[:, 1:])
