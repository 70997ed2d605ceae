"""Size and seconds of the report of a large run; no model is asked.

The run is of an instant victim that is fooled by a share of the names (see overhead.py), 8 queries
a trial:

    python benchmarks/report_size.py --trials 10000
    python benchmarks/report_size.py --trials 100000
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

from common import at_least, plainly
from overhead import experiment, write_inputs

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


def main() -> None:
    """Print one JSON line."""
    from medstress.api.run import run

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=at_least(1), default=10_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_inputs(folder, given.trials)
        tables = experiment(folder)
        tables["victim"][0]["target"] = f"{Path(__file__).resolve()}:fooled"
        tables["attack"][0]["budget"] = 8
        done = run(tables, folder / "run")
        seconds, sizes = {}, {}
        for what, make in (("summary", done.summary), ("report", done.report)):
            started = time.perf_counter()
            made = make()
            seconds[f"{what}_seconds"] = round(time.perf_counter() - started, 1)
            text = made if isinstance(made, str) else json.dumps(made)
            sizes[f"{what}_bytes"] = len(text.encode())
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps({"trials": given.trials, **seconds, **sizes, "largest_resident_mb": memory}))


if __name__ == "__main__":
    sys.exit(plainly(main))
