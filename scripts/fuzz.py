"""Feed medstress valid files with one thing wrong, and count what comes of it.

python scripts/fuzz.py --inputs 100000 --seed 0
One input again, its files kept: python scripts/fuzz.py --only toml:12345 --keep DIR
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

CHUNK = 25
"""Cases of one process."""


def main() -> int:
    """Returns 1 where an input did what none may."""
    from tests.fuzz import runner

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=2_000, help="of all formats together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--format", nargs="+", choices=runner.FORMATS, default=[*runner.FORMATS])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", metavar="FORMAT:NUMBER", help="one input")
    parser.add_argument("--keep", type=Path, help="with --only: an empty folder for its files")
    args = parser.parse_args()
    if args.only:
        name, _, number = args.only.partition(":")
        folder = (args.keep or Path(tempfile.mkdtemp(prefix="fuzz-"))).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        case = runner.make(name, args.seed, int(number))
        wrong, code = runner.run_case(case, folder)
        print(f"{args.only}: {case.name}\nfiles: {folder}\nexit code {code}; {wrong or 'right'}")
        return 1 if wrong else 0
    each = -(-args.inputs // len(args.format))
    chunks = [
        (name, args.seed, start, min(start + CHUNK, each))
        for start in range(0, each, CHUNK)
        for name in args.format
    ]
    codes: dict[str, Counter[int | None]] = {name: Counter() for name in args.format}
    failures, began = 0, time.monotonic()
    with ThreadPoolExecutor(args.workers) as pool:
        done = pool.map(lambda chunk: runner.run_chunk(*chunk), chunks)
        for (name, *_), rows in zip(chunks, done, strict=True):
            for row in rows:
                codes[name][row["code"]] += 1
                if row["wrong"]:
                    failures += 1
                    print(f"{name}:{row['number']}: {row['name']}: {row['wrong']}", flush=True)
    print("format        inputs  done  refused  failed trials")
    for name, n in codes.items():
        print(f"{name:12}  {n.total():6,}  {n[0]:4,}  {n[2]:7,}  {n[1]:13,}")
    n_inputs = sum(n.total() for n in codes.values())
    seconds = time.monotonic() - began
    print(f"{n_inputs:,} inputs, {failures} failures, {seconds:.0f} s, seed {args.seed}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
