"""Read a run folder: its numbers, rows, cases, pictures and report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from medstress.api.checked import checked
from medstress.api.frames import Library, as_frame, check_library, result_frame
from medstress.core.errors import MedstressError, UsageError
from medstress.files.writing import write_text
from medstress.results.load import StoredRun, open_run

if TYPE_CHECKING:
    import pandas
    import polars

    from medstress.api.cases import Case, Cases
    from medstress.api.pictures import Chart
    from medstress.core.rows import TrialRow
    from medstress.figures.outputs import Made, Skipped
    from medstress.report.section import Source

T = TypeVar("T")


def report_of(run: StoredRun) -> str:
    """Return a run as one self-contained HTML page."""
    from medstress.report.cases.building import cases_of
    from medstress.report.page import render_report
    from medstress.results.rows import trial_rows
    from medstress.summary.summary import summarise_run

    return render_report(summarise_run(run), trial_rows(run), run.manifest, cases=cases_of(run))


class Page(str):
    """A page of HTML; a cell that ends with it shows how long it is, and not its text."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Say how long the page is."""
        return f"<page of {len(self):,} characters>"


class Figures(list["Made | Skipped"]):
    """What `Run.figures` made, and what it skipped and why; shown by name."""

    def __repr__(self) -> str:
        """Name what was made, and what was not."""
        from medstress.figures.outputs import Made
        from medstress.results.formats import plural

        made = [each.name for each in self if isinstance(each, Made)]
        skipped = [each.name for each in self if not isinstance(each, Made)]
        told = f"{plural(len(made), 'table or figure', 'tables and figures')}: {', '.join(made)}"
        return f"<{told}>" if not skipped else f"<{told}; skipped: {', '.join(skipped)}>"


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
    notebook a run shows its verdict, its first picture and its tables.
    """

    def __init__(self, folder: str | Path) -> None:
        """Know the folder.

        Raises:
            UsageError: it is no path.
        """
        if not isinstance(folder, str | PathLike):
            raise UsageError(f"run: expected the path of a run folder, got {folder!r}")
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

    @overload
    def trials(self, library: Literal["polars"] = ...) -> polars.DataFrame: ...

    @overload
    def trials(self, library: Literal["pandas"]) -> pandas.DataFrame: ...

    @checked
    def trials(self, library: Library = "polars") -> Any:
        """Return all finished trials as a data frame (docs: schema).

        Args:
            library: `polars`, or `pandas` with the extra of that name.
        """
        return self._frame("trials", library)

    @overload
    def results(self, library: Literal["polars"] = ...) -> polars.DataFrame: ...

    @overload
    def results(self, library: Literal["pandas"]) -> pandas.DataFrame: ...

    @checked
    def results(self, library: Library = "polars") -> Any:
        """Return the results of every attack, data set, group and victim, pooled over seeds.

        An estimate such as `asr` has its value in the column `asr`, and its n, interval and method
        in `asr_n`, `asr_low`, `asr_high`, `asr_method`; one that belongs to a control is called
        `asr_net_no_op`. Curves and other lists are JSON text. Control arms have rows of their own.
        """
        check_library(library)
        return as_frame(result_frame(self.summary()["results"]), library)

    @overload
    def table(self, name: str, library: Literal["polars"] = ...) -> polars.DataFrame: ...

    @overload
    def table(self, name: str, library: Literal["pandas"]) -> pandas.DataFrame: ...

    @checked
    def table(self, name: str, library: Library = "polars") -> Any:
        """Return one of the tables that `medstress export` writes as a data frame.

        Args:
            name: `trials`, `items`, `exchanges`, `reviews`, `explanations` or `attacked`.
            library: `polars` or `pandas`.
        """
        return self._frame(name, library)

    @checked
    def cases(
        self,
        verdict: str | None = None,
        *,
        attack: str | None = None,
        victim: str | None = None,
        dataset: str | None = None,
        group: str | None = None,
        controls: bool = False,
    ) -> Cases:
        """Return the cases of the run, misled ones first; each is built when it is asked for.

        Args:
            verdict: only those that ended like this: `flipped`, `held` and so on (docs: cases).
            attack: only those of this attack, by key or name; as are `victim`, `dataset`, `group`.
            victim: only those of this model.
            dataset: only those of this data set.
            group: only those of this entity group.
            controls: whether cases of control arms are among them; an `attack` such as
                `near / no_op` asks for those of one arm.

        Raises:
            UsageError: the run has no such attack, model, data set or group.
        """
        from medstress.api.cases import chosen_cases

        wanted = {"attack": attack, "victim": victim, "dataset": dataset, "group": group}
        return self._read(lambda run: chosen_cases(run, self.folder, verdict, controls, **wanted))

    @checked
    def case(self, case_id: str) -> Case:
        """Return one case, with every edit that was tried.

        Args:
            case_id: a trial id, its short id, a beginning of one, or an item id.

        Raises:
            UsageError: none or several fit; the message lists some.
        """
        from medstress.api.cases import one_case

        return self._read(lambda run: one_case(run, case_id))

    @checked
    def plot(self, section: str | None = None) -> Chart:
        """Return a picture of the report as an Altair chart, shown without a network.

        Args:
            section: id or title of a section of the report, such as `results` or `budget`; None
                for the picture of the first screen. `plots()` lists them.

        Raises:
            UsageError: there is no such section, or nothing to draw in it.
        """
        from medstress.api.pictures import chart_of
        from medstress.report.contents import SECTIONS

        return self._read(lambda run: chart_of(source_of(run), SECTIONS, section))

    def plots(self) -> list[str]:
        """Return the sections of which `plot` draws a picture."""
        from medstress.api.pictures import plotted
        from medstress.report.contents import SECTIONS

        return self._read(lambda run: plotted(source_of(run), SECTIONS))

    def summary(self) -> dict[str, Any]:
        """Return the numbers of the run (docs: schema)."""
        from medstress.analyses.run import Run as Read
        from medstress.analyses.summary import summary

        return summary(Read.open(self.folder))

    def tuning(self) -> dict[str, Any] | None:
        """Return how n was chosen (docs: tuning); None if the run tuned nothing."""
        from medstress.analyses.as_json import as_json
        from medstress.analyses.run import Run as Read
        from medstress.analyses.tuning import TUNING

        tuning: dict[str, Any] | None = as_json(Read.open(self.folder).of(TUNING))
        return tuning

    @checked
    def report(self, to: str | Path | None = None) -> str:
        """Return the report as one self-contained HTML page.

        Args:
            to: a file to write it into as well.

        Raises:
            UsageError: the file cannot be written.
        """
        page = self._read(report_of)
        if to is not None:
            try:
                write_text(Path(to), page)
            except OSError as error:
                raise UsageError(
                    f"cannot write {to}: {error.strerror}; give another `to`"
                ) from error
        return Page(page)

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
        from medstress.papers.write import write_figures

        return Figures(self._read(lambda run: write_figures(run, Path(out), formats, paper)))

    @checked
    def export(self, table: str, to: str | Path) -> int:
        """Write one table as JSONL, CSV or parquet and return the number of rows."""
        from medstress.results.export import export

        return self._read(lambda run: export(run, table, Path(to)))

    def __repr__(self) -> str:
        """Name the folder."""
        return f"Run({str(self.folder)!r})"

    def __str__(self) -> str:
        """Return the verdict in words, whether criteria are met, and how the run ended."""
        from medstress.api.told import told
        from medstress.summary.verdict import sentences_of

        def lines(run: StoredRun) -> list[str]:
            source = source_of(run)
            return [*sentences_of(source.keyed), *told(source)]

        return "\n".join((*self._read(lines), f"run: {self.folder}"))

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Show the verdict in IPython; the folder alone if it holds no run."""
        try:
            printer.text(repr(self) if cycle else str(self))
        except MedstressError as error:
            printer.text(f"{self!r}: {error}")

    def _repr_html_(self) -> str:
        from medstress.api.notebook import refused, run_html

        try:
            return self._read(lambda run: run_html(source_of(run), str(self.folder)))
        except MedstressError as error:
            return refused(error)

    def _frame(self, name: str, library: Library) -> Any:
        from medstress.results.export import table_frame

        check_library(library)
        return as_frame(self._read(lambda run: table_frame(run, name)), library)

    def _read(self, what: Callable[[StoredRun], T]) -> T:
        with self.opened() as run:
            return what(run)


def source_of(run: StoredRun) -> Source:
    """Return what the report of an open run is made from; cached with it."""
    return run.once(_source_of)


def _source_of(run: StoredRun) -> Source:
    from medstress.report.section import Source
    from medstress.results.rows import trial_rows
    from medstress.summary.summary import summarise_run

    return Source(summarise_run(run), trial_rows(run), run.manifest)
