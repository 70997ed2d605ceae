"""Halves work that runs out of memory and tries again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

_SIGNS = ("out of memory", "can't allocate memory", "not enough memory", "alloc_failed")


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
