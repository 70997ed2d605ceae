"""Rates at their worst: unreadable and failed answers against, and for, what is judged."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.metrics import asr, wilson
from medstress.metrics.bounds import accuracy_after_bounds, accuracy_bounds, asr_bounds
from medstress.metrics.cautions import cautions
from medstress.metrics.contrasts import success_difference
from medstress.papers.claims.verdicts import Finding, above

Make = Callable[..., TrialRow]
HELD, FLIPPED, WRONG = Verdict.HELD, Verdict.FLIPPED, Verdict.ALREADY_WRONG


def test_without_open_answers_the_bounds_are_the_intervals_ends(trial: Make) -> None:
    rows = [trial(item_id=str(i), verdict=FLIPPED if i < 3 else HELD) for i in range(10)]
    rows += [trial(item_id=f"w{i}", verdict=WRONG) for i in range(5)]
    found = asr(rows)
    assert asr_bounds(rows, 4) == [found.low, found.high]
    assert accuracy_bounds(rows) == [wilson(10, 15).low, wilson(10, 15).high]
    assert accuracy_after_bounds(rows, 4) == [wilson(7, 15).low, wilson(7, 15).high]


def test_unreadable_and_failed_answers_count_at_their_worst(trial: Make) -> None:
    """10 eligible: 3 flipped, 4 held, 2 held with unreadable answers, 1 failed under attack; one
    clean item unreadable, one failed, two wrong."""
    rows = [trial(item_id=str(i), verdict=FLIPPED if i < 3 else HELD) for i in range(7)]
    rows += [trial(item_id=f"u{i}", n_unreadable=1) for i in range(2)]
    rows += [
        trial(item_id="f", verdict=Verdict.FAILED, at="attack"),
        trial(item_id="b", verdict=Verdict.UNREADABLE),
        trial(item_id="c", verdict=Verdict.FAILED, at="baseline"),
        *(trial(item_id=f"w{i}", verdict=WRONG) for i in range(2)),
    ]
    assert asr(rows).value == 0.3
    # Of 10 eligible and 2 that may have been: 3 flipped, or 3 + 3 + 2.
    assert asr_bounds(rows, 4) == [wilson(3, 12).low, wilson(8, 12).high]
    assert accuracy_bounds(rows) == [wilson(10, 14).low, wilson(12, 14).high]
    assert accuracy_after_bounds(rows, 4) == [wilson(4, 14).low, wilson(9, 14).high]


def test_a_success_by_an_unreadable_answer_counts_above_and_not_below(trial: Make) -> None:
    unread = {"n_unreadable": 1, "first_success_answer": None}
    rows = [trial(item_id=str(i), verdict=FLIPPED, first_success_answer="B") for i in range(4)]
    rows += [trial(item_id=f"u{i}", verdict=FLIPPED, **unread) for i in range(4)]
    assert asr(rows).value == 1
    assert asr_bounds(rows, 4) == [wilson(4, 8).low, wilson(8, 8).high]


def test_nothing_eligible_has_no_bounds(trial: Make) -> None:
    assert asr_bounds([trial(verdict=WRONG)], 4) == [None, None]
    assert accuracy_bounds([trial(verdict=Verdict.NOT_ATTACKABLE)]) == [None, None]


def test_a_claim_that_unreadable_answers_could_turn_is_not_supported(trial: Make) -> None:
    """60 against 20 of 100; the rival's other 80 were all unreadable: they may have succeeded."""
    first = [trial(item_id=str(i), verdict=FLIPPED if i < 60 else HELD) for i in range(100)]
    read, unread = (
        [
            trial(attack="b", item_id=str(i), verdict=FLIPPED if i < 20 else HELD, n_unreadable=n)
            for i in range(100)
        ]
        for n in (0, 1)
    )
    assert above(success_difference([first], [read], 4).estimate) == Finding.SUPPORTED
    found = success_difference([first], [unread], 4)
    assert found.estimate.value == pytest.approx(0.4)
    assert above(found.estimate) == Finding.UNDECIDED
    assert found.p == 1
    assert found.estimate.method.endswith("unreadable and failed answers at their worst")


def test_a_victim_that_is_above_chance_only_because_answers_failed_is_named(trial: Make) -> None:
    """60 right of 80 answered, chance .5: above it, but not with 40 more wrong ones."""
    rows = [
        trial(
            item_id=str(i),
            key="AB"[i % 2],
            n_options=2,
            verdict=HELD if i < 60 else WRONG,
            n_asked=1,
            n_paid=1,
        )
        for i in range(80)
    ]
    failed = [
        trial(item_id=f"f{i}", key="AB"[i % 2], n_options=2, verdict=Verdict.FAILED, at="baseline")
        for i in range(40)
    ]
    assert cautions(rows, {}) == []
    (said, _) = cautions([*rows, *failed], {})
    assert said.startswith("mock on sample/drugs is not above chance")
    assert said.endswith("its success rate cannot be told from guessing.")
