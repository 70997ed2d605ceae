"""An attack beside its controls: what a control may take where gates and repeats took attempts."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from medstress.analyses.run import NEVER, Run, pair
from medstress.analyses.success import Loss, at_budget, counts, loss, reach, remarks
from medstress.core.trials import Trial
from planted_trials import arm, control, edit, planted_run, trial

BUDGET = 8


def of(run: Run) -> Loss:
    (cell,) = run.attacks
    computed = loss(run, cell)
    assert computed is not None
    return computed


def cached(one: Trial) -> Trial:
    """The trial, with every answer from a cache."""
    return replace(one, queries=one.queries._replace(paid=0, cached=one.queries.asked))


def noise(rng: np.random.Generator, n: int, rejection: float, per_query: float) -> Iterator[Trial]:
    """A model that errs by chance alone, and an attack whose attempts a gate may reject."""
    for i in range(n):
        flips = rng.random(BUDGET) < per_query
        passes = rng.random(BUDGET) >= rejection
        hits = np.flatnonzero(flips & passes)
        last = int(hits[0]) + 1 if hits.size else BUDGET
        asked, rejected = int(passes[:last].sum()), int((~passes[:last]).sum())
        yield trial(i, flipped_at=asked if hits.size else None, asked=asked, rejected=rejected)
        other = np.flatnonzero(rng.random(BUDGET) < per_query)
        yield trial(i, control(), flipped_at=int(other[0]) + 1 if other.size else None)


@pytest.mark.parametrize("rejection", [0, 0.5, 0.6])
@pytest.mark.parametrize("per_query", [0.1, 0.25])
def test_pure_noise_is_no_loss_where_a_gate_rejects(rejection, per_query):
    nets, uncut = [], []
    for seed in range(12):
        rng = np.random.default_rng([seed, round(100 * rejection), round(100 * per_query)])
        run = planted_run(noise(rng, 200, rejection, per_query))
        (cell,) = run.attacks
        nets.append(of(run).asr_net["no_op"].value or 0.0)
        other = run.controls(cell)["no_op"]
        uncut.append(at_budget(cell, other, pair(cell, other), BUDGET).net.estimate.value or 0.0)
    assert abs(np.mean(nets)) < 0.02
    assert (np.mean(uncut) < -0.12) == bool(rejection)


def test_no_cut_where_nothing_was_taken_away():
    # A search that ran out of names asked 3 of 8: neither a gate nor a repeat.
    run = planted_run(
        [trial(1, asked=3), trial(1, control(), flipped_at=7), trial(2), trial(2, control())]
    )
    assert reach(run, run.attacks[0]) is None
    assert of(run).control["no_op"].hits == 1


def test_where_the_attack_held_its_control_counts_as_far_as_it_asked():
    attacks = [trial(i, asked=3, rejected=5) for i in (1, 2)]
    run = planted_run(
        [*attacks, trial(1, control(), flipped_at=3), trial(2, control(), flipped_at=4)]
    )
    left = reach(run, run.attacks[0])
    assert left.limits(run.attacks[0], BUDGET).tolist() == [3, 3]
    assert left.limits(run.attacks[0], 1).tolist() == [1, 1]
    assert of(run).control["no_op"].hits == 1


def test_an_attack_that_was_always_rejected_is_beside_a_control_that_counts_nothing():
    trials = [trial(i, asked=0, rejected=8) for i in range(10)]
    trials += [trial(i, control(), flipped_at=1) for i in range(10)]
    took = of(planted_run(trials))
    assert took.asr_net["no_op"].value == 0.0
    assert took.headline is None


def test_after_a_success_the_attempts_left_are_drawn_at_the_share_that_was_asked():
    trials = [trial(i, flipped_at=1, asked=1) for i in range(400)]
    trials += [trial(1000 + i, asked=4, rejected=4) for i in range(400)]
    run = planted_run(trials)
    (cell,) = run.attacks
    left = reach(run, cell)
    assert left.asked == pytest.approx(5 / 9)
    limits = left.limits(cell, BUDGET)[:400]
    assert limits.min() >= 1
    assert limits.max() <= BUDGET
    assert limits.mean() == pytest.approx(1 + 7 * 5 / 9, abs=0.25)
    # The draws are the trials' own: a part of the cell has the same.
    part = cell.where(np.arange(800) < 50)
    assert part is not None
    assert left.limits(part, BUDGET).tolist() == limits[:50].tolist()


def test_a_repeated_variant_is_no_further_variant():
    names = ["one", "two", "one", "one", "three", "two", "one", "four"]
    trials = [
        trial(1),
        trial(2),
        trial(1, control(), flipped_at=5),
        trial(2, control(), flipped_at=5),
    ]
    run = planted_run(
        [cached(trials[0]), *trials[1:]],
        edits={1: [(i + 1, (edit(name),)) for i, name in enumerate(names)]},
    )
    (cell,) = run.attacks
    left = reach(run, cell)
    assert dict(left.repeats) == {1: [3, 4, 6, 7]}
    # Of the 7 later queries of either trial; a first one is always new.
    assert left.new == pytest.approx(10 / 14)
    assert left.limits(cell, BUDGET).tolist() == [4, NEVER]
    assert left.limits(cell, 4).tolist() == [2, NEVER]
    assert of(run).control["no_op"].hits == 1


def test_several_calls_of_a_query_are_no_repeat():
    run = planted_run(
        [cached(trial(1, asked=2)), trial(1, control())],
        edits={1: [(1, (edit("a"),)), (1, (edit("a"),)), (2, (edit("b"),))]},
    )
    assert reach(run, run.attacks[0]) is None


def test_a_mute_model_may_have_lost_all():
    trials = [trial(i, asked=8, unreadable=8) for i in range(39)]
    took = of(planted_run([*trials, *(trial(i, control()) for i in range(39))]))
    assert took.loss_bounds["no_op"] == (0.0, 1.0)
    assert took.headline is None


def test_a_mute_control_takes_nothing_surely():
    trials = [trial(i, flipped_at=1 if i < 20 else None) for i in range(39)]
    trials += [trial(i, control(), asked=8, unreadable=8) for i in range(39)]
    took = of(planted_run(trials))
    assert took.control["no_op"].ends[1] == 1.0
    assert took.loss_bounds["no_op"][0] == 0.0
    assert took.headline is None


@pytest.mark.parametrize(
    ("n", "lost", "lost_by_control", "is_headline"),
    [
        (12, 0, 9, True),  # none was lost, and harmless edits alone take 9
        (40, 20, 20, True),
        (40, 24, 9, False),
        (40, 20, 0, False),
        (40, 0, 0, False),
        (1, 1, 1, True),
        (4, 4, 0, False),
        (6, 3, 3, True),
    ],
)
def test_when_harmless_edits_are_the_headline(n, lost, lost_by_control, is_headline):
    trials = [trial(i, flipped_at=1 if i < lost else None) for i in range(n)]
    trials += [
        trial(i, control(), flipped_at=1 if i >= n - lost_by_control else None) for i in range(n)
    ]
    run = planted_run(trials)
    took = of(run)
    assert took.headline == ("no_op" if is_headline else None)
    cell = run.attacks[0]
    rules = [remark.rule for remark in remarks(cell, counts(cell), None, took)]
    assert rules == (["control_takes_as_much"] if is_headline else [])


def test_the_headline_is_the_control_that_surely_takes_most():
    trials = [trial(i, flipped_at=1 if i < 10 else None) for i in range(40)]
    trials += [trial(i, control(), flipped_at=1 if i < 9 else None) for i in range(40)]
    trials += [trial(i, control("paraphrase"), flipped_at=1 if i < 12 else None) for i in range(40)]
    # Random names of the type are an attack of their own.
    trials += [trial(i, control("same_type"), flipped_at=1 if i < 30 else None) for i in range(40)]
    assert of(planted_run(trials)).headline == "paraphrase"


def test_documents_widen_the_net():
    def net(documents: bool) -> tuple[float, float]:
        def cluster(i: int) -> str | None:
            return f"d{i // 10}" if documents else None

        trials = [trial(i, flipped_at=1 if i < 20 else None, cluster=cluster(i)) for i in range(40)]
        trials += [trial(i, control(), cluster=cluster(i)) for i in range(40)]
        estimate = of(planted_run(trials)).asr_net["no_op"]
        assert estimate.value == 0.5
        assert estimate.low is not None
        assert estimate.high is not None
        return estimate.low, estimate.high

    (low, high), (low_in_documents, high_in_documents) = net(False), net(True)
    assert low_in_documents < low - 0.1
    assert high_in_documents > high + 0.1


def test_a_control_without_a_seed_is_beside_every_seed():
    trials = [
        trial(i, arm(seed=s), flipped_at=1 if i < 3 else None) for s in (0, 1) for i in range(6)
    ]
    once = control(of=arm(seed=None))
    trials += [trial(i, once) for i in range(6)]
    took = of(planted_run(trials))
    assert took.asr_net["no_op"].n == 12
    assert took.asr_net["no_op"].value == 0.5
