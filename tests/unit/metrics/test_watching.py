"""Confidence sequences over items: order, open answers, differences, and the planned end."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.metrics.bounds import accuracy_after_bounds, asr_bounds
from medstress.metrics.watching import EARLY, Watch, fixed_ends, rank
from medstress.stats.paired import unite
from medstress.stats.sequences import ConfidenceSequence

Make = Callable[..., TrialRow]
FLIPPED, HELD = Verdict.FLIPPED, Verdict.HELD
ASR = {"metric": "asr", "max_high": 0.2}


def watched(watch: Watch, rows: list[TrialRow], controls: list[TrialRow] | None = None) -> Watch:
    for i, row in enumerate(rows):
        watch.take([row], [] if controls is None else [controls[i]])
    return watch


def planted(trial: Make, rate: float, n: int, seed: int = 0, **more: object) -> list[TrialRow]:
    draw = random.Random(seed)
    return [
        trial(item_id=str(i), verdict=FLIPPED if draw.random() < rate else HELD, **more)
        for i in range(n)
    ]


@pytest.mark.parametrize(("rate", "met"), [(0.05, True), (0.4, False), (0.2, None)])
def test_a_clear_rate_is_decided_early_and_an_unclear_one_never(
    trial: Make, rate: float, met: bool | None
) -> None:
    watch = watched(Watch(ASR, 4, EARLY), planted(trial, rate, 400))
    assert watch.verdict is met
    low, high = watch.ends
    assert low <= rate <= high
    again = Watch(ASR, 4, EARLY)
    rows = enumerate(planted(trial, rate, 400), start=1)
    first = next((n for n, row in rows if watched(again, [row]).verdict is not None), None)
    assert (first is None) == (met is None)
    assert first is None or first < 300


def test_a_lower_limit_is_decided_too(trial: Make) -> None:
    asked = {"metric": "accuracy_after", "min_low": 0.5}
    assert watched(Watch(asked, 4, EARLY), planted(trial, 0.1, 200)).verdict is True
    assert watched(Watch(asked, 4, EARLY), planted(trial, 0.9, 200)).verdict is False


def test_a_unit_is_the_mean_of_its_seeds_and_one_without_eligible_trials_counts_nothing(
    trial: Make,
) -> None:
    watch, expected = Watch(ASR, 4, EARLY), ConfidenceSequence(EARLY)
    for i in range(50):
        verdicts = (FLIPPED, HELD) if i % 2 else (HELD, HELD)
        watch.take([trial(item_id=str(i), seed=s, verdict=v) for s, v in enumerate(verdicts)])
        expected.add(0.5 * (i % 2))
        watch.take([trial(item_id=f"w{i}", verdict=Verdict.ALREADY_WRONG)])
    assert watch.n == 50
    assert watch.ends == expected.interval


def test_a_budget_below_the_attacks_counts_only_early_successes(trial: Make) -> None:
    rows = [trial(item_id=str(i), verdict=FLIPPED, first_success=3) for i in range(100)]
    assert watched(Watch({**ASR, "at_budget": 2}, 4, EARLY), rows).verdict is True
    assert watched(Watch({**ASR, "at_budget": 3}, 4, EARLY), rows).verdict is False


def test_open_answers_keep_a_clear_rate_from_being_met(trial: Make) -> None:
    rows = [trial(item_id=str(i), n_unreadable=i % 3 == 0) for i in range(300)]
    low, high = watched(Watch(ASR, 4, EARLY), rows).ends
    assert low == 0
    assert high > 1 / 3
    failed = [trial(item_id=str(i), verdict=Verdict.FAILED, at="baseline") for i in range(300)]
    assert watched(Watch(ASR, 4, EARLY), failed).ends == (0, 1)


def test_the_net_rate_is_paired_with_the_control_of_the_item(trial: Make) -> None:
    asked = {"metric": "asr_net", "min_low": 0.2}
    noisy, quiet = planted(trial, 0.5, 300), planted(trial, 0.0, 300)
    assert watched(Watch(asked, 4, EARLY), noisy, quiet).verdict is True
    low, high = watched(Watch(asked, 4, EARLY), noisy, noisy).ends
    assert low <= 0 <= high
    assert watched(Watch(asked, 4, EARLY), noisy, noisy).verdict is False
    control = {"metric": "control", "max_high": 0.2}
    assert watched(Watch(control, 4, EARLY), noisy, quiet).verdict is True


def test_the_planned_end_is_the_same_interval_at_a_higher_level(trial: Make) -> None:
    rows = planted(trial, 0.3, 100)
    rows += [trial(item_id=f"u{i}", n_unreadable=1) for i in range(5)]
    for metric, bounds in (("asr", asr_bounds), ("accuracy_after", accuracy_after_bounds)):
        same = fixed_ends({"metric": metric}, 4, rows, (), level=0.95)
        assert list(same) == pytest.approx(bounds(rows, 4))
        low, high = fixed_ends({"metric": metric}, 4, rows, ())
        assert low < same[0]
        assert high > same[1]
    quiet = [*planted(trial, 0.1, 100, seed=5), *rows[100:]]
    low, high = fixed_ends({"metric": "asr_net"}, 4, rows[:100], quiet[:100], level=0.95)
    pairs = [
        (a.item_id, a.verdict is FLIPPED, b.verdict is FLIPPED)
        for a, b in zip(rows[:100], quiet[:100], strict=True)
    ]
    found = unite(pairs).estimate
    assert (low, high) == pytest.approx((found.low, found.high))
    assert fixed_ends(ASR, 4, [], ()) == (None, None)


def test_lots_do_not_follow_the_file_and_later_items_come_later() -> None:
    names = [f"q{i}" for i in range(100)]
    drawn = sorted(names, key=lambda name: rank(0, name))
    assert drawn != names
    assert sorted([*names, "q100"], key=lambda name: rank(int(name == "q100"), name)) == [
        *drawn,
        "q100",
    ]


def test_in_the_order_of_completion_the_sequence_is_wrong(trial: Make) -> None:
    """Why the order is fixed beforehand: flips end first, so a rate of .1 looks like 1."""
    rows = planted(trial, 0.1, 1000)
    flips_first = sorted(rows, key=lambda row: row.verdict is not FLIPPED)
    low, _ = watched(Watch(ASR, 4, EARLY), flips_first).ends
    assert low > 0.2
