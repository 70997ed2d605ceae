"""One trial driven by hand: what it needs, and what the referee makes of the replies."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from medstress.attacks import EntitySubstitution
from medstress.attacks.passages import PassageNone
from medstress.attacks.protocol import Attack
from medstress.backends.mock import MockBackend
from medstress.core.calls import Choose, Chosen, Failure, Reply, Request
from medstress.core.errors import BudgetExhausted
from medstress.core.items import Candidate, Question
from medstress.core.outcomes import Outcome, Prediction, Verdict
from medstress.core.queries import Ask, Predict, ask, clean_answer
from medstress.core.text import Edit
from medstress.engine.referee import TrialResult
from medstress.engine.trial import FLIP_CHECK_SAMPLE, Trial, conduct
from medstress.engine.work import CallRound, OutOfTimeError, Purpose
from medstress.tasks.victim import Victim
from medstress.testing import tiny_questions

ITEM = tiny_questions(1)[0]
RIGHT, WRONG, UNREADABLE = Chosen(answer="A"), Chosen(answer="B"), Chosen(text="?")
FAILURE = Failure(error="the server is gone")


def play(trial: Trial, answer: Callable[[CallRound], Reply]) -> tuple[list[CallRound], TrialResult]:
    """Drive a trial; each request of a need gets the same reply."""
    flow, rounds = conduct(trial), []
    try:
        call_round = next(flow)
        while True:
            rounds.append(call_round)
            call_round = flow.send(tuple(answer(call_round) for _ in call_round.requests))
    except StopIteration as stop:
        return rounds, stop.value


def by_option(**replies: Reply) -> Callable[[CallRound], Reply]:
    """RIGHT, but for candidates that hold one of the names."""

    def answer(call_round: CallRound) -> Reply:
        assert call_round.candidate is not None
        found = [reply for name, reply in replies.items() if name in call_round.candidate.options]
        return found[0] if found else RIGHT

    return answer


def scripted(*replies: Reply) -> Callable[[CallRound], Reply]:
    left = list(replies)
    return lambda _: left.pop(0)


def test_what_is_not_attackable_is_never_asked(by_hand, trial_of):
    rounds, result = play(trial_of(by_hand(("x",), reason="no entity")), scripted())
    assert rounds == []
    assert result == TrialResult(verdict=Verdict.NOT_ATTACKABLE, note="no entity")


def test_a_victim_whose_prompt_does_not_show_what_is_edited_is_never_asked(trial_of):
    rounds, result = play(trial_of(PassageNone(), replace(ITEM, passage="Read me.")), scripted())
    assert rounds == []
    note = "the model's prompt shows no passage"
    assert result == TrialResult(verdict=Verdict.NOT_ATTACKABLE, note=note)


@pytest.mark.parametrize(
    ("reply", "verdict"), [(WRONG, Verdict.ALREADY_WRONG), (UNREADABLE, Verdict.UNREADABLE)]
)
def test_an_item_not_right_at_baseline_is_not_attacked(by_hand, trial_of, reply, verdict):
    (call_round,), result = play(trial_of(by_hand(("x",))), scripted(reply))
    assert (call_round.role, call_round.purpose, call_round.query) == (
        "victim",
        Purpose.BASELINE,
        0,
    )
    assert call_round.candidate is not None
    assert call_round.candidate.edits == ()
    assert (result.verdict, result.n_asked, result.pick) == (verdict, 0, None)
    assert result.before is not None


def test_a_failed_baseline_fails_the_trial(by_hand, trial_of):
    _, result = play(trial_of(by_hand(("x",))), scripted(FAILURE))
    expected = TrialResult(verdict=Verdict.FAILED, at="baseline", note="the server is gone")
    assert result == expected


@pytest.mark.parametrize("kept", [{"is_control": True}, {"every_item": True, "ends": "all"}])
@pytest.mark.parametrize("is_late", [True, False])
def test_what_could_not_be_asked_about_a_wrong_item_may_be_asked_again(
    by_hand, trial_of, kept, is_late
):
    """Planted: the question after the wrong clean answer is out of time, or fails."""
    attack = by_hand(("x",))
    for name, value in kept.items():
        object.__setattr__(attack, name, value)
    flow = conduct(trial_of(attack))
    next(flow)
    flow.send((WRONG,))
    with pytest.raises(StopIteration) as stop:
        flow.throw(OutOfTimeError("late")) if is_late else flow.send((FAILURE,))
    result: TrialResult = stop.value.value
    verdict = Verdict.CUT_SHORT if is_late else Verdict.FAILED
    assert (result.verdict, result.at, result.n_asked) == (verdict, "baseline", not is_late)
    assert result.before is not None


def test_no_success_within_the_budget_is_held(by_hand, trial_of):
    rounds, result = play(trial_of(by_hand(("x",), ("y",), budget=2)), by_option())
    assert [(call_round.purpose, call_round.query) for call_round in rounds] == [
        (Purpose.BASELINE, 0),
        (Purpose.ATTACK, 1),
        (Purpose.ATTACK, 2),
    ]
    assert (result.verdict, result.n_asked, result.first_success) == (Verdict.HELD, 2, None)


def test_the_first_wrong_answer_is_the_success_and_is_asked_again_alone(
    by_hand, trial_of, query_of
):
    attack = by_hand(("x",), ("bad",), ("never",))
    rounds, result = play(trial_of(attack), by_option(bad=WRONG))
    assert result.verdict is Verdict.FLIPPED
    assert (result.first_success, result.n_asked) == (2, 2)
    assert result.pick == query_of("bad").candidate
    assert result.after == Prediction(
        outcome=Outcome.WRONG, answer="B", reached_goal=True, is_success=True
    )
    assert result.repeats is True
    check = rounds[-1]
    assert (check.purpose, check.query, check.alone) == (Purpose.FLIP_CHECK, 2, True)
    assert check.requests[0].call == rounds[-2].requests[0].call
    assert (rounds[-2].requests[0].sample, check.requests[0].sample) == (0, FLIP_CHECK_SAMPLE)
    assert len(rounds) == 4


@pytest.mark.parametrize(
    ("again", "repeats"), [(WRONG, True), (RIGHT, False), (UNREADABLE, False), (FAILURE, None)]
)
def test_the_flip_check_says_whether_a_success_repeats_and_changes_no_verdict(
    by_hand, trial_of, again, repeats
):
    _, result = play(trial_of(by_hand(("x",))), scripted(RIGHT, WRONG, again))
    assert (result.verdict, result.repeats) == (Verdict.FLIPPED, repeats)


def test_queries_of_a_list_after_a_success_are_not_asked(by_hand, trial_of):
    attack = by_hand(("x", "bad", "y"), ("z",))
    rounds, result = play(trial_of(attack), by_option(bad=WRONG))
    assert (result.first_success, result.n_asked) == (2, 2)
    assert [call_round.query for call_round in rounds] == [0, 1, 2, 2]
    assert attack.told == []


def test_a_list_that_does_not_fit_the_budget_is_refused_whole(by_hand, trial_of):
    rounds, result = play(trial_of(by_hand(("x", "y"), ("z", "w"), budget=3)), by_option())
    assert [call_round.query for call_round in rounds] == [0, 1, 2]
    assert (result.verdict, result.n_asked) == (Verdict.HELD, 2)


def test_an_attack_is_told_how_much_is_left_and_may_use_it(by_hand, trial_of, query_of):
    left = []

    def body(item: Any, rng: Any) -> Any:
        yield Ask((query_of("x"), query_of("y")))
        try:
            yield Ask((query_of("z"), query_of("w")))
        except BudgetExhausted as refusal:
            left.append(refusal.remaining)
            yield Ask((query_of("bad"),))

    _, result = play(trial_of(by_hand(body=body, budget=3)), by_option(bad=WRONG))
    assert left == [1]
    assert (result.verdict, result.first_success) == (Verdict.FLIPPED, 3)


def test_a_failed_call_ends_the_trial_and_counts_as_asked(by_hand, trial_of):
    attack = by_hand(("x",), ("gone",), ("y",))
    rounds, result = play(trial_of(attack), by_option(gone=FAILURE))
    assert len(rounds) == 3
    assert (result.verdict, result.at, result.note) == (
        Verdict.FAILED,
        "attack",
        "the server is gone",
    )
    assert result.n_asked == 2


def test_the_word_of_the_attack_is_not_believed(by_hand, trial_of, query_of):
    def body(item: Any, rng: Any) -> Any:
        yield Ask((query_of("x"),))
        return query_of("x").candidate

    _, result = play(trial_of(by_hand(body=body)), by_option())
    assert (result.verdict, result.pick) == (Verdict.HELD, None)


def test_the_attack_is_closed_when_the_trial_ends_early(by_hand, trial_of, query_of):
    closed = []

    def body(item: Any, rng: Any) -> Any:
        try:
            yield Ask((query_of("x"),))
        finally:
            closed.append(True)

    play(trial_of(by_hand(body=body)), scripted(RIGHT, FAILURE))
    assert closed == [True]


@dataclass(frozen=True)
class TwoRounds:
    """Asks twice; the second round repeats the first answer's letter."""

    def flow(self, candidate: Any) -> Any:
        (first,) = yield (Request(Choose("first " + candidate.options[3], "ABCD")),)
        one, other = yield (
            Request(Choose("second " + first.answer, "ABCD")),
            Request(Choose("third " + first.answer, "ABCD")),
        )
        right = one.answer == other.answer == candidate.item.key
        outcome = Outcome.RIGHT if right else Outcome.WRONG
        return Prediction(outcome=outcome, answer=one.answer)


def test_a_victim_may_need_several_rounds_for_one_query(by_hand, trial_of):
    victim = Victim(label="v", task=TwoRounds(), backend=MockBackend())  # type: ignore[arg-type]
    rounds, result = play(
        trial_of(by_hand(("x",), ("y",)), victim=victim, flip_check=False), lambda _: RIGHT
    )
    rows = [(call_round.query, call_round.call, len(call_round.requests)) for call_round in rounds]
    assert rows == [(0, 0, 1), (0, 1, 2), (1, 0, 1), (1, 1, 2), (2, 0, 1), (2, 1, 2)]
    assert result.n_asked == 2


def prompts(call_round: CallRound) -> list[str]:
    return [request.call.prompt for request in call_round.ahead]  # type: ignore[misc]


def test_what_will_be_asked_next_is_announced_in_order(trial_of):
    attack = EntitySubstitution(sampler="nearest", budget=4)
    flow = conduct(trial_of(attack))
    assert list(next(flow).ahead) == []
    call_round = flow.send((RIGHT,))
    ahead = prompts(call_round)
    assert len(ahead) == 3
    for expected in ahead:
        call_round = flow.send((RIGHT,))
        assert call_round.requests[0].call.prompt == expected


def test_no_more_is_announced_than_the_budget_has_left(by_hand, trial_of, query_of):
    def body(item: Any, rng: Any) -> Any:
        queries = [query_of(name) for name in "xyzvw"]
        yield Ask(tuple(queries[:2]), tuple(queries[2:]))

    flow = conduct(trial_of(by_hand(body=body, budget=3)))
    next(flow)
    assert len(prompts(flow.send((RIGHT,)))) == 2
    assert len(prompts(flow.send((RIGHT,)))) == 1


def test_one_query_may_be_asked_twice(by_hand, trial_of, query_of):
    def body(item: Any, rng: Any) -> Any:
        again = query_of("x")
        yield Ask((again, again), (again,))
        yield Ask((again,))

    def answer(call_round: CallRound) -> Reply:
        list(call_round.ahead)
        return RIGHT

    rounds, result = play(trial_of(by_hand(body=body)), answer)
    assert result.n_asked == 3
    assert len({call_round.requests for call_round in rounds}) == 2


def test_the_random_stream_does_not_depend_on_the_arm(by_hand, trial_of):
    drawn = []

    def body(item: Any, rng: Any) -> Any:
        drawn.append(rng.random())
        yield from ()

    for label, budget, seed in (("one", 3, 5), ("two", 9, 5), ("one", 3, 6)):
        trial = trial_of(by_hand(body=body, budget=budget), attack_label=label, seed=seed)
        play(trial, lambda _: RIGHT)
    assert drawn[0] == drawn[1] != drawn[2]


def test_rules_that_crash_leave_the_validity_unknown_and_the_verdict_alone(
    by_hand, trial_of, monkeypatch
):
    attack = by_hand(("bad",))

    def validity(self: object, candidate: object, resources: object) -> None:
        raise ZeroDivisionError("by nought")

    monkeypatch.setattr(type(attack), "validity", validity, raising=False)
    _, result = play(trial_of(attack), by_option(bad=WRONG))
    assert (result.verdict, result.valid, result.repeats) == (Verdict.FLIPPED, None, True)
    assert result.note == "a defect of attack or task: ZeroDivisionError: by nought"


def test_an_attack_that_never_stops_asking_too_much_fails_its_trial(by_hand, trial_of, query_of):
    def greedy(item: Question, rng: object) -> Any:
        while True:
            try:
                yield Ask((query_of("x"),) * 3)
            except BudgetExhausted:
                continue

    _, result = play(trial_of(by_hand(body=greedy, budget=2)), by_option())
    assert (result.verdict, result.at, result.n_asked) == (Verdict.FAILED, "attack", 0)
    assert "asking for more than its budget" in str(result.note)


def test_a_query_that_never_becomes_a_call_is_not_counted(by_hand, trial_of):
    def out_of_range(item: Question, rng: object) -> Any:
        edit = Edit(field="A", start=900, end=901, replacement="x")
        yield Ask((Predict(Candidate(item=item, edits=(edit,))),))

    rounds, result = play(trial_of(by_hand(body=out_of_range)), by_option())
    assert (result.verdict, result.at, result.n_asked) == (Verdict.FAILED, "attack", 0)
    assert [call_round.query for call_round in rounds] == [0]


def test_a_list_of_work_ahead_that_breaks_off_ends_where_it_broke(by_hand, trial_of, query_of):
    def breaks() -> Any:
        yield query_of("z")
        raise ZeroDivisionError("by nought")

    def announces(item: Question, rng: object) -> Any:
        yield Ask((query_of("y"),), breaks())
        yield Ask((query_of("z"),), None)  # type: ignore[arg-type]

    rounds, result = play(trial_of(by_hand(body=announces)), by_option())
    assert (result.verdict, result.n_asked) == (Verdict.HELD, 2)
    assert [len(list(call_round.ahead)) for call_round in rounds[1:]] == [1, 0]


class Probing(Attack):
    """Reads the clean answer, probes with `bad`, then asks `y`."""

    name = "probing"
    budget = 2
    is_random = False

    def __init__(self) -> None:
        self.told: list[Prediction] = []

    def obstacle(self, item: Question, resources: Any) -> None:
        return None

    def run(self, item: Question, rng: Any, resources: Any) -> Any:
        self.told.append((yield from clean_answer()))
        clean = Candidate(item=item)
        for name, probe in (("bad", True), ("y", False)):
            query = Predict(clean.edit(item.mentions[1], name), probe=probe)
            self.told.extend((yield from ask([query])))
        return None


def test_a_probe_is_paid_for_and_is_never_a_success(trial_of):
    attack = Probing()
    rounds, result = play(trial_of(attack), by_option(bad=WRONG))
    assert (result.verdict, result.n_asked, result.first_success) == (Verdict.HELD, 2, None)
    assert [call_round.query for call_round in rounds] == [0, 1, 2]
    assert result.probes == [1]
    assert (attack.told[1].answer, attack.told[1].reached_goal) == ("B", False)


def test_the_clean_answer_is_the_baseline_and_costs_nothing(trial_of):
    attack = Probing()
    rounds, result = play(trial_of(attack), by_option())
    assert attack.told[0] == result.before
    assert len(rounds) == 1 + attack.budget
