"""Models trained on copies, planted: taggers whose F1 is counted by hand, and pairs."""

import pytest

from medstress.analyses.training import TRAINING
from medstress.core.arms import AttackRecord
from planted_trials import arm, paired, planted_run, tagged

SWAP = AttackRecord(label="swap", name="swap_noise", budget=1, whole_copy=True, judged=False)
RIGHT, WRONG = "B-Drug O O O", "O B-Drug O O"


def model(kind, seed=0):
    return {"victim": f"{kind}-{seed}", "model": kind, "seed": seed, "measure": "f1", "curve": []}


def trained(trials, models, **kind):
    adversarial = [{"name": "noisy", "attacks": ["swap"], "redrawn": False, **kind}]
    notes = {
        "model": "base",
        "n_train": 9,
        "n_dev": 0,
        "adversarial": adversarial,
        "models": models,
        "cautions": ["1 training seed: intervals say nothing of other seeds"],
    }
    return planted_run(trials, training=notes).of(TRAINING)


def texts(victim, n_clean, n_attacked, n=40):
    """A model that marks the entity in so many texts, else another word: F1 = share of these."""
    here = arm(SWAP, victim=victim)
    return [
        one
        for i in range(n)
        for one in tagged(
            i, here, RIGHT, RIGHT if i < n_clean else WRONG, RIGHT if i < n_attacked else WRONG
        )
    ]


ORIGINAL, NOISY, TWICE = model("original"), model("noisy"), model("original twice")


def test_the_gain_is_what_training_keeps_under_attack():
    trials = [*texts("original-0", 36, 16), *texts("noisy-0", 32, 28)]
    training = trained(trials, [ORIGINAL, NOISY])
    (row,) = training.rows
    assert (row.model, row.against, row.trained_on, row.measure) == (
        "noisy",
        "original",
        True,
        "f1",
    )
    assert row.scores.clean.value == pytest.approx(36 / 40)
    assert row.scores.attacked.value == pytest.approx(16 / 40)
    assert row.scores.trained_attacked.value == pytest.approx(28 / 40)
    assert row.scores.clean_loss.value == pytest.approx(4 / 40)
    assert row.scores.gain.value == pytest.approx(12 / 40)
    assert row.scores.recovered.value == pytest.approx(12 / 20)
    assert "nothing of other seeds" in row.scores.gain.method
    original = {s.measure: s for s in training.scores if s.model == "original"}
    assert [name for name, s in original.items() if s.is_main] == ["f1"]
    assert original["recall"].attacked.value == pytest.approx(16 / 40)


def test_models_that_read_the_data_twice_are_the_fair_comparison():
    trials = [
        *texts("original-0", 36, 16),
        *texts("original twice-0", 36, 30),
        *texts("noisy-0", 36, 32),
    ]
    training = trained(trials, [ORIGINAL, TWICE, NOISY])
    gains = {(row.model, row.against): row.scores.gain.value for row in training.rows}
    assert gains == {
        ("noisy", "original"): pytest.approx(16 / 40),
        ("original twice", "original"): pytest.approx(14 / 40),
        ("noisy", "original twice"): pytest.approx(2 / 40),
    }


def test_three_seeds_are_drawn_with_the_texts():
    models, trials = [], []
    for seed, kept in ((0, 34), (1, 26), (2, 18)):
        models += [model("original", seed), model("noisy", seed)]
        trials += texts(f"original-{seed}", 36, 16) + texts(f"noisy-{seed}", 36, kept)
    (row,) = trained(trials, models).rows
    assert row.n_seeds == 3
    assert row.scores.gain.value == pytest.approx(10 / 40)
    assert "3 training seeds" in row.scores.gain.method
    # The seeds gain 18, 10 and 2 of 40: Student's t with two degrees of freedom reaches below 0.
    assert row.scores.gain.low < 0


def pairs(victim, sign, n):
    """A model whose scores are the gold ones, and under attack these times a sign."""
    here = arm(SWAP, victim=victim)
    return [
        paired(i, here, float(i % 5), float(i % 5), sign * (i % 5) + 0.1 * (i % 3))
        for i in range(n)
    ]


def test_a_correlation_that_turns_round_is_recovered():
    trials = [*pairs("original-0", -1.0, 60), *pairs("noisy-0", 1.0, 60)]
    training = trained(trials, [ORIGINAL, NOISY])
    (row,) = training.rows
    assert row.measure == "pearson"
    assert row.scores.clean.value == pytest.approx(1.0)
    assert row.scores.attacked.value == pytest.approx(-0.998, abs=5e-3)
    assert row.scores.recovered.value == pytest.approx(1.0, abs=0.01)
    assert {s.measure for s in training.scores} == {"pearson", "spearman"}
    original, noisy = (s for s in training.scores if s.is_main)
    assert original.attacked == row.scores.attacked
    assert noisy.attacked.value == pytest.approx(0.998, abs=5e-3)
