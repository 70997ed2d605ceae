"""Compare what the code does with what is frozen, or freeze it anew.

python tests/frozen/freeze.py                    compare all
python tests/frozen/freeze.py tagged medfuzz     compare some
python tests/frozen/freeze.py --write [NAMES]    write the snapshots anew
python tests/frozen/freeze.py --make NAME        make a kept run folder (see kept.py)
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from frozen import capture, compare, experiments, kept, normal, surface

SNAPSHOTS = Path(__file__).with_name("snapshots")
SURFACE = "surface"
NAMES = (*(case.name for case in experiments.CASES), SURFACE)


def current(name: str, root: Path) -> Any:
    """What one snapshot would hold now; `root` is an empty folder."""
    if name == SURFACE:
        return surface.surface(root)
    (case,) = [each for each in experiments.CASES if each.name == name]
    return capture.made(case, root)


def stored(name: str) -> Any:
    """What a snapshot holds."""
    return json.loads((SNAPSHOTS / f"{name}.json").read_text("utf-8"))


def differences(name: str, root: Path) -> list[compare.Difference]:
    """All differences of one snapshot, those with a name of their own too."""
    # As it is stored and read back: lists for tuples, texts for keys.
    now = json.loads(normal.write(current(name, root)))
    return list(compare.differences(stored(name), now, name))


def main(arguments: Sequence[str]) -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--write", action="store_true", help="write the snapshots anew")
    parser.add_argument("--make", choices=list(kept.KEPT), help="make a kept run folder anew")
    parser.add_argument("--in", dest="place", help="work in this folder, not in a temporary one")
    args = parser.parse_args(arguments)
    if unknown := [name for name in args.names if name not in NAMES]:
        parser.error(f"unknown: {', '.join(unknown)} (known: {', '.join(NAMES)})")
    found: list[compare.Difference] = []
    with tempfile.TemporaryDirectory(dir=args.place) as folder:
        root = Path(folder).resolve()
        if args.make:
            kept.make(args.make, root)
            return 0
        for name in args.names or NAMES:
            start, place = time.monotonic(), root / name
            place.mkdir()
            if args.write:
                text = normal.write(current(name, place)) + "\n"
                SNAPSHOTS.mkdir(exist_ok=True)
                (SNAPSHOTS / f"{name}.json").write_text(text, encoding="utf-8")
                print(f"{name}: {len(text):,} characters, {time.monotonic() - start:.1f} s")
            else:
                here = differences(name, place)
                found += here
                print(f"{name}: {len(here)} differences, {time.monotonic() - start:.1f} s")
    if args.write:
        return 0
    moved = compare.exceptions()
    left = compare.unexplained(found, moved)
    if left:
        print(compare.told(left))
    if not args.names:
        for each in moved:
            if not any(fnmatchcase(d.path, each.path) for d in found):
                print(f"no difference is named by {each.path!r}: take it out of {compare.MOVED}")
    return int(bool(left))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
