"""Which measure is primary: the one that the file fixed, else the one that fits the factor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from medstress.comparison.contrasts import ACCURACY_AFTER, ASR, CONDITIONING
from medstress.experiment.file.comparison_tables import PrimaryTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Primary:
    """The primary measure of a comparison."""

    metric: str
    """The measure."""
    control: str | None
    """The control that it is net of."""
    is_fixed: bool
    """True if the experiment file fixed it; everything else is then exploratory."""
    why: str
    """Why it is this one."""

    def as_json(self) -> dict[str, Any]:
        """Return `primary` of `compare --json`."""
        return {
            "metric": self.metric,
            "control": self.control,
            "fixed_in_the_file": self.is_fixed,
            "why": self.why,
        }


def primary_of(
    first: Mapping[str, Any], second: Mapping[str, Any], *, changes_clean_answers: bool
) -> tuple[Primary, list[str]]:
    """Return the primary measure, and notes.

    It counts as fixed if both runs began with it.

    Args:
        first: the manifest of A's run.
        second: that of B's.
        changes_clean_answers: whether the factor does.
    """
    named = [side["config"]["experiment"].get("primary") for side in (first, second)]
    if named[0] is not None and named[0] == named[1]:
        is_fixed = all(side.get("primary") == named[0] for side in (first, second))
        why, notes = "[experiment] primary fixes it; everything else is exploratory", []
        if not is_fixed:
            why = "[experiment] primary names it, but only since a run had begun: it is post hoc"
            notes = ["the primary endpoint was named after a run had begun, so it is not fixed"]
        control = named[0].get("control")
        return (
            Primary(metric=named[0]["metric"], control=control, is_fixed=is_fixed, why=why),
            notes,
        )
    notes = []
    if named[0] != named[1]:
        a, b = ((each or {}).get("metric", "none") for each in named)
        notes.append(
            f"the runs fix different primary endpoints (A: {a}, B: {b}), so neither counts as fixed"
        )
    if changes_clean_answers:
        chosen = Primary(metric=ACCURACY_AFTER, control=None, is_fixed=False, why=CONDITIONING)
    else:
        why = "only the attack differs, so both attack the same items: those right before it"
        chosen = Primary(metric=ASR, control=None, is_fixed=False, why=why)
    return chosen, notes


def fixed_primary(table: PrimaryTable | None) -> dict[str, Any]:
    """Return the entry of a new run's manifest that fixes its primary endpoint."""
    return {} if table is None else {"primary": table.model_dump(exclude_none=True)}
