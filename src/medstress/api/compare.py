"""Compare run folders from Python."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any, Literal

from medstress.api.checked import checked
from medstress.api.results import Run
from medstress.comparison.compare import Comparison, Settings
from medstress.comparison.runs import compare_folders, compare_within
from medstress.comparison.tables import comparison_table, lines_of
from medstress.results.load import open_run


class Compared(Comparison):
    """A comparison that `print` and notebooks show as `medstress compare` does."""

    __slots__ = ()

    def __str__(self) -> str:
        """Return the comparison in sentences."""
        return "\n".join(lines_of(self))

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def _repr_html_(self) -> str:
        from medstress.api.notebook import block, paragraph, shown_table

        return block(*map(paragraph, lines_of(self)), shown_table(comparison_table(self)))


def _shown(found: Comparison) -> Compared:
    return Compared(**{each.name: getattr(found, each.name) for each in fields(found)})


@checked
def compare(
    a: str | Path | Run,
    b: str | Path | Run | None = None,
    *,
    margin: float | None = None,
    on_undecided: Literal["pass", "fail"] = "fail",
    adjust: Literal["holm", "bh"] | None = None,
) -> Compared:
    """Compare two runs in which one thing differs, or two arms of one run.

    Args:
        a: a run folder: what is compared against.
        b: the run folder that verdicts are about; None for the arms that `[compare]` of the
            experiment file of `a` names.
        margin: the largest difference that does not matter, in (0, 1); default: that of `[compare]`
            if `b` is None, else none.
        on_undecided: what `Comparison.fails` says of an undecided comparison with a margin.
        adjust: how p-values are adjusted over a family; default: that of `[compare]`, else Holm.

    Returns:
        The comparison: `verdict`, `rows`, `fails`, `as_json()` (docs: compare).

    Raises:
        UsageError, StoreError: one sentence: what cannot be compared, and why.
    """
    first = (a if isinstance(a, Run) else Run(a)).folder
    if b is not None:
        second = (b if isinstance(b, Run) else Run(b)).folder
        settings = Settings(margin=margin, on_undecided=on_undecided, adjust=adjust or "holm")
        return _shown(compare_folders(first, second, settings))
    with open_run(first) as run:
        table = run.manifest["config"].get("compare") or {}
        settings = Settings(
            margin=table.get("margin") if margin is None else margin,
            on_undecided=on_undecided,
            adjust=adjust or table.get("adjust", "holm"),
        )
        return _shown(compare_within(run, settings))
