"""What is left of an attack, and of its advantage, when variants of the key do not count."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from medstress.core.errors import MedstressError
from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.metrics import asr_at
from medstress.metrics.counts import check_trial
from medstress.metrics.second_answers import second_answers
from medstress.stats.estimates import wilson_ends

Make = Callable[..., TrialRow]
MARK = {"sampler": "pdws", "n": -20, "variants": "mark", "budget": 4}


def arm(trial: Make, label: str, spec: dict[str, Any], outcomes: str) -> list[TrialRow]:
    """One trial an item: `u` a success of unknown validity, `r` a refuted one, `.` held, `x`
    already wrong."""
    verdicts = {"u": Verdict.FLIPPED, "r": Verdict.FLIPPED, ".": Verdict.HELD}
    return [
        trial(
            attack=label,
            attack_spec=json.dumps(spec),
            item_id=f"q{i}",
            verdict=verdicts.get(outcome, Verdict.ALREADY_WRONG),
            **({"valid": None if outcome == "u" else False} if outcome in "ur" else {}),
        )
        for i, outcome in enumerate(outcomes)
    ]


def test_the_advantage_is_the_paired_difference_to_random_draws(trial: Make) -> None:
    near = arm(trial, "near", MARK, "urrr..u.")
    random = arm(trial, "uniform", MARK | {"sampler": "random", "n": None}, "u...u..x")
    (place,) = (found := second_answers(near + random))
    assert place == ("sample", "drugs", "mock")
    first, second = found[place]
    assert (first.attack, first.advantage, second.attack) == ("uniform", None, "near")
    assert (second.asr.value, second.asr_unrefuted.value) == (5 / 8, 2 / 8)
    assert second.advantage is not None
    assert second.advantage_unrefuted is not None
    # Seven items are eligible under both.
    assert (second.advantage.n, second.advantage.value) == (7, pytest.approx(5 / 7 - 2 / 7))
    assert second.advantage_unrefuted.value == pytest.approx(2 / 7 - 2 / 7)
    assert second.advantage.low is not None
    assert second.advantage.high is not None
    assert second.advantage.low <= 3 / 7 <= second.advantage.high


def test_the_interval_pairs_items(trial: Make) -> None:
    """Two arms that succeed on the same items have no discordant pair: +- z^2 / (8 + z^2)."""
    near, random = (
        arm(trial, label, MARK | {"sampler": sampler}, "uu.ur...")
        for label, sampler in (("near", "pdws"), ("uniform", "random"))
    )
    (arms,) = second_answers(near + random).values()
    assert arms[1].advantage is not None
    end = wilson_ends(0, 8)[1]
    assert arms[1].advantage.value == 0
    assert (arms[1].advantage.low, arms[1].advantage.high) == pytest.approx((-end, end))


def test_attacks_that_exclude_variants_are_left_out(trial: Make) -> None:
    assert second_answers(arm(trial, "a", MARK | {"variants": "exclude"}, "ur.")) == {}
    assert second_answers([]) == {}
    assert second_answers(arm(trial, "a", {}, "ur.")) == {}


def test_without_random_draws_there_is_no_advantage(trial: Make) -> None:
    (arms,) = second_answers(arm(trial, "near", MARK, "ur.")).values()
    assert (arms[0].advantage, arms[0].asr_unrefuted.value) == (None, 1 / 3)


def test_pdws_without_a_preference_draws_at_random(trial: Make) -> None:
    trials = arm(trial, "n=0", MARK | {"n": 0}, "u.") + arm(trial, "a near", MARK, "uu")
    (arms,) = second_answers(trials).values()
    assert [each.attack for each in arms] == ["n=0", "a near"]


def test_arms_without_a_common_eligible_item_have_no_difference(trial: Make) -> None:
    trials = arm(trial, "near", MARK, "ux") + arm(trial, "u", MARK | {"sampler": "random"}, "xu")
    (arms,) = second_answers(trials).values()
    assert arms[1].advantage is not None
    assert arms[1].advantage.value is None


def test_a_long_curve_lists_where_it_changes_and_its_ends(trial: Make) -> None:
    trials = [
        trial(item_id=str(b), verdict=Verdict.FLIPPED, first_success=b) for b in (7, 900, 2500)
    ]
    assert [point["budget"] for point in asr_at(trials, 3000)] == [1, 7, 900, 2500, 3000]
    assert len(asr_at(trials[:1], 1000)) == 1000


@pytest.mark.parametrize("number", [None, 1, 5])
def test_a_valid_success_without_a_number_of_its_own_is_refused(
    trial: Make, number: int | None, said
) -> None:
    given = {"valid": True, "first_unrefuted_success": 2, "first_valid_success": number}
    row = trial(verdict=Verdict.FLIPPED, first_success=2, **given)
    told = "succeeded validly and does not say" if number is None else "query 2 and validly at"
    with pytest.raises(MedstressError, match=told):
        check_trial(row, {"random": 4})
    row = trial(verdict=Verdict.FLIPPED, first_success=2, valid=None, first_unrefuted_success=5)
    with pytest.raises(MedstressError) as caught:
        check_trial(row, {"random": 4})
    said(str(caught.value))
