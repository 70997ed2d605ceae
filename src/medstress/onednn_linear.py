"""Linear layers that multiply with oneDNN where torch's own choice, MKL, is slow.

MKL has its fastest code for Intel's processors. On an AMD EPYC with AVX-512 a language model read
1.6 to 2 times as fast in float32 with oneDNN, which torch brings as well (benchmarks/layers.py).
"""

from __future__ import annotations

import platform
from functools import cache, partial
from pathlib import Path
from typing import Any

from medstress.same_numbers import multiplies_the_same

_WORTH = 2**20
"""Multiplications of a product below which oneDNN was not always faster there."""
_COMPARED_ROWS = (1, 7, 100)


def use_onednn(model: Any) -> None:
    """Let the linear layers of a model multiply with oneDNN, without gradients, from now on.

    Only on processors of AMD. The class of the layers is another one then; weights and what is
    saved stay the same, and so do the numbers, which are compared, up to rounding.

    Args:
        model: a `torch.nn.Module`. Only its layers of float32 on a CPU are changed.
    """
    import torch

    has_both = torch.backends.mkl.is_available() and torch.backends.mkldnn.enabled
    if not (has_both and _mkl_is_slow() and hasattr(torch.ops.mkldnn, "_linear_pointwise")):
        return
    same: dict[tuple[Any, ...], bool] = {}
    for layer in model.modules():
        if not is_plain(layer):
            continue
        shape = (*layer.weight.shape, layer.bias is None)
        if shape not in same:
            other = partial(product, weight=layer.weight, bias=layer.bias)
            same[shape] = multiplies_the_same(layer, other, _COMPARED_ROWS)
        if same[shape]:
            layer.__class__ = onednn_linear()


def is_plain(layer: Any) -> bool:
    """Whether a layer is linear and of float32 on a CPU, and nobody has replaced its forward.

    Weights that accelerate keeps elsewhere until they are needed are on the device `meta`, and
    quantised ones are tensors of their own kind.
    """
    import torch

    return (
        type(layer) in (torch.nn.Linear, onednn_linear())
        and "forward" not in vars(layer)
        and type(layer.weight) is torch.nn.Parameter
        and (layer.weight.device.type, layer.weight.dtype) == ("cpu", torch.float32)
    )


@cache
def onednn_linear() -> Any:
    """The class of such layers, made once torch is needed: it belongs to an extra."""
    import torch

    class OnednnLinear(torch.nn.Linear):  # type: ignore[misc]  # torch is not followed by mypy
        """A linear layer for inference on the CPU; elsewhere it computes as ever."""

        def forward(self, states: Any) -> Any:
            weight = self.weight
            here = states.is_cpu and states.dtype == weight.dtype == torch.float32
            rounded = torch.is_autocast_enabled("cpu")  # which does not know this product
            worth = states.numel() * self.out_features >= _WORTH
            if here and worth and not rounded and not torch.is_grad_enabled():
                return product(states, weight, self.bias)
            return super().forward(states)

    return OnednnLinear


def product(states: Any, weight: Any, bias: Any) -> Any:
    """Multiply `(..., n_in)` with a weight `(n_out, n_in)`, plain or reordered, and add a bias."""
    import torch

    return torch.ops.mkldnn._linear_pointwise(states, weight, bias, "none", [], "")


@cache
def _mkl_is_slow() -> bool:
    """Whether MKL lacks its fastest code here: on AMD's processors, of which one was measured."""
    try:
        told = Path("/proc/cpuinfo").read_text("utf-8")
    except OSError:
        told = platform.processor()  # Windows names the vendor there
    return "AuthenticAMD" in told
