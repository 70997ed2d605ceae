"""Token sequences merged into trees, so that a shared prefix is computed once.

To score four options of one question, or a hundred variants of one vignette, a language model
reads the same tokens again and again. Here the sequences of a batch are merged into tries, and each
trie is written depth-first into one *row*. A node sees exactly its ancestors, and its position is
its depth, so a row gives the same numbers as the plain sequences. In depth-first order the
descendants of node k are the nodes k+1 .. ends[k], so the mask is a comparison of two integers.

Everything here is pure: integers in, integers out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Target:
    """A token sequence whose tail is scored."""

    tokens: tuple[int, ...]
    """Prompt and continuation."""
    start: int
    """The first scored token; at least 1, since the first token has nothing before it."""

    @property
    def context(self) -> tuple[int, ...]:
        """The tokens to forward: all but the last, whose prediction is not needed."""
        return self.tokens[:-1]

    @property
    def scored(self) -> tuple[int, ...]:
        """The tokens whose log probabilities are needed."""
        return self.tokens[self.start :]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Several sequences merged into tries and flattened depth-first, `n` nodes."""

    tokens: list[int]
    """One token per node, `(n,)`."""
    depths: list[int]
    """The position of each node in its sequence, `(n,)`."""
    ends: list[int]
    """The last descendant of each node, or the node itself, `(n,)`."""
    nodes: list[list[int]]
    """For each target, the nodes that predict its scored tokens, in order."""


def shared_length(first: Sequence[Any], second: Sequence[Any]) -> int:
    """Return the length of the longest common prefix of two lists of tokens, or two texts.

    >>> shared_length([5, 6, 7], [5, 6, 8, 9])
    2
    >>> shared_length((5, 6), (7,)), shared_length((5, 6), (5, 6, 7)), shared_length((), (1,))
    (0, 2, 0)
    >>> shared_length("heart", "hearing")
    4
    """
    one, other = (first, second) if type(first) is type(second) else (tuple(first), tuple(second))
    most = min(len(one), len(other))
    if one[:most] == other[:most]:
        return most
    # Bisect, because comparing slices is much faster than comparing elements one by one.
    same, differs = 0, most
    while differs - same > 1:
        middle = (same + differs) // 2
        if one[same:middle] == other[same:middle]:
            same = middle
        else:
            differs = middle
    return same


def build_row(targets: Sequence[Target]) -> Row:
    """Merge the contexts of targets into one row.

    Args:
        targets: in any order; equal contexts share all their nodes.

    >>> row = build_row([Target((1, 2, 3, 9), 3), Target((1, 2, 4, 9), 2), Target((7, 8), 1)])
    >>> row.tokens, row.depths, row.ends
    ([1, 2, 3, 4, 7], [0, 1, 2, 2, 0], [3, 3, 2, 3, 4])
    >>> row.nodes
    [[2], [1, 3], [4]]
    """
    tokens: list[int] = []
    depths: list[int] = []
    ends: list[int] = []
    nodes: list[list[int]] = [[] for _ in targets]
    path: list[int] = []
    previous: tuple[int, ...] = ()
    # In lexicographic order sequences with a common prefix are neighbours, so this is depth-first.
    for index in sorted(range(len(targets)), key=lambda index: targets[index].context):
        context = targets[index].context
        del path[shared_length(previous, context) :]
        for depth in range(len(path), len(context)):
            path.append(len(tokens))
            tokens.append(context[depth])
            depths.append(depth)
            ends.append(0)
        for node in path:
            ends[node] = len(tokens) - 1
        nodes[index] = path[targets[index].start - 1 :]
        previous = context
    return Row(tokens=tokens, depths=depths, ends=ends, nodes=nodes)


def visible(rows: Sequence[Row]) -> npt.NDArray[np.bool_]:
    """Return which node sees which, `(n_rows, n_nodes, n_nodes)`: [row, q, k] is True if q sees k.

    Rows are padded on the right to the longest; a padding node sees only itself, because a
    softmax over nothing would be NaN.

    >>> visible([build_row([Target((1, 2, 9), 2), Target((1, 3, 9), 2)])]).astype(int).tolist()
    [[[1, 0, 0], [1, 1, 0], [1, 0, 1]]]
    """
    index = np.arange(max(len(row.tokens) for row in rows))
    ends = np.stack([np.concatenate([row.ends, index[len(row.ends) :]]) for row in rows])
    not_before = index[:, None] >= index[None, :]
    within: npt.NDArray[np.bool_] = index[None, :, None] <= ends[:, None, :]
    return not_before & within


def plan_rows(
    targets: Sequence[Target], *, full_attention: float, max_nodes: int, row_overhead: float = 8.0
) -> list[list[int]]:
    """Decide which targets share a row, at the least expected cost.

    A large row shares more prefixes, but its attention covers all pairs of nodes and so grows with
    the square. A row of n nodes costs row_overhead + n + n^2 / full_attention, in units of one
    token through the linear layers. Dynamic programming finds the cheapest cut of the targets in
    lexicographic order.

    Args:
        targets: the targets whose contexts are forwarded.
        full_attention: the row length at which attention costs as much as everything else.
        max_nodes: the longest row, except for a single target that is longer.
        row_overhead: cost of one more row, in tokens: padding, because rows differ in length.

    Returns:
        The indexes of the targets of each row.

    >>> plan_rows([Target((7, 8), 1), Target((1, 2, 3), 2), Target((1, 2, 4), 2)],
    ...           full_attention=1000.0, max_nodes=2, row_overhead=0.0)
    [[1, 2], [0]]
    """
    if not targets:
        return []
    order = sorted(range(len(targets)), key=lambda index: targets[index].context)
    contexts = [targets[index].context for index in order]
    lengths = np.array([len(context) for context in contexts])
    shared = [shared_length(a, b) for a, b in pairwise(contexts)]
    added = np.cumsum(lengths - np.array([0, *shared]))

    def cost(starts: Ints, stop: int) -> Floats:
        nodes = lengths[starts] + added[stop - 1] - added[starts]
        too_long = (nodes > max_nodes) & (starts < stop - 1)
        return np.where(too_long, np.inf, row_overhead + nodes + nodes * nodes / full_attention)

    return [order[start:stop] for start, stop in cheapest_cut(len(order), cost)]


def plan_batches(
    lengths: Sequence[int], *, overhead: float, max_tokens: int, max_waste: float = math.inf
) -> list[list[int]]:
    """Decide which rows are padded to one length and forwarded together.

    Args:
        lengths: nodes of each row, `(n_rows,)`.
        overhead: cost of one more forward pass, in tokens.
        max_tokens: the most tokens of a batch, padding included, except for a longer single row.
        max_waste: the most padding in total, per token of the rows; padding that costs less than
            one more forward pass is always allowed.

    Returns:
        The indexes of the rows of each batch, longest first.

    >>> plan_batches([10, 100, 9, 98], overhead=20.0, max_tokens=250)
    [[1, 3], [0, 2]]
    >>> plan_batches([100, 80, 60, 40], overhead=30.0, max_tokens=400)
    [[0, 1], [2, 3]]
    >>> plan_batches([100, 80, 60, 40], overhead=30.0, max_tokens=400, max_waste=0.04)
    [[0], [1], [2], [3]]
    """
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    longest = np.array([lengths[index] for index in order], dtype=np.int64)
    allowed = max(max_waste * sum(lengths), overhead)

    def cost(starts: Ints, stop: int) -> Floats:
        tokens = longest[starts] * (stop - starts)
        too_large = (tokens > max_tokens) & (starts < stop - 1)
        return np.where(too_large, np.inf, price + tokens)

    price = overhead
    while True:
        pieces = cheapest_cut(len(order), cost)
        forwarded = sum(int(longest[start]) * (stop - start) for start, stop in pieces)
        # A lower price gives more forward passes, until only rows of equal length share a batch.
        if forwarded - sum(lengths) <= allowed or price < 1e-3:
            return [order[start:stop] for start, stop in pieces]
        price /= 2


def cheapest_cut(n: int, cost: Callable[[Ints, int], Floats]) -> list[tuple[int, int]]:
    """Cut 0 .. n into consecutive pieces of least total cost.

    Args:
        n: the number of elements.
        cost: returns the costs of the pieces start .. stop for an array of starts and one stop.

    Returns:
        The pieces as (start, stop), in order.

    >>> cheapest_cut(4, lambda starts, stop: 1.0 + (stop - starts) ** 2.0)
    [(0, 1), (1, 2), (2, 3), (3, 4)]
    """
    least = np.zeros(n + 1)
    opened = [0] * (n + 1)
    for stop in range(1, n + 1):
        starts = np.arange(stop)
        total = least[:stop] + cost(starts, stop)
        opened[stop] = int(np.argmin(total))
        least[stop] = total[opened[stop]]
    pieces: list[tuple[int, int]] = []
    stop = n
    while stop:
        pieces.append((opened[stop], stop))
        stop = opened[stop]
    return pieces[::-1]
