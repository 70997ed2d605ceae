"""One forward pass of an encoder with a head, over inputs of different lengths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from medstress.backends.models.loaded_model import LoadedModel

_MAX_TOKENS = {"cpu": 2048, "cuda": 32768}
"""Tokens of one forward pass, padding included."""
_LONGEST = 512
"""The most tokens of one input: the length that the encoders of this field were trained on."""


class Inputs(Protocol):
    """The tokenised inputs of one text or pair."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the model's inputs: `input_ids`, and what else its tokenizer makes."""

    @property
    def rows(self) -> tuple[tuple[int, ...], ...]:
        """The inputs, one row per name, `(n_names, n_tokens)`."""

    def __len__(self) -> int: ...


def most_tokens(loaded: LoadedModel) -> int:
    """Return the most tokens of one forward pass, padding included."""
    return _MAX_TOKENS["cuda" if loaded.device.type == "cuda" else "cpu"]


def longest_input(loaded: LoadedModel) -> int:
    """Return the most tokens of one input, special ones included."""
    # Some models count positions from 2 (RoBERTa), and only the tokenizer's limit covers that.
    limits = (loaded.max_positions, loaded.tokenizer.model_max_length, _LONGEST)
    return int(min(limit for limit in limits if limit is not None))


def forward(loaded: LoadedModel, inputs: Sequence[Inputs]) -> Any:
    """Return the logits, a tensor whose first dimension counts the inputs.

    Padding is on the right and masked, so it changes no other value and tokens keep their places.
    """
    import torch

    names, longest = inputs[0].names, max(map(len, inputs))
    fill = {"input_ids": loaded.tokenizer.pad_token_id or 0}
    arrays = {
        name: torch.tensor(
            [[*one.rows[place], *([fill.get(name, 0)] * (longest - len(one)))] for one in inputs],
            device=loaded.device,
        )
        for place, name in enumerate(names)
    }
    if "attention_mask" not in arrays:
        arrays["attention_mask"] = torch.tensor(
            [[1] * len(one) + [0] * (longest - len(one)) for one in inputs], device=loaded.device
        )
    with torch.inference_mode():
        return loaded.model(**arrays).logits
