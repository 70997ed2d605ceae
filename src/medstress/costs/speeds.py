"""A victim's speed in earlier runs, for dry runs, which ask nothing."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from medstress.experiment.plan.plan import Prepared
from medstress.store.earlier_answers import seconds_of_calls
from medstress.store.run_store import FILE
from medstress.store.shared_cache import FILE as CACHE_FILE
from medstress.store.shared_cache import SharedCache, cache_folder
from medstress.tasks.victim import Victim

_MOST_FOLDERS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """How fast a model answered."""

    calls_per_second: float
    """Speed with all workers busy."""
    n_calls: int
    """Number of calls measured."""
    source: str
    """Folder that stores these calls."""


def measured_speed(victim: Victim, prepared: Prepared, folder: Path | None) -> Speed | None:
    """Return the measured speed of a victim's model; None if it is unknown.

    The speed comes from the run folder, or else from its newest neighbour that asked the same
    model, or else from the shared cache. It is scaled to the victim's current number of workers.
    """
    model = victim.backend.identity.hash
    for each in run_folders(folder):
        n, seconds = seconds_of_calls(each, model)
        if n and seconds:
            rate = n / seconds * victim.backend.traits.workers
            return Speed(calls_per_second=rate, n_calls=n, source=str(each))
    given = prepared.experiment.experiment.cache
    place = None if given is None else cache_folder(given, prepared.base)
    if place is None or not (place / CACHE_FILE).is_file():
        return None
    with closing(SharedCache(place, create=False)) as cache:
        for entries in cache.models():
            if entries.model_hash == model and entries.seconds_per_call > 0:
                rate = victim.backend.traits.workers / entries.seconds_per_call
                return Speed(calls_per_second=rate, n_calls=entries.n, source=str(place))
    return None


def run_folders(folder: Path | None) -> list[Path]:
    """Return a run's folder and its neighbours that hold runs, the newest first."""
    if folder is None:
        return []
    beside = [path.parent for path in folder.parent.glob(f"*/{FILE}") if path.parent != folder]
    beside.sort(key=lambda path: (path / FILE).stat().st_mtime, reverse=True)
    return [folder, *beside[:_MOST_FOLDERS]]
