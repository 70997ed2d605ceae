"""Speed and memory, one runner, one JSON file.

Runs every script in a process of its own, within a time budget, and writes what they print. What
needs data that are not there is skipped, and the file says why:

    make bench                                                       # under 20 minutes on 2 cores
    python benchmarks/bench.py --minutes 20 --to runs/bench.json
    python benchmarks/bench.py --full --only equality baselines      # as many prompts as it takes
    python benchmarks/bench.py --against studies/speed/bench.json    # seconds beside another file's

A run replaces the parts of the file that it measures to their end and keeps the others; every part
carries its own command, processor, date and load. With `--against` the ratio of each part's seconds
to that file's is printed, where both ran the same command; seconds of other machines say little.
The exit code is 1 where a part failed: `equality` fails where answers differ in float32.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from common import above_zero, published_data

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "runs" / "bench.json"
FORMAT = 1
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


PARTS = (
    Part(name="start"),
    Part(
        name="overhead",
        quick="--queries 20000 100000 1000000 --repeats 2",
        full="--queries 20000 100000 1000000 --repeats 3",
    ),
    Part(name="growth", quick="--repeats 3", full="--repeats 9"),
    Part(name="report_size", full="--trials 100000"),
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
)
NAMES = tuple(part.name for part in PARTS)


def run_part(part: Part, given: argparse.Namespace, seconds: float | None) -> dict[str, Any]:
    """Run one script; what it printed until its time was over is kept."""
    arguments = shlex.split(part.full if given.full else part.quick)
    told = shlex.join(["python", f"benchmarks/{part.name}.py", *arguments])
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
    result = {
        "format": FORMAT,
        **now(),
        "machine": machine(),
        "versions": versions(),
        "parts": parts,
    }
    started, none_failed = time.perf_counter(), True
    for part in chosen:
        left = given.minutes * 60 - (time.perf_counter() - started)
        print(f"{part.name} ...", file=sys.stderr, flush=True)
        found = run_part(part, given, None if given.full else left)
        told = f"{part.name}: {found['status']}, {found.get('seconds', 0)} s"
        if found["status"] != "done" and parts.get(part.name, {}).get("status") == "done":
            told += f" ({found['reason']}); what was measured before stays"
        else:
            parts[part.name] = found
        none_failed &= found["status"] != "failed"
        print(told, file=sys.stderr)
        result["seconds"] = round(time.perf_counter() - started, 1)
        given.to.parent.mkdir(parents=True, exist_ok=True)
        given.to.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    return none_failed


def ratios(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, float]:
    """Seconds of each part per those of another file, where both ran the same to its end.

    >>> part = {"command": "x", "status": "done"}
    >>> ratios({"a": {**part, "seconds": 3}, "b": part}, {"a": {**part, "seconds": 2}})
    {'a': 1.5}
    """
    return {
        name: round(mine["seconds"] / other["seconds"], 3)
        for name, mine in ours.items()
        if (other := theirs.get(name))
        and mine["status"] == other["status"] == "done"
        and mine["command"] == other["command"]
    }


def parts_of(file: str) -> dict[str, Any]:
    """Read the parts of another result for argparse."""
    try:
        return dict(json.loads(Path(file).read_text("utf-8"))["parts"])
    except (OSError, ValueError, KeyError) as error:
        raise argparse.ArgumentTypeError(f"{file} is no result of bench.py: {error}") from error


def parse() -> argparse.Namespace:
    """What to run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=above_zero, default=20, help="of all parts together")
    parser.add_argument("--full", action="store_true", help="full sizes, no limit of time")
    parser.add_argument("--only", nargs="+", choices=NAMES, metavar="PART", default=NAMES)
    parser.add_argument("--to", type=Path, default=RESULTS, help="default: runs/bench.json")
    parser.add_argument("--against", type=parts_of, metavar="FILE.json", help="an earlier result")
    data = os.environ.get("MEDSTRESS_DATA", ROOT.parent / "shared" / "data")
    parser.add_argument("--data", type=Path, default=data, help="folder with qa/ and vocab/")
    given = parser.parse_args()
    given.data = Path(given.data).resolve()
    return given


def main() -> int:
    """Write the results; 1 where a part failed."""
    given = parse()
    before = json.loads(given.to.read_text("utf-8")) if given.to.is_file() else {}
    none_failed = measure(given, before)
    if given.against:
        found = ratios(json.loads(given.to.read_text("utf-8"))["parts"], given.against)
        for name, ratio in found.items():
            print(f"{name}: {ratio:.2f} times the seconds")
    print(given.to)
    return int(not none_failed)


if __name__ == "__main__":
    sys.exit(main())
