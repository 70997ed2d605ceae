"""Whole runs against several servers of one model, and purchases with idempotency keys."""

from __future__ import annotations

import re

import pytest

from fault_server import FaultServer
from medstress.api.run import Run

pytest.importorskip("openai", reason="needs the extra medstress[openai]")


def key_of_case(prompt: str) -> str:
    """Right, and wrong where a name in the prompt ends in a."""
    found = re.search(r"case ([0-9]+)", prompt)
    assert found is not None
    return "ABCD"[(int(found[1]) + ("hepimycin" in prompt)) % 4]


def victim(*servers: FaultServer, **keys: object) -> dict[str, object]:
    urls = [server.url for server in servers]
    return {
        "name": "served",
        "backend": "openai",
        "base_url": urls[0] if len(urls) == 1 else urls,
        "model": servers[0].model,
        **keys,
    }


def cases(server: FaultServer) -> set[str]:
    return {re.search(r"case ([0-9]+)", asked.prompt)[1] for asked in server.log}


def small(bench, workbench, n_items: int) -> None:
    bench.write_items(workbench.questions(n_items))
    bench.tables["attack"] = [bench.attack("farthest")]
    bench.tables["experiment"]["seeds"] = [0]


def test_two_servers_give_the_run_that_one_gives_and_can_go_on_with_it(bench, workbench):
    small(bench, workbench, 8)
    one, two = bench.root / "one", bench.root / "two"
    first, second = FaultServer(answer=key_of_case), FaultServer(answer=key_of_case)
    with first, second:
        bench.tables["victim"] = [victim(first)]
        assert bench.run(out=one) == 0
        n_alone = len(first.log)
        first.log.clear()
        bench.tables["victim"] = [victim(first, second)]
        assert bench.run(out=two) == 0
        shared = [set(cases(first)), set(cases(second))]
        n_both = [len(first.log), len(second.log)]
        assert bench.run(out=one) == 0, "the same experiment: nothing is asked again"
        assert [len(first.log), len(second.log)] == n_both
    alone, both = Run(one), Run(two)
    assert sum(n_both) == n_alone
    assert not shared[0] & shared[1]
    assert alone.manifest()["fingerprint"] == both.manifest()["fingerprint"]
    assert alone.rows() == both.rows()
    assert workbench.numbers(alone.summary()) == workbench.numbers(both.summary())
    (endpoint,) = both.manifest()["endpoints"]
    assert [row["requests"] for row in endpoint["replicas"]] == n_both
    assert both.manifest()["performance"]["requests"] == n_alone


def test_a_server_that_goes_away_in_the_middle_changes_no_row(bench, workbench):
    small(bench, workbench, 12)  # enough that each server has some, whatever their ports
    one, two = bench.root / "one", bench.root / "two"
    first, second = FaultServer(answer=key_of_case), FaultServer(answer=key_of_case)
    with first, second:
        bench.tables["victim"] = [victim(first)]
        assert bench.run(out=one) == 0
        first.log.clear()
        second.faults = lambda asked: setattr(second, "is_ill", asked.number >= 2)
        bench.tables["victim"] = [victim(first, second)]
        assert bench.run(out=two) == 0
    assert Run(one).rows() == Run(two).rows()
    (endpoint,) = Run(two).manifest()["endpoints"]
    ill = endpoint["replicas"][1]
    assert ill["set_aside"] >= 1
    assert ill["failed"] == Run(two).manifest()["performance"]["requests_repeated"] > 0
    assert Run(two).summary()["performance"]["requests_repeated"] == ill["failed"]
    assert "requests_repeated" not in Run(one).summary()["performance"]
    assert len(second.log) - ill["failed"] == 3


def test_after_kill_9_a_call_is_bought_with_the_key_it_had_and_a_fresh_run_has_others(
    bench, workbench
):
    """The server answers every key once, as one that knows idempotency keys charges it once."""
    small(bench, workbench, 6)
    with FaultServer(answer=key_of_case, seconds=0.01) as server:
        bench.tables["victim"] = [
            victim(server, idempotency_header="Idempotency-Key", max_in_flight=4)
        ]
        process = bench.start()
        try:
            workbench.wait_until(lambda: len(server.log) >= 12, process)
        finally:
            workbench.stop(process)
        n_before = len(server.log)
        server.seconds = 0.0
        assert bench.run() == 0
        keys, n_asked = bought(server), len(server.log)
        n_answers = Run(bench.out).summary()["performance"]["calls"]
        interrupted = workbench.ledger(bench.summary())["interrupted"]
        server.log.clear()
        assert bench.run("--fresh") == 0
        fresh = bought(server)
    assert n_before < n_asked
    assert 1 <= interrupted <= 4
    assert len(keys) == n_answers, "every answer has a key of its own, repetitions too"
    assert 0 <= n_asked - len(keys) <= interrupted
    assert not keys & fresh


def bought(server: FaultServer) -> set[str]:
    """The idempotency keys that a server has seen."""
    return {asked.headers["idempotency-key"] for asked in server.log}


def test_what_failed_is_bought_anew_by_retry_failed(bench, workbench):
    small(bench, workbench, 2)
    bench.tables["experiment"]["max_failed"] = 9
    refused = {"case 1"}
    faults = lambda asked: "refusal" if any(each in asked.prompt for each in refused) else None  # noqa: E731
    with FaultServer(answer=key_of_case, faults=faults) as server:
        bench.tables["victim"] = [victim(server, idempotency_header="Idempotency-Key")]
        bench.run()
        before = bought(server)
        refused.clear()
        server.log.clear()
        assert bench.run("--retry-failed") == 0
        after = bought(server)
    assert after
    assert not before & after
