"""Shares of the supported option, the key and anything else, by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.metrics.evidence import evidence


def test_a_trial_without_an_answer_counts_in_no_share_and_an_unreadable_answer_in_other(
    trial: Callable[..., TrialRow],
) -> None:
    rows = [
        trial(item_id="1", verdict=Verdict.FLIPPED, answer_after="B", supported="B"),
        trial(item_id="2", verdict=Verdict.FAILED, at="attack"),
        trial(item_id="3", verdict=Verdict.HELD, answer_after=None, supported="B"),
        trial(item_id="4", verdict=Verdict.HELD, key="A", answer_after="A", supported="C"),
        trial(item_id="5", verdict=Verdict.ALREADY_WRONG, answer_after=None, supported="B"),
    ]
    found = evidence(rows)
    assert found is not None
    for each in found.values():
        assert (each["value"], each["n"]) == (pytest.approx(1 / 3), 3)
    assert evidence(rows[1:2]) is None
