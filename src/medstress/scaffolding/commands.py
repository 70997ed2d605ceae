"""The commands that install a new plug-in where medstress is, and test it."""

from __future__ import annotations

import shlex
import shutil
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

SETUPTOOLS = (70, 1)
"""The first that builds wheels by itself."""


def commands_for(folder: Path) -> tuple[str, str]:
    """Return the commands that install the package in a folder and run its tests.

    They name the Python that medstress runs in: another one's pip would install the plug-in where
    medstress does not find it. Where what builds and tests it is there, nothing is downloaded.
    """
    python, place = shlex.quote(_python()), shlex.quote(str(folder))
    flags = "--no-build-isolation --no-deps " if _is_complete() else ""
    what = place if flags else shlex.quote(f"{folder}[test]")
    return (
        f"{python} -m pip install {flags}--editable {what}",
        f"{python} -m pytest {place}",
    )


def _python() -> str:
    """Return how to type the Python that runs now."""
    running = Path(sys.executable)
    found = shutil.which("python")
    # Not resolved: the link of an environment leads to the Python that it was made from.
    if found is not None and Path(found).parent == running.parent:
        return "python"
    return str(running.relative_to(Path.cwd()) if running.is_relative_to(Path.cwd()) else running)


def _is_complete() -> bool:
    """Return whether setuptools and pytest are installed, recent enough for the package."""
    try:
        major, minor = version("setuptools").split(".")[:2]
    except PackageNotFoundError:
        return False
    return (int(major), int(minor)) >= SETUPTOOLS and find_spec("pytest") is not None
