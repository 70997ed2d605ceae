"""Confidence of trials: what is before, what is after, and where nothing is known."""

from collections.abc import Callable
from typing import Any

import pytest

from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.metrics.confidence import (
    answers_after,
    answers_before,
    confidence_fields,
    flips_confident,
    key_probability_change,
)

Make = Callable[..., TrialRow]


def flip(trial: Make, item: str, before: float, key: float, wrong: float, **more: Any) -> TrialRow:
    """A flip: P(key) before and at the success, and the probability of the wrong answer there."""
    return trial(
        item_id=item,
        verdict=Verdict.FLIPPED,
        score_before=before,
        confidence_before=before,
        first_success_score=key,
        first_success_confidence=wrong,
        **more,
    )


def held(trial: Make, item: str, before: float, **more: Any) -> TrialRow:
    return trial(item_id=item, score_before=before, confidence_before=before, **more)


def wrong(trial: Make, item: str, confidence: float) -> TrialRow:
    return trial(
        item_id=item,
        verdict=Verdict.ALREADY_WRONG,
        score_before=(1 - confidence) / 3,
        confidence_before=confidence,
    )


def test_confident_flips_go_by_the_wrong_option_not_by_the_key(trial: Make) -> None:
    flips = [
        flip(trial, "a", 0.9, key=0.05, wrong=0.9),
        flip(trial, "b", 0.9, key=0.05, wrong=0.5),  # the key is as unlikely, the answer unsure
        flip(trial, "c", 0.9, key=0.2, wrong=0.8),
    ]
    found = flips_confident([*flips, held(trial, "d", 0.99)])
    assert (found.hits, found.n) == (2, 3)


def test_the_change_of_the_keys_probability_is_of_trials_with_both_answers(trial: Make) -> None:
    trials = [
        flip(trial, "a", 0.9, key=0.1, wrong=0.8),
        flip(trial, "b", 0.6, key=0.2, wrong=0.5, score_after=0.5),  # the pick came later
        held(trial, "c", 0.9),
        held(trial, "d", 0.7, score_after=0.6),  # a perturbed copy is answered once
        wrong(trial, "e", 0.9),
    ]
    found = key_probability_change(trials)
    assert (found.value, found.n) == (pytest.approx((-0.8 - 0.4 - 0.1) / 3), 3)


def test_after_is_the_first_success_where_there_is_one_else_the_clean_answer(trial: Make) -> None:
    trials = [
        flip(trial, "a", 0.9, key=0.1, wrong=0.7),
        held(trial, "b", 0.8),
        wrong(trial, "c", 0.6),
        trial(item_id="failed", verdict=Verdict.FAILED, at="attack", confidence_before=0.9),
        trial(item_id="unscored"),
    ]
    before = [(unit[1], confidence, right) for unit, confidence, right in answers_before(trials)]
    after = [(unit[1], confidence, right) for unit, confidence, right in answers_after(trials)]
    assert before == [("a", 0.9, True), ("b", 0.8, True), ("c", 0.6, False)]
    assert after == [("a", 0.7, False), ("b", 0.8, True), ("c", 0.6, False)]


def test_an_attack_that_leads_to_confident_errors_is_seen_in_calibration_alone(trial: Make) -> None:
    sure = [flip(trial, f"f{i}", 0.9, key=0.05, wrong=0.9) for i in range(50)]
    unsure = [flip(trial, f"f{i}", 0.9, key=0.3, wrong=0.4) for i in range(50)]
    rest = [*(held(trial, f"h{i}", 0.9) for i in range(40)), *(wrong(trial, "w", 0.9),)]
    for flips, calibrated in ((sure, False), (unsure, True)):
        found = confidence_fields([*flips, *rest])
        assert found["calibration_before"]["value"] == pytest.approx(0.1 - 1 / 91, abs=0.002)
        worse = found["calibration_after"]["low"] > found["calibration_before"]["high"]
        assert worse is True if not calibrated else found["calibration_after"]["value"] < 0.3
        area = found["risk_coverage"]
        assert area["after"]["area"]["value"] > area["before"]["area"]["value"]
    # Errors that are unsure come last in order of confidence.
    told = confidence_fields([*unsure, *rest])["risk_coverage"]["after"]["points"]
    assert told[0]["value"] < 0.1 < told[-1]["value"]


def test_without_scores_every_field_is_null_and_says_why(trial: Make) -> None:
    found = confidence_fields([trial(), trial(item_id="q2", verdict=Verdict.FLIPPED)])
    plain = [value for name, value in found.items() if name != "risk_coverage"]
    curves = [found["risk_coverage"][when]["area"] for when in ("before", "after")]
    for each in (*plain, *curves):
        assert (each["value"], each["low"], each["n"]) == (None, None, 0)
        assert each["method"] == "the victim gives no scores"
    assert found["risk_coverage"]["before"]["points"] == []


def test_the_similarity_of_a_pair_is_no_probability(trial: Make) -> None:
    pair = trial(n_options=0, score_before=3.2, score_after=1.0, verdict=Verdict.MEASURED)
    assert key_probability_change([pair]).value is None
