"""Models trained on copies, planted: questions, and pairs whose correlation is known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from medstress.analyses.shown import as_json
from medstress.analyses.training import TRAINING, Training
from medstress.core.arms import AttackRecord
from medstress.core.outcomes import Verdict
from medstress.core.trials import Trial
from medstress.testing.planted_trials import arm, paired, planted_run, trial

NEAR = AttackRecord(label="near", name="entity_substitution", budget=1)
SWAP = AttackRecord(label="swap", name="swap_noise", budget=1, whole_copy=True, judged=False)


def model(kind: str, seed: int = 0) -> dict[str, Any]:
    return {"victim": f"{kind}-{seed}", "model": kind, "seed": seed, "measure": "f1", "curve": []}


def trained(trials: list[Trial], models: list[dict[str, Any]], **kind: Any) -> Training:
    attacks = sorted({one.arm.attack.label for one in trials})
    adversarial = [{"name": "noisy", "attacks": attacks[:1], "redrawn": False, **kind}]
    notes = {
        "model": "base",
        "n_train": 9,
        "n_dev": 0,
        "adversarial": adversarial,
        "models": models,
        "cautions": ["1 training seed: intervals say nothing of other seeds"],
    }
    return planted_run(trials, training=notes).of(TRAINING)


def questions(victim: str, n_right: int, n_lost: int, n: int = 40, **rest: Any) -> list[Trial]:
    """A model that is right on so many questions, and loses so many of these."""
    here = arm(NEAR, victim=victim)
    return [
        trial(
            i,
            here,
            flipped_at=1 if i < n_lost else None,
            verdict=Verdict.HELD if i < n_right else Verdict.ALREADY_WRONG,
            **rest,
        )
        for i in range(n)
    ]


ORIGINAL, NOISY, TWICE = model("original"), model("noisy"), model("original twice")


def test_the_gain_is_what_training_keeps_under_attack() -> None:
    trials = [*questions("original-0", 36, 20), *questions("noisy-0", 32, 4)]
    training = trained(trials, [ORIGINAL, NOISY])
    (row,) = training.rows
    assert (row.model, row.against, row.trained_on, row.measure) == (
        "noisy",
        "original",
        True,
        "accuracy",
    )
    assert row.scores.clean.value == pytest.approx(36 / 40)
    assert row.scores.attacked.value == pytest.approx(16 / 40)
    assert row.scores.trained_attacked.value == pytest.approx(28 / 40)
    assert row.scores.clean_loss.value == pytest.approx(4 / 40)
    assert row.scores.gain.value == pytest.approx(12 / 40)
    assert row.scores.recovered.value == pytest.approx(12 / 20)
    assert "nothing of other seeds" in row.scores.gain.method


def test_models_that_read_the_data_twice_are_the_fair_comparison() -> None:
    trials = [
        *questions("original-0", 36, 20),
        *questions("original twice-0", 36, 6),
        *questions("noisy-0", 36, 4),
    ]
    training = trained(trials, [ORIGINAL, TWICE, NOISY])
    gains = {(row.model, row.against): row.scores.gain.value for row in training.rows}
    assert gains == {
        ("noisy", "original"): pytest.approx(16 / 40),
        ("original twice", "original"): pytest.approx(14 / 40),
        ("noisy", "original twice"): pytest.approx(2 / 40),
    }


def test_only_questions_that_all_models_answered_count() -> None:
    missing = trial(39, arm(NEAR, victim="noisy-0"), verdict=Verdict.FAILED)
    missing = replace(missing, at="baseline", before=None)
    trials = [*questions("original-0", 40, 20), *questions("noisy-0", 39, 0, n=39), missing]
    (row,) = trained(trials, [ORIGINAL, NOISY]).rows
    assert row.scores.clean.n == 39
    assert row.scores.clean.value == 1.0


def test_a_trained_model_that_falls_silent_under_attack_gains_nothing_for_sure() -> None:
    mute = questions("noisy-0", 36, 0, asked=1, unreadable=1)
    (row,) = trained([*questions("original-0", 36, 20), *mute], [ORIGINAL, NOISY]).rows
    gain = row.scores.gain
    assert gain.value == pytest.approx(20 / 40)
    assert gain.worst[0] < 0


def test_three_seeds_are_drawn_with_the_questions() -> None:
    models, trials = [], []
    for seed, lost in ((0, 2), (1, 10), (2, 18)):
        models += [model("original", seed), model("noisy", seed)]
        trials += questions(f"original-{seed}", 36, 20) + questions(f"noisy-{seed}", 36, lost)
    (row,) = trained(trials, models).rows
    assert row.n_seeds == 3
    assert row.scores.gain.value == pytest.approx(10 / 40)
    assert "3 training seeds" in row.scores.gain.method
    # The seeds gain 18, 10 and 2 of 40: Student's t with two degrees of freedom reaches below 0.
    assert row.scores.gain.low < 0


def pairs(victim: str, sign: float, n: int) -> list[Trial]:
    """A model whose scores are the gold ones, and under attack these times a sign."""
    here = arm(SWAP, victim=victim)
    return [
        paired(i, here, float(i % 5), float(i % 5), sign * (i % 5) + 0.1 * (i % 3))
        for i in range(n)
    ]


def test_a_correlation_that_turns_round_is_recovered() -> None:
    trials = [*pairs("original-0", -1.0, 60), *pairs("noisy-0", 1.0, 60)]
    training = trained(trials, [ORIGINAL, NOISY])
    (row,) = training.rows
    assert row.measure == "pearson"
    assert row.scores.clean.value == pytest.approx(1.0)
    assert row.scores.attacked.value == pytest.approx(-0.998, abs=5e-3)
    assert row.scores.recovered.value == pytest.approx(1.0, abs=0.01)
    original, noisy = training.scores
    assert original.attacked == row.scores.attacked
    assert noisy.attacked.value == pytest.approx(0.998, abs=5e-3)


def test_few_pairs_have_no_interval() -> None:
    trials = [*pairs("original-0", -1.0, 20), *pairs("noisy-0", 1.0, 20)]
    (row,) = trained(trials, [ORIGINAL, NOISY]).rows
    assert row.scores.gain.value is not None
    assert row.scores.gain.low is None
    assert "too few pairs for an interval: 20, and 40 needed" in row.scores.gain.method
    assert row.scores.recovered.value is None


def test_models_that_have_not_answered_yet_are_not_compared() -> None:
    training = trained(questions("original-0", 36, 20), [ORIGINAL, NOISY])
    assert training.rows == []
    assert [one.model for one in training.scores] == ["original"]


def test_tables_curves_and_sentences() -> None:
    trials = [*questions("original-0", 36, 20), *questions("noisy-0", 32, 4)]
    training = trained(
        trials, [ORIGINAL, NOISY], names_met={"near": 0.86}, n_left_out=3, n_offered=1_200
    )
    assert [one.name for one in training.tables() if one.rows] == ["training", "training-scores"]
    assert [one.name for one in training.charts() if one.points] == ["gain"]
    sentences = [remark.sentence for remark in training.remarks()]
    assert any(".86 of the mentions that near replaces" in one for one in sentences)
    assert any("3 of 1,200 items" in one for one in sentences)
    row = as_json(training)["rows"][0]
    assert {"dataset", "attack", "model", "against", "gain", "recovered", "n_seeds"} <= set(row)
    assert row["gain"]["value"] == pytest.approx(12 / 40)
