"""Weights of linear layers, packed in the order in which a matrix product reads them.

Every product first reorders the weights. With many rows that time does not matter; with the rows of
one short prompt it is a good part of the whole. So packed copies are kept: with MKL for products of
few rows, with oneDNN for all products. The copies are for inference only and do not follow later
changes of a layer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from medstress.machine.equal_outputs import products_match
from medstress.machine.onednn_linear import is_plain, onednn_linear, product

log = logging.getLogger(__name__)

MOST_BYTES = 2_000_000_000
"""Main memory for packed weights, which are as large as the plain ones; larger models are not
packed."""

_FEW_ROWS = 512
"""Above this, packed weights made MKL no faster (2 cores, SmolLM2-135M)."""
_NARROW = 64
"""Layers with fewer inputs or outputs are not packed, because their copies would be larger."""
_COMPARED_ROWS = (1, 7, 100, _FEW_ROWS + 1)


def packed_forwards(model: Any) -> list[tuple[Any, Callable[[Any], Any]]]:
    """Pack the weights of the linear layers of a model.

    Returns:
        Float32 layers on a CPU with their new forward functions. Empty if the weights are too
        large, torch has no MKL, memory does not suffice for copies, or the numbers differ.
    """
    import torch

    if not torch.backends.mkl.is_available() or not hasattr(torch.ops.mkl, "_mkl_linear"):
        return []
    layers = [one for one in model.modules() if is_plain(one) and min(one.weight.shape) >= _NARROW]
    if sum(one.weight.nbytes for one in layers) > MOST_BYTES:
        return []
    forwards, compared = [], set()
    try:
        for layer in layers:
            forward = _packed(layer)
            kind = (*layer.weight.shape, layer.bias is None)
            if kind not in compared and not products_match(layer, forward, _COMPARED_ROWS):
                return []
            compared.add(kind)
            forwards.append((layer, forward))
    except (RuntimeError, MemoryError) as error:
        log.debug("weights are not packed", exc_info=error)
        return []
    return forwards


def _packed(layer: Any) -> Callable[[Any], Any]:
    """Return a layer's forward that uses packed weights for few rows."""
    import torch

    own, weight, bias = layer.forward, layer.weight, layer.bias
    if type(layer) is onednn_linear():
        blocked = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), _FEW_ROWS)
        return lambda states: product(states, blocked, bias)
    # MKL packs for one number of rows; the result is right for others too, and is compared.
    reordered = torch.ops.mkl._mkl_reorder_linear_weight(weight.detach(), _FEW_ROWS)

    def forward(states: Any) -> Any:
        n_rows = states.numel() // states.shape[-1]
        if not 0 < n_rows <= _FEW_ROWS:
            return own(states)
        return torch.ops.mkl._mkl_linear(states, reordered, weight, bias, n_rows)

    return forward
