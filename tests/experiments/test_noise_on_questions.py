"""Noise on questions, end to end: victims that read exactly one word, and rates by hand."""

import json
from pathlib import Path
from typing import Any

import pytest

import medstress as ms
from medstress.cli.app import medstress_cli
from medstress.core.errors import UsageError
from medstress.datasets import questions
from medstress.datasets.source import DatasetOptions
from medstress.experiment.dry_run import dry_run
from medstress.experiment.perturb import perturb
from medstress.experiment.prepare import opened_victims, prepare
from rows import rows_of

WORDS = ("headache", "treatment", "magnesium", "calcium")
"""A word of context, stem, passage and options; swap noise always changes each of them."""
VICTIMS = f"""
import re

KEYS = {{"1": "A", "2": "B", "3": "A", "4": "B", "5": "A"}}

def number(prompt):
    return re.search(r"\\((\\d)\\)", prompt)[1]

def careful(prompts):
    # Items 1 and 2 need every word; 3 and 5 none; 4 is always wrong.
    return [answer(prompt, number(prompt)) for prompt in prompts]

def answer(prompt, n):
    is_wrong = n == "4" or (n in "12" and any(w not in prompt for w in {WORDS}))
    return KEYS[n] if not is_wrong else "C"

def closed(prompts):
    return [KEYS[number(prompt)] for prompt in prompts]

def drug(prompts):
    return [KEYS[number(p)] if "aspirin" in p.split("Question:")[0] else "C" for p in prompts]
"""


def question(n: int, **fields: Any) -> dict[str, Any]:
    return {
        "id": f"q{n}",
        "context": "He had a headache.",
        "stem": f"Which treatment ({n})?",
        "passage": "Always take magnesium tonight.",
        "options": {"A": "calcium", "B": "lactose", "C": "exercise"},
        "answer_idx": "AB"[(n + 1) % 2],
        **fields,
    }


ITEMS = [*map(question, range(1, 5)), question(5, passage="", context="")]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    write(tmp_path, ITEMS)
    (tmp_path / "victims.py").write_text(VICTIMS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(folder: Path, items: list[dict[str, Any]]) -> None:
    (folder / "items.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))


def experiment(*attacks: dict[str, Any], target: str = "careful", **more: Any) -> dict[str, Any]:
    return {
        "experiment": {"controls": False, "name": "noise", "seeds": [0]},
        "dataset": [{"name": "table", "path": "items.jsonl"}],
        "victim": [{"backend": "python", "target": f"victims.py:{target}", "prompt": "open_book"}],
        "attack": list(attacks),
        **more,
    }


def swap(field: str, **more: Any) -> dict[str, Any]:
    return {"name": "swap_noise", "scope": "all", "field": field, **more}


def rates(run: Any) -> dict[str, tuple[int, int]]:
    return {
        row["attack"]: (row["asr"]["hits"], row["asr"]["n"]) for row in run.summary()["results"]
    }


FIELDS = ("context", "stem", "passage", "options")


def test_each_field_is_attacked_and_the_rates_are_those_by_hand(folder):
    run = ms.run(experiment(*map(swap, FIELDS)), out=folder / "run")
    assert rates(run) == {
        "swap_noise field=context": (2, 3),
        "swap_noise field=stem": (2, 4),
        "swap_noise field=passage": (2, 3),
        "swap_noise field=options": (1, 4),
    }
    verdicts = {
        row.item_id: row.verdict.value
        for row in rows_of(run)
        if row.attack == "swap_noise field=passage"
    }
    assert verdicts == {
        "q1": "flipped",
        "q2": "flipped",
        "q3": "held",
        "q4": "already_wrong",
        "q5": "not_attackable",
    }
    # Only what is right at baseline is attacked, once each.
    asked = {(row.item_id, row.attack): row.n_asked for row in rows_of(run)}
    assert {asked["q4", f"swap_noise field={f}"] for f in FIELDS} == {0}
    assert {asked["q1", f"swap_noise field={f}"] for f in FIELDS} == {1}
    (row,) = [r for r in run.summary()["results"] if r["attack"] == "swap_noise field=passage"]
    assert (row["accuracy"]["value"], row["accuracy_after"]["value"]) == (0.75, 0.25)


def test_options_are_edited_by_their_letters_and_the_export_shows_it(folder):
    run = ms.run(experiment(swap("options")), out=folder / "run")
    trials = [t for t in run.trials().to_dicts() if t["verdict"] == "flipped"]
    assert {edit["field"] for trial in trials for edit in trial["edits"]} == {"A", "C"}
    assert "calcium" in trials[0]["prompt_before"]
    assert "calcium" not in trials[0]["prompt_after"]
    page = folder / "page.html"
    assert medstress_cli(["report", str(folder / "run"), "--out", str(page)]) == 0
    assert "swap_noise" in page.read_text("utf-8")


def test_a_victim_that_does_not_read_the_passage_is_never_flipped(folder):
    attacks = [swap("passage"), {"name": "keyboard_noise", "scope": "all", "field": "passage"}]
    run = ms.run(experiment(*attacks, target="closed"), out=folder / "run")
    assert rates(run) == {"swap_noise": (0, 4), "keyboard_noise": (0, 4)}


def test_a_synonym_in_the_passage_takes_a_name_away(folder):
    passages = {1: "He took aspirin.", 2: "aspirin, and rest.", 3: "aspirinlike rest.", 4: "Rest."}
    write(folder, [question(n, passage=text) for n, text in passages.items()])
    attack = {"name": "synonym", "field": "passage"}
    run = ms.run(experiment(attack, target="drug"), out=folder / "run")
    assert rates(run) == {"synonym": (2, 3)}
    (found,) = run.manifest()["surrogates"]
    assert (found["n_mentions"], found["n_listed"]) == (2, 2)


@pytest.mark.parametrize(("budget", "asked", "n_edits"), [(6, 3, 1), (4, 4, 3)])
def test_a_greedy_search_keeps_its_budget_and_finds_few_edits(folder, budget, asked, n_edits):
    # "Always", "take" and "magnesium" alone are asked first; with 4 queries two, then sets.
    attack = swap("passage", search="greedy", budget=budget)
    run = ms.run(experiment(attack), out=folder / "run")
    flipped = [row for row in rows_of(run) if row.verdict.value == "flipped"]
    assert [(row.first_success, row.n_asked) for row in flipped] == [(asked, asked)] * 2
    trials = {t["item_id"]: t for t in run.trials().to_dicts()}
    assert len(trials["q1"]["edits"]) == n_edits
    assert max(row.n_asked for row in rows_of(run)) <= budget


def test_the_dry_run_bounds_what_is_asked(folder):
    tables = experiment(swap("passage"), swap("stem", search="greedy", budget=4))
    prepared = prepare(tables)
    with opened_victims(prepared, lambda _: None):
        dry = dry_run(prepared)
    # 5 items; 4 have a passage, 5 a stem with two words to change, so that a search asks three
    # edits of it at most and may check two successes.
    assert dry.bound == 38
    assert dry.total.queries == {"clean": 5, "attacks": 19, "checks": 14}
    run = ms.run(tables, out=folder / "run")
    assert sum(row.n_asked for row in rows_of(run)) <= 24


def test_noise_runs_beside_attacks_that_draw_names(folder):
    names = {"type": "drugs", "vocabulary": "drugs", "embedding": "ngram"}
    drawn = {"name": "entity_substitution", "sampler": "random", "budget": 2}
    tables = experiment(swap("passage"), drawn, entities=[{**names, "recogniser": "gazetteer"}])
    run = ms.run(tables, out=folder / "run")
    assert {(row.group, row.attack) for row in rows_of(run)} == {
        ("all", "swap_noise"),
        ("drugs", "entity_substitution"),
    }
    assert rates(run)["swap_noise"] == (2, 3)


def test_what_perturb_writes_is_what_a_run_asks_and_is_read_back(folder):
    tables = experiment(swap("passage"))
    assert perturb(tables, folder / "out.jsonl").n_rows == 4
    loaded = questions.load(DatasetOptions(path=folder / "out.jsonl"))
    new = {item.id: item for item in loaded.questions}
    assert sorted(new) == ["q1", "q2", "q3", "q4"]
    run = ms.run(tables, out=folder / "run")
    for trial in run.trials().to_dicts():
        if trial["verdict"] == "flipped":
            assert new[trial["item_id"]].passage in trial["prompt_after"]
    assert {item.stem for item in loaded.questions} == {q["stem"] for q in ITEMS[:4]}
    options = perturb(experiment(swap("options")), folder / "options.jsonl")
    assert options.n_changed == 5
    assert len(questions.load(DatasetOptions(path=folder / "options.jsonl")).questions) == 5


@pytest.mark.parametrize(
    "refuses",
    [prepare, lambda tables: perturb(tables, "out.iob")],
    ids=["run", "perturb"],
)
def test_a_field_is_refused_for_sentences(folder, refuses, said):
    (folder / "data.iob").write_text("Aspirin\tB-Drug\nhelps\tO\n")
    tables = experiment(swap("passage")) | {"dataset": [{"name": "iob", "path": "data.iob"}]}
    tables["victim"][0].pop("prompt")
    with pytest.raises(UsageError) as caught:
        refuses(tables)
    said(str(caught.value), "field", "'passage'")
