"""`watch`: a run as it goes on, seen without a trace."""

from __future__ import annotations

import io
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pyte
import pytest
from filelock import FileLock
from rich.cells import cell_len
from rich.console import Console

from medstress.cli.look import Look
from medstress.cli.screen import Screen
from medstress.cli.watching import fitted_lines, last_words, progress_lines, watch
from medstress.core.errors import StoreError
from medstress.viewing.progress import read_progress

SIDES = {"run.lock", "run.sqlite", "run.sqlite-wal", "run.sqlite-shm"}


def state(folder: Path) -> dict[str, tuple[int, bytes]]:
    """What the files hold and when they changed; not the index that every reader of a log needs."""
    return {
        path.name: (path.stat().st_mtime_ns, path.read_bytes())
        for path in folder.iterdir()
        if not path.name.endswith("-shm")
    }


@pytest.fixture
def stages(bench, workbench, tmp_path):
    """Run folders of one experiment at three moments: after 9 calls, 24 calls, complete."""
    made = []
    bench.write_items(workbench.questions(12))
    for most in ("9", "24", "100000"):
        assert bench.run("--set", f"experiment.max_queries={most}") == 0
        stage = tmp_path / f"stage-{most}"
        shutil.copytree(bench.out, stage)
        made.append(stage)
    return made


def piped() -> tuple[Screen, io.StringIO]:
    stream = io.StringIO()
    return Screen(console=Console(file=stream), look=Look()), stream


def test_a_finished_run_is_shown_once_and_left_as_it_is(finished, medstress):
    before = state(finished.out)
    for extra in ((), ("--once",)):
        told = medstress("watch", finished.out, *extra)
        assert (told.code, told.err) == (0, "")
        assert re.match(r"\d+ of \d+ trials ended \(100 %\) █+\n", told.out)
        assert ("complete: every one of" in told.out) is not bool(extra)
        assert "a random part" not in " ".join(told.out.split())
        assert max(map(cell_len, told.out.splitlines())) <= 80
    assert state(finished.out) == before


def test_a_run_that_stopped_ends_the_watching_and_says_how_to_go_on(bench, medstress):
    assert bench.run("--fresh", "--set", "experiment.max_queries=7") == 0
    before = state(bench.out)
    told = medstress("watch", bench.out)
    assert (told.code, told.err) == (0, "")
    assert "ended are not a random part of the run" in " ".join(told.out.split())
    last = told.out.splitlines()[-1]
    assert "the run is not complete" in last
    assert "to resume: " in last
    assert "--fresh" not in last
    assert last.endswith("with a higher max_queries")
    assert state(bench.out) == before


def test_a_folder_without_a_run_is_one_sentence(medstress, tmp_path, said):
    (tmp_path / "empty").mkdir()
    for folder in (tmp_path / "none", tmp_path / "empty"):
        told = medstress("watch", folder)
        assert (told.code, told.out) == (2, "")
        said(told.err.replace(str(folder), "FOLDER"))


def test_too_short_an_interval_is_refused(finished, medstress, said):
    told = medstress("watch", finished.out, "--every", "0")
    assert (told.code, told.out) == (2, "")
    said(told.err, "--every")


@pytest.mark.parametrize("every", ["nan", "inf", "-inf", "-1"])
def test_an_interval_that_is_no_time_is_refused_before_anything(medstress, every):
    told = medstress("watch", "no-such-folder", f"--every={every}")
    assert (told.code, told.out) == (2, "")
    assert len(told.err.splitlines()) == 1
    assert f"--every: expected a number of seconds from 0.2, got {every}" in told.err


def test_how_to_resume_is_a_command_that_runs(finished):
    found = read_progress(finished.out, time.time())
    found = replace(found, is_complete=False, n_planned=found.n_ended + 1)
    started = replace(found, command="__main__.py run 'my run.toml' --fresh")
    assert last_words(started).endswith("to resume: medstress run 'my run.toml'")


def test_a_running_page_says_that_what_has_ended_is_no_random_part(finished):
    found = read_progress(finished.out, time.time())

    def page(progress):
        return " ".join(line.text for line in progress_lines([progress], Look()))

    assert "not a random part" in page(replace(found, n_planned=found.n_ended + 1))
    assert "not a random part" not in page(found)


@pytest.mark.parametrize("height", [4, 8, 14, 24, 50])
def test_a_short_screen_keeps_counts_failures_and_state(finished, height):
    found = read_progress(finished.out, time.time())
    arms = tuple(
        replace(
            found.arms[0], place=(f"cases {i % 2}", "drugs", "careful", f"attack {i}"), n_lost=i
        )
        for i in range(12)
    )
    found = replace(found, arms=arms, n_failed=2, failures=(("no answer", 2),), is_complete=False)
    lines = [line.text for line in fitted_lines([found], Look(), height)]
    assert len(lines) <= height
    assert "trials ended" in lines[0]
    assert "no process works on it" in lines[-1]
    if height > 5:
        assert any("no answer" in line for line in lines)
        shown = [line.split()[1] for line in lines if re.match(r"attack \d", line)]
        left = [int(n) for line in lines for n in re.findall(r"(\d+) attacks?(?: that|:)", line)]
        assert len(shown) + sum(left) == 12
        assert set(map(int, shown)) == set(range(12 - len(shown), 12))


def test_planted_rates_and_the_end_are_told_from_a_fake_clock(stages, tmp_path, capsys):
    folder = tmp_path / "watched"
    shutil.copytree(stages[0], folder)
    now, left = 1_000_000.0, stages[1:]
    out, _ = piped()

    def sleep(seconds: float) -> None:
        nonlocal now
        now += 10.0
        shutil.copy(left.pop(0) / "run.sqlite", folder / "run.sqlite")

    with FileLock(folder / "run.lock"):
        watch(folder, 10.0, out, lambda: now, sleep)
    blocks = capsys.readouterr().out.split("\n\n")
    counts = [int(n) for n in re.findall(r"(\d+) of \d+ trials ended", "\n".join(blocks))]
    found = [read_progress(stage, now) for stage in stages]
    assert counts == [each.n_ended for each in found]
    told = "\n".join(blocks)
    for first, second in pairwise(found):
        trials = (second.n_ended - first.n_ended) / 10
        calls = (second.n_calls - first.n_calls) / 10
        assert f"{trials:.1f} trials/s, {calls:.1f} calls/s in the last 10 s" in told
    speed = (counts[1] - counts[0]) / 10
    seconds = round((found[1].n_planned - counts[1]) / speed)
    assert f"about {seconds // 60} min {seconds % 60} s left" in told or (
        f"about {seconds} s left" in told
    )
    assert told.rstrip().endswith("planned trials has ended")


def test_who_comes_before_the_run_waits_for_it(stages, tmp_path, capsys):
    folder = tmp_path / "watched"
    folder.mkdir()
    out, _ = piped()
    with pytest.raises(StoreError):
        watch(folder, 1.0, out, sleep=pytest.fail)
    waited = []
    with FileLock(folder / "run.lock"):

        def sleep(seconds: float) -> None:
            waited.append(seconds)
            if len(waited) == 3:
                shutil.copy(stages[-1] / "run.sqlite", folder / "run.sqlite")

        watch(folder, 1.0, out, sleep=sleep)
    assert len(waited) == 3
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if "nothing has been asked yet" in line] == lines[:1]
    assert lines[-1].startswith("complete")


def test_a_terminal_is_drawn_anew_and_not_scrolled(stages, tmp_path, monkeypatch):
    folder = tmp_path / "watched"
    shutil.copytree(stages[0], folder)
    monkeypatch.setenv("TERM", "xterm-256color")
    stream, left = io.StringIO(), stages[1:]
    console = Console(file=stream, force_terminal=True, width=80, height=40)
    shown = pyte.Screen(80, 40)

    def sleep(_: float) -> None:
        shutil.copy(left.pop(0) / "run.sqlite", folder / "run.sqlite")

    with FileLock(folder / "run.lock"):
        watch(folder, 1.0, Screen(console=console, look=Look()), sleep=sleep)
    pyte.Stream(shown).feed(stream.getvalue().replace("\n", "\r\n"))
    lines = [line.rstrip() for line in shown.display]
    assert len([line for line in lines if "trials ended" in line]) == 1
    assert len([line for line in lines if line.startswith("Attack")]) == 1
    assert any(line.startswith("complete: ") for line in lines)


def test_two_thousand_arms_are_twenty_and_a_count(finished):
    found = read_progress(finished.out, time.time())
    arms = [
        replace(found.arms[0], place=("cases", "drugs", "careful", f"attack {i}"), n_lost=i % 5)
        for i in range(2_000)
    ]
    failures = tuple((f"reason {i} " * 60, 9 - i) for i in range(7))
    lines = list(
        progress_lines([replace(found, arms=tuple(arms), failures=failures, n_failed=9)], Look())
    )
    assert max(cell_len(line.text) for line in lines) <= 80
    assert len([line for line in lines if line.text.startswith("attack ")]) == 20
    assert any("1,980 attacks" in line.text for line in lines)
    assert any("4 more reasons" in line.text for line in lines)


def test_a_run_under_watch_ends_with_the_trials_of_one_that_nobody_watched(
    bench, workbench, medstress, tmp_path
):
    bench.run(out=tmp_path / "alone")
    process = bench.start(delay=0.05)
    try:
        workbench.wait_until((bench.out / "run.sqlite-wal").exists, process)
        seen: list[set[str]] = []
        while process.poll() is None:
            told = medstress("watch", bench.out, "--once")
            assert told.code in (0, 2)  # 2 before the first trial is planned
            seen.append({path.name for path in bench.out.iterdir()})
        code, _, complaint = workbench.finish(process)
        assert (code, complaint) == (0, "")
    finally:
        workbench.stop(process)
    assert len(seen) > 1
    # The kept summary is written beside its place first.
    left = set().union(*seen) - SIDES - {"summary.json"}
    assert not {name for name in left if not name.endswith(".part")}

    def told_of(folder: Path) -> list[tuple]:
        return [(row.trial_id, row.verdict, row.first_success) for row in bench.rows(folder)]

    assert told_of(bench.out) == told_of(tmp_path / "alone")
    assert {path.name for path in bench.out.iterdir()} == {"run.lock", "run.sqlite", "summary.json"}


@pytest.mark.release
def test_a_killed_run_ends_the_watching_and_its_files_stay(bench, workbench, medstress):
    process = bench.start(most_lines=6)
    try:
        workbench.wait_until(lambda: len(bench.received()) >= 6, process)
    finally:
        workbench.stop(process)
    before = state(bench.out)
    assert "run.sqlite-wal" in before
    told = medstress("watch", bench.out, "--every", "0.5")
    assert told.code == 0
    assert "its process has ended and the run is not complete" in told.out
    assert state(bench.out) == before
    assert bench.run() == 0
    assert bench.summary()["experiment"]["complete"]


def test_ctrl_c_ends_the_watching_with_0_and_the_run_goes_on(bench, workbench, tmp_path):
    hold = tmp_path / "hold"
    hold.touch()
    process = bench.start(hold=hold)
    watching = None
    try:
        workbench.wait_until(lambda: bool(bench.received()), process)
        watching = subprocess.Popen(
            [sys.executable, "-m", "medstress", "watch", str(bench.out), "--every", "0.3"],
            env=bench.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert watching.stdout is not None
        assert "trials ended" in watching.stdout.readline()
        watching.send_signal(signal.SIGINT)
        assert watching.wait(30) == 0
        assert watching.stderr is not None
        assert watching.stderr.read() == ""
        assert process.poll() is None
        hold.unlink()
        assert workbench.finish(process)[0] == 0
    finally:
        for each in (process, watching):
            if each is not None:
                workbench.stop(each)
