"""The first request of a run goes alone: it may show that the server answers as another model."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TypeVar

from medstress.backends.server.errors import ServerTrouble, Then

T = TypeVar("T")


class FirstRequest:
    """Lets one request through, and the others once it is over and does not stop the run."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._is_over = False
        self._stopped: ServerTrouble | None = None

    def then(self, ask: Callable[[], T]) -> T:
        """Make a request when its turn comes.

        Raises:
            ServerTrouble: the request's own, or that of the first request if it stops the run.
        """
        if self._is_over:
            return ask()
        with self._lock:
            if self._stopped is not None:
                raise ServerTrouble(str(self._stopped), Then.STOP)
            if not self._is_over:
                try:
                    return ask()
                except ServerTrouble as trouble:
                    if trouble.then is Then.STOP:
                        self._stopped = trouble
                    raise
                finally:
                    self._is_over = self._stopped is None
        return ask()
