"""What requests carry of their item and purchase, and what they never carry."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fault_server import FaultServer
from medstress.backends.options import BackendOptions
from medstress.backends.server.affinity import Labels
from medstress.backends.server.connection import Connection, Patience
from medstress.backends.server.errors import Server
from medstress.backends.server.rate_limits import RateLimits
from medstress.core.calls import Decoding, Generate, Origin
from medstress.core.errors import UsageError
from medstress.core.hashing import content_hash

pytest.importorskip("openai", reason="needs the extra medstress[openai]")

from medstress.backends.server.openai import OpenAiBackend, open_backend

WARM = Decoding(temperature=1.0)
ITEM = content_hash(["A 45-year-old man"])


@contextmanager
def backend_of(server: FaultServer, labels: Labels | None = None) -> Iterator[OpenAiBackend]:
    connection = Connection(
        Server(url=server.url, model=server.model),
        RateLimits(),
        max_in_flight=1,
        patience=Patience(first=0.001, longest=0.01, answer=0.25),
        labels=labels,
    )
    backend = OpenAiBackend(connection, max_in_flight=1)
    try:
        yield backend
    finally:
        backend.close()


def buy(backend: OpenAiBackend, text: str = "Q", key: bytes = b"1", item: str = ITEM) -> None:
    backend.answer_for([Generate(text, WARM)], [Origin(item=item, key=key)])


def keys_of(server: FaultServer) -> list[str]:
    return [asked.headers["idempotency-key"] for asked in server.log]


def keyed() -> Labels:
    return Labels(idempotency="Idempotency-Key")


def test_the_item_is_in_the_headers_that_routers_read_and_its_text_is_not() -> None:
    with FaultServer() as server, backend_of(server) as backend:
        buy(backend)
        buy(backend, "Another", b"2")
        buy(backend, "Q", b"3", content_hash(["another item"]))
        backend.answer([Generate("Q", WARM)])
    one, two, other, unknown = (asked.headers for asked in server.log)
    name = ITEM.partition(":")[2]
    assert len(name) == 32
    assert one["x-session-id"] == two["x-session-id"] == one["x-smg-routing-key"] == name
    assert other["x-session-id"] != name
    assert "x-session-id" not in unknown
    assert not any("idempotency-key" in asked.headers for asked in server.log)
    assert {"user", "prompt_cache_key"}.isdisjoint(server.log[0].body)


def test_names_of_header_and_field_are_the_users() -> None:
    labels = Labels(["x-flow"], "prompt_cache_key")
    with FaultServer() as server, backend_of(server, labels) as backend:
        buy(backend)
    (asked,) = server.log
    assert asked.headers["x-flow"] == asked.body["prompt_cache_key"] == ITEM.partition(":")[2]
    assert "x-session-id" not in asked.headers


def test_each_purchase_has_a_key_of_its_own() -> None:
    with FaultServer() as server, backend_of(server, keyed()) as backend:
        buy(backend)
        buy(backend, "Q", b"2")
        buy(backend, "Another", b"3")
    assert len(set(keys_of(server))) == 3


def test_a_run_that_was_killed_asks_with_the_same_key_and_a_fresh_one_with_another() -> None:
    with FaultServer() as server:
        with backend_of(server, keyed()) as backend:
            buy(backend)
            known = dict(backend.endpoint)
        with backend_of(server, keyed()) as backend:
            backend.expect(known)
            buy(backend)
        with backend_of(server, keyed()) as backend:
            backend.expect({})
            buy(backend)
    first, resumed, fresh = keys_of(server)
    assert first == resumed != fresh
    assert known["purchases"] not in first


@pytest.mark.parametrize(
    ("fault", "same"),
    [
        ("drop", True),
        ("503", True),
        ("429", True),
        ("500", False),
        ("empty_choice", False),
        ("half_json", False),
    ],
)
def test_the_key_stays_if_nobody_knows_the_answer_and_not_if_it_was_of_no_use(
    fault: str, same: bool
) -> None:
    failing = FaultServer(faults=lambda asked: fault if asked.number == 0 else None)
    with failing as server, backend_of(server, keyed()) as backend:
        buy(backend)
    first, second = keys_of(server)
    assert (first == second) is same


def test_a_late_answer_is_asked_for_again_with_its_key() -> None:
    slow = FaultServer(faults=lambda asked: "late" if asked.number == 0 else None, late=0.6)
    with slow as server, backend_of(server, keyed()) as backend:
        buy(backend)
    assert len(set(keys_of(server))) == 1 < len(server.log)


def test_another_body_has_another_key() -> None:
    with FaultServer(temperature=0.5) as server, backend_of(server, keyed()) as backend:
        buy(backend)
    assert len(server.log) > 1
    assert len(set(keys_of(server))) == len(server.log)


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"affinity_headers": ["Authorization"]}, "affinity_headers"),
        ({"affinity_headers": ["X Session"]}, "affinity_headers"),
        ({"affinity_headers": ["X-A\r\nX-B"]}, "affinity_headers"),
        ({"affinity_headers": ["X-Ä"]}, "affinity_headers"),
        ({"idempotency_header": "Host"}, "idempotency_header"),
        ({"affinity_field": "prompt"}, "affinity_field"),
        ({"affinity_field": "a b"}, "affinity_field"),
    ],
)
def test_names_that_are_none_or_taken_are_refused(keys: dict, named: str, said) -> None:
    with pytest.raises(UsageError) as told:
        open_backend(BackendOptions(model="m", base_url="http://127.0.0.1:9/v1", **keys))
    said(str(told.value), named)
