"""Where medstress keeps converted models and vectors on this machine."""

from __future__ import annotations

import os
from pathlib import Path


def cache_dir(part: str) -> Path:
    """Return (and make) a folder of the user's cache, e.g. ``models`` or ``vectors``.

    The environment variable MEDSTRESS_CACHE moves it.
    """
    root = os.environ.get("MEDSTRESS_CACHE")
    if root:
        base = Path(root)
    else:
        from platformdirs import user_cache_path

        base = user_cache_path("medstress")
    folder = base / part
    folder.mkdir(parents=True, exist_ok=True)
    return folder
