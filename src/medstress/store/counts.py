"""What the ledger counts, in one pass over the calls that trials consumed, in the plan's order.

If several queries share a call, the first of them in the plan's order pays for it, so that the
counts do not depend on which was computed first, nor on restarts. Answers from the shared cache are
free, unless another shard of a merged run bought them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, product
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from medstress.core.calls import FROM_CACHE
from medstress.core.hashing import DIGEST_BYTES

Numbers: TypeAlias = NDArray[np.int64]
_CALLS = """
SELECT group_concat(trial), group_concat(attempt), group_concat(kind), group_concat(query),
       group_concat(answer)
FROM (
    SELECT trial, attempt, {kind} * 2 + (error IS NOT NULL) AS kind, COALESCE(query, -1) AS query,
           COALESCE(answer, 0) AS answer
    FROM main.exchanges WHERE trial >= ? AND trial < ? ORDER BY trial, attempt, seq)
"""
_PAGE = 1024
"""Trials whose calls are read together."""
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
    n_from_cache: int
    """Calls that only the shared cache answered."""


def count(db: sqlite3.Connection) -> Counts:
    """Count what the trials of a run consumed; `db` has the views of what counts."""
    arm_of = _arms(db)
    calls = _calls(db, len(arm_of))
    number, free, asked_by, numbers = _answers(db, calls)
    n_arms = int(arm_of.max(initial=0)) + 1
    is_victim = calls.are(VICTIM)
    pays = _firsts(number, is_victim) & ~free[number]
    # Queries: the calls of one purpose and number in a trial.
    least, most = int(calls.query.min(initial=0)), int(calls.query.max(initial=0))
    purposes = sorted({purpose for _, purpose in calls.kinds})
    purpose_of = np.array([purposes.index(purpose) for _, purpose in calls.kinds], dtype=np.int64)
    key = calls.trial * len(purposes) + purpose_of[calls.kind]
    key = key * (most - least + 1) + calls.query - least
    _, at, group = np.unique(key[is_victim], return_index=True, return_inverse=True)
    first = np.flatnonzero(is_victim)[at]
    is_lost, is_paid = (
        np.bincount(group, part[is_victim], len(at)) > 0 for part in (calls.is_lost, pays)
    )
    trial = calls.trial[first]
    is_attack, is_baseline = (calls.are(None, name)[first] for name in ("attack", "baseline"))
    kinds = (is_paid & ~is_lost, ~is_paid & ~is_lost, is_lost)
    queries = [np.bincount(trial[is_attack & kind], minlength=len(arm_of)) for kind in kinds]
    is_kept = {"baseline": is_baseline, "other": ~(is_attack | is_baseline)}
    others = {name: np.bincount(arm_of[trial[k]], minlength=n_arms) for name, k in is_kept.items()}
    seen = np.zeros(len(free), dtype=bool)
    seen[number] = True
    ahead = asked_by[(asked_by > FROM_CACHE) & ~seen[numbers]]
    others["ahead"] = np.bincount(arm_of[ahead], minlength=n_arms)
    return Counts(
        queries=np.stack(queries, axis=1),
        others=others,
        n_from_cache=int(free.sum()),
    )


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
        chain.from_iterable(db.execute("SELECT arm FROM main.trials ORDER BY id")), np.int64, n
    )
    return np.concatenate(([0], arms))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Calls:
    """Calls of latest attempts; arrays of shape (n,)."""

    trial: Numbers
    query: Numbers
    """-1 for calls of other roles."""
    answer: Numbers
    """Row of its answer; 0 without one."""
    kind: Numbers
    """Place in `kinds`."""
    is_lost: NDArray[np.bool_]
    kinds: Sequence[tuple[str, str]]
    """(role, purpose)."""

    def are(self, role: str | None = None, *purposes: str) -> NDArray[np.bool_]:
        """Return which calls are of a role, if one is given, and of one of the purposes, if any."""
        marks = [
            role in (None, own) and (not purposes or purpose in purposes)
            for own, purpose in self.kinds
        ]
        return np.array(marks, dtype=bool)[self.kind]


def _calls(db: sqlite3.Connection, n_trials: int) -> _Calls:
    """Return the calls of latest attempts.

    Raises:
        ValueError: a call of no trial.
    """
    kinds = sorted(db.execute("SELECT DISTINCT role, purpose FROM main.exchanges"))
    whens = " ".join(f"WHEN role = ? AND purpose = ? THEN {i}" for i in range(len(kinds)))
    query = _CALLS.format(kind=f"(CASE {whens} END)" if kinds else "0")
    least, most = (f"SELECT {which}(trial) FROM main.exchanges" for which in ("MIN", "MAX"))
    (first,), (last,) = db.execute(least).fetchone(), db.execute(most).fetchone()
    if first is not None and not 0 < first <= last < n_trials:
        raise ValueError("a call of no trial")
    pages = [np.empty((5, 0), dtype=np.int64)]
    for start in range(0, n_trials, _PAGE):
        # Numbers as text take two thirds of the time of numbers that become objects of Python.
        bounds = (*chain.from_iterable(kinds), start, start + _PAGE)
        texts = db.execute(query, bounds).fetchone()
        if texts[0] is not None:
            pages.append(np.array([np.fromstring(text, np.int64, sep=",") for text in texts]))
    columns = np.concatenate(pages, axis=1)
    trial = columns[0]
    begun = np.zeros(n_trials, dtype=np.int64)
    for row, n in db.execute(_BEGUN):
        begun[row] = n
    is_latest = columns[1] == begun[trial]
    trial, _, kind, query_of, answer = columns if is_latest.all() else columns[:, is_latest]
    return _Calls(
        trial=trial,
        query=query_of,
        answer=answer,
        kind=kind >> 1,
        is_lost=(kind & 1) > 0,
        kinds=kinds,
    )


def _answers(
    db: sqlite3.Connection, calls: _Calls
) -> tuple[Numbers, NDArray[np.bool_], Numbers, Numbers]:
    """Return what the answers of calls say.

    Returns:
        For each call: the number that calls with the same key share, 0 if it was lost; for each
        number, whether its answer is free; for each stored answer, the trial that asked, or
        `FROM_CACHE`, and its number.
    """
    (n,) = db.execute("SELECT COUNT(*) FROM answers").fetchone()
    columns = [("key", f"S{DIGEST_BYTES}"), ("trial", np.int64)]
    stored = np.fromiter(db.execute("SELECT key, trial FROM answers ORDER BY id"), columns, n)
    keys, asked_by = stored["key"].copy(), stored["trial"]
    answer = calls.answer
    if len(answer) and not (answer.min() >= 0 and answer.max() <= n):
        raise ValueError("a call with an answer that is not stored")
    without = (answer == 0) & ~calls.is_lost
    if without.any():  # a call whose answer is not stored
        more = [key for (key,) in db.execute(_WITHOUT)]
        keys = np.concatenate((keys, np.array(more, keys.dtype)))
    numbers = np.concatenate(([0], _numbered(keys)))
    number = np.where(calls.is_lost, 0, numbers[answer])
    number[without] = numbers[n + 1 : n + 1 + int(without.sum())]
    of_stored = numbers[1 : n + 1]
    free = np.zeros(int(numbers.max(initial=0)) + 1, dtype=bool)
    free[of_stored] = True
    free[of_stored[asked_by > FROM_CACHE]] = False
    return number, free, asked_by, of_stored


def _numbered(keys: NDArray[np.bytes_]) -> Numbers:
    """Return a number from 1 for each key that equal keys share."""
    halves = keys.view(">u8").reshape(-1, 2).astype(np.uint64)
    order = np.argsort(halves[:, 0], kind="stable")  # far faster than sorting texts
    is_new = np.ones(len(keys), dtype=bool)
    ends, starts = halves[order[:-1]], halves[order[1:]]
    if ((starts[:, 0] == ends[:, 0]) & (starts[:, 1] != ends[:, 1])).any():  # half a digest in two
        order = np.lexsort(halves.T)
        ends, starts = halves[order[:-1]], halves[order[1:]]
    is_new[1:] = (starts != ends).any(axis=1)
    numbers = np.empty(len(keys), dtype=np.int64)
    numbers[order] = np.cumsum(is_new)
    return numbers


MILLION = 1_000_000
VICTIM = "victim"
# A query for each model and role: sorting all answers by them takes twice as long.
_SPENDING = """
SELECT COUNT(*), TOTAL(s.tokens_in), TOTAL(s.tokens_out), TOTAL(s.seconds) FROM answers s
JOIN main.trials t ON t.id = s.trial JOIN arms a ON a.id = t.arm WHERE a.victim = ?
"""
_OF_ROLES = f"SELECT answer FROM exchanges WHERE role != '{VICTIM}' AND answer NOT NULL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """The price of a model's tokens."""

    usd_in: float
    """US dollars per million tokens read."""
    usd_out: float
    """US dollars per million tokens written."""

    def usd(self, tokens_in: float, tokens_out: float) -> float:
        """Return the price of these tokens in US dollars.

        >>> Price(usd_in=1.0, usd_out=4.0).usd(1_000_000, 500_000)
        3.0
        """
        return (tokens_in * self.usd_in + tokens_out * self.usd_out) / MILLION


@dataclass(frozen=True, slots=True)
class Spending:
    """Computed calls of one victim, or of one role in the trials against it."""

    role: str
    """`victim`, or a role such as `attacker`."""
    victim: str
    """Label of the victim."""
    n_calls: int
    """Computed answers, including calls ahead that were never consumed."""
    tokens_in: int
    """Tokens read."""
    tokens_out: int
    """Tokens written."""
    seconds: float
    """Seconds that workers spent on them."""

    @property
    def payer(self) -> str:
        """Whose price applies: the victim's label, or the role."""
        return self.victim if self.role == VICTIM else f"role.{self.role}"


def read_spending(db: sqlite3.Connection) -> list[Spending]:
    """Return everything that a run has computed, over all its processes.

    A role's answer that no trial has consumed yet counts as the victim's.
    """
    others = f"SELECT DISTINCT role FROM exchanges WHERE role != '{VICTIM}'"
    roles = [role for (role,) in db.execute(others)]
    victims = [v for (v,) in db.execute("SELECT DISTINCT victim FROM arms")]
    found = []
    for role, victim in sorted(product([*roles, VICTIM], victims)):
        query, of = _SPENDING, [victim]
        if role != VICTIM:
            query, of = f"{query} AND s.id IN ({_OF_ROLES} AND role = ?)", [victim, role]
        elif roles:
            query = f"{query} AND s.id NOT IN ({_OF_ROLES})"
        n, tokens_in, tokens_out, seconds = db.execute(query, of).fetchone()
        if n:
            found.append(Spending(role, victim, n, int(tokens_in), int(tokens_out), seconds))
    return found
