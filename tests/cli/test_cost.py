"""Prices, limits of money, and what a dry run says of tokens, time and money."""

import re
from pathlib import Path

from medstress.experiment.dry_run import dry_run
from medstress.experiment.prepare import opened_victims, prepare

RULE = '{"pattern": "", "reply": "A"}\n'


def dry(bench, *overrides, out=None):
    """Prepare the experiment and bound it; nothing is asked."""
    prepared = prepare(Path(bench.write()), overrides=overrides)
    with opened_victims(prepared, lambda _: None):
        return dry_run(prepared, out or bench.out)


def said(costs):
    return " ".join(remark.sentence for remark in costs.remarks())


def test_only_a_run_that_asked_alike_tells_what_to_expect(bench, medstress):
    """Another prompt, way to answer or model says nothing; nor does a damaged folder."""
    assert dry(bench).total.minutes is None
    assert medstress(*bench.arguments()).code == 0
    n = bench.summary()["performance"]["calls"]
    assert dry(bench).total.minutes > 0
    other = bench.root / "other"
    assert f"(measured over {n} calls in {bench.out})" in said(dry(bench, out=other))
    for change in ("victim.prompt=chat", "victim.version=another"):
        costs = dry(bench, change, out=other)
        assert costs.total.minutes is None
        assert "(assumed)" in said(costs)
    (bench.out / "run.sqlite").write_bytes(b"SQLite format 3\x00 and nothing else")
    assert "(assumed)" in said(dry(bench, out=other))


def served(bench, server, **keys):
    bench.tables["experiment"]["flip_check"] = False
    bench.tables["victim"] = [
        {
            "name": "served",
            "backend": "openai",
            "base_url": server.url,
            "model": server.model,
            "max_in_flight": 1,
            "price_in": 1e6,
            "price_out": 0,
            **keys,
        }
    ]


def test_max_usd_stops_a_run_cleanly_and_it_is_resumed_with_what_was_spent(bench, medstress):
    from fault_server import FaultServer

    with FaultServer() as server:
        served(bench, server)  # one dollar a token that is read
        bench.tables["experiment"]["max_usd"] = 30
        told = medstress(*bench.arguments())
        assert told.code == 0
        assert "\nStopped by max_usd = 30" in told.out
        assert "run the same command again to resume" not in told.out
        summary = bench.summary()
        assert not summary["experiment"]["complete"]
        first = summary["performance"]["usd"]
        largest = max(asked.tokens for asked in server.log)
        assert 30 <= first < 30 + largest
        assert first == sum(asked.tokens - 1 for asked in server.log)
        n = len(server.log)
        assert medstress(*bench.arguments()).code == 0
        assert len(server.log) == n, "the second process knows what the first one spent"
        told = medstress(*bench.arguments("--set", "experiment.max_usd=1e6"))
        assert told.code == 0
        summary = bench.summary()
    assert summary["experiment"]["complete"]
    assert summary["performance"]["usd"] == sum(asked.tokens - 1 for asked in server.log)


def of_case(prompt):
    """The key of a question: the number of its case says it."""
    # A control may break the line within it.
    return "ABCD"[int(re.search(r"case\s+(\d+)", prompt)[1]) % 4]


def test_the_estimate_of_money_is_near_what_a_run_costs(bench, medstress):
    """Within a factor of 4 where nothing is known, of 2 beside a run of the same model."""
    from fault_server import FaultServer

    with FaultServer(answer=of_case, thoughts=lambda _: "so " * 300, counts=True) as server:
        # The price of a written token is far above that of one read, as of most models.
        served(bench, server, answer_by="generate", max_new_tokens=1024, price_in=1, price_out=8)
        bench.tables["victim"][0]["max_in_flight"] = 8
        bench.tables["experiment"] |= {"flip_check": True, "controls": ["no_op"], "seeds": [0]}
        bench.tables["attack"] = [bench.attack("random")]
        first = dry(bench)
        assert medstress(*bench.arguments()).code == 0
        second = dry(bench, out=bench.root / "other")
    paid = bench.summary()["performance"]["usd"]
    for costs, factor in ((first, 4), (second, 2)):
        assert paid / factor < costs.total.usd < paid * factor
    assert "(assumed)" in said(first)
    assert f"calls in {bench.out})" in said(second)
    assert "uncertain" in said(first)
    assert "uncertain" not in said(second), "measured"
