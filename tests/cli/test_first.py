"""`medstress run --data --model`: an experiment without a file."""

import json
import re

import pytest

from medstress import Run

FAST = ("--set", "entities.embedding=ngram", "--set", "experiment.controls=false")
OWN = "def answer(prompts):\n    return ['A' if len(p) % 2 else 'B' for p in prompts]\n"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Four questions about drugs, and a function that answers them."""
    monkeypatch.chdir(tmp_path)
    drugs = ["Aspirin", "Ibuprofen", "Warfarin", "Metformin"]
    rows = [
        {"id": str(i), "question": f"Which drug is number {i}?", "options": drugs, "answer_idx": i}
        for i in range(4)
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "q.jsonl").write_text(text, "utf-8")
    (tmp_path / "own.py").write_text(OWN, "utf-8")
    return tmp_path


GIVEN = ("--data", "q.jsonl", "--model", "own.py:answer", "--entities", "drugs", "--budget", "2")


def test_a_run_without_a_file_runs_resumes_and_keeps_the_file_it_stands_for(medstress, here):
    asked = medstress("run", *GIVEN, *FAST, "--dry-run")
    assert asked.code == 0, asked.err
    assert not (here / "runs").exists()
    shown, _, costs = asked.out.partition("\nestimate: ")
    assert costs
    name = "q-own.py-answer-drugs-budget2"
    first = medstress("run", *GIVEN, *FAST)
    assert first.code == 0, first.err
    run = Run(here / "runs" / name)
    given = run.manifest()["given"]
    assert given["overrides"] == [part for part in FAST if part != "--set"]
    assert run.manifest()["complete"] is True
    calls = run.summary()["results"][0]["queries"]
    (here / "shown.toml").write_text(shown, "utf-8")
    assert medstress("run", "shown.toml", "--out", f"runs/{name}").out.startswith("Nothing was")
    again = medstress("run", *GIVEN, *FAST)
    said, _, rest = again.out.partition("\n")
    assert (again.code, rest) == (0, first.out)
    assert said.startswith("Nothing was asked: ")
    assert run.summary()["results"][0]["queries"] == calls


def test_no_attack_asks_the_clean_questions_alone(medstress, here):
    given = ("--data", "q.jsonl", "--model", "own.py:answer", "--attack", "none")
    done = medstress("run", *given, "--out", "clean")
    assert done.code == 0, done.err
    (row,) = Run(here / "clean").summary()["results"]
    # Every prompt has one length, so that the answer is always the same: one question of four.
    assert (row["accuracy"]["hits"], row["accuracy"]["n"]) == (1, 4)
    assert (row["queries"]["baseline"], row["queries"]["asked"]) == (4, 0)
    listed = medstress("case", "clean").out
    assert re.findall(r"^\w{12}  (right|wrong from the start) ", listed, re.M).count("right") == 1
    case = re.search(r"^(\w{12})  right", listed, re.M)[1]
    shown = medstress("case", "clean", case).out
    assert shown.splitlines()[0] == f"Case {case}: right"
    for word in ("held", "Attack on", "none on", "queries", "[-before-]"):
        assert word not in listed + shown
    assert medstress("report", "clean").code == 0
    assert '"none":"no attack"' in (here / "clean" / "report.html").read_text("utf-8")


RUN = "medstress run --data q.jsonl --model"


@pytest.mark.parametrize(
    ("arguments", "following"),
    [
        (("q.jsonl", "own.py:answr"), f"{RUN} own.py:answer"),
        (("q.jsonl", "mok"), f"{RUN} mock"),
        (("q.jsonl",), f"{RUN} my_model.py:answer"),
        (("qq.jsonl", "mock"), f"{RUN} mock"),
        (("medqa", "mock"), "medstress run --data medqa --model mock --set dataset.path=FILE"),
    ],
    ids=str,
)
def test_the_next_command_is_the_mended_one(medstress, here, arguments, following):
    (here / "own.py").write_text(f"import re\n{OWN}    options = 1\n", "utf-8")
    words = [word for pair in zip(("--data", "--model"), arguments, strict=False) for word in pair]
    told = medstress("run", *words)
    assert (told.code, told.next) == (2, following), told
