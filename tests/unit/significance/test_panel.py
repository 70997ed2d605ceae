"""The judges' panel on controls, driven by hand: what it refuses is no control."""

from __future__ import annotations

import json

import numpy as np
import pytest

from medstress.analyses.families import Null
from medstress.attacks.controls.slots import Form, Slot
from medstress.attacks.medfuzz.judges import Panel
from medstress.core.calls import Decoding, Generated
from medstress.core.errors import TrialError
from medstress.core.items import Candidate
from medstress.core.outcomes import Outcome, Prediction
from medstress.core.queries import Consult
from medstress.core.text import Edit
from medstress.experiment.significance.controls import Controls, drawn_until, passing
from medstress.experiment.significance.flow import Success, significance_flow
from medstress.experiment.significance.settings import Settings
from medstress.stats.permutation import ControlPlan
from medstress.tasks.prompt_sets import load_prompts
from medstress.testing import tiny_questions

(ITEM,) = tiny_questions(1)
PROMPTS = load_prompts("patient_characteristics")
SLOT = Slot(
    field="stem", at=0, lead="", trail=". ", n_words=6, form=Form.SENTENCE, category="occupation"
)
FUZZ = Candidate(item=ITEM, edits=(Edit(field="stem", start=0, end=0, replacement="He errs. "),))


def panel(*names):
    """Judges who have not been asked yet; one by default."""
    return Panel(ITEM, PROMPTS, dict.fromkeys(names or ("judge",), Decoding(temperature=1.0)))


def candidate(words):
    return Candidate(item=ITEM, edits=(SLOT.filled(words),))


def other():
    return next(letter for letter in ITEM.letters if letter != ITEM.key)


def drive(steps, errs=lambda text: False, votes=lambda text: (ITEM.key,) * 3):
    """Answer a flow; what it returned, and the edited texts that judges saw.

    They pick the key of the clean item.
    """
    judged = []
    try:
        step = next(steps)
        while True:
            if isinstance(step, Consult):
                assert step.role == "judge"
                replies = []
                for i, call in enumerate(step.calls):
                    text = call.prompt[0].content
                    is_clean = ITEM.question in text
                    judged += [] if is_clean else [text]
                    letter = ITEM.key if is_clean else votes(text)[i % 3]
                    replies.append(Generated(text=json.dumps({"answer": letter})))
            else:
                replies = [
                    Prediction(outcome=Outcome.WRONG, answer=other())
                    if errs(f"{talk.candidate.context} {talk.candidate.stem}")
                    else Prediction(outcome=Outcome.RIGHT, answer=ITEM.key)
                    for talk in step.conversations
                ]
            step = steps.send(tuple(replies))
    except StopIteration as stop:
        return stop.value, judged


@pytest.mark.parametrize(("n_for_key", "passes"), [(3, True), (2, True), (1, False), (0, False)])
def test_two_of_three_judges_must_still_pick_the_key(n_for_key, passes):
    votes = (ITEM.key,) * n_for_key + (other(),) * (3 - n_for_key)
    allowed, judged = drive(passing(panel(), [candidate("He bakes")]), votes=lambda _: votes)
    assert allowed == [passes]
    assert len(judged) == 3
    assert all("He bakes" in text for text in judged)


def test_a_vote_that_cannot_be_read_is_none_for_the_key():
    steps = passing(panel(), [candidate("He bakes")])
    next(steps)
    good = json.dumps({"answer": ITEM.key})
    steps.send((Generated(text=good),) * 3)
    with pytest.raises(StopIteration) as stop:
        steps.send(tuple(Generated(text=text) for text in (good, "Well.", "No idea.")))
    assert stop.value.value == [False]


def test_where_no_judge_knows_the_item_every_control_passes_and_none_is_asked_about():
    steps = passing(panel("judge", "judge.2"), [candidate("He bakes")])
    lost = (Generated(text=json.dumps({"answer": other()})),) * 3
    assert next(steps).role == "judge"
    assert steps.send(lost).role == "judge.2"
    with pytest.raises(StopIteration) as stop:
        steps.send(lost)
    assert stop.value.value == [True]


def test_judges_are_asked_about_all_controls_of_a_step_at_once():
    steps = passing(panel(), [candidate("He bakes"), candidate("He sews")])
    assert len(next(steps).calls) == 3  # the clean item
    step = steps.send((Generated(text=json.dumps({"answer": ITEM.key})),) * 3)
    assert isinstance(step, Consult)
    assert len(step.calls) == 6


def doubting(word):
    return lambda text: (other(),) * 3 if word in text else (ITEM.key,) * 3


def test_controls_are_drawn_until_enough_of_them_pass():
    words = iter(["He doubts", "He bakes", "He doubts too", "He sews"])

    def draw(n):
        yield from ()
        return [candidate(next(words)) for _ in range(n)]

    kept, _ = drive(drawn_until(2, draw, panel()), votes=doubting("doubts"))
    assert [one.stem.split(".")[0] for one in kept] == ["He bakes", "He sews"]


def test_a_panel_that_refuses_everything_ends_the_test(said):
    def draw(n):
        yield from ()
        return [candidate("He doubts")] * n

    with pytest.raises(TrialError) as caught:
        drive(drawn_until(2, draw, panel()), votes=doubting("doubts"))
    said(str(caught.value))


def controls_with(panel):
    return Controls(
        item=ITEM,
        slots=(SLOT,),
        rng_of=lambda what, number: np.random.default_rng([len(what), number]),
        gate=lambda _: None,
        panel=panel,
    )


def test_an_error_on_a_control_that_judges_refuse_is_an_attempt_lost():
    """The target errs on every insertion; judges refuse those of one kind, and the loop goes on."""
    settings = Settings(controls=ControlPlan(fixed=4), max_calls=None)
    success = Success(fuzz=FUZZ, attempts=50)

    def errs(text):
        return text.strip() != ITEM.question.strip()

    seen = {}

    def votes(text):
        # Every control is refused the first time that judges see it.
        question = text.partition("\n\n")[2]
        seen.setdefault(question, len(seen))
        return (other(),) * 3 if seen[question] % 2 == 0 else (ITEM.key,) * 3

    found, judged = drive(
        significance_flow(success, settings, controls_with(panel())), errs=errs, votes=votes
    )
    assert all(value is not None for value in found["controls"])
    kept = {edits[0][3] for edits in found["edits"]}
    refused = {question for question, n in seen.items() if n % 2 == 0}
    assert refused
    assert not any(words in question for words in kept for question in refused)
    assert len(judged) >= 3 * (4 + len(refused))
    # Without a panel the first error of every loop is its control, and nobody else is asked.
    free, silent = drive(significance_flow(success, settings, controls_with(None)), errs=errs)
    assert silent == []
    assert free["edits"] != found["edits"]


def test_single_controls_are_put_to_the_panel_too():
    settings = Settings(null=Null.NEUTRAL, controls=ControlPlan(fixed=4))
    success = Success(fuzz=FUZZ, attempts=5)
    _, judged = drive(significance_flow(success, settings, controls_with(panel())))
    assert len(judged) == 3 * 4


def test_an_unreadable_answer_ends_no_loop_of_a_control():
    settings = Settings(controls=ControlPlan(fixed=2))
    steps = significance_flow(Success(fuzz=FUZZ, attempts=2), settings, controls_with(None))
    step, n_looks = next(steps), 0
    unreadable = Prediction(outcome=Outcome.UNREADABLE, answer=None)
    right = Prediction(outcome=Outcome.RIGHT, answer=ITEM.key)
    try:
        while True:
            # Attempts of loops are asked as the attack asks, fresh samples with a number.
            in_loop = step.conversations[0].sample is None
            n_looks += in_loop
            step = steps.send((unreadable if in_loop else right,) * len(step.conversations))
    except StopIteration as stop:
        found = stop.value
    assert n_looks == 2
    assert found["controls"] == [None, None]
