"""The plug-in of examples/plugin, put on the path: a kind of its own in whole runs."""

import json
import sys
import tomllib
from importlib import invalidate_caches
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import medstress as ms
from fault_server import FaultServer
from medstress.core import registry
from medstress.core.errors import DataError
from medstress.core.text import Edit
from medstress.experiment.audit.verify import verify_folder
from medstress.experiment.perturb import perturb
from medstress.plugin import (
    Chosen,
    Classify,
    DatasetOptions,
    Outcome,
    Resamples,
    check_attack,
    check_dataset,
)
from medstress.store.codec import decode_item, encode_item
from rows import rows_of

PLUGIN = Path(__file__).parents[2] / "examples/plugin"
LABELS = ("contradiction", "entailment", "neutral")
VICTIM = """
def planted(pairs):
    return [label(a, b) for a, b in pairs]

def label(a, b):
    if "aspirin" not in a.lower():
        return "neutral"
    return {"scores": {"contradiction": .1, "entailment": .7, "neutral": .2}}

def lost(pairs):
    return ["no idea" for _ in pairs]
"""
ROWS = [
    *({"text_a": f"Aspirin {i} works", "text_b": "It helps", "label": "entailment"} for i in "abc"),
    {"text_a": "Aspirin d works", "text_b": "It hurts", "label": "contradiction"},
    *({"text_a": f"Dogs {i} bark", "text_b": "It helps", "label": "neutral"} for i in "ef"),
]
EXPERIMENT = """
[experiment]
controls = false
name = "inference"
seeds = [0]
[[dataset]]
name = "nli"
path = "pairs.jsonl"
[[victim]]
name = "planted"
backend = "python"
target = "victim.py:planted"
[[attack]]
name = "swap_noise"
label = "first"
scope = "all"
[[attack]]
name = "swap_noise"
label = "second"
scope = "all"
side = "second"
[[attack]]
name = "keyboard_noise"
label = "search"
scope = "all"
search = "greedy"
budget = 4
"""


@pytest.fixture(scope="module")
def nli(tmp_path_factory):
    """The module of the installed plug-in."""
    info = tmp_path_factory.mktemp("site") / "medstress_example-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: medstress-example\nVersion: 0.1\n")
    project = tomllib.loads((PLUGIN / "pyproject.toml").read_text())["project"]
    groups = "".join(
        f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in points.items())
        for group, points in project["entry-points"].items()
    )
    (info / "entry_points.txt").write_text(groups)
    before = list(sys.path)
    sys.path[:0] = [str(info.parent), str(PLUGIN / "src")]
    invalidate_caches()
    import medstress_example.nli

    yield medstress_example.nli
    sys.path[:] = before


@pytest.fixture
def folder(nli, tmp_path):
    (tmp_path / "victim.py").write_text(VICTIM)
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    (tmp_path / "e.toml").write_text(EXPERIMENT)
    return tmp_path


@pytest.fixture
def pair(nli):
    return nli.LabelledPair(
        id="1",
        text_a="Aspirin relieves pain",
        text_b="Aspirin helps",
        label="entailment",
        labels=LABELS,
        metadata={"year": 2020},
    )


def test_a_planted_victim_has_the_rates_and_scores_that_follow_by_hand(folder):
    """Entailment wherever aspirin is spelt rightly, else neutral.

    Clean: 3 entailed pairs right, 1 contradiction taken for one, 2 neutral right: 5 of 6. Noise
    in the first text breaks the word: all is neutral, so 3 of the 5 flip. Noise in the second
    changes nothing.
    """
    run = ms.run(folder / "e.toml", out=folder / "run")
    summary = run.summary()
    rows = {row["attack"]: row for row in summary["results"]}
    for row in rows.values():
        assert (row["accuracy"]["value"], row["n_items"]) == (pytest.approx(5 / 6), 6)
        # F1: entailment 2*3/(4+3), neutral 2*2/(2+2), contradiction 0.
        assert row["macro_f1"]["value"] == pytest.approx((6 / 7 + 1 + 0) / 3)
        assert row["chance"] == pytest.approx(1 / 2)
    noise = rows["first"]
    assert (noise["n_flipped"], noise["asr"]["value"]) == (3, pytest.approx(3 / 5))
    # All neutral: 2*2/(6+2), the others 0.
    assert noise["macro_f1_after"]["value"] == pytest.approx(0.5 / 3)
    assert noise["macro_f1_drop"]["value"] == pytest.approx((6 / 7 + 1 - 0.5) / 3)
    assert rows["second"]["asr"]["value"] == 0
    assert rows["second"]["macro_f1_drop"]["value"] == 0
    assert rows["search"]["asr"]["value"] == pytest.approx(3 / 5)
    assert rows["search"]["macro_f1_after"]["value"] is None
    (test,) = [
        t
        for t in summary["tests"]
        if (t["family"], t["comparison"]) == ("before_after", noise["attack"])
    ]
    assert test["difference"]["value"] == pytest.approx(noise["macro_f1_drop"]["value"])
    row = next(row for row in rows_of(run) if row.verdict.value == "flipped")
    assert (row.key, row.answer_before, row.answer_after) == ("entailment", "entailment", "neutral")
    assert row.score_before == pytest.approx(0.7)
    assert row.prompt_before == "Aspirin a works\nIt helps"
    assert (row.option, row.replaced) == ("text_a", "Aspirin")
    assert run.export("items", folder / "items.jsonl") == 6
    item = json.loads((folder / "items.jsonl").read_text().splitlines()[0])
    assert (item["text_a"], item["label"]) == ("Aspirin a works", "entailment")
    assert run.export("trials", folder / "trials.csv") == 18
    page = run.report()
    assert "Macro F1" in page
    assert "Aspirin" in page
    verified = verify_folder(folder / "run")
    assert (verified.holds, verified.n_redrawn) == (True, 18)
    n = run.export("exchanges", folder / "a.jsonl")
    again = ms.run(folder / "e.toml", out=folder / "run")
    assert again.export("exchanges", folder / "b.jsonl") == n
    assert again.summary()["results"] == summary["results"]


def test_a_victim_that_names_no_label_is_unreadable(folder):
    run = ms.run(
        folder / "e.toml", out=folder / "run", overrides=["victim.target='victim.py:lost'"]
    )
    for row in run.summary()["results"]:
        assert (row["n_unreadable_at_baseline"], row["macro_f1"]["value"]) == (6, 0)


def test_any_model_is_asked_with_a_prompt_whose_options_are_the_labels(folder):
    def answer(prompt: str) -> str:
        asked.append(prompt)
        return "B" if "Aspirin" in prompt else "C"

    asked: list[str] = []
    with FaultServer(answer=answer) as server:
        victim = {"backend": "openai", "model": server.model, "base_url": server.url}
        run = ms.run(
            {
                "experiment": {"controls": False, "name": "served", "seeds": [0]},
                "dataset": {"name": "nli", "path": str(folder / "pairs.jsonl")},
                "victim": {**victim, "answer_by": "generate"},
                "attack": {"name": "swap_noise", "scope": "all"},
            },
            out=folder / "served",
        )
    (row,) = run.summary()["results"]
    assert (row["accuracy"]["value"], row["n_flipped"]) == (pytest.approx(5 / 6), 3)
    assert all(f"{x}: {label}" in asked[0] for x, label in zip("ABC", LABELS, strict=True))
    trial = next(row for row in rows_of(run) if row.verdict.value == "flipped")
    assert trial.prompt_before in asked
    assert trial.answer_before == "entailment"
    assert verify_folder(folder / "served").holds


def test_a_run_says_what_is_missing_where_the_plug_in_is_not_installed(folder, monkeypatch):
    run = ms.run(folder / "e.toml", out=folder / "run")
    run.summary()
    from medstress.tasks.kinds import _plugged_in

    _plugged_in.cache_clear()
    monkeypatch.setattr(registry, "entry_points", lambda group: [])
    with pytest.raises(ms.MedstressError, match="that is installed here"):
        ms.open(folder / "run").summary()
    _plugged_in.cache_clear()


def test_perturbed_pairs_are_written_and_read_back(folder, nli):
    only = ["attack.second.use=false", "attack.search.use=false"]
    perturb(folder / "e.toml", folder / "perturbed.jsonl", overrides=only)
    items = nli.read(DatasetOptions(path=folder / "perturbed.jsonl")).items
    assert [item.label for item in items] == [row["label"] for row in ROWS]
    assert all("aspirin" not in item.text_a.lower() for item in items)
    check_dataset(nli.read, DatasetOptions(path=folder / "pairs.jsonl"))
    attack = registry.load("attacks", "swap_noise")(scope="all")
    check_attack(attack, items, registry_noise())


def registry_noise() -> Any:
    from medstress.plugin import NoiseResources

    return NoiseResources()


def test_an_item_is_stored_edited_and_shown_by_its_fields_alone(nli, pair):
    back = decode_item(encode_item(pair))
    assert (back, back.hash, dict(back.metadata)) == (pair, pair.hash, {"year": 2020})
    edit = Edit(field="text_a", start=0, end=7, replacement="Naproxen")
    assert pair.changed((edit,)).text_a == "Naproxen relieves pain"
    assert pair.changed((edit,)).hash != pair.hash
    question = nli.as_question(pair.candidate((edit,)))
    assert question.item.context == "Premise: Naproxen relieves pain"
    assert (question.options, question.item.key) == (LABELS, "B")


def asked(task: Any, reply: Any, candidate: Any) -> tuple[Any, Any]:
    flow = task.flow(candidate)
    (request,) = next(flow)
    with pytest.raises(StopIteration) as stop:
        flow.send((reply,))
    return request.call, stop.value.value


def test_a_function_or_a_head_is_asked_in_its_own_words(nli, pair):
    task = nli.Head(names={"ENTAILS": "entailment"})
    call, said = asked(task, Chosen(answer="ENTAILS"), pair.candidate())
    labels = ("contradiction", "ENTAILS", "neutral")
    assert call == Classify("Aspirin relieves pain", "Aspirin helps", labels)
    assert (said.outcome, said.answer) == (Outcome.RIGHT, "entailment")
    _, said = asked(task, Chosen(scores=(1.0, 1.0, 2.0)), pair.candidate())
    assert (said.outcome, said.answer) == (Outcome.WRONG, "neutral")
    assert np.exp(said.scores) == pytest.approx([0.25, 0.25, 0.5])
    _, said = asked(task, Chosen(text="I cannot say"), pair.candidate())
    assert (said.outcome, said.answer) == (Outcome.UNREADABLE, None)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"text_a": "A.", "label": "x"}, "line 2: field 'text_b': expected a text"),
        ({"text_a": "A.", "text_b": " ", "label": "x"}, "field 'text_b': the text is empty"),
        ({"text_a": "A.", "text_b": "B."}, "field 'label': expected a text"),
        ({"text_a": "A.", "text_b": "B.", "label": "y"}, "2 to 10 labels, got 1"),
    ],
)
def test_a_bad_row_is_named(tmp_path, nli, row, message):
    rows = [{"premise": "A.", "hypothesis": "C.", "gold_label": "y"}, row]
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in rows))
    with pytest.raises(DataError, match=message):
        nli.read(DatasetOptions(path=path))


def test_macro_f1_is_that_of_scikit_learn_s_definition(nli):
    def f1(gold: list[str], predicted: list[str | None]) -> float:
        one = Resamples(np.ones((1, len(gold))), np.arange(len(gold)))
        return float(nli.macro_f1(gold, predicted, one)["macro_f1"][0])

    # Right 2 of label a (3 gold, 2 predicted), 1 of b (1 gold, 2 predicted).
    assert f1([*"aaab"], [*"aabb"]) == pytest.approx((0.8 + 2 / 3) / 2)
    assert f1([*"aaab"], ["a", "a", None, "b"]) == pytest.approx((0.8 + 1) / 2)
    assert np.isnan(f1([], []))
