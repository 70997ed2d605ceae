"""What a second team of OpenMP threads costs: the same forwards in one thread and beside another.

*one*: the model is loaded and read in one thread, as medstress does it. *two*: it is loaded and
read once in the main thread, which keeps its team, and then read in a worker, as thread pools do.
In turns, each in a process of its own:

    python benchmarks/compute_thread.py --rounds 3
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bounds import at_least

N_TOKENS = 512
N_FORWARDS = 8


def tokens_per_second(loaded: Any) -> float:
    """Tokens a second of forwards of one long row."""
    import torch

    tokens = torch.arange(N_TOKENS)[None] + 100
    with torch.inference_mode():
        loaded.model(input_ids=tokens, use_cache=False, logits_to_keep=1)
        started = time.perf_counter()
        for _ in range(N_FORWARDS):
            loaded.model(input_ids=tokens, use_cache=False, logits_to_keep=1)
    return N_FORWARDS * N_TOKENS / (time.perf_counter() - started)


def measured(way: str, model: str) -> float:
    """Tokens a second of one way."""
    from medstress.backends.models.loaded_model import load_model
    from medstress.backends.options import BackendOptions

    options = BackendOptions(model=model)
    with ThreadPoolExecutor(1) as worker:
        if way == "one":
            loaded = worker.submit(load_model, options).result()
        else:
            loaded = load_model(options)
            tokens_per_second(loaded)
        return worker.submit(tokens_per_second, loaded).result()


def main() -> None:
    """Print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--rounds", type=at_least(1), default=3)
    parser.add_argument("--way", choices=("one", "two"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.way:
        print(measured(given.way, given.model))
        return
    rates: dict[str, list[float]] = {"one": [], "two": []}
    for _ in range(given.rounds):
        for way, found in rates.items():
            command = [sys.executable, __file__, "--way", way, "--model", given.model]
            found.append(float(subprocess.run(command, check=True, capture_output=True).stdout))
    medians = {way: statistics.median(found) for way, found in rates.items()}
    print(
        json.dumps(
            {
                **{f"{way}_tokens_per_second": round(rate) for way, rate in medians.items()},
                "one_per_two": round(medians["one"] / medians["two"], 3),
                "rounds": given.rounds,
                "cores": os.cpu_count(),
                "load_average": round(os.getloadavg()[0], 2),
            }
        )
    )


if __name__ == "__main__":
    main()
