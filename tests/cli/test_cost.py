"""Prices, limits of money, and what a dry run says of tokens, time and money."""

from __future__ import annotations

import re

import pytest

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


def dry(bench, medstress, *extra):
    told = medstress(*bench.arguments("--dry-run", *extra))
    assert (told.code, told.err) == (0, "")
    return told.out


def number(pattern, text):
    found = re.search(pattern, text)
    assert found, text
    return float(found[1].replace(",", ""))


def test_a_dry_run_tells_money_at_the_given_prices(priced, medstress):
    told = dry(priced, medstress)
    queries = number(r"queries: at most ([\d,]+) ", told) / 2
    about = number(r"money: about \$([\d,.]+) \(estimate\)", told)
    most = number(r"at most \$([\d,.]+) \(bound\)", told)
    # 128 tokens written a query, at 10 dollars a million.
    assert about >= queries * 128 * 10 / 1e6 - 0.005
    assert most > about
    assert "without free, which have no price" in told


def test_the_bound_of_tokens_is_above_what_the_run_uses(bench, medstress, monkeypatch):
    """A server that counts every byte as a token."""
    pytest.importorskip("openai", reason="needs the extra medstress[openai]")
    import fault_server
    from fault_server import FaultServer

    monkeypatch.setattr(
        fault_server, "_n_tokens", lambda prompts: sum(len(p.encode()) for p in prompts)
    )
    with FaultServer() as server:
        bench.tables["victim"] = [
            {"backend": "openai", "base_url": server.url, "model": server.model}
        ]
        told = dry(bench, medstress)
        asked_before = len(server.log)
        assert medstress(*bench.arguments()).code == 0
    assert asked_before == 0, "a dry run asks nothing"
    most = number(r"at most ([\d,]+) \(bound: a token has a byte or more\)", told)
    (spent,) = bench.summary()["performance"]["spending"]
    assert 0 < spent["tokens_in"] + spent["tokens_out"] <= most


def test_time_is_told_from_a_run_of_the_same_model(bench, medstress):
    assert "time of careful: unknown (no earlier run of this model" in dry(bench, medstress)
    assert medstress(*bench.arguments()).code == 0
    n = bench.summary()["performance"]["calls"]
    told = dry(bench, medstress)
    assert f"(measured over {n} calls in {bench.out})" in told
    assert re.search(r"time of careful: at most [\d.,e+-]+ seconds, at [\d.,e+-]+ calls a s", told)
    beside = medstress(*bench.arguments("--dry-run", out=bench.root / "other"))
    assert f"calls in {bench.out})" in beside.out
    bench.tables["victim"][0]["version"] = "another model"
    assert "time of careful: unknown" in dry(bench, medstress)


def test_time_is_told_from_the_shared_cache(bench, medstress, tmp_path):
    bench.tables["experiment"]["cache"] = "shared"
    assert medstress(*bench.arguments(out=tmp_path / "deep" / "run")).code == 0
    told = dry(bench, medstress)
    assert f"calls in {bench.root / 'shared'})" in told


def test_money_spent_is_in_the_summary_and_on_the_screen(priced, medstress):
    told = medstress(*priced.arguments())
    assert told.code == 0
    assert "spent: $0.0000" in told.out, "the scripted victim counts no tokens"
    performance = priced.summary()["performance"]
    assert performance["usd"] == 0.0
    by = {row["payer"]: row["usd"] for row in performance["spending"]}
    assert by == {"dear": 0.0, "free": None}


def test_without_prices_nothing_is_said_of_money(bench, medstress):
    assert "spent:" not in medstress(*bench.arguments()).out
    assert bench.summary()["performance"]["usd"] is None
    assert "money: unknown (no victim has price_in and price_out)" in dry(bench, medstress)


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
        assert "not complete; run the same command again, with a higher max_usd" in told.out
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
