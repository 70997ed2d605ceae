"""The targets, beside what bench.py measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

Line = Mapping[str, Any]

NAMES = {"medqa": "MedQA", "medmcqa": "MedMCQA"}
FASTER = {"medqa": 60, "medmcqa": 30}
"""At least so many times faster than the full baseline."""
FLAT = 1.15
"""Largest ratio still called flat, or linear: what two runs of the same differ by, about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One thing that was promised."""

    what: str
    """In words."""
    asked: str
    """The target."""
    measured: str
    """The value."""
    met: bool
    """Whether it holds."""


def targets(parts: Mapping[str, Any]) -> list[Target]:
    """Every promise of which there is a measurement, in the order of the page."""
    makers: Mapping[str, Callable[[Sequence[Line]], Iterator[Target]]] = {
        "prefix_sharing": _prefix_sharing,
        "padding": _padding,
        "equality": _equality,
        "baselines": _baselines,
        "sampling": _sampling,
        "overhead": _overhead,
        "progress": _progress,
        "start": _start,
        "growth": _growth,
    }
    return [
        target
        for name, make in makers.items()
        if lines_of(parts, name)
        for target in make(lines_of(parts, name))
    ]


def _prefix_sharing(lines: Sequence[Line]) -> Iterator[Target]:
    for line in lines:
        if line.get("questions") == "least sure" and _all_checked(line):
            continue  # chosen so that many attacks succeed; the table shows what that costs
        ratio, ends = line["forwarded_per_unique"], line.get("ends", "at a success")
        sampled = line.get("questions") == "least sure"
        most, of = (1.05, ", least sure, flip checks sampled") if sampled else (1.10, "")
        yield Target(
            what=f"tokens forwarded per token needed, {_data(line)}, ends {ends}{of}",
            asked=f"≤ {most:.2f}",
            measured=f"{ratio:.3f} ({line['queries']:,} queries)",
            met=ratio <= most,
        )


def _all_checked(line: Line) -> bool:
    """Whether every success was asked again, as always before flip checks could be sampled."""
    return bool(line.get("checked", line["flipped"]) == line["flipped"])


def _padding(lines: Sequence[Line]) -> Iterator[Target]:
    for line in lines:
        waste = line["forwarded_per_needed"] - 1
        yield Target(
            what=f"padding, encoder-decoder, {_data(line)} by {line['answer_by']}",
            asked="< 5 %",
            measured=f"{waste:.1%}".replace("%", " %"),
            met=waste < 0.05,
        )


def _equality(lines: Sequence[Line]) -> Iterator[Target]:
    exact = [line for line in lines if line["dtype"] == "float32"]
    if not exact:
        return
    n = sum(line["prompts"] for line in exact)
    others = sum(line["different_letters"] for line in exact)
    ways = " and ".join(f"{line['prompts']:,} by {line['answer_by']}" for line in exact)
    yield Target(
        what=f"other letters than on the plain path, float32, {ways}",
        asked="0 of 2,000",
        measured=f"{others} of {n:,}",
        met=not others and n >= 2000,
    )
    for line in exact:
        yield Target(
            what=f"largest difference of a log probability, by {line['answer_by']}, float32",
            asked="≤ 1e-4",
            measured=f"{line['largest_difference']:.1e}",
            met=line["largest_difference"] <= 1e-4,
        )


def _baselines(lines: Sequence[Line]) -> Iterator[Target]:
    for line in lines:
        yield Target(
            what=f"wall time per that of a bare loop, {_data(line)}",
            asked="≤ 1.15",
            measured=f"{line['ours_per_bare']:.3f} (whole runs {_span(line)})",
            met=max(line["ours_per_bare"], median(line["ours_per_bare_of_each_run"])) <= 1.15,
        )
    for line in lines:
        if (times := line.get("times_full")) and (least := FASTER.get(line["dataset"])):
            yield Target(
                what=f"times faster a query than the full baseline, {_data(line)}",
                asked=f"≥ {least}",
                measured=f"{times:.0f}",
                met=times >= least,
            )


def _span(line: Line) -> str:
    """The ratios of whole runs: their median, the least and the largest."""
    ratios = line["ours_per_bare_of_each_run"]
    return f"{median(ratios):.3f}, {min(ratios):.3f} to {max(ratios):.3f}"


def _sampling(lines: Sequence[Line]) -> Iterator[Target]:
    line = lines[-1]
    size = f"{line['items']:,} x {line['names']:,} x {line['exponents']} x {line['draws']}"
    measured = tuple(line[key] for key in ("items", "names", "exponents", "draws"))
    whole = measured == (10_000, 9_848, 13, 8)
    spent, memory = line["seconds"], line["largest_resident_mb"]
    once = line["times_faster_than_the_loop"]
    each = line.get("times_faster_with_distances_each_time", once)
    seconds = f"{spent} s"
    yield Target(
        what=f"proposals for {size}", asked="< 60 s", measured=seconds, met=spent < 60 and whole
    )
    yield Target(
        what="memory of that",
        asked="≤ 1.5 GB",
        measured=f"{memory:,} MB",
        met=memory <= 1500 and whole,
    )
    yield Target(
        what="times faster than a loop over pairs",
        asked="≥ 500",
        measured=f"{each:,} ({once:,} where it takes distances once a pair)",
        met=each >= 500 and whole,
    )


def _overhead(lines: Sequence[Line]) -> Iterator[Target]:
    ordered = sorted(lines, key=lambda line: line["queries"])
    last = ordered[-1]
    rate = last["queries_per_process_second"]
    yield Target(
        what="queries a second of CPU time, instant victim, all recorded",
        asked="≥ 10,000 at the least (20,000 wanted)",
        measured=f"{rate:,}",
        met=rate >= 10_000,
    )
    memory = last["largest_resident_mb"] / last["early_resident_mb"]
    yield Target(
        what=f"memory after {last['queries']:,} queries per that after the first 20,000 of them",
        asked=f"≤ {FLAT} at 1,000,000",
        measured=f"{memory:.2f}",
        met=memory <= FLAT and last["queries"] >= 1_000_000,
    )


def _progress(lines: Sequence[Line]) -> Iterator[Target]:
    if "display_share" not in lines[-1]:
        return
    share, pairs = lines[-1]["display_share"], lines[-1].get("shown_per_quiet", [])
    told = f" (shown / quiet {min(pairs)} to {max(pairs)})" if pairs else ""
    yield Target(
        what="CPU time of the progress display per that of the rest of a run",
        asked="< 2 %",
        measured=f"{share:.1%}".replace("%", " %") + told,
        met=share < 0.02,
    )


def _start(lines: Sequence[Line]) -> Iterator[Target]:
    line = lines[-1]
    for key, what, most in (
        ("help_seconds", "`medstress --help`", 0.25),
        ("import_seconds", "`import medstress`", 0.25),
        ("second_demo_seconds", "a second `medstress demo`, fresh folder", 60),
    ):
        if key in line:
            value = line[key]
            yield Target(what=what, asked=f"< {most} s", measured=f"{value} s", met=value < most)


def _growth(lines: Sequence[Line]) -> Iterator[Target]:
    for line in lines:
        if "marginal_ratio" not in line:
            continue
        span = f"{line['axis']}, {line['largest']:,} against {line['smallest']:,}"
        last = f"{line['last_but_one']:,} to {line['largest']:,}"
        time, memory = (line["marginal_ratio"], line["of_whole_runs"]), line["memory_ratio"]
        is_told = None not in time
        yield Target(
            what=f"CPU time a unit: {line['axis']}, {last} per {line['smallest']:,} to "
            f"{line['last_but_one']:,}",
            asked=f"≤ {FLAT} (linear)",
            measured=f"{time[0]:.2f} (fastest whole runs {time[1]:.2f})"
            if is_told
            else "too small to tell",
            met=is_told and max(time) <= FLAT,
        )
        yield Target(
            what=f"memory: {span}",
            asked=f"≤ {FLAT} (flat)",
            measured=f"{memory:.2f}",
            met=memory <= FLAT,
        )


def lines_of(parts: Mapping[str, Any], name: str) -> list[Line]:
    """What a part printed."""
    return list(parts.get(name, {}).get("lines", []))


def _data(line: Line) -> str:
    return NAMES.get(line["dataset"], line["dataset"])
