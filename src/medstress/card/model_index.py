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
from medstress.card.numbers import numbers_of, slice_numbers
from medstress.card.sections import sections

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
    results = [_result(card, arm) for arm in card.arms if any(numbers_of(arm))]
    parts = {each.title: list(each.lines) for each in sections(card)}
    data = {
        "tags": ["robustness", "medstress"],
        "model-index": [{"name": str(card.model.get("name", card.victim)), "results": results}],
        # The hub shows the numbers above; what they do not say travels with them.
        "robustness_card": {
            "found": parts["What was found"],
            "criteria": parts["Criteria"],
            "limits": [*card.limits, *card.cautions],
            "warnings": list(card.warnings),
            "command": card.command,
        },
    }
    return "\n".join(["---", *_yaml(data), "---"]) + "\n"


def _result(card: Card, arm: Arm) -> dict[str, Any]:
    budget = f", {arm.budget} queries an item" if arm.budget else ""
    under = f"robustness under {arm.name}{budget}" if arm.is_attacked else "nothing was attacked"
    shown = [*numbers_of(arm), *(one for _, one in slice_numbers(card, arm))]
    return {
        "task": {"type": _TASKS.get(card.kind, OTHER_TASK), "name": under},
        "dataset": {
            "type": re.sub(r"[^\w.-]+", "-", arm.dataset) or "data",
            "name": arm.dataset,
            "config": arm.group,
            "args": {
                "attack": arm.attack,
                "budget": arm.budget if arm.is_attacked else None,
                "control": arm.control,
                "unknown_validity": arm.n_unknown,
                "root": card.root,
                "fingerprint": card.fingerprint,
            },
        },
        "metrics": [
            {
                "type": each.name.removesuffix("_after"),
                "name": each.words,
                "value": each.found["value"],
                "args": {name: each.found[name] for name in ("n", "low", "high")},
            }
            for each in shown
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
