"""A stand-in for Slurm's `sbatch` that runs a job at once, on this machine, task after task.

It knows the options that medstress uses. Called by a script named `sbatch` on the PATH; what it was
called with and how its jobs ended stands in the folder $LOCAL_SLURM.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

_WITH_VALUE = re.compile(r"--([a-z-]+)=(.*)", re.DOTALL)


def main(arguments: list[str]) -> int:
    place = Path(os.environ["LOCAL_SLURM"])
    number = 100 + len(list(place.glob("*.json")))
    options: dict[str, str] = {}
    *flags, script = arguments
    for flag in flags:
        found = _WITH_VALUE.fullmatch(flag)
        options[found[1] if found else flag.removeprefix("--")] = found[2] if found else ""
    if os.environ.get("LOCAL_SLURM_REFUSES") == options["job-name"]:
        print("sbatch: error: Job submit limit", file=sys.stderr)
        return 1
    if options.get("partition") == "none":
        print("sbatch: error: invalid partition specified: none", file=sys.stderr)
        return 1
    # As Slurm does: what runs is a copy, in a place of its own.
    copy = place / f"job-{number}"
    copy.write_text(Path(script).read_text())
    copy.chmod(0o755)
    state = "COMPLETED"
    kind, _, before = options.get("dependency", "").partition(":")
    if kind == "afterok" and json.loads((place / f"{before}.json").read_text())["state"] != state:
        state = "CANCELLED"
    tasks = _tasks(options["array"]) if "array" in options else [None]
    codes = [
        _run(str(copy), options, number, task, tasks) for task in tasks if state != "CANCELLED"
    ]
    if any(codes):
        state = "FAILED"
    told = {"options": options, "script": script, "state": state, "codes": codes}
    (place / f"{number}.json").write_text(json.dumps(told))
    print(f"{number};local" if "parsable" in options else f"Submitted batch job {number}")
    return 0


def _tasks(array: str) -> list[int]:
    first, _, last = array.partition("%")[0].partition("-")
    return list(range(int(first), int(last) + 1))


def _run(script: str, options: dict, number: int, task: int | None, tasks: list) -> int:
    environment = {**os.environ, "SLURM_JOB_ID": str(number)}
    if task is not None:
        places = {"ID": task, "COUNT": len(tasks), "MIN": min(tasks), "MAX": max(tasks)}
        environment |= {f"SLURM_ARRAY_TASK_{name}": str(value) for name, value in places.items()}
    fields = {"%a": str(task), "%A": str(number), "%j": str(number), "%%": "%"}
    output = re.sub("%.", lambda found: fields[found[0]], options["output"])
    with Path(output).open("ab") as log:
        return subprocess.call([script], env=environment, stdout=log, stderr=log)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
