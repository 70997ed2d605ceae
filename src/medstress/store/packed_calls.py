"""Queries of readers over packed exchanges, as `medstress.store.reader` asks them of the ledger."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any

import polars as pl

from medstress.core.calls import FROM_CACHE
from medstress.store.consumed import ConsumedCall, consumed_call
from medstress.store.packed import Packed
from medstress.store.packed_tables import FOLDER

_OF_ATTACK = pl.col("is_latest") & (pl.col("role") == "victim") & (pl.col("purpose") == "attack")
_TRIAL = """
SELECT t.trial_id, a.victim, t.item, a.dataset, a.grp, a.attack FROM trials t
JOIN arms a ON a.id = t.arm WHERE t.id = ?
"""
_CONSUMED = (
    *("is_latest", "role", "purpose", "query", "call", "edits", "request", "error", "body"),
    *("tokens_in", "tokens_out"),
)
_DIGESTED = (
    *("attempt", "seq", "role", "purpose", "query", "call", "key", "edits", "request", "error"),
    "body",
)
_EXCHANGED = (
    *("trial", "role", "purpose", "query", "call", "key", "edits", "request", "body", "is_first"),
    *("seconds", "tokens_in", "tokens_out", "error", "answered_for"),
)


class PackedCalls(Packed):
    """Packed exchanges, and what readers ask of them."""

    def attack_edits(self) -> Iterator[tuple[int, int, str]]:
        """Yield (trial, query, edits); see `RunReader.attack_edits`."""
        where = _OF_ATTACK & pl.col("edits").is_not_null()
        yield from self.rows(("trial", "query", "edits"), where)

    def attack_calls(
        self, db: sqlite3.Connection
    ) -> Iterator[tuple[int, str, str, str, str, int, bytes]]:
        """Yield what `RunReader.attack_calls` does."""
        rows = self.rows(("trial", "query", "key"), _OF_ATTACK & pl.col("error").is_null())
        for trial, calls in groupby(rows, key=itemgetter(0)):
            _, victim, _, dataset, group, attack = db.execute(_TRIAL, (trial,)).fetchone()
            for _, query, key in calls:
                yield trial, dataset, group, victim, attack, query, key

    def exchanges(self, db: sqlite3.Connection) -> Iterator[tuple[Any, ...]]:
        """Yield the values of `StoredExchange` for all consumed calls in the plan's order."""
        rows = self.rows(_EXCHANGED, pl.col("is_latest"))
        for trial, calls in groupby(rows, key=itemgetter(0)):
            trial_id, victim, item, *_ = db.execute(_TRIAL, (trial,)).fetchone()
            for _, *asked, is_first, seconds, tokens_in, tokens_out, error, answered_for in calls:
                cached = not is_first or answered_for == FROM_CACHE
                used = (seconds, tokens_in, tokens_out, error)
                yield (trial, trial_id, victim, item, *asked, cached, *used)

    def clean_bodies(self, db: sqlite3.Connection, victim: str) -> Iterator[tuple[int, str]]:
        """Yield (trial, answer as stored) of a victim's clean items, in order."""
        where = (
            pl.col("is_latest")
            & (pl.col("role") == "victim")
            & (pl.col("purpose") == "baseline")
            & pl.col("body").is_not_null()
        )
        for trial, calls in groupby(self.rows(("trial", "body"), where), key=itemgetter(0)):
            if db.execute(_TRIAL, (trial,)).fetchone()[1] == victim:
                yield from calls

    def answered_queries(
        self, trial: int, purpose: str
    ) -> Iterator[tuple[int, int, str | None, str, tuple[int, int]]]:
        """Yield those of one trial; see `RunReader.answered_queries`."""
        for is_latest, role, of, query, _, edits, _, error, body, t_in, t_out in self.of_trial(
            trial, _CONSUMED
        ):
            if (
                is_latest
                and role == "victim"
                and of == purpose
                and error is None
                and body is not None
            ):
                yield trial, query, edits, body, (t_in, t_out)

    def consumed(self, trial: int) -> list[ConsumedCall]:
        """Return the calls of a trial's latest attempt, in order."""
        rows = self.of_trial(trial, _CONSUMED)
        return [consumed_call(*values) for is_latest, *values in rows if is_latest]

    def requests(self, trial: int, purpose: str, query: int) -> list[str]:
        """Return the fully stored calls of one query of a victim; see `RunReader.requests`."""
        return [
            request
            for is_latest, role, of, number, _, _, request, *_ in self.of_trial(trial, _CONSUMED)
            if is_latest
            and (role, of, number) == ("victim", purpose, query)
            and request is not None
        ]

    def attempt(self, trial: int, attempt: int) -> list[tuple[Any, ...]]:
        """Return what the digest of a trial's exchanges is over."""
        return [
            (*called, key.hex().upper(), *rest)
            for of, *called, key, edits, request, error, body in self.of_trial(trial, _DIGESTED)
            if of == attempt
            for rest in [(edits, request, error, body)]
        ]

    def strays(self, db: sqlite3.Connection) -> Iterator[tuple[str, int]]:
        """Yield (file, trial) of exchanges whose trial did not end in an attempt of that number,
        or that do not follow each other."""
        ended = "SELECT COUNT(*), COUNT(verdict) FROM main.verdicts WHERE trial = ?"
        for file, trials in zip(self.files, self.packed_trials(), strict=True):
            before = 0
            for trial in trials:
                n, n_ended = db.execute(ended, (trial,)).fetchone()
                rows = self.of_trial(trial, ("attempt", "seq", "is_latest"))
                # Of `n` rows, those without a verdict began another attempt.
                latest = n - n_ended
                expected = [
                    (attempt, seq, attempt == latest)
                    for attempt, of in groupby(rows, key=itemgetter(0))
                    for seq, _ in enumerate(of)
                ]
                if not n_ended or trial <= before or rows != expected or rows[-1][0] > latest:
                    yield f"{FOLDER}/{file.path.name}", trial
                before = trial
