"""Attention over several token trees in one row, each on top of a kept past.

Linear layers do not care which sequence a token belongs to, so the new tokens of many prompts go
through the model as one row without any padding. Only attention has to know better: it is
replaced, while such a row is read, by one that works through the row *cell* by cell. A node of a
cell sees the kept keys and values of its own part and its ancestors in the tree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from medstress.backends.kv_store import Kept
from medstress.backends.token_tree import Row, visible

_NAME = "medstress_packed"
_UNKNOWN = ("softcap", "s_aux", "head_mask", "position_bias", "alibi")
"""What some architectures hand to their attention and is not done here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """New tokens as a tree, on top of the beginning of a kept sequence."""

    row: Row
    """The new nodes; depths count from the end of the past."""
    kept: Kept | None
    """Whose keys and values come first; None without a past."""
    past: int
    """How many of its tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Neighbouring parts whose attention is computed together."""

    parts: Sequence[Part]
    """In the order of the row."""
    start: int
    """First node of the row."""
    stop: int
    """One after its last node."""
    mask: Any
    """Additive, `(stop - start, tokens of all pasts + stop - start)`."""


@dataclass(slots=True)
class Packing:
    """How one row is to be attended to, and what its layers made."""

    cells: Sequence[Cell]
    """From left to right, without gaps."""
    made: list[tuple[Any, Any]] = field(default_factory=list)
    """New keys and values of each layer so far, `(n_kv_heads, n_nodes, head_size)`."""


_current: ContextVar[Packing] = ContextVar("packing")


def pack(parts: Sequence[Part], parts_per_cell: int, dtype: Any, device: Any) -> Packing:
    """Lay parts into one row.

    Args:
        parts: in the order of the row.
        parts_per_cell: more make fewer but larger products, most of them masked.
        dtype: the model's.
        device: where the masks go.
    """
    cells, start = [], 0
    for first in range(0, len(parts), parts_per_cell):
        chosen = parts[first : first + parts_per_cell]
        stop = start + sum(len(part.row.tokens) for part in chosen)
        mask = _mask(chosen, stop - start, dtype, device)
        cells.append(Cell(parts=chosen, start=start, stop=stop, mask=mask))
        start = stop
    return Packing(cells)


@contextmanager
def packed_attention(model: Any, packing: Packing) -> Iterator[None]:
    """Let a transformers model attend as `packing` says."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    ALL_ATTENTION_FUNCTIONS.register(_NAME, _attend)
    configs = {id(one.config): one.config for one in model.modules() if hasattr(one, "config")}
    before = [(config, config._attn_implementation) for config in configs.values()]
    token = _current.set(packing)
    try:
        for config in configs.values():
            config._attn_implementation = _NAME
        yield
    finally:
        for config, name in before:
            config._attn_implementation = name
        _current.reset(token)


def _mask(parts: Sequence[Part], n_nodes: int, dtype: Any, device: Any) -> Any:
    import torch

    n_past = sum(part.past for part in parts)
    seen = np.zeros((n_nodes, n_past + n_nodes), dtype=np.bool_)
    key = node = 0
    for part in parts:
        size = len(part.row.tokens)
        nodes = slice(node, node + size)
        seen[nodes, key : key + part.past] = True
        seen[nodes, n_past + node : n_past + node + size] = visible([part.row])[0]
        key, node = key + part.past, node + size
    mask = torch.zeros(seen.shape, dtype=dtype, device=device)
    hidden = torch.from_numpy(~seen).to(device)
    return mask.masked_fill_(hidden, torch.finfo(dtype).min)


def _attend(
    _module: Any,
    query: Any,
    key: Any,
    value: Any,
    _attention_mask: Any,
    scaling: float | None = None,
    **how: Any,
) -> tuple[Any, None]:
    """Attend within each cell; has the signature of transformers' attention functions.

    Args:
        query: `(1, n_heads, n_nodes, head_size)`.
        key: `(1, n_kv_heads, n_nodes, head_size)`.
        value: `(1, n_kv_heads, n_nodes, value_size)`.
        scaling: of the products; None for 1 / sqrt(head_size).
        how: other arguments of an architecture.

    Returns:
        `(1, n_nodes, n_heads, value_size)`, and no attention weights.
    """
    import torch

    if any(how.get(name) is not None for name in _UNKNOWN):
        raise TypeError("this architecture's attention has parts that cannot be packed")
    packing = _current.get()
    layer = len(packing.made)
    packing.made.append((key[0], value[0]))
    n_heads, n_nodes = query.shape[1:3]
    n_kv_heads, n_keys = key.shape[1:3]
    if n_keys != n_nodes:
        raise TypeError("this architecture's attention has keys of its own")
    out = query.new_empty(1, n_nodes, n_heads, value.shape[3])
    queries = query[0].unflatten(0, (n_kv_heads, n_heads // n_kv_heads))
    for cell in packing.cells:
        here = slice(cell.start, cell.stop)
        pasts = [(one.kept.layers[layer], one.past) for one in cell.parts if one.kept is not None]
        found = torch.nn.functional.scaled_dot_product_attention(
            queries[:, :, here],
            _joined([(pair[0], n) for pair, n in pasts], key[0, :, here], queries.shape[1]),
            _joined([(pair[1], n) for pair, n in pasts], value[0, :, here], queries.shape[1]),
            attn_mask=cell.mask,
            scale=scaling,
        )
        out[0, here] = found.flatten(0, 1).transpose(0, 1)
    return out, None


def _joined(pasts: Sequence[tuple[Any, int]], new: Any, n_groups: int) -> Any:
    """Pasts and new tokens in a row, the same for every query head of a group."""
    import torch

    if pasts:
        new = torch.cat([*(one[:, :n] for one, n in pasts), new], dim=1)
    return new[:, None].expand(-1, n_groups, -1, -1)
