"""Who may work on which shard: leases with an epoch and an end, in one SQLite file.

Every lease of a shard has the next epoch. A worker that lost its lease, because its time ran out or
its machine seemed gone, may still be at work; whatever it asks under its old epoch is refused, so a
shard never has two owners. The file survives the process that holds it: WAL with
synchronous=NORMAL, as for runs. After a power cut an epoch may be given out twice, so the owner's
name, which is drawn by lot, is compared as well.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import orjson

from medstress.core.errors import StoreError

PAST = "past"
"""Fact: the phases that this one went on with, by their plans."""
_SCHEMA = """
CREATE TABLE IF NOT EXISTS facts (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS shards (
    shard INTEGER PRIMARY KEY, state TEXT NOT NULL DEFAULT 'open', epoch INTEGER NOT NULL DEFAULT 0,
    owner TEXT, until REAL, ledger TEXT, digest TEXT, calls INTEGER NOT NULL DEFAULT 0,
    reported TEXT, lost INTEGER NOT NULL DEFAULT 0, deaths INTEGER NOT NULL DEFAULT 0,
    in_a_row INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS by_state ON shards (state, shard);
CREATE INDEX IF NOT EXISTS by_end ON shards (until) WHERE state = 'leased';
CREATE INDEX IF NOT EXISTS by_owner ON shards (owner) WHERE state = 'leased';
"""


class State(StrEnum):
    """What may be done with a shard."""

    OPEN = "open"
    """Nobody works on it."""
    LEASED = "leased"
    LIMITED = "limited"
    """A cap ended it before its last trial."""
    DONE = "done"


class StaleLeaseError(StoreError):
    """The shard has a newer lease, or an end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """One worker's right to one shard."""

    shard: int
    """From 1."""
    epoch: int
    """How often the shard was leased, this time included."""
    owner: str
    """The worker's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shipped:
    """The newest ledger of a shard that reached the store."""

    name: str
    """Its name in the store."""
    digest: str
    """Of its bytes."""
    calls: int
    """Answers in it that were computed."""


class LeaseTable:
    """The leases of one run. One process holds the file; every method is one transaction."""

    def __init__(self, file: Path, clock: Callable[[], float] = time.time) -> None:
        self.db = sqlite3.connect(file, isolation_level=None)
        self.db.execute("PRAGMA journal_mode = WAL")
        self.db.execute("PRAGMA synchronous = NORMAL")
        self.db.executescript(_SCHEMA)
        self._clock = clock

    def close(self) -> None:
        """Release the file."""
        self.db.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit what is written inside, or nothing of it."""
        self.db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.db.execute("COMMIT")
        except BaseException:
            self.db.execute("ROLLBACK")
            raise

    def begin(
        self,
        n_shards: int,
        facts: Mapping[str, Any],
        *,
        done: Iterable[int] = (),
        extends: str | None = None,
    ) -> dict[str, Any]:
        """Make the shards of a phase, unless the file has them and somebody has begun with one.

        Args:
            n_shards: how many.
            facts: what it is begun with; `plan` identifies the phase.
            done: shards that nothing is left of.
            extends: the phase that this one goes on with: its shards are worked on once more, each
                from its last ledger.

        Returns:
            The facts of the file: these, or those that it was begun with.
        """
        with self.transaction():
            known = self.facts()
            if known and not self._was_leased():
                # Whoever made them was refused, or ended, before anything was asked.
                self.db.execute("DELETE FROM facts")
                self.db.execute("DELETE FROM shards")
                known = {}
            if known:
                if extends is None or known["plan"] != extends:
                    return known
                past = [*known.get(PAST, ()), extends]
                values = {"plan": facts["plan"], PAST: past}
                self.db.executemany(
                    "INSERT OR REPLACE INTO facts VALUES (?, ?)",
                    [(key, orjson.dumps(value).decode()) for key, value in values.items()],
                )
                self.db.execute("UPDATE shards SET state = 'open'")
                return self.facts()
            rows = [(key, orjson.dumps(value).decode()) for key, value in facts.items()]
            self.db.executemany("INSERT INTO facts VALUES (?, ?)", rows)
            self.db.executemany(
                "INSERT INTO shards (shard) VALUES (?)", ((one,) for one in range(1, n_shards + 1))
            )
            self.db.executemany(
                "UPDATE shards SET state = 'done' WHERE shard = ?", ((one,) for one in done)
            )
        return dict(facts)

    def _was_leased(self) -> bool:
        (n,) = self.db.execute("SELECT COUNT(*) FROM shards WHERE epoch > 0").fetchone()
        return bool(n)

    def facts(self) -> dict[str, Any]:
        """Return what the run was begun with; empty for a new file."""
        return {key: orjson.loads(value) for key, value in self.db.execute("SELECT * FROM facts")}

    def note(self, key: str, value: Any) -> None:
        """Change one fact."""
        with self.transaction():
            self.db.execute(
                "INSERT INTO facts VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value",
                (key, orjson.dumps(value).decode()),
            )

    def take(self, owner: str, seconds: float) -> tuple[Lease, Shipped | None] | None:
        """Lease the first shard that is free, or whose lease has run out.

        A worker has one shard at a time: who asks again, because no answer came, gets it again.

        Args:
            owner: the worker's name.
            seconds: until the lease ends, unless it is renewed.

        Returns:
            The lease, and the ledger to begin with; None if there is no such shard now.
        """
        now = self._clock()
        with self.transaction():
            found = self._first("owner = ? AND state = 'leased'", owner)
            if found is not None:
                found = (found[0], found[1] - 1, *found[2:])
            else:
                found = self._first("state = 'open' ORDER BY shard")
            if found is None:
                found = self._first("state = 'leased' AND until < ? ORDER BY until", now)
                if found is not None:
                    self._count_as_lost(found[0])
            if found is None:
                return None
            shard, epoch, name, digest, calls = found
            self.db.execute(
                "UPDATE shards SET state = 'leased', epoch = ?, owner = ?, until = ?, "
                "reported = NULL WHERE shard = ?",
                (epoch + 1, owner, now + seconds, shard),
            )
        lease = Lease(shard=shard, epoch=epoch + 1, owner=owner)
        return lease, None if name is None else Shipped(name=name, digest=digest, calls=calls)

    def renew(self, lease: Lease, seconds: float, reported: Mapping[str, Any]) -> None:
        """Move a lease's end, and keep what its owner reports.

        A lease whose time ran out but that nobody else has taken goes on.

        Raises:
            StaleLeaseError: the lease is not the shard's newest, or the shard has ended.
        """
        with self.transaction():
            self.check(lease)
            self.db.execute(
                "UPDATE shards SET until = ?, reported = ? WHERE shard = ?",
                (self._clock() + seconds, orjson.dumps(reported).decode(), lease.shard),
            )

    def commit(
        self,
        lease: Lease,
        shipped: Shipped,
        state: State,
        seconds: float,
        reported: Mapping[str, Any],
    ) -> str | None:
        """Make a ledger the shard's newest.

        Args:
            lease: the owner's.
            shipped: the ledger, which is in the store already.
            state: LEASED if the owner goes on; else the lease ends.
            seconds: as in `take`.
            reported: as in `renew`.

        Returns:
            The name of the ledger before, which nobody needs any more.

        Raises:
            StaleLeaseError: as `renew`.
        """
        with self.transaction():
            self.check(lease)
            (before,) = self.db.execute(
                "SELECT ledger FROM shards WHERE shard = ?", (lease.shard,)
            ).fetchone()
            ends = state is not State.LEASED
            self.db.execute(
                "UPDATE shards SET ledger = ?, digest = ?, calls = ?, state = ?, until = ?, "
                "reported = ?, in_a_row = 0, owner = CASE WHEN ? THEN NULL ELSE owner END "
                "WHERE shard = ?",
                (
                    *(shipped.name, shipped.digest, shipped.calls, state.value),
                    None if ends else self._clock() + seconds,
                    *(orjson.dumps(reported).decode(), ends, lease.shard),
                ),
            )
        return str(before) if before is not None and before != shipped.name else None

    def revoke(self, owner: str | None = None) -> list[Lease]:
        """End the leases of a worker that is gone, or of all; their shards are free again."""
        of_owner = "" if owner is None else "AND owner = ?"
        values = () if owner is None else (owner,)
        with self.transaction():
            query = f"SELECT shard, epoch, owner FROM shards WHERE state = 'leased' {of_owner}"
            found = [
                Lease(shard=shard, epoch=epoch, owner=name)
                for shard, epoch, name in self.db.execute(query, values)
            ]
            for lease in found:
                self._count_as_lost(lease.shard)
                self.db.execute(
                    "UPDATE shards SET state = 'open', owner = NULL, until = NULL WHERE shard = ?",
                    (lease.shard,),
                )
        return found

    def forgive(self) -> None:
        """Count the ends in a row of every shard anew, as for another driver."""
        with self.transaction():
            self.db.execute("UPDATE shards SET in_a_row = 0")

    def give_up(self, lease: Lease) -> None:
        """End a lease that its owner has left, unless it has ended; the next has another epoch."""
        with suppress(StaleLeaseError):
            self.check(lease)
            self.revoke(lease.owner)

    def open_again(self) -> int:
        """Free the shards that a cap ended, and return how many there are."""
        with self.transaction():
            return self.db.execute(
                "UPDATE shards SET state = 'open' WHERE state = 'limited'"
            ).rowcount

    def counts(self) -> dict[str, int]:
        """Return how many shards there are in each state."""
        query = "SELECT state, COUNT(*) FROM shards GROUP BY state"
        return {state.value: 0 for state in State} | dict(self.db.execute(query).fetchall())

    def ledgers(self) -> list[tuple[int, Shipped]]:
        """Return the newest ledger of every shard that has one."""
        query = "SELECT shard, ledger, digest, calls FROM shards WHERE ledger IS NOT NULL"
        return [
            (shard, Shipped(name=name, digest=digest, calls=calls))
            for shard, name, digest, calls in self.db.execute(f"{query} ORDER BY shard")
        ]

    def lost(self) -> tuple[int, int, int]:
        """Return how many leases ended with their worker, the answers known to be lost with
        them, and the most such ends of one shard without a ledger shipped in between."""
        query = "SELECT TOTAL(deaths), TOTAL(lost), COALESCE(MAX(in_a_row), 0) FROM shards"
        deaths, lost, most = self.db.execute(query).fetchone()
        return int(deaths), int(lost), int(most)

    def reported(self) -> dict[int, dict[str, Any]]:
        """Return what the last owner of each shard reported."""
        query = "SELECT shard, reported FROM shards WHERE reported IS NOT NULL"
        return {shard: orjson.loads(text) for shard, text in self.db.execute(query)}

    def check(self, lease: Lease) -> None:
        """Raise a StaleLeaseError unless a lease is its shard's newest."""
        found = self.db.execute(
            "SELECT epoch, owner, state FROM shards WHERE shard = ?", (lease.shard,)
        ).fetchone()
        if found is None or found != (lease.epoch, lease.owner, State.LEASED.value):
            newest = "no such shard" if found is None else f"{found[2]}, epoch {found[0]}"
            raise StaleLeaseError(
                f"shard {lease.shard}: the lease with epoch {lease.epoch} has ended ({newest}); "
                "what its owner computed since is left out"
            )

    def _first(self, where: str, *values: Any) -> tuple[int, int, str | None, str, int] | None:
        query = f"SELECT shard, epoch, ledger, digest, calls FROM shards WHERE {where} LIMIT 1"
        found: tuple[int, int, str | None, str, int] | None = self.db.execute(
            query, values
        ).fetchone()
        return found

    def _count_as_lost(self, shard: int) -> None:
        """Count a lease that ends with its owner, and the answers reported and not shipped."""
        self.db.execute(
            "UPDATE shards SET lost = lost + MAX(0, "
            "COALESCE(json_extract(reported, '$.stored'), calls) - calls), reported = NULL, "
            "deaths = deaths + 1, in_a_row = in_a_row + 1 WHERE shard = ?",
            (shard,),
        )
