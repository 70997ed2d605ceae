"""Searches that go on after an invalid success, and searches that nothing ends."""

from collections.abc import Callable
from typing import Any

import pytest

from medstress.attacks import EntitySubstitution
from medstress.attacks.protocol import Validity
from medstress.core.calls import Chosen, Failure, Reply
from medstress.core.outcomes import Verdict
from medstress.engine.referee import TrialResult
from medstress.engine.trial import Trial, conduct
from medstress.engine.work import CallRound, Purpose
from medstress.testing import PerturbationTable, tiny_questions, tiny_resources

ITEM = tiny_questions(1)[0]
KEY = ITEM.key_text.lower()
NAMES = ("one", f"{KEY} two", "three", f"{KEY} four", "five")
RESOURCES = tiny_resources(PerturbationTable(NAMES))
RIGHT, WRONG, ODD = Chosen(answer="A"), Chosen(answer="B"), Chosen(text="?")

Make = Callable[..., Any]


def play(trial: Trial, errs: dict[str, Reply], again: Reply = WRONG) -> tuple[list[CallRound], Any]:
    """Drive a trial against a victim that answers RIGHT but for candidates with these names."""
    flow, rounds = conduct(trial), []
    try:
        call_round = next(flow)
        while True:
            rounds.append(call_round)
            assert call_round.candidate is not None
            shown = {option.lower() for option in call_round.candidate.options}
            found = [reply for name, reply in errs.items() if name in shown]
            reply = found[0] if found else RIGHT
            if found and call_round.purpose is Purpose.FLIP_CHECK:
                reply = again
            call_round = flow.send((reply,))
    except StopIteration as stop:
        return rounds, stop.value


@pytest.fixture
def attacked(trial_of):
    def run(
        errs: dict[str, Reply], again: Reply = WRONG, **given: Any
    ) -> tuple[list[CallRound], TrialResult]:
        attack = EntitySubstitution(**{"sampler": "nearest", "variants": "mark", **given})
        return play(trial_of(attack, resources=RESOURCES), errs, again)

    return run


def test_the_search_goes_on_after_a_refuted_success_and_stops_at_an_unknown_one(attacked):
    rounds, result = attacked({f"{KEY} two": WRONG, "three": WRONG})
    assert result.verdict is Verdict.FLIPPED
    assert (result.first_success, result.first_unrefuted_success, result.n_asked) == (2, 3, 3)
    assert (result.valid, result.validity_reason) == (None, "rule")  # a rule vouches for nothing
    assert result.variant_class == "key_plus_words"
    assert result.pick is not None
    assert result.first_pick is not None
    assert result.pick.edits[0].replacement == "Three"
    assert result.first_pick.edits[0].replacement.lower() == f"{KEY} two"
    checks = [call_round.query for call_round in rounds if call_round.purpose is Purpose.FLIP_CHECK]
    assert checks == [2, 3]


def test_without_an_unrefuted_success_the_budget_is_used(attacked):
    _, result = attacked({f"{KEY} two": WRONG, f"{KEY} four": WRONG}, budget=4)
    assert (result.first_success, result.first_unrefuted_success, result.n_asked) == (2, None, 4)
    assert (result.valid, result.validity_reason) == (False, "key_plus_words")
    assert result.pick is result.first_pick


def test_an_unrefuted_success_ends_the_search_at_once(attacked):
    rounds, result = attacked({"one": WRONG, "three": WRONG})
    assert (result.first_success, result.first_unrefuted_success, result.n_asked) == (1, 1, 1)
    assert [call_round.query for call_round in rounds] == [0, 1, 1]


def test_a_search_may_end_at_an_invalid_success(attacked: Make) -> None:
    _, result = attacked({f"{KEY} two": WRONG, "three": WRONG}, continue_on_invalid=False)
    assert (result.first_success, result.first_unrefuted_success, result.n_asked) == (2, None, 2)
    assert (result.verdict, result.valid) == (Verdict.FLIPPED, False)


def test_a_smaller_budget_is_a_prefix_of_a_larger_one(attacked):
    errs = {f"{KEY} two": WRONG, f"{KEY} four": WRONG, "five": WRONG}
    _, longest = attacked(errs, budget=5)
    assert (longest.first_success, longest.first_unrefuted_success) == (2, 5)
    for budget in range(1, 6):
        _, result = attacked(errs, budget=budget)
        assert result.first_success == (2 if budget >= 2 else None)
        assert result.first_unrefuted_success == (5 if budget >= 5 else None)


@pytest.mark.parametrize(
    ("again", "repeats"), [(WRONG, True), (RIGHT, False), (Failure(error="gone"), None)]
)
def test_both_successes_must_repeat(attacked, again, repeats):
    _, result = attacked({f"{KEY} two": WRONG, "three": WRONG}, again)
    assert result.repeats is repeats


def test_exhaustive_asks_on_whatever_succeeds(attacked):
    rounds, result = attacked({f"{KEY} two": WRONG, "three": WRONG, "five": ODD},
                             sampler="exhaustive")  # fmt: skip
    assert (result.first_success, result.first_unrefuted_success, result.n_asked) == (2, 3, 5)
    assert (result.n_unreadable, result.verdict) == (1, Verdict.FLIPPED)
    assert [call_round.query for call_round in rounds if call_round.purpose is Purpose.ATTACK] == [
        1,
        2,
        3,
        4,
        5,
    ]
    assert result.repeats is True


def test_an_unreadable_answer_is_a_success_where_asked_for(attacked):
    _, result = attacked({"one": ODD}, unreadable_is_success=True)
    assert (result.verdict, result.first_success, result.n_unreadable) == (Verdict.FLIPPED, 1, 1)
    _, result = attacked({"one": ODD})
    assert (result.verdict, result.n_unreadable) == (Verdict.HELD, 1)


def test_a_target_is_reached_by_its_letter_alone(attacked):
    _, result = attacked({"one": WRONG}, goal="C")
    assert result.verdict is Verdict.HELD
    _, result = attacked({"one": Chosen(answer="C")}, goal="C")
    assert (result.verdict, result.first_success) == (Verdict.FLIPPED, 1)


def test_a_success_before_a_failure_stands(attacked: Make) -> None:
    gone = Failure(error="the server is gone")
    _, result = attacked({f"{KEY} two": WRONG, "three": gone})
    assert (result.verdict, result.first_success, result.n_asked) == (Verdict.FLIPPED, 2, 3)
    assert result.first_unrefuted_success is None
    assert result.note == "the server is gone"


def test_an_attack_learns_of_a_success_after_which_the_search_goes_on(by_hand, trial_of):
    attack = by_hand(("bad",), ("bad",), ends="all")
    _, result = play(trial_of(attack), {"bad": WRONG})
    assert [(p.is_success, p.reached_goal) for (p,) in attack.told] == [(True, False)] * 2
    assert (result.first_success, result.n_asked) == (1, 2)


def test_of_unknown_validity_the_search_does_not_go_on(by_hand, trial_of, monkeypatch):
    attack = by_hand(("bad",), ("bad",), ends="valid")
    monkeypatch.setattr(type(attack), "validity", lambda *_: Validity())
    _, result = play(trial_of(attack), {"bad": WRONG})
    assert (result.n_asked, result.valid) == (1, None)
    assert result.first_unrefuted_success == 1


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (Validity(valid=True, reason="rule"), None),
        (Validity(valid=True, reason="my own table"), None),
        (Validity(valid=True, reason="review"), True),
        (Validity(valid=False, reason="my own table"), False),
    ],
)
def test_only_those_who_can_vouch_make_a_success_valid(
    by_hand: Make,
    trial_of: Make,
    monkeypatch: pytest.MonkeyPatch,
    said: Validity,
    expected: bool | None,
) -> None:
    attack = by_hand(("bad",))
    monkeypatch.setattr(type(attack), "validity", lambda *_: said)
    _, result = play(trial_of(attack), {"bad": WRONG})
    assert result.valid is expected
    assert result.validity_reason == said.reason


def test_what_was_left_out_is_recorded(attacked):
    _, result = attacked({}, variants="exclude")
    assert result.n_excluded == {"key_plus_words": 2}
    _, result = attacked({}, variants="exclude", max_edit_distance=8)
    assert result.n_excluded is not None
    assert result.n_excluded.keys() == {"edit_distance", "key_plus_words"} or (
        result.n_excluded == {"key_plus_words": 2}
    )
    _, result = attacked({})
    assert result.n_excluded == {}


def test_the_first_success_is_stored_apart_only_where_it_is_not_the_pick(attacked):
    _, result = attacked({f"{KEY} two": WRONG, "three": Chosen(answer="C")})
    record = result.as_record()
    assert record["first_after"][0] == "B"
    assert record["after"][0] == "C"
    assert record["first_edits"] != record["edits"]
    _, result = attacked({"one": WRONG})
    assert not {"first_after", "first_edits"} & result.as_record().keys()
