"""Wall time against a bare loop and against two plain baselines, in one process.

* *ours*: the run itself: scheduler, store and back end; the model is loaded and checked, and its
  weights are packed, before.
* *bare*: only forwards as many random tokens, in the best of a few batch shapes; in turns with
  the batches of the run.
* *as published*: one prompt at a time, greedy, up to 128 new tokens, stops at the end of text; the
  distances between the key and every name of the vocabulary in a plain Python loop.
* *full*: the same with 128 tokens forced, which is what an answer in prose costs.

The bare loop forwards the model as the run has loaded it; the two baselines have torch's own linear
layers, where medstress multiplies otherwise.

Keys are what the model answers, so that every item is attacked; finding them is not timed.

Where others use the machine too, a batch that waited for a core tells nothing of either. The run
is therefore repeated, its batches are the same ones each time, and of each batch, of ours as of
the bare loop's, the fastest time counts.

The two slow ones are timed on a few of the run's prompts, spread evenly over it, and their time a
query is taken for all:

    python benchmarks/baselines.py --items 60 --slow-queries 6 --repeats 3
"""

from __future__ import annotations

import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import at_least, own_layers, plainly
from consumed import answered_questions, arguments, consumed_calls, run_dataset
from scipy.stats import bootstrap

from medstress.backends.local.loading import LoadedModel, load_model
from medstress.backends.local.tokens import PromptTokenizer
from medstress.backends.local.transformers import TransformersBackend
from medstress.backends.options import BackendOptions
from medstress.core.calls import Call, Reply, Score
from medstress.entities.processor import in_compute_thread

NEW_TOKENS = 128
SHAPES = (
    *((1, 512), (2, 256), (4, 128), (8, 64), (16, 64), (32, 32)),
    *((64, 32), (64, 64), (128, 32), (256, 16)),
)
VECTOR_SIZE = 384


def finish(device: Any) -> None:
    """Wait until a GPU has done what it was given; a CPU has."""
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize()


@in_compute_thread
def forward_seconds(loaded: LoadedModel, shape: tuple[int, int], n_tokens: int) -> float:
    """Seconds to forward about `n_tokens` random tokens in batches of one shape.

    A quarter of a batch goes before the timed ones: what ran before has left other things in the
    caches.
    """
    size = loaded.model.config.vocab_size
    batches = max(round(n_tokens / math.prod(shape)), 1)
    tokens = torch.randint(0, size, shape, device=loaded.device)
    with torch.inference_mode():
        loaded.model(input_ids=tokens[: -(-shape[0] // 4)], use_cache=False, logits_to_keep=1)
        finish(loaded.device)
        started = time.perf_counter()
        for _ in range(batches):
            loaded.model(input_ids=tokens, use_cache=False, logits_to_keep=1)
        finish(loaded.device)
    seconds = time.perf_counter() - started
    return seconds * n_tokens / (batches * math.prod(shape))


def best_shape(loaded: LoadedModel) -> tuple[int, int]:
    """The fastest shape, each tried three times on 1,024 tokens or one batch of more."""
    tried: dict[tuple[int, int], list[float]] = {shape: [] for shape in SHAPES}
    for _ in range(3):
        for shape, seconds in tried.items():
            seconds.append(forward_seconds(loaded, shape, 1024))
    return min(tried, key=lambda shape: min(tried[shape]))


@dataclass(slots=True)
class Between:
    """What the batches of a run took, and the bare loop between them."""

    n_tokens: list[int] = field(default_factory=list)
    """Tokens that each batch of the run forwarded."""
    ours: list[float] = field(default_factory=list)
    """Seconds of each batch of the run."""
    bare: list[float] = field(default_factory=list)
    """Seconds of the bare loop for as many tokens."""
    spent: float = 0.0
    """Seconds it really ran: its batches are whole ones."""
    elsewhere: float = 0.0
    """Seconds of the run outside its batches."""

    @property
    def ratio(self) -> float:
        """Seconds of the run per second of the bare loop."""
        return (sum(self.ours) + self.elsewhere) / sum(self.bare)

    def interval(self) -> list[float]:
        """95 % of the ratio, by resampling batches."""
        found = bootstrap(
            (self.ours, self.bare),
            lambda ours, bare, axis: (
                (np.sum(ours, axis=axis) + self.elsewhere) / np.sum(bare, axis=axis)
            ),
            paired=True,
            vectorized=True,
            method="percentile",
            rng=0,
        ).confidence_interval
        return [round(float(found.low), 3), round(float(found.high), 3)]


def fastest(runs: Sequence[Between]) -> Between:
    """Of each batch the fastest time of the runs.

    Raises:
        ValueError: their batches differ.
    """
    if any(one.n_tokens != runs[0].n_tokens for one in runs):
        raise ValueError("expected the same batches in each run, and they differ")
    return Between(
        n_tokens=runs[0].n_tokens,
        ours=[min(times) for times in zip(*(one.ours for one in runs), strict=True)],
        bare=[min(times) for times in zip(*(one.bare for one in runs), strict=True)],
        elsewhere=min(one.elsewhere for one in runs),
    )


@contextmanager
def bare_loop_between(shape: tuple[int, int]) -> Iterator[Between]:
    """After each batch of a run forward as many random tokens.

    Other work on the machine then slows both alike.
    """
    answer, between = TransformersBackend.answer, Between()

    def both(backend: TransformersBackend, calls: Sequence[Call]) -> list[Reply]:
        before, started = backend.counters["tokens_forwarded"], time.perf_counter()
        replies = answer(backend, calls)
        ended = time.perf_counter()
        n_tokens = backend.counters["tokens_forwarded"] - before
        between.n_tokens.append(n_tokens)
        between.ours.append(ended - started)
        between.bare.append(forward_seconds(backend._loaded, shape, n_tokens) if n_tokens else 0.0)
        between.spent += time.perf_counter() - ended
        return replies

    TransformersBackend.answer = both  # type: ignore[method-assign]
    try:
        yield between
    finally:
        TransformersBackend.answer = answer  # type: ignore[method-assign]


def timed_run(
    name: str, given: Any, folder: Path, questions: Path, shape: tuple[int, int]
) -> Between:
    """One run with the bare loop between its batches."""
    with bare_loop_between(shape) as between:
        counted = run_dataset(name, given, folder, questions)
    between.elsewhere = counted["wall_seconds"] - between.spent - sum(between.ours)
    return between


def plain_distances(key: Sequence[float], names: Sequence[Sequence[float]]) -> list[float]:
    """Cosine distances, a name at a time and a number at a time."""
    found = []
    for name in names:
        dot = norm_a = norm_b = 0.0
        for a, b in zip(key, name, strict=True):
            dot += a * b
            norm_a += a * a
            norm_b += b * b
        found.append(1.0 - dot / math.sqrt(norm_a * norm_b))
    return found


@in_compute_thread
def one_at_a_time(loaded: LoadedModel, prompts: Sequence[Sequence[int]], *, forced: bool) -> float:
    """Seconds a query: generate greedily for one prompt after another."""
    least = {"min_new_tokens": NEW_TOKENS} if forced else {}
    started = time.perf_counter()
    with torch.inference_mode(), own_layers(loaded.model):
        for prompt in prompts:
            tokens = torch.tensor([list(prompt)], device=loaded.device)
            loaded.model.generate(
                input_ids=tokens,
                attention_mask=torch.ones_like(tokens),
                do_sample=False,
                max_new_tokens=NEW_TOKENS,
                **least,
            )
    return (time.perf_counter() - started) / len(prompts)


def distance_seconds(n_names: int) -> float:
    """Seconds of the distances of one item, extrapolated from 200 names."""
    vectors = np.random.default_rng(0).normal(size=(201, VECTOR_SIZE)).tolist()
    started = time.perf_counter()
    plain_distances(vectors[0], vectors[1:])
    return (time.perf_counter() - started) * n_names / 200


def spread(calls: Sequence[Score], n: int) -> list[Score]:
    """`n` of them, evenly."""
    return [calls[i * len(calls) // n] for i in range(min(n, len(calls)))]


def measure(name: str, given: Any, loaded: LoadedModel, shape: tuple[int, int]) -> dict[str, Any]:
    """Ours and bare in turns, then the two slow ones."""
    with tempfile.TemporaryDirectory() as folder:
        questions = answered_questions(name, given, Path(folder))
        folders = [Path(folder) / f"run{number}" for number in range(given.repeats)]
        runs = [timed_run(name, given, one, questions, shape) for one in folders]
        calls = consumed_calls(folders[0])
    n_queries, between = sum(map(len, calls.values())), fastest(runs)
    bare, ours = sum(between.bare), sum(between.ours) + between.elsewhere
    tokenizer = PromptTokenizer(loaded.tokenizer, loaded.identity.name, open_end=True)
    chosen = spread([call for of_item in calls.values() for call in of_item], given.slow_queries)
    texts = [tokenizer.template.text(call.prompt) for call in chosen]
    prompts = tokenizer.tokens(texts, chat=False) if texts else []
    # Both vocabularies together, once an item.
    distances = distance_seconds(n_names=2331 + 9847) * len(calls) / n_queries
    slow: dict[str, Callable[[], float]] = {
        "published": lambda: one_at_a_time(loaded, prompts, forced=False) + distances,
        "full": lambda: one_at_a_time(loaded, prompts, forced=True) + distances,
    }
    per_query = {label: run() for label, run in slow.items() if prompts}
    return {
        "dataset": name,
        "dtype": given.dtype,
        "items": len(calls),
        "queries": n_queries,
        "tokens_forwarded": sum(between.n_tokens),
        "ours_seconds": round(ours, 2),
        "bare_seconds": round(bare, 2),
        "bare_shape": shape,
        "ours_per_bare": round(between.ratio, 3),
        "ours_per_bare_interval": between.interval(),
        "ours_per_bare_of_each_run": [round(one.ratio, 3) for one in runs],
        "ours_queries_per_second": round(n_queries / ours, 3),
        **{f"{label}_queries_per_second": round(1 / s, 4) for label, s in per_query.items()},
        **{f"times_{label}": round(s * n_queries / ours, 1) for label, s in per_query.items()},
        "slow_queries_timed": len(prompts),
        "load_average": round(os.getloadavg()[0], 2),
        "threads": torch.get_num_threads(),
    }


def main() -> None:
    """Print one JSON line a data set."""
    parser = arguments(__doc__, n_items=60)
    parser.add_argument(
        "--slow-queries",
        type=at_least(0),
        default=6,
        help="queries of the slow baselines; 0 leaves them out",
    )
    parser.add_argument(
        "--repeats", type=at_least(1), default=1, help="runs, of which the fastest counts"
    )
    given = parser.parse_args()
    loaded = in_compute_thread(load_model)(BackendOptions(model=given.model, dtype=given.dtype))
    forward_seconds(loaded, SHAPES[0], 1024)
    shape = best_shape(loaded)
    for name in given.datasets:
        print(json.dumps(measure(name, given, loaded, shape)), flush=True)


if __name__ == "__main__":
    sys.exit(plainly(main))
