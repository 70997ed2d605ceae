"""The cache folders for converted models and vectors."""

from __future__ import annotations

import os
from pathlib import Path

from medstress.files.writing import Access


def cache_dir(part: str) -> Path:
    """Return a folder of the user's cache, e.g. ``models`` or ``vectors``; make it if needed.

    The environment variable MEDSTRESS_CACHE moves the cache. New folders are private to their
    owner, because they may hold answers about patients' texts. An existing folder under
    MEDSTRESS_CACHE may be shared on purpose, so it keeps its mode.
    """
    root = os.environ.get("MEDSTRESS_CACHE")
    if root:
        base = Path(root)
    else:
        from platformdirs import user_cache_path

        base = user_cache_path("medstress")
    folder = base / part
    for place in (base, folder):
        place.mkdir(Access.OWNER.folder, parents=True, exist_ok=True)
        if not root and place.stat().st_mode & 0o077:
            place.chmod(Access.OWNER.folder)
    return folder
