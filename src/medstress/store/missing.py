"""What to say where a folder holds no run: which folders near it hold one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from medstress.core.errors import FIRST_COMMAND, StoreError, did_you_mean
from medstress.core.words import command
from medstress.files.writing import DATABASE

_RUNS = Path("runs")
"""Where runs are by default."""
_MOST = 1_000
"""Folders that are looked at."""


def no_run(folder: Path) -> StoreError:
    """Return the error for a folder without a run, with the runs near it and the next command."""
    if folder.is_file():
        error = StoreError(f"{folder} is a file; expected the folder of a run")
        is_experiment = folder.suffix == ".toml"
        return error.with_command(command("run", folder) if is_experiment else FIRST_COMMAND)
    inside = sorted(_runs_in(folder))
    if inside:
        names = ", ".join(path.name for path in inside[:5])
        near = f"; it is the parent of the runs {names}"
    else:
        near = did_you_mean(str(folder), map(str, [*_runs_in(folder.parent), *_runs_in(_RUNS)]))
    error = StoreError(f"there is no run in {folder} (no {DATABASE}){near}")
    # Of several the user means one, and what lies in a folder such as /tmp may be anybody's.
    one = inside[0] if len(inside) == 1 else folder / "NAME"
    return error.with_command(command("summary", one) if inside else FIRST_COMMAND)


def never_began(folder: Path) -> StoreError:
    """Return the error for a folder whose run holds nothing yet."""
    error = StoreError(f"the run in {folder} was never started")
    return error.with_command(command("run", "EXPERIMENT.toml", "--out", folder))


def _runs_in(folder: Path) -> Iterator[Path]:
    """Yield the folders of runs directly below a folder."""
    try:
        for path in islice(folder.iterdir(), _MOST):
            if (path / DATABASE).is_file():
                yield path
    except OSError:
        return
