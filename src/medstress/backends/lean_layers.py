"""Layers of a transformers model with fewer passes over memory, for inference on a CPU.

Beside its matrix products a decoder spends a sixth of its time on norms, rotations and gates, which
transformers writes as a new tensor an operation. Here each is written with as few as torch allows.
What a layer is, is found out by its parts, and whether that was right by comparing numbers: a layer
whose own forward gives others stays as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_ROTATION = "apply_rotary_pos_emb"
"""What modules of transformers call the function that turns queries and keys."""
_N_TRIED = 3
"""Tokens of the comparison."""
_TOLERANCE = 1e-5
"""Of numbers of about 1, in float32."""


class LeanLayers:
    """Finds the layers of a model that can be replaced, once; replaces them for a while.

    Args:
        model: of transformers. On a CUDA device or in another format than float32 nothing is
            replaced: there are fused kernels for the first, and rounding of the second is the
            layer's own matter.
    """

    def __init__(self, model: Any) -> None:
        import torch

        self._forwards: list[tuple[Any, Callable[..., Any]]] = []
        self._rotations: list[tuple[Any, Callable[..., Any], Callable[..., Any]]] = []
        if model.device.type != "cpu" or model.dtype != torch.float32:
            return
        with torch.inference_mode():
            for module in model.modules():
                lean = _lean_norm(module) or _lean_gate(module)
                if lean is not None and _gives_the_same(module, lean):
                    self._forwards.append((module, lean))
            for name in sorted({type(module).__module__ for module in model.modules()}):
                source: Any = sys.modules.get(name)
                own = getattr(source, _ROTATION, None)
                if own is not None and _turns_the_same(own, rotation := _lean_rotation(own)):
                    self._rotations.append((source, own, rotation))

    def __len__(self) -> int:
        return len(self._forwards) + len(self._rotations)

    @contextmanager
    def used(self) -> Iterator[None]:
        """Let the model use the lean layers, where nobody else has replaced a forward."""
        replaced = [(one, lean) for one, lean in self._forwards if "forward" not in vars(one)]
        for module, lean in replaced:
            module.forward = lean
        for source, _, lean in self._rotations:
            setattr(source, _ROTATION, lean)
        try:
            yield
        finally:
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
        return (states * mean_square.rsqrt_()).mul_(weight)

    return forward


def _lean_gate(module: Any) -> Callable[[Any], Any] | None:
    """A feed-forward part with a gate: down(silu(gate(x)) up(x))."""
    from torch.nn.functional import silu

    if not all(hasattr(module, name) for name in ("gate_proj", "up_proj", "down_proj", "act_fn")):
        return None

    def forward(states: Any) -> Any:
        gate = silu(module.gate_proj(states), inplace=True)
        return module.down_proj(gate.mul_(module.up_proj(states)))

    return forward


def _lean_rotation(own: Callable[..., Any]) -> Callable[..., Any]:
    """Rotary positions: of each head, turn the pairs of its first and its second half.

    Args:
        own: does the same, and what is not done here: heads of which only a part is turned.

    Returns:
        A function of queries `(n, n_heads, n_tokens, head_size)`, keys
        `(n, n_kv_heads, n_tokens, head_size)`, and the cosines and sines of the angles of each
        place, `(n, n_tokens, head_size)`; it gives queries and keys, turned.
    """
    import torch

    def rotated(queries: Any, keys: Any, cos: Any, sin: Any, *others: Any, **named: Any) -> Any:
        size = queries.shape[-1]
        if others or named or not size == keys.shape[-1] == cos.shape[-1] == sin.shape[-1]:
            return own(queries, keys, cos, sin, *others, **named)
        first, second = sin.split(size // 2, -1)
        signed, cos = torch.cat([-first, second], -1).unsqueeze(2), cos.unsqueeze(2)
        # Token by token, as queries and keys are made and lie in memory.
        return tuple(
            states.roll(size // 2, -1).mul_(signed).addcmul_(states, cos).transpose(1, 2)
            for states in (queries.transpose(1, 2), keys.transpose(1, 2))
        )

    return rotated


def _gives_the_same(module: Any, lean: Callable[[Any], Any]) -> bool:
    """Compare on a few random tokens of the size that the module reads."""
    import torch

    size = len(module.weight) if hasattr(module, "weight") else module.gate_proj.in_features
    states = torch.randn(1, _N_TRIED, size, generator=torch.Generator().manual_seed(0))
    return _same(lambda: module(states), lambda: lean(states))


def _turns_the_same(own: Callable[..., Any], lean: Callable[..., Any]) -> bool:
    """Compare with angles of which no two are alike."""
    import torch

    drawn = torch.Generator().manual_seed(0)
    queries, keys = (torch.randn(1, n, _N_TRIED, 8, generator=drawn) for n in (4, 2))
    cos, sin = (torch.randn(1, _N_TRIED, 8, generator=drawn) for _ in range(2))
    given = (queries, keys, cos, sin)
    return _same(lambda: torch.cat(own(*given), 1), lambda: torch.cat(lean(*given), 1))


def _same(own: Callable[[], Any], lean: Callable[[], Any]) -> bool:
    """Whether both give the same numbers; what cannot be compared is not the same."""
    try:
        expected, found = own(), lean()
        return bool(
            expected.shape == found.shape
            and ((expected - found).abs() <= _TOLERANCE * (1 + expected.abs())).all()
        )
    except (RuntimeError, TypeError, ValueError, AttributeError, IndexError):
        return False
