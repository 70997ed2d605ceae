"""What a landscape of 10^9 queries on 1,000 GPUs would take, from what was measured on two cores.

Multiplies measured costs and writes the page docs/many-machines-scale.md:

    python benchmarks/scale.py
    python benchmarks/scale.py --gpus 200 --gpu-hours 900 --print

Nothing here was run at that size. What is no figure of bench.json is an option, with where its
default comes from; the page lists all.
"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import dataclass, fields
from pathlib import Path

from pages import blocks, fill, listed, table

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "bench.json"
PAGE = ROOT / "docs" / "many-machines-scale.md"


@dataclass(frozen=True, kw_only=True)
class Given:
    """Sizes and costs."""

    items: int = 20_000
    """the question above"""
    names: int = 2_331
    """the question above"""
    victims: int = 21
    """the question above"""
    gpus: int = 1_000
    """the question above"""
    gpu_hours: float = 450.0
    """for 10^9 queries; assumed, not measured here: depends on model and prompts"""
    shards: int = 1_050
    """assumed: about one for each GPU, 50 for each victim"""
    load_seconds: float = 60.0
    """to load one model from a local copy; assumed"""
    weights_gb: float = 14.0
    """of one model: 7 billion parameters of two bytes"""
    storage_gb_per_second: float = 50.0
    """that a shared file system gives to all nodes together; assumed"""
    network_gb_per_second: float = 1.25
    """into the machine that merges: 10 Gbit/s; assumed"""
    spread: float = 0.5
    """standard deviation of the cost of an item over its mean; assumed: attacks end at a success"""
    plan_seconds: float = 17.6
    """to prepare the whole plan in each process; measured: distances and draws of 10,000 items,
    performance.md, Sampling"""
    merge_seconds: float = 10.7
    """processor seconds to merge 10^6 queries; measured: `benchmarks/merge.py --queries 200000`"""
    leases_per_second: float = 1_000.0
    """the least that the lease table has to take; `benchmarks/many_machines.py` measures it"""
    queries_per_second: float = 0.0
    """bookkeeping, a second of processor time; measured: `benchmarks/overhead.py`, 10^6 queries"""
    bytes_per_query: float = 0.0
    """of a run folder; measured: the same"""

    @property
    def queries(self) -> int:
        """Items x names x victims."""
        return self.items * self.names * self.victims


@dataclass(frozen=True, kw_only=True)
class Step:
    """One part of the time."""

    name: str
    where: str
    seconds: float
    grows: str
    """With what it grows, so that one sees what helps."""
    waits: bool = True
    """Whether the GPUs or the result wait for it."""


def measured(results: Path = RESULTS) -> dict[str, float]:
    """The figures of bench.json: those of its largest run."""
    lines = json.loads(results.read_text("utf-8"))["parts"]["overhead"]["lines"]
    largest = max(lines, key=lambda line: line["queries"])
    return {
        "queries_per_second": float(largest["queries_per_process_second"]),
        "bytes_per_query": float(largest["bytes_per_query"]),
    }


def steps(given: Given, *, by_victim: bool) -> list[Step]:
    """The parts of the time.

    Args:
        given: sizes and costs.
        by_victim: True: every process has one victim, and every victim is merged by itself, beside
            the others. False: every process loads all victims, and all is merged at once.
    """
    models = 1 if by_victim else given.victims
    parts = given.victims if by_victim else 1
    asking = given.gpu_hours * 3600 * given.queries / 1e9 / given.gpus
    items_per_shard = given.items * parts / given.shards
    # The largest of N sums of m costs is about sqrt(2 ln N) standard deviations above their mean.
    late = given.spread * math.sqrt(2 * math.log(max(given.shards, 2)) / max(items_per_shard, 1.0))
    per_gpu = given.queries / given.gpus
    return [
        Step(
            name="models answer",
            where="every GPU",
            seconds=asking,
            grows="queries / GPUs",
        ),
        Step(
            name="the last shard is late",
            where="all but one GPU are idle",
            seconds=asking * late,
            grows="1 / sqrt(items of a shard)",
        ),
        Step(
            name="weights are read",
            where="shared storage",
            seconds=given.gpus * models * given.weights_gb / given.storage_gb_per_second,
            grows="GPUs x models of a process",
        ),
        Step(
            name="models are loaded",
            where="every process",
            seconds=models * given.load_seconds,
            grows="models of a process",
        ),
        Step(
            name="the plan is made",
            where="every process, alike",
            seconds=given.plan_seconds,
            grows="items; not less with more GPUs",
        ),
        Step(
            name="bookkeeping",
            where="beside each GPU, while it works",
            seconds=per_gpu / given.queries_per_second,
            grows="queries / GPUs",
            waits=False,
        ),
        Step(
            name="leases",
            where="one process",
            seconds=given.shards / given.leases_per_second,
            grows="shards",
        ),
        Step(
            name="ledgers travel",
            where="network of one machine",
            seconds=given.queries * given.bytes_per_query / given.network_gb_per_second / 1e9,
            grows="queries",
        ),
        Step(
            name="merging",
            where=f"one process for each of {parts} merges" if by_victim else "one process",
            seconds=given.queries / 1e6 * given.merge_seconds / parts,
            grows="queries of one merge",
        ),
    ]


def first_bottleneck(found: list[Step]) -> Step:
    """What takes longest of all that is not the models' own work."""
    return max((step for step in found[1:] if step.waits), key=lambda step: step.seconds)


def clock(seconds: float) -> str:
    """A time as people write it.

    >>> clock(0.4), clock(95), clock(5400), clock(41_000)
    ('0.4 s', '1.6 min', '1.5 h', '11.4 h')
    """
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"


def parts_of(given: Given) -> dict[str, str]:
    """What stands between the marks of the page."""
    layouts = {
        "all victims in every process": steps(given, by_victim=False),
        "one victim in every process": steps(given, by_victim=True),
    }
    rows = [
        [one.name, _where(one, other), clock(one.seconds), clock(other.seconds), one.grows]
        for one, other in zip(*layouts.values(), strict=True)
    ]
    waits = [sum(step.seconds for step in found if step.waits) for found in layouts.values()]
    rows.append(["all that is waited for", "", *map(clock, waits), ""])
    said = [
        f"{name}: **{(worst := first_bottleneck(found)).name}** ({worst.where}), "
        f"{clock(worst.seconds)}, {worst.seconds / found[0].seconds:.1f} times the "
        f"{clock(found[0].seconds)} in which the models answer"
        for name, found in layouts.items()
    ]
    told = given.queries / given.queries_per_second
    share = given.queries / given.gpus / given.queries_per_second
    asking = layouts["one victim in every process"][0].seconds
    more = [
        f"bookkeeping in one process: {clock(told)}; beside {given.gpus:,} GPUs it takes "
        f"{share / asking:.1%} of one core each",
        f"ledgers: {given.queries * given.bytes_per_query / 1e9:,.0f} GB in all, "
        f"{given.queries * given.bytes_per_query / given.shards / 1e6:,.0f} MB a shard",
    ]
    return {
        "bottleneck": listed([*said, *more]),
        "steps": table(["part", "where", *layouts, "grows with"], rows),
        "assumed": table(
            ["figure", "value", "from"],
            [[_words(field.name), _value(given, field.name), _said(field.name)] for field in _ALL],
        ),
    }


def _where(one: Step, other: Step) -> str:
    return one.where if one.where == other.where else f"{one.where}; {other.where}"


_ALL = fields(Given)


def _words(name: str) -> str:
    return (
        name.replace("_gb", " GB").replace("gpu_", "GPU ").replace("gpus", "GPUs").replace("_", " ")
    )


def _value(given: Given, name: str) -> str:
    value = getattr(given, name)
    return f"{value:,.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else f"{value:,}"


def _said(name: str) -> str:
    """The docstring of a field."""
    source = Path(__file__).read_text("utf-8")
    after = source.split(f"\n    {name}: ", 1)[1].split('"""', 2)[1]
    return " ".join(after.split())


def main() -> None:
    """Write the page, or print what would stand in it."""
    parser = argparse.ArgumentParser(description=__doc__)
    for field in _ALL:
        kind = int if isinstance(field.default, int) else float
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=kind, default=None)
    parser.add_argument("--print", action="store_true", help="print the tables, write nothing")
    args = vars(parser.parse_args())
    only_printed = args.pop("print")
    chosen = {name: value for name, value in args.items() if value is not None}
    parts = parts_of(Given(**{**measured(), **chosen}))
    if only_printed:
        print(blocks(*parts.values()))
    else:
        PAGE.write_text(fill(PAGE.read_text("utf-8"), parts), encoding="utf-8")


if __name__ == "__main__":
    main()
