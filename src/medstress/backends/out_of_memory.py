"""Work that runs out of memory is halved and tried again."""

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
    """Run all items at once, or in ever smaller parts where memory does not suffice.

    Args:
        items: of one batch.
        run: gives one result an item, in order.
        forget: drops what is kept for later and says whether there was anything; after it did,
            the same items are tried once more.

    Returns:
        One result an item, in order; None for an item that does not fit even alone.

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
    # Outside the handler: the exception's frames hold the tensors that have to go first.
    forgotten = forget()
    release_memory()
    if forgotten:
        return in_halves(items, run, forget)
    if len(items) <= 1:
        return [None] * len(items)
    middle = len(items) // 2
    return in_halves(items[:middle], run, forget) + in_halves(items[middle:], run, forget)


def is_out_of_memory(error: Exception) -> bool:
    """Tell lack of memory from other errors."""
    # torch.OutOfMemoryError is a RuntimeError that says "CUDA out of memory"; on the CPU torch
    # raises a bare RuntimeError.
    if not isinstance(error, RuntimeError):
        return isinstance(error, MemoryError)
    return any(sign in str(error).lower() for sign in _SIGNS)


def release_memory() -> None:
    """Give back what torch keeps for later on the device."""
    import sys

    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()
