"""What is installed of the packages that medstress and its extras need, and what completes it.

`pip install 'medstress[EXTRA]'` completes an installed medstress without fetching it again: pip
goes through what is installed and adds what is missing or too old.

Imports nothing at the top that has to be installed: it works where a package of the base is broken.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, requires, version
from typing import TYPE_CHECKING

from medstress.core.errors import UsageError, install_command, missing_extra, reason
from medstress.version import __version__

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_PACKAGE = "medstress"
LIBRARIES = ("numpy", "scipy", "polars", "pydantic", "jinja2", "torch", "transformers")
BASE = ""
"""Names what medstress needs without any extra."""
FAULTS = (ImportError, OSError, SyntaxError, AttributeError, NameError, TypeError, ValueError)
"""What importing a damaged package, or one without its compiled part, raises."""


@contextmanager
def importing(what: str, extra: str) -> Iterator[None]:
    """Import packages of an extra inside the block; where that fails, say what mends it.

    Args:
        what: the part of medstress that needs them, such as `the transformers back end`.
        extra: the extra that brings them.

    Raises:
        UsageError: nothing of the extra is installed, or only a part.
    """
    try:
        yield
    except FAULTS as error:
        raise import_fault(what, extra, error) from error


def import_fault(what: str, extra: str, error: Exception) -> UsageError:
    """Return the error for a package of an extra that could not be imported."""
    lacking, needed = lacking_of(extra), requirements(extra)
    if len(lacking) == len(needed):  # also where medstress is a folder of sources
        return missing_extra(what, extra)
    return _in_part(f"{what}: the extra `{extra}` is", extra, lacking or [reason(error)])


def not_there(what: str, extra: str, *modules: str) -> UsageError:
    """Return the error for modules of an extra of which one was not found."""
    return import_fault(what, extra, ModuleNotFoundError(f"no module {' or '.join(modules)}"))


def base_fault(error: BaseException) -> UsageError | None:
    """Return an error with the command that mends it if a package of the base lacks.

    None for any other error, and for modules that no dependency of medstress is to bring.
    """
    if not isinstance(error, ImportError):
        return None
    try:
        lacking = lacking_of(BASE)
    except ImportError:
        lacking = ["packaging is missing"]
    return _in_part(f"{_PACKAGE} is", BASE, lacking) if lacking else None


def half_installed(error: BaseException) -> UsageError | None:
    """Return the error for what no command can do without; None if medstress itself is wrong."""
    if fault := base_fault(error):
        return fault
    if isinstance(error, ModuleNotFoundError) and not (error.name or "").startswith(_PACKAGE):
        return _in_part(f"{_PACKAGE} is", BASE, [str(error)])
    return None


def requirements(extra: str = BASE) -> dict[str, Requirement]:
    """Return what an extra brings here, by name, extras that it names included.

    Empty if medstress runs from a folder without being installed.
    """
    from packaging.requirements import Requirement

    try:
        declared = [Requirement(line) for line in requires(_PACKAGE) or ()]
    except PackageNotFoundError:
        return {}
    return {one.name: one for one in _of(extra, declared)}


def lacking_of(extra: str = BASE) -> list[str]:
    """Return what of an extra is missing or too old, in words such as `torch is missing`."""
    lacking = []
    for name, needed in requirements(extra).items():
        try:
            number = version(name)
        except PackageNotFoundError:
            lacking.append(f"{name} is missing")
            continue
        if not needed.specifier.contains(number, prereleases=True):
            lacking.append(f"{name} is {number}, {_PACKAGE} needs {needed.specifier}")
    return lacking


def _of(extra: str, declared: list[Requirement]) -> Iterator[Requirement]:
    for one in declared:
        if not _holds(one, extra) or (extra != BASE and _holds(one, BASE)):
            continue  # what the base brings is not the extra's own
        if one.name == _PACKAGE:
            for named in sorted(one.extras):
                yield from _of(named, declared)
        else:
            yield one


def _holds(one: Requirement, extra: str) -> bool:
    return one.marker is None or one.marker.evaluate({"extra": extra})


def _in_part(who: str, extra: str, lacking: list[str]) -> UsageError:
    command = install_command(extra)
    return UsageError(
        f"{who} installed only in part ({', '.join(lacking)}); complete it with: {command}"
    ).with_command(command)


def versions() -> dict[str, str]:
    """Return the versions of medstress, Python, the system and the libraries that numbers need."""
    own = {
        "medstress": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
    }
    for name in LIBRARIES:
        with suppress(PackageNotFoundError):
            own[name] = version(name)
    return own
