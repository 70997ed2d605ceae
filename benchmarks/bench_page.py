"""What docs/performance.md shows of the results of bench.py, between its marks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench_against import against
from bench_targets import NAMES, lines_of, targets
from pages import blocks, fill, listed, table

PAGE = Path(__file__).resolve().parents[1] / "docs" / "performance.md"
NOT_MEASURED = "Not measured."
FIRST = ("tokens forwarded", "other letters", "wall time", "times faster a query")
"""What the targets begin with that stand at the top of the page."""
TITLES = {
    "start": "Start",
    "overhead": "Our own overhead",
    "progress": "Progress display",
    "sampling": "Sampling",
    "growth": "Growth",
    "prefix_sharing": "Tokens forwarded",
    "padding": "Encoder-decoder models",
    "baselines": "Wall time",
    "layers": "Layers",
    "equality": "Same answers",
    "against": "Against other tools",
    "gpu": "GPU",
}
COLUMNS: Mapping[str, Mapping[str, str]] = {
    "prefix_sharing": {
        "data": "dataset",
        "questions": "questions",
        "attacks end": "ends",
        "items": "items",
        "successes": "flipped",
        "asked again": "checked",
        "queries": "queries",
        "forwarded": "tokens_forwarded",
        "for flip checks": "tokens_of_flip_checks",
        "needed": "tokens_unique",
        "in all prompts": "tokens_of_all_prompts",
        "forwarded / needed": "forwarded_per_unique",
        "without flip checks": "without_flip_checks_per_unique",
        "all / needed": "all_per_unique",
    },
    "padding": {
        "data": "dataset",
        "answers by": "answer_by",
        "items": "items",
        "calls": "calls",
        "forwarded": "tokens_forwarded",
        "needed": "tokens_needed",
        "forwarded / needed": "forwarded_per_needed",
    },
    "equality": {
        "number format": "dtype",
        "answers by": "answer_by",
        "prompts": "prompts",
        "other letters": "different_letters",
        "largest difference": "largest_difference",
        "closest two options": "smallest_margin",
    },
    "baselines": {
        "data": "dataset",
        "number format": "dtype",
        "queries": "queries",
        "ours / bare loop": "ours_per_bare",
        "best shape of bare": "bare_shape",
        "95 % of it": "ours_per_bare_interval",
        "of each run": "ours_per_bare_of_each_run",
        "queries a second": "ours_queries_per_second",
        "times as published": "times_published",
        "times full": "times_full",
        "threads": "threads",
    },
    "layers": {
        "rows, tokens": "shape",
        "torch's own, ms": "own_ms",
        "as loaded, ms": "loaded_ms",
        "lean and packed, ms": "lean_ms",
        "own / loaded": "times_loaded",
        "own / lean": "times_lean",
        "threads": "threads",
    },
    "sampling": {
        "items": "items",
        "names": "names",
        "values of n": "exponents",
        "draws": "draws",
        "distances, s": "distance_seconds",
        "draws, s": "draw_seconds",
        "memory, MB": "largest_resident_mb",
        "times the loop": "times_faster_than_the_loop",
        "times it with distances for each n": "times_faster_with_distances_each_time",
    },
    "overhead": {
        "queries": "queries",
        "CPU, s": "process_seconds",
        "queries a second": "queries_per_process_second",
        "of each run": "of_each_run",
        "bytes a query": "bytes_per_query",
        "memory after 20,000, MB": "early_resident_mb",
        "memory at the end, MB": "largest_resident_mb",
    },
    "progress": {
        "queries": "queries",
        "display, s": "display_seconds",
        "display / rest": "display_share",
        "shown, s": "process_seconds_shown",
        "quiet, s": "process_seconds_quiet",
        "shown / quiet": "shown_per_quiet",
        "runs each": "repeats",
    },
    "start": {
        "bare Python, s": "bare_python_seconds",
        "--help, s": "help_seconds",
        "import, s": "import_seconds",
        "second demo, s": "second_demo_seconds",
    },
}


def render(result: Mapping[str, Any]) -> str:
    """The committed page with these results, whatever parts there are."""
    parts = result["parts"]
    return fill(
        PAGE.read_text("utf-8"),
        {
            "answer": _answer(parts),
            "left out": _left_out(parts),
            "machine": _machine(result),
            "targets": _targets(parts),
            **{name: _section(name, parts) for name in COLUMNS},
            "growth": _growth(parts),
            "against": _against(parts),
            "gpu": _gpu(parts),
        },
    )


def _answer(parts: Mapping[str, Any]) -> str:
    found = targets(parts)
    told = f"{sum(one.met for one in found)} of {len(found)} targets are met."
    if any(one.asked == "0 of 2,000" and not one.met for one in found):
        told += " Fewer prompts than a target names do not count as met, whatever they show."
    return blocks(
        listed(f"{one.what}: {one.measured}" for one in found if one.what.startswith(FIRST)), told
    )


def _left_out(parts: Mapping[str, Any]) -> str:
    """What was not, or not wholly, measured."""
    left = [
        f"{TITLES[name]}: {part['status']}, {part['reason']}."
        for name, part in parts.items()
        if part.get("reason")
    ]
    return listed(left) or listed(["Every part was measured."])


def _machine(result: Mapping[str, Any]) -> str:
    on = result["machine"]
    known = ", ".join(f"{name} {number}" for name, number in result["versions"].items())
    rows = [
        ["machine", f"{on['cpu']}, {on['cores']} cores, {on['memory_gb']} GB, {on['os']}"],
        ["versions", known],
        ["last command", f"`{result['command']}`, {result['date']}"],
        ["load before (1, 5, 15 minutes)", result["load_average"]],
    ]
    if whole := result.get("whole"):
        rows.append(["all in one piece", _in_one_piece(whole)])
    return table(["", ""], rows)


def in_one_piece(result: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept of a run of all parts when larger ones replace some of them."""
    found = targets(result["parts"])
    told = {key: result[key] for key in ("command", "date", "seconds")}
    missed = [f"{one.what}: {one.measured}" for one in found if not one.met]
    return {**told, "targets": len(found), "missed": missed}


def _in_one_piece(whole: Mapping[str, Any]) -> str:
    n, missed = whole["targets"], whole["missed"]
    told = f"`{whole['command']}`, {whole['date']}, {whole['seconds']:.0f} s; {n - len(missed)} "
    told += f"of {n} targets met with the sizes that it takes"
    return told + (f"; not met: {'; '.join(missed)}" if missed else "")


def _targets(parts: Mapping[str, Any]) -> str:
    rows = [
        [one.what, one.asked, one.measured, "yes" if one.met else "**no**"]
        for one in targets(parts)
    ]
    return table(["what", "target", "measured", "met"], rows)


def _section(name: str, parts: Mapping[str, Any]) -> str:
    lines, columns = lines_of(parts, name), COLUMNS[name]
    if not lines:
        return NOT_MEASURED
    rows = [[_cell(key, line.get(key)) for key in columns.values()] for line in lines]
    return blocks(table(list(columns), rows, drop_empty=True), _source(parts[name]))


def _cell(key: str, value: Any) -> Any:
    if key == "dataset":
        return NAMES.get(value, value)
    return f"{value:.1e}" if key in {"largest_difference", "smallest_margin"} and value else value


def _source(part: Mapping[str, Any]) -> str:
    told = f"`{part['command']}`, {part['date']}"
    if cpu := part.get("cpu"):
        told += f", {cpu}"
    if load := part.get("load_average"):
        told += f", load {load[0]}"
    if part["status"] == "elsewhere":
        told += ", on another machine"
    return told + "."


def _growth(parts: Mapping[str, Any]) -> str:
    lines = lines_of(parts, "growth")
    fits = [line for line in lines if "marginal_ratio" in line]
    if not fits:
        return NOT_MEASURED
    memory = {(one["axis"], one["x"]): one["largest_resident_mb"] for one in lines if "x" in one}
    rows = [
        [
            line["axis"],
            f"{line['smallest']:,} to {line['largest']:,}",
            f"{line['seconds_fit']['slope'] * 1000:.3g}",
            line["seconds_fit"]["r_squared"],
            line["marginal_ratio"],
            line["of_whole_runs"],
            line.get("runs"),
            [memory[line["axis"], line[at]] for at in ("smallest", "largest")],
            line["memory_ratio"],
        ]
        for line in fits
    ]
    heads = [
        "",
        "from, to",
        "ms a unit",
        "R² of the line",
        "last units / those before",
        "of the fastest whole runs",
        "runs a point",
        "memory, MB, from, to",
        "ratio",
    ]
    return blocks(table(heads, rows), _source(parts["growth"]))


def _against(parts: Mapping[str, Any]) -> str:
    lines = lines_of(parts, "against")
    return blocks(against(lines), _source(parts["against"])) if lines else NOT_MEASURED


def _gpu(parts: Mapping[str, Any]) -> str:
    lines = lines_of(parts, "gpu")
    if not lines:
        return f"Not measured: {parts.get('gpu', {}).get('reason', 'not run')}."
    return blocks(*map(_of_a_shape, lines), _source(parts["gpu"]))


def _of_a_shape(line: Mapping[str, Any]) -> str:
    measures = ("queries_per_second", "tokens_per_second", "tflops", "utilisation")
    rows = [
        [way, *(line.get(f"{way}_{measure}") for measure in measures)]
        for way in ("sharing", "plain", "transformers", "vllm", "bare")
        if f"{way}_tokens_per_second" in line or f"{way}_queries_per_second" in line
    ]
    told = (
        f"Sharing is {line['sharing_times_transformers']} times as fast as transformers' batches "
        f"and {line['sharing_times_plain']} times as our own without sharing."
    )
    if ratio := line.get("bare_per_sharing"):
        told += f" A bare loop forwards {ratio} times as many tokens a second."
    if why := line.get("vllm_could_not"):
        told += f" vLLM could not be had: {why}."
    return blocks(
        f"A randomly initialised model of {line['parameters'] / 1e9:.1f} billion parameters in "
        f"{line['dtype']} on {line['device']}: {line['queries']:,} prompts of {line['items']} "
        f"items. *Sharing* went by the path `{line['sharing_path']}`; *transformers* are its own "
        "padded batches, sorted by length; *bare* forwards random tokens. Tokens a second are "
        "those of the prompts answered; work is counted in tokens that have to be read, so sharing "
        "is credited with distinct ones only.",
        table(["", "queries a second", "tokens a second", "TFLOP/s", "of peak"], rows),
        told,
    )
