"""Read a run folder: its numbers, rows, figures and report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from medstress.results.load import StoredRun, open_run

if TYPE_CHECKING:
    import polars

    from medstress.core.rows import TrialRow
    from medstress.figures.outputs import Made, Skipped

T = TypeVar("T")


def report_of(run: StoredRun) -> str:
    """Return a run as one self-contained HTML page."""
    from medstress.report.cases.building import cases_of
    from medstress.report.page import render_report
    from medstress.results.rows import trial_rows
    from medstress.summary.summary import summarise_run

    return render_report(summarise_run(run), trial_rows(run), run.manifest, cases=cases_of(run))


class Run:
    """A run folder, finished or not: its numbers, rows and report.

    Every method opens the folder anew, so it shows the current state of a run in progress.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def opened(self) -> AbstractContextManager[StoredRun]:
        """Open the run once, for several results from the same state."""
        return open_run(self.folder)

    def manifest(self) -> dict[str, Any]:
        """Return the manifest, which describes the run."""
        return self._read(lambda run: run.manifest)

    def rows(self) -> list[TrialRow]:
        """Return all finished trials."""
        from medstress.results.rows import trial_rows

        return self._read(lambda run: list(trial_rows(run)))

    def trials(self) -> polars.DataFrame:
        """Return all finished trials as a data frame (docs: schema)."""
        from medstress.results.export import frame_of, trial_dicts

        return self._read(lambda reader: frame_of(trial_dicts(reader)))

    def summary(self) -> dict[str, Any]:
        """Return the numbers of the run (docs: schema)."""
        from medstress.summary.summary import summarise_run

        return self._read(summarise_run)

    def tuning(self) -> dict[str, Any] | None:
        """Return how n was chosen (docs: tuning); None if the run tuned nothing."""
        from medstress.results.rows import trial_rows
        from medstress.tuning.numbers import describe_tuning

        return self._read(lambda run: describe_tuning(run, trial_rows(run)))

    def report(self) -> str:
        """Return the report as one self-contained HTML page."""
        return self._read(report_of)

    def figures(
        self,
        out: str | Path,
        formats: Sequence[str] = ("pdf", "svg", "png"),
        paper: str | None = None,
    ) -> list[Made | Skipped]:
        """Write the tables and figures that the run has data for; list them.

        Args:
            out: folder to write into.
            formats: of the figures.
            paper: `xian2025`, `medfuzz2024` or `araujo2020` for the layout of that paper; None
                for tables and figures of one's own.

        Raises:
            UsageError: an unknown format or paper, or the folder cannot be written.
        """
        from medstress.papers.write import write_figures

        return self._read(lambda run: write_figures(run, Path(out), formats, paper))

    def export(self, table: str, to: str | Path) -> int:
        """Write one table as JSONL, CSV or parquet and return the number of rows."""
        from medstress.results.export import export

        return self._read(lambda run: export(run, table, Path(to)))

    def _read(self, what: Callable[[StoredRun], T]) -> T:
        with self.opened() as run:
            return what(run)
