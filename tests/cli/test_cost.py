"""Prices, limits of money, and what a dry run says of tokens, time and money."""

from __future__ import annotations

import hashlib
import re

import pytest

FREE = ("--set", "victim.free.price_in=0", "--set", "victim.free.price_out=0")
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
    queries = number(r"estimate for dear: about ([\d,]+) queries", told)
    about = number(r"money: about \$([\d,.]+) \(estimate\)", told)
    most = number(r"at most \$([\d,.]+) \(bound\)", told)
    bound = number(r"queries: at most ([\d,]+) ", told) / 2
    # 128 tokens written a query at most, and 2 by a letter, at 10 dollars a million.
    assert most >= bound * 128 * 10 / 1e6
    assert queries * 2 * 10 / 1e6 < about < queries * 128 * 10 / 1e6
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


@pytest.mark.release
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
    assert "Spent: 0 US dollars." in told.out, "the scripted victim counts no tokens"
    performance = priced.summary()["performance"]
    assert performance["usd"] == 0.0
    by = {row["payer"]: row["usd"] for row in performance["spending"]}
    assert by == {"dear": 0.0, "free": None}


def test_without_prices_nothing_is_said_of_money(bench, medstress):
    assert "Spent:" not in medstress(*bench.arguments()).out
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
    "always right": (of_case, {}),
    "near chance": (lambda prompt: "A", {}),
    "loses half": (lambda prompt: of_case(prompt) if luck(prompt) < 0.6 else "E", {}),
    "says a sentence": (lambda prompt: f"The answer is {of_case(prompt)}.", {}),
    "by letter": (of_case, {"answer_by": "letter"}),
    "reasons": (of_case, {"max_new_tokens": 1024}),
}


@pytest.mark.parametrize(
    "kind",
    [
        kind if kind in ("loses half", "reasons") else pytest.param(kind, marks=pytest.mark.release)
        for kind in VICTIMS
    ],
)
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
        first = dry(bench, medstress)
        assert medstress(*bench.arguments()).code == 0
        second = dry(bench, medstress, "--out", str(bench.root / "other"))
    paid = bench.summary()["performance"]["usd"]
    for told, factor in ((first, 4), (second, 2)):
        about = number(r"money: about \$([\d,.]+) \(estimate\)", told)
        assert paid / factor < about < paid * factor
        assert paid <= number(r"at most \$([\d,.]+) \(bound\)", told)
    assert "(assumed)" in first
    assert f"calls in {bench.out})" in second
    assert ("uncertain: this model may reason" in first) == (kind == "reasons")
    assert ("uncertain: up to" in first) == (kind not in ("reasons", "by letter"))
    assert "uncertain" not in second


def test_a_model_that_explains_its_answers_is_within_the_range_that_is_told(bench, medstress):
    pytest.importorskip("openai", reason="needs the extra medstress[openai]")
    from fault_server import FaultServer

    explained = "Let me think about this question. " * 12
    with FaultServer(answer=lambda prompt: explained + of_case(prompt), counts=True) as server:
        served(bench, server, answer_by="generate", price_in=1, price_out=8)
        first = dry(bench, medstress)
        assert medstress(*bench.arguments()).code == 0
        second = dry(bench, medstress, "--out", str(bench.root / "other"))
    paid = bench.summary()["performance"]["usd"]
    about = number(r"money: about \$([\d,.]+) \(estimate\)", first)
    assert about < paid < number(r"up to \$([\d,.]+) if every answer takes max_new", first)
    assert paid < number(r"--set experiment.max_usd=([\d.]+) would", first)
    assert "uncertain: up to 128 a query if it explains its answers" in first
    assert "up to" not in second, "measured"


@pytest.mark.parametrize(
    ("max_usd", "words"),
    [
        (1e-6, "queries; the same command with a higher max_usd goes on from there"),
        (0.01, "; the estimate does not reach it, but long answers would"),
        (100, "; it is not below the bound, so nothing is left out"),
    ],
)
def test_a_dry_run_says_where_max_usd_stops_the_run(priced, medstress, max_usd, words):
    told = dry(priced, medstress, "--set", f"experiment.max_usd={max_usd}", *FREE)
    (line,) = [line for line in told.splitlines() if line.startswith("max_usd stops this at $")]
    assert line.endswith(words)


@pytest.mark.release
def test_where_max_usd_stops_the_run_is_where_the_run_stops(bench, medstress):
    """A planted truth: a limit of half the estimate leaves about half of the queries."""
    pytest.importorskip("openai", reason="needs the extra medstress[openai]")
    from fault_server import FaultServer

    with FaultServer(answer=of_case, counts=True) as server:
        served(bench, server, answer_by="generate", price_in=1, price_out=8)
        assert medstress(*bench.arguments(out=bench.root / "whole")).code == 0
        n = len(server.log)
        about = number(r"money: about \$([\d,.]+) \(est", dry(bench, medstress))
        bench.tables["experiment"]["max_usd"] = round(about / 2, 6)
        told = dry(bench, medstress)
        assert medstress(*bench.arguments()).code == 0
        asked = len(server.log) - n
        resumed = dry(bench, medstress)
    expected = number(r"about 50 % of the estimate, ([\d,]+) of", told)
    assert expected / 2 < asked < expected * 2
    assert number(r"\(and what is in flight\), \$([\d.]+) of it spent already", resumed) > 0


def test_money_is_told_of_labelled_pairs_too(medstress, bench):
    pytest.importorskip("openai", reason="needs the extra medstress[openai]")
    from fault_server import FaultServer

    words = ("relieves severe pain", "thins the blood", "lowers the fever", "prevents a stroke")
    rows = [
        {"text_a": f"Patient {i} {words[i % 4]}", "text_b": f"It {words[i // 4]}", "label": label}
        for i, label in enumerate(["entailment", "neutral"] * 8)
    ]
    with FaultServer(answer=lambda prompt: "entailment", counts=True) as server:
        served(bench, server, price_in=1, price_out=8)
        bench.write_items(rows)
        bench.tables["dataset"] = [{"name": "nli", "path": "items.jsonl"}]
        bench.tables["attack"] = [{"name": "swap_noise", "scope": "all"}]
        del bench.tables["entities"]
        told = dry(bench, medstress)
        assert not server.log
        assert medstress(*bench.arguments()).code == 0
    paid = bench.summary()["performance"]["usd"]
    about = number(r"money: about \$([\d,.]+) \(estimate\)", told)
    assert paid / 3 < about < paid * 3


def test_only_a_run_that_asked_alike_tells_what_to_expect(bench, medstress):
    """Another prompt, way to answer or model says nothing; nor does a damaged folder."""
    assert medstress(*bench.arguments(out=bench.root / "first")).code == 0
    alike = dry(bench, medstress)
    assert f"measured over {bench.summary(bench.root / 'first')['performance']['calls']}" in alike
    for change in ("victim.prompt=chat", "victim.version=another", "victim.answer_by=generate"):
        told = medstress(*bench.arguments("--dry-run", "--set", change))
        assert told.code or "(assumed)" in told.out
    (bench.root / "first" / "run.sqlite").write_bytes(b"SQLite format 3\x00 and nothing else")
    assert "(assumed)" in dry(bench, medstress)


def test_without_max_usd_a_dry_run_proposes_one(priced, medstress):
    told = dry(priced, medstress)
    proposed = number(r"no max_usd: nothing .* --set experiment.max_usd=([\d.]+) would", told)
    about = number(r"money: about \$([\d,.]+) \(estimate\)", told)
    most = number(r"up to \$([\d,.]+) if every answer takes max_new_tokens", told)
    assert about < proposed
    assert proposed == pytest.approx(most, rel=0.06), "long answers do not stop the run"


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
