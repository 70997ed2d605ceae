"""The keeper: the process that holds the leases, grants and ledgers of one run.

It answers one message after the other. Whatever it has answered is on disk, so it may be killed at
any moment: the driver starts another on the same folder and asks again. Every message may therefore
come twice.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from secrets import token_hex
from typing import Any

from filelock import FileLock, Timeout

from medstress.core.errors import MedstressError, StoreError, reason
from medstress.files.writing import Access, make_folder
from medstress.fleet.grants import Amounts, Grants
from medstress.fleet.leases import Lease, LeaseTable, Shipped, StaleLeaseError, State
from medstress.fleet.ledgers import FolderStore, checked
from medstress.fleet.messages import pack, read_frame, unpack, write_frame

LEASES = "leases.sqlite"
UNSHIPPED = "unshipped"
LEASE_SECONDS = 60.0
"""A worker that was silent for so long has lost its shard once another asks for one."""
_LOCK_SECONDS = 10.0
"""Time for the keeper of a killed driver to notice and end."""
_LOCK_VARIABLE = "MEDSTRESS_KEEPER_LOCK_SECONDS"


class Keeper:
    """Leases, grants and ledgers in one folder."""

    def __init__(
        self,
        folder: Path,
        *,
        lease_seconds: float = LEASE_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        make_folder(folder, Access.OWNER)
        self._leases = LeaseTable(folder / LEASES, clock)
        self._grants = Grants(self._leases)
        self._store = FolderStore(folder / "ledgers")
        self._seconds = lease_seconds

    def close(self) -> None:
        """Release the folder."""
        self._leases.close()

    def answer(self, data: bytes) -> bytes:
        """Answer a message; an error becomes an answer with `error` and its `kind`."""
        asked, ledger = unpack(data)
        work: Callable[[dict[str, Any], bytes], bytes] = getattr(self, f"_{asked['ask']}")
        try:
            return work(asked, ledger)
        except StaleLeaseError as error:
            return pack({"stale": str(error)})
        except MedstressError as error:
            return pack({"error": str(error), "kind": type(error).__name__})
        except OSError as error:
            return pack({"error": f"the ledgers: {reason(error)}", "kind": "StoreError"})

    def _begin(self, asked: dict[str, Any], _: bytes) -> bytes:
        """Begin a run or go on with it, as the only driver: leases of earlier ones end."""
        known = self._leases.begin(
            asked["shards"],
            asked["facts"],
            done=asked.get("done", ()),
            extends=asked.get("extends"),
        )
        self._leases.revoke()
        self._leases.forgive()
        self._grants.set_caps(Amounts.read(asked["caps"]))
        return pack({"facts": known, "reported": list(self._leases.reported().items())})

    def _lease(self, asked: dict[str, Any], _: bytes) -> bytes:
        """Lease a shard; `left` is the worker's last lease, which it may have given up."""
        if asked["left"] is not None:
            self._leases.give_up(Lease(**asked["left"], owner=asked["owner"]))
        taken = self._leases.take(asked["owner"], self._seconds)
        if taken is None:
            return pack({"lease": None, "counts": self._leases.counts()})
        lease, shipped = taken
        found = None if shipped is None else _as_json(shipped)
        return pack({"lease": {"shard": lease.shard, "epoch": lease.epoch}, "shipped": found})

    def _renew(self, asked: dict[str, Any], _: bytes) -> bytes:
        lease = _lease_of(asked)
        self._leases.renew(lease, self._seconds, asked["reported"])
        self._grants.report(lease, asked["used"])
        return pack({})

    def _grant(self, asked: dict[str, Any], _: bytes) -> bytes:
        granted = self._grants.grant(
            _lease_of(asked), asked["used"], asked["workers"], asked["at_least"]
        )
        return pack({"granted": granted.as_json()})

    def _ship(self, asked: dict[str, Any], ledger: bytes) -> bytes:
        lease, state = _lease_of(asked), State(asked["state"])
        self._leases.check(lease)
        name = asked["name"]
        if name is None:
            name = f"{lease.shard}/{lease.epoch}-{token_hex(6)}{asked.get('suffix', '.sqlite')}"
            self._store.put(name, checked(ledger, asked["digest"], name))
        if state is not State.LEASED:
            self._grants.settle(lease, asked["used"])
        shipped = Shipped(name=name, digest=asked["digest"], calls=asked["calls"])
        before = self._leases.commit(lease, shipped, state, self._seconds, asked["reported"])
        if before is not None and asked["name"] is None:
            self._store.remove(before)
        return pack({"before": before})

    def _fetch(self, asked: dict[str, Any], _: bytes) -> bytes:
        return pack({}, self._store.get(asked["name"]))

    def _revoke(self, asked: dict[str, Any], _: bytes) -> bytes:
        """End the leases of a worker that is gone."""
        ended = self._leases.revoke(asked["owner"])
        return pack({"shards": [lease.shard for lease in ended]})

    def _models(self, asked: dict[str, Any], _: bytes) -> bytes:
        """Tell which models the shards' answers are of: these, unless there are answers already.

        A phase that goes on with the shards of another may ask more models.
        """
        is_asked = self._leases.counts()["done"] or any(n.calls for _, n in self._leases.ledgers())
        known = self._leases.facts().get("models", {}) if is_asked else {}
        models = {**asked["models"], **known}
        self._leases.note("models", models)
        return pack({"models": models})

    def _open_again(self, _: dict[str, Any], __: bytes) -> bytes:
        return pack({"shards": self._leases.open_again()})

    def _ledgers(self, _: dict[str, Any], __: bytes) -> bytes:
        return pack({"ledgers": [[n, _as_json(one)] for n, one in self._leases.ledgers()]})

    def _overview(self, asked: dict[str, Any], _: bytes) -> bytes:
        """Tell how the whole run stands; note how long it has asked, and the most calls of a worker
        that no shipped ledger may hold."""
        known = self._leases.facts()
        if "seconds" in asked:
            self._leases.note("seconds", asked["seconds"])
        if asked.get("unshipped", 0) > known.get(UNSHIPPED, 0):
            self._leases.note(UNSHIPPED, asked["unshipped"])
        deaths, lost, in_a_row = self._leases.lost()
        return pack(
            {
                "counts": self._leases.counts(),
                "used": self._grants.used(),
                "charged": self._grants.charged(),
                "is_used_up": self._grants.is_used_up(),
                "seconds": self._leases.facts().get("seconds", 0.0),
                "deaths": deaths,
                "lost": lost,
                "in_a_row": in_a_row,
                UNSHIPPED: max(asked.get("unshipped", 0), known.get(UNSHIPPED, 0)),
            }
        )


def _lease_of(asked: Mapping[str, Any]) -> Lease:
    return Lease(shard=asked["shard"], epoch=asked["epoch"], owner=asked["owner"])


def _as_json(shipped: Shipped) -> dict[str, Any]:
    return {"name": shipped.name, "digest": shipped.digest, "calls": shipped.calls}


def main(folder: Path, lease_seconds: float) -> None:
    """Answer messages on stdin until it closes, which it does when the driver ends, however.

    Nothing else is written to stdout.
    """
    make_folder(folder, Access.OWNER)
    streams = sys.stdin.buffer, sys.stdout.buffer
    lock = FileLock(folder / "keeper.lock")
    try:
        lock.acquire(timeout=float(os.environ.get(_LOCK_VARIABLE, _LOCK_SECONDS)))
    except Timeout:
        sentence = (
            f"another medstress process shares out the run in {folder}; wait for it, stop it, or "
            "choose another folder with --out"
        )
        if read_frame(streams[0]) is not None:
            write_frame(streams[1], pack({"error": sentence, "kind": StoreError.__name__}))
        return
    keeper = Keeper(folder, lease_seconds=lease_seconds)
    try:
        while (data := read_frame(streams[0])) is not None:
            write_frame(streams[1], keeper.answer(data))
    finally:
        keeper.close()
        lock.release()


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
