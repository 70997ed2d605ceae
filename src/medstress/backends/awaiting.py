"""Coroutines of the user's, run to completion from code that does not wait."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any


class Awaiter:
    """One event loop, kept, so that clients a coroutine opens stay usable at the next batch.

    It has a thread of its own: where medstress is called from a notebook, another loop is running.
    """

    def __init__(self) -> None:
        self._runner: asyncio.Runner | None = None
        self._thread: ThreadPoolExecutor | None = None

    def settle(self, value: Any) -> Any:
        """Await a value if it has to be, and then the members of a list that have to be.

        Members are awaited together; one that raises is replaced by its exception.
        """
        if inspect.isawaitable(value):
            value = self._run(_awaited(value))
        if _has_awaitables(value):
            value = self._run(_gathered(value))
        return value

    def close(self) -> None:
        """End the loop and its thread, if they were needed."""
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
    except Exception:  # noqa: BLE001 - a list of the user's class, refused by whoever reads it
        return False


async def _awaited(value: Awaitable[Any]) -> Any:
    return await value


async def _gathered(values: Sequence[Any]) -> list[Any]:
    places = [i for i, value in enumerate(values) if inspect.isawaitable(value)]
    found = await asyncio.gather(*(values[i] for i in places), return_exceptions=True)
    done = list(values)
    for place, value in zip(places, found, strict=True):
        if isinstance(value, asyncio.CancelledError | KeyboardInterrupt | SystemExit):
            raise value
        done[place] = value
    return done
