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
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from medstress.backends.kv_store import KvStore, Rows
from medstress.backends.token_tree import Row, visible

_NAME = "medstress_packed"
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
    seen: Any
    """Rows of one head, their keys and values, by part, head and node; of each head as many kept
    ones as the longest past has, then those of the nodes; padding is masked."""
    masks: tuple[Any, ...]
    """Of each block of nodes what to add to its products, `(n, 1, n_nodes, n_seen)`: no node sees
    a later one, so that the keys after a block, up to half of all, are left out."""

    def to(self, device: Any, n_per_key: int) -> Cell:
        """Return the same on a device, with a mask's line for each head that shares keys."""
        masks = [mask.repeat_interleave(n_per_key, dim=2).to(device) for mask in self.masks]
        return replace(self, seen=self.seen.to(device), masks=tuple(masks))


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where everything is; tensors."""

    cells: tuple[Cell, ...]
    """Every part is in one of them."""
    asked: Any
    """Rows of the queries that share a head of keys: by cell, part, head and node, padding too."""
    answered: Any
    """Of each node and head, where among the asked ones its own is, `(n_nodes * n_kv_heads,)`."""

    def to(self, device: Any, n_per_key: int) -> Places:
        """Return the same on a device, with a mask's line for each head that shares keys."""
        return Places(
            cells=tuple(cell.to(device, n_per_key) for cell in self.cells),
            asked=self.asked.to(device),
            answered=self.answered.to(device),
        )


@dataclass(slots=True)
class Packing:
    """How one row is to be attended to, and how far its layers are."""

    places: Places
    """Where everything is."""
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
        nodes_per_block: nodes of a part that attend at once; fewer make more but smaller products,
            less of them masked.
        model: whose heads and number format count.
    """
    import torch

    config = model.config.get_text_config()
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    starts = np.cumsum([0, *(len(part.row.tokens) for part in parts)])
    cells, asked = [], []
    for chosen in stacks(parts, waste):
        of_cell = [parts[place] for place in chosen]
        nodes = [np.arange(starts[place], starts[place + 1]) for place in chosen]
        queries, keys, hidden = _stacked(of_cell, nodes, store.n_rows)
        asked.append(_by_head(queries, heads))
        mask = torch.zeros(hidden.shape, dtype=model.dtype)
        # A finite value: padding sees nothing, and a softmax over nothing would be NaN.
        mask.masked_fill_(torch.from_numpy(hidden), torch.finfo(model.dtype).min)
        n_new = queries.shape[1]
        n_past = keys.shape[1] - n_new
        blocks = pairwise([*range(0, n_new, nodes_per_block), n_new])
        cells.append(
            Cell(
                n=len(chosen),
                n_new=n_new,
                seen=torch.from_numpy(_by_head(keys, heads)),
                masks=tuple(mask[:, None, first:last, : n_past + last] for first, last in blocks),
            )
        )
    rows = np.concatenate(asked)
    places = Places(
        cells=tuple(cells),
        asked=torch.from_numpy(rows.clip(min=0)),
        answered=torch.from_numpy(_inverse(rows, int(starts[-1]) * heads)),
    )
    return Packing(places, store, heads)


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
    keys, values = keys.flatten(0, 1), values.flatten(0, 1)
    queries = query[0].transpose(0, 1).reshape(n_nodes * n_kv_heads, -1)
    asked = queries.index_select(0, places.asked)
    found = asked.new_empty(len(asked), n_per_key * values.shape[-1])
    sizes = [cell.n * n_kv_heads * cell.n_new for cell in places.cells]
    of_cells = zip(places.cells, asked.split(sizes), found.split(sizes), strict=True)
    for cell, lines, answers in of_cells:
        shape = (cell.n, n_kv_heads, cell.n_new * n_per_key, -1)
        _attend_cell(cell, lines.view(shape), answers.view(shape), keys, values, scaling)
    return found.index_select(0, places.answered).view(1, n_nodes, n_heads, -1), None


def _attend_cell(
    cell: Cell, lines: Any, found: Any, keys: Any, values: Any, scaling: float | None
) -> None:
    """Write the attention of a cell.

    Heads that share keys are lines of one product: fewer and larger ones.

    Args:
        cell: with the rows it sees.
        lines: queries by node and head, `(n, n_kv_heads, n_lines, head_size)`.
        found: where to write, `(n, n_kv_heads, n_lines, value_size)`.
        keys: rows of one head, `(n_rows, head_size)`.
        values: the same of `value_size`.
        scaling: of the products; None for 1 / sqrt(head_size).
    """
    keys, values = (
        rows.index_select(0, cell.seen).unflatten(0, (*lines.shape[:2], -1))
        for rows in (keys, values)
    )
    first = 0
    for mask in cell.masks:
        n_lines, n_seen = mask.shape[2:]
        block, first = slice(first, first + n_lines), first + n_lines
        found[:, :, block] = _attention(
            lines[:, :, block], keys[:, :, :n_seen], values[:, :, :n_seen], mask, scaling
        )


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

    if not _plain_products_are_faster(lines):
        return torch.nn.functional.scaled_dot_product_attention(
            lines, keys, values, attn_mask=mask, scale=scaling
        )
    n, n_kv_heads, n_lines, size = lines.shape
    products = mask.expand(-1, n_kv_heads, -1, -1).clone(memory_format=torch.contiguous_format)
    products = products.flatten(0, 1).baddbmm_(
        lines.flatten(0, 1),
        keys.flatten(0, 1).mT,
        alpha=size**-0.5 if scaling is None else scaling,
    )
    found = torch.bmm(products.softmax(-1), values.flatten(0, 1))
    return found.view(n, n_kv_heads, n_lines, -1)


def _plain_products_are_faster(lines: Any) -> bool:
    """Whether torch's own attention is the slower one.

    On a CPU it cuts fewer than 192 queries into pieces of 32, which two threads are hardly faster
    with than one; with more queries both take about as long. In bfloat16 plain products would
    round what it keeps in float32.
    """
    import torch

    return bool(lines.device.type == "cpu" and lines.dtype == torch.float32)
