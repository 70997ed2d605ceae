"""Ties in scores: to each letter equally often, and to the same one before and after an edit."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from medstress.core.calls import Chosen, Scored
from medstress.core.items import Candidate, Question
from medstress.core.outcomes import Prediction
from medstress.core.text import Edit
from medstress.tasks.multiple_choice import AnswerBy, MultipleChoice
from medstress.tasks.templates import load_template
from medstress.tasks.wrappers import wrapped

N = 800


def question(i: int, key: str = "A") -> Question:
    return Question(id=f"q{i}", stem="?", options=("gout", "flu", "rickets", "mumps"), key=key)


def task(answer_by: AnswerBy = AnswerBy.LETTER, **given: Any) -> MultipleChoice:
    return MultipleChoice(template=load_template("qstab"), answer_by=answer_by, **given)


def answered(task: Any, candidate: Candidate, *log_probs: float) -> Prediction:
    flow = task.flow(candidate)
    requests = next(flow)
    reply = (
        Chosen(scores=tuple(2.0**x for x in log_probs))
        if getattr(task, "answer_by", None) is AnswerBy.CHOICE
        else Scored(log_probs=log_probs, n_tokens=(1,) * len(log_probs))
    )
    with pytest.raises(StopIteration) as stop:
        flow.send((reply,) * len(requests))
    prediction: Prediction = stop.value.value
    return prediction


@pytest.mark.parametrize("how", [AnswerBy.LETTER, AnswerBy.TEXT, AnswerBy.HEAD, AnswerBy.CHOICE])
def test_a_victim_that_tells_nothing_apart_is_right_as_often_as_it_guesses(how):
    """Every key is A, so ties by letter would all be right."""
    answers = Counter(
        answered(task(how), Candidate(item=question(i)), -2.0, -2.0, -2.0, -2.0).answer
        for i in range(N)
    )
    for letter in "ABCD":
        assert answers[letter] == pytest.approx(N / 4, abs=4 * (N * 3 / 16) ** 0.5)


def test_two_of_four_that_tie_share_the_items():
    clean = [Candidate(item=question(i)) for i in range(N)]
    found = [answered(task(), each, -3.0, -1.0, -2.0, -1.0) for each in clean]
    assert all(each.is_tied for each in found)
    counts = Counter(each.answer for each in found)
    assert set(counts) == {"B", "D"}
    assert counts["B"] == pytest.approx(N / 2, abs=4 * (N / 4) ** 0.5)


def test_a_tie_goes_to_the_same_letter_before_and_after_an_edit():
    for i in range(50):
        clean = Candidate(item=question(i))
        edited = Candidate(
            item=clean.item, edits=(Edit(field="B", start=0, end=3, replacement="measles"),)
        )
        before, after = (answered(task(), each, -1.0, -1.0, -1.0, -1.0) for each in (clean, edited))
        assert before.answer == after.answer


def test_a_liking_for_a_place_no_longer_turns_into_a_liking_for_a_under_shuffled_options():
    for aggregate in ("mean", "votes"):
        entries = [{"name": "shuffled_options", "n": None, "aggregate": aggregate}]
        shuffled = wrapped(task(AnswerBy.CHOICE), entries, Path(), "v")

        def ask(item: Question, shuffled: Any = shuffled) -> Prediction:
            flow = shuffled.flow(Candidate(item=item))
            n = len(next(flow))
            with pytest.raises(StopIteration) as stop:
                flow.send((Chosen(scores=(0.7, 0.1, 0.1, 0.1)),) * n)
            found: Prediction = stop.value.value
            return found

        found = Counter(ask(question(i)).answer for i in range(400))
        assert all(found[letter] == pytest.approx(100, abs=4 * 75**0.5) for letter in "ABCD")
