"""Before and after adversarial training, as a table and sentences for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from medstress.metrics.table import Table, estimate_text

SCORES = ("clean", "trained_clean", "attacked", "trained_attacked", "clean_loss", "recovered")
HEADERS = (
    "dataset",
    "attack",
    "model",
    "against",
    "seeds",
    "trained on it",
    "measure",
    "clean: other",
    "clean: model",
    "attacked: other",
    "attacked: model",
    "clean loss",
    "recovered share of the loss",
)


def training_table(training: Mapping[str, Any]) -> Table | None:
    """Lay out the comparison with original models (`other`); None where there is none yet."""
    if not training["rows"]:
        return None
    return Table(
        HEADERS,
        [
            (
                row["dataset"],
                row["attack"],
                row["model"],
                row.get("against", "original"),
                str(row.get("n_seeds", "")),
                "yes" if row["trained_on"] else "no",
                row["measure"],
                *(estimate_text(row[name]) for name in SCORES),
            )
            for row in training["rows"]
        ],
    )
