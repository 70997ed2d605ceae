"""Scores of entities by document and of pairs that share a sentence, against planted clusters."""

from __future__ import annotations

import numpy as np
import pytest

from medstress.analyses.scores import Sample
from medstress.kinds.scores import CORRELATIONS
from medstress.stats.estimate import Estimate
from medstress.stats.permutation import swap_p
from medstress.stats.resampling import bootstrapped, unit_weights
from medstress.stats.trainings import Four, Measured, recovery
from samples import of_counts, of_pairs

NAMES = ("pearson", "spearman")

RUNS = 200
"""Simulated samples a case: a coverage of .95 has a standard error of .015."""
APART = 60
"""Those in which the clusters are not known either; it suffices to see that they are needed."""
N_DOCUMENTS = 100
FOUND = {"clean": 0.8, "attacked": 0.5, "trained_clean": 0.75, "trained_attacked": 0.65}
"""Planted recall of each arm."""
FALSE_ALARMS = 0.2
"""Planted, for each gold entity."""
CORRELATION = 0.3
"""Between entities of one document."""

Rng = np.random.Generator


def at_least(coverage: float, runs: int = RUNS) -> float:
    """The least to see of `runs` where it is `coverage`: three standard errors below."""
    return coverage - 3 * float(np.sqrt(coverage * (1 - coverage) / runs))


def covers(found: Estimate, truth: float) -> bool:
    return found.low is not None and found.high is not None and found.low <= truth <= found.high


def f1_of(recall: float) -> float:
    return 2 * recall / (recall + FALSE_ALARMS + 1)


def document(rng: Rng) -> dict[str, np.ndarray]:
    """(matches, found, gold) of each sentence of one entity, by arm; 1 to 30 of them.

    Each arm has an easiness of its own in each document, of which half is that of all arms.
    """
    n = int(rng.integers(1, 31))
    scale = 1 / CORRELATION - 1
    shared = rng.random()
    sums = {}
    for arm, recall in FOUND.items():
        u = shared if rng.random() < 0.5 else rng.random()
        easiness = np.quantile(rng.beta(recall * scale, (1 - recall) * scale, 400), u)
        hits = rng.random(n) < easiness
        alarms = rng.random(n) < FALSE_ALARMS
        sums[arm] = np.stack([hits, hits.astype(int) + alarms, np.ones(n)], axis=1).astype(float)
    return sums


def arms(rng: Rng) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Sums by document, and the same by sentence."""
    drawn = [document(rng) for _ in range(N_DOCUMENTS)]
    return (
        {arm: np.stack([one[arm].sum(0) for one in drawn]) for arm in FOUND},
        {arm: np.concatenate([one[arm] for one in drawn]) for arm in FOUND},
    )


def estimated(value: float | None, drawn: np.ndarray) -> Estimate:
    assert value is not None
    return bootstrapped(value, drawn, 1, "bootstrap")


def told(sums: dict[str, np.ndarray]) -> dict[str, bool]:
    """Which numbers of the summary cover what was planted."""
    samples = {arm: of_counts(s) for arm, s in sums.items()}
    draws = {arm: sample.draws for arm, sample in samples.items()}
    four = Four(
        **{
            arm: Measured(value=sample.value("f1"), drawn=draws[arm]["f1"])
            for arm, sample in samples.items()
        }
    )
    compared = recovery(four, len(sums["clean"]), "bootstrap")
    clean, drop = samples["clean"], draws["clean"]["f1"] - draws["attacked"]["f1"]
    lost = (clean.value("f1") or 0.0) - (samples["attacked"].value("f1") or 0.0)
    truth = {arm: f1_of(recall) for arm, recall in FOUND.items()}
    gain = truth["trained_attacked"] - truth["attacked"]
    loss = truth["clean"] - truth["attacked"]
    return {
        "recall": covers(
            estimated(clean.value("recall"), draws["clean"]["recall"]), FOUND["clean"]
        ),
        "f1": covers(estimated(clean.value("f1"), draws["clean"]["f1"]), truth["clean"]),
        "f1_drop": covers(estimated(lost, drop), loss),
        "gain": covers(compared.gain, gain),
        "recovered": covers(compared.recovered, gain / loss),
    }


@pytest.mark.release
def test_scores_drops_and_recovery_by_document_cover_what_is_planted() -> None:
    rng = np.random.default_rng(41)
    held, apart = dict.fromkeys(told(arms(rng)[0]), 0), {}
    for run in range(RUNS):
        by_document, by_sentence = arms(rng)
        for name, covered in told(by_document).items():
            held[name] += covered
        if run < APART:
            for name, covered in told(by_sentence).items():
                apart[name] = apart.get(name, 0) + covered
    assert {name: n for name, n in held.items() if n / RUNS < at_least(0.93)} == {}
    # By sentence they would be too narrow by far.
    assert {name: n for name, n in apart.items() if n / APART > 0.85} == {}


def linked_pairs(rng: Rng, n_clusters: int) -> tuple[tuple[Sample, Sample], ...]:
    """A victim's clean and perturbed scores beside gold ones, in clusters of 1 to 6 pairs.

    The same twice: the second time each pair is a cluster of its own.

    The victim errs alike on pairs that share a sentence, apart in each arm: half of the variance
    of what it errs by. Gold scores differ as much within clusters as between them.
    """
    of = np.repeat(np.arange(n_clusters), rng.integers(1, 7, n_clusters))

    def half_shared(size: float) -> np.ndarray:
        own, shared = rng.normal(size=len(of)), rng.normal(size=n_clusters)[of]
        return np.asarray(size * np.sqrt(0.5) * (own + shared))

    gold = half_shared(1.0)
    before, after = (gold + half_shared(1.0) for _ in range(2))
    both = before[None], after[None]
    ways = of, np.arange(len(of))
    return tuple((of_pairs(gold, both[0], way), of_pairs(gold, both[1], way)) for way in ways)


def correlation(of: Sample, name: str) -> Estimate:
    return estimated(of.value(name), of.draws[name])


def change(before: Sample, after: Sample, name: str) -> Estimate:
    fall = (before.value(name) or 0.0) - (after.value(name) or 0.0)
    return estimated(fall, before.draws[name] - after.draws[name])


def p_of(before: Sample, after: Sample, name: str) -> float:
    fall = (before.value(name) or 0.0) - (after.value(name) or 0.0)
    return swap_p(
        fall,
        lambda swaps: before.swapped(after, swaps)[name],
        before.n_clusters,
        CORRELATIONS.seed,
    )


@pytest.mark.release
def test_correlations_of_pairs_that_share_sentences_cover_what_is_planted() -> None:
    """Gold and error are normal with variance 1 each: r = sqrt(1/2) before and after.

    Spearman's of two normal variables is 6/pi arcsin(r/2).
    """
    rng = np.random.default_rng(42)
    held, apart, rejected, of_pairs = np.zeros(4), np.zeros(2), 0, 0
    runs, of_ranks = 150, 6 / np.pi * np.arcsin(np.sqrt(0.5) / 2)
    for run in range(runs):
        both, alone = linked_pairs(rng, 80)
        before = both[0]
        held += [
            covers(correlation(before, "pearson"), np.sqrt(0.5)),
            covers(correlation(before, "spearman"), of_ranks),
            covers(change(*both, "pearson"), 0.0),
            covers(change(*both, "spearman"), 0.0),
        ]
        if run < APART:
            apart += [
                covers(correlation(alone[0], "pearson"), np.sqrt(0.5)),
                covers(change(*alone, "pearson"), 0.0),
            ]
            rejected += p_of(*both, "pearson") <= 0.1
            of_pairs += p_of(*alone, "pearson") <= 0.1
    # 400 samples more: .91 to .92 by cluster, .82 to .85 by pair.
    assert held.min() / runs >= at_least(0.91, runs)
    assert apart.max() / APART <= 0.9
    # Before and after are exchangeable: 6 rejections are expected.
    assert rejected <= 14
    assert of_pairs > rejected


def test_a_resample_of_clusters_is_the_sample_with_each_pair_as_often_as_its_cluster() -> None:
    """Brute force: the resamples written out pair by pair, ranks with ties by scipy."""
    from scipy.stats import pearsonr, spearmanr

    rng = np.random.default_rng(43)
    gold = rng.integers(0, 5, 30).astype(float)
    scores = gold + rng.integers(0, 3, 30)
    _, clusters = np.unique(rng.integers(0, 12, 30), return_inverse=True)
    made = of_pairs(gold, scores[None], clusters)
    times = unit_weights(made.n_clusters)
    for name, oracle in zip(NAMES, (pearsonr, spearmanr), strict=True):
        assert made.value(name) == pytest.approx(oracle(gold, scores).statistic)
        drawn = made.draws[name]
        for row in range(0, len(drawn), 97):
            chosen = np.repeat(np.arange(made.n_clusters), times[row])
            places = [i for n in chosen for i in np.flatnonzero(clusters == n)]
            expected = oracle(gold[places], scores[places]).statistic
            assert drawn[row] == pytest.approx(expected, abs=1e-9)
