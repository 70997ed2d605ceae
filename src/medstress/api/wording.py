"""Messages of the command line as Python says them: arguments in place of flags."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial

from medstress.core.errors import MedstressError

_WITH_FLAGS = ContextVar("_WITH_FLAGS", default=False)
"""Whether the command line asks, which calls the functions of Python."""
_ARGUMENTS = {"set": "overrides"}
"""Flag -> the argument of Python where it has another name."""
_SWITCHES = ("fresh", "retry_failed")
"""Arguments that are True or False."""
_FLAG = re.compile(
    r"(?<![\w-])--(?P<flag>[a-z][a-z-]*)"
    r"(?: (?P<value>'[^']*'|(?=[A-Z0-9/~]|[^\s,;)]*[^\s,;:)][.:=/_][^\s,;:)])"
    r"[^\s,;)]*(?:\.\.\.|[^\s,;:.)])))?"
)
"""A flag, and what follows it if that looks like a value and not like the next word."""


@contextmanager
def flags_are_said() -> Iterator[None]:
    """Leave the flags in messages, for the command line."""
    before = _WITH_FLAGS.set(True)
    try:
        yield
    finally:
        _WITH_FLAGS.reset(before)


def say_as_asked(error: MedstressError) -> None:
    """Put arguments in place of the flags of an error, unless the command line asks."""
    if not _WITH_FLAGS.get() and error.args:
        error.args = (said_in_python(str(error)), *error.args[1:])


def said_in_python(message: str) -> str:
    """Return a message with arguments in place of flags; commands to type stay as they are.

    >>> said_in_python("Choose another folder with --out, or throw it away with --fresh")
    'Choose another folder with `out`, or throw it away with fresh=True'
    >>> said_in_python("--to x.xls: expected .csv; type: medstress export DIR --to x.csv")
    'to=x.xls: expected .csv; type: medstress export DIR --to x.csv'
    """
    return _FLAG.sub(partial(_argument, message), message)


def _argument(message: str, found: re.Match[str]) -> str:
    """Return the argument for a flag and the value behind it, if there is one."""
    clause = re.split(r"[;,)]", message[: found.start()])[-1]
    if re.search(r"\bmedstress [a-z]", clause):
        return found[0]
    flag, value = found["flag"], found["value"]
    name = _ARGUMENTS.get(flag, flag.replace("-", "_"))
    if message[found.end() :].startswith(":") and value is None:
        return name
    if name in _SWITCHES:
        return f"{name}=True"
    if value is None:
        return f"`{name}`"
    if name == "overrides":
        return f'overrides=["{value.strip(chr(39))}"]'
    return f"{name}={{{value.replace('=', ': ')}}}" if name == "columns" else f"{name}={value}"
