"""Caps of a whole run, granted to its workers in chunks.

What is granted never exceeds a cap. A worker asks no call beyond its chunk of `max_queries`, so
their sum is kept. Tokens and dollars of a call are known once it is answered: a worker stops when
its chunk is used up, and the cap may be exceeded by what was then in flight. Chunks shrink as the
cap comes nearer. A lease that ends in order returns what it did not use; that of a worker that is
gone returns nothing, since nobody knows what it asked last.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from medstress.fleet.leases import Lease, LeaseTable

_SCHEMA = """
CREATE TABLE IF NOT EXISTS pool (
    name TEXT PRIMARY KEY, cap REAL, charged REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS grants (
    shard INTEGER NOT NULL, epoch INTEGER NOT NULL, name TEXT NOT NULL, granted REAL NOT NULL,
    used REAL NOT NULL, PRIMARY KEY (shard, epoch, name)
) WITHOUT ROWID;
"""
_PARTS = 4
"""A chunk is what is left, divided by so many times the number of workers."""
_MOST_CHUNKS = 1000
"""No chunk of tokens or dollars is a smaller part of the cap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """Calls, tokens and dollars; infinite where there is no cap."""

    queries: float = math.inf
    tokens: float = math.inf
    usd: float = math.inf

    @classmethod
    def read(cls, found: Mapping[str, float | None]) -> Amounts:
        """Return amounts from JSON, where null is infinite."""
        return cls(**{name: math.inf if n is None else n for name, n in found.items()})

    def as_json(self) -> dict[str, float | None]:
        """Return them as JSON values."""
        return {name: None if math.isinf(n) else n for name, n in asdict(self).items()}


class Grants:
    """The caps of one run, in the file of its leases."""

    def __init__(self, leases: LeaseTable) -> None:
        self._leases, self._db = leases, leases.db
        self._db.executescript(_SCHEMA)

    def set_caps(self, caps: Amounts) -> None:
        """Set the caps, which a later command may have raised; what was granted stays charged."""
        with self._leases.transaction():
            for name, cap in caps.as_json().items():
                self._db.execute(
                    "INSERT INTO pool VALUES (?, ?, 0) "
                    "ON CONFLICT DO UPDATE SET cap = excluded.cap",
                    (name, cap),
                )

    def grant(
        self, lease: Lease, used: Mapping[str, float], n_workers: int, at_least: int
    ) -> Amounts:
        """Grant a lease more of what it has used up.

        Args:
            lease: the owner's.
            used: by this lease so far, with the calls in flight.
            n_workers: among whom the rest is divided.
            at_least: calls that a chunk holds, if so many are left: those of a batch.

        Returns:
            All that the lease has been granted so far.

        Raises:
            StaleLeaseError: the lease has ended.
        """
        granted: dict[str, float | None] = {}
        with self._leases.transaction():
            self._leases.check(lease)
            for name, cap, charged in self._db.execute("SELECT * FROM pool").fetchall():
                if cap is None:
                    granted[name] = None
                    self._set(lease, name, 0.0, used[name])
                    continue
                before = self._granted(lease, name)
                reserve = at_least if name == "queries" else 0
                # It may have been asked for the sake of another cap.
                is_used_up = used[name] + reserve > before or used[name] >= before
                left = max(0.0, cap - charged)
                over = max(0.0, used[name] - before)  # by what was in flight
                chunk = _chunk(name, cap, left - over, n_workers, at_least)
                more = min(left, over + chunk) if is_used_up else 0.0
                granted[name] = before + more
                self._set(lease, name, before + more, used[name])
                self._charge(name, more)
        return Amounts.read(granted)

    def settle(self, lease: Lease, used: Mapping[str, float]) -> None:
        """Take back what a lease did not use; call it before the lease ends.

        Raises:
            StaleLeaseError: the lease has ended.
        """
        with self._leases.transaction():
            self._leases.check(lease)
            for name, cap in self._db.execute("SELECT name, cap FROM pool").fetchall():
                granted = 0.0 if cap is None else self._granted(lease, name)
                self._charge(name, used[name] - granted)
                self._set(lease, name, used[name], used[name])

    def report(self, lease: Lease, used: Mapping[str, float]) -> None:
        """Note what a lease has used; for displays."""
        with self._leases.transaction():
            for name in used:
                self._db.execute(
                    "INSERT INTO grants VALUES (?, ?, ?, 0, ?) "
                    "ON CONFLICT DO UPDATE SET used = excluded.used",
                    (lease.shard, lease.epoch, name, used[name]),
                )

    def charged(self) -> dict[str, float]:
        """Return what is granted or used of each cap."""
        return dict(self._db.execute("SELECT name, charged FROM pool").fetchall())

    def is_used_up(self) -> dict[str, bool]:
        """Return of each cap whether nothing is left of it."""
        query = "SELECT name, cap IS NOT NULL AND cap - charged < 1e-9 FROM pool"
        return {name: bool(is_so) for name, is_so in self._db.execute(query)}

    def used(self) -> dict[str, float]:
        """Return what all leases have reported as used."""
        return dict(self._db.execute("SELECT name, TOTAL(used) FROM grants GROUP BY 1").fetchall())

    def _granted(self, lease: Lease, name: str) -> float:
        found = self._db.execute(
            "SELECT granted FROM grants WHERE shard = ? AND epoch = ? AND name = ?",
            (lease.shard, lease.epoch, name),
        ).fetchone()
        return float(found[0]) if found else 0.0

    def _set(self, lease: Lease, name: str, granted: float, used: float) -> None:
        self._db.execute(
            "INSERT INTO grants VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT DO UPDATE SET granted = excluded.granted, used = excluded.used",
            (lease.shard, lease.epoch, name, granted, used),
        )

    def _charge(self, name: str, more: float) -> None:
        self._db.execute("UPDATE pool SET charged = charged + ? WHERE name = ?", (more, name))


def _chunk(name: str, cap: float, left: float, n_workers: int, at_least: int) -> float:
    part = left / (_PARTS * max(n_workers, 1))
    if name == "queries":
        return max(0, min(math.floor(left), max(math.floor(part), at_least)))
    return max(0.0, min(left, max(part, cap / _MOST_CHUNKS)))
