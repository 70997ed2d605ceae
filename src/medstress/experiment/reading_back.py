"""A run folder read back: its numbers, rows, figures and report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from medstress.store.interpreting import interpreting
from medstress.store.reader import RunReader
from medstress.store.run_store import FILE

if TYPE_CHECKING:
    import polars

    from medstress.report.paper.made import Made, Skipped
    from medstress.rows import TrialRow

T = TypeVar("T")


class Run:
    """A run folder, finished or not: its numbers, rows and report."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def manifest(self) -> dict[str, Any]:
        """What the run is."""
        return self._read(lambda reader: reader.manifest)

    def rows(self) -> list[TrialRow]:
        """All finished trials."""
        from medstress.experiment.rows import trial_rows

        return self._read(trial_rows)

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

        return self._read(lambda reader: describe_tuning(reader, trial_rows(reader)))

    def report(self) -> str:
        """One self-contained HTML page."""
        from medstress.report.page import render_report

        with interpreting(self.folder / FILE):
            return render_report(self.summary(), self.rows(), self.manifest())

    def figures(
        self, out: str | Path, formats: Sequence[str] = ("pdf", "svg", "png")
    ) -> list[Made | Skipped]:
        """Write the tables and figures of the papers that the run can fill; says which.

        Raises:
            UsageError: an unknown format, or a folder that cannot be written.
        """
        from medstress.experiment.figures import write_figures

        return self._read(lambda reader: write_figures(reader, Path(out), formats))

    def export(self, table: str, to: str | Path) -> int:
        """Write one table as JSONL, CSV or parquet; returns the number of rows."""
        from medstress.experiment.export import export

        return self._read(lambda reader: export(reader, table, Path(to)))

    def _read(self, what: Callable[[RunReader], T]) -> T:
        with interpreting(self.folder / FILE):
            reader = RunReader(self.folder)
            try:
                found = what(reader)
                reader.check_unchanged()
                return found
            finally:
                reader.close()
