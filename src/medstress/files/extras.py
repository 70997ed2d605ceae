"""What is installed of the packages that medstress and its extras need, and what completes it.

`pip install 'medstress[EXTRA]'` completes an installed medstress without fetching it again: pip
goes through what is installed and adds what is missing or too old.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import (
    PackageNotFoundError,
    packages_distributions,
    requires,
    version,
)

from packaging.requirements import Requirement

from medstress.core.errors import UsageError, install_command, missing_extra, reason
from medstress.files.damaged import (
    FAULTS,
    absent_module,
    culprit,
    damaged,
    is_damaged,
    modules_that_failed,
    reinstall_command,
    top_module,
)

_PACKAGE = "medstress"
BASE = ""
"""Stands for what medstress needs without any extra."""


@contextmanager
def importing(what: str, extra: str) -> Iterator[None]:
    """Import packages of an extra inside the block; where that fails, say what mends it.

    Take from them what is used (`from openpyxl import load_workbook`): a package that was cut
    short by an interrupted install can be imported.

    Args:
        what: the part of medstress that needs them, such as `the transformers back end`.
        extra: the extra that brings them.

    Raises:
        UsageError: nothing of the extra is installed, or only a part, or a package is damaged.
    """
    try:
        yield
    except FAULTS as error:
        raise import_fault(what, extra, error) from error


def import_fault(what: str, extra: str, error: Exception) -> UsageError:
    """Return the error for a package of an extra that could not be imported."""
    if name := culprit(error):
        return damaged(f"{what}: the extra `{extra}` is", name)
    needed, lacking = requirements(extra), lacking_of(extra)
    absent = _absent(error)
    if absent and (len(lacking) == len(needed) or absent in map(_normal, needed)):
        return missing_extra(what, extra)
    return _half(f"{what}: the extra `{extra}` is", extra, lacking, error)


def not_there(what: str, extra: str, *modules: str) -> UsageError:
    """Return the error for modules of an extra of which one was not found.

    Its package is not installed, or its files are gone.
    """
    for module in modules:
        if name := culprit(ModuleNotFoundError(name=module)):
            return damaged(f"{what}: the extra `{extra}` is", name)
    return missing_extra(what, extra)


def base_fault(error: BaseException) -> UsageError | None:
    """Return an error with the command that mends it if a package of the base lacks, or is damaged.

    None for any other error, and for modules that no dependency of medstress is to bring.
    """
    if name := culprit(error):
        return damaged(f"{_PACKAGE} is", name)
    if not isinstance(error, ImportError) or not (lacking := lacking_of(BASE)):
        return None
    return _half(f"{_PACKAGE} is", BASE, lacking, error)


def requirements(extra: str = BASE) -> dict[str, Requirement]:
    """Return what an extra brings here, by name, extras that it names included.

    Empty if medstress runs from a folder without being installed.
    """
    try:
        declared = [Requirement(each) for each in requires(_PACKAGE) or ()]
    except PackageNotFoundError:
        return {}
    return {each.name: each for each in _of(extra, declared)}


def lacking_of(extra: str = BASE) -> list[str]:
    """Return what of an extra is missing or too old, in words such as `torch is missing`."""
    return [told for each in requirements(extra).values() if (told := _lack(each)) is not None]


def damaged_of(extra: str = BASE) -> list[str]:
    """Return the packages of an extra that are installed and damaged, under pip's names."""
    return [name for name in requirements(extra) if is_damaged(name)]


def _of(extra: str, declared: list[Requirement]) -> Iterator[Requirement]:
    for each in declared:
        if not _holds(each, extra) or (extra != BASE and _holds(each, BASE)):
            continue  # what the base brings is not the extra's own
        if each.name == _PACKAGE:
            for named in sorted(each.extras):
                yield from _of(named, declared)
        else:
            yield each


def _holds(each: Requirement, extra: str) -> bool:
    return each.marker is None or each.marker.evaluate({"extra": extra})


def _lack(needed: Requirement) -> str | None:
    try:
        found = version(needed.name)
    except PackageNotFoundError:
        return f"{needed.name} is missing"
    if needed.specifier.contains(found, prereleases=True):
        return None
    return f"{needed.name} is {found}, {_PACKAGE} needs {needed.specifier}"


def _half(who: str, extra: str, lacking: list[str], error: Exception) -> UsageError:
    if not lacking and (absent := _absent(error)):
        lacking = [f"{absent} is missing"]
    if lacking:
        told, command = ", ".join(lacking), install_command(extra)
    else:
        told = f"{reason(error)}"
        command = reinstall_command(_broken(error))
    return UsageError(
        f"{who} installed only in part ({told}); complete it with: {command}"
    ).with_command(command)


def _absent(error: BaseException) -> str | None:
    """Return the package that was not found, under pip's name; None if something else failed."""
    absent = absent_module(error)
    return None if absent is None else _normal(absent)


def _broken(error: BaseException) -> str:
    """Return the installed package whose code failed last, under pip's name."""
    owners = packages_distributions()
    for top in modules_that_failed(error):
        if top in owners and top != _PACKAGE:
            return str(owners[top][0])
    named = top_module(error) or ""
    return str(owners.get(named, [named or "PACKAGE"])[0])


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
