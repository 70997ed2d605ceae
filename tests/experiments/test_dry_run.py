"""The bound of a dry run is never below what the run asks, and its estimate is near it."""

from pathlib import Path
from typing import Any

import pytest

import medstress as ms
from conversation_server import ConversationServer
from experiments import GOLDENS, SAMPLERS, substitution, victim
from medstress.datasets.named import load_sample as load
from medstress.datasets.source import DatasetOptions
from medstress.experiment.dry_run import DryRun, dry_run
from medstress.experiment.prepare import opened_victims, prepare
from medstress.stats.paired import detectable
from medstress.testing import rule_target, scripted_attacker, scripted_judge
from medstress.testing.models import Conversation, Speaker
from question_rows import write_rows

RIGHT = "\n\ndef right(prompts):\n    return [key_of(prompt) for prompt in counted(prompts)]\n"


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GOLDEN_ASKED", str(tmp_path / "asked.txt"))
    return tmp_path


def planned(files: dict[str, str]) -> DryRun:
    """Write the files of an experiment, and count what it asks; nothing is asked."""
    for name, text in files.items():
        Path(name).write_text(text, encoding="utf-8")
    prepared = prepare(Path("e.toml"))
    with opened_victims(prepared, lambda _: None):
        costs = dry_run(prepared, Path("run"))
    assert not Path("asked.txt").exists()
    assert not Path("run").exists()
    return costs


def asked() -> dict[str, int]:
    """Run the experiment; return the computed calls by model and role."""
    performance = ms.run("e.toml", out="run").summary()["performance"]
    return {row["payer"]: row["calls"] for row in performance["spending"]}


def test_a_model_that_is_always_right_is_asked_for_every_budget(workplace):
    """No success ends a search early; names that several samplers draw are paid once."""
    files = substitution(victim("right") + SAMPLERS.replace("budget = 5", "budget = 7"))
    files["choosing.py"] += RIGHT
    files["e.toml"] = files["e.toml"].replace("seeds = [0, 1]", "seeds = [0]\ncontrols = false")
    costs = planned(files)
    (cost,) = costs.costs
    n = asked()["right"]
    rows = ms.open("run").trials()
    n_asked = sum(row["n_asked"] for row in rows.iter_rows(named=True))
    assert n_asked == cost.queries["attacks"]
    assert (
        n <= cost.queries["clean"] + cost.queries["attacks"] == cost.bound - cost.queries["checks"]
    )


def test_the_least_loss_is_that_of_the_run_in_the_folder(workplace):
    """Accuracy and discordance are measured there; two planted rows can be counted by hand."""
    files = GOLDENS["controls"].files
    (least,) = planned(files).least
    assert (least.accuracy, least.discordances, least.source) == (0.5, (0.15, 0.4), "assumed")
    run = ms.run("e.toml", out="run")
    with opened_victims(prepared := prepare(Path("e.toml")), lambda _: None):
        again, near = dry_run(prepared, Path("run")), dry_run(prepared, Path("next"))
    (after,), (nearby,) = again.least, near.least
    first = f"{after.accuracy * 100:.0f} % right at first"
    assert all(one.costs[0].basis.startswith(first) for one in (again, near))
    assert nearby.accuracy == pytest.approx(after.accuracy)
    assert nearby.source == "the estimate below"
    rows = [row for row in run.summary()["results"] if "control_of" not in row]
    (row,) = rows
    assert after.accuracy == pytest.approx(row["accuracy"]["value"])
    assert after.source == "measured in run"
    trials = run.trials().to_dicts()
    lost = {t["item_id"] for t in trials if t["arm"] == "attack" and t["verdict"] == "flipped"}
    shares = []
    for control in {t["attack"] for t in trials if t["control_of"]}:
        own = {t["item_id"]: t["verdict"] for t in trials if t["attack"] == control}
        known = {item for item, verdict in own.items() if verdict in ("flipped", "held")}
        differ = {item for item in known if (own[item] == "flipped") != (item in lost)}
        shares.append(len(differ) / len(known))
    assert list(after.discordances) == [pytest.approx(max(shares))]
    assert after.losses == (detectable(round(after.n_items * after.accuracy), max(shares)),)


def wordy(speak: Speaker) -> Speaker:
    """The same model at the length of real ones: 60 words more of reasoning, 80 of a plan."""

    def says(conversations: list[Conversation]) -> list[str]:
        return [
            text.replace("Insert it.", "Insert it where it hurts. " * 16)
            if "{" in text
            else f"{text} {'The history and the findings fit it. ' * 18}"
            for text in speak(conversations)
        ]

    return says


@pytest.mark.parametrize("kind", ["faithfulness", "tests", "held"])
def test_the_estimate_of_medfuzz_is_within_a_factor_of_two_of_what_is_spent(kind, workplace):
    """Six vignettes, four of them right at first, of which one or two fall for an insertion; or all
    of them right, of which none falls."""
    items = load(DatasetOptions(sample="vignettes")).items[:6]
    cues = {items[0].id: "lighthouse"} | ({items[1].id: "clerk"} if kind == "faithfulness" else {})
    cues, wrong = ({}, []) if kind == "held" else (cues, [items[4].id, items[5].id])
    jobs = ("teacher", "clerk", "lighthouse keeper", "baker", "monk")
    script = [f"The patient works as a {job}." for job in jobs]
    models = {
        "target": wordy(rule_target(items, cues, wrong=wrong)),
        "attacker": wordy(scripted_attacker(items, script)),
        "judge": wordy(scripted_judge(items)),
    }
    write_rows(Path("items.jsonl"), items)
    prices = {"price_in": 1.0, "price_out": 4.0}
    with ConversationServer(models, counts=True) as server:
        victim = {"model": "target", "base_url": server.url, "answer_by": "generate", **prices}
        role = {"attacker": {"model": "attacker", **prices}}
        test: dict[str, Any] = {"test": {"max_calls": 400}}
        if kind != "tests":
            role["judge"] = {"model": "judge", **prices}
            test = {}
        tables = {
            "experiment": {"name": "planted", "seeds": [0], "controls": False},
            "dataset": {"name": "table", "path": "items.jsonl", "label": "jsonl"},
            "victim": victim,
            "role": role,
            "attack": {"name": "medfuzz", "runs": 1},
            **test,
        }
        prepared = prepare(tables)
        with opened_victims(prepared, lambda _: None):
            dry = dry_run(prepared)
        untested = prepare({name: tables[name] for name in tables if name != "test"})
        with opened_victims(untested, lambda _: None):
            calls = dry_run(untested).costs[0].calls
        spent = ms.run(tables, out="run").summary()["performance"]
    assert [line.partition(":")[0] for line in dry.lines] == ["estimate", "queries"]
    assert not dry.least  # without controls nothing is shown beyond harmless edits
    assert "% right at first" in dry.costs[0].basis
    assert any("of 6 attacked items" in one for one in dry.assumed) == (kind == "tests")
    if kind == "tests":
        assert dry.costs[0].calls == calls + 6 * 400
    tokens = sum(row["tokens_in"] + row["tokens_out"] for row in spent["spending"])
    total = dry.total
    assert spent["calls"] <= total.calls
    for name, about, paid in (
        ("calls", total.about_calls, spent["calls"]),
        ("tokens", total.tokens, tokens),
        ("dollars", total.usd, spent["usd"]),
    ):
        assert about is not None, name
        assert paid / 2 < about < 2 * paid, (name, about, paid)
