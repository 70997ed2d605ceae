"""How the page of the Araujo tables writes tables, estimates and names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from araujo_claims import LABELS

from medstress.metrics.estimates import Estimate
from medstress.report.formats import NONE, decimal


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table.

    >>> print(table(["a", "b"], [["1", "2"]]), end="")
    | a | b |
    | --- | --- |
    | 1 | 2 |
    """
    lines = [headers, ["---"] * len(headers), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def shown(estimate: Mapping[str, Any] | Estimate | None) -> str:
    """A value with its interval.

    >>> shown({"value": 0.5, "low": 0.4, "high": 0.61})
    '.500 [.400, .610]'
    >>> shown(None)
    '–'
    """
    if isinstance(estimate, Estimate):
        estimate = estimate.as_json()
    if not estimate or estimate["value"] is None:
        return NONE
    if estimate["low"] is None:
        return decimal(estimate["value"])
    low, high = decimal(estimate["low"]), decimal(estimate["high"])
    return f"{decimal(estimate['value'])} [{low}, {high}]"


def named(name: str) -> str:
    """An attack, its control or a kind of model in words.

    >>> named("control of keyboard_noise")
    'control of keyboard noise'
    >>> named("swap_noise, redrawn")
    'swap noise, redrawn'
    """
    head, of, attack = name.rpartition("control of ")
    attack, comma, rest = attack.partition(", ")
    return f"{head}{of}{LABELS.get(attack, attack)}{comma}{rest}"


def noise_outside(scores: Sequence[Mapping[str, Any]]) -> str:
    """A sentence: what noise takes that touches no entity; empty without the control."""
    rows = {row["attack"]: row for row in scores}
    if not {"non_entity_noise", "swap_noise"} <= set(rows):
        return ""
    control = rows["non_entity_noise"]
    lost = {
        name: decimal(control[name]["value"] - control[f"{name}_after"]["value"])
        for name in ("f1", "precision", "recall")
    }
    return (
        f"As much noise outside the entities alone, the control, takes {lost['f1']} of F1 "
        f"({lost['precision']} of precision, as other words are taken for entities, and "
        f"{lost['recall']} of recall); swap noise takes "
        f"{decimal(rows['swap_noise']['f1_drop']['value'])}.\n"
    )
