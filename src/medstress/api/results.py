"""Read run folders and compare them: verdict, numbers, rows, cases, report."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from medstress.analyses.compare import Comparison, open_sides
from medstress.analyses.compare import compare as compare_sides
from medstress.analyses.run import Run as Read
from medstress.api.checked import checked
from medstress.core.errors import MedstressError, UsageError, setting
from medstress.core.writing import write_text

if TYPE_CHECKING:
    import polars

    from medstress.analyses.verdict import Verdict
    from medstress.report.cases import Case
    from medstress.report.figures import Made

_TEXT = ("attack_spec",)
"""Objects that are one column of JSON text."""


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

    Every method opens the folder again, so it shows the current state of a run in progress. In a
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
        from medstress.report.cases import Cases

        every = Cases(self.read())
        (case,) = every.cases([every.find(case_id)], most_tried=None)
        return case

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
                    f"cannot write {to}: {error.strerror}; give another {setting('to')}"
                ) from error
        return page

    @checked
    def figures(
        self,
        out: str | Path,
        formats: Sequence[str] = ("pdf", "svg", "png"),
        paper: str | None = None,
    ) -> list[Made]:
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
        from medstress.api.notebook import told

        return "\n".join((*told(self.read()), f"run: {self.folder}"))

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Show the verdict in IPython; the folder alone if it holds no run."""
        try:
            printer.text(repr(self) if cycle else str(self))
        except MedstressError as error:
            printer.text(f"{self!r}: {error}")

    def _repr_html_(self) -> str:
        from medstress.api.notebook import block, paragraph, run_parts

        try:
            return block(*run_parts(self.read()))
        except MedstressError as error:
            return block(paragraph(str(error)))


class Compared(Comparison):
    """A comparison that `print` and notebooks show as `medstress compare` does."""

    def __str__(self) -> str:
        """Return the comparison in sentences."""
        return "\n".join(self.lines())

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def _repr_html_(self) -> str:
        from medstress.api.notebook import block, paragraph, shown_table

        tables = map(shown_table, self.tables())
        return block(*map(paragraph, self.lines()), *tables)


@checked
def compare(
    a: str | Path | Run,
    b: str | Path | Run,
    *,
    factor: Literal["victim", "attack", "group"] = "victim",
    metric: str | None = None,
    margin: float | None = None,
) -> Compared:
    """Compare two runs, or two models of one run, on the same items and seeds.

    Args:
        a: a run folder, or `DIR#victim` for a model of a run with several: what is compared
            against.
        b: the same of what the verdict is about.
        factor: what is compared: models, attacks, or the groups that these draw names from.
        metric: the measure that decides: accuracy_after, accuracy, asr, asr_net, or a score of the
            data set such as f1_after; None for the one that fits.
        margin: the largest difference that does not matter, in (0, 1).

    Returns:
        The comparison: `verdict`, `rows`, `fails`, `as_json()` (docs: gate).

    Raises:
        UsageError, StoreError: one sentence: what cannot be compared, and why.
    """
    first, second = ((side if isinstance(side, Run) else Run(side)).folder for side in (a, b))
    made = compare_sides(*open_sides(first, second), factor=factor, metric=metric, margin=margin)
    return Compared(**{part.name: getattr(made, part.name) for part in fields(made)})


# -- results as a data frame ----------------------------------------------------------------------


def result_frame(rows: Sequence[Mapping[str, Any]]) -> polars.DataFrame:
    """Return pooled rows of a summary as a data frame.

    A column without any value has its type nevertheless; without rows there are the columns that
    every run has.
    """
    from medstress.core.frames import frame_of

    types, opened = _result_types(), result_rows(rows)
    names = opened[0] if opened else types
    return frame_of(opened, {name: types.get(name) or _type_of(name) for name in names})


def _result_types() -> dict[str, Any]:
    """Return the columns that the results of every run have."""
    from medstress.analyses.run import LEDGER
    from medstress.analyses.success import Counts

    places = ("dataset", "group", "victim", "attack", "attack_spec")
    rates = ("accuracy", "accuracy_after", "asr")
    ends = ("", "_n", "_hits", "_low", "_high", "_method")
    return {
        **dict.fromkeys(places, str),
        **dict.fromkeys((field.name for field in fields(Counts)), int),
        **{(name := rate + end): _type_of(name) for rate in rates for end in ends},
        **{f"queries_{field}": int for field in LEDGER},
        "seeds": str,
    }


def _type_of(name: str) -> type:
    """Return the type of a measure, or of a part of it, by its name.

    >>> _type_of("asr_valid"), _type_of("asr_valid_n"), _type_of("asr_valid_method")
    (<class 'float'>, <class 'int'>, <class 'str'>)
    """
    ends = {"_n": int, "_hits": int, "_method": str, "_bounds": str, "evidence": str, "seed": int}
    return next((kind for end, kind in ends.items() if name.endswith(end)), float)


def result_rows(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return rows of a summary with one value in each column; lists are JSON text.

    >>> result_rows([{"asr": {"value": 0.5, "n": 2, "low": 0.1, "high": 0.9, "method": "wilson"},
    ...              "control": {}}, {"queries": {"asked": 3}}])[0]["asr_low"]
    0.1
    """
    lines = [dict(_columns("", row)) for row in rows]
    names = dict.fromkeys(name for line in lines for name in line)
    return [{name: line.get(name) for name in names} for line in lines]


def _columns(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield (column, value) for the parts of an estimate, of a table, and of tables of them."""
    if isinstance(value, Mapping) and name not in _TEXT:
        for part, own in value.items():
            column = f"{name}_{part}" if name else part
            yield from _columns(name if part == "value" else column, own)
    else:
        is_json = isinstance(value, Mapping | list | tuple)
        yield name, json.dumps(value, ensure_ascii=False) if is_json else value
