"""A command that a signal stops stores what arrived, says how to go on and exits with 130."""

import shlex
import signal
import subprocess
import sys
import time

import pytest


@pytest.fixture(autouse=True)
def heard():
    """Where tests run in the background, signals may be ignored, and children would inherit it."""
    before = {
        number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGINT, signal.SIGHUP)
    }
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def is_hint(err, bench):
    """Not with --fresh, which would throw away what is stored."""
    return err.endswith(f"to resume: {shlex.join(['medstress', *bench.arguments()])}\n")


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
    assert is_hint(err, bench)
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
    assert is_hint(err, bench)
    assert len(workbench.snapshot(bench.out, bench.root / "copy").dispatched) == 3


def test_a_command_gives_the_signals_back():
    from medstress.cli.app import medstress_cli

    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)]
    assert medstress_cli(["list", "attacks"]) == 0
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)] == before
