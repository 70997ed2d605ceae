"""Turn code that calls a function into a generator that yields the function's arguments."""

from __future__ import annotations

from collections.abc import Callable, Generator
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

Q = TypeVar("Q")
A = TypeVar("A")
R = TypeVar("R")


class _Abandoned(BaseException):
    """Ends the code's thread once its generator is closed."""


def in_turns(work: Callable[[Callable[[Q], A]], R]) -> Generator[Q, A, R]:
    """Run code that asks, as a generator that yields its questions and is sent the answers.

    The code runs in a thread of its own, but never at the same time as the generator's caller. So
    code that only knows how to call a model can wait until a scheduler has the answers of many.

    Args:
        work: the code; it gets the function to ask with.

    Yields:
        Each question; expects its answer.

    Returns:
        The result of the code.

    Raises:
        Exception: whatever the code raises.
    """
    said: SimpleQueue[tuple[str, Any]] = SimpleQueue()
    heard: SimpleQueue[tuple[bool, Any]] = SimpleQueue()

    def ask(question: Q) -> A:
        said.put(("asks", question))
        goes_on, answer = heard.get()
        if not goes_on:
            raise _Abandoned
        given: A = answer
        return given

    def run() -> None:
        try:
            said.put(("returns", work(ask)))
        except _Abandoned:
            pass
        except BaseException as error:  # noqa: BLE001 - raised again by the generator
            said.put(("raises", error))

    Thread(target=run, name="medstress-explain", daemon=True).start()
    waits = False
    try:
        while True:
            kind, value = said.get()
            if kind == "returns":
                result: R = value
                return result
            if kind == "raises":
                raise value
            waits = True
            answer = yield value
            waits = False
            heard.put((True, answer))
    finally:
        if waits:
            heard.put((False, None))
