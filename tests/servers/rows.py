"""Exported trials as objects, for tests of whole runs."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from medstress.analyses.exported import trial_rows
from medstress.analyses.run import Run
from medstress.core.outcomes import Verdict


def rows_of(run: Any) -> list[Any]:
    """The rows of `export --table trials` of a run or its folder, columns as attributes."""
    read = Run.open(Path(getattr(run, "folder", run)))
    rows = read.folder.read(lambda reader: list(trial_rows(read, reader)))
    return [
        SimpleNamespace(**{**row, "verdict": Verdict(row["verdict"])}, sampled=trial.sampled)
        for row, trial in zip(rows, read.trials, strict=True)
    ]
