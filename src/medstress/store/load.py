"""A run folder as `medstress.audit` reads it; goes with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from medstress.kinds import Kind, kind_of_all
from medstress.store.opening import interpreting
from medstress.store.reader import RunReader
from medstress.store.reader import stored_manifest as stored_manifest
from medstress.store.run_store import FILE

T = TypeVar("T")


class StoredRun(RunReader):
    """A reader that keeps results that functions compute from the run."""

    def once(self, make: Callable[[StoredRun], T]) -> T:
        """Return a function's result for this run; the function is called only the first time."""
        made = self.__dict__.setdefault("made", {})
        if make not in made:
            made[make] = make(self)
        return cast("T", made[make])

    def items(self) -> dict[int, tuple[str, Any]]:
        """Return row -> (data set, item)."""
        return self.once(RunReader.items)


def kind_of_run(run: StoredRun) -> Kind:
    """The kind of a run's items."""
    return kind_of_all(item for _, item in run.items().values())


@contextmanager
def open_run(folder: Path, *, check: Literal["all", "form"] = "all") -> Iterator[StoredRun]:
    """Open a run folder, and close it at the end."""
    with interpreting(folder / FILE):
        run = StoredRun(folder, check=check)
        try:
            yield run
            run.check_unchanged()
        finally:
            run.close()
