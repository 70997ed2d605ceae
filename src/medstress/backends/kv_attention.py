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
from dataclasses import dataclass, field, replace
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
    """Parts of about one size, stacked: their attention is one product."""

    parts: Sequence[Part]
    """One or more."""
    n_past: int
    """Tokens of the longest past; keys of a shorter one are followed by zeros."""
    rows: Any
    """Nodes of each part in the row, `(n_parts, n_new)`, padded with the row's first node."""
    filled: Any
    """Which of `rows` are no padding, `(n_parts, n_new)`."""
    nodes: Any
    """The nodes of `rows` that are filled, in their order."""
    mask: Any
    """Additive, `(n_parts * n_kv_heads, 1, n_new, n_past + n_new)`."""

    def to(self, device: Any) -> Cell:
        """Return the cell with its tensors on a device."""
        moved = {name: getattr(self, name).to(device) for name in _TENSORS}
        return replace(self, **moved)


_TENSORS = ("rows", "filled", "nodes", "mask")


@dataclass(slots=True)
class Packing:
    """How one row is to be attended to, and what its layers made."""

    cells: Sequence[Cell]
    """Every part is in one of them."""
    nodes_per_block: int
    """How many nodes of a part attend at once: no node sees a later one, so that the keys after
    a block, up to half of all, are left out."""
    made: list[tuple[Any, Any]] = field(default_factory=list)
    """New keys and values of each layer so far, `(n_kv_heads, n_nodes, head_size)`."""
    moved: dict[Any, Sequence[Cell]] = field(default_factory=dict)
    """The cells by device: layers of one model may be on several."""

    def on(self, device: Any) -> Sequence[Cell]:
        """Return the cells on the device of a layer."""
        if device not in self.moved:
            self.moved[device] = [cell.to(device) for cell in self.cells]
        return self.moved[device]


_current: ContextVar[Packing] = ContextVar("packing")


def pack(
    parts: Sequence[Part], *, waste: float, nodes_per_block: int, model: Any, device: Any
) -> Packing:
    """Plan the attention of one row.

    Args:
        parts: in the order of the row.
        waste: how much padding a cell may have, per product of a node and a key.
        nodes_per_block: fewer make more but smaller products, less of them masked.
        model: whose heads and number format count.
        device: where the first layer is.
    """
    starts = np.cumsum([0, *(len(part.row.tokens) for part in parts)])
    cells = [
        _cell(
            [parts[place] for place in chosen],
            [int(starts[place]) for place in chosen],
            model,
            device,
        )
        for chosen in stacks(parts, waste)
    ]
    return Packing(cells, nodes_per_block)


def stacks(parts: Sequence[Part], waste: float) -> list[list[int]]:
    """Group parts of similar size, so that stacking them adds little padding.

    Args:
        parts: any.
        waste: the most padding of a group, per product of a node and a key that it needs.

    Returns:
        The places of the parts of each group.
    """
    sizes = [(len(part.row.tokens), part.past) for part in parts]
    groups: list[list[int]] = []
    for place in sorted(range(len(parts)), key=lambda place: sizes[place], reverse=True):
        joined = [*groups[-1], place] if groups else [place]
        n_new, n_past = (max(sizes[one][i] for one in joined) for i in (0, 1))
        needed = sum(new * (new + past) for new, past in (sizes[one] for one in joined))
        if groups and len(joined) * n_new * (n_new + n_past) <= (1 + waste) * needed:
            groups[-1] = joined
        else:
            groups.append([place])
    return groups


def _cell(parts: Sequence[Part], starts: Sequence[int], model: Any, device: Any) -> Cell:
    import torch

    n_new = max(len(part.row.tokens) for part in parts)
    n_past = max(part.past for part in parts)
    rows = np.zeros((len(parts), n_new), dtype=np.int64)
    filled = np.zeros(rows.shape, dtype=np.bool_)
    seen = np.zeros((*rows.shape, n_past + n_new), dtype=np.bool_)
    for number, (part, start) in enumerate(zip(parts, starts, strict=True)):
        size = len(part.row.tokens)
        rows[number, :size] = np.arange(start, start + size)
        filled[number, :size] = True
        seen[number, :size, : part.past] = True
        seen[number, :size, n_past : n_past + size] = visible([part.row])[0]
    config = model.config.get_text_config()
    n_kv_heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    mask = torch.zeros(seen.shape, dtype=model.dtype, device=device)
    # A finite value: padding sees nothing, and a softmax over nothing would be NaN.
    mask.masked_fill_(torch.from_numpy(~seen).to(device), torch.finfo(model.dtype).min)
    return Cell(
        parts=parts,
        n_past=n_past,
        rows=torch.from_numpy(rows),
        filled=torch.from_numpy(filled),
        nodes=torch.from_numpy(rows[filled]),
        mask=mask.repeat_interleave(n_kv_heads, dim=0)[:, None],
    )


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
    for cell in packing.on(query.device):
        n_parts, n_new = cell.rows.shape
        asked = queries[:, :, cell.rows].permute(2, 0, 1, 3, 4).flatten(0, 1)
        keys = _stacked(cell, [one.kept and one.kept.layers[layer][0] for one in cell.parts], key)
        values = _stacked(
            cell, [one.kept and one.kept.layers[layer][1] for one in cell.parts], value
        )
        found = asked.new_empty(*asked.shape[:3], value.shape[3])
        for first in range(0, n_new, packing.nodes_per_block):
            last = min(first + packing.nodes_per_block, n_new)
            n_seen = cell.n_past + last
            found[:, :, first:last] = torch.nn.functional.scaled_dot_product_attention(
                asked[:, :, first:last],
                keys[:, :, :n_seen].expand(-1, asked.shape[1], -1, -1),
                values[:, :, :n_seen].expand(-1, asked.shape[1], -1, -1),
                attn_mask=cell.mask[:, :, first:last, :n_seen],
                scale=scaling,
            )
        by_node = found.unflatten(0, (n_parts, n_kv_heads)).permute(0, 3, 1, 2, 4)
        out[0, cell.nodes] = by_node.flatten(2, 3)[cell.filled]
    return out, None


def _stacked(cell: Cell, kept: Sequence[Any], new: Any) -> Any:
    """Pasts, zeros to the longest past, and new tokens, `(n_parts * n_kv_heads, 1, n, size)`."""
    n_parts, n_new = cell.rows.shape
    n_heads, size = new.shape[1], new.shape[3]
    whole = new.new_zeros(n_parts, n_heads, cell.n_past + n_new, size)
    for number, (part, past) in enumerate(zip(cell.parts, kept, strict=True)):
        if past is not None:
            whole[number, :, : part.past] = past[:, : part.past]
    whole[:, :, cell.n_past :] = new[0][:, cell.rows].transpose(0, 1)
    return whole.flatten(0, 1)[:, None]
