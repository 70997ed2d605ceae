"""What to say where a folder holds no run: which folders near it hold one."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from medstress.core.errors import FIRST_COMMAND, StoreError, did_you_mean
from medstress.files.writing import DATABASE

_RUNS = Path("runs")
"""Where runs are by default."""
_MOST = 1_000
"""Folders that are looked at."""


def no_run(folder: Path) -> StoreError:
    """Return the error for a folder without a run, with the runs near it and the next command."""
    if folder.is_file():
        error = StoreError(f"{folder} is a file; expected the folder of a run")
    else:
        error = StoreError(f"there is no run in {folder} (no {DATABASE}){_near(folder)}")
    return error.with_command(_starting(folder))


def never_began(folder: Path) -> StoreError:
    """Return the error for a folder whose run holds nothing yet."""
    return StoreError(f"the run in {folder} was never started").with_command(_starting(folder))


def _near(folder: Path) -> str:
    inside = sorted(path.name for path in _runs_in(folder))
    if inside:
        return f"; it is the parent of the runs {', '.join(inside[:5])}"
    known = [*_runs_in(folder.parent), *_runs_in(_RUNS)]
    return did_you_mean(str(folder), map(str, known))


def _starting(folder: Path) -> str:
    """Return the command that starts a run, with the experiment file if there is but one."""
    if folder.suffix == ".toml" and folder.is_file():
        return shlex.join(["medstress", "run", str(folder)])
    inside = sorted(_runs_in(folder), key=lambda path: path.stat().st_mtime)
    if inside:
        # Of several in a folder elsewhere, such as /tmp, the last may be anybody's.
        is_here = folder.resolve().is_relative_to(Path.cwd())
        named = inside[-1] if is_here or len(inside) == 1 else folder / "NAME"
        return shlex.join(["medstress", "summary", str(named)])
    files = sorted(Path().glob("*.toml"))
    experiments = [path for path in files[:_MOST] if _is_experiment(path)]
    if len(experiments) == 1:
        return shlex.join(["medstress", "run", str(experiments[0])])
    return "medstress run --help" if experiments else FIRST_COMMAND


def _is_experiment(path: Path) -> bool:
    try:
        return "[experiment]" in path.read_text("utf-8")
    except (OSError, ValueError):
        return False


def _runs_in(folder: Path) -> Iterator[Path]:
    """Yield the folders of runs directly below a folder."""
    try:
        for number, path in enumerate(folder.iterdir()):
            if number < _MOST and (path / DATABASE).is_file():
                yield path
    except OSError:
        return
