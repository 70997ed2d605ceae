"""Wrapped victims: read back call by call, bounded by the dry run."""

import json
from collections import Counter

import pytest

from medstress.api.run import Run

CALLS = 6


@pytest.fixture
def wrapped(bench, workbench):
    """The bench with its victim wrapped: two orders of three samples, instructed."""
    bench.tables["experiment"]["seeds"] = [0]
    bench.tables["attack"] = bench.tables["attack"][:2]
    bench.tables["victim"][0] |= {"batch_size": 4}
    bench.write_items(workbench.questions(6))
    path = bench.write()
    table = '[[victim]]\nwrap = ["x"]'.replace(
        '"x"', '{name = "shuffled_options", n = 2}, {name = "majority", k = 3}, "instructed"'
    )
    path.write_text(path.read_text("utf-8").replace("[[victim]]", table), "utf-8")
    bench.write = lambda: path
    return bench


def test_a_query_is_one_query_and_six_calls_that_are_read_back(wrapped, tmp_path):
    assert wrapped.run() == 0
    summary = wrapped.summary()
    rows = wrapped.rows()
    assert sum(r["queries"]["asked"] for r in summary["results"]) == sum(r.n_asked for r in rows)
    assert all(r.n_asked <= 5 for r in rows)
    assert any(r.n_asked for r in rows)
    to = tmp_path / "exchanges.jsonl"
    n = Run(wrapped.out).export("exchanges", to)
    calls = [json.loads(line) for line in to.read_text("utf-8").splitlines()]
    assert len(calls) == n
    by_query = Counter((c["trial_id"], c["purpose"], c["query"]) for c in calls)
    assert set(by_query.values()) == {CALLS}
    assert {c["call"] for c in calls} == set(range(CALLS))
    # What is rebuilt from item, edits, template and wrappers is what the victim was asked.
    received = Counter(prompt for _, prompt in wrapped.received())
    rebuilt = Counter(c["prompt"] for c in calls if not c["cached"])
    assert rebuilt == received
    assert sum(received.values()) == summary["performance"]["calls"]
    flipped = [r for r in rows if r.verdict == "flipped"]
    assert flipped
    for row in flipped:
        assert row.prompt_before in received
        assert row.prompt_after in received
