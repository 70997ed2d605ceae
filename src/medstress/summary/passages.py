"""The part of a summary on passages: which victims are shown them, and what they are worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from medstress.core.passages import DECIDES
from medstress.core.rows import TrialRow
from medstress.metrics.passages import accuracies_by_attack, passage_gains
from medstress.results.load import StoredRun
from medstress.tasks.templates import stored_template

NO_GAIN = (
    "what the passage is worth is unknown: a victim without passages is not asked under attacks "
    "that edit the passage alone; add another attack, such as no_op"
)


def describe_passages(run: StoredRun, trials: Sequence[TrialRow]) -> dict[str, Any] | None:
    """Return what passages are worth in a run; None unless a model is asked with and without.

    Victims are compared if they are the same model, asked in the same way, and the prompt of one
    shows passages and that of the other does not.

    Returns:
        `gains` (`passage_gains`) and `accuracies` (`accuracies_by_attack`).
    """
    items = run.items_by_id()
    if not any(getattr(item, "passage", "") for item in items.values()):
        return None
    victims: Mapping[str, Any] = run.manifest["victims"]
    shown = {label: _shows(victim) for label, victim in victims.items()}
    pairs = [
        (reader, other)
        for reader in victims
        for other in victims
        if shown[reader] and not shown[other] and _same_model(victims[reader], victims[other])
    ]
    decides = {
        place: item.metadata[DECIDES]
        for place, item in items.items()
        if isinstance(item.metadata.get(DECIDES), bool)
    }
    if not pairs:
        return None
    free = [label for label, part in run.manifest["groups"].items() if not part.get("n_names")]
    # Attacks without names ask the clean items of the other groups once more.
    named = [row for row in trials if row.group not in free] or trials
    read = [row for row in named if items[row.dataset, row.item_id].passage]
    return {
        "gains": passage_gains(read, pairs, decides),
        "accuracies": accuracies_by_attack(trials, free),
    }


def _shows(victim: Mapping[str, Any]) -> bool:
    prompt = victim.get("prompt")
    return prompt is not None and stored_template(prompt).shows("passage")


def _same_model(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    ways = ("answer_by", "text_score", "parser", "decoding")
    return bool(one["model_hash"] == other["model_hash"]) and all(
        one["task"].get(way) == other["task"].get(way) for way in ways
    )
