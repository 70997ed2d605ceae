"""Forwards of the embedded language model with torch's own layers and with those medstress uses.

* *own*: as torch and transformers compute.
* *loaded*: as medstress loads every model: linear layers multiply with oneDNN where MKL is slow.
* *lean*: as prompts with common prefixes are read: norms, gates and rotations with fewer passes
  over memory, and packed weights as well.

In turns, and of a few times the fastest counts:

    python benchmarks/layers.py --repeats 9
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
from bounds import at_least
from medstress.backends.shared_prefix.lean_layers import LeanLayers
from own_layers import own_layers
from plainly import plainly

from medstress.backends.models.loaded_model import load_model
from medstress.backends.options import BackendOptions
from medstress.machine.compute_thread import in_compute_thread

SHAPES = ((1, 40), (1, 350), (32, 32), (16, 256))
"""Rows and tokens of each: a short prompt, one of MedQA, and batches."""

Way = Callable[[], AbstractContextManager[None]]


@in_compute_thread
def ways_of(model: Any) -> dict[str, Way]:
    """How to forward."""
    lean = LeanLayers(model)
    lean.pack()
    return {"own": partial(own_layers, model), "loaded": nullcontext, "lean": lean.used}


@in_compute_thread
def measure(model: Any, ways: dict[str, Way], shape: tuple[int, int], n: int) -> dict[str, Any]:
    """The fastest forward of each way."""
    tokens = torch.randint(0, model.config.vocab_size, shape)
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(n + 1):  # the first touches the memory
        for name, way in ways.items():
            with torch.inference_mode(), way():
                started = time.perf_counter()
                model(input_ids=tokens, use_cache=False, logits_to_keep=1)
                taken[name].append(time.perf_counter() - started)
    best = {name: min(times[1:]) for name, times in taken.items()}
    return {
        "shape": shape,
        **{f"{name}_ms": round(seconds * 1000, 1) for name, seconds in best.items()},
        "times_loaded": round(best["own"] / best["loaded"], 2),
        "times_lean": round(best["own"] / best["lean"], 2),
        "threads": torch.get_num_threads(),
    }


def main() -> None:
    """Print one JSON line a shape."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=at_least(1), default=5)
    parser.add_argument("--model", default="smollm2")
    given = parser.parse_args()
    loaded = in_compute_thread(load_model)(BackendOptions(model=given.model, dtype="float32"))
    ways = ways_of(loaded.model)
    for shape in SHAPES:
        print(json.dumps(measure(loaded.model, ways, shape, given.repeats)), flush=True)


if __name__ == "__main__":
    sys.exit(plainly(main))
