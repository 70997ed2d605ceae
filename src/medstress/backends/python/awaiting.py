"""Runs the user's coroutines from blocking code."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any


class Awaiter:
    """One event loop for all batches, so that clients opened by a coroutine stay usable.

    It runs in its own thread, because a notebook already runs a loop in the calling thread.
    """

    def __init__(self) -> None:
        self._runner: asyncio.Runner | None = None
        self._thread: ThreadPoolExecutor | None = None

    def settle(self, value: Any) -> Any:
        """Await a value if it is awaitable, then the awaitable members of a list.

        Members are awaited concurrently; one that raises is replaced by its exception.
        """
        if inspect.isawaitable(value):
            value = self._run(_awaited(value))
        if _has_awaitables(value):
            value = self._run(_gathered(value))
        return value

    def close(self) -> None:
        """Stop the loop and its thread if they were started."""
        if self._runner is not None and self._thread is not None:
            self._thread.submit(self._runner.close).result()
            self._thread.shutdown()
        self._runner = self._thread = None

    def _run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        if self._runner is None or self._thread is None:
            self._runner = asyncio.Runner()
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="medstress-coroutines")
        return self._thread.submit(self._runner.run, coroutine).result()


def _has_awaitables(value: Any) -> bool:
    try:
        return isinstance(value, list | tuple) and any(map(inspect.isawaitable, value))
    except Exception:  # noqa: BLE001 - a user's list class; the reader refuses it later
        return False


async def _awaited(value: Awaitable[Any]) -> Any:
    return await value


async def _gathered(values: Sequence[Any]) -> list[Any]:
    places = [i for i, value in enumerate(values) if inspect.isawaitable(value)]
    results = await asyncio.gather(*(values[i] for i in places), return_exceptions=True)
    settled = list(values)
    for place, value in zip(places, results, strict=True):
        if isinstance(value, asyncio.CancelledError | KeyboardInterrupt | SystemExit):
            raise value
        settled[place] = value
    return settled
