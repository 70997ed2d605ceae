"""Kept run folders: made once, by the code of the day; later code opens and resumes them."""

from __future__ import annotations

import gzip
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from .capture import ASKED, Case, medstress, n_asked, read, working_in, write_files
from .experiments import CASES, RUN

FOLDERS = Path(__file__).with_name("folders")
KEPT = {
    "substitution": "substitution",
    "substitution-stopped": "substitution",
    "substitution-format-1": "substitution",
    "documents": "documents",
    "significance": "significance",
}
"""Kept folder -> the experiment that it is a run of."""
STOPPED_AT = 40
"""Calls after which the run that was stopped had stopped."""
N_ASKED = 10
"""Those of them that the victim got that notes them."""


def case_of(name: str) -> Case:
    """The experiment of a kept folder, whose figures are those of its rows."""
    return next(replace(case, figures=False) for case in CASES if case.name == KEPT[name])


def make(name: str, root: Path) -> None:
    """Make a folder anew. For a new kind of folder only: the old ones are what they are.

    `substitution-format-1` is not made here: it is the first with the statements applied that
    `BACK_TO_1` in the tests of the store holds.
    """
    case = case_of(name)
    write_files(case, root)
    with working_in(root):
        extra = ("--set", f"experiment.max_queries={STOPPED_AT}") if "stopped" in name else ()
        assert medstress(*RUN, *extra)[0] == 0
        if "stopped" not in name:
            for step in case.steps[1:]:
                assert not callable(step)
                assert medstress(*step)[0] == 0
    with closing(sqlite3.connect(root / "run" / "run.sqlite")) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.execute("VACUUM")
    (FOLDERS / name).mkdir(parents=True, exist_ok=True)
    packed = gzip.compress((root / "run" / "run.sqlite").read_bytes(), mtime=0)
    (FOLDERS / name / "run.sqlite.gz").write_bytes(packed)


def opened(name: str, root: Path) -> dict[str, Any]:
    """What is read of a kept folder before anything goes on with it; `root` is an empty folder."""
    case = case_of(name)
    write_files(case, root)
    (root / "run").mkdir()
    packed = (FOLDERS / name / "run.sqlite.gz").read_bytes()
    (root / "run" / "run.sqlite").write_bytes(gzip.decompress(packed))
    with working_in(root):
        assert medstress("report", "run", "--out", "page.html")[0] == 0
        return read(case, root)


def resumed(name: str, root: Path) -> tuple[dict[str, Any], int]:
    """The same once its commands were given again, and how many questions that took."""
    case = case_of(name)
    (root / ASKED).unlink(missing_ok=True)
    with working_in(root):
        codes = {" ".join(step): medstress(*step)[0] for step in case.steps if not callable(step)}
        return {"exit_codes": codes, **read(case, root)}, n_asked(root)
