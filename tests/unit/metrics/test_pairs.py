"""Paired comparisons of attacks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, norm

from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.metrics import attack_tests, benjamini_hochberg, difference_of, pair_trials
from medstress.metrics.old_stats.paired import Difference

Make = Callable[..., TrialRow]
HELD, FLIPPED = Verdict.HELD, Verdict.FLIPPED


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


def by_item(first: list[TrialRow], second: list[TrialRow]) -> list[tuple[str, bool, bool]]:
    """The pairs, each with the first name of its unit: the document, else the item."""
    return [(unit[0], one, other) for unit, one, other in pair_trials(first, second)]


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
    assert sorted(by_item(first, second)) == [("a", True, False), ("d", False, False)]


def test_an_item_is_paired_with_every_seed_that_both_attacks_ran(trial: Make) -> None:
    first = [trial(seed=0, verdict=FLIPPED), trial(seed=1), trial(seed=2, verdict=FLIPPED)]
    second = [trial(seed=2, verdict=FLIPPED), trial(seed=1, verdict=FLIPPED)]
    assert sorted(by_item(first, second)) == [("q1", False, True), ("q1", True, True)]


def test_different_seeds_are_never_paired(trial: Make) -> None:
    assert pair_trials([trial(seed=0)], [trial(seed=1)]) == []


def test_a_deterministic_attack_stands_for_every_seed_of_the_other(trial: Make) -> None:
    once = [trial(seed=None, verdict=FLIPPED)]
    seeded = [trial(seed=1, verdict=FLIPPED), trial(seed=0)]
    assert sorted(by_item(once, seeded)) == [("q1", True, False), ("q1", True, True)]
    assert sorted(by_item(seeded, once)) == [("q1", False, True), ("q1", True, True)]


def test_repeats_are_paired_with_their_like(trial: Make) -> None:
    first = [trial(repeat=1, verdict=FLIPPED), trial(repeat=0)]
    assert by_item(first, [trial(verdict=FLIPPED)]) == [("q1", False, True)]


def test_entities_of_one_sentence_and_sentences_of_one_document_are_one_unit(trial: Make) -> None:
    """3 sentences of 4 entities: by entity 12 discordant pairs gave p = .0005."""
    given = [{"item_id": f"s{i}", "unit": f"{j}:{j + 1}:Drug"} for i in range(3) for j in range(4)]
    first = [trial(attack="a", verdict=FLIPPED, **one) for one in given]
    second = [trial(attack="b", **one) for one in given]
    (row,) = attack_tests([*first, *second])
    assert row["statistic"] == [12, 0]
    assert row["p"] > 0.08
    assert "over 12 pairs of 3 items" in row["method"]
    known = [replace(row, cluster="d") for row in [*first, *second]]
    (row,) = attack_tests(known)
    assert row["p"] > 0.3
    assert "over 12 pairs of 1 items" in row["method"]


@pytest.mark.release
def test_a_rate_pooled_over_seeds_is_tested_pooled(trial: Make) -> None:
    """200 items x 5 seeds, .30 against .35: the first seed alone has a power of about .16."""
    rng, found, powers = np.random.default_rng(29), [], []
    for _ in range(20):
        flips = rng.random((2, 200, 5)) < np.array([0.35, 0.30])[:, None, None]
        trials = [
            trial(
                attack="ab"[a], item_id=str(i), seed=s, verdict=FLIPPED if flips[a, i, s] else HELD
            )
            for a in range(2)
            for i in range(200)
            for s in range(5)
        ]
        (row,) = attack_tests(trials)
        assert row["difference"]["n"] == 1000
        b, c = ((flips[0, :, 0] > flips[1, :, 0]).sum(), (flips[1, :, 0] > flips[0, :, 0]).sum())
        found.append(row["p"] < 0.05)
        powers.append(binomtest(b, b + c).pvalue < 0.05)
    # Power .67 against about .16 (normal approximation); three standard errors of 20 runs are .32.
    assert np.mean(found) >= 0.67 - 0.32
    assert np.mean(powers) <= 0.16 + 0.25
    assert sum(found) > sum(powers)


def test_controls_and_samplers_are_families_of_their_own(trial: Make) -> None:
    """Six attacks of seven controls each: 42 and 15 comparisons, not 48 x 47 / 2 = 1,128."""
    names = ("no_op", "repeat", "same_type", "paraphrase", "shuffle", "neutral", "noise")
    trials = []
    for a in range(6):
        for i in range(8):
            trials.append(trial(attack=f"a{a}", item_id=str(i), verdict=FLIPPED))
            trials += [
                trial(attack=f"a{a} / {name}", arm=name, item_id=str(i), verdict=HELD)
                for name in names
            ]
    tests = attack_tests(trials)
    controls = [row for row in tests if row["family"] == "controls"]
    samplers = [row for row in tests if row["family"] == "samplers"]
    assert (len(controls), len(samplers), len(tests)) == (42, 15, 57)
    assert all(row["against"].startswith(f"{row['comparison']} / ") for row in controls)
    assert not any("/" in row["comparison"] + row["against"] for row in samplers)
    assert {row["p_adjusted"] for row in samplers} == {1.0}
    assert all(row["p"] == pytest.approx(row["p_adjusted"]) for row in controls)


def test_the_samplers_p_is_adjusted_among_samplers_alone(trial: Make) -> None:
    trials = [
        trial(attack=attack, item_id=str(i), verdict=FLIPPED if i < n else HELD)
        for attack, n in (("nearest", 10), ("pdws", 4), ("random", 0))
        for i in range(12)
    ]
    trials += [trial(victim="other", attack="random"), trial(victim="other", attack="pdws")]
    tests = attack_tests(trials)
    compared = [(row["victim"], row["comparison"], row["against"]) for row in tests]
    assert compared == [
        ("mock", "nearest", "pdws"),
        ("mock", "nearest", "random"),
        ("mock", "pdws", "random"),
        ("other", "pdws", "random"),
    ]
    assert [row["statistic"] for row in tests] == [[6, 0], [10, 0], [4, 0], [0, 0]]
    ps = [row["p"] for row in tests]
    assert ps == pytest.approx([2 * norm.sf(sqrt(n)) for n in (6, 10, 4)] + [1])
    assert [row["p_adjusted"] for row in tests] == pytest.approx(benjamini_hochberg(ps))


def test_what_is_merely_measured_is_not_tested(trial: Make) -> None:
    trials = [trial(attack=a, verdict=Verdict.MEASURED) for a in ("swap", "keyboard")]
    assert attack_tests(trials) == []


def test_attacks_without_a_common_item_have_no_p_value_and_do_not_enter_the_family(
    trial: Make,
) -> None:
    trials = [
        *(trial(attack="a", item_id=str(i), verdict=FLIPPED) for i in range(5)),
        *(trial(attack="b", item_id=str(i)) for i in range(5)),
        trial(attack="c", item_id="elsewhere"),
    ]
    a_b, a_c, b_c = attack_tests(trials)
    assert (a_c["p"], a_c["p_adjusted"], b_c["p"]) == (None, None, None)
    assert a_b["p"] == a_b["p_adjusted"] == pytest.approx(2 * norm.sf(sqrt(5)))


def test_seeds_that_repeat_the_same_answers_make_no_difference_surer_by_document(
    trial: Make,
) -> None:
    """Each of 8 documents holds six items; its design effect is cut at 1."""

    def found(n_seeds: int) -> Difference:
        arms = [
            [
                trial(
                    item_id=f"{d}-{i}",
                    cluster=str(d),
                    seed=seed,
                    verdict=FLIPPED if i in flipped else Verdict.HELD,
                )
                for d in range(8)
                for i in range(6)
                for seed in range(n_seeds)
            ]
            for flipped in ([0], [1, 2])
        ]
        return difference_of(*arms)

    one, ten = found(1), found(10)
    assert (ten.estimate.n, ten.only_first) == (480, 80)
    assert ten.estimate.value == pytest.approx(one.estimate.value)
    ends = (one.estimate.low, one.estimate.high, one.p)
    assert (ten.estimate.low, ten.estimate.high, ten.p) == pytest.approx(ends, rel=0.05)
    assert ten.estimate.low is not None
    assert one.estimate.low is not None
    assert ten.estimate.low <= one.estimate.low + 1e-9
