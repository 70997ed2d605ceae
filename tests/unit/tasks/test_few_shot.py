"""Answered examples before the prompt: which, how they are laid out, and never the item itself."""

from dataclasses import replace
from typing import Any

import pytest

from medstress.core.calls import Chosen, Message
from medstress.core.items import Candidate
from medstress.tasks.multiple_choice import AnswerBy, MultipleChoice
from medstress.tasks.templates import load_template
from medstress.tasks.wrappers import FewShot, ShuffledOptions, task_from_spec, wrapped
from medstress.testing import check_task, tiny_questions

POOL = tuple(
    replace(item, id=f"pool-{i}", mentions=()) for i, item in enumerate(tiny_questions(9)[5:])
)
ITEM = Candidate(item=tiny_questions(1)[0])


def few(answer_by: AnswerBy, prompt: str = "qstab", **given: Any) -> FewShot:
    """Two examples of a pool of four."""
    inner = MultipleChoice(template=load_template(prompt), answer_by=answer_by, **given)
    return FewShot(inner=inner, shots=2, examples=POOL)


def asked(task: Any, candidate: Candidate = ITEM) -> Any:
    return next(task.flow(candidate))[0].call.prompt


def test_examples_are_laid_out_like_the_prompt_and_answered_by_letter():
    one, two = (str(load_template("qstab").render(Candidate(item=q))) for q in POOL[:2])
    own = load_template("qstab").render(ITEM)
    expected = f"{one} {POOL[0].key}\n\n{two} {POOL[1].key}\n\n{own}"
    for answer_by in (AnswerBy.LETTER, AnswerBy.GENERATE, AnswerBy.CHOICE):
        task = few(answer_by)
        assert asked(task) == task.listing(ITEM) == expected


def test_where_the_victim_answers_by_text_examples_do_too():
    prompt = asked(few(AnswerBy.TEXT, "cloze"))
    assert prompt.count("Answer:") == 3
    for question in POOL[:2]:
        assert f"Answer: {question.key_text}\n\n" in prompt


def test_a_head_is_shown_no_letters_so_examples_are_answered_in_words():
    one, two = POOL[:2]
    own = ITEM.item.question
    assert asked(few(AnswerBy.HEAD, "question")) == (
        f"{one.question} {one.key_text}\n\n{two.question} {two.key_text}\n\n{own}"
    )


def test_in_a_conversation_each_example_is_a_turn_and_its_answer():
    system, user = load_template("chat").render(ITEM)
    found = asked(few(AnswerBy.LETTER, "chat"))
    assert (found[0], found[-1]) == (system, user)
    assert [turn.role for turn in found[1:-1]] == ["user", "assistant"] * 2
    assert found[2] == Message("assistant", POOL[0].key)


@pytest.mark.parametrize("change", [{"id": "other"}, {"stem": "Another?"}, {}])
def test_the_item_is_never_an_example_of_itself(change):
    """Neither under its id nor with its text; the next one takes its place."""
    item = replace(POOL[0], **change)
    prompt = asked(few(AnswerBy.LETTER), Candidate(item=item))
    assert prompt.count("[Answer]: ") == 2
    for shown in POOL[1:3]:
        assert f"{shown.stem}\n" in prompt
    assert prompt.count(POOL[0].stem) == (0 if "stem" in change else 1)


def test_a_function_that_repeats_its_prompt_is_read_behind_it():
    task = few(AnswerBy.CHOICE)
    flow = task.flow(ITEM)
    (request,) = next(flow)
    with pytest.raises(StopIteration) as stop:
        flow.send((Chosen(text=f"{request.call.prompt} D"),))
    assert stop.value.value.answer == "D"


@pytest.mark.parametrize(
    "task",
    [
        few(AnswerBy.LETTER),
        few(AnswerBy.TEXT, "cloze"),
        few(AnswerBy.CHOICE),
        ShuffledOptions(inner=few(AnswerBy.LETTER, "chat")),
    ],
)
def test_it_keeps_the_contract_and_is_rebuilt_from_its_spec(task):
    check_task(task, tiny_questions(5))
    assert task_from_spec(task.spec(), task.template) == task


def test_examples_stand_innermost():
    own = few(AnswerBy.CHOICE).inner
    entries = ({"name": "shuffled_options", "n": 2, "aggregate": "mean"},)
    found = wrapped(own, entries, None, "v", POOL)  # type: ignore[arg-type]
    assert found == ShuffledOptions(inner=few(AnswerBy.CHOICE), n=2)
