"""What the progress display costs: what its code takes in a run that draws its bars.

Runs `medstress run` with an instant victim (see overhead.py) as a user would, on a pseudo-terminal
of its own, so that the bars are really drawn. CPU time is of the process, that of the display of
what draws: the thread that refreshes the bars, and what is called when answers come. Beside it the
same run with `--quiet`, in turns; on a shared machine two runs differ by more than a display costs.
A log beside the ledger, which every run writes, there is not:

    python benchmarks/progress.py --queries 40000 --repeats 3
"""

from __future__ import annotations

import argparse
import json
import os
import pty
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import wraps
from pathlib import Path
from statistics import median
from typing import Any

from bounds import at_least
from overhead import BUDGET, experiment, write_inputs


def as_toml(given: Mapping[str, Any]) -> str:
    """Tables of texts, numbers and lists of them as TOML.

    >>> print(as_toml({"experiment": {"name": "a"}, "attack": [{"budget": 8}]}))
    [experiment]
    name = "a"
    [[attack]]
    budget = 8
    <BLANKLINE>
    """
    lines = []
    for name, tables in given.items():
        many = isinstance(tables, list)
        for table in tables if many else [tables]:
            lines.append(f"[[{name}]]" if many else f"[{name}]")
            lines += [f"{key} = {json.dumps(value)}" for key, value in table.items()]
    return "\n".join(lines) + "\n"


def run_counted(arguments: Sequence[str]) -> None:
    """Be `medstress` in this process, and print one JSON line more: CPU seconds of the display."""
    from rich import live, progress

    from medstress.cli import display
    from medstress.cli.app import medstress_cli

    spent: list[float] = []

    def counted(work: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(work)
        def run(*args: Any, **kwargs: Any) -> Any:
            started = time.thread_time()
            try:
                return work(*args, **kwargs)
            finally:
                spent.append(time.thread_time() - started)

        return run

    def counted_watcher(bars: Any) -> Any:
        found = made(bars)
        return replace(
            found, **{one.name: counted(getattr(found, one.name)) for one in fields(found)}
        )

    made = display._watcher
    display._watcher = counted_watcher
    live._RefreshThread.run = counted(live._RefreshThread.run)  # type: ignore[method-assign]
    for name in ("start", "stop", "add_task"):
        setattr(progress.Progress, name, counted(getattr(progress.Progress, name)))
    if code := medstress_cli(arguments):
        sys.exit(code)
    for thread in threading.enumerate():
        if isinstance(thread, live._RefreshThread):
            thread.join()  # rich does not wait for it
    # Python's own time of the process is that of all its threads.
    print(json.dumps({"display": sum(spent), "process": time.process_time()}))


def cpu_seconds(file: Path, out: Path, *, quiet: bool) -> tuple[dict[str, float], int]:
    """CPU time of one run, and the bytes it wrote on its terminal."""
    command = [sys.executable, __file__, "--here", "run", str(file), "--out", str(out)]
    ours, theirs = pty.openpty()
    drawn = [0]
    reader = threading.Thread(target=_drain, args=(ours, drawn))
    reader.start()
    done = subprocess.run(
        command + ["--quiet"] * quiet,
        text=True,
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm-256color"},
        check=False,
    )
    os.close(theirs)
    reader.join()
    os.close(ours)
    if done.returncode:
        sys.exit(f"medstress run ended with exit code {done.returncode}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found, drawn[0]


def _drain(terminal: int, drawn: list[int]) -> None:
    """Read what is drawn until the other end is closed, which Linux reports as an error."""
    while True:
        try:
            read = os.read(terminal, 65_536)
        except OSError:
            return
        if not read:
            return
        drawn[0] += len(read)


def main() -> None:
    """Print one JSON line."""
    if sys.argv[1:2] == ["--here"]:
        run_counted(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=at_least(1), default=40_000)
    parser.add_argument("--repeats", type=at_least(1), default=3)
    given = parser.parse_args()
    runs: dict[bool, list[dict[str, float]]] = {False: [], True: []}
    drawn = dict.fromkeys(runs, 0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_inputs(folder, max(given.queries // BUDGET, 1))
        (folder / "run.toml").write_text(as_toml(experiment(folder)), "utf-8")
        # The first run fills the cache of vectors, and is not counted.
        for i in range(-1, given.repeats):
            for quiet in sorted(runs, reverse=i % 2 == 1):
                out = folder / f"run-{i}-{quiet}"
                found, drawn[quiet] = cpu_seconds(folder / "run.toml", out, quiet=quiet)
                if i >= 0:
                    runs[quiet].append(found)
    shown, silent = ([run["process"] for run in runs[quiet]] for quiet in (False, True))
    shares = [run["display"] / (run["process"] - run["display"]) for run in runs[False]]
    told = {
        "queries": given.queries,
        "display_seconds": round(median(run["display"] for run in runs[False]), 3),
        "process_seconds_shown": round(median(shown), 3),
        "process_seconds_quiet": round(median(silent), 3),
        "display_share": round(max(shares), 4),
        "shown_per_quiet": [round(a / b, 3) for a, b in zip(shown, silent, strict=True)],
        "bytes_drawn": drawn[False],
        "bytes_drawn_quiet": drawn[True],
        "repeats": given.repeats,
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main()
