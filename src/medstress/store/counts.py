"""What the ledger counts, in one pass over the calls that trials consumed, in the plan's order.

If several queries share a call, the first of them in the plan's order pays for it, so that the
counts do not depend on which was computed first, nor on restarts. Answers from the shared cache are
free.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from medstress.core.calls import FROM_CACHE
from medstress.store.inquiries import INQUIRIES
from medstress.store.key_index import KEY_BYTES

Numbers: TypeAlias = NDArray[np.int64]
_CALLS = """
SELECT trial, attempt, {role}, {purpose}, COALESCE(query, -1), call = 0, COALESCE(answer, 0),
       error IS NOT NULL FROM main.exchanges ORDER BY trial, attempt, seq
"""
_COLUMNS = np.dtype(
    [
        *(("trial", "i8"), ("attempt", "i4"), ("role", "i2"), ("purpose", "i2"), ("query", "i8")),
        *(("is_first", "?"), ("answer", "i8"), ("is_lost", "?")),
    ]
)
_WITHOUT = """
SELECT key FROM main.exchanges WHERE answer IS NULL AND error IS NULL ORDER BY trial, attempt, seq
"""
_BEGUN = "SELECT trial, COUNT(*) FROM main.verdicts WHERE verdict IS NULL GROUP BY trial"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Counts of a run, by rows of its trials and arms; place 0 is empty."""

    queries: Numbers
    """Queries of its attack that a trial paid, got for nothing, and lost; shape (n_trials + 1, 3).
    """
    others: dict[str, Numbers]
    """`baseline`, `other`, `ahead` -> what an arm asked besides, shape (n_arms + 1,)."""
    roles: dict[str, Numbers]
    """Role -> computed calls, tokens in and out of an arm, shape (n_arms + 1, 3); a shared call
    counts for its first trial."""
    calls: Numbers
    """Calls, and queries, of an arm to its model about items and their edits, cached ones too;
    shape (n_arms + 1, 2)."""


def count(db: sqlite3.Connection) -> Counts:
    """Count what the trials of a run consumed; `db` has the views of what counts."""
    arm_of = _arms(db)
    rows, roles, purposes = _calls(db, len(arm_of))
    number, free, is_computed, tokens, asked_by = _answers(db, rows)
    n_arms = int(arm_of.max(initial=0)) + 1
    arm = arm_of[rows["trial"]]

    def by_arm(kept: NDArray[np.bool_], weights: Numbers | None = None) -> Numbers:
        of = None if weights is None else weights[kept]
        return np.bincount(arm[kept], of, n_arms).astype(np.int64)

    is_victim = rows["role"] == roles.index("victim") if "victim" in roles else arm < 0
    pays = _firsts(number, is_victim) & ~free[number]
    # Queries: the calls of one purpose and number in a trial.
    of_query = np.unique(rows["query"], return_inverse=True)[1]
    n = int(of_query.max(initial=0)) + 1
    key = (rows["trial"] * len(purposes) + rows["purpose"]) * n + of_query
    _, at, group = np.unique(key[is_victim], return_index=True, return_inverse=True)
    first = np.flatnonzero(is_victim)[at]
    is_lost, is_paid = (
        np.bincount(group, part[is_victim], len(at)) > 0 for part in (rows["is_lost"], pays)
    )
    trial, purpose = rows["trial"][first], rows["purpose"][first]
    is_attack, is_baseline = (
        purpose == purposes.index(name) if name in purposes else purpose < 0
        for name in ("attack", "baseline")
    )
    kinds = (is_paid & ~is_lost, ~is_paid & ~is_lost, is_lost)
    queries = [np.bincount(trial[is_attack & kind], minlength=len(arm_of)) for kind in kinds]
    is_kept = {"baseline": is_baseline, "other": ~(is_attack | is_baseline)}
    others = {name: np.bincount(arm_of[trial[k]], minlength=n_arms) for name, k in is_kept.items()}
    seen = np.zeros(len(free), dtype=bool)
    seen[number] = True
    ahead = asked_by.trial[(asked_by.trial > FROM_CACHE) & ~seen[asked_by.number]]
    others["ahead"] = np.bincount(arm_of[ahead], minlength=n_arms)
    # Roles: the first trial of each computed call, unless it is a question of an analysis.
    inquiries = [
        row for (row,) in db.execute(f"SELECT id FROM trials WHERE verdict IN {INQUIRIES}")
    ]
    is_counted = _firsts(number, np.ones(len(rows), dtype=bool)) & is_computed
    is_counted &= ~np.isin(rows["trial"], inquiries)
    by_role = {}
    for i, role in enumerate(roles):
        kept = is_counted & (rows["role"] == i)
        sums = (by_arm(kept), by_arm(kept, tokens[:, 0]), by_arm(kept, tokens[:, 1]))
        by_role[role] = np.stack(sums, axis=1)
    is_of_item = np.isin(rows["purpose"], [i for i, p in enumerate(purposes) if p in _OF_ITEMS])
    of_item = is_victim & is_of_item
    return Counts(
        queries=np.stack(queries, axis=1),
        others=others,
        roles=by_role,
        calls=np.stack((by_arm(of_item), by_arm(of_item & rows["is_first"])), axis=1),
    )


_OF_ITEMS = ("baseline", "attack")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """Stored answers."""

    trial: Numbers
    """The trial that asked, or `FROM_CACHE`; shape (n,)."""
    number: Numbers
    """The number that answers to the same call share."""


def _firsts(number: Numbers, kept: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which rows are the first of their number, among those kept that have one."""
    places = np.flatnonzero(kept & (number > 0))
    firsts = np.zeros(len(number), dtype=bool)
    firsts[places[np.unique(number[places], return_index=True)[1]]] = True
    return firsts


def _arms(db: sqlite3.Connection) -> Numbers:
    """Return trial -> row of its arm."""
    (n,) = db.execute("SELECT COUNT(*) FROM main.trials").fetchone()
    arms = np.fromiter(
        (arm for (arm,) in db.execute("SELECT arm FROM main.trials ORDER BY id")), np.int64, n
    )
    return np.concatenate(([0], arms))


def _calls(db: sqlite3.Connection, n_trials: int) -> tuple[Any, Sequence[str], Sequence[str]]:
    """Return the calls of latest attempts, and the roles and purposes that they name by number.

    Raises:
        ValueError: a call of no trial.
    """
    both = list(db.execute("SELECT DISTINCT role, purpose FROM main.exchanges"))
    names = [sorted({pair[i] for pair in both}) for i in (0, 1)]
    numbers = [
        f"CASE {column} {' '.join(f'WHEN ? THEN {i}' for i in range(len(of)))} END" if of else "0"
        for column, of in zip(("role", "purpose"), names, strict=True)
    ]
    given = [*names[0], *names[1]]
    cursor = db.execute(_CALLS.format(role=numbers[0], purpose=numbers[1]), given)
    rows = np.fromiter(cursor, _COLUMNS)
    if len(rows) and not (rows["trial"].min() > 0 and rows["trial"].max() < n_trials):
        raise ValueError("a call of no trial")
    begun = np.zeros(n_trials, dtype=np.int64)
    for trial, n in db.execute(_BEGUN):
        begun[trial] = n
    return rows[rows["attempt"] == begun[rows["trial"]]], names[0], names[1]


def _answers(
    db: sqlite3.Connection, rows: Any
) -> tuple[Numbers, NDArray[np.bool_], NDArray[np.bool_], Numbers, _Asked]:
    """Return what the answers of calls say.

    Returns:
        For each call: the number that calls with the same key share, 0 if it was lost; for each
        number, whether its answer is free; for each call, whether it was computed, and its tokens;
        the stored answers.
    """
    (n,) = db.execute("SELECT COUNT(*) FROM answers").fetchone()
    columns = np.dtype([("key", f"S{KEY_BYTES}"), ("trial", "i8"), ("in", "i8"), ("out", "i8")])
    stored = np.zeros(n + 1, columns)
    stored[1:] = np.fromiter(
        db.execute("SELECT key, trial, tokens_in, tokens_out FROM answers ORDER BY id"), columns, n
    )
    keys, without = stored["key"], (rows["answer"] == 0) & ~rows["is_lost"]
    if without.any():  # a call whose answer is not stored
        more = [key for (key,) in db.execute(_WITHOUT)]
        keys = np.concatenate((keys, np.array(more, keys.dtype)))
    same = np.unique(keys[1:], return_inverse=True)[1] + 1
    numbers = np.concatenate(([0], same))
    answer = rows["answer"]
    if len(answer) and not (answer.min() >= 0 and answer.max() <= n):
        raise ValueError("a call with an answer that is not stored")
    number = np.where(rows["is_lost"], 0, numbers[answer])
    number[without] = numbers[n + 1 : n + 1 + int(without.sum())]
    free = np.zeros(int(numbers.max(initial=0)) + 1, dtype=bool)
    free[numbers[1 : n + 1][stored["trial"][1:] == FROM_CACHE]] = True
    tokens = np.stack((stored["in"][answer], stored["out"][answer]), axis=1)
    is_computed = (answer > 0) & (stored["trial"][answer] > FROM_CACHE)
    asked = _Asked(trial=stored["trial"][1:], number=numbers[1 : n + 1])
    return number, free, is_computed, tokens, asked
