"""Diversity of names: planted names, seeds, and the interval of each form."""

from collections.abc import Callable

import pytest

from medstress.analyses.success import Diversity, diversity
from medstress.core.trials import Success, Trial
from medstress.stats.estimate import wilson
from planted_trials import arm, planted_run, trial


def of(trials: list[Trial]) -> Diversity:
    (cell,) = planted_run(trials).cells
    return diversity(cell)


def named(name: Callable[[int, int], str], n_items: int, n_seeds: int = 1) -> list[Trial]:
    return [
        trial(i, arm(seed=seed), flipped_at=1, name=name(i, seed))
        for seed in range(n_seeds)
        for i in range(n_items)
    ]


def test_one_name_that_wins_everything_is_no_diversity_and_still_has_an_interval():
    got = of(named(lambda *_: "Zinc", 6))
    low = wilson(6, 6).low
    for estimate in (got.diversity, got.diversity_unbiased):
        assert (estimate.value, estimate.low) == (0, 0)
        assert estimate.high == pytest.approx(1 - low**2)
        assert "6 items that look alike" in estimate.method


def test_it_is_taken_within_each_seed_and_then_averaged():
    """A model falls for whatever is drawn: one name a seed is no diversity, though pooled it is."""
    alike = of(named(lambda _, seed: f"name of seed {seed}", 40, 5))
    assert (alike.diversity.value, alike.diversity_unbiased.value) == (0, 0)
    assert alike.diversity.n == 200
    halves = of(named(lambda i, _: f"name {i % 2}", 40, 5))
    assert halves.diversity.value == pytest.approx(0.5)
    assert halves.diversity_unbiased.value == pytest.approx(20 / 39)
    assert halves.diversity.method.startswith("mean over 5 seeds, within each; bootstrap over ")


def test_successes_of_one_document_are_drawn_together():
    apart = of(named(lambda i, _: "abc"[i % 3], 12))
    together = of(
        [trial(i, flipped_at=1, name="abc"[i % 3], cluster=f"document {i % 3}") for i in range(12)]
    )
    assert apart.diversity.value == together.diversity.value
    assert together.diversity.low < apart.diversity.low


def test_prompt_similarity_is_the_mean_over_first_successes_that_were_embedded():
    trials = []
    for i in range(5):
        one = trial(i, flipped_at=1)
        similar = None if i == 4 else 0.9 + i / 100
        first = Success(query=1, edits=one.first.edits, answer=one.first.answer, similarity=similar)
        trials.append(trial(i, flipped_at=1, first=first, pick=first))
    got = of([*trials, trial(9)]).prompt_similarity
    assert got.value == pytest.approx(0.915)
    assert got.n == 4
    assert "1 not embedded" in got.method
    assert of([trial(1, flipped_at=1)]).prompt_similarity.value is None
