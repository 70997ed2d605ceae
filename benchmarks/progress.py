"""What the progress display costs: the same run on a terminal, with and without --quiet.

Runs `medstress run` with an instant victim (see overhead.py) as a user would, on a pseudo-terminal
of its own, so that the bars are really drawn; CPU time of the process and its children, in turns,
the fastest of a few:

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
from collections.abc import Mapping
from pathlib import Path
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


def cpu_seconds(file: Path, out: Path, *, quiet: bool) -> tuple[float, int]:
    """CPU time of one run, and the bytes it wrote on its terminal."""
    command = [sys.executable, "-m", "medstress", "run", str(file), "--out", str(out)]
    ours, theirs = pty.openpty()
    drawn = [0]
    reader = threading.Thread(target=_drain, args=(ours, drawn))
    reader.start()
    process = subprocess.Popen(
        command + ["--quiet"] * quiet,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm-256color"},
    )
    os.close(theirs)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    reader.join()
    os.close(ours)
    if process.returncode:
        sys.exit(f"medstress run ended with exit code {process.returncode}")
    return usage.ru_utime + usage.ru_stime, drawn[0]


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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=at_least(1), default=40_000)
    parser.add_argument("--repeats", type=at_least(1), default=3)
    given = parser.parse_args()
    seconds: dict[bool, list[float]] = {False: [], True: []}
    drawn = dict.fromkeys(seconds, 0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_inputs(folder, max(given.queries // BUDGET, 1))
        (folder / "run.toml").write_text(as_toml(experiment(folder)), "utf-8")
        # The first run fills the cache of vectors, and is not counted.
        for i in range(-1, given.repeats):
            for quiet in seconds:
                out = folder / f"run-{i}-{quiet}"
                spent, drawn[quiet] = cpu_seconds(folder / "run.toml", out, quiet=quiet)
                if i >= 0:
                    seconds[quiet].append(spent)
    shown, silent = min(seconds[False]), min(seconds[True])
    found = {
        "queries": given.queries,
        "process_seconds_shown": round(shown, 3),
        "process_seconds_quiet": round(silent, 3),
        "shown_per_quiet": round(shown / silent, 4),
        "bytes_drawn": drawn[False],
        "bytes_drawn_quiet": drawn[True],
        "repeats": given.repeats,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
