"""How far a run is: planted rates, and sequences that items enter in their order."""

from __future__ import annotations

import os
import random
from dataclasses import replace

import pytest

from medstress.core.outcomes import Verdict
from medstress.results.names import Names
from medstress.store.begun import BegunInOrder
from medstress.viewing.liveness import QUIET_SECONDS, Liveness, liveness
from medstress.viewing.progress import Progress, _unfinished, _watched, pace

LIVES = Liveness(is_locked=True, process_seconds=100.0, has_log=True, changed=0.0)


def reading(at: float, ended: int, calls: int, **changes: object) -> Progress:
    given = {
        "at": at, "name": "x", "names": Names(), "n_planned": 1000, "n_ended": ended,
        "n_calls": calls, "tokens_in": 0, "tokens_out": 0, "usd": None, "seconds": at,
        "is_complete": False, "is_decided": False, "in_random_order": False, "command": None,
        "limits": (), "arms": (), "n_failed": 0, "failures": (), "process": LIVES,
    }  # fmt: skip
    return Progress(**{**given, **changes})


def test_rates_are_those_of_the_last_interval_and_of_the_whole_run():
    found = pace([reading(100, 100, 500), reading(110, 150, 800)])
    assert (found.trials_per_second, found.calls_per_second) == (5.0, 30.0)
    assert found.over_seconds == 10.0
    assert (found.trials_in_all, found.calls_in_all) == (150 / 110, 800 / 110)
    assert found.seconds_left == 850 / 5


def test_one_reading_tells_only_the_whole_run():
    found = pace([reading(100, 200, 500)])
    assert found.trials_per_second is None
    assert found.seconds_left == 800 / 2


def test_the_end_is_foretold_from_a_dozen_readings():
    slow = [reading(float(t), t, t) for t in range(1, 50)]
    fast = [reading(50.0 + t, 50 + 10 * t, 50) for t in range(12)]
    assert pace([*slow, *fast]).seconds_left == pytest.approx((1000 - 160) / 10)


def test_a_run_that_stands_still_has_no_end_and_does_not_divide_by_0():
    still = [reading(100, 0, 0, seconds=None), reading(105, 0, 0, seconds=None)]
    found = pace(still)
    assert (found.trials_per_second, found.seconds_left, found.trials_in_all) == (0.0, None, None)
    assert pace([still[0], still[0]]).trials_per_second is None


def test_a_run_is_over_if_it_is_complete_or_decided_or_nobody_works_on_it():
    assert not reading(1, 1, 1).is_over
    assert reading(1, 1, 1, is_complete=True).is_over
    assert reading(1, 1, 1, is_decided=True).is_over
    gone = replace(LIVES, is_locked=False, has_log=False)
    assert reading(1, 1, 1, process=gone).is_over


def test_who_holds_the_lock_is_read_from_the_list_of_the_system(tmp_path):
    lock = tmp_path / "run.lock"
    lock.touch()
    found = lock.stat()
    at = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    locks = tmp_path / "locks"
    locks.write_text(f"1: POSIX  ADVISORY  WRITE 7 {at} 0 EOF\n")
    assert liveness(tmp_path, locks).is_locked is False
    locks.write_text(f"1: -> FLOCK  ADVISORY  WRITE 7 {at} 0 EOF\n")
    assert liveness(tmp_path, locks).is_locked is False
    locks.write_text(f"1: FLOCK  ADVISORY  WRITE {os.getpid()} {at} 0 EOF\n")
    seen = liveness(tmp_path, locks)
    assert seen.is_locked is True
    assert seen.process_seconds is None or seen.process_seconds > 0
    assert liveness(tmp_path, tmp_path / "none").is_locked is None
    assert liveness(tmp_path / "nowhere", locks).is_locked is False


@pytest.mark.parametrize(
    ("seen", "is_alive"),
    [
        ({"is_locked": True, "has_log": False}, True),
        ({"is_locked": False, "has_log": False}, False),
        ({"is_locked": False, "has_log": True, "changed": 100.0}, True),
        ({"is_locked": False, "has_log": True, "changed": 99.0 - QUIET_SECONDS}, False),
        ({"is_locked": None, "has_log": True}, True),
        ({"is_locked": None, "has_log": False}, False),
    ],
)
def test_a_process_lives_where_its_lock_or_its_log_says_so(seen, is_alive):
    assert replace(LIVES, **seen).is_alive(100.0) is is_alive


def trials_of(make, n: int, *, lost: set[int], seeds: int = 1):
    begun, rows = [], {}
    for number in range(n * seeds):
        item = f"q{number // seeds}"
        place = {"dataset": "d", "group": "g", "victim": "v", "attack": "a"}
        begun.append(BegunInOrder(trial=number, item_id=item, **place))
        flips = number // seeds in lost
        given = {"verdict": Verdict.FLIPPED, "first_success_answer": "B"} if flips else {}
        rows[number] = make(item_id=item, cluster=item, seed=number % seeds, **given)
    clusters = {one.item_id: one.item_id for one in begun}
    return begun, rows, clusters


def test_items_enter_in_their_order_once_all_before_them_have_ended(trial):
    begun, rows, clusters = trials_of(trial, 20, lost={3})
    assert _watched(begun, rows, clusters, None).n == 20
    late = {number: row for number, row in rows.items() if number != 7}
    assert _watched(begun, late, clusters, None).n == 7
    assert _watched(begun, {}, clusters, None).n == 0


def test_an_item_of_which_trials_may_still_begin_does_not_enter(trial):
    begun, rows, clusters = trials_of(trial, 5, lost=set(), seeds=2)
    assert _unfinished(begun, rows, 12) == ("d", "q4")
    assert _unfinished(begun, rows, 10) is None
    assert _watched(begun, rows, clusters, ("d", "q4")).n == 4
    assert _watched(begun, rows, clusters, ("other", "q4")).n == 5


def test_a_document_enters_once(trial):
    begun, rows, clusters = trials_of(trial, 6, lost=set())
    clusters |= {"q0": "one", "q1": "one", "q3": "one"}
    assert _watched(begun, rows, clusters, None).n == 4


def test_what_unreadable_answers_leave_open_stays_inside(trial):
    begun, rows, clusters = trials_of(trial, 60, lost=set())
    narrow = _watched(begun, rows, clusters, None).ends[1]
    rows = {number: replace(row, n_unreadable=1) for number, row in rows.items()}
    low, high = _watched(begun, rows, clusters, None).ends
    assert narrow < 0.2
    assert low == 0.0
    assert high == 1.0


def test_the_sequence_holds_at_every_look_however_trials_end(trial):
    """Flips end first; in the order of completion the interval would miss nearly always."""
    rng, share, wrong = random.Random(0), 0.3, 0
    n, runs = 60, 50
    for _ in range(runs):
        lost = {i for i in range(n) if rng.random() < share}
        begun, rows, clusters = trials_of(trial, n, lost=lost)
        order = sorted(rows, key=lambda i: i + (0 if i in lost else 25))
        ended, missed = {}, False
        for step, number in enumerate(order):
            ended[number] = rows[number]
            if step % 12 == 0:
                low, high = _watched(begun, ended, clusters, None).ends
                missed |= not low <= share <= high
        wrong += missed
    assert wrong <= 0.12 * runs
