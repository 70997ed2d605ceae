"""The targets of our runs of the Araujo tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from araujo_effects import ATTACKS, SYNONYM
from araujo_judged import (
    FEW_SEEDS,
    HALF,
    LABELS,
    ORIGINAL,
    PAIRS,
    TRAINED,
    UNTOUCHED,
    Json,
    Results,
    data_of,
    has_seeds,
    rows_of,
)

from medstress.stats.estimates import Estimate, read_score


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One thing that our runs should reach."""

    what: str
    """In words."""
    asked: str
    """The target."""
    measured: Sequence[Estimate]
    """What was measured; empty where nothing was yet."""
    met: bool | None
    """Whether the values reach it; None where that is not known."""
    why: str = "not measured yet"
    """Why it is not known."""


def targets(results: Results) -> list[Target]:
    """The targets, whether or not they were measured."""
    found = []
    for data, least in (("chem", 0.86), ("disease", 0.78)):
        rows = rows_of(results.get(f"table2-{data}"), "scores", model="original")
        found.append(_least(f"F1 on the clean test set, {LABELS[data]}", least, rows[:1], "f1"))
    rows = rows_of(results.get(PAIRS), "scores", attack=SYNONYM)
    kinds = ", ".join(row["model"] for row in rows) or "untrained, or cross-validated"
    found.append(_least(f"Pearson on all 100 pairs ({kinds})", 0.84, rows, "pearson"))
    for name in TRAINED:
        for attack in ATTACKS:
            found.append(_recovery(name, attack, results.get(name)))
    return found


def _least(what: str, least: float, rows: Sequence[Json], measure: str) -> Target:
    known = [read_score(row[measure]) for row in rows]
    judged = [one.value for one, row in zip(known, rows, strict=True) if has_seeds(row)]
    values = [value for value in judged if value is not None]
    asked = f"≥ {least:.2f}".replace("0.", ".")
    met = max(values) >= least if values else None
    why = FEW_SEEDS if rows and not judged else "not measured yet"
    return Target(what=what, asked=asked, measured=known, met=met, why=why)


def _recovery(name: str, attack: str, run: Json | None) -> Target:
    rows = rows_of(
        run, "comparison", trained_on=True, attack=attack, model=attack, against=ORIGINAL
    )
    what = f"recovered share, clean loss: {LABELS[data_of(name, folds=True)]}, {LABELS[attack]}"
    asked = "≥ .50, < .02"
    if not rows:
        return Target(what=what, asked=asked, measured=[], met=None)
    share, loss = (read_score(rows[0][key]) for key in ("recovered", "clean_loss"))
    if share.value is None or loss.value is None:
        why = "open: what the attack takes is not clear of zero"
        return Target(what=what, asked=asked, measured=[share, loss], met=None, why=why)
    if not has_seeds(rows[0]):
        return Target(what=what, asked=asked, measured=[share, loss], met=None, why=FEW_SEEDS)
    met = share.value >= HALF and loss.value < UNTOUCHED
    return Target(what=what, asked=asked, measured=[share, loss], met=met)
