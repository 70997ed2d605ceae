"""A command that a signal stops stores what arrived, says how to go on and exits with 130."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time

import pytest

SENTENCE = (
    "medstress: interrupted ({by}); every answer that arrived is stored; to resume: {command}\n"
)


@pytest.fixture(autouse=True)
def heard():
    """Where tests run in the background, signals may be ignored, and children would inherit it."""
    before = {
        number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGINT, signal.SIGHUP)
    }
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def command(bench):
    return shlex.join(["medstress", *bench.arguments()])


@pytest.mark.release
def test_timeout_s_term_twice_in_a_row_is_one_signal_and_loses_nothing(
    bench, workbench, monkeypatch
):
    if shutil.which("timeout") is None:
        pytest.skip("there is no GNU timeout on this system")
    whole = bench.root / "whole"
    assert bench.run(out=whole) == 0
    n_calls = len(bench.received())
    log = bench.root / "term.jsonl"
    stopped = ["timeout", "--preserve-status", "-s", "TERM", "2.5"]
    done = subprocess.run(
        [*stopped, sys.executable, "-m", "medstress", *bench.arguments()],
        env=bench.environment(0.1, log),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == SENTENCE.format(by="SIGTERM", command=command(bench))
    held = workbench.snapshot(bench.out, bench.root / "copy")
    assert len(held.answered) == len(bench.received(log))
    assert held.dispatched == ()
    monkeypatch.setenv("VICTIM_LOG", str(log))
    assert bench.run() == 0
    assert len(bench.received(log)) == n_calls
    assert bench.rows() == bench.rows(whole)


@pytest.mark.release
def test_a_closed_terminal_ends_the_run_like_any_signal(bench, workbench):
    pty = pytest.importorskip("pty", reason="there are no terminals on this system")
    log = bench.root / "closed.jsonl"
    process, terminal = pty.fork()
    if process == 0:
        environment = {**bench.environment(0.1, log), "TERM": "xterm"}
        arguments = [sys.executable, "-m", "medstress", *bench.arguments()]
        os.execve(sys.executable, arguments, environment)
    deadline = time.monotonic() + 60
    while len(bench.received(log)) < 6 and time.monotonic() < deadline:
        time.sleep(0.02)
    os.close(terminal)
    while (ended := os.waitpid(process, os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert os.waitstatus_to_exitcode(ended[1]) == 130
    held = workbench.snapshot(bench.out, bench.root / "copy")
    assert len(held.answered) == len(bench.received(log))


@pytest.mark.release
def test_the_first_process_of_a_namespace_hears_term(bench, workbench):
    into = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"]
    if shutil.which("unshare") is None or subprocess.run([*into, "true"], check=False).returncode:
        into = ["unshare", "--pid", "--fork", "--kill-child"]
        if (
            shutil.which("unshare") is None
            or subprocess.run([*into, "true"], check=False, capture_output=True).returncode
        ):
            pytest.skip("this system lets nobody make a namespace of processes (unshare --pid)")
    log = bench.root / "first.jsonl"
    process = subprocess.Popen(
        [*into, sys.executable, "-m", "medstress", *bench.arguments()],
        env=bench.environment(0.05, log),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        workbench.wait_until(lambda: len(bench.received(log)) > 3, process)
        assert {number for number, _ in bench.received(log)} == {1}  # as it sees itself
        children = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(process.pid)],
            capture_output=True,
            text=True,
            check=True,
        )
        os.kill(int(children.stdout.split()[0]), signal.SIGTERM)
        code, out, err = workbench.finish(process)
    finally:
        workbench.stop(process)
    assert (code, out) == (130, "")
    assert err == SENTENCE.format(by="SIGTERM", command=command(bench))


HANGS = """
import json, os, time

def answer(prompts):
    with open(os.environ["VICTIM_LOG"], "a") as stream:
        stream.write(json.dumps([os.getpid(), "asked"]) + "\\n")
    time.sleep(3600)
"""


def hanging(bench, drain_seconds):
    """Start a run whose victim hangs in its first batch."""
    (bench.root / "victim.py").write_text(HANGS, encoding="utf-8")
    code = (
        "import sys; from medstress.cli.app import medstress_cli; "
        "from medstress.cli.process import leave; "
        f"leave(medstress_cli(sys.argv[1:], drain_seconds={drain_seconds}))"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code, *bench.arguments("--fresh")],
        env=bench.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGTERM,
        *(pytest.param(each, marks=pytest.mark.release) for each in (signal.SIGINT, signal.SIGHUP)),
    ],
)
def test_a_victim_that_hangs_does_not_keep_the_process(bench, workbench, number):
    process = hanging(bench, 0.4)
    try:
        workbench.wait_until(lambda: bench.received(), process)
        started = time.monotonic()
        process.send_signal(number)
        code, _, err = workbench.finish(process)
    finally:
        workbench.stop(process)
    assert code == 130
    assert time.monotonic() - started < 3.0
    # Not with --fresh, which would throw away what is stored.
    assert err == SENTENCE.format(by=number.name, command=command(bench))
    assert len(workbench.snapshot(bench.out, bench.root / "copy").dispatched) == 3


@pytest.mark.release
def test_a_second_signal_stops_at_once(bench, workbench):
    process = hanging(bench, 60)
    try:
        workbench.wait_until(lambda: bench.received(), process)
        process.send_signal(signal.SIGTERM)
        time.sleep(0.4)
        assert process.poll() is None
        started = time.monotonic()
        process.send_signal(signal.SIGINT)
        code, _, err = workbench.finish(process)
    finally:
        workbench.stop(process)
    assert code == 130
    assert time.monotonic() - started < 2.0
    assert err == SENTENCE.format(by="SIGTERM", command=command(bench))
    assert len(workbench.snapshot(bench.out, bench.root / "copy").dispatched) == 3


@pytest.mark.release
def test_a_signal_that_is_ignored_from_the_start_stays_ignored(bench, workbench):
    """As nohup does it."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    process = bench.start(delay=0.05)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        workbench.wait_until(lambda: bench.received(), process)
        process.send_signal(signal.SIGHUP)
        n_before = len(bench.received())
        workbench.wait_until(lambda: len(bench.received()) > n_before + 9, process)
        process.send_signal(signal.SIGTERM)
        code, _, err = workbench.finish(process)
    finally:
        workbench.stop(process)
    assert code == 130
    assert "(SIGTERM)" in err


def test_a_command_gives_the_signals_back():
    from medstress.cli.app import medstress_cli

    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)]
    assert medstress_cli(["list", "attacks"]) == 0
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)] == before
