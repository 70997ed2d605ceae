"""The embedded default: one model asked with a passage and without it, under attack."""

from __future__ import annotations

from typing import Any

_SMOLLM2: dict[str, Any] = {
    "backend": "transformers",
    "model": "smollm2",
    "answer_by": "text",
    "parameters": 135e6,
    "family": "SmolLM2",
    "group": "generalist",
}

_NAMES: dict[str, Any] = {"name": "entity_substitution", "budget": 8}

DEMO: dict[str, Any] = {
    "experiment": {"name": "demo", "seeds": [0]},
    "dataset": [{"name": "sample"}],
    "entities": [
        {"name": "drugs", "type": "drugs", "vocabulary": "drugs"},
        {"name": "diseases", "type": "diseases", "vocabulary": "diseases"},
    ],
    "victim": [
        {**_SMOLLM2, "name": "open_book", "prompt": "open_book_cloze"},
        {**_SMOLLM2, "name": "closed_book", "prompt": "cloze"},
    ],
    "attack": [
        {**_NAMES, "label": "far names", "n": 20},
        {**_NAMES, "label": "random names", "sampler": "random"},
        {**_NAMES, "label": "near names", "n": -20},
    ],
}
"""An experiment as a dict, the same shape as the TOML file."""
