"""Unreadable is not a guess: what is said of victims whose answers cannot be read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.metrics import above_chance
from medstress.metrics.cautions import cautions
from medstress.metrics.unreadable import unread_sentence, victims_unread
from medstress.papers.arms import baseline

Make = Callable[..., TrialRow]
RIGHT, WRONG, UNREAD = Verdict.HELD, Verdict.ALREADY_WRONG, Verdict.UNREADABLE


def rows(trial: Make, right: int, wrong: int, unread: int, **given: Any) -> list[TrialRow]:
    verdicts = [RIGHT] * right + [WRONG] * wrong + [UNREAD] * unread
    return [
        trial(
            item_id=str(i),
            key="ABCD"[i % 4],
            verdict=verdict,
            n_asked=int(verdict is RIGHT),
            n_paid=int(verdict is RIGHT),
            **given,
        )
        for i, verdict in enumerate(verdicts)
    ]


@pytest.mark.parametrize(
    ("counts", "unread", "guesses"),
    [
        ((19, 1, 80), "80 of 100", False),  # knows what it says: .95 of 20 readable answers
        ((0, 0, 100), "100 of 100", False),
        ((20, 60, 20), "20 of 100", True),
        ((25, 75, 0), None, True),
        ((90, 9, 1), None, False),
        ((80, 10, 10), "10 of 100", False),
        # .33 [.246, .427] of all and .347 [.259, .447] of those read: the unreadable make it low.
        ((33, 62, 5), "5 of 100", False),
        ((30, 65, 5), "5 of 100", True),
    ],
)
def test_unreadable_answers_are_named_and_only_readable_ones_can_be_guesses(
    trial: Make, counts: tuple[int, int, int], unread: str | None, guesses: bool
) -> None:
    given = rows(trial, *counts)
    said = cautions(given, {})
    about = [each for each in said if "unreadable" in each]
    assert [each.partition(": ")[2][: len(unread or "")] for each in about] == [unread] * len(about)
    assert bool(about) is (unread is not None)
    assert any("is not above chance" in each for each in said) is guesses


def test_the_accuracy_of_a_guess_is_that_of_its_readable_answers(trial: Make) -> None:
    (said,) = [s for s in cautions(rows(trial, 20, 60, 20), {}) if "not above" in s]
    assert "(accuracy .25 of 80 readable answers, 95 % " in said


def test_where_nothing_was_read_nothing_is_tested_against_chance(trial: Make) -> None:
    assert above_chance(rows(trial, 0, 0, 9))["p"] is None
    assert above_chance(rows(trial, 0, 1, 8))["p"] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("counts", "guesses", "unread"),
    [
        ((19, 1, 80), False, "unreadable in 80 of 100 clean answers"),
        ((0, 0, 40), False, "unreadable in 40 of 40 clean answers"),
        ((20, 60, 20), True, "unreadable in 20 of 100 clean answers"),
        ((25, 75, 0), True, ""),
        ((90, 10, 0), False, ""),
    ],
)
def test_figures_call_guesses_only_those_that_can_be_read(
    trial: Make, counts: tuple[int, int, int], guesses: bool, unread: str
) -> None:
    class OneArm:
        trials = rows(trial, *counts)

    arm: Any = OneArm()
    found = baseline([arm])
    assert (found.guesses, found.unreadable_note) == (guesses, unread)
    assert found.accuracy.n == sum(counts)


def test_replies_that_were_cut_off_are_said_by_victim(trial: Make) -> None:
    given = [
        *rows(trial, 8, 0, 0, n_length=2, n_unreadable=2),
        *(trial(item_id=f"u{i}", verdict=UNREAD, finish_reason="length") for i in range(3)),
        *rows(trial, 8, 0, 0, victim="other"),
    ]
    (said,) = [each for each in cautions(given, {}) if "cut off" in each]
    assert said.startswith("mock: replies were cut off before their end")
    assert "in 3 trials about the clean item and in 16 queries under attack" in said


def row(victim: str, **given: int) -> dict[str, Any]:
    names = ("n_eligible", "n_already_wrong", "n_unreadable_at_baseline", "n_unreadable_answers")
    names += ("n_length_at_baseline", "n_length_answers")
    asked = {"asked": given.pop("asked", 0), "failed": given.pop("failed", 0)}
    return {"victim": victim, "queries": asked, **dict.fromkeys(names, 0), **given}


@pytest.mark.parametrize(
    ("results", "unread"),
    [
        ([row("v", n_unreadable_at_baseline=4)], ["v"]),
        ([row("v")], []),  # nothing was answered
        ([row("v", n_unreadable_at_baseline=4), row("v", n_already_wrong=1)], []),
        ([row("v", n_unreadable_at_baseline=4), row("w", n_eligible=1)], ["v"]),
        ([row("v", n_unreadable_at_baseline=4, asked=3, n_unreadable_answers=2)], []),
        ([row("v", n_unreadable_at_baseline=4, asked=3, failed=1, n_unreadable_answers=2)], ["v"]),
    ],
)
def test_a_victim_is_unread_where_no_answer_of_it_could_be_read(
    results: list[dict[str, Any]], unread: list[str]
) -> None:
    assert list(victims_unread({"results": results})) == unread


def test_three_raw_replies_are_shown_and_long_ones_with_both_ends() -> None:
    long = "Well. " * 200 + "I cannot say."
    said = unread_sentence("v", {"clean": 4, "edited": 2, "cut": 0}, ["a\nb", long, "", "never"])
    assert said.startswith("Every answer of v is unreadable (4 about clean items and 2 under")
    assert '"a b" | "Well. Well.' in said
    assert 'I cannot say." | ""' in said
    assert "[...]" in said
    assert "never" not in said.partition("Raw replies")[2]
