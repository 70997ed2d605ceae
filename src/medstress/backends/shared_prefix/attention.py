"""Attention over several token trees in one row, each on top of a kept past.

Linear layers treat every token alone, so the new tokens of many prompts go through the model as one
row without padding. Only attention must tell sequences apart: a function that works through the row
*cell* by cell replaces it. A node sees the kept keys and values of its part and its ancestors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from medstress.backends.models.token_tree import Floats, Ints, Row, cheapest_cut, visible
from medstress.backends.shared_prefix.store import KvStore, Rows

_NAME = "medstress_packed"
_UNSUPPORTED = ("softcap", "s_aux", "head_mask", "position_bias", "alibi")
"""Arguments that some architectures pass to their attention and this one does not support."""

_KEYS_PER_LINE = 16
"""Four-byte numbers in a cache line of a CPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A tree of new tokens that continues the beginning of a kept sequence."""

    row: Row
    """The new nodes; depths count from the end of the past."""
    past: Rows
    """Rows of the kept tokens before them, `(n_past,)`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Some consecutive nodes of each part of a cell."""

    mask: Any
    """Added to the products, `(n_parts, 1, n_nodes, n_seen)`. Keys after the block, up to half of
    all, are left out, because no node sees a later one."""
    n_common: int
    """The number of leading keys that all its nodes see; their mask is zero."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """Stacked parts of similar size: the attention of one block of their nodes is one product."""

    n: int
    """Number of parts; smaller ones are padded to the nodes of the largest."""
    seen: Any
    """Rows of the keys and values, by part, head and node; for each head the kept ones, then those
    of the part's nodes, then padding."""
    blocks: tuple[Block, ...]
    """Blocks of its nodes, in order."""

    def to(self, device: Any, n_per_key: int) -> Stack:
        """Return a copy on a device, with one line of the mask for each head that shares keys."""
        blocks = [
            replace(one, mask=one.mask.repeat_interleave(n_per_key, dim=2).to(device))
            for one in self.blocks
        ]
        return replace(self, seen=self.seen.to(device), blocks=tuple(blocks))


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Index tensors that say where everything is."""

    rows: Any
    """Rows of the store that each node's keys and values are written to, `(n_nodes,)`."""
    cells: tuple[Stack, ...]
    """The cells; every part is in exactly one."""
    gather: Any
    """Index of the queries in attention order: by cell, block, part, head and node, with padding.
    One query row holds the heads that share a head of keys."""
    scatter: Any
    """Position in `gather` of each node and head, `(n_nodes * n_kv_heads,)`."""

    def to(self, device: Any, n_per_key: int) -> Places:
        """Return a copy on a device, with one line of the mask for each head that shares keys."""
        return Places(
            rows=self.rows.to(device),
            cells=tuple(cell.to(device, n_per_key) for cell in self.cells),
            gather=self.gather.to(device),
            scatter=self.scatter.to(device),
        )


@dataclass(slots=True)
class Packing:
    """The plan of attention for one row, and the number of layers done."""

    places: Places
    """Index tensors on the CPU."""
    store: KvStore
    """Holds the kept keys and values and takes the new ones."""
    n_kv_heads: int
    """Heads of keys and values in every layer."""
    n_layers: int = 0
    """Number of layers that have attended so far."""
    moved: dict[tuple[Any, int], Places] = field(default_factory=dict)
    """Copies of the places by device and heads per key; layers may be on several devices."""

    def on(self, device: Any, n_per_key: int) -> Places:
        """Return the places on a layer's device, for `n_per_key` query heads per head of keys."""
        layer = (device, n_per_key)
        if layer not in self.moved:
            self.moved[layer] = self.places.to(device, n_per_key)
        return self.moved[layer]


_current: ContextVar[Packing] = ContextVar("packing")


def pack(
    parts: Sequence[Part], store: KvStore, *, cell_overhead: float, nodes_per_block: int, model: Any
) -> Packing:
    """Plan the attention of one row.

    Args:
        parts: in the order of the row.
        store: holds the rows of their pasts.
        cell_overhead: the cost of one more cell, in multiplications.
        nodes_per_block: about how many nodes of a part attend at once; fewer make more but smaller
            products, with less masking.
        model: gives the number of heads and the number format.
    """
    import torch

    config = model.config.get_text_config()
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    starts = np.cumsum([0, *(len(part.row.tokens) for part in parts)])
    rows = store.begin(int(starts[-1]))
    cells: list[Stack] = []
    query_order: list[Rows] = []
    n_threads = torch.get_num_threads() if model.device.type == "cpu" else 1
    for chosen in stacks(parts, cell_overhead / config.hidden_size, heads / n_threads):
        of_cell = [parts[place] for place in chosen]
        nodes = [np.arange(starts[place], starts[place + 1]) for place in chosen]
        queries, keys, hidden = _stacked(of_cell, nodes, rows)
        mask = torch.zeros(hidden.shape, dtype=model.dtype)
        mask.masked_fill_(torch.from_numpy(hidden), torch.finfo(model.dtype).min)
        blocks = []
        for first, last in pairwise(_even_cuts(queries.shape[1], nodes_per_block)):
            query_order.append(_by_head(queries[:, first:last], heads))
            n_seen = _aligned(max(len(part.past) for part in of_cell) + last)
            masked = hidden[:, first:last, :n_seen].any((0, 1))
            blocks.append(
                Block(
                    mask=mask[:, None, first:last, :n_seen],
                    n_common=int(masked.argmax()) if masked.any() else masked.size,
                )
            )
        seen = torch.from_numpy(_by_head(keys, heads))
        cells.append(Stack(n=len(chosen), seen=seen, blocks=tuple(blocks)))
    lines = np.concatenate(query_order)
    places = Places(
        rows=torch.from_numpy(rows),
        cells=tuple(cells),
        gather=torch.from_numpy(lines.clip(min=0)),
        scatter=torch.from_numpy(_inverse(lines, int(starts[-1]) * heads)),
    )
    return Packing(places, store, heads)


def stacks(
    parts: Sequence[Part], cell_overhead: float, heads_per_thread: float = 1.0
) -> list[list[int]]:
    """Group parts of similar size at the least expected cost.

    Args:
        parts: any.
        cell_overhead: the cost of one more group, in products of a node and a key.
        heads_per_thread: heads of a part per thread. One thread works on one head, so three heads
            take two threads as long as four do.

    Returns:
        The indices of the parts in each group.
    """
    sizes = [(len(part.row.tokens), len(part.past)) for part in parts]
    order = sorted(range(len(parts)), key=lambda place: sizes[place], reverse=True)
    n_new, n_past = np.array([sizes[place] for place in order], dtype=np.int64).reshape(-1, 2).T

    def cost(starts: Ints, stop: int) -> Floats:
        longest = np.maximum.accumulate(n_past[:stop][::-1])[::-1][starts]
        rounds = np.ceil((stop - starts) * heads_per_thread) / heads_per_thread
        products = rounds * n_new[starts] * (longest + n_new[starts])
        return np.asarray(cell_overhead + products, dtype=np.float64)

    return [order[start:stop] for start, stop in cheapest_cut(len(order), cost)]


def _stacked(
    parts: Sequence[Part], nodes: Sequence[Rows], rows: Rows
) -> tuple[Rows, Rows, npt.NDArray[np.bool_]]:
    """Stack parts of similar size.

    Args:
        parts: `n_parts` of them.
        nodes: the places of their nodes in the batch.
        rows: the store's row of each node of the batch.

    Returns:
        The nodes with queries, `(n_parts, n_new)`, padded with -1; the rows of keys and values,
        `(n_parts, n_seen)`, kept ones first and padding last; and which keys are hidden from which
        queries, `(n_parts, n_new, n_seen)`.
    """
    n_new = max(map(len, nodes))
    n_seen = _aligned(max(len(part.past) + len(part.row.tokens) for part in parts))
    queries = np.full((len(parts), n_new), -1, dtype=np.int64)
    # Padding points to the first row of the batch, which is always written. An unused row may hold
    # NaN, which a weight of 0 does not hide.
    seen = np.full((len(parts), n_seen), rows[0], dtype=np.int64)
    # Nobody reads the results of padded queries, so they may see anything.
    hidden = np.zeros((*queries.shape, n_seen), dtype=np.bool_)
    for number, (part, own) in enumerate(zip(parts, nodes, strict=True)):
        old, new = len(part.past), len(own)
        queries[number, :new] = own
        seen[number, :old] = part.past
        seen[number, old : old + new] = rows[own]
        hidden[number, :new, old + new :] = True
        hidden[number, :new, old : old + new] = ~visible([part.row])[0]
    return queries, seen, hidden


def _even_cuts(n: int, size: int) -> list[int]:
    """Return where to cut 0 .. n into blocks of about equal size.

    >>> _even_cuts(68, 64), _even_cuts(150, 64)
    ([0, 68], [0, 75, 150])
    """
    blocks = max(round(n / size), 1)
    return [n * block // blocks for block in range(blocks + 1)]


def _aligned(n: int) -> int:
    """Round a number of keys up, so that the products of each query begin at a cache line.

    >>> _aligned(230), _aligned(240)
    (240, 240)
    """
    return -(-n // _KEYS_PER_LINE) * _KEYS_PER_LINE


def _by_head(places: Rows, n_heads: int) -> Rows:
    """Turn places of tokens into places of their heads, by part, head and token; -1 stays negative.

    >>> _by_head(np.array([[0, 3, -1]]), 2).tolist()
    [0, 6, -2, 1, 7, -1]
    """
    by_head: Rows = places[:, None, :] * n_heads + np.arange(n_heads)[None, :, None]
    return by_head.reshape(-1)


def _inverse(places: Rows, n: int) -> Rows:
    """Return the index of each of 0 .. n-1 in `places`.

    >>> _inverse(np.array([2, 0, -1, 1]), 3).tolist()
    [1, 3, 0]
    """
    inverse = np.zeros(n, dtype=np.int64)
    inverse[places[places >= 0]] = np.flatnonzero(places >= 0)
    return inverse


@contextmanager
def packed_attention(model: Any, packing: Packing) -> Iterator[None]:
    """Make a transformers model use packed attention with this packing."""
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
    """Attend within each cell; the signature is that of transformers' attention functions.

    Args:
        query: `(1, n_heads, n_nodes, head_size)`.
        key: `(1, n_kv_heads, n_nodes, head_size)`.
        value: `(1, n_kv_heads, n_nodes, value_size)`.
        scaling: factor of the products; None for 1 / sqrt(head_size).
        how: other arguments of an architecture.

    Returns:
        `(1, n_nodes, n_heads, value_size)`, and no attention weights.
    """
    if any(how.get(name) is not None for name in _UNSUPPORTED):
        raise TypeError("this architecture's attention has arguments that are not supported")
    packing = _current.get()
    n_heads, n_nodes = query.shape[1:3]
    n_kv_heads, n_keys = key.shape[1:3]
    if n_keys != n_nodes:
        raise TypeError("this architecture's attention adds keys of its own")
    if n_kv_heads != packing.n_kv_heads:
        # Checked here, because on CUDA an index out of range breaks all later work.
        raise TypeError("this architecture's layers differ in their number of heads")
    n_per_key = n_heads // n_kv_heads
    places = packing.on(query.device, n_per_key)
    keys, values = packing.store.write(
        packing.n_layers, places.rows, key[0].transpose(0, 1), value[0].transpose(0, 1)
    )
    packing.n_layers += 1
    keys, values = keys.flatten(0, 1), values.flatten(0, 1)
    queries = query[0].transpose(0, 1).reshape(n_nodes * n_kv_heads, -1)
    ordered = queries.index_select(0, places.gather)
    attended = ordered.new_empty(len(ordered), n_per_key * values.shape[-1])
    sizes = [
        cell.n * n_kv_heads * (block.mask.shape[2] // n_per_key)
        for cell in places.cells
        for block in cell.blocks
    ]
    rows = zip(ordered.split(sizes), attended.split(sizes), strict=True)
    for cell in places.cells:
        n_rows = cell.n * n_kv_heads
        cell_keys, cell_values = (
            one.index_select(0, cell.seen).view(n_rows, -1, one.shape[-1]) for one in (keys, values)
        )
        for block in cell.blocks:
            # Heads that share keys are lines of one product, so products are fewer and larger.
            lines, answers = (one.view(n_rows, block.mask.shape[2], -1) for one in next(rows))
            n_seen = block.mask.shape[3]
            seen = (cell_keys[:, :n_seen], cell_values[:, :n_seen])
            _attend_block(block, lines, *seen, scaling, answers)
    return attended.index_select(0, places.scatter).view(1, n_nodes, n_heads, -1), None


def _attend_block(
    block: Block, lines: Any, keys: Any, values: Any, scaling: float | None, out: Any
) -> None:
    """Write the attention of a block.

    Args:
        block: a block of `n` parts, with one line of the mask for each head that shares keys.
        lines: queries by node and head, `(n * n_kv_heads, n_lines, head_size)`.
        keys: `(n * n_kv_heads, n_seen, head_size)`.
        values: `(n * n_kv_heads, n_seen, value_size)`.
        scaling: factor of the products; None for 1 / sqrt(head_size).
        out: the output, `(n * n_kv_heads, n_lines, value_size)`.
    """
    import torch

    by_part = (len(block.mask), -1)
    if not _plain_products_are_faster(lines):
        parts = (one.unflatten(0, by_part) for one in (lines, keys, values))
        out.unflatten(0, by_part).copy_(
            torch.nn.functional.scaled_dot_product_attention(
                *parts, attn_mask=block.mask, scale=scaling
            )
        )
        return
    products = lines.new_empty(*lines.shape[:2], keys.shape[1]).baddbmm_(
        lines,
        keys.mT,
        beta=0,
        alpha=lines.shape[2] ** -0.5 if scaling is None else scaling,
    )
    masked = slice(block.n_common, None)
    products.unflatten(0, by_part)[..., masked].add_(block.mask[..., masked])
    # In place, while the products are still in the cache; softmax reads a line before writing it.
    torch.softmax(products, -1, out=products)
    torch.bmm(products, values, out=out)


def _plain_products_are_faster(lines: Any) -> bool:
    """Return whether plain matrix products beat torch's fused attention.

    On a CPU the fused one cuts fewer than 192 queries into pieces of 32, and two threads are then
    hardly faster than one. With more queries both take about as long. In bfloat16 plain products
    would round what the fused one keeps in float32.
    """
    import torch

    return bool(lines.device.type == "cpu" and lines.dtype == torch.float32)
