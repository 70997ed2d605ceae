"""Effects and verdicts on planted trials whose answer is known."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from math import sqrt
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm, spearmanr

from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.metrics.contrasts import (
    diversity_difference,
    length_correlation,
    similarity_difference,
    success_difference,
    success_gain,
)
from medstress.metrics.old_stats.estimates import Estimate, unknown
from medstress.papers.claims.verdicts import (
    Finding,
    above,
    below,
    frequent,
    gap_over_inflection,
    inside,
    lead_after_inflection,
    mean_difference,
    peak_inside,
    size_trend,
)

Make = Callable[..., TrialRow]


def interval(low: float, high: float) -> Estimate:
    return Estimate(value=(low + high) / 2, n=50, low=low, high=high, method="made up")


@pytest.fixture
def arm(trial: Make) -> Callable[..., list[TrialRow]]:
    """Trials of one attack: the first success of each item (None: held), and what else is given."""

    def build(firsts: Iterable[int | None], **given: Any) -> list[TrialRow]:
        rows = []
        for i, first in enumerate(firsts):
            values = {k: v(i) if callable(v) else v for k, v in given.items()}
            if first is not None:
                values |= {"verdict": Verdict.FLIPPED, "first_success": first}
            rows.append(trial(item_id=f"q{i:03}", **values))
        return rows

    return build


def share(k: int, n: int = 100) -> list[int | None]:
    return [1 if i < k else None for i in range(n)]


# -- verdicts -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "high", "verdict", "opposite"),
    [
        (0.01, 0.2, "supported", "contradicted"),
        (-0.2, -0.01, "contradicted", "supported"),
        (-0.1, 0.1, "undecided", "undecided"),
        (0.0, 0.1, "undecided", "undecided"),
    ],
)
def test_a_direction_is_judged_by_the_whole_interval(low, high, verdict, opposite) -> None:
    assert above(interval(low, high)) == verdict
    assert below(interval(low, high)) == opposite


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (-0.05, 0.05, "supported"),
        (0.01, 0.03, "supported"),
        (0.06, 0.2, "contradicted"),
        (-0.3, -0.051, "contradicted"),
        (0.02, 0.2, "undecided"),
        (-0.2, 0.2, "undecided"),
    ],
)
def test_closeness_is_judged_by_equivalence(low, high, verdict) -> None:
    assert inside(interval(low, high), -0.05, 0.05) == verdict


def test_what_has_no_interval_is_not_tested() -> None:
    lack = unknown("nothing there")
    verdicts = {above(lack), below(lack), inside(lack, -1, 1), frequent(lack)}
    assert verdicts == {Finding.NOT_TESTED}


# -- success --------------------------------------------------------------------------------------


def test_a_paired_difference_of_success_has_its_size_sign_and_p(arm) -> None:
    found = success_difference([arm(share(60))], [arm(share(20))], 1)
    assert found.estimate.value == pytest.approx(0.4)
    assert above(found.estimate) == Finding.SUPPORTED
    assert found.p == pytest.approx(2 * norm.sf(sqrt(40)))
    swapped = success_difference([arm(share(20))], [arm(share(60))], 1)
    assert above(swapped.estimate) == Finding.CONTRADICTED
    same = success_difference([arm(share(60))], [arm(share(60))], 1)
    assert (same.estimate.value, same.p) == (0, 1)
    assert above(same.estimate) == Finding.UNDECIDED


def test_a_side_is_the_mean_over_its_attacks_on_the_items_of_all(arm) -> None:
    first = [arm(share(100)), arm(share(0, 50))]
    found = success_difference(first, [arm(share(0))], 1)
    assert (found.estimate.value, found.estimate.n) == (0.5, 100)  # two pairs an item


def test_success_after_the_budget_does_not_count(arm) -> None:
    late = [arm([3] * 60 + [None] * 40)]
    assert success_difference(late, [arm(share(0))], 2).estimate.value == 0
    assert success_difference(late, [arm(share(0))], 3).estimate.value == pytest.approx(0.6)
    assert success_gain(late, 3).estimate.value == pytest.approx(0.6)
    assert above(success_gain(late, 3).estimate) == Finding.SUPPORTED
    assert above(success_gain([arm(share(50))], 3).estimate) == Finding.UNDECIDED


def test_nine_items_are_too_few_for_an_interval(arm) -> None:
    found = success_difference([arm(share(9, 9))], [arm(share(0, 9))], 1)
    assert found.estimate.value is None
    assert found.estimate.method == "needs 10 items in common, has 9"


# -- diversity and similarity ---------------------------------------------------------------------


def test_diversity_is_higher_where_every_success_has_its_own_name(arm) -> None:
    varied = arm(share(80), replacement=lambda i: f"name {i}")
    alike = arm(share(80), replacement=lambda i: f"name {i % 2}")
    found = diversity_difference([varied], [alike], 1).estimate
    assert found.value == pytest.approx(1 - 80 / 2 / 79)
    assert above(found) == Finding.SUPPORTED
    assert above(diversity_difference([alike], [varied], 1).estimate) == Finding.CONTRADICTED
    other = arm(share(80), replacement=lambda i: f"name {(i + 1) % 2}")
    same = diversity_difference([alike], [other], 1).estimate
    assert same.method.endswith("no interval, as all resamples agree")
    assert above(same) == Finding.NOT_TESTED


def test_the_same_name_for_an_item_in_every_seed_is_no_reuse_between_items(arm) -> None:
    near = [
        row
        for seed in range(3)
        for row in arm(share(60), replacement=lambda i: f"own {i}", seed=seed)
    ]
    far = [
        row
        for seed in range(3)
        for row in arm(share(60), replacement=lambda i, s=seed: f"other {i} {s}", seed=seed)
    ]
    found = diversity_difference([near], [far], 1).estimate
    assert found.value == pytest.approx(0)
    assert above(found) == Finding.NOT_TESTED  # all resamples agree


def test_diversity_needs_successes_on_both_sides(arm) -> None:
    varied = arm(share(80), replacement=lambda i: f"name {i}")
    found = diversity_difference([varied], [arm(share(3))], 1).estimate
    assert found.method == "needs 10 successes a side, has 80 and 3"


def test_similarity_is_compared_over_successes_alone(arm) -> None:
    def similar(level: float) -> Callable[[int], float]:
        return lambda i: level + 0.01 * (i % 3) if i < 50 else 0.0

    high = arm(share(50), prompt_similarity=similar(0.9))
    low = arm(share(50), prompt_similarity=lambda i: similar(0.7)(i) + 0.001 * (i % 2 - 0.5))
    found = similarity_difference([high], [low], 1).estimate
    assert found.value == pytest.approx(0.2)
    assert above(found) == Finding.SUPPORTED
    assert above(similarity_difference([low], [high], 1).estimate) == Finding.CONTRADICTED
    assert similarity_difference([high], [arm(share(50))], 1).estimate.value is None


def test_similarity_within_a_budget_is_of_the_successes_of_that_budget(arm) -> None:
    """Also where the search went on and a later pick is shown."""
    level = {1: 0.9, 3: 0.1}

    def side(shift: float) -> list[TrialRow]:
        firsts = [1 if i % 2 else 3 for i in range(60)]
        return arm(
            firsts,
            first_valid_success=4,
            prompt_similarity=lambda i: level[firsts[i]] - shift,
        )

    first, second = [side(0.0)], [side(0.05)]
    found = similarity_difference(first, second, 1).estimate
    assert (found.value, found.n) == (pytest.approx(0.05), 60)
    assert similarity_difference(first, second, 3).estimate.n == 120


@pytest.mark.parametrize(
    ("slope", "verdict"), [(1.0, "supported"), (-1.0, "contradicted"), (0.0, "undecided")]
)
def test_a_planted_correlation_of_length_and_similarity_is_found(arm, slope, verdict) -> None:
    rng = np.random.default_rng(3)
    lengths, noise = rng.integers(5, 30, 90), rng.normal(0, 4, 90)
    values = 0.5 + (slope * lengths + noise) / 200
    rows = arm(
        share(90, 90),
        listing_before=lambda i: "word " * int(lengths[i]),
        prompt_similarity=lambda i: float(values[i]),
    )
    found = length_correlation(rows).estimate
    assert found.value == pytest.approx(spearmanr(lengths, values).statistic)
    assert above(found) == verdict


def test_prompts_of_one_length_tell_nothing(arm) -> None:
    rows = arm(share(40), listing_before="two words", prompt_similarity=lambda i: i / 100)
    assert length_correlation(rows).estimate.method == "lengths or similarities are all the same"


# -- curves ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("successes", "verdict"),
    [
        ((10, 60, 10), "supported"),
        ((60, 30, 10), "contradicted"),
        ((40, 42, 10), "undecided"),
    ],
)
def test_a_local_maximum_is_told_from_a_slope(arm, successes, verdict) -> None:
    rng = np.random.default_rng(1)
    side = []
    for k in successes:
        hit = set(rng.permutation(100)[:k].tolist())
        side.append(arm([1 if i in hit else None for i in range(100)]))
    found = peak_inside(side, [-30, -20, -10], 1).estimate
    assert frequent(found) == verdict


def test_two_values_of_n_have_no_inside(arm) -> None:
    side = [arm(share(10)), arm(share(20))]
    found = peak_inside(side, [-20, -10], 1).estimate
    assert found.method == "needs three values of n, has 2"
    level = peak_inside([*side, arm(share(20))][1:] * 2, [-30, -20, -10, -5], 1).estimate
    assert level.method == "success is the same at every n"


def test_claims_draw_whole_documents_where_they_are_known(arm) -> None:
    # Ten documents whose items all agree.
    of = {"cluster": lambda i: f"d{i // 20}"}
    far, rising = bent(5), [*bent(5)[:100], *(6 + i % 10 for i in range(60)), *[None] * 40]
    ours, theirs = ([[*firsts[k::10]] for k in range(10)] for firsts in (rising, far))
    in_order = [[first for part in side for first in part] for side in (ours, theirs)]
    plain, whole = (
        lead_after_inflection(*([arm(side, **given)] for side in in_order), 30).estimate
        for given in ({}, of)
    )
    assert whole.value == plain.value
    assert "over 10 documents" in whole.method
    assert "over 200 items" in plain.method
    side = [arm([1 if i < k else None for i in range(100)], **of) for k in (20, 60, 40)]
    found = peak_inside(side, [-30, -20, -10], 1).estimate
    assert "of 5 documents" in found.method
    # Three of five documents make the peak; one resample in fifty or so holds none of them.
    assert (
        0.5
        < found.value
        < peak_inside(
            [arm([1 if i < k else None for i in range(100)]) for k in (20, 60, 40)],
            [-30, -20, -10],
            1,
        ).estimate.value
    )


def bent(at: int, n: int = 200) -> list[int | None]:
    """Half of the items fall evenly over the budgets up to `at` in ln(budget), the rest never."""
    steps = np.exp(np.linspace(0, np.log(at), n // 2))
    return [*(int(np.ceil(step - 1e-9)) for step in steps), *[None] * (n - n // 2)]


def test_random_overtakes_past_the_bend_only_where_it_does(arm) -> None:
    far = [arm(bent(5))]
    # As slow at first; from the bend on it goes on rising.
    rising = [*bent(5)[:100], *(6 + i % 10 for i in range(60)), *[None] * 40]
    found = lead_after_inflection([arm(rising)], far, 30).estimate
    assert above(found) == Finding.SUPPORTED
    assert "past the inflection" in found.method
    behind = [None if i % 2 else first for i, first in enumerate(bent(5))]
    found = lead_after_inflection([arm(behind)], far, 30).estimate
    assert above(found) == Finding.CONTRADICTED
    assert above(lead_after_inflection(far, far, 30).estimate) == Finding.NOT_TESTED


def test_the_largest_gap_is_placed_against_the_bend(arm) -> None:
    ours = [arm(bent(6, 60))]
    slow = [None if first is None else 30 for first in bent(6, 60)]
    found = gap_over_inflection(ours, [arm(slow)], 40).estimate
    assert inside(found, 0.5, 2) == Finding.SUPPORTED
    # The rival loses nothing until long after the bend.
    lost = [*bent(6, 60)[:30], *[33] * 24, *[None] * 6]
    found = gap_over_inflection(ours, [arm(lost)], 40).estimate
    assert inside(found, 0.5, 2) == Finding.CONTRADICTED
    assert found.value is not None
    assert found.value > 4


def test_curves_without_a_bend_are_not_judged(arm) -> None:
    flat, rising = [arm(share(50))], [arm(bent(5, 100))]
    assert lead_after_inflection(rising, flat, 8).estimate.method == "the curve is flat"
    assert gap_over_inflection(flat, rising, 8).estimate.method == "the curve is flat"
    assert gap_over_inflection(rising, rising, 8).estimate.method == "the two curves are the same"
    assert lead_after_inflection(rising, flat, 4).estimate.method == (
        "needs a budget of at least 5, has 4"
    )


def test_what_rests_on_a_plateau_is_not_tested_where_the_curve_only_rises(arm) -> None:
    """Success of .6(1 - .95^B): at 8 queries .20, with no bend but upwards."""
    rate = 0.6 * (1 - 0.95 ** np.arange(1, 9))
    rising = [None if (i + 0.5) / 400 > rate[-1] else int(np.searchsorted(rate, (i + 0.5) / 400))
              for i in range(400)]  # fmt: skip
    rising = [None if first is None else first + 1 for first in rising]
    rival = [arm([1 if i % 7 == 0 else None for i in range(400)])]
    for effect in (
        lead_after_inflection(rival, [arm(rising)], 8),
        gap_over_inflection([arm(rising)], rival, 8),
    ):
        assert effect.estimate.method == "no plateau within the budget"
        assert inside(effect.estimate, 0.5, 2) == Finding.NOT_TESTED


# -- victims --------------------------------------------------------------------------------------


def test_the_trend_with_size_has_the_planted_sign() -> None:
    sizes = (1e8, 1e9, 1e10, 1e11)
    # Off the line by a little: points on it leave no scatter to judge by.
    off = (0.0, 0.01, -0.01, 0.0)
    falling = victims(*(0.6 - 0.1 * i + off[i] for i in range(4)), sizes=sizes)
    assert below(size_trend(falling).estimate) == Finding.SUPPORTED
    rising = victims(*(0.2 + 0.1 * i + off[i] for i in range(4)), sizes=sizes)
    assert below(size_trend(rising).estimate) == Finding.CONTRADICTED
    assert below(size_trend(falling[:2]).estimate) == Finding.NOT_TESTED


def test_two_kinds_of_victims_are_compared_over_victims() -> None:
    close = mean_difference(
        victims(0.20, 0.21, 0.20, 0.21), victims(0.20, 0.21, 0.21, 0.20)
    ).estimate
    assert inside(close, -0.05, 0.05) == Finding.SUPPORTED
    apart = mean_difference(victims(0.50, 0.51, 0.50), victims(0.20, 0.21, 0.20)).estimate
    assert inside(apart, -0.05, 0.05) == Finding.CONTRADICTED
    few = mean_difference(victims(0.5), victims(0.2, 0.3)).estimate
    assert inside(few, -1, 1) == Finding.NOT_TESTED


# -- unreadable and failed answers ----------------------------------------------------------------

SIZES = (1e8, 1e9, 1e10, 1e11)


def test_a_trend_is_judged_with_what_is_open_at_its_worst() -> None:
    rates = (0.60, 0.51, 0.39, 0.30)
    sure = size_trend(victims(*rates, sizes=SIZES)).estimate
    assert below(sure) == Finding.SUPPORTED
    found = size_trend(victims(*rates, sizes=SIZES, open_by=0.2)).estimate
    assert found.value == sure.value
    assert below(found) == Finding.UNDECIDED
    assert "unreadable and failed answers at their worst" in found.method
    # By hand: the steepest line through the largest rates of the small and the least of the large.
    steepest = size_trend(victims(0.60, 0.51, 0.19, 0.10, sizes=SIZES)).estimate
    flattest = size_trend(victims(0.40, 0.31, 0.39, 0.30, sizes=SIZES)).estimate
    assert found.low == pytest.approx(steepest.low)
    assert found.high == pytest.approx(max(flattest.high, sure.high))


def test_a_difference_of_kinds_is_judged_with_what_is_open_at_its_worst() -> None:
    many, few = (0.50, 0.51, 0.50), (0.20, 0.21, 0.20)
    sure = mean_difference(victims(*many), victims(*few)).estimate
    assert above(sure) == Finding.SUPPORTED
    found = mean_difference(victims(*many, open_by=0.2), victims(*few, open_by=0.2)).estimate
    assert found.value == sure.value
    assert (found.low, found.high) == (
        pytest.approx(sure.low - 0.2),
        pytest.approx(sure.high + 0.2),
    )
    wide = mean_difference(victims(*many, open_by=0.4), victims(*few)).estimate
    assert above(wide) == Finding.UNDECIDED


def unread(rows: list[TrialRow], items: Iterable[int]) -> list[TrialRow]:
    """The trials of which some held, after an unreadable answer."""
    open_ = {f"q{i:03}" for i in items}
    return [replace(row, n_unreadable=1) if row.item_id in open_ else row for row in rows]


def test_a_lead_past_the_bend_is_judged_with_what_is_open_at_its_worst(arm) -> None:
    rising = [*bent(5)[:100], *(6 + i % 10 for i in range(60)), *[None] * 40]
    ours, theirs = arm(rising), arm(bent(5))
    sure = lead_after_inflection([ours], [theirs], 30).estimate
    assert above(sure) == Finding.SUPPORTED
    found = lead_after_inflection([ours], [unread(theirs, range(100, 200))], 30).estimate
    assert found.value == sure.value
    assert above(found) != Finding.SUPPORTED
    assert found.high == pytest.approx(sure.high)
    assert above(lead_after_inflection([ours], [unread(theirs, [150])], 30).estimate) == "supported"


def test_a_gap_is_judged_with_what_is_open_at_its_worst(arm) -> None:
    ours = arm(bent(6, 60))
    slow = arm([None if first is None else 30 for first in bent(6, 60)])
    sure = gap_over_inflection([ours], [slow], 40).estimate
    assert inside(sure, 0.5, 2) == Finding.SUPPORTED
    # If all that is open of the rival's were successes at once, the gap would lie elsewhere.
    found = gap_over_inflection([ours], [unread(slow, range(60))], 40).estimate
    assert found.value == sure.value
    assert inside(found, 0.5, 2) != Finding.SUPPORTED


def test_a_peak_is_judged_with_what_is_open_at_its_worst(arm) -> None:
    side = [arm(share(10)), arm(share(60)), arm(share(10))]
    exponents = [-30, -20, -10]
    sure = peak_inside(side, exponents, 1).estimate
    assert (frequent(sure), sure.low) == (Finding.SUPPORTED, None)
    side[0] = unread(side[0], range(10, 80))
    found = peak_inside(side, exponents, 1).estimate
    assert (found.value, found.high) == (sure.value, 1)
    assert found.low < 0.5
    assert frequent(found) == Finding.UNDECIDED


def test_a_gain_is_judged_with_what_is_open_at_its_worst(arm) -> None:
    firsts = [2 if i < 20 else None for i in range(100)]
    sure = success_gain([arm(firsts)], 8).estimate
    found = success_gain([unread(arm(firsts), range(10, 40))], 8).estimate
    assert found.value == sure.value == 0.2
    least, most = (success_gain([arm([2] * k + [None] * (100 - k))], 8) for k in (10, 40))
    assert (found.low, found.high) == (least.estimate.low, most.estimate.high)


def victims(
    *rates: float, sizes: Iterable[float] = SIZES, open_by: float = 0.0
) -> list[dict[str, Any]]:
    """One of each rate; so much of it is left open by unreadable answers."""
    return [
        {"parameters": size, "asr": rate, "asr_ends": (rate - open_by, rate)}
        for rate, size in zip(rates, sizes, strict=False)
    ]
