"""Faster layers of a transformers model for inference on a CPU, with fewer passes over memory.

Besides its matrix products a small decoder spends an eighth of its time on norms, rotations and
gates, where transformers allocates a new tensor for each operation. The versions here need as few
tensors as torch allows, and linear layers use packed weights. A layer is recognised by its parts.
It is replaced only if its replacement gives the same numbers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from medstress.backends.shared_prefix.packed_weights import packed_forwards
from medstress.machine.equal_outputs import outputs_match

_ROTATION = "apply_rotary_pos_emb"
"""The name in transformers of the function that rotates queries and keys."""
_SCALES = (1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1000.0)
"""Scales of the compared inputs: some layers clip, or add terms visible only at some scales."""

_in_use: ContextVar[bool] = ContextVar("lean_layers_in_use", default=False)
"""Rotations are functions of a module, so models in other threads call them as well."""


class LeanLayers:
    """Finds the replaceable layers of a model once, and replaces them inside `used`.

    Args:
        model: a transformers model. Only float32 layers on a CPU are replaced: CUDA has its own
            fused kernels, and other formats round at points that each layer defines.
    """

    def __init__(self, model: Any) -> None:
        import torch

        self._forwards: list[tuple[Any, Callable[..., Any]]] = []
        self._model = model
        self._packed: list[tuple[Any, Callable[..., Any]]] | None = None
        self._rotations: list[tuple[Any, Callable[..., Any], Callable[..., Any]]] = []
        if model.device.type != "cpu" or model.dtype != torch.float32:
            return
        agrees: dict[Any, bool] = {}
        with torch.inference_mode():
            for module in model.modules():
                lean = _lean_norm(module) or _lean_gate(module)
                if lean is None:
                    continue
                # One of each kind is enough, because a comparison reads all weights of a layer.
                kind = _kind(module)
                if kind not in agrees:
                    agrees[kind] = _layer_matches(module, lean)
                if agrees[kind]:
                    self._forwards.append((module, lean))
            for name in sorted({type(module).__module__ for module in model.modules()}):
                source: Any = sys.modules.get(name)
                function = getattr(source, _ROTATION, None)
                if function is not None:
                    own = getattr(function, "own", function)
                    if _rotation_matches(own, rotation := _lean_rotation(own)):
                        self._rotations.append((source, own, rotation))

    def __len__(self) -> int:
        return len(self._forwards) + len(self._rotations)

    def clear(self) -> bool:
        """Drop all replacements and packed weights; return whether there were any."""
        filled = self.unpack() | bool(len(self))  # not `or`, because both have to go
        self._forwards.clear()
        self._rotations.clear()
        return filled

    def pack(self) -> None:
        """Pack the weights of linear layers, once; `used` then uses them."""
        import torch

        if self._packed is None:
            with torch.inference_mode():
                self._packed = packed_forwards(self._model)

    def unpack(self) -> bool:
        """Free packed weights for good; return whether there were any."""
        filled, self._packed = bool(self._packed), []
        return filled

    @contextmanager
    def used(self) -> Iterator[None]:
        """Make the model use the lean layers, except where a forward is already replaced."""
        replaced = [
            (one, lean)
            for one, lean in (*self._forwards, *(self._packed or ()))
            if "forward" not in vars(one)
        ]
        token = _in_use.set(True)
        try:
            for module, lean in replaced:
                module.forward = lean
            for source, _, lean in self._rotations:
                setattr(source, _ROTATION, lean)
            yield
        finally:
            _in_use.reset(token)
            for module, _ in replaced:
                del module.forward
            for source, own, _ in self._rotations:
                setattr(source, _ROTATION, own)


def _lean_norm(module: Any) -> Callable[[Any], Any] | None:
    """Return a lean forward for RMSNorm, a norm by the root mean square; None for other modules."""
    import torch

    if not type(module).__name__.endswith("RMSNorm"):
        return None
    epsilon = getattr(module, "variance_epsilon", getattr(module, "eps", None))
    weight = getattr(module, "weight", None)
    if epsilon is None or weight is None or weight.dim() != 1:
        return None
    added = torch.tensor(epsilon)

    def forward(states: Any) -> Any:
        length = torch.linalg.vector_norm(states, dim=-1, keepdim=True)
        mean_square = torch.addcmul(added, length, length, value=1 / states.shape[-1])
        return (states * mean_square.rsqrt_()).mul_(module.weight)

    return forward


def _lean_gate(module: Any) -> Callable[[Any], Any] | None:
    """Return a lean forward for a gated feed-forward part, down(silu(gate(x)) up(x)), or None."""
    from torch.nn import Linear
    from torch.nn.functional import silu

    parts = (getattr(module, name, None) for name in ("gate_proj", "up_proj", "down_proj"))
    if not all(isinstance(part, Linear) for part in parts):
        return None
    if type(getattr(module, "act_fn", None)).__name__ not in ("SiLU", "SiLUActivation"):
        return None

    def forward(states: Any) -> Any:
        gate = silu(module.gate_proj(states), inplace=True)
        return module.down_proj(gate.mul_(module.up_proj(states)))

    return forward


def _lean_rotation(own: Callable[..., Any]) -> Callable[..., Any]:
    """Return a lean function for rotary positions, which rotate pairs from a head's two halves.

    Args:
        own: the original function; still called for what is not covered here, such as heads that
            are only partly rotated.

    Returns:
        A function of queries `(n, n_heads, n_tokens, head_size)`, keys
        `(n, n_kv_heads, n_tokens, head_size)`, and the cosines and sines of the angles at each
        place, `(n, n_tokens, head_size)`; it returns the rotated queries and keys.
    """
    import torch

    def rotated(*args: Any, **named: Any) -> Any:
        sizes = {one.shape[-1] for one in args if hasattr(one, "shape")}
        if not _in_use.get() or named or len(args) != 4 or len(sizes) != 1:
            return own(*args, **named)
        *states, cos, sin = args
        half = sizes.pop() // 2
        first, second = sin.split(half, -1)
        signed, cos = torch.cat([-first, second], -1).unsqueeze(2), cos.unsqueeze(2)
        # By token, the order of queries and keys in memory.
        by_token = [one.transpose(1, 2) for one in states]
        results = [one.roll(half, -1).mul_(signed).addcmul_(one, cos) for one in by_token]
        return tuple(one.transpose(1, 2) for one in results)

    rotated.own = own  # type: ignore[attr-defined]  # so that a second model finds the original
    return rotated


def _kind(module: Any) -> tuple[Any, ...]:
    """Return a key that is equal for modules that differ only in their weights."""
    plain = {name: one for name, one in vars(module).items() if isinstance(one, int | float | str)}
    return type(module), repr(module), *sorted(plain.items())


def _layer_matches(module: Any, lean: Callable[[Any], Any]) -> bool:
    """Compare a layer and its replacement on one random token of each scale."""
    import torch

    is_norm = hasattr(module, "weight")
    size = len(module.weight) if is_norm else module.gate_proj.in_features
    drawn = torch.Generator().manual_seed(0)
    states = torch.randn(1, len(_SCALES), size, generator=drawn) * torch.tensor(_SCALES)[:, None]
    return outputs_match(lambda: module(states), lambda: lean(states))


def _rotation_matches(own: Callable[..., Any], lean: Callable[..., Any]) -> bool:
    """Compare two rotations on random angles, all different."""
    import torch

    drawn = torch.Generator().manual_seed(0)
    queries, keys = (torch.randn(1, n, 3, 8, generator=drawn) for n in (4, 2))
    cos, sin = (torch.randn(1, 3, 8, generator=drawn) for _ in range(2))
    args = (queries, keys, cos, sin)
    token = _in_use.set(True)
    try:
        return outputs_match(lambda: torch.cat(own(*args), 1), lambda: torch.cat(lean(*args), 1))
    finally:
        _in_use.reset(token)
