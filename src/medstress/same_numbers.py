"""Whether another way to compute a layer gives the layer's numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

_TOLERANCE = 1e-5
"""Per the largest number of a token, in float32."""


def gives_the_same(own: Callable[[], Any], other: Callable[[], Any]) -> bool:
    """Whether both give the same numbers; what cannot be compared is not the same.

    Args:
        own: gives a tensor, by token.
        other: the other way.
    """
    try:
        expected, found = own(), other()
        if (expected.shape, expected.dtype) != (found.shape, found.dtype):
            return False
        largest = expected.abs().amax(-1, keepdim=True)
        return bool(((expected - found).abs() <= _TOLERANCE * largest).all())
    except (RuntimeError, TypeError, ValueError, LookupError, AttributeError, AssertionError):
        return False


def multiplies_the_same(layer: Any, other: Callable[[Any], Any], n_rows: Sequence[int]) -> bool:
    """Compare two ways to compute a linear layer on random tokens, of some numbers of them."""
    import torch

    drawn = torch.Generator().manual_seed(0)
    with torch.inference_mode():
        given = [torch.randn(1, n, layer.in_features, generator=drawn) for n in n_rows]
        return all(gives_the_same(partial(layer, one), partial(other, one)) for one in given)
