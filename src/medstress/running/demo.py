"""The embedded default: everything the package carries, in one small experiment."""

from __future__ import annotations

from typing import Any

DEMO: dict[str, Any] = {
    "experiment": {"name": "demo", "seeds": [0]},
    "dataset": [{"name": "sample"}],
    "entities": [
        {"name": "drugs", "type": "drugs", "vocabulary": "drugs"},
        {"name": "diseases", "type": "diseases", "vocabulary": "diseases"},
    ],
    "victim": [
        {
            "name": "smollm2",
            "backend": "transformers",
            "model": "smollm2",
            "answer_by": "text",
            "prompt": "cloze",
            "parameters": 135e6,
            "family": "SmolLM2",
            "group": "generalist",
        }
    ],
    "attack": [
        {"name": "entity_substitution", "label": "random", "sampler": "random", "budget": 8},
        {
            "name": "entity_substitution",
            "label": "pdws near",
            "sampler": "pdws",
            "n": -20,
            "budget": 8,
        },
        {
            "name": "entity_substitution",
            "label": "pdws far",
            "sampler": "pdws",
            "n": 20,
            "budget": 8,
        },
    ],
}
"""An experiment as a dict, the same shape as the TOML file."""
