"""A fleet with threads in place of machines, and a keeper in this process."""

from __future__ import annotations

import json
import queue
import threading
from contextlib import contextmanager, suppress

from medstress.api.run import Run
from medstress.fleet.keeper import Keeper
from medstress.fleet.keeper_process import checked_answer
from medstress.fleet.leasing import Fleet
from medstress.fleet.messages import pack, unpack
from medstress.fleet.worker import Worker

GONE = pack({"error": "the machine is gone", "kind": "StoreError"})


class Threads:
    """Workers in threads of this process, which can be lost at any message.

    Args:
        lose: given the number of the message and the message, says whether its worker is lost.
    """

    def __init__(self, lose=lambda n, message: False):
        self.lose, self.n, self.lost, self.asks = lose, 0, [], []
        self._workers, self._told = {}, queue.Queue()

    def start(self, owner, told):
        self._workers[owner] = Worker(told)
        self.send(owner, b"")

    def send(self, owner, answer):
        worker = self._workers[owner]
        _in_thread(lambda: self._told.put((owner, worker.exchange(answer))))

    def receive(self, seconds):
        with suppress(queue.Empty):
            owner, message = self._told.get(timeout=seconds)
            if owner in self._workers:
                self.n += 1
                asked = unpack(message)[0] if message else {"ask": "nothing"}
                self.asks.append(asked["ask"])
                if self.lose(self.n, asked):
                    self.lost.append(asked)
                    self.end(owner)
                    yield owner, None
                else:
                    yield owner, message

    def end(self, owner):
        worker = self._workers.pop(owner, None)
        if worker is not None:
            # Whatever it asks from now on is not answered, so that its thread ends.
            _in_thread(lambda: _refuse(worker))


def _in_thread(work):
    threading.Thread(target=work, daemon=True).start()


def _refuse(worker):
    answer = GONE
    while message := worker.exchange(answer):
        if unpack(message)[0]["ask"] in ("bye", "failed"):
            return


class KeeperHere:
    """A keeper in this process: starting one takes a third of a second."""

    n_restarts = 0

    def __init__(self, folder, lease_seconds):
        self._keeper = Keeper(folder, lease_seconds=lease_seconds)

    def ask(self, ask, ledger=b"", **values):
        return checked_answer(self.pass_on(pack({"ask": ask, **values}, ledger)))

    def pass_on(self, data):
        return self._keeper.answer(data)

    def close(self):
        self._keeper.close()


def fleet(threads, n_workers=2, n_shards=5, **keys):
    """A fleet of threads."""

    @contextmanager
    def opened(_):
        yield threads, n_workers

    keys = {"lease_seconds": 20.0, **keys}
    return Fleet(open_workers=opened, n_shards=n_shards, **keys)


def exported(folder):
    """All that the tables of a run hold, but times."""
    found = []
    for table in ("trials", "items", "exchanges"):
        file = folder.parent / f"{folder.name}.{table}.jsonl"
        Run(folder).export(table, file)
        rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
        found.append([{key: row[key] for key in row if key != "seconds"} for row in rows])
    return found


class Stop(BaseException):
    """Ends a driver as a kill would: nothing is told to anybody."""
