"""The tables of Araujo et al. as they are printed."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from araujo_effects import ATTACKS

from medstress.results.formats import decimal

FILE = Path(__file__).resolve().parent / "araujo" / "published.csv"
MODELS = ("P+M", "P")
"""BERT pre-trained on PubMed and MIMIC-III, and on PubMed alone."""


@lru_cache(maxsize=1)
def published() -> tuple[dict[str, str], ...]:
    """The paper's tables, a row a test."""
    return tuple(csv.DictReader(FILE.read_text("utf-8").splitlines()))


def printed(
    table: int, model: str, test: str, measure: str, trained_on: str = "", data: str = ""
) -> float:
    """One number of the paper's tables.

    >>> printed(2, "P+M", "swap_noise", "recall", data="chem")
    0.698
    """
    (row,) = (
        row
        for row in published()
        if (row["table"], row["model"], row["test"], row["trained_on"])
        == (str(table), model, test, trained_on)
        and data in ("", row["data"])
    )
    return float(row[measure])


def theirs(run: Mapping[str, Any], test: str, trained_on: str = "") -> list[str | None]:
    """What the paper prints of the test of a run: each measure of P+M / P; None where nothing."""
    is_pairs = "pearson" in run["scores"][0]
    measures = ("pearson", "spearman") if is_pairs else ("precision", "recall", "f1")
    if test not in ("original", *ATTACKS):
        return [None] * len(measures)
    number = int(run["table"].removeprefix("table"))
    data = run["data"].partition("-")[0]
    return [
        " / ".join(
            decimal(printed(number, model, test, measure, trained_on, data)) for model in MODELS
        )
        for measure in measures
    ]
