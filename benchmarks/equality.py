"""Are the answers of the sharing path the answers of the plain path?

Real runs on MedQA and MedMCQA are answered by the sharing path: scheduler, batches as they come,
keys and values kept between them. The distinct prompts that their trials consumed, candidates
included, are then answered by the plain path (`sharing=False`: every prompt read from its first
token, rows padded), with torch's own layers. Counted are prompts whose letter differs, and the
largest absolute difference of a log probability, for letters and for the texts of the options:

    python benchmarks/equality.py --prompts 1400 600 --rounded-prompts 24
    python benchmarks/equality.py --prompts 200 --dtypes float32 --answer-by letter

In float32 the letters must be equal and the differences at most 1e-4: anything else ends with
exit code 1. In bfloat16 rounding alone moves answers; flips are counted and reported.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common import at_least, own_layers, plainly
from consumed import arguments, consumed_calls, run_dataset

from medstress.backends.local.loading import LoadedModel, load_model
from medstress.backends.local.transformers import TransformersBackend
from medstress.backends.options import BackendOptions
from medstress.core.calls import Call, Reply, Score, Scored
from medstress.entities.processor import in_compute_thread

TOLERANCE = 1e-4
"""Largest difference of a log probability in float32."""
AT_ONCE = 32
CALLS_PER_ITEM = 3
"""Guess of how many calls an item consumes; the run is extended where it was too high."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What two paths disagree in."""

    prompts: int
    """Compared."""
    letters: int
    """Prompts with another letter."""
    largest: float
    """Absolute difference of two log probabilities."""
    margin: float | None
    """Smallest gap, on the plain path, between the best two options of a prompt."""


def compare(pairs: Iterable[tuple[Sequence[float], Sequence[float]]]) -> Difference:
    """Compare the log probabilities of two paths, prompt by prompt.

    >>> compare([((-1.0, -2.0), (-1.5, -2.0)), ((-1.0, -2.0), (-2.0, -1.75))])
    Difference(prompts=2, letters=1, largest=1.0, margin=0.25)
    """
    n = letters = 0
    largest, margin = 0.0, math.inf
    for ours, plain in pairs:
        n += 1
        letters += _best(ours) != _best(plain)
        gaps = [abs(a - b) for a, b in zip(ours, plain, strict=True)]
        # What is no number differs from everything; a plain max would pass over it.
        largest = max(largest, *(math.inf if math.isnan(gap) else gap for gap in gaps))
        first, second = sorted(plain, reverse=True)[:2]
        margin = min(margin, first - second)
    closest = margin if math.isfinite(margin) else None
    return Difference(prompts=n, letters=letters, largest=largest, margin=closest)


def _best(values: Sequence[float]) -> int:
    return max(range(len(values)), key=values.__getitem__)


@contextmanager
def overheard() -> Iterator[dict[Score, tuple[float, ...]]]:
    """Yield a table of what every back end answers meanwhile."""
    answer = TransformersBackend.answer
    heard: dict[Score, tuple[float, ...]] = {}

    def listen(backend: TransformersBackend, calls: Sequence[Call]) -> list[Reply]:
        replies = answer(backend, calls)
        for call, reply in zip(calls, replies, strict=True):
            if isinstance(call, Score) and isinstance(reply, Scored):
                # The first answer: a flip is asked again, alone, and that is read afresh.
                heard.setdefault(call, reply.log_probs)
        return replies

    TransformersBackend.answer = listen  # type: ignore[method-assign]
    try:
        yield heard
    finally:
        TransformersBackend.answer = answer  # type: ignore[method-assign]


def of_real_runs(name: str, given: Namespace, n: int) -> dict[Score, tuple[float, ...]]:
    """`n` distinct consumed calls of one data set, as the sharing path answered them."""
    items = -(-n // CALLS_PER_ITEM)
    with tempfile.TemporaryDirectory() as folder, overheard() as heard:
        run_folder = Path(folder) / "run"
        while True:
            run_dataset(name, Namespace(**{**vars(given), "items": items}), run_folder)
            calls = consumed_calls(run_folder)
            distinct = {call: None for of_item in calls.values() for call in of_item}
            say(f"{name}: {len(distinct)} of {n} prompts from {items} items, by sharing")
            if len(distinct) >= n or items > given.items:
                break
            items = math.ceil(items * max(n / max(len(distinct), 1), 1.2))
    return {call: heard[call] for call in list(distinct)[:n]}


def plain_answers(
    loaded: LoadedModel, calls: Iterable[Score]
) -> Iterator[tuple[Score, tuple[float, ...]]]:
    """Answer calls on the plain path, those of similar length together."""
    backend = TransformersBackend(loaded, sharing=False)
    ordered = sorted(calls, key=lambda call: len(str(call.prompt)))
    done, started = 0, time.perf_counter()
    for start in range(0, len(ordered), AT_ONCE):
        batch = ordered[start : start + AT_ONCE]
        with own_layers(loaded.model):
            replies = backend.answer(batch)
        for call, reply in zip(batch, replies, strict=True):
            assert isinstance(reply, Scored), reply
            yield call, reply.log_probs
        done += len(batch)
        rate = done / (time.perf_counter() - started)
        say(f"plain: {done} of {len(ordered)} prompts, {rate:.1f} a second")


def measure(given: Namespace) -> dict[str, Any]:
    """One number format and way of answering, all data sets together."""
    started = time.perf_counter()
    shared: dict[Score, tuple[float, ...]] = {}
    for i, name in enumerate(given.datasets):
        n = (given.prompts - len(shared)) // (len(given.datasets) - i)
        shared.update(of_real_runs(name, given, n))
    loaded = in_compute_thread(load_model)(BackendOptions(model=given.model, dtype=given.dtype))
    found = compare((shared[call], log_probs) for call, log_probs in plain_answers(loaded, shared))
    return {
        "datasets": given.datasets,
        "dtype": given.dtype,
        "answer_by": given.answer_by,
        "prompts": found.prompts,
        "different_letters": found.letters,
        "largest_difference": float(f"{found.largest:.3g}"),
        "smallest_margin": None if found.margin is None else float(f"{found.margin:.3g}"),
        "seconds": round(time.perf_counter() - started, 1),
    }


def equal(line: Mapping[str, Any]) -> bool:
    """Whether a float32 line is as it must be; other formats round, and always pass."""
    if line["dtype"] != "float32":
        return True
    return not line["different_letters"] and line["largest_difference"] <= TOLERANCE


def say(what: str) -> None:
    """One line of progress."""
    print(what, file=sys.stderr, flush=True)


def parse() -> Namespace:
    """The common arguments, with several number formats and ways of answering."""
    parser: ArgumentParser = arguments(__doc__, n_items=100_000)
    parser.add_argument(
        "--prompts",
        nargs="+",
        type=at_least(1),
        default=[1400, 600],
        help="distinct prompts, all data sets together, for each way of answering: options as "
        "texts are four times the tokens",
    )
    parser.add_argument(
        "--rounded-prompts",
        nargs="+",
        type=at_least(1),
        default=[24],
        help="the same where rounding moves answers",
    )
    formats = ["float32", "bfloat16"]
    parser.add_argument("--dtypes", nargs="+", choices=formats, default=formats)
    parser.set_defaults(answer_by=None)
    given = parser.parse_args()
    least = min(given.prompts + given.rounded_prompts)
    if least < len(given.datasets):
        parser.error(f"{least} prompts are fewer than the {len(given.datasets)} data sets")
    given.ways = [given.answer_by] if given.answer_by else ["letter", "text"]
    return given


def main() -> int:
    """Print one JSON line a number format and way of answering."""
    given, fine = parse(), True
    for dtype in given.dtypes:
        numbers = given.prompts if dtype == "float32" else given.rounded_prompts
        for way, n in zip(given.ways, [*numbers, numbers[-1]], strict=False):
            how = {"dtype": dtype, "answer_by": way, "prompts": n}
            line = measure(Namespace(**{**vars(given), **how}))
            print(json.dumps(line), flush=True)
            fine = fine and equal(line)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(plainly(main))
