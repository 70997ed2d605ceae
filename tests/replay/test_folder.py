"""Two processes, read-only places, a full disk, and an interrupt."""

import os
import shlex
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from medstress.api.run import Run

SENTENCE = "medstress: cannot write the run in {folder}: "


def sound(path):
    """Whether SQLite finds the file whole."""
    db = sqlite3.connect(path / "run.sqlite")
    try:
        return db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    finally:
        db.close()


def one_line(text):
    return text.count("\n") == 1 and text.endswith("\n")


# -- two processes --------------------------------------------------------------------------------


def test_a_second_process_on_the_folder_is_refused_while_the_first_works(
    bench, workbench, whole, capsys
):
    log = bench.root / "first.jsonl"
    hold = bench.root / "hold"
    hold.touch()
    first = bench.start(log=log, hold=hold)
    try:
        workbench.wait_until(log.exists, first)
        for flags in ((), ("--fresh",)):
            assert bench.run(*flags) == 2
            assert "another medstress process is working" in capsys.readouterr().err
        assert first.poll() is None
        # Looking on is allowed meanwhile.
        assert Run(bench.out).summary()["experiment"]["complete"] is False
        hold.unlink()
        code, _, err = workbench.finish(first)
        assert (code, err) == (0, "")
    finally:
        workbench.stop(first)
    assert len(bench.received(log)) == whole.n_calls
    assert bench.received() == []
    assert bench.rows() == whole.rows
    assert bench.run() == 0


# -- read-only ------------------------------------------------------------------------------------


@contextmanager
def mounted(folder, *options):
    """A file system in memory; skips where mounting is not allowed."""
    folder.mkdir(exist_ok=True)
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", str(folder)],
        capture_output=True,
        check=False,
    )
    if done.returncode:
        pytest.skip("mounting is not allowed here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], capture_output=True, check=False)


def remount(folder, option):
    subprocess.run(["mount", "-o", f"remount,{option}", str(folder)], check=True)


def test_a_read_only_folder_is_refused_in_one_sentence_and_can_still_be_read(bench, capsys):
    with mounted(bench.root / "mount", "size=20m") as folder:
        out = folder / "run"
        assert bench.run("--limit", "6", out=out) == 0
        rows, n_calls = bench.rows(out), len(bench.received())
        capsys.readouterr()
        remount(folder, "ro")
        assert bench.run(out=out) == 2
        told = capsys.readouterr()
        assert told.err.startswith(SENTENCE.format(folder=out))
        assert one_line(told.err)
        assert "read-only" in told.err.lower()
        assert bench.rows(out) == rows
        assert Run(out).summary()["format"] == 3
        assert len(bench.received()) == n_calls
        remount(folder, "rw")
        assert bench.run(out=out) == 0
        assert sound(out)


# -- a full disk ----------------------------------------------------------------------------------


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv.pop(1)), resource.RLIM_INFINITY))
from medstress.__main__ import main
main()
"""


def limited(bench, limit):
    """The run, none of whose files may grow beyond so many bytes."""
    return subprocess.run(
        [sys.executable, "-c", LIMITED, str(limit), *bench.arguments()],
        env=bench.environment(log=bench.root / "limited.jsonl"),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_disk_that_is_full_from_the_first_moment_leaves_no_begun_run_behind(bench):
    assert bench.run(out=bench.root / "whole") == 0  # its vectors are kept elsewhere from now on
    done = limited(bench, 4_096)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith(SENTENCE.format(folder=bench.out))
    assert one_line(done.stderr)
    assert not bench.out.exists()
    assert bench.run() == 0
    assert sound(bench.out)


# -- interrupts -----------------------------------------------------------------------------------


@pytest.fixture
def sigint():
    """Where tests run in the background, SIGINT may be ignored, and children would inherit it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupted_run_exits_with_130_and_loses_nothing(bench, workbench, whole, sigint):
    log = bench.log
    for share in (0.1, 0.4):
        process = bench.start(delay=0.04, log=log)
        try:
            workbench.wait_until(
                lambda n=share * whole.n_calls: workbench.n_logged(log) > n, process
            )
            time.sleep(0.015)  # into the victim's sleep
            os.kill(process.pid, signal.SIGINT)
            code, out, err = workbench.finish(process)
        finally:
            workbench.stop(process)
        assert (code, out) == (130, "")
        assert err.endswith(f"to resume: {shlex.join(['medstress', *bench.arguments()])}\n")
        held = workbench.snapshot(bench.out, bench.root / "copy")
        assert len(held.answered) == len(bench.received(log))
        assert held.dispatched == ()
        assert bench.summary()["experiment"]["complete"] is False
    assert bench.run() == 0
    assert len(bench.received(log)) == whole.n_calls
    assert bench.rows() == whole.rows
    assert workbench.ledger(bench.summary())["interrupted"] == 0
