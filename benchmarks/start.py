"""How long a user waits: `--help`, `import medstress`, a second demo in a fresh folder.

Wall time, each in a process of its own; the fastest of a few for the first two. The demo runs
once to fill the caches of models and vectors, then again into another folder, so that its
answers are computed anew:

    python benchmarks/start.py
    python benchmarks/start.py --no-demo
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import at_least


def seconds(*arguments: str) -> float:
    """Wall time of Python with these arguments."""
    started = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def demo_seconds() -> float:
    """The second demo, in a fresh folder."""
    with tempfile.TemporaryDirectory() as folder:
        times = [
            seconds("-m", "medstress", "demo", "--quiet", "--out", str(Path(folder) / name))
            for name in ("first", "second")
        ]
    return times[1]


def main() -> None:
    """Print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=at_least(1), default=7)
    parser.add_argument("--no-demo", action="store_true", help="the two quick ones only")
    given = parser.parse_args()
    ways = {
        "bare_python": ("-c", ""),
        "help": ("-m", "medstress", "--help"),
        "import": ("-c", "import medstress"),
    }
    found: dict[str, float] = {
        f"{name}_seconds": round(min(seconds(*arguments) for _ in range(given.repeats)), 3)
        for name, arguments in ways.items()
    }
    if not given.no_demo:
        found["second_demo_seconds"] = round(demo_seconds(), 1)
    found["load_average"] = round(os.getloadavg()[0], 2)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
