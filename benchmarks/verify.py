"""What `medstress verify` takes, and the check of every reading command: a million queries.

Makes the folder of `benchmarks/overhead.py`, then verifies it in a process of its own:

    python benchmarks/verify.py --queries 1000000
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from overhead import BUDGET, experiment, write_inputs


def verify(folder: Path) -> dict[str, float | str | bool]:
    """Verify a folder in this process; seconds and largest resident MiB."""
    from medstress.audit.verify import verify_folder
    from medstress.store.opening import open_for_reading

    used = time.process_time()
    open_for_reading(folder / "run.sqlite").db.close()  # what every reading command checks
    opening = time.process_time() - used
    begun, used = time.monotonic(), time.process_time()
    found = verify_folder(folder)
    return {
        "checked_at_opening_cpu_seconds": round(opening, 2),
        "verified": found.holds,
        "trials": found.n_judged,
        "seconds": round(time.monotonic() - begun, 1),
        "cpu_seconds": round(time.process_time() - used, 1),
        "mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


def main() -> None:
    """Make a folder, unless one is given, and verify it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=20_000)
    parser.add_argument("--folder", type=Path, help="verify this one, in this process")
    args = parser.parse_args()
    if args.folder is not None:
        print(json.dumps(verify(args.folder)))
        return
    from medstress.api.run import run

    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        write_inputs(place, args.queries // BUDGET)
        run(experiment(place), place / "run")
        command = [sys.executable, __file__, "--folder", str(place / "run")]
        told = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        size = (place / "run" / "run.sqlite").stat().st_size
        print(json.dumps({"queries": args.queries, "mb": round(size / 1e6), **told}))


if __name__ == "__main__":
    main()
