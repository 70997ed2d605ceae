"""Speed and memory, one runner, one JSON file.

Runs every script in a process of its own, within a time budget, and writes what they print:

    make bench                                                       # under 20 minutes on 2 cores
    python benchmarks/bench.py --full --only baselines               # full sizes, no limit of time
    python benchmarks/bench.py --against studies/speed/bench.json    # ratios of seconds

A run replaces the parts of the file that it measures and keeps the others; every part has its
command, processor, date and load. What needs data that are not there is skipped. `--against` prints
the ratio of seconds where both ran the same command. The exit code is 1 where a part failed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from common import above_zero, published_data

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "runs" / "bench.json"
PACKAGES = ("medstress", "torch", "transformers", "numpy", "polars", "orjson", "tokenizers")
PARTS = {
    "waits": ("", "--trials 100000"),
    "overhead": tuple(f"--queries 20000 100000 1000000 --repeats {n}" for n in (2, 3)),
    "growth": ("--repeats 3", "--repeats 9"),
    "baselines": (
        "--items 24 --slow-queries 2 --repeats 3",
        "--items 100 --slow-queries 6 --repeats 3",
    ),
}
"""Script -> its arguments within 20 minutes, and where time is no object."""
NEEDS_DATA = {"baselines"}


def run_part(name: str, given: argparse.Namespace, seconds: float | None) -> dict[str, Any]:
    """Run one script; what it printed until its time was over is kept."""
    arguments = PARTS[name][given.full].split()
    part = {"command": " ".join(["python", f"benchmarks/{name}.py", *arguments]), **now()}
    command = [sys.executable, str(ROOT / "benchmarks" / f"{name}.py"), *arguments]
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
        # The last line may be cut.
        lines = [json.loads(line) for line in printed.read().splitlines() if line.endswith("}")]
    status = {0: "done", None: "cut short"}.get(code, "failed")
    took = round(time.perf_counter() - started, 1)
    return {**part, "cpu": cpu_model(), "seconds": took, "status": status, "lines": lines}


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


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """Run the chosen parts, one after the other, and keep all else of an earlier result."""
    before = json.loads(given.to.read_text("utf-8")) if given.to.is_file() else {}
    parts = dict(before.get("parts", {}))
    result = {"format": 1, **now(), "machine": machine(), "versions": versions(), "parts": parts}
    started = time.perf_counter()
    for name in given.only:
        try:
            if name in NEEDS_DATA:
                published_data(str(given.data))
        except argparse.ArgumentTypeError as error:
            print(f"{name} is skipped: {error}", file=sys.stderr)
            continue
        left = given.minutes * 60 - (time.perf_counter() - started)
        parts[name] = run_part(name, given, None if given.full else max(left, 1))
        print(f"{name}: {parts[name]['status']}, {parts[name]['seconds']} s", file=sys.stderr)
        result["seconds"] = round(time.perf_counter() - started, 1)
        given.to.parent.mkdir(parents=True, exist_ok=True)
        given.to.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    return parts


def main() -> int:
    """Write the results; 1 where a part failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=above_zero, default=20, help="of all parts together")
    parser.add_argument("--full", action="store_true", help="full sizes, no limit of time")
    parser.add_argument("--only", nargs="+", choices=PARTS, metavar="PART", default=list(PARTS))
    parser.add_argument("--to", type=Path, default=RESULTS, help="default: runs/bench.json")
    parser.add_argument("--against", type=Path, metavar="FILE.json", help="an earlier result")
    data = os.environ.get("MEDSTRESS_DATA", ROOT.parent / "shared" / "data")
    parser.add_argument("--data", type=Path, default=data, help="folder with qa/ and vocab/")
    given = parser.parse_args()
    given.data = Path(given.data).resolve()
    parts = measure(given)
    earlier = json.loads(given.against.read_text("utf-8"))["parts"] if given.against else {}
    for name, part in parts.items():
        other = earlier.get(name, {})
        if other.get("status") == part["status"] == "done" and other["command"] == part["command"]:
            print(f"{name}: {part['seconds'] / other['seconds']:.2f} times the seconds")
    print(given.to)
    return int(any(parts[name]["status"] == "failed" for name in given.only if name in parts))


if __name__ == "__main__":
    sys.exit(main())
