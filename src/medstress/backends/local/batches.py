"""The one way in which local models read batches: rows of similar length, halved if memory ends."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
T = TypeVar("T")
R = TypeVar("R")

OVERHEAD = 64.0
"""The cost of one more forward pass, in tokens (2 cores, SmolLM2-135M)."""
MAX_TOKENS = {"cpu": 2048, "cuda": 32768}
"""Tokens of one forward pass, padding included, by type of device."""
_SIGNS = ("out of memory", "can't allocate memory", "not enough memory", "alloc_failed")


def in_batches(
    items: Sequence[T],
    lengths: Sequence[int],
    run: Callable[[Sequence[T]], list[R]],
    *,
    max_tokens: int,
    overhead: float = OVERHEAD,
    max_waste: float = math.inf,
) -> list[R | None]:
    """Run items in batches of similar length.

    Args:
        items: in any order.
        lengths: tokens of each item.
        run: returns one result per item of a batch, in order.
        max_tokens: see `plan_batches`, as for `overhead` and `max_waste`.
        overhead: in tokens.
        max_waste: share of padding.

    Returns:
        One result per item, in order; None for an item that does not fit into memory even alone.
    """
    results: list[R | None] = [None] * len(items)
    for batch in plan_batches(
        lengths, overhead=overhead, max_tokens=max_tokens, max_waste=max_waste
    ):
        of_batch = in_halves([items[i] for i in batch], run)
        for place, result in zip(batch, of_batch, strict=True):
            results[place] = result
    return results


def in_halves(
    items: Sequence[T],
    run: Callable[[Sequence[T]], list[R]],
    forget: Callable[[], bool] = lambda: False,
) -> list[R | None]:
    """Run all items at once, or in ever smaller parts if memory does not suffice.

    Args:
        items: the items of one batch.
        run: returns one result per item, in order.
        forget: frees caches and returns whether there was anything to free; if so, the same items
            are tried once more.

    Returns:
        One result per item, in order; None for an item that does not fit even alone.

    >>> def run(items):
    ...     if len(items) > 2 or "huge" in items:
    ...         raise MemoryError
    ...     return [item.upper() for item in items]
    >>> in_halves(["a", "b", "c", "huge"], run)
    ['A', 'B', 'C', None]
    """
    try:
        return list(run(items))
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
    # Outside the handler, because the exception's frames hold tensors that must go first.
    forgotten = forget()
    release_memory()
    if forgotten:
        return in_halves(items, run, forget)
    if len(items) <= 1:
        return [None] * len(items)
    middle = len(items) // 2
    return in_halves(items[:middle], run, forget) + in_halves(items[middle:], run, forget)


def is_out_of_memory(error: Exception) -> bool:
    """Return whether an error means lack of memory."""
    # torch.OutOfMemoryError is a RuntimeError that says "CUDA out of memory"; on the CPU torch
    # raises a bare RuntimeError.
    if not isinstance(error, RuntimeError):
        return isinstance(error, MemoryError)
    return any(sign in str(error).lower() for sign in _SIGNS)


def release_memory() -> None:
    """Free the memory that torch caches on the device."""
    import sys

    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()


def padded(sequences: Sequence[Sequence[int]], device: Any, fill: int = 0) -> tuple[Any, Any]:
    """Pad on the right; return tokens and mask, tensors `(n_sequences, longest)`."""
    import torch

    longest = max(map(len, sequences))
    tokens = [[*sequence, *([fill] * (longest - len(sequence)))] for sequence in sequences]
    mask = [[1] * len(one) + [0] * (longest - len(one)) for one in sequences]
    return torch.tensor(tokens, device=device), torch.tensor(mask, device=device)


def plan_batches(
    lengths: Sequence[int], *, overhead: float, max_tokens: int, max_waste: float = math.inf
) -> list[list[int]]:
    """Decide which rows are padded to one length and forwarded together.

    Args:
        lengths: tokens of each row, `(n_rows,)`.
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
