"""Samplers against Eq. 2 of Xian et al.: closed forms, and chi-square at fixed seeds.

A seed is part of each test, so that a test either always passes or never; p below .001 fails.
"""

from collections import Counter
from functools import cache
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from numpy.random import Generator, Philox
from scipy.stats import chisquare

from medstress.attacks.samplers import draw, log_weights
from medstress.core.items import Mention, Question
from medstress.core.seeding import rng_for
from medstress.entities.embeddings import Embedder
from medstress.entities.perturbations import VectorPerturbationSet
from medstress.entities.synonyms import load_synonyms
from medstress.entities.vocabularies import load_vocabulary

H = np.array([0.1, 0.2, 0.4])
ORACLE = {1: (1, 2, 4), -1: (4, 2, 1), 2: (1, 4, 16), 0: (1, 1, 1), -2: (16, 4, 1)}
N_DRAWS = 4_000
LEAST_P = 0.001


def rng(seed=0):
    return Generator(Philox(key=seed))


def shares(n):
    return np.array(ORACLE[n]) / sum(ORACLE[n])


@pytest.mark.parametrize("n", ORACLE)
def test_the_weights_of_the_oracle_are_exact(n):
    weights = np.exp(log_weights(H, n))
    np.testing.assert_allclose(weights / weights.sum(), shares(n), rtol=1e-12)


@pytest.mark.parametrize("n", ORACLE)
def test_two_draws_without_replacement_follow_the_closed_form(n):
    p, stream = shares(n), rng(n + 20)
    pairs = Counter(
        tuple(draw("pdws", H, np.arange(3), stream, 2, n).tolist()) for _ in range(N_DRAWS)
    )
    cells = list(permutations(range(3), 2))
    expected = [N_DRAWS * p[i] * p[j] / (1 - p[i]) for i, j in cells]
    assert sum(expected) == pytest.approx(N_DRAWS)
    assert set(pairs) <= set(cells)
    assert chisquare([pairs[cell] for cell in cells], expected).pvalue > LEAST_P


def test_another_exponent_than_the_one_drawn_with_is_told_apart():
    stream = rng()
    firsts = [int(draw("pdws", H, np.arange(3), stream, 1, 1.1)[0]) for _ in range(10_000)]
    observed = np.bincount(firsts, minlength=3)
    assert chisquare(observed, shares(1) * 10_000).pvalue < LEAST_P


def test_random_draws_are_uniform_over_what_is_allowed():
    h, allowed, stream = np.linspace(0.01, 2, 30), np.arange(5, 25), rng(1)
    drawn = [draw("random", h, allowed, stream, 1, None)[0] for _ in range(N_DRAWS)]
    observed = np.bincount(drawn, minlength=30)
    assert observed[:5].sum() == observed[25:].sum() == 0
    assert chisquare(observed[5:25]).pvalue > LEAST_P


def test_streams_of_items_are_as_good_as_one_stream():
    """As in a run: every item has a generator of its own, seeded from what the trial is."""
    firsts = [
        int(draw("pdws", H, np.arange(3), rng_for(0, "swap/drugs", "d", f"q{i}"), 1, 1)[0])
        for i in range(5_000)
    ]
    assert chisquare(np.bincount(firsts, minlength=3), shares(1) * 5_000).pvalue > LEAST_P


@pytest.mark.parametrize(("n", "limit"), [(-200, "nearest"), (200, "farthest")])
def test_a_large_exponent_is_the_sorted_order(n, limit):
    h = np.array([0.4, 0.1, 0.9, 0.2, 0.6])
    expected = draw(limit, h, np.arange(5), rng(), 5, None).tolist()
    stream = rng(2)
    for _ in range(500):
        assert draw("pdws", h, np.arange(5), stream, 5, n).tolist() == expected


@cache
def drugs():
    vocabulary = load_vocabulary("drugs", Path())
    embedder = Embedder("ngram", None, base=Path())
    return VectorPerturbationSet(vocabulary, embedder, load_synonyms("default", Path()))


QUESTION = Question(
    id="q",
    stem="Which drug prevents travel sickness?",
    options=("Famotidine", "Mesalamine", "Scopolamine", "Bisacodyl"),
    key="C",
    mentions=(Mention(field="A", start=0, end=10, type="T121"),),
)


def binned(p, least, most):
    """A bin for every name, of neighbours by p, each with at least `least` expected draws."""
    order = np.argsort(p, kind="stable")
    target = max(least / N_DRAWS, 1 / most)
    bins = np.empty(len(p), dtype=np.int64)
    number, mass = 0, 0.0
    for i in order:
        if mass >= target:
            number, mass = number + 1, 0.0
        bins[i] = number
        mass += p[i]
    if mass < target and number:
        bins[bins == number] = number - 1
    return bins


@pytest.mark.parametrize(
    "n", [-5, *(pytest.param(n, marks=pytest.mark.release) for n in (-20, 0, 20))]
)
def test_first_draws_from_the_shipped_drugs_follow_eq_2(n):
    names = drugs()
    h, allowed = names.distances(QUESTION.key_text), names.allowed(QUESTION)
    assert len(allowed) > 1_000
    with np.errstate(over="raise"):
        p = h[allowed] ** n  # plain powers, another way than the one under test
    p /= p.sum()
    stream = rng(int(n) + 100)
    firsts = [int(draw("pdws", h, allowed, stream, 1, n)[0]) for _ in range(N_DRAWS)]
    place = {int(name): i for i, name in enumerate(allowed)}
    bins = binned(p, least=20, most=40)
    observed = np.bincount([bins[place[name]] for name in firsts], minlength=bins.max() + 1)
    expected = np.bincount(bins, weights=p) * N_DRAWS
    assert len(expected) >= 5
    assert expected.min() >= 20
    assert chisquare(observed, expected).pvalue > LEAST_P


def test_on_the_shipped_drugs_the_sign_of_n_decides_near_or_far():
    names = drugs()
    h, allowed = names.distances(QUESTION.key_text), names.allowed(QUESTION)
    means = {n: h[draw("pdws", h, allowed, rng(3), 200, n)].mean() for n in (-50, -20, 0, 20, 50)}
    assert sorted(means, key=lambda n: means[n]) == [-50, -20, 0, 20, 50]
    near, far = (draw(s, h, allowed, rng(), 200, None) for s in ("nearest", "farthest"))
    assert h[near].mean() <= means[-50]
    assert h[far].mean() >= means[50]
