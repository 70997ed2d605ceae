"""Layers of a transformers model with fewer passes over memory, for inference on a CPU.

Beside its matrix products a small decoder spends an eighth of its time on norms, rotations and
gates, which transformers writes as a new tensor an operation. Here each is written with as few as
torch allows, and linear layers take packed weights. What a layer is, is found out by its
parts, and whether that was right by comparing numbers: a layer whose own forward gives others
stays as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from medstress.backends.packed_weights import packed_forwards
from medstress.same_numbers import outputs_match

_ROTATION = "apply_rotary_pos_emb"
"""What modules of transformers call the function that turns queries and keys."""
_SCALES = (1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1000.0)
"""Sizes of the numbers of a comparison: some layers bound theirs, or add what only few show."""

_in_use: ContextVar[bool] = ContextVar("lean_layers_in_use", default=False)
"""Rotations are functions of a module, which models of other threads call as well."""


class LeanLayers:
    """Finds the layers of a model that can be replaced, once; replaces them for a while.

    Args:
        model: of transformers. Only layers of float32 on a CPU are replaced: CUDA has fused
            kernels of its own, and other formats are rounded where a layer says.
    """

    def __init__(self, model: Any) -> None:
        import torch

        self._forwards: list[tuple[Any, Callable[..., Any]]] = []
        self._model = model
        self._packed: list[tuple[Any, Callable[..., Any]]] | None = None
        self._rotations: list[tuple[Any, Callable[..., Any], Callable[..., Any]]] = []
        if model.device.type != "cpu" or model.dtype != torch.float32:
            return
        same: dict[Any, bool] = {}
        with torch.inference_mode():
            for module in model.modules():
                lean = _lean_norm(module) or _lean_gate(module)
                if lean is None:
                    continue
                # One of a kind is enough: comparing reads all weights of a layer.
                kind = _kind(module)
                if kind not in same:
                    same[kind] = _gives_the_same(module, lean)
                if same[kind]:
                    self._forwards.append((module, lean))
            for name in sorted({type(module).__module__ for module in model.modules()}):
                source: Any = sys.modules.get(name)
                found = getattr(source, _ROTATION, None)
                if found is not None:
                    own = getattr(found, "own", found)
                    if _turns_the_same(own, rotation := _lean_rotation(own)):
                        self._rotations.append((source, own, rotation))

    def __len__(self) -> int:
        return len(self._forwards) + len(self._rotations)

    def clear(self) -> bool:
        """Let the model use its own layers and weights only; says whether it used others."""
        filled = self.unpack() | bool(len(self))  # not `or`: both have to go
        self._forwards.clear()
        self._rotations.clear()
        return filled

    def pack(self) -> None:
        """Let linear layers take packed weights from now on; they are made once."""
        import torch

        if self._packed is None:
            with torch.inference_mode():
                self._packed = packed_forwards(self._model)

    def unpack(self) -> bool:
        """Give back the memory of packed weights, for good; says whether there were any."""
        filled, self._packed = bool(self._packed), []
        return filled

    @contextmanager
    def used(self) -> Iterator[None]:
        """Let the model use the lean layers, where nobody else has replaced a forward."""
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
    """A norm by the root of the mean square (RMSNorm)."""
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
    """A feed-forward part with a gate: down(silu(gate(x)) up(x))."""
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
    """Rotary positions: of each head, turn the pairs of its first and its second half.

    Args:
        own: does the same for all models, and what is not done here: heads of which only a part is
            turned.

    Returns:
        A function of queries `(n, n_heads, n_tokens, head_size)`, keys
        `(n, n_kv_heads, n_tokens, head_size)`, and the cosines and sines of the angles of each
        place, `(n, n_tokens, head_size)`; it gives queries and keys, turned.
    """
    import torch

    def rotated(*given: Any, **named: Any) -> Any:
        sizes = {one.shape[-1] for one in given if hasattr(one, "shape")}
        if not _in_use.get() or named or len(given) != 4 or len(sizes) != 1:
            return own(*given, **named)
        *states, cos, sin = given
        half = sizes.pop() // 2
        first, second = sin.split(half, -1)
        signed, cos = torch.cat([-first, second], -1).unsqueeze(2), cos.unsqueeze(2)
        # Token by token, as queries and keys are made and lie in memory.
        by_token = [one.transpose(1, 2) for one in states]
        turned = [one.roll(half, -1).mul_(signed).addcmul_(one, cos) for one in by_token]
        return tuple(one.transpose(1, 2) for one in turned)

    rotated.own = own  # type: ignore[attr-defined]  # to be found by whoever comes upon this one
    return rotated


def _kind(module: Any) -> tuple[Any, ...]:
    """Equal for modules that differ in their weights only."""
    plain = {name: one for name, one in vars(module).items() if isinstance(one, int | float | str)}
    return type(module), repr(module), *sorted(plain.items())


def _gives_the_same(module: Any, lean: Callable[[Any], Any]) -> bool:
    """Compare on a random token of each scale, of the size that the module reads."""
    import torch

    is_norm = hasattr(module, "weight")
    size = len(module.weight) if is_norm else module.gate_proj.in_features
    drawn = torch.Generator().manual_seed(0)
    states = torch.randn(1, len(_SCALES), size, generator=drawn) * torch.tensor(_SCALES)[:, None]
    return outputs_match(lambda: module(states), lambda: lean(states))


def _turns_the_same(own: Callable[..., Any], lean: Callable[..., Any]) -> bool:
    """Compare with angles of which no two are alike."""
    import torch

    drawn = torch.Generator().manual_seed(0)
    queries, keys = (torch.randn(1, n, 3, 8, generator=drawn) for n in (4, 2))
    cos, sin = (torch.randn(1, 3, 8, generator=drawn) for _ in range(2))
    given = (queries, keys, cos, sin)
    token = _in_use.set(True)
    try:
        return outputs_match(lambda: torch.cat(own(*given), 1), lambda: torch.cat(lean(*given), 1))
    finally:
        _in_use.reset(token)
