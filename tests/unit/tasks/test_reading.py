"""Thoughts and replies that were cut off are never read as an answer."""

from dataclasses import replace
from pathlib import Path

import pytest

from medstress.core.calls import Chosen, Decoding, Generated
from medstress.core.items import Candidate
from medstress.core.outcomes import Outcome, Prediction, Replaced, Targeted, Untargeted
from medstress.tasks.multiple_choice import AnswerBy, MultipleChoice
from medstress.tasks.reading import PARSERS, is_over, without_thoughts
from medstress.tasks.templates import load_template
from medstress.tasks.wrappers import read_wraps, wrapped
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
def test_a_letter_in_a_thought_that_does_not_end_is_no_answer(parser, thought):
    found = read(task(parser=parser), Generated(text=thought))
    assert (found.outcome, found.answer, found.text) == (Outcome.UNREADABLE, None, thought)


@pytest.mark.parametrize("parser", PARSERS)
def test_the_letter_after_the_thoughts_is_the_answer(parser):
    found = read(task(parser=parser), Generated(text="<think>B? The answer is B.</think>\n\nA"))
    assert found.answer == "A"
    found = read(task(parser=parser), Generated(text="A", reasoning="The answer is B."))
    assert found.answer == "A"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("A or B?</think>It is C.", "It is C."),
        ("It is C.<think>Or D", ""),
        ("<think>A</think><think>B</think>C", "C"),
        ("<think>A</think>C <think>B", ""),
        ("<think><think>A</think> B</think>C", "C"),
        ("C\n<THINK>sure</THINK>", ""),
        ("No tags.\n", "No tags.\n"),
        ("<unused94>thought\nA?<unused95>C", "C"),
        ("[THINK]A?[/THINK]C", "C"),
        ("[[reason]]A?[[/reason]]C", "C"),
        ("<thinking_start>A?<thinking_end>C", "C"),
        ("<|thought_begin|>A?<|thought_over|>C", "C"),
        ("<thinking_start>A? The answer is A", ""),
        ("◁think▷A?◁/think▷C", "C"),
        ("<reflection>A?</reflection>C", "C"),
        ("<scratchpad>A?</scratchpad>C", "C"),
        ("<|begin_of_thought|>A?<|end_of_thought|>C", "C"),
        ("<|START_THINKING|>A?<|END_THINKING|>C", "C"),
        (
            "<|channel|>analysis<|message|>A?<|end|><|start|>assistant<|channel|>final<|message|>C",
            "C",
        ),
        ("<|channel|>analysis<|message|>A? The answer is A", ""),
        ("analysisMaybe A.assistantfinalC", "C"),
        ("## Thinking\nA?\n## Final Response\nC", "C"),
        ("Here is my thought process: A?\nHere is my response: C", "C"),
        ("[Reasoning]: it acts fast.\n[Answer]: C", "[Reasoning]: it acts fast.\n[Answer]: C"),
        ("<notes>A", "<notes>A"),
        ('<think type="long">A? The answer is A', ""),
        ('<think type="long" id=1>A?</think>C', "C"),
        ('C <think type="none"/>', 'C <think type="none"/>'),
        ("C <reason for it>", "C <reason for it>"),
    ],
)
def test_what_is_said_comes_after_all_thoughts(text, said):
    assert without_thoughts(text) == said


def test_a_victim_may_have_marks_of_its_own():
    own = task(thoughts=("<notes>", "</notes>"))
    assert read(own, Generated(text="<notes>The answer is B.</notes>A")).answer == "A"
    assert read(own, Generated(text="<notes>The answer is B.")).answer is None
    assert read(own, Generated(text="<think>B</think>A")).answer == "A"


def test_of_a_reply_that_was_cut_off_a_statement_counts():
    found = read(task(), Generated(text="The answer is B. It is", finish_reason="length"))
    assert (found.answer, found.finish_reason) == ("B", None)
    # What ends where the reply was cut may go on: "B. fragilis".
    assert read(task(), Generated(text="The answer is B", finish_reason="length")).answer is None


@pytest.mark.parametrize(
    ("text", "over"),
    [
        ("B\n[Question]:", True),
        ("B\n\nContext: A man", True),
        ("The answer is B.\nQ: Which", True),
        ("[Question]: Which", False),
        ("B\nUser", False),
        ("B: Aspirin\nIt acts fast.\n", False),
        ("<think>A\nQuestion: what is it?\n", False),
        ('{"answer": "B",\n "question": "which', False),
    ],
)
def test_a_reply_is_over_where_a_next_question_begins(text, over):
    assert is_over(text) == over


@pytest.mark.parametrize("goal", [Untargeted(True), Targeted("B", True), Replaced(True)])
def test_a_cut_reply_is_no_success_even_where_unreadable_answers_are(goal):
    nonsense = read(task(), Generated(text="Hard to say."))
    cut = read(task(), Generated(text="B", finish_reason="length"))
    assert goal.reached(nonsense, ())
    assert not goal.reached(cut, ())


def test_votes_of_which_all_were_cut_off_are_cut_off_and_one_whole_reply_decides():
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


@pytest.mark.parametrize("parser", PARSERS)
def test_thoughts_in_the_text_of_a_function_are_no_answer(parser):
    own = replace(task(parser=parser), answer_by=AnswerBy.CHOICE)
    assert read(own, Chosen(text="<think>The answer is B.</think>A")).answer == "A"
    assert read(own, Chosen(text="<think>B")).outcome is Outcome.UNREADABLE
