"""Which successes are asked again."""

from __future__ import annotations

from math import log

import pytest

from medstress.core.flip_checks import SHARE, in_sample, is_checked, margin_of
from medstress.core.outcomes import Outcome, Prediction

IN = next(str(n) for n in range(100) if in_sample(str(n)))
NEAR = 0.01
OUT = next(str(n) for n in range(100) if not in_sample(str(n)))


def answer(*scores: float) -> Prediction:
    return Prediction(outcome=Outcome.WRONG, answer="B", scores=scores or None)


@pytest.mark.parametrize("trial", [IN, OUT])
@pytest.mark.parametrize("checks", [True, False])
def test_all_or_none_whatever_the_margin(trial: str, checks: bool) -> None:
    assert is_checked(checks, trial, answer(log(0.5), log(0.5)), NEAR) is checks


@pytest.mark.parametrize(
    ("given", "near"),
    [
        (answer(-1.0, -1.0 - NEAR / 2, -9.0), True),
        (answer(-9.0, -1.0, -1.0), True),
        (answer(-1.0, -1.01 - NEAR), False),
        (answer(0.8), False),
        (answer(), False),
        (None, False),
    ],
)
def test_a_sample_holds_its_share_and_all_near_the_margin(
    given: Prediction | None, near: bool
) -> None:
    assert is_checked("sample", IN, given, NEAR)
    assert is_checked("sample", OUT, given, NEAR) is near


def test_the_share_is_what_the_page_says() -> None:
    """Of 20,000 ids, within four standard errors."""
    n = 20_000
    found = sum(in_sample(f"trial {i}") for i in range(n)) / n
    assert abs(found - SHARE) < 4 * (SHARE * (1 - SHARE) / n) ** 0.5


def test_the_margin_is_between_the_two_best() -> None:
    assert margin_of(answer(-3.0, -0.5, -1.25)) == 0.75
