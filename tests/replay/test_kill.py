"""A run that is killed with SIGKILL again and again ends like one that never was."""

import os
import random
import signal
import time
from collections import Counter
from dataclasses import dataclass, field

import pytest

pytestmark = pytest.mark.kills("run")

N_FOLDERS = 2
N_KILLS = 3
DELAY = 0.025
BATCH = 3


@dataclass
class Broken:
    """One folder that was killed several times and then ended."""

    out: object
    log: object
    snapshots: list = field(default_factory=list)
    """What the folder held after every kill, then at the end."""
    processes: list = field(default_factory=list)
    """Their ids, the last one ended by itself."""


@pytest.fixture(scope="module")
def bench(workbench, tmp_path_factory):
    made = workbench.Bench(tmp_path_factory.mktemp("kill"))
    made.tables["experiment"] |= {"controls": ["no_op"], "seeds": [0]}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in made.environment().items():
            patch.setenv(name, value)
        yield made


@pytest.fixture(scope="module")
def unbroken(bench):
    """The number of calls of a run that nobody kills, and the run's folder."""
    out = bench.root / "unbroken"
    assert bench.run(out=out) == 0
    return out, bench.received()


@pytest.fixture(scope="module")
def broken(workbench, bench, unbroken):
    """Runs killed at 6 seeded moments in all: at the start, in between, at the last question."""
    n_calls = len(unbroken[1])
    return [break_and_end(workbench, bench, number, n_calls) for number in range(N_FOLDERS)]


def break_and_end(workbench, bench, number, n_calls):
    """Kill the runs of one folder `N_KILLS` times, then let one end, in this process."""
    rng = random.Random(f"kills of folder {number}")
    one = Broken(bench.root / f"broken{number}", bench.root / f"broken{number}.jsonl")
    fractions = [(k + rng.random()) / N_KILLS for k in range(N_KILLS)]
    # The first folder also dies while it is set up, the second at its last question.
    fractions[0] *= number != 0
    fractions[-1] = 1.0 if number == 1 else fractions[-1]
    for fraction in fractions:
        n_again = len(bench.received(one.log)) - len(
            one.snapshots[-1].answered if one.snapshots else ()
        )
        last = n_again + n_calls
        kill(workbench, bench, one, n_again + round(fraction * n_calls), last, rng)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VICTIM_LOG", str(one.log))
        assert bench.run(out=one.out) == 0
    remember(workbench, bench, one, os.getpid())
    return one


def kill(workbench, bench, one, n_lines, last, rng):
    """Start, let the victim be asked so many prompts in all, wait a moment, kill.

    The victim does not answer its last question, so that no run ends before it is killed.
    """
    n_before = len(bench.received(one.log))
    process = bench.start(out=one.out, log=one.log, delay=DELAY, most_lines=last)

    def enough():
        if n_lines == 0:
            return (one.out / "run.sqlite").exists()
        n_now = workbench.n_logged(one.log)
        return n_now >= n_lines and n_now > n_before

    try:
        workbench.wait_until(enough, process)
        assert process.poll() is None, process.communicate()
        time.sleep(rng.uniform(0, 2 * DELAY))
        os.kill(process.pid, signal.SIGKILL)
    finally:
        workbench.stop(process)
    assert process.returncode == -signal.SIGKILL
    assert list((bench.root / "tmp").iterdir()) == []
    remember(workbench, bench, one, process.pid)


def remember(workbench, bench, one, pid):
    one.snapshots.append(workbench.snapshot(one.out, bench.root / f"{one.out.name}-copy"))
    one.processes.append(pid)


def test_kills_happened_at_the_start_in_between_and_at_the_end(broken, unbroken):
    n_calls = len(unbroken[1])
    shares = [len(s.answered) / n_calls for one in broken for s in one.snapshots[:-1]]
    assert len(shares) == N_FOLDERS * N_KILLS
    assert min(shares) == 0
    assert max(shares) > 0.9
    assert sum(0.25 < share < 0.75 for share in shares) >= 1


def test_every_trial_is_that_of_the_unbroken_run(bench, broken, unbroken):
    expected = bench.rows(unbroken[0])
    assert len(expected) == 12 * 8  # every attack and its control
    for one in broken:
        assert bench.rows(one.out) == expected


def test_every_exported_exchange_is_that_of_the_unbroken_run(bench, broken, unbroken):
    from medstress.analyses.exported import exchange_rows
    from medstress.store.trials import Folder

    def exchanges(out):
        rows = Folder(out).read(lambda reader: list(exchange_rows(reader)))
        return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]

    expected = exchanges(unbroken[0])
    for one in broken:
        assert exchanges(one.out) == expected


def test_the_summary_is_that_of_the_unbroken_run_but_for_times(workbench, bench, broken, unbroken):
    expected = workbench.numbers(bench.summary(unbroken[0]))
    for one in broken:
        assert workbench.numbers(bench.summary(one.out)) == expected


def test_asked_is_paid_plus_cached_plus_failed_in_every_row(bench, broken):
    for one in broken:
        for row in bench.rows(one.out):
            assert row.n_asked == row.n_paid + row.n_cached + row.n_failed


def test_what_is_asked_again_was_in_flight_at_a_kill_and_is_reported(
    workbench, bench, broken, unbroken, capsys
):
    """For every process: calls received = answers committed + calls in flight when it died.

    A call in flight is journalled; it was received, unless the kill fell between the two. So
    repeats = interrupted, less the calls that were journalled and never received.
    """
    out, calls = unbroken
    prompt_of = bench.prompts_by_key(out, [prompt for _, prompt in calls])
    n_expected = Counter(prompt for _, prompt in calls)
    n_repeats, n_reported, n_windows = 0, 0, 0
    for one in broken:
        received = bench.received(one.log)
        again = Counter(prompt for _, prompt in received)
        again.subtract(n_expected)
        assert min(again.values()) >= 0
        lost, never_received, before = Counter(), 0, frozenset()
        for pid, after in zip(one.processes, one.snapshots, strict=True):
            asked = Counter(prompt for process, prompt in received if process == pid)
            asked.subtract(prompt_of[key] for key in after.answered - before)
            # Never negative: every new answer was asked for by this process and no other.
            assert min(asked.values(), default=0) >= 0
            in_flight = Counter(prompt_of[key] for key in after.dispatched)
            assert in_flight.total() <= BATCH
            assert +asked in (in_flight, Counter())  # the whole batch was received, or nothing
            assert not set(after.dispatched) & after.answered
            lost += +asked
            never_received += in_flight.total() - asked.total()
            before = after.answered
        assert +again == lost
        interrupted = list(one.snapshots[-1].interrupted)
        assert sorted(interrupted) == sorted(k for s in one.snapshots[:-1] for k in s.dispatched)
        reported = workbench.ledger(bench.summary(one.out))["interrupted"]
        assert reported == len(interrupted)
        assert lost.total() == reported - never_received <= reported <= BATCH * N_KILLS
        n_repeats += lost.total()
        n_reported += reported
        n_windows += never_received
    assert n_repeats > 0  # some kill did fall while the victim was working
    with capsys.disabled():
        print(
            f"\n{N_FOLDERS * N_KILLS} kills: {n_repeats} calls asked again, {n_reported} reported "
            f"as interrupted, {n_windows} of these were journalled and never received"
        )


def test_nothing_is_in_flight_at_the_end_and_every_answer_is_there_once(broken, unbroken):
    n_calls = len(unbroken[1])
    for one in broken:
        assert one.snapshots[-1].dispatched == ()
        assert len(one.snapshots[-1].answered) == n_calls
