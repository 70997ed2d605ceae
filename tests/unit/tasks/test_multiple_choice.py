"""Each way of answering, driven by hand."""

import math
from typing import Any

import pytest

from medstress.core.calls import (
    Answer,
    Choose,
    Chosen,
    Decoding,
    Generate,
    Generated,
    Rank,
    Request,
    Score,
    Scored,
)
from medstress.core.items import Candidate, Question
from medstress.core.outcomes import Outcome, Prediction
from medstress.tasks.multiple_choice import AnswerBy, MultipleChoice, TextScore
from medstress.tasks.templates import load_template

ITEM = Question(
    id="q", context="A man.", stem="Which drug?", options=("Aspirin", "Warfarin", "Zinc"), key="B"
)
CANDIDATE = Candidate(item=ITEM)


def task(answer_by: AnswerBy, prompt: str = "qstab", **given: Any) -> MultipleChoice:
    return MultipleChoice(template=load_template(prompt), answer_by=answer_by, **given)


def drive(task: MultipleChoice, *replies: Answer) -> tuple[tuple[Request, ...], Prediction]:
    """One round of requests, and the prediction made of the replies to it."""
    flow = task.flow(CANDIDATE)
    requests = next(flow)
    with pytest.raises(StopIteration) as stop:
        flow.send(replies)
    return requests, stop.value.value


def scored(*probabilities: float, n_tokens: tuple[int, ...] = ()) -> Scored:
    logs = tuple(math.log(p) if p > 0 else -math.inf for p in probabilities)
    return Scored(log_probs=logs, n_tokens=n_tokens or (1,) * len(logs))


def probabilities(prediction: Prediction) -> list[float]:
    assert prediction.scores is not None
    return [math.exp(value) for value in prediction.scores]


def test_letters_are_scored_by_their_first_token_after_a_space():
    (request,), _ = drive(task(AnswerBy.LETTER), scored(0.1, 0.2, 0.1))
    assert request == Request(
        Score(load_template("qstab").render(CANDIDATE), (" A", " B", " C"), first_token=True)
    )


def test_letter_scores_are_a_softmax_and_the_mass_is_kept():
    _, prediction = drive(task(AnswerBy.LETTER), scored(0.1, 0.2, 0.1))
    assert prediction.outcome is Outcome.RIGHT
    assert prediction.answer == "B"
    assert prediction.mass == pytest.approx(0.4)
    assert probabilities(prediction) == pytest.approx([0.25, 0.5, 0.25])


def test_letters_after_a_conversation_have_no_leading_space():
    (request,), _ = drive(task(AnswerBy.LETTER, "chat"), scored(0.1, 0.2, 0.1))
    assert isinstance(request.call, Score)
    assert request.call.continuations == ("A", "B", "C")


def test_tiny_log_probabilities_do_not_vanish():
    reply = Scored(log_probs=(-2000.0, -2000.0 + math.log(2), -3000.0), n_tokens=(1, 1, 1))
    _, prediction = drive(task(AnswerBy.LETTER), reply)
    assert probabilities(prediction) == pytest.approx([1 / 3, 2 / 3, 0])
    assert prediction.mass == 0


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("answer_by", [AnswerBy.LETTER, AnswerBy.TEXT])
def test_scores_that_are_not_finite_are_unreadable(bad, answer_by):
    reply = Scored(log_probs=(-1.0, bad, -2.0), n_tokens=(1, 1, 1))
    _, prediction = drive(task(answer_by), reply)
    assert prediction == Prediction(
        outcome=Outcome.UNREADABLE, answer=None, text="log probabilities that are not finite"
    )


def test_texts_are_all_options_as_continuations_of_one_prompt():
    (request,), prediction = drive(task(AnswerBy.TEXT, "cloze"), scored(0.1, 0.3, 0.2))
    assert request == Request(
        Score("Question: A man. Which drug?\nAnswer:", (" Aspirin", " Warfarin", " Zinc"))
    )
    assert prediction.answer == "B"
    assert prediction.mass is None
    assert probabilities(prediction) == pytest.approx([1 / 6, 3 / 6, 2 / 6])


def test_per_token_divides_by_the_number_of_tokens():
    reply = Scored(log_probs=(-3.0, -8.0, -4.0), n_tokens=(1, 4, 1))
    per_token = task(AnswerBy.TEXT, "cloze", text_score=TextScore.PER_TOKEN)
    assert drive(task(AnswerBy.TEXT, "cloze"), reply)[1].answer == "A"
    _, prediction = drive(per_token, reply)
    assert prediction.answer == "B"
    total = math.log(math.exp(-3) + math.exp(-2) + math.exp(-4))
    assert prediction.scores == pytest.approx((-3 - total, -2 - total, -4 - total))


def test_unconditional_subtracts_what_the_option_is_worth_by_itself():
    unconditional = task(AnswerBy.TEXT, "cloze", text_score=TextScore.UNCONDITIONAL)
    requests, prediction = drive(unconditional, scored(0.4, 0.2, 0.1), scored(0.8, 0.1, 0.1))
    assert [request.call for request in requests] == [
        Score("Question: A man. Which drug?\nAnswer:", (" Aspirin", " Warfarin", " Zinc")),
        Score("Answer:", (" Aspirin", " Warfarin", " Zinc")),
    ]
    assert prediction.answer == "B"
    assert probabilities(prediction) == pytest.approx([0.5 / 3.5, 2 / 3.5, 1 / 3.5])


def test_a_generated_text_is_parsed():
    decoding = Decoding(max_new_tokens=7)
    (request,), prediction = drive(
        task(AnswerBy.GENERATE, decoding=decoding), Generated(text="The answer is B.")
    )
    assert request == Request(Generate(load_template("qstab").render(CANDIDATE), decoding))
    assert prediction == Prediction(outcome=Outcome.RIGHT, answer="B", text="The answer is B.")


@pytest.mark.parametrize("text", ["", "B or C", "D", "Ibuprofen"])
def test_a_text_without_one_letter_is_unreadable_and_kept(text):
    _, prediction = drive(task(AnswerBy.GENERATE), Generated(text=text))
    assert prediction == Prediction(outcome=Outcome.UNREADABLE, answer=None, text=text)


def test_the_parser_of_the_task_is_used():
    reply = Generated(text="B.")
    assert drive(task(AnswerBy.GENERATE), reply)[1].outcome is Outcome.RIGHT
    strict = task(AnswerBy.GENERATE, parser="exact")
    assert drive(strict, reply)[1].outcome is Outcome.UNREADABLE


def test_a_head_is_asked_for_each_option_by_itself():
    reply = Scored(log_probs=(-3.0, -0.1, -2.0), n_tokens=(5, 6, 7))
    (request,), prediction = drive(task(AnswerBy.HEAD, "question"), reply)
    assert request == Request(
        Rank(str(load_template("question").render(CANDIDATE)), CANDIDATE.options)
    )
    assert (prediction.outcome, prediction.answer) == (Outcome.RIGHT, "B")
    assert sum(probabilities(prediction)) == pytest.approx(1)
    assert prediction.mass is None


@pytest.mark.parametrize(
    ("reply", "outcome", "answer"),
    [
        (Chosen(answer="B"), Outcome.RIGHT, "B"),
        (Chosen(answer="C"), Outcome.WRONG, "C"),
        (Chosen(text="(A)"), Outcome.WRONG, "A"),
        (Chosen(text="neither"), Outcome.UNREADABLE, None),
        (Chosen(text=""), Outcome.UNREADABLE, None),
        (Chosen(scores=(0.0, 3.0, 1.0)), Outcome.RIGHT, "B"),
    ],
)
def test_a_function_may_choose_write_or_score(reply, outcome, answer):
    (request,), prediction = drive(task(AnswerBy.CHOICE, "cloze"), reply)
    assert request == Request(Choose(str(load_template("qstab").render(CANDIDATE)), "ABC"))
    assert (prediction.outcome, prediction.answer) == (outcome, answer)


def test_the_spec_tells_tasks_apart():
    specs = [
        task(AnswerBy.LETTER),
        task(AnswerBy.TEXT),
        task(AnswerBy.TEXT, text_score=TextScore.PER_TOKEN),
        task(AnswerBy.GENERATE, parser="exact"),
        task(AnswerBy.GENERATE, decoding=Decoding(temperature=1.0)),
        task(AnswerBy.LETTER, "chat"),
        task(AnswerBy.TEXT, "question"),
        task(AnswerBy.HEAD, "question"),
    ]
    assert len({str(t.spec()) for t in specs}) == len(specs)
