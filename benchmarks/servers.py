"""Rate of the openai back end against a server on this machine that takes 50 ms to answer.

Three rates over the same prompts, each from so many threads: a bare loop with the official client
(its own parsing, no limits, no checks, no repetitions), the back end, and a whole run with its
ledger, its start included. The server is a process of its own, but shares the processor. The ideal
is the number in flight over the latency.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bounds import above_zero, at_least

from medstress.api.run import run
from medstress.backends.options import BackendOptions
from medstress.backends.server.openai import open_backend
from medstress.core.calls import Score, Scored
from medstress.testing import REPLACEMENTS, never_errs, tiny_questions

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "servers"))
from fault_server import FaultServer

ITEMS = tiny_questions(400)
TABLES: dict[str, Any] = {
    "experiment": {"controls": False, "name": "servers", "seeds": [0]},
    "dataset": [{"name": "jsonl", "path": "items.jsonl"}],
    "entities": [{"type": "drugs", "vocabulary": "names.txt", "embedding": "ngram"}],
    "attack": [{"name": "entity_substitution", "sampler": "exhaustive"}],
}


def serve(seconds: float, ready: Any) -> None:
    """The server's process; says its address and stays."""
    right = never_errs(ITEMS)

    def answer(prompt: str) -> str:
        return right([prompt])[0]["answer"] if prompt.startswith("Context") else "A"

    with FaultServer(seconds=seconds, answer=answer) as server:
        ready.put(server.url)
        time.sleep(86_400)


def rate(n: int, threads: int, ask: Callable[[str], None]) -> float:
    """Prompts a second, after as many to warm up as there are threads."""
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(ask, (f"warm {i}" for i in range(threads))))
        started = time.perf_counter()
        list(pool.map(ask, (f"prompt {i}" for i in range(n))))
        return n / (time.perf_counter() - started)


def bare(url: str, n: int, threads: int) -> float:
    """The official client alone."""
    import httpx2
    import openai

    limits = httpx2.Limits(max_connections=threads, max_keepalive_connections=threads)
    client = openai.OpenAI(
        api_key="none", base_url=url, max_retries=0, http_client=httpx2.Client(limits=limits)
    )

    def ask(prompt: str) -> None:
        found = client.completions.create(
            model="fault-model", prompt=prompt, max_tokens=1, logprobs=20, temperature=0.0
        )
        assert found.choices[0].logprobs is not None

    try:
        return rate(n, threads, ask)
    finally:
        client.close()


def ours(url: str, n: int, threads: int) -> float:
    """The back end, called as the scheduler calls it."""
    backend = open_backend(BackendOptions(base_url=url, model="fault-model", max_in_flight=threads))

    def ask(prompt: str) -> None:
        (reply,) = backend.answer([Score(prompt, (" A", " B", " C", " D"), first_token=True)])
        assert isinstance(reply, Scored)

    try:
        return rate(n, threads, ask)
    finally:
        backend.close()


def whole(url: str, n_items: int, threads: int) -> float:
    """A run: answers a second by its own clock."""
    import orjson

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        rows = []
        for item in ITEMS[:n_items]:
            mentions = [
                {"field": m.field, "start": m.start, "end": m.end, "type": m.type}
                for m in item.mentions
            ]
            row = {"id": item.id, "stem": item.stem, "options": list(item.options)}
            rows.append(orjson.dumps({**row, "answer_idx": item.key, "mentions": mentions}))
        (root / "items.jsonl").write_bytes(b"\n".join(rows))
        (root / "names.txt").write_text("\n".join(REPLACEMENTS), encoding="utf-8")
        os.chdir(root)
        victim = {"backend": "openai", "base_url": url, "model": "fault-model"}
        done = run({**TABLES, "victim": [{**victim, "max_in_flight": threads}]}, root / "run")
        performance = done.manifest()["performance"]
        os.chdir("/")
        return float(performance["requests"] / performance["wall_seconds"])


def main() -> None:
    """Print the rates."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=above_zero, default=0.05, help="what an answer takes")
    parser.add_argument("--in-flight", type=at_least(1), nargs="+", default=[16, 256])
    parser.add_argument("--n", type=at_least(1), default=2000, help="prompts of each measurement")
    parser.add_argument(
        "--repeats", type=at_least(1), default=3, help="measurements; the best counts"
    )
    given = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    ready = context.Queue()
    server = context.Process(target=serve, args=(given.seconds, ready), daemon=True)
    server.start()
    url = ready.get(timeout=60)
    for threads in given.in_flight:
        ideal = threads / given.seconds
        best = {"bare": 0.0, "back end": 0.0, "run": 0.0}
        for _ in range(given.repeats):  # in turn, since a machine has better and worse minutes
            best["bare"] = max(best["bare"], bare(url, given.n, threads))
            best["back end"] = max(best["back end"], ours(url, given.n, threads))
            best["run"] = max(best["run"], whole(url, min(given.n // 13, len(ITEMS)), threads))
        load = os.getloadavg()[0]
        print(f"{threads} in flight, {given.seconds * 1000:.0f} ms, load average {load:.1f}")
        for name, value in best.items():
            print(
                f"  {name:<8} {value:7.1f} a second, {value / ideal:6.1%} of the ideal, "
                f"{value / best['bare']:6.1%} of the bare loop"
            )
    server.terminate()


if __name__ == "__main__":
    main()
