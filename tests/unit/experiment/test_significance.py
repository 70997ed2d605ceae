"""The flow that tests a family: who is asked in turn, when it stops, and what it costs."""

import json
import re
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

from medstress.analyses.significance import MOST_TURNS, TURNS, ControlPrice, Null, Statistic
from medstress.attacks.controls.neutral import Form, Part, Slot
from medstress.core.arms import AttackRecord
from medstress.core.calls import Decoding, Generated
from medstress.core.items import Candidate, Question
from medstress.core.outcomes import Outcome, Prediction, Untargeted, Verdict
from medstress.core.queries import Consult
from medstress.core.text import Edit
from medstress.engine.work import Held
from medstress.experiment import config
from medstress.experiment.significance import (
    LEAST_STOCK,
    Stock,
    Success,
    asks_writer,
    family_flow,
    neutral_flips,
    outlook,
)
from medstress.tasks.victim import Victim
from planted_trials import arm, control, planted_run, trial

SLOT = Slot(
    field="stem",
    at=0,
    lead="",
    trail=". ",
    parts=(Part(n_words=5, form=Form.SENTENCE, category="work"),),
)
RIGHT, WRONG = (
    Prediction(answer=letter, outcome=outcome)
    for letter, outcome in (("A", Outcome.RIGHT), ("B", Outcome.WRONG))
)
FUZZ = "He moved."


def item(number: int) -> Question:
    return Question(id=f"q{number}", stem="He rests. Why?", options=("Flu", "Cold"), key="A")


def family(
    n: int,
    answer: Callable[[Candidate], Prediction | str],
    *,
    null: Null = Null.MATCHED,
    max_calls: int = 1_000,
    write: Callable[[int], str] | None = None,
    patience: int = 1,
) -> tuple[dict[str, Any], list[str]]:
    """Drive the flow over n successes; returns what it found, and whose loops asked, in order."""
    successes, asked = [], list[str]()
    for number in range(n):
        own = item(number)
        edit = Edit(field="stem", start=0, end=0, replacement=f"{FUZZ} ")
        victim = Victim(label="v", task=cast("Any", None), backend=cast("Any", None))
        stock = Stock(
            item=own,
            slots=(SLOT,),
            gate=lambda _: None,
            rng=np.random.default_rng(number),
            patience=patience,
        )
        if write is not None:
            stock.writer = asks_writer(own, (SLOT,), ["a drug"], Decoding(temperature=1.0))
        successes.append(
            Success(
                trial=str(own.id),
                fuzz=Candidate(item=own, edits=(edit,)),
                goal=Untargeted(),
                victim=victim,
                sampled=victim,
                stock=stock,
            )
        )
    most = 30 if null is Null.NEUTRAL else None
    price = ControlPrice(
        null=null, statistic=Statistic.SHARE_CORRECT, attempts=3, is_written=write is not None
    )
    flow, n_written = family_flow(successes, price, max_calls, most), 0
    step = next(flow)
    while True:
        replies: list[Any] = []
        if isinstance(step, Consult):
            assert write is not None
            for _ in step.calls:
                replies.append(Generated(text=write(n_written)))
                n_written += 1
        else:
            for talk in step.conversations:
                if talk.sample is None:
                    asked.append(str(talk.candidate.item.id))
                said = answer(talk.candidate)
                if isinstance(said, str):
                    replies.append(Held(None, 1, said))
                else:
                    replies.append(Held(said, TURNS))
        try:
            step = flow.send(tuple(replies))
        except StopIteration as stop:
            return stop.value, asked


def is_fuzz(candidate: Candidate) -> bool:
    return any(edit.replacement.startswith(FUZZ) for edit in candidate.edits)


def immune(candidate: Candidate) -> Prediction:
    """Only the attack's edit misleads."""
    return WRONG if is_fuzz(candidate) else RIGHT


def test_loops_go_round_in_turn_until_the_calls_of_the_family_are_spent():
    found, asked = family(3, immune)
    assert [test["hard"] for test in found["tests"]] == [0, 0, 0]
    ns = [test["n"] for test in found["tests"]]
    assert max(ns) - min(ns) <= 1
    total = sum(test["calls"] for test in found["tests"])
    # No loop begins that could not be paid to its end, with every reply repaired.
    assert 3 * 1_000 - MOST_TURNS * (3 + 20) < total <= 3 * 1_000
    assert total == 3 * TURNS * 2 * 20 + sum(ns) * TURNS * 3
    assert asked[:3] == ["q0", "q1", "q2"]


@pytest.mark.parametrize("is_written", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_the_calls_that_are_named_buy_the_controls_that_are_said(n, is_written):
    """Planted: 555 calls were named for 29 controls, and bought 25."""
    price = ControlPrice(
        null=Null.MATCHED,
        statistic=Statistic.SHARE_CORRECT,
        attempts=3,
        is_written=is_written,
    )
    max_calls = price.calls(29, n)
    assert price.controls(max_calls, n) == 29
    write = (lambda k: reply(f"He likes shop number {k}")) if is_written else None
    found, _ = family(n, immune, max_calls=max_calls, write=write)
    assert min(test["n"] for test in found["tests"]) == 29


def table(**keys: Any) -> config.Significance:
    return config.Significance(**keys)


def test_too_few_calls_name_those_that_could_find_something_and_not_those_of_one_control():
    price = ControlPrice(null=Null.MATCHED, statistic=Statistic.SHARE_CORRECT, attempts=5)
    said = outlook(price, table(max_calls=300), 2, 6)
    # 29 loops of 15 calls for each of two, T, and what the last loop may take.
    assert f"so max_calls = {120 + -(-(125 + 57 * 15) // 2)}" in said
    assert "takes 2 of the 6" in outlook(price, table(max_calls=610), 2, 6)


def test_what_adjusts_nothing_is_not_named():
    price = ControlPrice(null=Null.NEUTRAL, statistic=Statistic.SHARE_CORRECT, attempts=5)
    said = outlook(price, table(null="neutral", items=["q"], controls=9, adjust="none"), 1, 1)
    assert "so nothing can be found at 0.05: it takes about 19 controls" in said


def test_where_the_lexicon_repeats_itself_no_max_calls_is_named():
    price = ControlPrice(null=Null.MATCHED, statistic=Statistic.SHARE_CORRECT, attempts=5)
    for max_calls in (2_000, 6_000):
        said = outlook(price, table(max_calls=max_calls), 1, 24, [114])
        assert "about 114 distinct controls" in said
        assert "max_calls =" not in said


def test_the_texts_of_a_lexicon_are_counted_before_a_call():
    def stock(gate: Callable[[Candidate], str | None] = lambda _: None) -> Stock:
        rng = np.random.default_rng(0)
        return Stock(item=item(0), slots=(SLOT,), gate=gate, rng=rng)

    assert stock().drawn(60) == 60
    few = set[str]()

    def gate(candidate: Candidate) -> str | None:
        text = candidate.edits[0].replacement
        return None if len(few | {text}) <= 7 and not few.add(text) else "it is not one of seven"

    assert stock(gate).drawn(60) == 7
    assert stock(lambda _: "no").drawn(60) == 0


def test_a_test_ends_with_ten_controls_as_hard_and_the_others_get_its_calls():
    def answer(candidate: Candidate) -> Prediction:
        is_fragile = candidate.item.id == "q0" and candidate.edits
        return WRONG if is_fuzz(candidate) or is_fragile else RIGHT

    found, _ = family(2, answer)
    first, second = found["tests"]
    assert (first["n"], first["hard"]) == (10, 10)
    alone, _ = family(1, immune)
    assert second["n"] > alone["tests"][0]["n"]


def test_a_control_stops_sampling_when_it_cannot_come_down_to_the_attack():
    n_asked = dict[str, int]()

    def answer(candidate: Candidate) -> Prediction:
        text = candidate.edits[0].replacement if candidate.edits else ""
        n_asked[text] = n_asked.get(text, 0) + 1
        if is_fuzz(candidate):
            return WRONG
        # Every neutral text misleads once, in its loop, and never again.
        return WRONG if text and n_asked[text] == 1 else RIGHT

    found, _ = family(1, answer)
    (test,) = found["tests"]
    assert test["hard"] == 0
    # One attempt, and the one sample that shows that T is above 0.
    assert test["calls"] == TURNS * (2 * 20 + 2 * test["n"])


def test_neutral_controls_are_single_insertions_and_thirty_of_them():
    found, asked = family(2, immune, null=Null.NEUTRAL, max_calls=2_000)
    assert [test["n"] for test in found["tests"]] == [30, 30]
    assert asked == []  # there is no loop


def test_a_failed_call_ends_one_test_and_is_said():
    def answer(candidate: Candidate) -> Prediction | str:
        is_second = candidate.item.id == "q1" and candidate.edits and not is_fuzz(candidate)
        return "no route" if is_second else immune(candidate)

    found, _ = family(2, answer, max_calls=400)
    assert found["note"] == "no route"
    assert [test["note"] for test in found["tests"]] == [None, "no route"]
    assert found["tests"][0]["n"] > 20


def reply(text: str) -> str:
    return json.dumps({"insertions": [text]})


def test_a_writer_three_in_ten_of_whose_replies_do_not_fit_is_asked_for_more():
    def write(number: int) -> str:
        return "I would rather not." if number % 10 < 3 else reply(f"He likes shop number {number}")

    found, _ = family(2, immune, write=write)
    for test in found["tests"]:
        assert test["note"] is None
        assert test["distinct"] is None
        assert test["n"] > 30
    assert sum(test["calls"] for test in found["tests"]) <= 2_000


def test_what_a_writer_puts_around_its_words_is_no_part_of_a_control_and_a_refusal_is_none():
    seen = set[str]()

    def answer(candidate: Candidate) -> Prediction:
        seen.update(edit.replacement for edit in candidate.edits if not is_fuzz(candidate))
        return immune(candidate)

    def write(number: int) -> str:
        text = f"He likes shop number {number}"
        forms = (f"[1] {text}", f'"{text}."', f"[1]: “{text}”, ", "I'm sorry, I cannot help")
        return reply(forms[number % 4])

    family(1, answer, write=write)
    assert len(seen) >= LEAST_STOCK
    assert all(re.fullmatch(r"He likes shop number \d+\. ", text) for text in seen)


@pytest.mark.parametrize("n_texts", [LEAST_STOCK - 1, LEAST_STOCK])
def test_a_writer_that_repeats_itself_has_texts_enough_or_not(n_texts):
    found, _ = family(1, immune, write=lambda k: reply(f"He likes shop number {k % n_texts}"))
    (test,) = found["tests"]
    if n_texts < LEAST_STOCK:
        assert "wrote only 19 controls that can be used" in test["note"]
    else:
        # Twenty texts make six loops of three, however many loops are run.
        assert (test["note"], test["distinct"]) == (None, n_texts // 3)


def test_a_writer_that_refused_is_asked_again_after_its_first_replies():
    """The same replies come back from the store; those after them are new."""

    def write(number: int) -> str:
        return "I would rather not." if number < 60 else reply(f"He likes shop number {number}")

    refused, _ = family(2, immune, write=write)
    assert [test["n"] for test in refused["tests"]] == [0, 0]
    assert "wrote only 0 controls" in refused["note"]
    again, _ = family(2, immune, write=write, patience=2)
    assert "note" not in again
    assert min(test["n"] for test in again["tests"]) > 20


def test_the_runs_own_neutral_sentences_say_how_often_a_loop_flips():
    fuzz = arm(AttackRecord(label="fuzz", name="medfuzz", attempts=5))
    neutral, other = (control(name, fuzz) for name in ("neutral_insertion", "paraphrase"))
    run = planted_run(
        [
            *(trial(i, fuzz, flipped_at=1) for i in range(24)),
            *(trial(i, neutral, flipped_at=1 if i < 5 else None) for i in range(20)),
            *(trial(i, neutral, verdict=Verdict.ALREADY_WRONG) for i in range(20, 24)),
            *(trial(i, other, flipped_at=1) for i in range(24)),
        ]
    )
    assert neutral_flips(run, fuzz) == 0.25
    assert neutral_flips(planted_run([trial(0, fuzz)]), fuzz) == 0.0
