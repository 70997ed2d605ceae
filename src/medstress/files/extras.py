"""What is installed of the packages that medstress and its extras need, and what completes it.

`pip install 'medstress[EXTRA]'` completes an installed medstress without fetching it again: pip
goes through what is installed and adds what is missing or too old. Of a package whose files are
gone or cut short it changes nothing, so that has to be installed anew.

Imports nothing at the top that has to be installed: it works where a package of the base is broken.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, packages_distributions, requires, version
from importlib.util import find_spec
from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING

from medstress.core.errors import UsageError, install_command, missing_extra, reason

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_PACKAGE = "medstress"
BASE = ""
"""Stands for what medstress needs without any extra."""
FAULTS = (ImportError, OSError, SyntaxError, AttributeError, NameError, TypeError, ValueError)
"""What importing a damaged package, or one without its compiled part, raises."""


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
    lacking, needed = lacking_of(extra), requirements(extra)
    if not lacking and (name := _culprit(error)):
        return _damaged(f"{what}: the extra `{extra}` is", name, error)
    is_absent = not lacking and isinstance(error, ModuleNotFoundError)
    if is_absent or len(lacking) == len(needed):  # also where medstress is a folder of sources
        return missing_extra(what, extra)
    return _in_part(f"{what}: the extra `{extra}` is", extra, lacking or [reason(error)])


def not_there(what: str, extra: str, *modules: str) -> UsageError:
    """Return the error for modules of an extra of which one was not found.

    Its package is not installed, or its files are gone.
    """
    for module in modules:
        error = ModuleNotFoundError(f"no module {module}", name=module)
        if not lacking_of(extra) and (name := _culprit(error)):
            return _damaged(f"{what}: the extra `{extra}` is", name, error)
    return missing_extra(what, extra)


def base_fault(error: BaseException) -> UsageError | None:
    """Return an error with the command that mends it if a package of the base lacks, or is damaged.

    None for any other error, and for modules that no dependency of medstress is to bring.
    """
    if not isinstance(error, ImportError | SyntaxError):
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
    name = _culprit(error)
    if name and isinstance(error, ImportError | SyntaxError):
        return _damaged(f"{_PACKAGE} is", name, error)
    if isinstance(error, ModuleNotFoundError) and _top(error) not in ("", _PACKAGE):
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


def _damaged(who: str, name: str, error: BaseException) -> UsageError:
    """Return the error for a package that is installed and cannot be imported.

    Another version might not fit what needs it. A build of one's own (`2.4+cpu`) is on no index.
    """
    number = version(name)
    exact = "" if "+" in number else f"=={number}"
    command = f"pip install --force-reinstall {name}{exact}"
    return UsageError(
        f"{who} damaged: {name} cannot be imported ({reason(error)}); mend it with: {command}"
    ).with_command(command)


def _culprit(error: BaseException) -> str | None:
    """Return the installed package that could not be imported, under pip's name."""
    owners, absent = packages_distributions(), isinstance(error, ModuleNotFoundError)
    for top in (_top(error), *_modules(error)):
        if top != _PACKAGE and top in owners and not (absent and _is_there(top)):
            return str(owners[top][0])
    return None


def _is_there(module: str) -> bool:
    # None stands there for what was taken away on purpose.
    return sys.modules.get(module, sys) is None or find_spec(module) is not None


def _top(error: BaseException) -> str:
    """Return the module, without what is below it, that could not be imported."""
    return ((error.name if isinstance(error, ImportError) else None) or "").partition(".")[0]


def _modules(error: BaseException) -> Iterator[str]:
    """Yield the modules, without what is below them, whose code ran last; the last one first."""
    files = [frame.filename for frame in reversed(extract_tb(error.__traceback__))]
    if isinstance(error, SyntaxError) and error.filename:
        files.insert(0, error.filename)
    for file in files:
        for place in sys.path:
            if place and Path(file).is_relative_to(place):
                yield re.sub(r"\.py$", "", Path(file).relative_to(place).parts[0])
