"""Options in another order: what the victim sees, and how its answer is read."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from numpy.random import default_rng

import medstress as ms
from medstress.attacks.controls.harmless import OptionShuffle, order_at, reordered
from medstress.attacks.protocol import most_queries
from medstress.backends.mock import MockBackend
from medstress.core.calls import Chosen, Generated, Scored
from medstress.core.items import Candidate, Question
from medstress.core.outcomes import Outcome, Verdict
from medstress.core.text import Edit
from medstress.engine.trial import Trial, conduct
from medstress.tasks.multiple_choice import AnswerBy, MultipleChoice, order_of
from medstress.tasks.templates import load_template
from medstress.tasks.victim import Victim
from medstress.tasks.wrappers import Majority, ShuffledOptions
from medstress.testing import tiny_questions, tiny_resources
from rows import rows_of

ITEM = tiny_questions(2)[1]  # its key is B
RESOURCES = tiny_resources()


def play(task: Any, candidate: Candidate, answer: Any) -> Any:
    """Answer every call with a function of its prompt."""
    flow = task.flow(candidate)
    requests = next(flow)
    try:
        while True:
            requests = flow.send(tuple(answer(request.call) for request in requests))
    except StopIteration as stop:
        return stop.value


def letter_of(text: str) -> Any:
    """Answer the letter at which a prompt lists a text."""

    def answer(call: Any) -> Chosen:
        lines = [line for line in call.prompt.splitlines() if line.endswith(f": {text}")]
        return Chosen(answer=lines[0][0])

    return answer


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_all_other_orders_are_drawn_once(n: int) -> None:
    options = tuple("pqrst"[:n])
    item = Question(id="q", stem="Why?", options=options, key="A")
    drawn = list(OptionShuffle().variants(item, default_rng(0), RESOURCES))
    orders = [each.options for each in drawn]
    assert len(orders) == len(set(orders)) == OptionShuffle().n_variants(item, RESOURCES)
    assert options not in orders
    assert all(sorted(order) == sorted(options) for order in orders)
    assert [tuple(options[i] for i in order_of(each) or ()) for each in drawn] == orders


def test_four_options_have_23_variants_and_a_larger_budget_asks_no_more() -> None:
    assert most_queries(OptionShuffle(budget=100), ITEM, RESOURCES) == 23
    drawn = OptionShuffle().variants(ITEM, default_rng(3), RESOURCES)
    again = OptionShuffle(budget=20).variants(ITEM, default_rng(3), RESOURCES)
    assert list(islice(drawn, 8)) == list(islice(again, 20))[:8]


@pytest.mark.parametrize("number", range(1, 24))
def test_the_answer_is_read_as_the_option_whose_text_was_chosen(number: int) -> None:
    task = MultipleChoice(template=load_template("qstab"), answer_by=AnswerBy.CHOICE)
    candidate = reordered(ITEM, order_at(number, 4))
    right = play(task, candidate, letter_of(ITEM.key_text))
    assert (right.outcome, right.answer) == (Outcome.RIGHT, "B")
    wrong = play(task, candidate, letter_of(ITEM.option("D")))
    assert (wrong.outcome, wrong.answer) == (Outcome.WRONG, "D")
    moved = candidate.options.index(ITEM.key_text) != 1
    same_letter = play(task, candidate, lambda _: Chosen(answer="B"))
    assert (same_letter.outcome is Outcome.WRONG) == moved


def test_scores_are_in_the_original_order_for_letters_and_texts() -> None:
    candidate = reordered(ITEM, (2, 0, 3, 1))

    def by_place(call: Any) -> Scored:
        return Scored(log_probs=(-4.0, -3.0, -2.0, -1.0), n_tokens=(1, 1, 1, 1))

    for answer_by in (AnswerBy.LETTER, AnswerBy.TEXT):
        task = MultipleChoice(template=load_template("qstab"), answer_by=answer_by)
        found = play(task, candidate, by_place)
        assert (found.answer, found.outcome) == ("B", Outcome.RIGHT)  # the last one shown
        assert sorted("ABCD", key=lambda x: found.scores["ABCD".index(x)]) == list("CADB")
    written = MultipleChoice(template=load_template("qstab"), answer_by=AnswerBy.GENERATE)
    found = play(written, candidate, lambda _: Generated(text="D"))
    assert (found.answer, found.outcome) == ("B", Outcome.RIGHT)


def test_defended_victims_read_it_too() -> None:
    task = MultipleChoice(template=load_template("qstab"), answer_by=AnswerBy.CHOICE)
    for wrapped in (Majority(inner=task, k=3), ShuffledOptions(inner=task)):
        for number in (1, 7, 23):
            candidate = reordered(ITEM, order_at(number, 4))
            found = play(wrapped, candidate, letter_of(ITEM.key_text))
            assert (found.outcome, found.answer) == (Outcome.RIGHT, "B")


def test_other_edits_of_options_are_no_order() -> None:
    a, b = ITEM.options[:2]
    whole = Edit(field="A", start=0, end=len(a), replacement=b)
    other = Edit(field="B", start=0, end=len(b), replacement=a)
    assert order_of(Candidate(item=ITEM, edits=(whole, other))) == (1, 0, 2, 3)
    for edits in (
        (),
        (whole,),
        (whole, Edit(field="B", start=0, end=len(b), replacement="another")),
        (whole, Edit(field="C", start=0, end=len(ITEM.options[2]), replacement=a)),
        (whole, Edit(field="B", start=1, end=len(b), replacement=a)),
        (whole, other, Edit(field="stem", start=0, end=0, replacement="x")),
    ):
        assert order_of(Candidate(item=ITEM, edits=edits)) is None


@pytest.mark.parametrize(
    ("prompt", "answer_by", "lists"),
    [("qstab", "text", True), ("cloze", "text", False), ("cloze", "choice", True)],
)
def test_a_victim_whose_prompt_lists_no_options_is_not_attackable(
    prompt: str, answer_by: str, lists: bool
) -> None:
    task = MultipleChoice(template=load_template(prompt), answer_by=AnswerBy(answer_by))
    trial = Trial(
        dataset="d",
        group="g",
        item=ITEM,
        victim=Victim(label="v", task=task, backend=MockBackend()),
        attack_label="a",
        attack=OptionShuffle(),
        resources=RESOURCES,
        seed=0,
    )
    flow = conduct(trial)
    if lists:
        assert next(flow).query == 0
        return
    with pytest.raises(StopIteration) as stop:
        next(flow)
    assert stop.value.value.verdict is Verdict.NOT_ATTACKABLE
    assert stop.value.value.note == "the victim's prompt lists no options"


VICTIM = """
import re

OPTION = re.compile(r"^([A-D]): (.*)$", re.MULTILINE)

def always_b(prompts):
    return [{"answer": "B"} for _ in prompts]

def knows(prompts):
    return [{"answer": next(x for x, t in OPTION.findall(p) if "right" in t)} for p in prompts]
"""


def test_in_a_run_it_tells_a_victim_that_always_says_b_from_one_that_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDSTRESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    rows = [
        {
            "id": f"q{i}",
            "question": f"Case {i}?",
            "options": [f"{'right' if j == i % 4 else 'wrong'} {i}{j}" for j in range(4)],
            "answer_idx": "ABCD"[i % 4],
        }
        for i in range(12)
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    Path("items.jsonl").write_text(text, encoding="utf-8")
    Path("v.py").write_text(VICTIM, encoding="utf-8")
    victims = [
        {"name": name, "backend": "python", "target": f"v.py:{name}"}
        for name in ("always_b", "knows")
    ]
    run = ms.run(
        {
            "experiment": {"name": "shuffle", "seeds": [0]},
            "dataset": {"name": "table", "path": "items.jsonl"},
            "victim": victims,
            "attack": [{"name": "option_shuffle", "budget": 20}],
        },
        out="run",
    )
    pooled = {row["victim"]: row for row in run.summary()["results"]}
    assert (pooled["always_b"]["n_eligible"], pooled["always_b"]["asr"]["value"]) == (3, 1.0)
    assert (pooled["knows"]["n_eligible"], pooled["knows"]["asr"]["value"]) == (12, 0.0)
    for trial in rows_of(run):
        if trial.verdict.value != "flipped":
            continue
        assert trial.answer_before == trial.key == "B"
        assert trial.answer_after != "B"
        lines = trial.prompt_after.splitlines()
        shown = dict(line.split(": ", 1) for line in lines if ": " in line)
        assert "right" not in shown["B"]
