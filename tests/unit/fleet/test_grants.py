"""Caps granted in chunks: their sum is never above `max_queries`, whoever is killed."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medstress.engine.progress import Progress
from medstress.fleet.allowance import Allowance
from medstress.fleet.grants import Amounts, Grants
from medstress.fleet.leases import LeaseTable, Shipped, StaleLeaseError, State

NOTHING = {"queries": 0, "tokens": 0, "usd": 0.0}


def used(n: float, tokens: float = 0, usd: float = 0.0) -> dict[str, float]:
    return {"queries": n, "tokens": tokens, "usd": usd}


@pytest.fixture
def table(tmp_path):
    made = LeaseTable(tmp_path / "leases.sqlite")
    made.begin(50, {})
    yield made
    made.close()


def test_without_caps_everything_is_granted(table):
    grants = Grants(table)
    grants.set_caps(Amounts())
    lease, _ = table.take("one", 60.0)
    assert grants.grant(lease, NOTHING, 4, 8) == Amounts()


def test_a_lease_returns_what_it_did_not_use_and_a_lost_one_nothing(table):
    grants = Grants(table)
    grants.set_caps(Amounts(queries=160))
    lease, _ = table.take("one", 60.0)
    assert grants.grant(lease, NOTHING, 4, 1).queries == 10
    grants.settle(lease, used(3))
    assert grants.charged()["queries"] == 3
    table.commit(lease, Shipped(name="a", digest="d", calls=3), State.DONE, 60.0, {})
    lost, _ = table.take("two", 60.0)
    grants.grant(lost, NOTHING, 4, 1)
    table.revoke("two")
    assert grants.charged()["queries"] == 3 + 9


def test_a_stale_lease_is_granted_nothing(table):
    grants = Grants(table)
    grants.set_caps(Amounts(queries=160))
    lease, _ = table.take("one", 60.0)
    table.revoke("one")
    for refused in (
        lambda: grants.grant(lease, NOTHING, 4, 1),
        lambda: grants.settle(lease, NOTHING),
    ):
        with pytest.raises(StaleLeaseError):
            refused()


def test_a_message_that_comes_twice_grants_once(table):
    grants = Grants(table)
    grants.set_caps(Amounts(queries=160, tokens=1600))
    lease, _ = table.take("one", 60.0)
    first = grants.grant(lease, NOTHING, 4, 1)
    assert grants.grant(lease, NOTHING, 4, 1) == first
    grants.settle(lease, used(4, 40))
    grants.settle(lease, used(4, 40))
    assert grants.charged() == {"queries": 4, "tokens": 40, "usd": 0}


def test_a_chunk_holds_a_batch_as_long_as_there_is_one(table):
    grants = Grants(table)
    grants.set_caps(Amounts(queries=20))
    lease, _ = table.take("one", 60.0)
    assert grants.grant(lease, NOTHING, 100, 16).queries == 16
    assert grants.grant(lease, used(16), 100, 16).queries == 20
    assert grants.grant(lease, used(20), 100, 16).queries == 20
    assert grants.is_used_up() == {"queries": True, "tokens": False, "usd": False}


def test_a_raised_cap_leaves_room(table):
    grants = Grants(table)
    grants.set_caps(Amounts(queries=10))
    lease, _ = table.take("one", 60.0)
    grants.grant(lease, NOTHING, 1, 10)
    assert grants.grant(lease, used(10), 1, 10).queries == 10
    grants.set_caps(Amounts(queries=30))
    assert grants.grant(lease, used(10), 1, 10).queries == 20


class Simulated:
    """A worker that asks in batches, and whose calls take tokens that nobody knew before."""

    def __init__(self, grants, lease, batch):
        self.grants, self.lease, self.batch = grants, lease, batch
        self.progress, self.in_flight = Progress(), 0
        self.allowance = Allowance(lambda used: grants.grant(lease, used, 4, batch))

    def step(self, tokens: int) -> int:
        """Ask a batch, take its answers, and return the calls made."""
        room = self.allowance.room(self.progress, 0)
        n = max(0, min(room, self.batch))
        self.progress.n_computed += n
        self.progress.n_tokens += n * tokens
        return n


@given(
    cap=st.integers(1, 400),
    batch=st.integers(1, 16),
    plan=st.lists(st.tuples(st.integers(0, 3), st.sampled_from("saaaaak")), max_size=60),
)
@settings(max_examples=40)
def test_whatever_workers_do_the_calls_never_exceed_the_cap(tmp_path_factory, cap, batch, plan):
    table = LeaseTable(tmp_path_factory.mktemp("grants") / "leases.sqlite")
    table.begin(200, {})
    grants = Grants(table)
    grants.set_caps(Amounts(queries=cap))
    workers: dict[int, Simulated] = {}
    n_calls = n_born = 0
    for i, what in plan:
        if i not in workers:
            n_born += 1
            lease, _ = table.take(f"worker {n_born}", 60.0)
            workers[i] = Simulated(grants, lease, batch)
        worker = workers[i]
        if what == "k":  # killed: what it was granted stays charged
            table.revoke(worker.lease.owner)
            del workers[i]
        elif what == "s":
            grants.settle(worker.lease, used(worker.progress.n_computed))
            ledger = Shipped(name=f"{n_born}", digest="d", calls=1)
            table.commit(worker.lease, ledger, State.DONE, 60.0, {})
            del workers[i]
        else:
            n_calls += worker.step(tokens=10)
        assert n_calls <= grants.charged()["queries"] <= cap
    table.close()


@pytest.mark.parametrize("tokens", [1, 7, 50])
def test_tokens_exceed_their_cap_by_at_most_one_batch_a_worker(table, tokens):
    grants = Grants(table)
    cap, batch = 500, 4
    grants.set_caps(Amounts(tokens=cap))
    workers = [Simulated(grants, table.take(f"worker {i}", 60.0)[0], batch) for i in range(4)]
    while sum(worker.step(tokens) for worker in workers):
        pass
    spent = sum(worker.progress.n_tokens for worker in workers)
    assert cap <= spent <= cap + len(workers) * batch * tokens


def test_infinite_amounts_travel_as_null():
    amounts = Amounts(queries=3, tokens=math.inf, usd=0.5)
    assert amounts.as_json() == {"queries": 3, "tokens": None, "usd": 0.5}
    assert Amounts.read(amounts.as_json()) == amounts
