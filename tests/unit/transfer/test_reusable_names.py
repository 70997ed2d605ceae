"""Reusable entities: ranking, cross-fitting, universality, overlap of lists."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.metrics.arms import arrange
from medstress.metrics.diversity import replacement_diversity
from medstress.transfer.reusable_names import (
    QueriedNames,
    cross_fitted,
    folds,
    jaccard,
    overlap_rows,
    rank_biased_overlap,
    ranking,
    reusable_rows,
    universality_rows,
)

Make = Callable[..., TrialRow]
PLACE = ("sample", "drugs", "mock")


def flipped(trial: Make, item: str, name: str, **given: object) -> TrialRow:
    return trial(item_id=item, verdict=Verdict.FLIPPED, replacement=name, **given)


def test_names_are_ranked_by_successes_then_items_then_spelling(trial: Make) -> None:
    rows = [
        *(flipped(trial, f"q{i}", "Zinc") for i in range(3)),
        flipped(trial, "q3", "zinc"),
        flipped(trial, "q1", "beta", seed=0),
        flipped(trial, "q1", "beta", seed=1),
        flipped(trial, "q1", "alpha"),
        flipped(trial, "q2", "alpha"),
        trial(item_id="q9"),
    ]
    assert ranking(rows) == [("zinc", 4, 4), ("alpha", 2, 2), ("beta", 2, 1)]


def test_folds_are_even_and_do_not_depend_on_order() -> None:
    items = [f"q{i}" for i in range(23)]
    found = folds(items)
    assert sorted(list(found.values()).count(i) for i in range(5)) == [4, 4, 5, 5, 5]
    assert folds(reversed(items)) == found


def test_no_item_is_asked_a_name_that_its_own_fold_alone_brought_up(trial: Make) -> None:
    """Every item succeeds with a name of its own: ranked elsewhere, none is its own."""
    rows = [flipped(trial, f"q{i}", f"name{i}") for i in range(20)]
    fold_of = folds(f"q{i}" for i in range(20))
    for item, top in cross_fitted(rows, 20).items():
        assert len(top) == 16
        assert f"name{item[1:]}" not in top
        assert {fold_of[f"q{name[4:]}"] for name in top} == set(range(5)) - {fold_of[item]}


def asked(
    item: str, top: tuple[str, ...], outcomes: tuple[str, ...], **given: object
) -> QueriedNames:
    values = {"place": PLACE, "attack": "random", "asked": top, "n_answered": len(outcomes)}
    reached = outcomes[-1:] == ("wrong",)
    return QueriedNames(item_id=item, top=top, reached=reached, **(values | given))  # type: ignore[arg-type]


def test_universality_counts_items_that_the_first_m_names_flip(trial: Make) -> None:
    items = [f"q{i}" for i in range(10)]
    rows = [flipped(trial, item, name) for item in items[:8] for name in ("a", "b", "c")]
    rows += [trial(item_id=item) for item in items[8:]]
    tops = cross_fitted(rows, 3)
    assert set(tops.values()) == {("a", "b", "c")}
    outcomes = {0: ("wrong",), 1: ("right", "wrong"), 2: ("right", "unreadable", "wrong")}
    found = [
        asked(item, tops[item], outcomes.get(i, ("right",) * 3)) for i, item in enumerate(items)
    ]
    rows_of = universality_rows(arrange(rows), found, [3, 1, 2])
    assert [(row["m"], row["universality"]["value"]) for row in rows_of] == [
        (1, 0.1),
        (2, 0.2),
        (3, 0.3),
    ]
    assert {row["universality"]["n"] for row in rows_of} == {10}


def test_a_name_left_out_on_an_item_keeps_the_ranks_of_the_others(trial: Make) -> None:
    rows = [flipped(trial, f"q{i}", name) for i in range(10) for name in ("a", "b")]
    (item, *_), top = sorted(cross_fitted(rows, 2)), ("a", "b")
    one = asked(item, top, ("wrong",), asked=("b",))
    first, second = universality_rows(arrange(rows), [one], [1, 2])
    assert (first["universality"]["value"], second["universality"]["value"]) == (None, 1.0)
    assert (first["n_never_asked"], second["n_never_asked"]) == (10, 9)


def test_answers_to_a_ranking_that_has_changed_are_left_out(trial: Make) -> None:
    rows = [flipped(trial, f"q{i}", "a") for i in range(10)]
    stale = [asked(f"q{i}", ("z",), ("wrong",)) for i in range(10)]
    (row,) = universality_rows(arrange(rows), stale, [1])
    assert (row["n_items"], row["universality"]["n"]) == (10, 0)


def test_without_any_success_nothing_is_asked_and_nothing_is_known(trial: Make) -> None:
    (row,) = universality_rows(arrange([trial(item_id=f"q{i}") for i in range(6)]), [], [5])
    assert (row["universality"]["value"], row["universality"]["n"]) == (None, 0)
    assert (row["n_items"], row["n_never_asked"]) == (6, 6)


def test_only_what_was_asked_is_in_the_denominator(trial: Make) -> None:
    """Of ten items three may take no name, one call failed at the second of two names."""
    rows = [flipped(trial, f"q{i}", name) for i in range(10) for name in ("a", "b")]
    top = ("a", "b")
    found = [asked(f"q{i}", top, ("right", "wrong")) for i in range(4)]
    found += [asked(f"q{i}", top, ("right", "unreadable")) for i in range(4, 6)]
    found.append(asked("q6", top, ("right",)))
    found += [asked(f"q{i}", top, (), asked=()) for i in range(7, 10)]
    first, second = universality_rows(arrange(rows), found, [1, 2])
    assert (first["universality"]["value"], first["universality"]["n"]) == (0.0, 7)
    assert (second["universality"]["value"], second["universality"]["n"]) == (4 / 6, 6)
    for row, unanswered in ((first, 0), (second, 1)):
        assert (row["n_items"], row["n_never_asked"], row["n_unanswered"]) == (10, 3, unanswered)


def test_the_name_that_is_ranked_is_that_of_the_first_success(trial: Make) -> None:
    """As in ASR and diversity, also where the search went on for a valid one."""
    first = {"first_success_replacement": "Nearly The Key", "first_success_edits": '[["B"]]'}
    rows = [flipped(trial, f"q{i}", f"valid {i}", **first) for i in range(4)]
    assert ranking(rows) == [("nearly the key", 4, 4)]
    assert replacement_diversity(rows).value == 0


def test_rbo_of_the_papers_kind_of_lists_agrees_with_a_sum_to_great_depth() -> None:
    """Equal lists agree at all depths; where agreement stays A from depth k on, RBO_EXT is the
    infinite sum (1-p) sum_d p^(d-1) A_d, taken here to depth 2,000."""
    first, second, p = "abcdefg", "bacdefg", 0.9
    agreement = [0.0, *[1.0] * 1999]
    expected = (1 - p) * sum(p**d * a for d, a in enumerate(agreement))
    assert rank_biased_overlap(first, second, p) == pytest.approx(expected)
    half = [1.0, 0.5, *[0.5] * 1998]  # a shared, then b against c: agreement stays 1/2
    expected = (1 - p) * sum(p**d * a for d, a in enumerate(half))
    assert rank_biased_overlap("ab", "ac", p) == pytest.approx(expected)


def test_rbo_of_uneven_lists_follows_equation_32_by_hand() -> None:
    """S = a, L = a b, p = 1/2: X = 1, 1. (1-p)/p = 1; sum X_d/d p^d = 1/2 + 1/8;
    sum over d = 2 of X_s (d-s)/(s d) p^d = 1/8; tail (0 + 1) p^2 = 1/4. Together 1."""
    assert rank_biased_overlap(["a"], ["a", "b"], 0.5) == pytest.approx(1.0)
    # S = b, L = a b: X = 0, 1, X_s = 0. 0 + 1/2 * 1/4 + ((1 - 0)/2 + 0) / 4 = 1/4.
    assert rank_biased_overlap(["b"], ["a", "b"], 0.5) == pytest.approx(0.25)


def test_lists_without_a_name_have_no_overlap_to_speak_of() -> None:
    assert jaccard([], []) is None
    assert rank_biased_overlap([], ["a"]) is None


def test_rows_list_names_and_compare_victims(trial: Make) -> None:
    rows = [flipped(trial, f"q{i}", name) for i in range(4) for name in ("a", "b")]
    rows += [flipped(trial, f"q{i}", "a", victim="other") for i in range(4)]
    arms = arrange(rows)
    first, second = reusable_rows(arms)
    assert first["names"][0] == {"name": "a", "n_successes": 4, "n_items": 4}
    assert (first["n_successes"], first["n_names"], second["n_names"]) == (8, 2, 1)
    overlap = overlap_rows(arms)
    assert [row["m"] for row in overlap] == [5, 10, 20]
    assert overlap[0]["jaccard"] == 0.5
