"""How long a user waits, and how large a report is; no model but the demo's is asked.

Wall time, each in a process of its own: bare Python, `--help`, `import medstress` (the fastest of a
few), a second demo in a fresh folder, when caches of models and vectors are full. Then summary and
report of a run of many trials, whose instant model is fooled by a share of the names:

    python benchmarks/waits.py
    python benchmarks/waits.py --trials 100000
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

SHARE = 8
"""One prompt in so many is answered wrongly, by a hash of it."""


def fooled(prompts: Sequence[str]) -> list[str]:
    """The victim: A, which is right, but for some of the prompts that name a substance."""
    return [
        "B"
        if "substance" in prompt and blake2b(prompt.encode()).digest()[0] < 256 // SHARE
        else "A"
        for prompt in prompts
    ]


def seconds(*arguments: str) -> float:
    """Wall time of Python with these arguments."""
    started = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def main() -> None:
    """Print two JSON lines."""
    from common import at_least  # not there where a run imports this file for its victim
    from overhead import experiment, write_inputs

    from medstress.api.run import run

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=at_least(1), default=7)
    parser.add_argument("--trials", type=at_least(1), default=10_000)
    given = parser.parse_args()
    ways = {
        "bare_python": ("-c", ""),
        "help": ("-m", "medstress", "--help"),
        "import": ("-c", "import medstress"),
    }
    line: dict[str, float] = {
        f"{name}_seconds": round(min(seconds(*arguments) for _ in range(given.repeats)), 3)
        for name, arguments in ways.items()
    }
    with tempfile.TemporaryDirectory() as folder:
        for name in ("first", "second"):
            demo = seconds("-m", "medstress", "demo", "--quiet", "--out", f"{folder}/{name}")
    line |= {"second_demo_seconds": round(demo, 1), "load_average": round(os.getloadavg()[0], 2)}
    print(json.dumps(line), flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder_ = Path(name)
        write_inputs(folder_, given.trials)
        tables = experiment(folder_)
        tables["victim"][0]["target"] = f"{Path(__file__).resolve()}:fooled"
        tables["attack"][0]["budget"] = 8
        done = run(tables, folder_ / "run")
        line = {"trials": given.trials}
        for what, make in (("summary", done.summary), ("report", done.report)):
            started = time.perf_counter()
            made = make()
            line[f"{what}_seconds"] = round(time.perf_counter() - started, 1)
            line[f"{what}_bytes"] = len(
                (made if isinstance(made, str) else json.dumps(made)).encode()
            )
    line["largest_resident_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps(line))


if __name__ == "__main__":
    main()
