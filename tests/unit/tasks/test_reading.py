"""Thoughts and replies that were cut off are never read as an answer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from medstress.core.calls import Chosen, Decoding, Generated
from medstress.core.items import Candidate
from medstress.core.outcomes import Outcome, Prediction, Replaced, Targeted, Untargeted
from medstress.option_letters.cleaning import without_thoughts
from medstress.tasks.multiple_choice import AnswerBy, MultipleChoice
from medstress.tasks.parsers import PARSERS
from medstress.tasks.templates import load_template
from medstress.tasks.wrapping import read_wraps, task_from_spec, wrapped
from medstress.testing import tiny_questions

ITEM = tiny_questions(1)[0]  # its key is A


def task(**keys) -> MultipleChoice:
    return MultipleChoice(template=load_template("qstab"), answer_by=AnswerBy.GENERATE, **keys)


def read(own, *replies: Generated) -> Prediction:
    flow, given = own.flow(Candidate(item=ITEM)), list(replies)
    requests = next(flow)
    try:
        while True:
            requests = flow.send(tuple(given.pop(0) for _ in requests))
    except StopIteration as stop:
        return stop.value


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize("thought", ["<think>B\nor B. The answer is B", "<thinking>\nB\n"])
def test_a_letter_in_a_thought_that_does_not_end_is_no_answer(parser: str, thought: str) -> None:
    found = read(task(parser=parser), Generated(text=thought))
    assert (found.outcome, found.answer, found.text) == (Outcome.UNREADABLE, None, thought)


@pytest.mark.parametrize("parser", PARSERS)
def test_the_letter_after_the_thoughts_is_the_answer(parser: str) -> None:
    found = read(task(parser=parser), Generated(text="<think>B? The answer is B.</think>\n\nA"))
    assert found.answer == "A"
    found = read(task(parser=parser), Generated(text="A", reasoning="The answer is B."))
    assert found.answer == "A"


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize("letter", "AB")
def test_what_was_cut_off_is_unreadable_whatever_it_says_so_far(parser: str, letter: str) -> None:
    found = read(task(parser=parser), Generated(text=letter, finish_reason="length"))
    assert (found.outcome, found.answer) == (Outcome.UNREADABLE, None)
    assert found.finish_reason == "length"
    whole = read(task(parser=parser), Generated(text=letter))
    assert (whole.answer, whole.finish_reason) == (letter, None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("A or B?</think>It is C.", "It is C."),
        ("It is C.<think>Or D", "It is C."),
        ("<think>A</think><think>B</think>C", "C"),
        ("<think>A</think>C <think>B", "C"),
        ("<think><think>A</think> B</think>C", "C"),
        ("C\n<THINK>sure</THINK>", "C"),
        ("No tags.\n", "No tags.\n"),
    ],
)
def test_what_is_said_stands_outside_all_thoughts(text: str, said: str) -> None:
    assert without_thoughts(text) == said


@pytest.mark.parametrize("goal", [Untargeted(True), Targeted("B", True), Replaced(True)])
def test_a_cut_reply_is_no_success_even_where_unreadable_answers_are(goal) -> None:
    nonsense = read(task(), Generated(text="Hard to say."))
    cut = read(task(), Generated(text="B", finish_reason="length"))
    assert goal.reached(nonsense, ())
    assert not goal.reached(cut, ())


def test_votes_of_which_all_were_cut_off_are_cut_off_and_one_whole_reply_decides() -> None:
    own = wrapped(
        task(decoding=Decoding(temperature=1.0)),
        read_wraps([{"name": "majority", "k": 3}]),
        Path(),
        "v",
    )
    cut, whole = Generated(text="B", finish_reason="length"), Generated(text="A")
    assert read(own, cut, cut, cut).finish_reason == "length"
    found = read(own, cut, whole, cut)
    assert (found.answer, found.finish_reason) == ("A", None)


def test_a_new_task_comes_back_from_its_spec() -> None:
    new = task(reasoning_tokens=900)
    assert task_from_spec(new.spec(), new.template) == new


@pytest.mark.parametrize("parser", PARSERS)
def test_thoughts_in_the_text_of_a_function_are_no_answer(parser: str) -> None:
    own = replace(task(parser=parser), answer_by=AnswerBy.CHOICE)
    assert read(own, Chosen(text="<think>The answer is B.</think>A")).answer == "A"
    assert read(own, Chosen(text="<think>B")).outcome is Outcome.UNREADABLE
