"""Paired comparisons of attacks."""

from __future__ import annotations

from collections.abc import Callable
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medstress.metrics import benjamini_hochberg, mcnemar, pair_trials, sampler_tests
from medstress.outcomes import Verdict
from medstress.rows import TrialRow

Make = Callable[..., TrialRow]
HELD, FLIPPED = Verdict.HELD, Verdict.FLIPPED


def discordant(b: int, c: int) -> list[tuple[bool, bool]]:
    return [(True, False)] * b + [(False, True)] * c


def test_ten_against_two_has_the_exact_p_value() -> None:
    found = mcnemar([*discordant(10, 2), (True, True), (False, False)])
    assert (found.n, found.only_first, found.only_second) == (14, 10, 2)
    assert found.p == 0.03857421875


@given(st.integers(0, 20), st.integers(0, 20))
def test_mcnemar_is_twice_the_smaller_binomial_tail(b: int, c: int) -> None:
    n = b + c
    tail = sum(comb(n, k) for k in range(min(b, c) + 1)) / 2**n
    found = mcnemar([*discordant(b, c), (True, True)])
    assert found.p == pytest.approx(min(1, 2 * tail))
    assert found.p == mcnemar([*discordant(c, b), (True, True)]).p


def test_without_discordant_pairs_p_is_1_and_without_pairs_there_is_none() -> None:
    assert mcnemar([(True, True), (False, False)]).p == 1
    assert mcnemar([]).p is None


def test_benjamini_hochberg_keeps_the_order_and_never_lowers_a_p_value() -> None:
    assert benjamini_hochberg([0.04, 0.01, 0.03, 0.5]) == pytest.approx(
        [0.04 * 4 / 3, 0.04, 0.04 * 4 / 3, 0.5]
    )
    assert benjamini_hochberg([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=10))
def test_adjusted_p_values_rank_like_the_p_values(ps: list[float]) -> None:
    adjusted = benjamini_hochberg(ps)
    in_order = [q for _, q in sorted(zip(ps, adjusted, strict=True))]
    assert in_order == sorted(adjusted)
    assert all(p <= q + 1e-12 and q <= 1 for p, q in zip(ps, adjusted, strict=True))


def test_only_items_eligible_under_both_attacks_are_paired(trial: Make) -> None:
    first = [
        trial(item_id="a", verdict=FLIPPED),
        trial(item_id="b", verdict=Verdict.ALREADY_WRONG),
        trial(item_id="c", verdict=FLIPPED),
        trial(item_id="d"),
    ]
    second = [
        trial(item_id="a"),
        trial(item_id="b"),
        trial(item_id="c", verdict=Verdict.FAILED, at="baseline"),
        trial(item_id="d", verdict=Verdict.FAILED, at="attack"),
        trial(item_id="e", verdict=FLIPPED),
    ]
    assert pair_trials(first, second) == [(True, False), (False, False)]


def test_an_item_is_paired_once_with_the_first_seed_both_attacks_ran(trial: Make) -> None:
    first = [trial(seed=0, verdict=FLIPPED), trial(seed=1), trial(seed=2, verdict=FLIPPED)]
    second = [trial(seed=2, verdict=FLIPPED), trial(seed=1, verdict=FLIPPED)]
    assert pair_trials(first, second) == [(False, True)]


def test_different_seeds_are_never_paired(trial: Make) -> None:
    assert pair_trials([trial(seed=0)], [trial(seed=1)]) == []


def test_a_deterministic_attack_pairs_with_the_first_seed_of_the_other(trial: Make) -> None:
    once = [trial(seed=None, verdict=FLIPPED)]
    seeded = [trial(seed=1, verdict=FLIPPED), trial(seed=0)]
    assert pair_trials(once, seeded) == [(True, False)]
    assert pair_trials(seeded, once) == [(False, True)]


def test_of_several_repeats_the_first_is_paired(trial: Make) -> None:
    first = [trial(repeat=1, verdict=FLIPPED), trial(repeat=0)]
    assert pair_trials(first, [trial(verdict=FLIPPED)]) == [(False, True)]


def test_every_two_attacks_of_a_place_make_one_test_and_the_family_is_adjusted(
    trial: Make,
) -> None:
    trials = [
        trial(attack=attack, item_id=str(i), verdict=FLIPPED if i < n else HELD)
        for attack, n in (("nearest", 10), ("pdws", 4), ("random", 0))
        for i in range(12)
    ]
    trials += [trial(victim="other", attack="random"), trial(victim="other", attack="pdws")]
    tests = sampler_tests(trials)
    compared = [(row["victim"], row["comparison"], row["against"]) for row in tests]
    assert compared == [
        ("mock", "nearest", "pdws"),
        ("mock", "nearest", "random"),
        ("mock", "pdws", "random"),
        ("other", "pdws", "random"),
    ]
    assert [row["statistic"] for row in tests] == [[6, 0], [10, 0], [4, 0], [0, 0]]
    ps = [row["p"] for row in tests]
    assert ps == pytest.approx([2 / 2**6, 2 / 2**10, 2 / 2**4, 1])
    assert [row["p_adjusted"] for row in tests] == pytest.approx(benjamini_hochberg(ps))
    assert {row["family"] for row in tests} == {"samplers"}
    assert "over 12 items" in tests[0]["method"]


def test_attacks_without_a_common_item_have_no_p_value_and_do_not_enter_the_family(
    trial: Make,
) -> None:
    trials = [
        *(trial(attack="a", item_id=str(i), verdict=FLIPPED) for i in range(5)),
        *(trial(attack="b", item_id=str(i)) for i in range(5)),
        trial(attack="c", item_id="elsewhere"),
    ]
    a_b, a_c, b_c = sampler_tests(trials)
    assert (a_c["p"], a_c["p_adjusted"], b_c["p"]) == (None, None, None)
    assert a_b["p"] == a_b["p_adjusted"] == 2 / 2**5
