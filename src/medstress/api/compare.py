"""Compare run folders from Python."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any, Literal

from medstress.analyses.compare import Comparison, open_sides
from medstress.analyses.compare import compare as compare_sides
from medstress.api.checked import checked
from medstress.api.results import Run


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
        The comparison: `verdict`, `rows`, `fails`, `as_json()` (docs: compare).

    Raises:
        UsageError, StoreError: one sentence: what cannot be compared, and why.
    """
    first, second = ((side if isinstance(side, Run) else Run(side)).folder for side in (a, b))
    made = compare_sides(*open_sides(first, second), factor=factor, metric=metric, margin=margin)
    return Compared(**{part.name: getattr(made, part.name) for part in fields(made)})
