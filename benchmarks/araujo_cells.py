"""How the page of the Araujo tables writes tables, estimates and names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from araujo_effects import ATTACKS
from araujo_judged import LABELS
from araujo_printed import MODELS, printed

from medstress.metrics.estimates import Estimate
from medstress.results.formats import NONE, decimal


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
    if name in LABELS:
        return LABELS[name]
    head, of, attack = name.rpartition("control of ")
    attack, comma, rest = attack.partition(", ")
    return f"{head}{of}{LABELS.get(attack, attack)}{comma}{rest}"


def noise_outside(scores: Sequence[Mapping[str, Any]]) -> str:
    """A sentence: what noise takes that touches no entity; empty without the control."""
    rows = {row["attack"]: row for row in scores}
    if not {"non_entity_noise", "swap_noise"} <= set(rows):
        return ""
    control = rows["non_entity_noise"]
    names = ("f1", "precision", "recall")
    if any(control[f"{name}_after"]["value"] is None for name in names):
        return ""  # a model that marks nothing has no precision
    lost = {
        name: decimal(control[name]["value"] - control[f"{name}_after"]["value"]) for name in names
    }
    return (
        f"As much noise outside the entities alone, the control, takes {lost['f1']} of F1 "
        f"({lost['precision']} of precision, as other words are taken for entities, and "
        f"{lost['recall']} of recall); swap noise takes "
        f"{decimal(rows['swap_noise']['f1_drop']['value'])}.\n"
    )


def rank(attack: str) -> int:
    """The paper's order of the attacks; others behind."""
    return ATTACKS.index(attack) if attack in ATTACKS else len(ATTACKS)


def theirs(run: Mapping[str, Any], test: str, trained_on: str = "") -> list[str]:
    """What the paper prints of the same test."""
    is_pairs = "pearson" in run["scores"][0]
    measures = ("pearson", "spearman") if is_pairs else ("precision", "recall", "f1")
    if test not in ("original", *ATTACKS):
        return [NONE] * len(measures)
    number = int(run["table"].removeprefix("table"))
    data = run["data"].partition("-")[0]
    return [
        " / ".join(
            decimal(printed(number, model, test, measure, trained_on, data)) for model in MODELS
        )
        for measure in measures
    ]
