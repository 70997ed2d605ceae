"""Repeats: calls of their own about the clean prompt, and nothing else."""

from __future__ import annotations

from dataclasses import replace

from medstress.attacks.controls.arm import control_arm
from medstress.attacks.controls.harmless import FIRST_SAMPLE, Repeat
from medstress.attacks.entity_substitution import EntitySubstitution
from medstress.attacks.protocol import most_queries
from medstress.backends.mock import MockBackend
from medstress.core.calls import Chosen
from medstress.core.outcomes import Verdict
from medstress.engine.trial import FLIP_CHECK_SAMPLE, Trial, conduct
from medstress.tasks.multiple_choice import AnswerBy, MultipleChoice
from medstress.tasks.templates import load_template
from medstress.tasks.victim import Victim
from medstress.tasks.wrappers import Majority
from medstress.testing import tiny_questions, tiny_resources

ITEM = tiny_questions(1)[0]
RESOURCES = tiny_resources()
TASK = MultipleChoice(template=load_template("qstab"), answer_by=AnswerBy.CHOICE)


def trial(seed=0, attack=None, task=TASK):
    return Trial(
        dataset="d",
        group="g",
        item=ITEM,
        victim=Victim(label="v", task=task, backend=MockBackend()),
        attack_label="a",
        attack=attack or Repeat(),
        resources=RESOURCES,
        seed=seed,
    )


def play(one, wrong=None):
    """Answer the key, but for the query with a number."""
    flow, rounds, reply = conduct(one), [], None
    try:
        while True:
            rounds.append(flow.send(reply) if reply else next(flow))
            answer = "B" if rounds[-1].query == wrong else "A"
            reply = tuple(Chosen(answer=answer) for _ in rounds[-1].requests)
    except StopIteration as stop:
        return rounds, stop.value


def test_every_repeat_is_the_clean_prompt_with_a_sample_index_of_its_own():
    rounds, result = play(trial())
    clean, *repeats = (each.requests[0] for each in rounds)
    assert result.verdict is Verdict.HELD
    assert (result.n_asked, result.n_unchanged) == (8, 0)
    assert {each.call for each in repeats} == {clean.call}
    model = MockBackend().identity
    assert len({each.key(model) for each in (clean, *repeats)}) == 9
    assert min(each.sample for each in repeats) >= FIRST_SAMPLE > FLIP_CHECK_SAMPLE


def test_seeds_ask_samples_of_their_own_and_a_larger_budget_asks_the_same_first():
    def samples(seed, budget=8):
        rounds, _ = play(trial(seed, Repeat(budget=budget)))
        return [each.requests[0].sample for each in rounds[1:]]

    assert samples(0, 30)[:8] == samples(0)
    assert not set(samples(0)) & set(samples(1))


def test_a_repeat_that_errs_is_a_success_and_is_asked_again():
    rounds, result = play(trial(), wrong=3)
    assert (result.verdict, result.first_success, result.n_asked) == (Verdict.FLIPPED, 3, 3)
    assert result.repeats is True  # the flip check has number 3 too
    keys = {each.requests[0].key(MockBackend().identity) for each in rounds}
    assert len(keys) == len(rounds) == 5


def test_samples_of_a_majority_never_overlap():
    rounds, _ = play(trial(task=Majority(inner=TASK, k=5)))
    keys = [each.key(MockBackend().identity) for one in rounds for each in one.requests]
    assert len(keys) == len(set(keys)) == 5 * 9


def test_beside_an_attack_it_asks_as_often_as_the_attack_could():
    of = EntitySubstitution(sampler="exhaustive")
    arm = control_arm(Repeat(), of)
    assert arm.fills(ITEM, RESOURCES)
    assert most_queries(arm, ITEM, RESOURCES) == most_queries(of, ITEM, RESOURCES)
    short = replace(of, sampler="random", budget=3)
    rounds, result = play(trial(attack=control_arm(Repeat(), short)))
    assert (len(rounds), result.n_asked) == (4, 3)
    alone, _ = play(trial(attack=Repeat(budget=3)))
    assert [each.requests[0].sample for each in rounds] == [
        each.requests[0].sample for each in alone
    ]
