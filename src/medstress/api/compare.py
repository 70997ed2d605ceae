"""Compare run folders from Python."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any, Literal

from medstress.api.checked import checked
from medstress.api.results import Run
from medstress.comparison.compare import Comparison, Settings
from medstress.comparison.runs import compare_folders
from medstress.comparison.tables import comparison_table, lines_of


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
    b: str | Path | Run,
    *,
    metric: str | None = None,
    margin: float | None = None,
    on_undecided: Literal["pass", "fail"] = "fail",
    adjust: Literal["holm", "bh"] = "holm",
) -> Compared:
    """Compare two runs in which one thing differs, or two victims of one run.

    Args:
        a: a run folder, or `DIR#victim` for a victim of a run with several: what is compared
            against.
        b: the same of what verdicts are about.
        metric: the measure that decides: accuracy_after, accuracy, asr or asr_net; None for
            accuracy_after, or asr where only the attack differs.
        margin: the largest difference that does not matter, in (0, 1).
        on_undecided: what `Comparison.fails` says of an undecided comparison with a margin.
        adjust: how p-values are adjusted over a family.

    Returns:
        The comparison: `verdict`, `rows`, `fails`, `as_json()` (docs: compare).

    Raises:
        UsageError, StoreError: one sentence: what cannot be compared, and why.
    """
    settings = Settings(metric=metric, margin=margin, on_undecided=on_undecided, adjust=adjust)
    first, second = ((each if isinstance(each, Run) else Run(each)).folder for each in (a, b))
    return _shown(compare_folders(first, second, settings))
