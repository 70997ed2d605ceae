"""A run against a server that is killed with SIGKILL buys again at most what was in flight."""

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


@pytest.mark.kills("server")
def test_after_kill_9_at_most_the_calls_in_flight_are_bought_again(bench, workbench):
    bench.write_items(workbench.questions(6))
    bench.tables["attack"] = [bench.attack("farthest")]
    bench.tables["experiment"]["seeds"] = [0]
    with FaultServer(answer=key_of_case, seconds=0.01) as server:
        bench.tables["victim"] = [
            {
                "name": "served",
                "backend": "openai",
                "base_url": server.url,
                "model": server.model,
                "max_in_flight": 4,
            }
        ]
        process = bench.start()
        try:
            workbench.wait_until(lambda: len(server.log) >= 12, process)
        finally:
            workbench.stop(process)
        n_before = len(server.log)
        server.seconds = 0.0
        assert bench.run() == 0
        n_asked = len(server.log)
        n_answers = Run(bench.out).summary()["performance"]["calls"]
        interrupted = workbench.ledger(bench.summary())["interrupted"]
    assert n_before < n_asked
    assert 1 <= interrupted <= 4
    assert 0 <= n_asked - n_answers <= interrupted
