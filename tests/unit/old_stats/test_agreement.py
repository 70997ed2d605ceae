"""Coefficients of agreement, against values worked out by hand and published ones."""

import numpy as np
import pytest

from medstress.metrics.old_stats.agreement import MISSING, agreement


def rows_of(table):
    """Ratings of two raters from a table of counts."""
    return [(i, j) for i, line in enumerate(table) for j, n in enumerate(line) for _ in range(n)]


def test_cohens_kappa_is_one_minus_observed_over_chance_disagreement():
    # 20 yes-yes, 5 yes-no, 10 no-yes, 15 no-no: p_o = .7, p_e = .5 * .6 + .5 * .4 = .5.
    rows = rows_of([[20, 5], [10, 15]])
    found = agreement(rows, range(50))
    assert found.raw.value == pytest.approx(0.7)
    assert found.cohen.value == pytest.approx((0.7 - 0.5) / (1 - 0.5))
    assert (found.cohen.n, found.n_raters) == (50, 2)
    # Its large-sample standard error is .1265 (Fleiss, Cohen and Everitt 1969).
    assert found.cohen.high - found.cohen.low == pytest.approx(2 * 1.96 * 0.1265, rel=0.12)
    assert found.fleiss.value is None


def test_fleiss_kappa_of_the_example_of_1971():
    # Fleiss 1971, as tabled widely: 10 subjects, 14 raters, 5 categories; kappa = .210.
    counts = [
        [0, 0, 0, 0, 14], [0, 2, 6, 4, 2], [0, 0, 3, 5, 6], [0, 3, 9, 2, 0], [2, 2, 8, 1, 1],
        [7, 7, 0, 0, 0], [3, 2, 6, 3, 0], [2, 5, 3, 2, 2], [6, 5, 2, 1, 0], [0, 2, 2, 3, 7],
    ]  # fmt: skip
    rows = [tuple(np.repeat(range(5), line).tolist()) for line in counts]
    found = agreement(rows, range(10))
    assert found.fleiss.value == pytest.approx(0.20993, abs=1e-5)
    assert found.cohen.value is None
    assert "14" in found.cohen.method


def test_krippendorffs_alpha_takes_cases_that_some_raters_left_out():
    # Krippendorff 2011, "Computing Krippendorff's alpha-reliability": three coders, * is missing.
    coders = ("*****3412113 3*3", "1*213343********", "**21344*2113 3*4")
    read = [
        [MISSING if c == "*" else int(c) - 1 for c in coder.replace(" ", "").ljust(15, "*")[:15]]
        for coder in coders
    ]
    found = agreement(list(zip(*read, strict=True)), range(15))
    assert found.krippendorff.value == pytest.approx(0.691, abs=5e-4)
    # By hand, two raters, nominal: alpha = 1 - (n - 1) D_o / D_e over 2 x 4 ratings.
    # Pairs: aa, aa, bb, ab; 4 + 1 = 5 a, 3 b. Disagreeing pairable 2 of 8; expected 2*5*3/(8*7).
    by_hand = agreement([(0, 0), (0, 0), (1, 1), (0, 1)], range(4)).krippendorff.value
    assert by_hand == pytest.approx(1 - (2 / 8) / (2 * 5 * 3 / (8 * 7)))


def test_perfect_and_opposite_raters():
    same = agreement([(0, 0), (1, 1)] * 10, range(20))
    assert (same.raw.value, same.cohen.value, same.krippendorff.value) == (1, 1, 1)
    opposite = agreement([(0, 1), (1, 0)] * 10, range(20))
    assert (opposite.raw.value, opposite.cohen.value) == (0, -1)


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([], "no case"),
        ([(0, MISSING), (MISSING, 1)], "no case"),
        ([(0, 1)], "one case"),
        ([(0, 0)] * 9, "alike"),
    ],
)
def test_what_cannot_be_told_has_no_value_and_a_reason(rows, why):
    found = agreement(rows, range(len(rows))).krippendorff
    assert (found.value, found.low, found.high) == (None, None, None)
    assert why in found.method


def test_cases_of_one_item_are_drawn_together():
    rows = rows_of([[12, 3], [3, 12]])
    alone = agreement(rows, range(30)).raw
    doubled = agreement([*rows, *rows], [*range(30), *range(30)]).raw
    assert (alone.value, alone.low, alone.high) == (doubled.value, doubled.low, doubled.high)
    assert doubled.n == 60


def test_a_rater_of_whom_no_case_is_shared_is_no_rater():
    rows = [(0, 0, MISSING), (1, 0, MISSING), (MISSING, MISSING, 1), (1, 1, MISSING)]
    found = agreement(rows, range(4))
    assert found.n_raters == 2
    assert found.cohen.value is not None


def test_a_missing_library_is_said_in_place_of_a_number(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "krippendorff", None)
    found = agreement([(0, 1), (1, 1), (0, 0)], range(3))
    assert found.krippendorff.value is None
    assert "medstress[review]" in found.krippendorff.method
    assert found.raw.value is not None
