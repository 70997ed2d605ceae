"""Labelled pairs: what is read, what victims are asked, and planted victims of whole runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import medstress as ms
from fault_server import FaultServer
from medstress.analyses.labels import macro_f1
from medstress.core.calls import Chosen, Classify, Generated
from medstress.core.clusters import clusters_of
from medstress.core.errors import DataError, UsageError
from medstress.core.outcomes import Outcome
from medstress.core.text import Edit
from medstress.datasets.source import DatasetOptions, LoadedTexts
from medstress.kinds import NLI
from medstress.kinds.nli.item import LabelledPair
from medstress.kinds.nli.reader import load
from medstress.kinds.nli.task import DirectLabelling, PromptedLabelling, as_question
from medstress.running.prepare import prepare
from medstress.tasks.multiple_choice import AnswerBy, MultipleChoice
from medstress.tasks.templates import load_template
from rows import rows_of

LABELS = ("contradiction", "entailment", "neutral")
PAIR = LabelledPair(
    id="1",
    text_a="Aspirin relieves pain",
    text_b="Aspirin helps",
    label="entailment",
    labels=LABELS,
)
EDITS = (
    Edit(field="text_a", start=0, end=7, replacement="Naproxen"),
    Edit(field="text_b", start=8, end=13, replacement="works"),
)


def read(folder: Path, rows: list[dict[str, Any]], **keys: Any) -> LoadedTexts:
    path = folder / "pairs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return load(DatasetOptions(path=path, **keys))


def test_usual_names_and_other_tables_are_read_and_told(tmp_path: Path) -> None:
    rows = [{"sentence1": "A.", "sentence2": "B.", "gold_label": "no", "pairID": "p"}]
    rows += [{"sentence1": "A.", "sentence2": "C.", "gold_label": "yes", "pairID": "q"}]
    loaded = read(tmp_path, rows)
    assert [(pair.id, pair.text_b, pair.label) for pair in loaded.items] == [
        ("p", "B.", "no"),
        ("q", "C.", "yes"),
    ]
    assert loaded.understood == (
        "pairs.jsonl: 2 labelled pairs; id in 'pairID', text_a in 'sentence1', text_b in "
        "'sentence2', label in 'gold_label'"
    )
    table = tmp_path / "pairs.csv"
    table.write_text("premise;hypothesis;label\nA.;B.;no\nA.;C.;yes\n")
    told = load(DatasetOptions(path=table))
    assert [pair.text_b for pair in told.items] == ["B.", "C."]
    assert told.understood == (
        "pairs.csv (separated by semicolons): 2 labelled pairs; text_a in 'premise', text_b in "
        "'hypothesis', label in 'label'"
    )


def test_documented_names_are_told_as_well(tmp_path: Path) -> None:
    rows = [{"context": "A.", "question": "B?", "label": x} for x in ("no", "yes")]
    assert read(tmp_path, rows).understood == (
        "pairs.jsonl: 2 labelled pairs; text_a in 'context', text_b in 'question', label in 'label'"
    )


def test_pubmedqa_is_read_as_one_object_by_pubmed_id(tmp_path: Path) -> None:
    entry = {"QUESTION": "Does it?", "CONTEXTS": ["It", "does."], "LONG_ANSWER": "Yes, it does."}
    path = tmp_path / "ori_pqal.json"
    path.write_text(json.dumps({n: {**entry, "final_decision": "maybe"} for n in ("11", "12")}))
    first, second = load(DatasetOptions(path=path)).items
    assert (first.id, second.id, first.text_a, first.text_b) == ("11", "12", "It does.", "Does it?")
    assert (first.label, first.labels, first.asks) == ("maybe", ("yes", "no", "maybe"), True)


def test_rows_of_three_forms_are_read(tmp_path: Path) -> None:
    plain = [
        {"id": "x", "text_a": "A.", "text_b": "B.", "label": "neutral", "year": 2020},
        {"text_a": "A.", "text_b": "C.", "label": "entailment"},
    ]
    first, second = read(tmp_path, plain).items
    assert (first.id, second.id, first.asks) == ("x", "2", False)
    assert first.labels == second.labels == ("entailment", "neutral")
    assert first.metadata == {"year": 2020}
    named = [
        {"sentence1": "A.", "sentence2": "B.", "gold": "no", "labels": ["yes", "no"]},
    ]
    columns = {"text_a": "sentence1", "text_b": "sentence2", "label": "gold"}
    (pair,) = read(tmp_path, named, columns=columns).items
    assert (pair.text_a, pair.text_b, pair.label, pair.labels) == ("A.", "B.", "no", ("yes", "no"))
    asking = [{"question": "Ill?", "context": "He is.", "label": "yes", "labels": ["yes", "no"]}]
    (pair,) = read(tmp_path, asking).items
    assert (pair.text_a, pair.text_b, pair.asks) == ("He is.", "Ill?", True)


def test_pubmedqa_is_known_by_its_fields_and_its_long_answer_is_not_shown(tmp_path: Path) -> None:
    row = {
        "pubid": 21645374,
        "question": "Do mitochondria play a role in remodelling leaves?",
        "context": {"contexts": ["Cells die.", "We looked."], "labels": ["BACKGROUND", "METHODS"]},
        "long_answer": "They do.",
        "final_decision": "yes",
    }
    (pair,) = read(tmp_path, [row]).items
    assert (pair.id, pair.label, pair.labels) == ("21645374", "yes", ("yes", "no", "maybe"))
    assert pair.text_a == "Cells die. We looked."
    assert pair.metadata == {"long_answer": "They do."}
    assert "They do" not in as_question(pair.candidate()).item.question


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"text_a": "A.", "label": "x"}, "field 'text_b': expected a text"),
        ({"text_a": "A.", "text_b": " ", "label": "x"}, "field 'text_b': the text is empty"),
        ({"text_a": "A.", "text_b": "B."}, "field 'label': expected a label"),
        ({"text_a": "A.", "text_b": "B.", "label": "x", "labels": ["y", "z"]}, "expected one of"),
        ({"text_a": "A.", "text_b": "B.", "label": "x"}, "all labels are 'x'"),
        (
            {
                "text_a": "A.",
                "text_b": "B.",
                "label": "x",
                "labels": ["x", "y"],
                "mentions": [{"field": "text_a", "start": 0, "end": 9, "type": "T1"}],
            },
            "lie outside text_a",
        ),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, row: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(tmp_path, [row])


def test_pairs_of_one_premise_are_a_cluster() -> None:
    pairs = [
        LabelledPair(id=str(i), text_a=a, text_b=f"h{i}", label="x", labels=("x", "y"))
        for i, a in enumerate(["P", "Q", "P"])
    ]
    assert clusters_of(pairs) == {"0": "0", "1": "1", "2": "0"}


def test_a_pair_as_a_question_carries_its_edits_over() -> None:
    candidate = as_question(PAIR.candidate(EDITS))
    assert candidate.context == "Premise: Naproxen relieves pain"
    assert candidate.stem.startswith("Hypothesis: Aspirin works Which label")
    assert (candidate.options, candidate.item.key) == (LABELS, "B")


def asked(task: Any, reply: Any, edits: tuple[Edit, ...] = ()) -> tuple[Any, Any]:
    flow = task.flow(PAIR.candidate(edits))
    (request,) = next(flow)
    with pytest.raises(StopIteration) as stop:
        flow.send((reply,))
    return request.call, stop.value.value


def test_a_function_or_a_head_is_asked_about_the_texts_in_its_own_words() -> None:
    task = DirectLabelling(names={"ENTAILS": "entailment"})
    call, found = asked(task, Chosen(answer="ENTAILS"), EDITS)
    labels = ("contradiction", "ENTAILS", "neutral")
    assert call == Classify("Naproxen relieves pain", "Aspirin works", labels)
    assert (found.outcome, found.answer) == (Outcome.RIGHT, "entailment")
    _, found = asked(task, Chosen(scores=(1.0, 1.0, 2.0)))
    assert (found.outcome, found.answer) == (Outcome.WRONG, "neutral")
    assert np.exp(found.scores) == pytest.approx([0.25, 0.25, 0.5])
    _, found = asked(task, Chosen(text="I cannot say"))
    assert (found.outcome, found.answer) == (Outcome.UNREADABLE, None)


def test_a_generated_text_that_names_a_label_is_read() -> None:
    template = load_template(str(Path(NLI_PROMPT)))
    task = PromptedLabelling(inner=MultipleChoice(template=template, answer_by=AnswerBy.GENERATE))
    for said, answer in (("entailment", "entailment"), (" Neutral.", "neutral"), ("hm", None)):
        call, found = asked(task, Generated(text=said))
        assert found.answer == answer
    assert "Reply with one of these labels" in call.prompt
    spec = json.loads(json.dumps(task.spec()))
    assert NLI.task_from_spec(spec, template.as_json()).spec() == spec


NLI_PROMPT = Path(__file__).parents[3] / "src/medstress/kinds/nli/labels.txt"


def test_macro_f1_is_that_of_scikit_learn_s_definition() -> None:
    # Right 2 of label a (3 gold, 2 given), 1 of b (1 gold, 2 given); c occurs nowhere.
    total = np.array([2.0, 2, 3, 1, 2, 1, 0, 0, 0])
    assert macro_f1(total) == pytest.approx((0.8 + 2 / 3) / 2)
    assert np.isnan(macro_f1(np.zeros(3)))


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
    *(
        {"text_a": f"Aspirin {i} works", "text_b": "It hurts", "label": "contradiction"}
        for i in "d"
    ),
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


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "victim.py").write_text(VICTIM)
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    (tmp_path / "e.toml").write_text(EXPERIMENT)
    return tmp_path


def test_a_planted_victim_has_the_rates_and_scores_that_follow_by_hand(folder: Path) -> None:
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


def test_rows_exports_report_and_figures_of_a_run(folder: Path) -> None:
    run = ms.run(folder / "e.toml", out=folder / "run")
    flipped = [row for row in rows_of(run) if row.verdict.value == "flipped"]
    row = flipped[0]
    assert (row.key, row.answer_before, row.answer_after) == ("entailment", "entailment", "neutral")
    assert row.score_before == pytest.approx(0.7)
    assert row.prompt_before == "Aspirin a works\nIt helps"
    assert (row.option, row.replaced) == ("text_a", "Aspirin")
    assert run.export("items", folder / "items.jsonl") == 6
    item = json.loads((folder / "items.jsonl").read_text().splitlines()[0])
    assert (item["text_a"], item["label"]) == ("Aspirin a works", "entailment")
    assert run.export("trials", folder / "trials.csv") == 18
    assert run.export("exchanges", folder / "exchanges.parquet") > 18
    page = run.report()
    assert "Macro F1" in page
    assert "Aspirin" in page
    to = folder / "figures"
    made = {one.name for one in run.figures(to, formats=("svg",))}
    assert {"scores", "scores-table", "loss", "curves", "results", "outcomes", "tests"} <= made
    assert "Macro F1" in (to / "scores-table.tex").read_text()
    made = {one.name for one in run.figures(to, formats=("svg",), paper="araujo2020")}
    assert {"scores", "success"} <= made
    assert "Macro F1" in (to / "scores.tex").read_text()


def test_a_finished_run_asks_nothing_again_and_says_the_same(folder: Path) -> None:
    first = ms.run(folder / "e.toml", out=folder / "run")
    told, n = first.summary(), first.export("exchanges", folder / "a.jsonl")
    again = ms.run(folder / "e.toml", out=folder / "run")
    assert again.export("exchanges", folder / "b.jsonl") == n
    assert again.summary()["results"] == told["results"]


def test_a_victim_that_names_no_label_is_unreadable(folder: Path) -> None:
    run = ms.run(
        folder / "e.toml", out=folder / "run", overrides=["victim.target='victim.py:lost'"]
    )
    for row in run.summary()["results"]:
        assert (row["n_unreadable_at_baseline"], row["macro_f1"]["value"]) == (6, 0)


def test_perturbed_pairs_are_written_and_read_back(folder: Path) -> None:
    from medstress.running.perturb import perturb

    only = ["attack.second.use=false", "attack.search.use=false"]
    perturb(folder / "e.toml", folder / "perturbed.jsonl", overrides=only)
    items = load(DatasetOptions(path=folder / "perturbed.jsonl")).items
    assert [item.label for item in items] == [row["label"] for row in ROWS]
    assert all("aspirin" not in item.text_a.lower() for item in items)


def test_what_is_for_other_kinds_is_refused(folder: Path) -> None:
    for change, message in (
        ("attack.first.name='entity_substitution'", "entity_substitution|sampler"),
        ("experiment.controls=true", "controls = true"),
        ("analysis.transfer=true", r"\[analysis\] is for questions"),
        ("attack.first.max_change=0.2", "'first': max_change is for scored pairs"),
    ):
        with pytest.raises(UsageError, match=message):
            prepare(folder / "e.toml", overrides=[change])


def test_a_server_is_asked_for_one_of_the_labels(folder: Path) -> None:
    def answer(prompt: str) -> str:
        asked.append(prompt)
        return "Entailment" if "Aspirin" in prompt else "neutral"

    asked: list[str] = []
    with FaultServer(answer=answer) as server:
        victim = {"backend": "openai", "model": server.model, "base_url": server.url}
        run = ms.run(
            {
                "experiment": {"controls": False, "name": "served", "seeds": [0]},
                "dataset": {"name": "nli", "path": str(folder / "pairs.jsonl")},
                "victim": victim,
                "attack": {"name": "swap_noise", "scope": "all"},
            },
            out=folder / "served",
        )
    (row,) = run.summary()["results"]
    assert (row["accuracy"]["value"], row["n_flipped"]) == (pytest.approx(5 / 6), 3)
    prompt = (
        "Premise: Aspirin a works\nHypothesis: It helps Which label describes the hypothesis, "
        "given the premise?\nReply with one of these labels and no explanation:\ncontradiction\n"
        "entailment\nneutral\nLabel:"
    )
    assert prompt in asked
    trial = next(row for row in rows_of(run) if row.verdict.value == "flipped")
    assert trial.prompt_before in asked
