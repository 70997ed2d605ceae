"""The card as metadata of a model card on the Hugging Face hub: `model-index`, as YAML.

The block goes between two lines of `---` at the top of a `README.md`. `huggingface_hub` reads it
(`ModelCardData`, `EvalResult`); a test does so where that library is installed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from medstress.card.content import Arm, Card

_TASKS = {
    "questions": "question-answering",
    "tagged texts": "token-classification",
    "sentence pairs": "sentence-similarity",
    "labelled pairs": "text-classification",
}
"""Kind of items -> the hub's name of the task."""
OTHER_TASK = "other"


def model_index(card: Card) -> str:
    """Return the metadata block of a card, with its two lines of `---`."""
    results = [_result(card, arm) for arm in card.arms if arm.lost["value"] is not None]
    data = {
        "tags": ["robustness", "medstress"],
        "model-index": [{"name": str(card.model.get("name", card.victim)), "results": results}],
    }
    return "\n".join(["---", *_yaml(data), "---"]) + "\n"


def _result(card: Card, arm: Arm) -> dict[str, Any]:
    is_share = arm.measure == "asr"
    score = "accuracy" if is_share else arm.measure
    loss = "attack_success_rate" if is_share else f"{score}_drop"
    under = f"under {arm.name}" + (f", {arm.budget} queries an item" if arm.budget else "")
    shown = (
        (score, f"{score} before", arm.before),
        (score, f"{score} {under}", arm.after),
        (loss, f"lost {under}", arm.lost),
        (f"{loss}_of_control", f"lost to the control {arm.control}", arm.control_lost),
        (f"{loss}_net_of_control", f"lost {under}, net of {arm.control}", arm.net),
        (f"{loss}_valid", f"lost {under}, key still right", arm.valid),
    )
    return {
        "task": {"type": _TASKS.get(card.kind, OTHER_TASK), "name": f"robustness {under}"},
        "dataset": {
            "type": re.sub(r"[^\w.-]+", "-", arm.dataset) or "data",
            "name": arm.dataset,
            "config": arm.group,
            "args": {"attack": arm.attack, "root": card.root, "fingerprint": card.fingerprint},
        },
        "metrics": [
            {
                "type": kind,
                "name": name,
                "value": found["value"],
                "args": {"n": found["n"], "low": found["low"], "high": found["high"]},
            }
            for kind, name, found in shown
            if found is not None and found["value"] is not None
        ],
    }


def _yaml(value: Any, depth: int = 0) -> Iterator[str]:
    """Yield lines of YAML; texts and numbers as JSON writes them, which YAML 1.2 reads alike."""
    margin = "  " * depth
    if isinstance(value, Mapping):
        for key, each in value.items():
            if isinstance(each, Mapping | list) and each:
                yield f"{margin}{key}:"
                yield from _yaml(each, depth + 1)
            else:
                yield f"{margin}{key}: {_scalar(each)}"
    else:
        for each in value:
            lines = list(_yaml(each, depth + 1)) if isinstance(each, Mapping) else [_scalar(each)]
            yield f"{margin}- {lines[0].lstrip()}"
            yield from lines[1:]


def _scalar(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True)
