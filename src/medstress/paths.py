"""Where medstress keeps converted models and vectors on this machine."""

from __future__ import annotations

import os
from pathlib import Path

from medstress.writing import Access


def cache_dir(part: str) -> Path:
    """Return (and make) a folder of the user's cache, e.g. ``models`` or ``vectors``.

    The environment variable MEDSTRESS_CACHE moves it. What is made is its owner's alone, as it
    may hold answers to texts of patients; a folder under MEDSTRESS_CACHE that is there already
    may be shared on purpose and keeps its mode.
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
