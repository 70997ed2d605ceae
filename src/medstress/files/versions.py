"""The versions of medstress, Python and the libraries that numbers depend on."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

from medstress.version import __version__

LIBRARIES = (
    "numpy",
    "scipy",
    "polars",
    "pydantic",
    "jinja2",
    "torch",
    "transformers",
)


def versions() -> dict[str, str]:
    """Return the versions of medstress, Python, the system and the main libraries."""
    found = {
        "medstress": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
    }
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
