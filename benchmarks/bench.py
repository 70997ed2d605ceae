"""All benchmarks, one JSON file and one page.

Runs every script in a process of its own, within a time budget, and writes
benchmarks/results/bench.json and docs/performance.md. What needs data or a GPU that is not there
is skipped, and the page says why:

    make bench
    python benchmarks/bench.py --minutes 20
    python benchmarks/bench.py --full --only equality baselines      # as many prompts as it takes
    python benchmarks/bench.py --add gpu=measured-elsewhere.jsonl
    python benchmarks/bench.py --page-only

A run replaces the parts that it measures to their end and keeps the others; every part carries
its own command, processor, date and load.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from bench_page import in_one_piece, render
from bounds import above_zero, published_data

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "bench.json"
PAGE = ROOT / "docs" / "performance.md"
FORMAT = 1
MEASURED = ("done", "elsewhere")
"""What a part has to be for what it printed to stay when a later run of it ends otherwise."""
PACKAGES = ("medstress", "torch", "transformers", "numpy", "polars", "orjson", "tokenizers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One script."""

    name: str
    """Of the file, and in the results."""
    quick: str = ""
    """Its arguments within the 20 minutes; a machine of 2 cores reads about 900 tokens a second."""
    full: str = ""
    """Its arguments where time is no object."""
    missing: Callable[[Path], str | None] = lambda data: None
    """Why it cannot run here, given the folder of the data."""


def no_data(data: Path) -> str | None:
    """Why benchmarks on the published data cannot run."""
    try:
        published_data(str(data))
    except argparse.ArgumentTypeError:
        return "the published data are not here (--data, or MEDSTRESS_DATA; see docs/data.md)"
    return None


def no_gpu(_: Path) -> str | None:
    """Why the benchmark on a GPU cannot run."""
    import torch

    return None if torch.cuda.is_available() else "this machine has no CUDA device"


PARTS = (
    Part(name="start"),
    Part(
        name="overhead",
        quick="--queries 20000 100000 1000000 --repeats 2",
        full="--queries 20000 100000 1000000 --repeats 3",
    ),
    Part(name="progress", quick="--repeats 3", full="--repeats 9"),
    Part(name="sampling"),
    Part(name="layers", quick="--repeats 2", full="--repeats 15"),
    Part(name="growth", quick="--repeats 3", full="--repeats 9"),
    Part(name="prefix_sharing", quick="--items 32", full="--items 200", missing=no_data),
    Part(name="padding", quick="--items 100", full="--items 1000", missing=no_data),
    Part(
        name="baselines",
        quick="--items 24 --slow-queries 2 --repeats 3",
        full="--items 100 --slow-queries 6 --repeats 3",
        missing=no_data,
    ),
    Part(
        name="equality",
        quick="--prompts 32 --rounded-prompts 4",
        full="--prompts 1400 600 --rounded-prompts 24",
        missing=no_data,
    ),
    Part(
        name="against",
        quick="--items 4 --datasets medqa",
        full="--items 16",
        missing=no_data,
    ),
    Part(name="gpu", missing=no_gpu),
)
NAMES = tuple(part.name for part in PARTS)


def run_part(part: Part, given: argparse.Namespace, seconds: float | None) -> dict[str, Any]:
    """Run one script; what it printed until its time was over is kept."""
    arguments = shlex.split(given.arguments.get(part.name, part.full if given.full else part.quick))
    told = shlex.join(["python", f"benchmarks/{part.name}.py", *without_paths(arguments)])
    found: dict[str, Any] = {"command": told, "cpu": cpu_model(), **now()}
    if reason := part.missing(given.data):
        return {**found, "status": "skipped", "reason": reason, "lines": []}
    if seconds is not None and seconds < 1:
        return {**found, "status": "skipped", "reason": "the time was used up", "lines": []}
    command = [sys.executable, str(ROOT / "benchmarks" / f"{part.name}.py"), *arguments]
    environment = {**os.environ, "MEDSTRESS_DATA": str(given.data)}
    started = time.perf_counter()
    with tempfile.TemporaryFile("w+") as printed:
        # A group of its own: some scripts start processes, which have to end with them.
        process = subprocess.Popen(
            command, stdout=printed, env=environment, start_new_session=True, cwd=ROOT
        )
        try:
            code: int | None = process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        printed.seek(0)
        lines = whole_lines(printed.read())
    found |= {"seconds": round(time.perf_counter() - started, 1), "exit_code": code}
    if code is None:
        return {**found, "status": "cut short", "reason": "the time was used up", "lines": lines}
    if code:
        return {**found, "status": "failed", "reason": f"exit code {code}", "lines": lines}
    return {**found, "status": "done", "lines": lines}


def without_paths(words: Sequence[str]) -> list[str]:
    """The words of a command, without the folders of this machine.

    >>> without_paths(["--data", "/here/data", '{"against": "--work /there"}'])
    ['--data', 'DIR', '{"against": "--work DIR"}']
    """
    return [re.sub(r"(?<![\w.])/[^\s\"']+", "DIR", word) for word in words]


def whole_lines(printed: str) -> list[dict[str, Any]]:
    """The JSON lines of an output, without one that was cut.

    >>> whole_lines('{"a": 1}\\n{"a": ')
    [{'a': 1}]
    """
    found = []
    for line in printed.splitlines():
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return found


def now() -> dict[str, Any]:
    """When, and how busy the machine was before."""
    date = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return {"date": date, "load_average": [round(load, 2) for load in os.getloadavg()]}


def machine() -> dict[str, Any]:
    """What the figures depend on; no names of hosts or people."""
    try:
        system = platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:
        system = platform.system()
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cpu": cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(pages / 2**30, 1),
        "os": f"{system}, {platform.machine()}",
    }


def cpu_model() -> str:
    """As Linux calls it."""
    try:
        told = Path("/proc/cpuinfo").read_text("utf-8")
    except OSError:
        return platform.processor() or "unknown"
    names = [line.partition(":")[2].strip() for line in told.splitlines() if "model name" in line]
    return names[0] if names else platform.processor() or "unknown"


def versions() -> dict[str, str]:
    """Of Python and of the packages that cost or save time."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def measure(given: argparse.Namespace, before: Mapping[str, Any]) -> bool:
    """Run the chosen parts, one after the other, and keep all else of an earlier result.

    What cannot be measured here is told before anything runs. Returns whether none of those that
    ran failed.
    """
    chosen = [part for part in PARTS if part.name in given.only]
    for part in chosen:
        if reason := part.missing(given.data):
            print(f"{part.name} will be skipped: {reason}", file=sys.stderr)
    parts = dict(before.get("parts", {}))
    told = shlex.join(["python", "benchmarks/bench.py", *without_paths(sys.argv[1:])])
    result: dict[str, Any] = {
        "format": FORMAT,
        "command": "make bench" if os.environ.get("MAKELEVEL") else told,
        **now(),
        "machine": machine(),
        "versions": versions(),
        "parts": parts,
        **({"whole": before["whole"]} if "whole" in before else {}),
    }
    started = time.perf_counter()
    none_failed = is_whole = True
    for part in chosen:
        left = given.minutes * 60 - (time.perf_counter() - started)
        print(f"{part.name} ...", file=sys.stderr, flush=True)
        found = run_part(part, given, None if given.full else left)
        told = f"{part.name}: {found['status']}, {found.get('seconds', 0)} s"
        if found["status"] != "done" and parts.get(part.name, {}).get("status") in MEASURED:
            told += f" ({found['reason']}); what was measured before stays"
        else:
            parts[part.name] = found
        none_failed &= found["status"] != "failed"
        is_whole &= found["status"] == "done" or part.missing is no_gpu
        print(told, file=sys.stderr)
        result["seconds"] = round(time.perf_counter() - started, 1)
        write(result)
    if is_whole and len(chosen) == len(PARTS):
        result["whole"] = in_one_piece(result)
        write(result)
    return none_failed


def measured_elsewhere(told: str) -> tuple[str, list[dict[str, Any]]]:
    """Read `PART=FILE` for argparse: the part, and the lines that it printed elsewhere."""
    name, _, file = told.partition("=")
    if name not in NAMES or not file:
        raise argparse.ArgumentTypeError(
            f"expected PART=FILE.jsonl with one of {', '.join(NAMES)}, not {told!r}"
        )
    try:
        lines = whole_lines(Path(file).read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise argparse.ArgumentTypeError(f"{file} cannot be read: {error}") from error
    if not lines:
        raise argparse.ArgumentTypeError(
            f"{file} has no line of JSON; is it what {name}.py prints?"
        )
    return name, lines


def arguments_by_part(told: str) -> dict[str, str]:
    """Read `{"PART": "..."}` for argparse."""
    try:
        found = json.loads(told)
    except json.JSONDecodeError:
        found = None
    is_one = isinstance(found, dict) and all(isinstance(text, str) for text in found.values())
    if not is_one or not set(found) <= set(NAMES):
        raise argparse.ArgumentTypeError(
            f'expected JSON as {{"sampling": "--items 10"}} with some of {", ".join(NAMES)}, '
            f"not {told!r}"
        )
    for name, text in found.items():
        try:
            shlex.split(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{name}: {text!r} is no command: {error}") from error
    return dict(found)


def added(
    before: Mapping[str, Any], found: Sequence[tuple[str, list[dict[str, Any]]]]
) -> dict[str, Any]:
    """Put lines that were measured elsewhere into a result."""
    parts = dict(before.get("parts", {}))
    for name, lines in found:
        parts[name] = {
            "command": f"python benchmarks/{name}.py",
            "date": now()["date"],
            "status": "elsewhere",
            "lines": lines,
        }
    return {**before, "parts": parts}


def write(result: Mapping[str, Any]) -> None:
    """The JSON file and the page."""
    page = render(result)  # first: what the page cannot show is not kept
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    PAGE.write_text(page, "utf-8")


def parse() -> argparse.Namespace:
    """What to run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=above_zero, default=20, help="of all parts together")
    parser.add_argument("--full", action="store_true", help="full sizes, no limit of time")
    parser.add_argument("--only", nargs="+", choices=NAMES, metavar="PART", default=NAMES)
    parser.add_argument(
        "--add", nargs="+", type=measured_elsewhere, metavar="PART=FILE.jsonl", default=[]
    )
    parser.add_argument("--page-only", action="store_true", help="write the page anew")
    parser.add_argument(
        "--arguments",
        type=arguments_by_part,
        default={},
        metavar='{"PART": "..."}',
        help="in their place",
    )
    data = os.environ.get("MEDSTRESS_DATA", ROOT.parent / "shared" / "data")
    parser.add_argument("--data", type=Path, default=data, help="folder with qa/ and vocab/")
    given = parser.parse_args()
    given.data = Path(given.data).resolve()
    return given


def main() -> int:
    """Write results and page; 1 where a part failed."""
    given = parse()
    before = json.loads(RESULTS.read_text("utf-8")) if RESULTS.is_file() else {}
    if given.page_only or given.add:
        if not before:
            print(f"{RESULTS.relative_to(ROOT)} is not there yet: run make bench", file=sys.stderr)
            return 2
        try:
            write(added(before, given.add))
        except (KeyError, AttributeError, TypeError, ValueError) as error:
            names = ", ".join(name for name, _ in given.add) or RESULTS.name
            print(f"{names}: lines of another version cannot be shown: {error!r}", file=sys.stderr)
            return 2
        return 0
    return int(not measure(given, before))


if __name__ == "__main__":
    sys.exit(main())
