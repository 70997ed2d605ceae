"""`medstress run --data --model` and `medstress init`."""

from __future__ import annotations

import builtins
import json
import sys

import pytest

from fault_server import FaultServer
from medstress import Run
from medstress.experiment.file.reading import read_experiment

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


@pytest.fixture
def answers(monkeypatch):
    """A terminal that gives these answers, and then ends."""

    def give(*lines):
        left = list(lines)

        def answer(prompt):
            print(prompt)
            if not left:
                raise EOFError
            return left.pop(0)

        monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
        monkeypatch.setattr(builtins, "input", answer)
        return left

    return give


@pytest.fixture
def no_terminal(monkeypatch):
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False)


GIVEN = ("--data", "q.jsonl", "--model", "own.py:answer", "--entities", "drugs", "--budget", "2")


def test_a_run_without_a_file_runs_resumes_and_keeps_the_file_it_stands_for(medstress, here):
    asked = medstress("run", *GIVEN, *FAST, "--dry-run")
    assert asked.code == 0, asked.err
    assert not (here / "runs").exists()
    shown, _, costs = asked.out.partition("\nqueries: ")
    assert costs
    name = "q-own.py-answer-drugs-budget2"
    first = medstress("run", *GIVEN, *FAST)
    assert first.code == 0, first.err
    run = Run(here / "runs" / name)
    given = run.manifest()["given"]
    assert given["experiment"].strip() == shown.strip()
    assert given["overrides"] == [part for part in FAST if part != "--set"]
    assert run.manifest()["complete"] is True
    calls = run.summary()["results"][0]["queries"]
    again = medstress("run", *GIVEN, *FAST)
    assert (again.code, again.out) == (0, first.out)
    assert run.summary()["results"][0]["queries"] == calls


def test_limit_set_and_out_apply(medstress, here):
    done = medstress("run", *GIVEN, *FAST, "--limit", 2, "--set", "attack.budget=1", "--out", "x")
    assert done.code == 0, done.err
    assert Run(here / "x").summary()["results"][0]["n_items"] == 2
    assert Run(here / "x").manifest()["config"]["attack"][0]["budget"] == 1


def test_what_the_dry_run_prints_is_a_file_that_continues_the_run(medstress, here):
    shown = medstress("run", *GIVEN, *FAST, "--dry-run").out.partition("\nqueries: ")[0]
    assert medstress("run", *GIVEN, *FAST).code == 0
    (here / "same.toml").write_text(shown, "utf-8")
    told = medstress("run", "same.toml", *FAST)
    assert told.code == 0, told.err


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ((), "medstress init"),
        (("q.jsonl",), "--data q.jsonl"),
        (("x.toml", "--model", "mock"), "--set"),
        (("--data", "q.jsonl"), "--model"),
        (("--model", "mock"), "--data"),
        (("--data", "q.jsonl", "--model", "mock", "--columns", "question"), "question=stem"),
    ],
    ids=str,
)
def test_a_run_without_enough_is_refused_with_what_to_type(medstress, said, arguments, word):
    told = medstress("run", *arguments)
    assert told.code == 2
    said(told.err, word)


RUN = "medstress run --data q.jsonl --model"
ON = "medstress run --model mock --data"


@pytest.mark.parametrize(
    ("arguments", "following"),
    [
        (("q.jsonl", "own.py:answr"), f"{RUN} own.py:answer"),
        (("q.jsonl", "own.py"), f"{RUN} own.py:answer"),
        (("q.jsonl", "own.py:options"), f"{RUN} own.py:answer"),
        (("q.jsonl", "owm.py:answer"), f"{RUN} own.py:answer"),
        (("q.jsonl", "broken.py:answer"), f"{RUN} broken.py:answer"),
        (("q.jsonl", "no.gguf"), f"{RUN} no.gguf"),
        (("q.jsonl", "mok"), f"{RUN} mock"),
        (("q.jsonl", "smollm"), f"{RUN} smollm2"),
        (("q.jsonl", "mock", "--budget", "0"), f"{RUN} mock"),
        (("q.jsonl",), f"{RUN} my_model.py:answer"),
        (("qq.jsonl", "mock"), "medstress run --data q.jsonl --model mock"),
        (("two", "mock"), "medstress run --data two/a.csv --model mock"),
        (("medqa", "mock"), "medstress run --data medqa --model mock --set dataset.path=FILE"),
    ],
    ids=str,
)
def test_the_next_command_is_the_mended_one(medstress, here, arguments, following):
    (here / "own.py").write_text(f"import re\n{OWN}    options = 1\n", "utf-8")
    (here / "broken.py").write_text("def answer(:\n", "utf-8")
    (here / "two").mkdir()
    for name in ("a.csv", "b.csv"):
        (here / "two" / name).write_text("question,A,B,answer\nWhich?,x,y,A\n", "utf-8")
    words = [word for pair in zip(("--data", "--model"), arguments, strict=False) for word in pair]
    told = medstress("run", *words, *arguments[2:])
    assert (told.code, told.next) == (2, following), told


def test_the_functions_of_a_file_are_listed_without_its_other_names(medstress, here):
    (here / "own.py").write_text(f"import re\n{OWN}    options = 1\n", "utf-8")
    told = medstress("run", "--data", "q.jsonl", "--model", "own.py")
    assert "own.py:answer" in told.err
    assert "own.py:re" not in told.err
    assert "own.py:options" not in told.err


def test_init_offers_the_models_of_a_server_and_asks_again_for_another(medstress, answers, here):
    with FaultServer() as server:
        left = answers(f"{server.model}x", "", "", "", "")
        told = medstress("init", "--data", "q.jsonl", "--base-url", server.url)
    assert (told.code, left) == (0, []), told
    assert f"did you mean '{server.model}'?" in told.out
    (victim,) = read_experiment(here / "experiment.toml").victim
    assert victim.model == server.model


@pytest.mark.usefixtures("no_terminal")
def test_init_writes_no_file_for_a_server_that_lists_no_such_model(medstress, here):
    with FaultServer() as server:
        given = ("--data", "q.jsonl", "--base-url", server.url, "--model")
        told = medstress("init", *given, f"{server.model}x")
    assert told.code == 2
    assert told.next == " ".join(["medstress init", *given, server.model])
    assert not (here / "experiment.toml").exists()


@pytest.mark.usefixtures("no_terminal")
def test_init_says_that_a_hub_model_is_not_here(medstress):
    told = medstress("init", "--data", "q.jsonl", "--model", "no-such-model")
    assert told.code == 0, told.err
    assert "! no-such-model is not on this machine" in told.out


def test_unclear_answers_come_with_the_flag_to_type_behind_the_data(medstress, answers, here):
    text = "question,A,B,C,answer\n" + "".join(f"Which {n}?,x{n},y{n},z{n},{n}\n" for n in (1, 2))
    (here / "n.csv").write_text(text, "utf-8")
    answers("n.csv")
    assert "as in: n.csv --answer-base 0" in medstress("init").out


def test_init_asks_five_questions_and_writes_a_file_that_runs(medstress, answers, here):
    left = answers("", "own.py:answer", "drugs", "", "2")
    told = medstress("init")
    assert told.code == 0, told.err
    assert not left
    assert [f"{n}/5" in told.out for n in range(1, 6)] == [True] * 5
    assert "of 4 questions, 4 by drugs" in told.out
    checked = read_experiment(here / "experiment.toml")
    assert checked.victim[0].target == "own.py:answer"
    assert checked.attack[0].parameters["budget"] == 2
    assert medstress("run", "experiment.toml", *FAST).code == 0


def test_a_wrong_answer_is_said_and_asked_again(medstress, answers, here):
    left = answers(
        "nope.jsonl",
        "q.jsonl",
        "own.py:anser",
        "'",
        "mock",
        "pils",
        "drugs",
        "medfuz",
        "",
        "x",
        "1",
    )
    told = medstress("init")
    assert told.code == 0, told.err
    assert not left
    assert told.out.count("\n! ") == 6
    assert read_experiment(here / "experiment.toml").attack[0].parameters["budget"] == 1


def test_an_answer_may_bring_flags(medstress, answers, here):
    answers("q.jsonl", "big --base-url http://127.0.0.1:9/v1 --api-key-env KEY", "", "", "")
    assert medstress("init").code == 0
    (victim,) = read_experiment(here / "experiment.toml").victim
    assert (victim.model, victim.base_url, victim.api_key_env) == (
        "big",
        "http://127.0.0.1:9/v1",
        "KEY",
    )


def test_groups_that_were_answered_are_left_out_if_the_attack_draws_no_names(
    medstress, answers, here
):
    answers("q.jsonl", "mock", "drugs", "swap_noise", "")
    told = medstress("init", "--to", "noise.toml")
    assert told.code == 0, told.err
    assert read_experiment(here / "noise.toml").entities == ()


def test_questions_that_name_no_drug_or_disease_get_an_attack_that_needs_none(
    medstress, answers, here
):
    row = {"id": "1", "question": "How much is one and one?", "options": ["Two", "Three"]}
    (here / "q.jsonl").write_text(json.dumps({**row, "answer_idx": 0}), "utf-8")
    answers("q.jsonl", "mock", "entity_substitution", "", "")
    told = medstress("init")
    assert told.code == 0, told.err
    assert "! " in told.out
    assert read_experiment(here / "experiment.toml").attack[0].name == "swap_noise"
    done = medstress("run", "experiment.toml", "--set", "experiment.controls=false")
    assert done.code == 0, done.err


def test_flags_are_not_asked_and_what_does_not_apply_neither(medstress, answers, here):
    left = answers("mock", "")
    told = medstress("init", "--data", "q.jsonl", "--attack", "passage_swap")
    assert told.code == 2  # a flag that does not fit ends it
    assert len(left) == 2
    left = answers("mock", "")
    told = medstress("init", "--data", "q.jsonl", "--attack", "keyboard_noise")
    assert told.code == 0, told.err
    assert not left
    assert "1/5" not in told.out
    assert "3/5 entities: not asked" in told.out


def test_answers_that_end_early_write_nothing(medstress, answers, here, said):
    answers("q.jsonl", "mock")
    told = medstress("init")
    assert told.code == 2
    said(told.err.strip(), "init")
    assert not (here / "experiment.toml").exists()


@pytest.mark.usefixtures("no_terminal")
def test_without_a_terminal_flags_are_enough_or_one_sentence_says_which(medstress, here, said):
    told = medstress("init")
    assert told.code == 2
    said(told.err, "--data", "--model")
    told = medstress("init", "--data", "q.jsonl", "--model", "mock")
    assert (told.code, told.err) == (0, "")
    assert "medstress run experiment.toml" in told.out
    assert medstress("run", "experiment.toml", *FAST, "--dry-run").code == 0


@pytest.mark.usefixtures("no_terminal")
def test_init_never_overwrites(medstress, here, said):
    (here / "experiment.toml").write_text("mine", "utf-8")
    told = medstress("init", "--data", "q.jsonl", "--model", "mock")
    assert told.code == 2
    said(told.err, "--to experiment.toml")
    assert told.next == "medstress init --data q.jsonl --model mock --to experiment-2.toml"
    assert (here / "experiment.toml").read_text("utf-8") == "mine"


@pytest.mark.usefixtures("no_terminal")
def test_init_refuses_data_of_which_nothing_can_be_attacked(medstress, here, said):
    told = medstress("init", "--data", "q.jsonl", "--model", "mock", "--entities", "diseases")
    assert told.code == 2
    said(told.err, "diseases")
    assert not (here / "experiment.toml").exists()


@pytest.mark.usefixtures("no_terminal")
def test_how_data_are_read_may_be_set_and_stands_in_the_file(medstress, here, said):
    given = ("init", "--data", "q.jsonl", "--model", "mock")
    told = medstress(*given, "--set", "dataset.limit=2", "--set", "dataset.on_bad_row=skip")
    assert told.code == 0, told.err
    (table,) = read_experiment(here / "experiment.toml").dataset
    assert (table.limit, table.on_bad_row) == (2, "skip")
    told = medstress(*given, "--to", "other.toml", "--set", "attack.budget=2")
    assert told.code == 2
    said(told.err, "dataset.KEY=VALUE")
