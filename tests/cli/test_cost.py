"""Prices, limits of money, and what a dry run says of tokens, time and money."""

import hashlib
import re
from pathlib import Path

import pytest

from medstress.experiment.dry_run import dollars, dry_run
from medstress.experiment.prepare import opened_victims, prepare

RULE = '{"pattern": "", "reply": "A"}\n'


@pytest.fixture
def priced(bench):
    """Two victims that answer texts: one costs something."""
    (bench.root / "rules.jsonl").write_text(RULE, encoding="utf-8")
    victim = {"backend": "scripted", "model": "rules.jsonl", "answer_by": "generate"}
    bench.tables["victim"] = [
        {"name": "dear", **victim, "price_in": 2.0, "price_out": 10},
        {"name": "free", **victim, "max_new_tokens": 5},
    ]
    return bench


def dry(bench, *overrides, out=None):
    """Prepare the experiment and bound it; nothing is asked."""
    prepared = prepare(Path(bench.write()), overrides=overrides)
    with opened_victims(prepared, lambda _: None):
        return dry_run(prepared, out or bench.out)


def said(costs):
    return " ".join(remark.sentence for remark in costs.remarks())


def test_money_is_counted_at_the_given_prices(priced):
    costs = dry(priced)
    dear, free = costs.costs
    # 128 tokens written a query at most, and 2 by a letter, at 10 dollars a million.
    assert dear.about_queries * 2 * 10 / 1e6 < dear.usd < dear.about_queries * 128 * 10 / 1e6
    assert (free.usd, costs.total.usd) == (None, dear.usd)
    assert costs.bound == dear.bound + free.bound


def test_time_is_that_of_a_run_of_the_same_model(bench, medstress):
    assert dry(bench).total.minutes is None
    assert medstress(*bench.arguments()).code == 0
    n = bench.summary()["performance"]["calls"]
    assert dry(bench).total.minutes > 0
    other = dry(bench, out=bench.root / "other")
    assert other.total.minutes > 0
    assert f"(measured over {n} calls in {bench.out})" in said(other)
    bench.tables["victim"][0]["version"] = "another model"
    assert dry(bench).total.minutes is None


def test_money_spent_is_in_the_summary_and_on_the_screen(priced, medstress):
    told = medstress(*priced.arguments())
    assert told.code == 0
    assert "Spent: 0 US dollars." in told.out, "the scripted victim counts no tokens"
    performance = priced.summary()["performance"]
    assert performance["usd"] == 0.0
    by = {row["payer"]: row["usd"] for row in performance["spending"]}
    assert by == {"dear": 0.0, "free": None}


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
    pytest.importorskip("openai", reason="needs the extra medstress[openai]")
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


def luck(prompt):
    return hashlib.sha256(prompt.encode()).digest()[0] / 256


VICTIMS = {
    "loses half": (lambda prompt: of_case(prompt) if luck(prompt) < 0.6 else "E", {}),
    "reasons": (of_case, {"max_new_tokens": 1024}),
}


@pytest.mark.parametrize("kind", VICTIMS)
def test_the_estimate_of_money_is_near_what_a_run_costs(bench, medstress, kind):
    """Within a factor of 4 where nothing is known, of 2 beside a run of the same model."""
    pytest.importorskip("openai", reason="needs the extra medstress[openai]")
    from fault_server import FaultServer

    answer, keys = VICTIMS[kind]
    thoughts = (lambda prompt: "so " * 300) if kind == "reasons" else None
    with FaultServer(answer=answer, thoughts=thoughts, counts=True) as server:
        # The price of a written token is far above that of one read, as of most models.
        served(bench, server, **{"answer_by": "generate", **keys, "price_in": 1, "price_out": 8})
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


@pytest.mark.release
def test_where_max_usd_stops_the_run_is_where_the_run_stops(bench, medstress):
    """A planted truth: a limit of half the estimate leaves about half of the queries."""
    pytest.importorskip("openai", reason="needs the extra medstress[openai]")
    from fault_server import FaultServer

    with FaultServer(answer=of_case, counts=True) as server:
        served(bench, server, answer_by="generate", price_in=1, price_out=8)
        assert medstress(*bench.arguments(out=bench.root / "whole")).code == 0
        n = len(server.log)
        bench.tables["experiment"]["max_usd"] = round(dry(bench).total.usd / 2, 6)
        costs = dry(bench)
        assert medstress(*bench.arguments()).code == 0
        asked = len(server.log) - n
        resumed = dry(bench)
    expected = float(re.search(r"after about ([\d,]+) of", said(costs))[1].replace(",", ""))
    assert expected / 2 < asked < expected * 2
    assert resumed.spent > 0
    assert f", {dollars(resumed.spent)} of it spent already" in said(resumed)


def test_only_a_run_that_asked_alike_tells_what_to_expect(bench, medstress):
    """Another prompt, way to answer or model says nothing; nor does a damaged folder."""
    assert medstress(*bench.arguments(out=bench.root / "first")).code == 0
    n = bench.summary(bench.root / "first")["performance"]["calls"]
    assert f"measured over {n} calls" in said(dry(bench))
    for change in ("victim.prompt=chat", "victim.version=another"):
        assert "(assumed)" in said(dry(bench, change))
    (bench.root / "first" / "run.sqlite").write_bytes(b"SQLite format 3\x00 and nothing else")
    assert "(assumed)" in said(dry(bench))


def test_answers_of_the_cache_cost_nothing(bench, medstress):
    pytest.importorskip("openai", reason="needs the extra medstress[openai]")
    from fault_server import FaultServer

    with FaultServer() as server:
        served(bench, server)
        bench.tables["experiment"].update(cache="shared")
        medstress(*bench.arguments())
        bench.tables["experiment"]["max_usd"] = 1e-9
        other = bench.root / "other"
        assert medstress(*bench.arguments(out=other)).code == 0
    summary = bench.summary(other)
    assert summary["experiment"]["complete"]
    assert summary["performance"]["usd"] == 0


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"price_in": 1.0}, "price_in and price_out go together"),
        ({"price_in": -1.0, "price_out": 1.0}, "price_in = -1.0: "),
        ({}, "max_usd cannot be kept: victim 'careful' has no price"),
    ],
)
def test_prices_that_make_no_sense_are_refused(bench, medstress, keys, sentence):
    bench.tables["victim"][0].update(keys)
    bench.tables["experiment"]["max_usd"] = 1
    told = medstress(*bench.arguments())
    assert (told.code, told.out) == (2, "")
    assert sentence in told.err
    assert told.err.count("\n") == 1
