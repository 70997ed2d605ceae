"""Valid successes: people, a panel or a measured checker vouch; rules refute or say nothing."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Any

import numpy as np
import pytest

from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.metrics import asr, asr_unrefuted, asr_valid, asr_valid_bounds, asr_valid_bounds_at
from medstress.metrics.counts import pick_success
from medstress.metrics.valid_bounds import n_censored, n_validity_unknown
from medstress.stats.estimates import wilson_ends

Make = Callable[..., TrialRow]
FLIPPED = Verdict.FLIPPED


def success(trial: Make, item: object, said: bool | None, by: str, **given: Any) -> TrialRow:
    """One success: what is said of its validity, and by whom. People look at what no rule refuted,
    unless the test says otherwise."""
    looked = {"first_unrefuted_success": 1} if by == "review" else {}
    values = {"valid": said, "validity_reason": by, **looked, **given}
    return trial(item_id=str(item), verdict=FLIPPED, **values)


def successes(trial: Make, *kinds: tuple[int, bool | None, str]) -> list[TrialRow]:
    """So many successes of each kind, each about an item of its own."""
    rows: list[TrialRow] = []
    for n, said, by in kinds:
        rows += [success(trial, f"s{len(rows) + i}", said, by) for i in range(n)]
    return rows


def held(trial: Make, n: int) -> list[TrialRow]:
    return [trial(item_id=f"h{i}") for i in range(n)]


def test_rules_vouch_for_nothing_so_the_rate_is_null_and_has_bounds(trial: Make) -> None:
    trials = successes(trial, (30, None, "rule"), (10, False, "synonym")) + held(trial, 60)
    assert asr(trials).value == 0.4
    assert asr_valid(trials) is None
    assert asr_valid_bounds(trials) == [0, 0.3, 0.3]
    assert asr_unrefuted(trials).value == 0.3
    assert n_validity_unknown(trials) == 30


def test_without_any_success_there_is_nothing_to_vouch_for(trial: Make) -> None:
    assert (asr_valid(held(trial, 5)), asr_valid_bounds(held(trial, 5))) == (None, [0, 0, 0])
    assert (asr_valid([]), asr_valid_bounds([])) == (None, None)
    assert asr_valid_bounds([trial(verdict=Verdict.ALREADY_WRONG)]) is None
    assert n_validity_unknown([trial(valid=None)]) == 0


def test_a_labelled_subsample_speaks_for_all_successes(trial: Make) -> None:
    labels = [(15, True, "review"), (5, False, "review")]
    trials = successes(trial, *labels, (20, None, "rule")) + held(trial, 60)
    found = asr_valid(trials)
    assert found is not None
    assert (found.vouched_by, found.n_labels, found.estimate.n) == ("review", 20, 100)
    p, (p_low, p_high) = 0.4, wilson_ends(40, 100)
    v, (v_low, v_high) = 0.75, wilson_ends(15, 20)
    assert found.estimate.value == pytest.approx(p * v)
    low = p * v - sqrt(((p - p_low) * v) ** 2 + ((v - v_low) * p) ** 2)
    high = p * v + sqrt(((p_high - p) * v) ** 2 + ((v_high - v) * p) ** 2)
    assert (found.estimate.low, found.estimate.high) == (pytest.approx(low), pytest.approx(high))
    assert asr_valid_bounds(trials) == [0.15, 0.35, 0.35]


def test_open_disputes_count_at_their_worst_on_either_side(trial: Make) -> None:
    labels = [(4, True, "review"), (1, False, "review")]
    trials = successes(trial, *labels, (5, None, "review")) + held(trial, 6)
    found = asr_valid(trials)
    assert found is not None
    assert (found.n_labels, found.n_disputed) == (5, 5)
    ways = [
        asr_valid(successes(trial, *labels, (5, valid, "review")) + held(trial, 6))
        for valid in (False, True)
    ]
    assert None not in ways
    ends = (ways[0].estimate.low, ways[1].estimate.high)  # type: ignore[union-attr]
    assert found.settled_ends == pytest.approx(ends)
    assert found.settled_ends[0] < found.estimate.low  # type: ignore[operator]
    settled = asr_valid(successes(trial, *labels) + held(trial, 6))
    assert settled is not None
    assert settled.settled_ends == (settled.estimate.low, settled.estimate.high)


@pytest.mark.parametrize(
    ("kinds", "source", "value"),
    [
        ([(3, True, "panel"), (1, False, "panel")], "panel", 0.3),
        ([(3, True, "checker"), (1, None, "checker")], "checker", 0.4),
        ([(2, True, "checker"), (1, True, "panel"), (1, False, "panel")], "panel", 0.2),
        ([(1, True, "checker"), (2, False, "panel"), (1, True, "review")], "review", 0.2),
        ([(1, None, "review"), (1, True, "panel"), (2, None, "rule")], "panel", 0.4),
    ],
)
def test_the_most_trusted_source_counts_alone(
    trial: Make, kinds: list[tuple[int, bool | None, str]], source: str, value: float
) -> None:
    """Four successes of ten; experts at odds have not spoken."""
    rows = successes(trial, *kinds)
    # What a panel refuted, and no expert has looked at, stays refuted.
    found = asr_valid([*rows, *held(trial, 6)])
    assert found is not None
    assert (found.vouched_by, found.estimate.value) == (source, pytest.approx(value))


def test_labels_of_what_rules_left_do_not_speak_for_what_they_refuted(trial: Make) -> None:
    """Of 40 successes a rule refutes 20; a person looks at 10 of the others and finds all valid."""
    kinds = [(10, True, "review"), (10, None, "rule"), (20, False, "same_words")]
    trials = successes(trial, *kinds) + held(trial, 60)
    found = asr_valid(trials)
    assert found is not None
    assert found.estimate.value == pytest.approx(0.2)  # .4 if they spoke for all
    # The same person looks at 10 of the refuted as well, and finds 4 of these valid.
    looked = [
        success(trial, f"r{i}", i < 4, "review", first_unrefuted_success=None) for i in range(10)
    ]
    rest = successes(trial, *kinds[:2], (10, False, "same_words")) + held(trial, 60)
    found = asr_valid([*rest, *looked])
    assert found is not None
    assert found.estimate.value == pytest.approx(0.2 + 0.2 * 0.4)
    assert found.n_labels == 20


def test_with_labels_of_refuted_successes_alone_the_others_stay_unknown(trial: Make) -> None:
    label = success(trial, "r", True, "review", first_unrefuted_success=None)
    rows = [label, *successes(trial, (3, None, "rule"))]
    assert asr_valid(rows) is None
    assert asr_valid_bounds(rows) == [0.25, 1, 1]


def test_the_bounds_count_unknown_and_censored_successes_when_they_can_come(trial: Make) -> None:
    trials = [
        success(trial, 1, True, "panel", first_success=1, first_valid_success=3),
        success(trial, 2, None, "rule", first_success=2),
        success(trial, 3, False, "synonym", first_success=1, censored=True),
        success(trial, 4, False, "synonym", first_success=1, censored=False),
    ]
    bounds = [each["bounds"] for each in asr_valid_bounds_at(trials, 4)]
    # The censored search ended at query 1: a valid success could have come from query 2 on.
    assert bounds == [[0, 0, 0], [0, 0.25, 0.5], [0.25, 0.5, 0.75], [0.25, 0.5, 0.75]]
    assert asr_valid_bounds(trials) == bounds[-1]
    assert n_censored(trials) == 1
    assert [pick_success(row) for row in trials] == [3, 2, 1, 1]


def test_bounds_of_a_long_search_are_listed_where_they_change(trial: Make) -> None:
    trials = [success(trial, b, None, "rule", first_success=b) for b in (7, 900, 2500)]
    found = asr_valid_bounds_at(trials, 3000)
    assert [each["budget"] for each in found] == [1, 7, 900, 2500, 3000]
    assert found[-1]["bounds"] == [0, 1, 1]


@pytest.mark.parametrize(
    ("n_labels", "rate", "valid"), [(20, 0.3, 0.5), (50, 0.6, 0.9), (200, 0.6, 0.7)]
)
def test_the_interval_covers_a_planted_share(
    trial: Make, n_labels: int, rate: float, valid: float
) -> None:
    """400 items, each flipped with probability `rate`, validly with `valid` of these."""
    rng, n, repeats, covered = np.random.default_rng(29), 400, 120, 0
    missed = [trial(item_id=str(i)) for i in range(n)]
    kinds = {
        said: [success(trial, i, said, "review") for i in range(n)] for said in (True, False, None)
    }
    for _ in range(repeats):
        flipped, holds = rng.random(n) < rate, rng.random(n) < valid
        labelled = np.cumsum(flipped) <= n_labels
        found = asr_valid(
            [
                kinds[bool(holds[i]) if labelled[i] else None][i] if flipped[i] else missed[i]
                for i in range(n)
            ]
        )
        assert found is not None
        low, high = found.estimate.low, found.estimate.high
        assert low is not None
        assert high is not None
        covered += low <= rate * valid <= high
    assert covered / repeats >= 0.92
