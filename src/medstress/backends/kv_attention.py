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
import numpy.typing as npt

from medstress.backends.kv_store import KvStore, Rows
from medstress.backends.token_tree import Row, visible

_NAME = "medstress_packed"
_IN_PIECES = 192
"""Queries from which on torch's attention on a CPU works in pieces of 64; of fewer, in pieces of
32, from which two threads may gain next to nothing. There plain products are no slower."""
_UNKNOWN = ("softcap", "s_aux", "head_mask", "position_bias", "alibi")
"""What some architectures hand to their attention and is not done here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """New tokens as a tree, on top of the beginning of a kept sequence."""

    row: Row
    """The new nodes; depths count from the end of the past."""
    past: Rows
    """Rows of the kept tokens that come first, `(n_past,)`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Parts of about one size, stacked: their attention is one product."""

    n: int
    """Parts."""
    n_new: int
    """Nodes of the largest part; smaller ones are padded."""
    n_past: int
    """Tokens of the longest past; padding is masked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Which rows attention gathers, and what it hides; tensors."""

    asked: Any
    """The queries of all cells, one after the other, in rows of one head of keys:
    `n * n_kv_heads * n_new` of each."""
    seen: Any
    """Their keys and values, kept ones first, in rows of all heads: `n * (n_past + n_new)` of
    each. Rows of one head would be more and shorter, and slower to gather."""
    answered: Any
    """Of each node and head, where among the results its own is, `(n_nodes * n_kv_heads,)`."""
    masks: tuple[Any, ...]
    """Of each cell what to add to its products, `(n, 1, n_new, n_past + n_new)`."""

    def to(self, device: Any, n_per_key: int) -> Places:
        """Return the same on a device, with a mask's line for each head that shares keys."""
        return Places(
            asked=self.asked.to(device),
            seen=self.seen.to(device),
            answered=self.answered.to(device),
            masks=tuple(mask.repeat_interleave(n_per_key, dim=2).to(device) for mask in self.masks),
        )


@dataclass(slots=True)
class Packing:
    """How one row is to be attended to, and how far its layers are."""

    cells: Sequence[Cell]
    """Every part is in one of them."""
    places: Places
    """Where everything is."""
    nodes_per_block: int
    """How many nodes of a part attend at once: no node sees a later one, so that the keys after
    a block, up to half of all, are left out."""
    store: KvStore
    """Has the kept keys and values, and is given the new ones."""
    n_kv_heads: int
    """Of every layer."""
    n_layers: int = 0
    """Layers that attended so far."""
    moved: dict[tuple[Any, int], Places] = field(default_factory=dict)
    """The places by device, for layers of one model may be on several, and heads a key."""

    def on(self, device: Any, n_per_key: int) -> Places:
        """Return the places for a layer: on its device, with so many heads for each of keys."""
        layer = (device, n_per_key)
        if layer not in self.moved:
            self.moved[layer] = self.places.to(device, n_per_key)
        return self.moved[layer]


_current: ContextVar[Packing] = ContextVar("packing")


def pack(
    parts: Sequence[Part], store: KvStore, *, waste: float, nodes_per_block: int, model: Any
) -> Packing:
    """Plan the attention of one row.

    Args:
        parts: in the order of the row.
        store: has the rows of their pasts.
        waste: how much padding a cell may have, per product of a node and a key.
        nodes_per_block: fewer make more but smaller products, less of them masked.
        model: whose heads and number format count.
    """
    import torch

    config = model.config.get_text_config()
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    starts = np.cumsum([0, *(len(part.row.tokens) for part in parts)])
    cells: list[Cell] = []
    asked, seen, masks = [], [], []
    for chosen in stacks(parts, waste):
        of_cell = [parts[place] for place in chosen]
        nodes = [np.arange(starts[place], starts[place + 1]) for place in chosen]
        queries, keys, hidden = _stacked(of_cell, nodes, store.n_rows)
        cells.append(
            Cell(
                n=len(chosen),
                n_new=queries.shape[1],
                n_past=keys.shape[1] - queries.shape[1],
            )
        )
        asked.append(_by_head(queries, heads))
        seen.append(keys.reshape(-1))
        mask = torch.zeros(hidden.shape, dtype=model.dtype)
        # A finite value: padding sees nothing, and a softmax over nothing would be NaN.
        mask.masked_fill_(torch.from_numpy(hidden), torch.finfo(model.dtype).min)
        masks.append(mask[:, None])
    places = Places(
        asked=torch.from_numpy(np.concatenate(asked).clip(min=0)),
        seen=torch.from_numpy(np.concatenate(seen)),
        answered=torch.from_numpy(_inverse(np.concatenate(asked), int(starts[-1]) * heads)),
        masks=tuple(masks),
    )
    return Packing(cells, places, nodes_per_block, store, heads)


def stacks(parts: Sequence[Part], waste: float) -> list[list[int]]:
    """Group parts of similar size, so that stacking them adds little padding.

    Args:
        parts: any.
        waste: the most padding of a group, per product of a node and a key that it needs.

    Returns:
        The places of the parts of each group.
    """
    sizes = [(len(part.row.tokens), len(part.past)) for part in parts]
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


def _stacked(
    parts: Sequence[Part], nodes: Sequence[Rows], first: int
) -> tuple[Rows, Rows, npt.NDArray[np.bool_]]:
    """Stack parts of similar size.

    Args:
        parts: `n_parts` of them.
        nodes: their places in the row.
        first: row of the store in which the first node of the batch is.

    Returns:
        The nodes that ask, `(n_parts, n_new)`, padded with -1; the rows of keys and values,
        `(n_parts, n_past + n_new)`; and which of these are hidden from which of those.
    """
    n_new = max(map(len, nodes))
    n_past = max(len(part.past) for part in parts)
    asked = np.full((len(parts), n_new), -1, dtype=np.int64)
    # Padding looks at the first row of the batch, which is always written: what lies in a kept row
    # that is not in use may be NaN, which a weight of 0 does not hide.
    seen = np.full((len(parts), n_past + n_new), first, dtype=np.int64)
    hidden = np.ones((*asked.shape, n_past + n_new), dtype=np.bool_)
    for number, (part, own) in enumerate(zip(parts, nodes, strict=True)):
        old, new = len(part.past), len(own)
        asked[number, :new] = own
        seen[number, :old] = part.past
        seen[number, n_past : n_past + new] = first + own
        hidden[number, :new, :old] = False
        hidden[number, :new, n_past : n_past + new] = ~visible([part.row])[0]
    return asked, seen, hidden


def _by_head(places: Rows, n_heads: int) -> Rows:
    """Places of tokens as places of their heads, by part, head and token; -1 stays below 0.

    >>> _by_head(np.array([[0, 3, -1]]), 2).tolist()
    [0, 6, -2, 1, 7, -1]
    """
    found: Rows = places[:, None, :] * n_heads + np.arange(n_heads)[None, :, None]
    return found.reshape(-1)


def _inverse(places: Rows, n: int) -> Rows:
    """Where each of 0 .. n-1 is among the places.

    >>> _inverse(np.array([2, 0, -1, 1]), 3).tolist()
    [1, 3, 0]
    """
    found = np.zeros(n, dtype=np.int64)
    found[places[places >= 0]] = np.flatnonzero(places >= 0)
    return found


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
    n_heads, n_nodes = query.shape[1:3]
    n_kv_heads, n_keys = key.shape[1:3]
    if n_keys != n_nodes:
        raise TypeError("this architecture's attention has keys of its own")
    if n_kv_heads != packing.n_kv_heads:
        # Checked here: on CUDA a place that does not exist breaks all that comes after it.
        raise TypeError("this architecture's layers have other numbers of heads")
    keys, values = packing.store.write(
        packing.n_layers, key[0].transpose(0, 1), value[0].transpose(0, 1)
    )
    packing.n_layers += 1
    n_per_key = n_heads // n_kv_heads
    places = packing.on(query.device, n_per_key)
    queries = query[0].transpose(0, 1).reshape(n_nodes * n_kv_heads, -1)
    # Everything is gathered at once, and each cell has its share: few large steps.
    asked = queries.index_select(0, places.asked)
    asked = asked.split([cell.n * n_kv_heads * cell.n_new for cell in packing.cells])
    sizes = [cell.n * (cell.n_past + cell.n_new) for cell in packing.cells]
    keys, values = (one.index_select(0, places.seen).split(sizes) for one in (keys, values))
    found = [
        _products(cell, (n_kv_heads, n_per_key), packing.nodes_per_block, *tensors, scaling=scaling)
        for cell, tensors in zip(
            packing.cells, zip(asked, keys, values, places.masks, strict=True), strict=True
        )
    ]
    out = torch.cat(found).index_select(0, places.answered)
    return out.view(1, n_nodes, n_heads, -1), None


def _products(
    cell: Cell,
    heads: tuple[int, int],
    nodes_per_block: int,
    asked: Any,
    keys: Any,
    values: Any,
    mask: Any,
    *,
    scaling: float | None,
) -> Any:
    """The attention of a cell, `(n * n_kv_heads * n_new, n_per_key * value_size)`.

    Heads that share keys are lines of one product: fewer and larger ones.

    Args:
        cell: with `n`, `n_new` and `n_past`.
        heads: `n_kv_heads` and `n_per_key`.
        nodes_per_block: nodes that attend at once.
        asked: queries, `(n * n_kv_heads * n_new, n_per_key * head_size)`.
        keys: `(n * (n_past + n_new), n_kv_heads, head_size)`.
        values: the same of `value_size`.
        mask: `(n, 1, n_new * n_per_key, n_past + n_new)`.
        scaling: of the products; None for 1 / sqrt(head_size).
    """
    import torch

    n_kv_heads, n_per_key = heads
    lines = asked.view(cell.n, n_kv_heads, cell.n_new * n_per_key, -1)
    keys, values = (one.unflatten(0, (cell.n, -1)).transpose(1, 2) for one in (keys, values))
    found = []
    for first in range(0, cell.n_new, nodes_per_block):
        last = min(first + nodes_per_block, cell.n_new)
        block, n_seen = slice(first * n_per_key, last * n_per_key), cell.n_past + last
        found.append(
            _attention(
                lines[:, :, block],
                keys[:, :, :n_seen],
                values[:, :, :n_seen],
                mask[:, :, block, :n_seen],
                scaling,
            )
        )
    whole = found[0] if len(found) == 1 else torch.cat(found, dim=2)
    return whole.reshape(cell.n * n_kv_heads * cell.n_new, -1)


def _attention(lines: Any, keys: Any, values: Any, mask: Any, scaling: float | None) -> Any:
    """Attention of a block, `(n, n_kv_heads, n_lines, value_size)`.

    Args:
        lines: queries, `(n, n_kv_heads, n_lines, head_size)`.
        keys: `(n, n_kv_heads, n_seen, head_size)`.
        values: the same of `value_size`.
        mask: `(n, 1, n_lines, n_seen)`.
        scaling: of the products; None for 1 / sqrt(head_size).
    """
    import torch

    n, n_heads, n_lines, size = lines.shape
    plain = lines.device.type == "cpu" and lines.dtype == torch.float32
    if not plain or n_lines >= _IN_PIECES:
        return torch.nn.functional.scaled_dot_product_attention(
            lines, keys, values, attn_mask=mask, scale=scaling
        )
    products = torch.bmm(
        lines.reshape(n * n_heads, n_lines, size), keys.mT.reshape(n * n_heads, size, -1)
    ).view(n, n_heads, n_lines, -1)
    products.mul_(size**-0.5 if scaling is None else scaling).add_(mask)
    weights = products.softmax(-1).view(n * n_heads, n_lines, -1)
    found = torch.bmm(weights, values.reshape(n * n_heads, -1, values.shape[-1]))
    return found.view(n, n_heads, n_lines, -1)
