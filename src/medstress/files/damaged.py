"""Which installed package is damaged: metadata are there, but files of it are not, or cut short.

pip finds such a package installed and changes nothing, so it has to be told to install it anew.
Imports nothing that has to be installed: it works where a package of the base is damaged.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from importlib.util import find_spec
from pathlib import Path
from traceback import extract_tb
from types import ModuleType

from medstress.core.errors import UsageError, install_command

FAULTS = (ImportError, OSError, SyntaxError, AttributeError, NameError, TypeError, ValueError)
"""What importing a damaged package, or one without its compiled part, raises."""
_COMPILED = (".so", ".pyd", ".dylib")
_LEFT_OUT = re.compile(r"(^|/)(tests?|[^/]*\.dist-info)/|^\.\./")
"""Files of a wheel that many an image leaves out, or that installing changes."""


def half_installed(error: BaseException) -> UsageError | None:
    """Return the error for a package of the base that is damaged or missing; None for any other."""
    if name := culprit(error):
        return damaged("medstress is", name)
    absent = top_module(error)
    if absent in (None, "medstress") or not isinstance(error, ModuleNotFoundError):
        return None
    command = install_command()
    return UsageError(
        f"medstress is installed only in part ({error}); complete it with: {command}"
    ).with_command(command)


def damaged(who: str, name: str) -> UsageError:
    """Return the error for a damaged package.

    Args:
        who: subject and verb, such as `the extra `figures` is`.
        name: the package, under pip's name.
    """
    command = reinstall_command(name)
    return UsageError(
        f"{who} installed only in part (files of {name} are missing or damaged); complete it with: "
        f"{command}"
    ).with_command(command)


def reinstall_command(name: str) -> str:
    """Return the command that installs a package anew, in the version that is there.

    Another version might not fit what needs it. A build of one's own (`2.4+cpu`) is on no index.

    >>> reinstall_command("no-such-package")
    'pip install --force-reinstall no-such-package'
    """
    try:
        found = distribution(name).version
    except PackageNotFoundError:
        found = "+"
    return f"pip install --force-reinstall {name}" + ("" if "+" in found else f"=={found}")


def culprit(error: BaseException) -> str | None:
    """Return the damaged package by which an import failed, under pip's name; None if none is."""
    if not isinstance(error, FAULTS):
        return None
    for top in dict.fromkeys(_modules(error)):
        for each in distributions():
            record = each.read_text("RECORD") or ""
            brings = re.search(rf"^{re.escape(top)}(/|\.\w)", record, re.M)
            if brings and _is_damaged(each):
                return str(each.metadata["Name"])
    return None


def is_damaged(name: str) -> bool:
    """Return whether files of an installed package are missing, or not of the recorded size."""
    try:
        return _is_damaged(distribution(name))
    except PackageNotFoundError:
        return False


def top_module(error: BaseException) -> str | None:
    """Return the module, without what is below it, that could not be imported."""
    name = error.name if isinstance(error, ImportError) else None
    return name.partition(".")[0] if name else None


def absent_module(error: BaseException) -> str | None:
    """Return the module of `top_module` if it was not found; None if something else failed."""
    top = top_module(error)
    if top is None or not isinstance(error, ModuleNotFoundError):
        return None
    try:
        return top if find_spec(top) is None else None
    except (ImportError, ValueError):
        return top


def modules_that_failed(error: BaseException) -> Iterator[str]:
    """Yield the modules, without what is below them, whose code ran last; the last one first."""
    files = [frame.filename for frame in reversed(extract_tb(error.__traceback__))]
    if isinstance(error, SyntaxError) and error.filename:
        files.insert(0, error.filename)
    for file in files:
        for place in sys.path:
            if place and Path(file).is_relative_to(place):
                yield Path(file).relative_to(place).parts[0].removesuffix(".py")


def _modules(error: BaseException) -> Iterator[str]:
    if top := top_module(error):
        yield top
    if isinstance(error, AttributeError) and isinstance(error.obj, ModuleType):
        yield error.obj.__name__.partition(".")[0]
    yield from (top for top in modules_that_failed(error) if top != "medstress")


def _is_damaged(installed: Distribution) -> bool:
    rows = csv.reader((installed.read_text("RECORD") or "").splitlines())
    return any(len(row) == 3 and _differs(installed, row[0], row[2]) for row in rows)


def _differs(installed: Distribution, name: str, size: str) -> bool:
    if not name.endswith((".py", *_COMPILED)) or _LEFT_OUT.search(name):
        return False
    try:
        found = Path(str(installed.locate_file(name))).stat().st_size
    except OSError:
        return True
    # Compiled parts may have been stripped.
    return name.endswith(".py") and size.isdigit() and found != int(size)
