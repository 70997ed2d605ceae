"""Checks that a replacement for a layer gives the same numbers as the layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

_TOLERANCE = 1e-5
"""Largest float32 difference, relative to the largest absolute value of a token."""


def outputs_match(original: Callable[[], Any], replacement: Callable[[], Any]) -> bool:
    """Return whether both tensors agree within the tolerance; False if either computation fails.

    Args:
        original: computes the expected tensor, one row per token.
        replacement: computes the tensor to check.
    """
    try:
        expected, actual = original(), replacement()
        if (expected.shape, expected.dtype) != (actual.shape, actual.dtype):
            return False
        largest = expected.abs().amax(-1, keepdim=True)
        return bool(((expected - actual).abs() <= _TOLERANCE * largest).all())
    except (RuntimeError, TypeError, ValueError, LookupError, AttributeError, AssertionError):
        return False


def products_match(layer: Any, replacement: Callable[[Any], Any], n_rows: Sequence[int]) -> bool:
    """Return whether a linear layer and its replacement agree on random inputs.

    Args:
        layer: a linear layer.
        replacement: maps `(1, n_tokens, in_features)` to the layer's output.
        n_rows: the numbers of tokens to try.
    """
    import torch

    generator = torch.Generator().manual_seed(0)
    with torch.inference_mode():
        inputs = [torch.randn(1, n, layer.in_features, generator=generator) for n in n_rows]
        return all(outputs_match(partial(layer, x), partial(replacement, x)) for x in inputs)
