"""Planted truths: games whose Shapley values are known by hand."""

import numpy as np
import pytest
from numpy.typing import NDArray

from medstress.experiment.explain import owen_values


def owen(game, sizes, **settings):
    """Values of a game, and how many masks came in each round."""
    search, rounds = owen_values(sizes, **settings), []
    masks = next(search)
    while True:
        rounds.append(len(masks))
        try:
            masks = search.send(np.array([game(mask) for mask in masks], dtype=np.float64))
        except StopIteration as stop:
            return stop.value, rounds


@pytest.mark.release
def test_one_token_that_decides_has_all_the_value():
    found, _ = owen(lambda shown: [float(shown[5])], [9])
    assert found.values[:, 0].tolist() == pytest.approx([0, 0, 0, 0, 0, 1, 0, 0, 0])
    assert (found.base.tolist(), found.full.tolist()) == ([0.0], [1.0])


def test_additive_games_give_each_token_its_weight_however_the_tree_is():
    weights = np.array([0.5, -0.2, 0.0, 0.3, 0.1, -0.4])
    for sizes in ([6], [1, 2, 3], [1] * 6):
        found, _ = owen(lambda shown: [float(weights @ shown) + 0.25], sizes)
        assert found.values[:, 0] == pytest.approx(weights)
        assert found.base == pytest.approx([0.25])


@pytest.mark.parametrize(
    ("game", "expected"),
    [
        (lambda a, b: a and b, [0.5, 0.5]),
        (lambda a, b: a != b, [0.0, 0.0]),
        (lambda a, b: a or b, [0.5, 0.5]),
        (lambda a, b: a and not b, [0.5, -0.5]),
    ],
)
def test_two_tokens_share_an_interaction_equally_wherever_they_stand(game, expected):
    for first, second in ((0, 1), (0, 6), (3, 4)):
        found, _ = owen(lambda shown, i=first, j=second: [float(game(shown[i], shown[j]))], [4, 3])
        assert found.values[[first, second], 0].tolist() == pytest.approx(expected)
        assert found.gap < 1e-9


@pytest.mark.parametrize("evaluations", [2, 10, 40, 200])
@pytest.mark.parametrize("batch", [1, 10, 64])
def test_values_add_up_for_every_output_however_early_the_search_ends(evaluations, batch):
    rng = np.random.default_rng(1)
    weights = rng.normal(size=(30, 3))

    def game(shown: NDArray[np.bool_]) -> list[float]:
        return np.tanh(shown @ weights).tolist()

    found, rounds = owen(game, [10, 1, 19], evaluations=evaluations, batch=batch)
    assert found.values.shape == (30, 3)
    assert found.gap < 1e-9
    assert found.n_evaluations == sum(rounds) <= max(evaluations, 2) + 1


def test_no_mask_is_asked_twice():
    asked: list[bytes] = []

    def game(shown: NDArray[np.bool_]) -> list[float]:
        asked.append(shown.tobytes())
        return [float(shown.sum() ** 2)]

    owen(game, [16], evaluations=200, batch=64)
    assert len(asked) == len(set(asked))


def test_a_search_is_the_same_every_time_and_leaves_random_numbers_alone():
    def masks() -> list[bytes]:
        asked: list[bytes] = []

        def game(shown: NDArray[np.bool_]) -> list[float]:
            asked.append(shown.tobytes())
            return [float(shown[3])]  # most branches are tied at 0

        owen(game, [40], evaluations=120, batch=16)
        return asked

    np.random.seed(5)
    first = masks()
    after = np.random.rand()
    np.random.seed(5)
    assert np.random.rand() == after
    assert masks() == first
