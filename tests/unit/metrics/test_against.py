"""The difference to a baseline run, with open answers at their worst."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.metrics.against import difference, paired
from medstress.metrics.old_stats.paired import unite

Make = Callable[..., TrialRow]
FLIPPED, HELD, WRONG = Verdict.FLIPPED, Verdict.HELD, Verdict.ALREADY_WRONG


def run(trial: Make, verdicts: str, **more: object) -> list[TrialRow]:
    known = {"f": FLIPPED, "h": HELD, "w": WRONG}
    return [
        trial(item_id=str(i), verdict=known[letter], **more) for i, letter in enumerate(verdicts)
    ]


def test_only_common_items_seeds_and_texts_are_paired(trial: Make) -> None:
    ours = [*run(trial, "ffff"), trial(item_id="x"), *run(trial, "h", seed=7)]
    theirs = [*run(trial, "hhh"), trial(item_id="3", item_hash="other text")]
    assert [a.item_id for a, _ in paired(ours, theirs)] == ["0", "1", "2"]


def test_asr_is_compared_where_both_were_right_and_accuracy_everywhere(trial: Make) -> None:
    ours, theirs = run(trial, "ffhhww" * 10), run(trial, "fhhhfh" * 10)
    pairs = paired(ours, theirs)
    found, ends = difference("asr", pairs, 4)
    assert found.n == 40
    assert found.value == pytest.approx(0.25)
    assert ends == (found.low, found.high)
    after, _ = difference("accuracy_after", pairs, 4)
    assert after.n == 60
    assert after.value == pytest.approx(20 / 60 - 40 / 60)
    before, _ = difference("accuracy", pairs, 4)
    assert before.value == pytest.approx(-20 / 60)


def test_open_answers_count_for_one_run_and_against_the_other(trial: Make) -> None:
    ours = [*run(trial, "fhhh" * 20), trial(item_id="u", n_unreadable=1)]
    theirs = [*run(trial, "hhhh" * 20), trial(item_id="u", n_unreadable=1)]
    found, (low, high) = difference("asr", paired(ours, theirs), 4)
    pairs = [(a.item_id, a.verdict is FLIPPED, False) for a in ours[:-1]]
    assert high == unite([*pairs, ("u", True, False)]).estimate.high
    assert low == unite([*pairs, ("u", False, True)]).estimate.low
    assert found.value == pytest.approx(20 / 81)


def test_at_a_smaller_budget_later_successes_do_not_count(trial: Make) -> None:
    ours = [trial(item_id=str(i), verdict=FLIPPED, first_success=3) for i in range(20)]
    pairs = paired(ours, run(trial, "h" * 20))
    assert difference("asr", pairs, 4)[0].value == 1
    assert difference("asr", pairs, 2)[0].value == 0
