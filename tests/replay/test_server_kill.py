"""A run against a server that is killed with SIGKILL buys again at most what was in flight."""

import re

import pytest

from fault_server import FaultServer, random_faults
from medstress.api.run import Run

pytest.importorskip("openai", reason="needs the extra medstress[openai]")


FAULTS = ("late", "429", "429_retry_after", "500", "503", "drop", "half_json")


def key_of_case(prompt: str) -> str:
    """Right, and wrong where a name in the prompt ends in a."""
    found = re.search(r"case ([0-9]+)", prompt)
    assert found is not None
    return "ABCD"[(int(found[1]) + ("hepimycin" in prompt)) % 4]


@pytest.mark.parametrize(
    ("faulty", "n_kills"),
    [
        pytest.param(0.0, 1, marks=pytest.mark.kills("server")),
        pytest.param(0.3, 8, marks=[pytest.mark.kills, pytest.mark.timeout(600)]),
    ],
)
def test_after_kill_9_at_most_the_calls_in_flight_are_bought_again(
    bench, workbench, faulty, n_kills
):
    bench.write_items(workbench.questions(6))
    bench.tables["attack"] = [bench.attack("farthest")]
    bench.tables["experiment"]["seeds"] = [0]
    with FaultServer(answer=key_of_case, seconds=0.01, late=0.1, retry_after=0.01) as server:
        bench.tables["victim"] = [
            {
                "name": "served",
                "backend": "openai",
                "base_url": server.url,
                "model": server.model,
                "max_in_flight": 4,
            }
        ]
        whole = bench.root / "whole"
        assert bench.run(out=whole) == 0
        n_whole = len(server.log)
        server.faults = random_faults(faulty, FAULTS)
        for number in range(n_kills):
            process = bench.start()
            n = n_whole * (number + 1) // (n_kills + 1)
            try:
                workbench.wait_until(lambda n=n: len(bought(server)) >= n_whole + n, process)
            finally:
                workbench.stop(process)
        server.seconds = 0.0
        assert bench.run() == 0
        n_asked = len(bought(server)) - n_whole
        n_answers = Run(bench.out).summary()["performance"]["calls"]
        interrupted = workbench.ledger(bench.summary())["interrupted"]
    assert Run(bench.out).summary()["root"] == Run(whole).summary()["root"]
    assert 1 <= interrupted <= 4 * n_kills
    assert 0 <= n_asked - n_answers <= interrupted


def bought(server):
    return [asked for asked in server.log if asked.answered]
