"""Several servers of one model: who gets which item, who is set aside and who comes back."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest

from fault_server import FAULTS, FaultServer, random_faults
from medstress.backends.options import BackendOptions
from medstress.backends.server.connection import Connection, Patience
from medstress.backends.server.errors import Server, ServerTrouble, Then
from medstress.backends.server.prefix_cache import PrefixCache
from medstress.backends.server.rate_limits import RateLimits
from medstress.backends.server.replicas import Replicas
from medstress.core.calls import Failure, Generate, Origin
from medstress.core.errors import UsageError
from medstress.core.hashing import content_hash

pytest.importorskip("openai", reason="needs the extra medstress[openai]")

from medstress.backends.server.openai import OpenAiBackend, open_backend

ITEMS = [content_hash(["item", i]) for i in range(40)]


class Stub:
    """A replica that is well or not, without a network."""

    def __init__(self, url: str) -> None:
        self.server = Server(url=url, model="m")
        self.n_failed = self.n_set_aside = self.n_probes = 0
        self.well = True

    def is_well(self) -> bool:
        self.n_probes += 1
        return self.well


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def trouble(**how: object) -> ServerTrouble:
    return ServerTrouble("x", Then.AGAIN, **how)  # type: ignore[arg-type]


def chosen(n: int) -> tuple[Replicas, list[Stub], Clock]:
    stubs, clock = [Stub(f"http://server-{i}/v1") for i in range(n)], Clock()
    return Replicas(stubs, pause=5.0, longest=20.0, clock=clock), stubs, clock  # type: ignore[arg-type]


def test_only_the_items_of_a_server_that_leaves_move_and_they_come_back() -> None:
    replicas, stubs, clock = chosen(4)
    before = [replicas.choose(item) for item in ITEMS]
    assert set(Counter(map(id, before)).values()) != {len(ITEMS)}
    assert len(set(map(id, before))) == 4
    assert replicas.failed(stubs[1], trouble(status=503))  # type: ignore[arg-type]
    after = [replicas.choose(item) for item in ITEMS]
    assert all(
        (old is new) == (old is not stubs[1]) for old, new in zip(before, after, strict=True)
    )
    assert stubs[1].n_probes == 0
    clock.now = 5.0
    assert [replicas.choose(item) for item in ITEMS] == before
    assert stubs[1].n_probes == 1


def test_a_server_that_is_shut_down_ends_what_it_has_begun_and_gets_nothing_new() -> None:
    replicas, stubs, clock = chosen(2)
    mine = [item for item in ITEMS if replicas.choose(item) is stubs[0]]
    replicas.failed(stubs[0], trouble(status=503))  # type: ignore[arg-type]
    for _ in range(3):
        replicas.answered(stubs[0])  # type: ignore[arg-type]
        replicas.failed(stubs[0], trouble(dropped=True))  # type: ignore[arg-type]
    assert all(replicas.choose(item) is stubs[1] for item in mine)
    assert stubs[0].n_set_aside == 1
    clock.now = 5.0
    assert replicas.choose(mine[0]) is stubs[0]


def test_an_order_of_addresses_does_not_change_who_gets_an_item() -> None:
    replicas, stubs, _ = chosen(3)
    other = Replicas(stubs[::-1], pause=1.0, longest=1.0)  # type: ignore[arg-type]
    assert [replicas.choose(item) for item in ITEMS] == [other.choose(item) for item in ITEMS]


def test_a_pause_doubles_up_to_the_longest_and_an_answer_ends_it() -> None:
    replicas, stubs, clock = chosen(2)
    item = next(each for each in ITEMS if replicas.choose(each) is stubs[0])
    stubs[0].well = False
    replicas.failed(stubs[0], trouble(unreachable=True))  # type: ignore[arg-type]
    for at, n_probes in [(4.9, 0), (5.0, 1), (14.9, 1), (15.0, 2), (34.9, 2), (35.0, 3), (55.0, 4)]:
        clock.now = at
        assert replicas.choose(item) is stubs[1]
        assert stubs[0].n_probes == n_probes, at
    stubs[0].well, clock.now = True, 75.0
    assert replicas.choose(item) is stubs[0]
    replicas.answered(stubs[0])  # type: ignore[arg-type]
    replicas.failed(stubs[0], trouble(dropped=True))  # type: ignore[arg-type]
    clock.now = 80.0
    assert replicas.choose(item) is stubs[0]


@pytest.mark.parametrize(
    ("how", "n"),
    [
        ({"status": 503}, 1),
        ({"status": 502}, 1),
        ({"unreachable": True}, 1),
        ({"late": True}, 1),
        ({"dropped": True}, 1),
        ({"status": 500}, 3),
        ({"status": 429}, None),
    ],
)
def test_what_sets_a_server_aside_and_what_does_not(how: dict, n: int | None) -> None:
    replicas, stubs, _ = chosen(2)
    moved = [replicas.failed(stubs[0], trouble(**how)) for _ in range(6)]  # type: ignore[arg-type]
    assert moved == [n is not None and i + 1 >= n for i in range(6)]
    assert stubs[0].n_set_aside == int(n is not None)


def test_a_server_may_ask_for_a_longer_pause_and_with_none_well_the_soonest_is_asked() -> None:
    replicas, stubs, _ = chosen(2)
    replicas.failed(stubs[0], trouble(status=503, retry_after=60.0))  # type: ignore[arg-type]
    assert not replicas.failed(stubs[1], trouble(status=503))  # type: ignore[arg-type]
    stubs[0].well = stubs[1].well = False
    assert {replicas.choose(item).server.url for item in ITEMS} == {stubs[1].server.url}
    assert stubs[0].n_probes + stubs[1].n_probes == 0
    single, (stub,), _ = chosen(1)
    assert not single.failed(stub, trouble(unreachable=True))  # type: ignore[arg-type]
    assert single.choose("x") is stub
    assert stub.n_set_aside == 0


# -- with servers ----------------------------------------------------------------------------
@contextmanager
def several(servers: list[FaultServer], **patience: float) -> Iterator[OpenAiBackend]:
    first, *others = [Server(url=server.url, model=server.model) for server in servers]
    waits = {"first": 0.001, "longest": 0.05, "aside": 0.05, "answer": 5.0, **patience}
    connection = Connection(
        first,
        RateLimits(),
        max_in_flight=8,
        others=others,
        patience=Patience(**waits),  # type: ignore[arg-type]
    )
    connection.greet_all()
    backend = OpenAiBackend(connection, max_in_flight=8)
    try:
        yield backend
    finally:
        backend.close()


def ask(backend: OpenAiBackend, n_each: int = 3) -> list[object]:
    """Ask so many calls of every item, four at a time."""
    pairs = [
        (Generate(f"{item} {i}"), Origin(item=item, key=f"{item}{i}".encode()))
        for item in ITEMS
        for i in range(n_each)
    ]
    with ThreadPoolExecutor(4) as threads:
        replies = list(threads.map(lambda pair: backend.answer_for([pair[0]], [pair[1]]), pairs))
    return [reply for (reply,) in replies]


def items_of(server: FaultServer) -> set[str]:
    return {asked.prompt.partition(" ")[0] for asked in server.log if asked.fault is None}


def test_requests_of_an_item_go_to_one_server_and_each_has_some() -> None:
    with FaultServer() as one, FaultServer() as two, several([one, two]) as backend:
        assert not any(isinstance(reply, Failure) for reply in ask(backend))
        assert items_of(one) | items_of(two) == set(ITEMS)
        assert not items_of(one) & items_of(two)
        assert min(len(items_of(one)), len(items_of(two))) > 4
        rows = backend.endpoint["replicas"]
    assert [row["url"] for row in rows] == [one.url, two.url]
    assert [row["requests"] for row in rows] == [len(one.log), len(two.log)]
    assert sum(row["requests"] for row in rows) == 3 * len(ITEMS)


def test_a_server_that_leaves_fails_nothing_and_gets_its_items_back() -> None:
    with FaultServer() as one, FaultServer() as two, several([one, two]) as backend:
        ask(backend, 1)
        mine = items_of(two)
        two.is_ill = True
        assert not any(isinstance(reply, Failure) for reply in ask(backend, 1))
        assert items_of(one) == set(ITEMS)
        two.is_ill = False
        time.sleep(0.06)
        back = min(mine)  # asked alone, so that nobody else passes by during the check
        backend.answer_for([Generate("again")], [Origin(item=back, key=b"again")])
        one.log.clear()
        assert not any(isinstance(reply, Failure) for reply in ask(backend, 1))
        assert not items_of(one) & mine
        row = backend.endpoint["replicas"][1]
    assert row["set_aside"] == 1
    assert 1 <= row["failed"] <= 4
    assert backend.counters["requests_repeated"] == row["failed"]


@pytest.mark.release
def test_nothing_is_lost_while_servers_come_and_go_and_a_tenth_of_requests_fails() -> None:
    """Four thousand calls, 24 at a time; one of three servers is ill most of the time."""
    passing = [fault for fault in FAULTS if fault not in ("refusal", "wrong_model", "huge")]
    ended = threading.Event()
    with ExitStack() as stack:
        servers = [
            stack.enter_context(
                FaultServer(
                    answer=lambda prompt: prompt,
                    faults=random_faults(0.1, passing, seed=seed),
                    retry_after=0.01,
                    late=0.02,
                )
            )
            for seed in range(3)
        ]
        backend = stack.enter_context(several(servers))

        def come_and_go() -> None:
            drawn = random.Random(0)
            while not ended.is_set():
                server = drawn.choice(servers)
                server.is_ill = True
                ended.wait(0.3)
                server.is_ill = False
                ended.wait(0.2)

        def one(i: int) -> object:
            item = ITEMS[i % len(ITEMS)]
            origin = Origin(item=item, key=str(i).encode())
            return backend.answer_for([Generate(f"{item} {i}")], [origin])[0]

        troubled = threading.Thread(target=come_and_go)
        troubled.start()
        try:
            with ThreadPoolExecutor(24) as threads:
                replies = list(threads.map(one, range(4000)))
        finally:
            ended.set()
            troubled.join()
        rows = backend.endpoint["replicas"]
    said = [getattr(reply, "text", reply) for reply in replies]
    assert said == [f"{ITEMS[i % len(ITEMS)]} {i}" for i in range(4000)]
    assert [row["requests"] for row in rows] == [len(server.log) for server in servers]
    assert sum(row["requests"] - row["failed"] for row in rows) == 4000
    assert all(row["set_aside"] for row in rows)


def test_a_server_that_is_not_there_at_the_start_is_set_aside_and_none_stops_the_run(said) -> None:
    with FaultServer() as gone:
        pass
    with FaultServer() as one:
        with several([gone, one], attempts=2) as backend:
            assert not any(isinstance(reply, Failure) for reply in ask(backend, 1))
            assert backend.endpoint["replicas"][0]["requests"] == 0
        with pytest.raises(UsageError) as told, several([gone, gone]):
            pass
    said(str(told.value), "cannot be reached")


def test_counts_of_earlier_processes_go_on() -> None:
    with FaultServer() as one, FaultServer() as two:
        with several([one, two]) as backend:
            ask(backend, 1)
            known = dict(backend.endpoint)
        with several([two, one]) as backend:
            backend.expect(known)
            assert sum(row["requests"] for row in backend.endpoint["replicas"]) == len(ITEMS)
            ask(backend, 1)
            assert sum(row["requests"] for row in backend.endpoint["replicas"]) == 2 * len(ITEMS)
            backend.expect({})
            assert not any(row["requests"] for row in backend.endpoint["replicas"])


def test_every_server_must_list_the_model_and_each_is_named_once(said) -> None:
    with FaultServer() as one, FaultServer(model="other-model") as two:
        with pytest.raises(UsageError) as told:
            open_backend(BackendOptions(model=one.model, base_url=[one.url, two.url]))
        said(str(told.value), "other-model")
        with pytest.raises(UsageError) as told:
            open_backend(BackendOptions(model=one.model, base_url=[one.url, one.url + "/"]))
        said(str(told.value), "twice")
        with pytest.raises(UsageError) as told:
            open_backend(BackendOptions(model=one.model, base_url=[]))
        said(str(told.value), "base_url")


def test_several_servers_are_the_model_that_one_is() -> None:
    with ExitStack() as stack:
        urls = [stack.enter_context(FaultServer()).url for _ in range(3)]
        opened = [
            open_backend(BackendOptions(model="fault-model", base_url=url))
            for url in (urls[0], urls[:1], urls)
        ]
        assert len({backend.identity for backend in opened}) == 1
        assert [backend.traits.workers for backend in opened] == [8, 8, 24]
        assert [sorted(backend.endpoint) for backend in opened[:2]] == [
            ["answered_as", "model", "url"]
        ] * 2
        for backend in opened:
            backend.close()


# -- what their caches saved -----------------------------------------------------------------
def page(queries: float, hits: float) -> str:
    return (
        "# TYPE vllm:prefix_cache_queries_total counter\n"
        f'vllm:prefix_cache_queries_total{{engine="0",model_name="m"}} {queries}\n'
        f'vllm:prefix_cache_hits_total{{engine="0",model_name="m"}} {hits}\n'
        f'vllm:prefix_cache_hits_created{{engine="0",model_name="m"}} 1.7e+09\n'
    )


def test_hits_of_the_prefix_cache_are_counted_from_the_start_of_the_run() -> None:
    now = [page(1e6, 5e5)]
    vllm = FaultServer(owner="vllm", metrics=lambda: now[0], cached=64)
    with vllm as one, FaultServer() as two, several([one, two]) as backend:
        assert backend.counters["prefix_cache_queries"] == 0
        now[0] = page(1.0001e6, 500_080)
        ask(backend, 1)
        counters = backend.counters
    assert (counters["prefix_cache_queries"], counters["prefix_cache_hits"]) == (100, 80)
    assert counters["tokens_cached"] == 64 * len(items_of(one))


def test_a_server_that_is_restarted_or_silent_counts_no_less() -> None:
    said = [page(100, 50), page(140, 80), ServerTrouble("gone", Then.AGAIN), page(30, 10)]

    def read() -> str:
        now = said.pop(0)
        if isinstance(now, ServerTrouble):
            raise now
        return now

    cache = PrefixCache(read)
    assert cache.counts() is None
    cache.start()
    assert [cache.counts() for _ in range(3)] == [(40, 30), (40, 30), (70, 40)]


@pytest.mark.parametrize(
    "text", ["", "vllm:prefix_cache_queries_total 3", page(-1, 0), page(1e300, 0), "\x00" * 99]
)
def test_a_page_without_the_counters_counts_nothing(text: str) -> None:
    cache = PrefixCache(lambda: text)
    cache.start()
    assert cache.counts() is None
