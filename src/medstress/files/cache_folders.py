"""The user's folders: the cache of converted models, vectors and answers, and the state of runs."""

from __future__ import annotations

import os
from pathlib import Path


def cache_dir(part: str) -> Path:
    """Return a folder of the user's cache, e.g. ``models`` or ``vectors``; make it if needed.

    The environment variable MEDSTRESS_CACHE moves the cache. New folders are private to their
    owner, because they may hold answers about patients' texts. An existing folder under
    MEDSTRESS_CACHE may be shared on purpose, so it keeps its mode.
    """
    root = os.environ.get("MEDSTRESS_CACHE")
    if root:
        return _made(Path(root), part, is_own=False)
    from platformdirs import user_cache_path

    return _made(user_cache_path("medstress"), part, is_own=True)


def state_dir(part: str) -> Path:
    """Return a folder of what this user's commands keep, private to its owner; make it if needed.

    The environment variable MEDSTRESS_STATE moves it.
    """
    root = os.environ.get("MEDSTRESS_STATE")
    if root:
        return _made(Path(root), part, is_own=True)
    from platformdirs import user_state_path

    own = user_state_path("medstress")
    # The specification of XDG_STATE_HOME: a relative path is ignored.
    base = own if own.is_absolute() else Path.home() / ".local" / "state" / "medstress"
    return _made(base, part, is_own=True)


def _made(base: Path, part: str, *, is_own: bool) -> Path:
    folder = base / part
    for place in (base, folder):
        place.mkdir(0o700, parents=True, exist_ok=True)
        if is_own and place.stat().st_mode & 0o077:
            place.chmod(0o700)
    return folder
