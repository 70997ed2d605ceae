"""Read a run folder: its verdict, numbers, rows, cases and report."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medstress.analyses.run import Run as Read
from medstress.api.checked import checked
from medstress.api.frames import result_frame
from medstress.core.errors import MedstressError, UsageError
from medstress.files.writing import write_text

if TYPE_CHECKING:
    import polars

    from medstress.analyses.verdict import Verdict
    from medstress.api.cases import Case
    from medstress.report.figures import Made, Skipped


@checked
def open(folder: str | Path) -> Run:  # noqa: A001 - read as `ms.open`
    """Open a run folder, finished or not, to look at.

    Raises:
        StoreError: there is no run in the folder, or it cannot be read.
    """
    run = Run(folder)
    run.manifest()
    return run


class Run:
    """A run folder, finished or not: its numbers, rows, cases, pictures and report.

    Every method opens the folder anew, so it shows the current state of a run in progress. In a
    notebook a run shows its verdict, its first tables and warnings.
    """

    def __init__(self, folder: str | Path) -> None:
        """Know the folder.

        Raises:
            UsageError: it is no path.
        """
        if not isinstance(folder, str | PathLike):
            raise UsageError(f"run: expected the path of a run folder, got {folder!r}")
        self.folder = Path(folder)

    def read(self) -> Read:
        """Read the folder, for several results from the same state."""
        return Read.open(self.folder)

    @property
    def verdict(self) -> Verdict:
        """What the run shows: `lines`, `trust`, `models`; `print` shows the lines."""
        from medstress.analyses.verdict import VERDICT

        verdict = self.read().of(VERDICT)
        assert verdict is not None
        return verdict

    def manifest(self) -> dict[str, Any]:
        """Return the manifest, which describes the run."""
        return dict(self.read().manifest)

    def trials(self) -> polars.DataFrame:
        """Return all finished trials as a data frame (docs: schema)."""
        return self.table("trials")

    def results(self) -> polars.DataFrame:
        """Return the results of every attack, data set, group and victim, pooled over seeds.

        An estimate such as `asr` has its value in the column `asr`, and its n, interval and method
        in `asr_n`, `asr_low`, `asr_high`, `asr_method`; one that belongs to a control is called
        `asr_net_no_op`. Curves and other lists are JSON text. Control arms have rows of their own.
        """
        return result_frame(self.summary()["results"])

    @checked
    def table(self, name: str) -> polars.DataFrame:
        """Return one of the tables that `medstress export` writes as a data frame.

        Args:
            name: `trials`, `exchanges`, `items`, `reviews` or `attacked`.
        """
        from medstress.analyses.exported import table_frame

        return table_frame(self.folder, name)

    @checked
    def case(self, case_id: str) -> Case:
        """Return one case, with every edit that was tried.

        Args:
            case_id: a trial id, its short id, a beginning of one, or an item id.

        Raises:
            UsageError: none or several fit; the message lists some.
        """
        from medstress.api.cases import one_case

        return one_case(self.read(), case_id)

    def summary(self) -> dict[str, Any]:
        """Return the numbers of the run, as `medstress summary --json` prints them."""
        from medstress.analyses.summary import summary

        return summary(self.read())

    @checked
    def report(self, to: str | Path | None = None) -> str:
        """Return the report as one self-contained HTML page.

        Args:
            to: a file to write it into as well.

        Raises:
            UsageError: the file cannot be written.
        """
        from medstress.report.page import report

        page = report([self.folder])
        if to is not None:
            try:
                write_text(Path(to), page)
            except OSError as error:
                raise UsageError(
                    f"cannot write {to}: {error.strerror}; give another `to`"
                ) from error
        return page

    @checked
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
        from medstress.report.figures import write_figures

        return write_figures(self.read(), Path(out), formats, paper)

    @checked
    def export(self, table: str, to: str | Path) -> int:
        """Write one table as JSONL, CSV or parquet and return the number of rows."""
        from medstress.analyses.exported import export

        return export(self.folder, table, Path(to))

    def __repr__(self) -> str:
        """Name the folder."""
        return f"Run({str(self.folder)!r})"

    def __str__(self) -> str:
        """Return the verdict in words, and where the run lies."""
        from medstress.api.told import told

        return "\n".join((*told(self.read()), f"run: {self.folder}"))

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Show the verdict in IPython; the folder alone if it holds no run."""
        try:
            printer.text(repr(self) if cycle else str(self))
        except MedstressError as error:
            printer.text(f"{self!r}: {error}")

    def _repr_html_(self) -> str:
        from medstress.api.notebook import refused, run_html

        try:
            return run_html(self.read())
        except MedstressError as error:
            return refused(error)
