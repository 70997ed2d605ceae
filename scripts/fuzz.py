"""Feed medstress valid files with one thing wrong, and count what comes of it.

Run it with: python scripts/fuzz.py --inputs 100000 --seed 0 --json runs/fuzz/fuzz.json
The same command goes on where it was. One input again, its files kept:
python scripts/fuzz.py --only toml:12345 --keep DIR
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))


def main() -> int:
    """Returns 1 where an input did what none may."""
    args = _parser().parse_args()
    from tests.fuzz import runner

    if args.only:
        return _once(args.only, args.seed, args.keep)
    known = list(runner.formats())
    if unknown := set(args.format) - set(known):
        raise SystemExit(f"unknown format {', '.join(unknown)} (known: {', '.join(known)})")
    chosen = args.format or known
    state = _State(args.json, args.seed)
    chunks = [
        runner.Chunk(format=name, seed=args.seed, start=start, stop=min(start + runner.CHUNK, stop))
        for start in range(0, -(-args.inputs // len(chosen)), runner.CHUNK)
        for place, name in enumerate(chosen)
        for stop in [(args.inputs + len(chosen) - 1 - place) // len(chosen)]
        if start < stop and not state.has(name, start, min(start + runner.CHUNK, stop))
    ]
    began = time.monotonic()
    runner.run_chunks(chunks, args.workers, state.add)
    state.write(force=True)
    state.show(time.monotonic() - began)
    return 1 if state.failures else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=2_000, help="of all formats together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--format", nargs="+", default=[], help="only these")
    parser.add_argument("--json", type=Path, help="keeps the counts, so that a later run goes on")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", metavar="FORMAT:NUMBER", help="one input")
    parser.add_argument("--keep", type=Path, help="with --only: an empty folder for its files")
    return parser


def _once(which: str, seed: int, keep: Path | None) -> int:
    import tempfile

    from tests.fuzz import runner

    name, _, number = which.partition(":")
    folder = (keep or Path(tempfile.mkdtemp(prefix="fuzz-"))).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    case = runner.make(name, seed, int(number))
    wrong, code = runner.run_case(case, folder)
    print(f"{which}: {case.name}\nfiles: {folder}\nexit code {code}; {wrong or 'as it should be'}")
    return 1 if wrong else 0


class _State:
    """What is done, in memory and in a file."""

    def __init__(self, path: Path | None, seed: int) -> None:
        self._path, self._seed, self._at = path, seed, time.monotonic()
        self.failures: list[dict[str, Any]] = []
        self._codes: dict[str, Counter[str]] = {}
        self._done: dict[str, dict[str, int]] = {}
        if path is not None and path.is_file():
            found = json.loads(path.read_text("utf-8"))
            if found["seed"] != seed:
                raise SystemExit(f"{path} holds seed {found['seed']}; name another file")
            self.failures, self._done = found["failures"], found["done"]
            self._codes = {name: Counter(codes) for name, codes in found["codes"].items()}

    def has(self, name: str, start: int, stop: int) -> bool:
        """Whether a chunk is done."""
        return self._done.get(name, {}).get(str(start)) == stop

    def add(self, chunk: Any, rows: list[dict[str, Any]]) -> None:
        """A chunk is done."""
        self._done.setdefault(chunk.format, {})[str(chunk.start)] = chunk.stop
        codes = self._codes.setdefault(chunk.format, Counter())
        for row in rows:
            codes[str(row["code"])] += 1
            if row["wrong"]:
                only = f"{chunk.format}:{row['number']}"
                self.failures.append({"only": only, "name": row["name"], "wrong": row["wrong"]})
        self.write()

    def write(self, *, force: bool = False) -> None:
        """Put the file beside and rename it, every few seconds."""
        if self._path is None or (not force and time.monotonic() - self._at < 5):
            return
        self._at = time.monotonic()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        part = self._path.with_name(self._path.name + ".part")
        told = {"codes": self._codes, "done": self._done}
        part.write_text(
            json.dumps({"seed": self._seed, "failures": self.failures, **told}), "utf-8"
        )
        part.replace(self._path)

    def show(self, seconds: float) -> None:
        """Print the counts, and the failures."""
        print("format        inputs  done  refused  failed trials")
        for name, codes in self._codes.items():
            print(
                f"{name:12}  {sum(codes.values()):6,}  {codes['0']:4,}  {codes['2']:7,}  "
                f"{codes['1']:13,}"
            )
        n = sum(sum(codes.values()) for codes in self._codes.values())
        print(f"{n:,} inputs, {len(self.failures)} failures, {seconds:.0f} s, seed {self._seed}")
        for failure in self.failures[:50]:
            print(f"  {failure['only']}: {failure['name']}: {failure['wrong']}")


if __name__ == "__main__":
    sys.exit(main())
