"""Success of the first query by number of words replaced and inserted: cells and caption."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from medstress.metrics.edits import MOST_WORDS
from medstress.metrics.old_stats.estimates import Estimate, read_share
from medstress.papers.arms import Arm
from medstress.papers.outputs import csv_row

CSV_FIELDS = (
    "victim", "dataset", "group", "embedding", "rule", "attack", "words_replaced",
    "words_inserted", "n_items", "value", "low", "high", "n", "interval",
)  # fmt: skip
MOST_PANELS = 12
"""How many panels are drawn; the CSV has all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WordPanel:
    """One attack in one place."""

    label: str
    """Attack, group, and whatever else differs between panels."""
    arm: Arm
    """The attack and its place."""
    cells: Mapping[tuple[int, int], Estimate]
    """Success of the first query by (words replaced, words inserted)."""
    n_items: Mapping[tuple[int, int], int]
    """Number of items by cell."""


def panels_of(arms: Sequence[Arm], rows: Sequence[Mapping[str, Any]]) -> list[WordPanel]:
    """Return one panel per attack and place, in the order of the rows.

    Args:
        arms: arms of the run.
        rows: rows of `analysis.words`.
    """
    by_key = {
        (arm.place.dataset, arm.group, arm.place.victim.label, arm.attack): arm for arm in arms
    }
    by_place: dict[tuple[str, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        by_place[row["dataset"], row["group"], row["victim"], row["attack"]].append(row)
    known = {key: members for key, members in by_place.items() if key in by_key}
    # A label names the attack always, and the other parts only if they differ between panels.
    varying = [i for i in (2, 0, 1) if len({key[i] for key in known}) > 1]
    return [
        WordPanel(
            label=" · ".join((_short(key[3]), *(key[i] for i in varying))),
            arm=by_key[key],
            cells={_cell(row): read_share(row["asr_at_1"]) for row in members},
            n_items={_cell(row): row["n_items"] for row in members},
        )
        for key, members in known.items()
    ]


def sentences(panels: Sequence[WordPanel]) -> list[str]:
    """Return the caption's sentences about the cells."""
    caption = [
        "Cells: success of the first query in per cent, below it the number of first queries. "
        f"{MOST_WORDS}+ is {MOST_WORDS} or more words; empty cells did not occur. The CSV has the "
        "intervals; a cell with few queries says little."
    ]
    if len(panels) > MOST_PANELS:
        caption.append(
            f"The first {MOST_PANELS} of {len(panels)} panels are drawn; the CSV has all."
        )
    return caption


def csv_rows(panels: Iterable[WordPanel]) -> list[dict[str, Any]]:
    """Return the numbers of the figure, one row per cell."""
    rows = []
    for panel in panels:
        place = panel.arm.place
        labels = {
            "victim": place.victim.label, "dataset": place.dataset, "group": place.entity,
            "embedding": place.embedding, "rule": place.rule, "attack": panel.arm.attack,
        }  # fmt: skip
        for cell, estimate in panel.cells.items():
            size = {"words_replaced": cell[0], "words_inserted": cell[1]}
            row = csv_row(estimate, **labels, **size, n_items=panel.n_items[cell])
            rows.append({name: row[name] for name in CSV_FIELDS})
    return rows


def _short(attack: str) -> str:
    """Drop the attack's name from a default label and keep its parameters."""
    return attack.removeprefix("entity_substitution ")


def _cell(row: Mapping[str, Any]) -> tuple[int, int]:
    return row["words_replaced"], row["words_inserted"]
