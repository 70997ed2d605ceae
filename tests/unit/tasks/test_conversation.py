"""The three turns of a target, driven by hand."""

import json
import math

import pytest

from medstress.core.calls import Generate, Generated, Score, Scored
from medstress.core.items import Candidate
from medstress.core.outcomes import Outcome
from medstress.tasks.conversation import Conversation
from medstress.tasks.multiple_choice import MultipleChoice
from medstress.tasks.prompt_sets import shipped_exemplars
from medstress.tasks.templates import load_template
from medstress.testing import tiny_questions

ITEM = tiny_questions(1)[0]
EXEMPLARS = shipped_exemplars()


def task(**keys) -> Conversation:
    own = MultipleChoice(template=load_template("qstab"))
    return Conversation(own=own, **keys)


def drive(task, *texts):
    """Send texts, and scores where they are asked for; returns the calls and the prediction."""
    flow, calls = task.flow(Candidate(item=ITEM)), []
    replies = iter(texts)
    (request,) = next(flow)
    while True:
        calls.append(request.call)
        reply = next(replies)
        answer = Generated(text=reply) if isinstance(reply, str) else reply
        try:
            (request,) = flow.send((answer,))
        except StopIteration as stop:
            return calls, stop.value


CONFIDENT = '{"confidence": {"A": 5, "B": 1, "C": 1, "D": 2}}'
ANSWER = '{"answer": "A"}'


def test_reasoning_confidences_and_answer_are_three_turns_of_one_conversation():
    calls, found = drive(task(), "Facts.", CONFIDENT, '{"answer": "A"}')
    assert [len(call.prompt) for call in calls] == [2, 4, 6]
    assert [m.role for m in calls[2].prompt] == ["system", *["user", "assistant"] * 2, "user"]
    assert calls[1].prompt[:2] == calls[0].prompt
    assert "Do not choose an option yet" in calls[0].prompt[1].content
    assert (found.outcome, found.answer) == (Outcome.RIGHT, "A")
    assert found.rationale == "Facts."
    assert found.confidences == (5.0, 1.0, 1.0, 2.0)


def test_a_victim_that_answers_by_letter_is_scored_in_the_last_turn():
    scored = Scored(log_probs=tuple(map(math.log, (0.1, 0.6, 0.2, 0.1))), n_tokens=(1,) * 4)
    calls, found = drive(task(by_letter=True), "Facts.", CONFIDENT, scored)
    assert isinstance(calls[-1], Score)
    assert calls[-1].first_token
    assert found.answer == "B"
    assert math.exp(found.scores[1]) == pytest.approx(0.6)
    assert found.rationale == "Facts."


def test_the_worked_questions_stand_before_the_case():
    calls, _ = drive(task(exemplars=EXEMPLARS[:2]), "x", CONFIDENT, ANSWER)
    text = calls[0].prompt[1].content
    places = [text.index(each.question) for each in EXEMPLARS[:2]]
    assert places == sorted(places)
    assert max(places) < text.index(ITEM.stem)


def test_unreadable_confidences_are_asked_for_once_more_and_then_unknown():
    calls, found = drive(task(), "Facts.", "high", CONFIDENT, ANSWER)
    assert len(calls) == 4
    assert "could not be used" in calls[2].prompt[-1].content
    assert found.confidences is not None
    _, found = drive(task(), "Facts.", "high", "low", ANSWER)
    assert (found.confidences, found.answer) == (None, "A")


def test_an_answer_that_stays_unreadable_is_unreadable_and_never_right():
    calls, found = drive(task(), "Facts.", CONFIDENT, "Hard to say.", "Still hard.")
    assert len(calls) == 4
    assert found.outcome is Outcome.UNREADABLE
    assert found.rationale == "Facts."
    calls, found = drive(task(), "Facts.", CONFIDENT, '{"answer": "Z"}', ANSWER)
    assert (len(calls), found.outcome) == (4, Outcome.RIGHT)
    assert "expected one of the letters A, B, C, D" in calls[3].prompt[-1].content


@pytest.mark.parametrize(
    "said",
    [
        "B", "b)", "The answer is B.", "**B**", "I choose option B.", f"B: {ITEM.options[1]}",
        ITEM.options[1], '{"answer": "A"} Wait, actually the answer is B.', "Die Antwort: B",
        '```json\n{"answer": "B"}\n```', '{"answer": "A"} No: {"answer": "B"}',
    ],
)  # fmt: skip
def test_a_letter_outside_json_is_read_by_the_victims_parser(said):
    calls, found = drive(task(), "Facts.", CONFIDENT, said)
    assert (len(calls), found.answer) == (3, "B")


@pytest.mark.parametrize(
    ("parser", "said"),
    [
        ("exact", "B"), ("exact", '{"answer": "B"}'), ("first_four", "B) it is"),
        ("first_four", 'A. {"answer": "B"}'), ("single_character", " B "),
    ],
)  # fmt: skip
def test_the_papers_parsers_read_json_first_and_then_the_whole_reply(parser, said):
    calls, found = drive(task(parser=parser), "Facts.", CONFIDENT, said)
    assert (len(calls), found.answer) == (3, "B")


@pytest.mark.parametrize("said", ["It is not B, that is sure.", "A or B.", "Das ist schwer."])
def test_prose_without_a_letter_is_asked_for_again_and_never_counts(said):
    calls, found = drive(task(), "Facts.", CONFIDENT, said, ANSWER)
    assert "it holds no JSON object" in calls[3].prompt[-1].content
    assert (len(calls), found.answer) == (4, "A")
    _, found = drive(task(), "Facts.", CONFIDENT, said, said)
    assert (found.outcome, found.answer) == (Outcome.UNREADABLE, None)


@pytest.mark.parametrize(
    "said",
    [
        "A: 5, B: 1, C: 1, D: 2", "**A**: 5/5\n**B**: 1/5\n**C**: 1/5\n**D**: 2/5",
        '{"A": 5, "B": 1, "C": 1, "D": 2}', "A - 5; B - 1; C - 1; D - 2.",
        '{"confidence": {"A": "5", "B": 1, "C": 1, "D": 2}}',
        "\n".join(f"{x}. {ITEM.options[i]} (50 mg): {'5112'[i]}" for i, x in enumerate("ABCD")),
        '{"confidence": {"A": 1, "B": 1, "C": 1, "D": 1}} Sorry: A: 1. ' + CONFIDENT,
    ],
)  # fmt: skip
def test_confidences_in_prose_are_read(said):
    calls, found = drive(task(), "Facts.", said, ANSWER)
    assert (len(calls), found.confidences) == (3, (5.0, 1.0, 1.0, 2.0))


@pytest.mark.parametrize("said", ["A: high, B: low", "A: 5, B: 1", "A: 80%, B: 5%, C: 5%, D: 10%"])
def test_confidences_that_are_no_numbers_from_1_to_5_for_every_option_are_not_guessed(said):
    calls, found = drive(task(), "Facts.", said, said, ANSWER)
    assert (len(calls), found.confidences) == (4, None)


def test_the_victims_parser_reads_what_the_json_gives_as_the_answer():
    said = [f"C: {ITEM.options[2]}", ITEM.options[2], "The answer is C."]
    for text in said:
        told = json.dumps({"answer": text})
        calls, found = drive(task(), "Facts.", CONFIDENT, told)
        assert (len(calls), found.answer) == (3, "C")
        calls, _ = drive(task(parser="exact"), "Facts.", CONFIDENT, told, ANSWER)
        assert len(calls) == 4
    _, found = drive(task(), "Facts.", CONFIDENT, '{"answer": "Not C"}', '{"answer": "Not C"}')
    assert found.outcome is Outcome.UNREADABLE


def test_a_number_of_more_digits_than_python_reads_is_asked_for_again():
    huge = '{"confidence": {"A": %s}}' % ("1" * 5_000)
    calls, found = drive(
        task(), "Facts.", huge, CONFIDENT, '{"answer": %s}' % ("1" * 5_000), ANSWER
    )
    assert len(calls) == 5
    assert (found.confidences, found.answer) == ((5.0, 1.0, 1.0, 2.0), "A")
    _, found = drive(task(), "Facts.", huge, huge, huge, huge)
    assert (found.confidences, found.outcome) == (None, Outcome.UNREADABLE)


def test_models_without_a_chat_template_get_one_text_and_are_cut_at_the_users_turn():
    told = "Facts.\nUser: and now?"
    calls, found = drive(task(in_turns=False), told, CONFIDENT, ANSWER)
    assert isinstance(calls[0], Generate)
    assert calls[0].prompt.endswith("Assistant:")
    assert found.rationale == "Facts."
    assert "Assistant: Facts.\n\nUser: How confident" in calls[1].prompt


CUT = Generated(text="The findings", finish_reason="length")


def test_a_reasoning_that_was_cut_off_ends_the_conversation_unreadably():
    calls, found = drive(task(), CUT, CONFIDENT, ANSWER)
    assert len(calls) == 1
    assert (found.outcome, found.answer, found.finish_reason) == (
        Outcome.UNREADABLE,
        None,
        "length",
    )
    assert (found.rationale, found.cut_turn) == ("The findings", "reasoning")


def test_an_answer_that_was_cut_off_is_asked_for_once_more_and_then_unreadable():
    cut = Generated(text='{"answer": "B"}', finish_reason="length")
    calls, found = drive(task(), "Facts.", CONFIDENT, cut, ANSWER)
    assert (len(calls), found.answer) == (4, "A")
    assert "cut off" in calls[3].prompt[-1].content
    _, found = drive(task(), "Facts.", CONFIDENT, cut, cut)
    assert (found.outcome, found.finish_reason) == (Outcome.UNREADABLE, "length")
    assert found.cut_turn == "answer"


def test_confidences_that_were_cut_off_are_unknown_and_the_answer_counts():
    cut = Generated(text=CONFIDENT, finish_reason="length")
    _, found = drive(task(), "Facts.", cut, cut, ANSWER)
    assert (found.confidences, found.answer, found.finish_reason) == (None, "A", None)
    assert found.cut_turn == "confidences"


def test_thoughts_are_neither_read_nor_sent_back():
    decoy = '<think>{"answer": "B"} or {"confidence": {"A": 1, "B": 5, "C": 1, "D": 1}}</think>'
    calls, found = drive(task(), f"{decoy}Facts.", decoy + CONFIDENT, decoy + ANSWER)
    assert (found.answer, found.rationale) == ("A", "Facts.")
    assert found.confidences == (5.0, 1.0, 1.0, 2.0)
    assert not any("<think>" in turn.content for turn in calls[-1].prompt)


def test_a_model_without_turns_that_goes_on_to_the_user_s_part_was_not_cut_off():
    babble = Generated(text="Facts.\nUser: And now", finish_reason="length")
    _, found = drive(task(in_turns=False), babble, CONFIDENT, ANSWER)
    assert (found.rationale, found.answer) == ("Facts.", "A")
    _, found = drive(task(in_turns=False), CUT)
    assert found.finish_reason == "length"
