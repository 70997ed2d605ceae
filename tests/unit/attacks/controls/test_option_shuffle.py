"""Options in another order: what the victim sees, and how its answer is read."""

from __future__ import annotations

import pytest
from numpy.random import default_rng

from medstress.attacks.controls.harmless import OptionShuffle, order_at, reordered
from medstress.core.calls import Chosen
from medstress.core.items import Candidate, Question
from medstress.core.outcomes import Outcome
from medstress.core.text import Edit
from medstress.tasks.multiple_choice import AnswerBy, MultipleChoice, order_of
from medstress.tasks.templates import load_template
from medstress.testing import tiny_questions, tiny_resources

ITEM = tiny_questions(2)[1]  # its key is B
RESOURCES = tiny_resources()


def play(task, candidate, answer):
    """Answer every call with a function of its prompt."""
    flow = task.flow(candidate)
    requests = next(flow)
    try:
        while True:
            requests = flow.send(tuple(answer(request.call) for request in requests))
    except StopIteration as stop:
        return stop.value


def letter_of(text):
    """Answer the letter at which a prompt lists a text."""

    def answer(call):
        lines = [line for line in call.prompt.splitlines() if line.endswith(f": {text}")]
        return Chosen(answer=lines[0][0])

    return answer


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_all_other_orders_are_drawn_once(n):
    options = tuple("pqrst"[:n])
    item = Question(id="q", stem="Why?", options=options, key="A")
    drawn = list(OptionShuffle().variants(item, default_rng(0), RESOURCES))
    orders = [each.options for each in drawn]
    assert len(orders) == len(set(orders)) == OptionShuffle().n_variants(item, RESOURCES)
    assert options not in orders
    assert all(sorted(order) == sorted(options) for order in orders)
    assert [tuple(options[i] for i in order_of(each) or ()) for each in drawn] == orders


@pytest.mark.parametrize("number", range(1, 24))
def test_the_answer_is_read_as_the_option_whose_text_was_chosen(number):
    task = MultipleChoice(template=load_template("qstab"), answer_by=AnswerBy.CHOICE)
    candidate = reordered(ITEM, order_at(number, 4))
    right = play(task, candidate, letter_of(ITEM.key_text))
    assert (right.outcome, right.answer) == (Outcome.RIGHT, "B")
    wrong = play(task, candidate, letter_of(ITEM.option("D")))
    assert (wrong.outcome, wrong.answer) == (Outcome.WRONG, "D")
    moved = candidate.options.index(ITEM.key_text) != 1
    same_letter = play(task, candidate, lambda _: Chosen(answer="B"))
    assert (same_letter.outcome is Outcome.WRONG) == moved


def test_other_edits_of_options_are_no_order():
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
