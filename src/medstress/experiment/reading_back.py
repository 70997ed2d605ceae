"""A run folder read back: its numbers, rows, figures and report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from medstress.results.load import StoredRun, open_run

if TYPE_CHECKING:
    import polars

    from medstress.report.paper.made import Made, Skipped
    from medstress.rows import TrialRow

T = TypeVar("T")


def report_of(run: StoredRun) -> str:
    """A run as one self-contained HTML page."""
    from medstress.experiment.rows import trial_rows
    from medstress.experiment.summary import summarise_run
    from medstress.report.page import render_report

    return render_report(summarise_run(run), trial_rows(run), run.manifest)


class Run:
    """A run folder, finished or not: its numbers, rows and report.

    Every method opens the folder anew, so it shows what a run that is still writing has by then.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def opened(self) -> AbstractContextManager[StoredRun]:
        """The run opened once, for several results of one moment."""
        return open_run(self.folder)

    def manifest(self) -> dict[str, Any]:
        """What the run is."""
        return self._read(lambda run: run.manifest)

    def rows(self) -> list[TrialRow]:
        """All finished trials."""
        from medstress.experiment.rows import trial_rows

        return self._read(lambda run: list(trial_rows(run)))

    def trials(self) -> polars.DataFrame:
        """All finished trials as a data frame (docs: schema)."""
        from medstress.experiment.export import frame_of, trial_dicts

        return self._read(lambda reader: frame_of(trial_dicts(reader)))

    def summary(self) -> dict[str, Any]:
        """The numbers of the run (docs: schema)."""
        from medstress.experiment.summary import summarise_run

        return self._read(summarise_run)

    def tuning(self) -> dict[str, Any] | None:
        """How n was chosen (docs: tuning); None where it was not."""
        from medstress.experiment.rows import trial_rows
        from medstress.experiment.tuning_summary import describe_tuning

        return self._read(lambda run: describe_tuning(run, trial_rows(run)))

    def report(self) -> str:
        """One self-contained HTML page."""
        return self._read(report_of)

    def figures(
        self, out: str | Path, formats: Sequence[str] = ("pdf", "svg", "png")
    ) -> list[Made | Skipped]:
        """Write the tables and figures of the papers that the run can fill; says which.

        Raises:
            UsageError: an unknown format, or a folder that cannot be written.
        """
        from medstress.experiment.figures import write_figures

        return self._read(lambda run: write_figures(run, Path(out), formats))

    def export(self, table: str, to: str | Path) -> int:
        """Write one table as JSONL, CSV or parquet; returns the number of rows."""
        from medstress.experiment.export import export

        return self._read(lambda run: export(run, table, Path(to)))

    def _read(self, what: Callable[[StoredRun], T]) -> T:
        with self.opened() as run:
            return what(run)
