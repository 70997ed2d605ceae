"""Open a run folder once, and read and build each of its parts once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

from medstress.kinds import Kind, kind_of_all
from medstress.store.odd_rows import interpreting
from medstress.store.reader import RunReader
from medstress.store.run_store import FILE

T = TypeVar("T")


class StoredRun(RunReader):
    """A snapshot of a run folder, open for reading.

    Its manifest and items are read once. Results that functions compute from a run, such as its
    rows and its summary, are computed once too: `once` keeps them while the run is open.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._made: dict[Callable[..., Any], Any] = {}

    def once(self, make: Callable[[StoredRun], T]) -> T:
        """Return a function's result for this run; the function is called only the first time."""
        if make not in self._made:
            self._made[make] = make(self)
        return cast("T", self._made[make])

    def items(self) -> dict[int, tuple[str, Any]]:
        """Return row -> (data set, item)."""
        return self.once(RunReader.items)


def stored_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a run folder; empty if the folder holds no run.

    Raises:
        StoreError: see `open_run`.
    """
    if not (folder / FILE).is_file():
        return {}
    with open_run(folder) as run:
        return run.manifest


def kind_of_run(run: StoredRun) -> Kind:
    """The kind of a run's items."""
    return kind_of_all(item for _, item in run.items().values())


@contextmanager
def open_run(folder: Path) -> Iterator[StoredRun]:
    """Open a run folder, and close it at the end.

    Raises:
        StoreError: there is no run in the folder, it is damaged, its rows were not written by
            medstress, or another process began to write to it meanwhile.
    """
    with interpreting(folder / FILE):
        run = StoredRun(folder)
        try:
            yield run
            run.check_unchanged()
        finally:
            run.close()
