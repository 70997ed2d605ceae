"""How far a run is: planted rates."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from medstress.results.names import Names
from medstress.viewing.liveness import QUIET_SECONDS, Liveness, liveness
from medstress.viewing.progress import Progress, pace

LIVES = Liveness(is_locked=True, process_seconds=100.0, has_log=True, changed=0.0)


def reading(at: float, ended: int, calls: int, **changes: object) -> Progress:
    given = {
        "at": at, "name": "x", "names": Names(), "n_planned": 1000, "n_ended": ended,
        "n_calls": calls, "tokens_in": 0, "tokens_out": 0, "usd": None, "seconds": at,
        "is_complete": False, "command": None,
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


def test_a_run_is_over_if_it_is_complete_or_nobody_works_on_it():
    assert not reading(1, 1, 1).is_over
    assert reading(1, 1, 1, is_complete=True).is_over
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
