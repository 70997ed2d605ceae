"""Weights of linear layers in the order in which a product of matrices reads them.

A product with many rows brings the weights into that order itself, which takes no time to speak
of beside the product; with the rows of one short prompt it takes a good part of all. So the
weights are kept in that order as well, with MKL for products of few rows, with oneDNN for all. They
are copies, for inference: what is changed in a layer afterwards they do not know.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from medstress.onednn_linear import is_plain, onednn_linear, product
from medstress.same_numbers import products_match

log = logging.getLogger(__name__)

MOST_BYTES = 2_000_000_000
"""Main memory for packed weights, which are as large as the plain ones; a model that needs more
has none."""

_FEW_ROWS = 512
"""With more of them MKL was no faster with packed weights (2 cores, SmolLM2-135M)."""
_NARROW = 64
"""Layers of fewer inputs or outputs are not packed: copies of these are larger."""
_COMPARED_ROWS = (1, 7, 100, _FEW_ROWS + 1)


def packed_forwards(model: Any) -> list[tuple[Any, Callable[[Any], Any]]]:
    """Pack the weights of the linear layers of a model.

    Returns:
        Layers of float32 on a CPU, and what to compute instead of their forward. An empty list
        where the weights are too large, where torch is built without MKL, where there is no memory
        for copies, or where the numbers are others.
    """
    import torch

    if not torch.backends.mkl.is_available() or not hasattr(torch.ops.mkl, "_mkl_linear"):
        return []
    layers = [one for one in model.modules() if is_plain(one) and min(one.weight.shape) >= _NARROW]
    if sum(one.weight.nbytes for one in layers) > MOST_BYTES:
        return []
    found, compared = [], set()
    try:
        for layer in layers:
            forward = _packed(layer)
            kind = (*layer.weight.shape, layer.bias is None)
            if kind not in compared and not products_match(layer, forward, _COMPARED_ROWS):
                return []
            compared.add(kind)
            found.append((layer, forward))
    except (RuntimeError, MemoryError) as error:
        log.debug("weights are not packed", exc_info=error)
        return []
    return found


def _packed(layer: Any) -> Callable[[Any], Any]:
    """What a layer computes, with packed weights where there are few rows."""
    import torch

    own, weight, bias = layer.forward, layer.weight, layer.bias
    if type(layer) is onednn_linear():
        blocked = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), _FEW_ROWS)
        return lambda states: product(states, blocked, bias)
    # MKL is told a number of rows; what it makes is right for others too, which is compared.
    reordered = torch.ops.mkl._mkl_reorder_linear_weight(weight.detach(), _FEW_ROWS)

    def forward(states: Any) -> Any:
        n_rows = states.numel() // states.shape[-1]
        if not 0 < n_rows <= _FEW_ROWS:
            return own(states)
        return torch.ops.mkl._mkl_linear(states, reordered, weight, bias, n_rows)

    return forward
