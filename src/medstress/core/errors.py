"""Every error medstress raises on purpose; the message says what to do."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from os import sep
from pathlib import Path
from traceback import FrameSummary, extract_tb
from typing import Any, Self

_MOST_SHOWN = 300
_NOT_THE_USERS = (__file__.rpartition(f"core{sep}")[0], os.__file__.rpartition(sep)[0])
"""The folders of our code and of Python's own."""
_INSTALLED = (f"{sep}site-packages{sep}", f"{sep}dist-packages{sep}")


FIRST_COMMAND = "medstress run --data FILE --model NAME --dry-run"
"""What to type where there is no experiment file yet: it prints one."""


_speaks_flags = False


@contextmanager
def flags_are_said() -> Iterator[None]:
    """Let messages speak of the flags of the command line, which calls the functions of Python."""
    global _speaks_flags
    before, _speaks_flags = _speaks_flags, True
    try:
        yield
    finally:
        _speaks_flags = before


def are_flags_said() -> bool:
    """Return whether messages speak to a user of the command line."""
    return _speaks_flags


def setting(name: str, value: object = None) -> str:
    """Return how a user gives a setting: as an argument of Python, or a flag of the command line.

    Args:
        name: of the argument; `set` for a key of the experiment.
        value: what to give; None: the setting alone.

    >>> setting("out"), setting("fresh", True), setting("set", "victim.model=NAME")
    ('out', 'fresh=True', 'overrides=["victim.model=NAME"]')
    >>> with flags_are_said():
    ...     setting("base_url"), setting("fresh", True), setting("set", "victim.model=NAME")
    ('--base-url', '--fresh', '--set victim.model=NAME')
    """
    if _speaks_flags:
        if isinstance(value, Mapping):
            value = ",".join(f"{field}={column}" for field, column in value.items())
        flag = f"--{name.replace('_', '-')}"
        return flag if value is None or value is True else f"{flag} {value}"
    if name == "set":
        return "overrides" if value is None else f'overrides=["{value}"]'
    if value is None:
        return name
    return f'{name}="{value}"' if isinstance(value, str) else f"{name}={value}"


def another_folder() -> str:
    """Return what to do where a folder holds another run."""
    return (
        f"Choose another folder with {setting('out')}, or throw the old run away with "
        f"{setting('fresh', True)}"
    )


class MedstressError(Exception):
    """Base of all errors raised on purpose.

    Attributes:
        command: the command to type next, where the place that raises the error knows it better
            than the command line, which otherwise names the mended command.
        flag: a flag of the command line and the value that mends it; None: without the flag.
    """

    command: str | None = None
    flag: tuple[str, str | None] | None = None

    def with_command(self, command: str) -> Self:
        """Return the error with the next command to type, unless it has one.

        >>> UsageError("no data").with_command("medstress doctor").command
        'medstress doctor'
        """
        self.command = self.command or command
        return self

    def with_flag(self, flag: str, value: str | None) -> Self:
        """Return the error with the flag that mends the command line, unless it has one.

        >>> UsageError("no file q.cvs").with_flag("--data", "q.csv").flag
        ('--data', 'q.csv')
        """
        self.flag = self.flag or (flag, value)
        return self

    def _render_traceback_(self) -> list[str]:
        """Return what IPython shows: the user's own lines and the sentence, none of our code."""
        frames = [*extract_tb(self.__traceback__), *_frames(self.__cause__)]
        lines = [f"line {at.lineno}: {at.line}" for at in frames if _is_the_users(at)]
        return [*lines, f"{type(self).__name__}: {self}"]


class UsageError(MedstressError):
    """The user can fix it: a wrong key, file, flag or combination."""


class UnreachableError(UsageError):
    """A server is not there."""


class DataError(MedstressError):
    """An item breaks its contract; the message names the source, the row and the field."""


class StoreError(MedstressError):
    """The run folder cannot be read or written, or holds another run."""


class OtherRunError(StoreError):
    """The run folder holds a run of another experiment.

    Attributes:
        folder: the run folder.
    """

    def __init__(self, message: str, folder: Path) -> None:
        super().__init__(message)
        self.folder = folder


class BackendError(MedstressError):
    """A model could not answer."""


class PermanentBackendError(BackendError):
    """A retry would not help; the trial that made the call ends as failed."""


class TrialError(Exception):
    """An attack cannot continue with one item.

    The trial ends as failed with this message and the run continues, so this is not a
    `MedstressError`.
    """


class BudgetExhausted(MedstressError):
    """Thrown into an attack at a `yield` that asks more queries than the budget has left.

    Attributes:
        remaining: queries left in the budget.
    """

    def __init__(self, remaining: int) -> None:
        super().__init__(f"only {remaining} queries are left of the budget")
        self.remaining = remaining


def _is_the_users(at: FrameSummary) -> bool:
    is_installed = any(folder in at.filename for folder in _INSTALLED)
    return bool(at.line) and not is_installed and not at.filename.startswith(_NOT_THE_USERS)


def _frames(error: BaseException | None) -> list[FrameSummary]:
    return [] if error is None else list(extract_tb(error.__traceback__))


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a suggestion such as ``; did you mean 'pdws'?``, or an empty string.

    Names with the same ending, such as files, must be near without it.

    >>> did_you_mean("pwds", ["random", "pdws"])
    "; did you mean 'pdws'?"
    >>> did_you_mean("zzz", ["random", "pdws"]), did_you_mean("nope.csv", ["e.csv"])
    ('', '')
    """
    from difflib import get_close_matches

    head, dot, ending = word.rpartition(".")
    names = [
        name
        for name in known
        if not (dot and name.endswith(f".{ending}"))
        or get_close_matches(head, [name.removesuffix(f".{ending}")], cutoff=0.6)
    ]
    close = get_close_matches(word, names, n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""


def unknown(what: str, word: str, words: Iterable[str]) -> str:
    """Return the sentence for an unknown word, with the nearest of the right ones, else with all.

    >>> unknown("key", "vocabulry", ["type", "vocabulary"])
    "unknown key 'vocabulry'; did you mean 'vocabulary'?"
    >>> unknown("key", "colour", ["type", "vocabulary"])
    "unknown key 'colour' (known: type, vocabulary)"
    """
    names = sorted(words)
    hint = did_you_mean(word, names) or f" (known: {', '.join(names)})"
    return f"unknown {what} {word!r}{hint}"


_EXPECTED = {
    "dict_type": "expected a table of keys and values",
    "model_type": "expected a table of keys and values",
}
_PLAIN = {
    "Input should be": "expected",
    "a valid integer": "a whole number",
    "a valid boolean": "true or false",
    "a valid string": "a text",
    "a valid tuple": "a list",
    "a valid number": "a number",
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
    "Tuple should have at least 1 item after validation, not 0": "expected at least one value",
}


def fault_of(error: Mapping[str, Any], key: str = "") -> str:
    """Say in one sentence what pydantic refuses: the key with its value, and what was expected.

    Args:
        error: one of `ValidationError.errors()`.
        key: of the value; empty if the error is about several.

    >>> fault_of({"type": "int_type", "input": "2", "msg": "Input should be a valid integer"}, "n")
    "n = '2': expected a whole number"
    """
    value, kind = error["input"], error["type"]
    message = _EXPECTED.get(kind) or error["msg"].removeprefix("Value error, ")
    for word, plain in _PLAIN.items():
        message = message.replace(word, plain)
    if not key:
        return message
    words = re.findall(r"'([^']*)'", message) if kind == "literal_error" else ()
    hint = did_you_mean(value, words) if isinstance(value, str) else ""
    shown = list(value) if isinstance(value, tuple) else value
    return f"{key} = {shown!r}: {message[0].lower()}{message[1:]}{hint}"


def missing_extra(what: str, extra: str) -> UsageError:
    """Return the error for a part whose extra is not installed, with the exact install line.

    >>> str(missing_extra("the back end", "transformers"))
    "the back end is not installed; install it with: pip install 'medstress[transformers]'"
    """
    command = install_command(extra)
    return UsageError(f"{what} is not installed; install it with: {command}").with_command(command)


def install_command(extra: str = "") -> str:
    """Return the command that installs medstress with an extra, or completes what is installed.

    pip knows an installed medstress by its name. Where it does not, in a folder of sources, it
    would ask an index for the name, so the command names the sources.
    """
    from importlib.metadata import PackageNotFoundError, version

    try:
        installed = bool(version("medstress"))
    except PackageNotFoundError:
        installed = False
    target = "medstress" if installed else "PATH_OF_WHEEL_OR_CHECKOUT"
    return f"pip install '{target}[{extra}]'" if extra else f"pip install {target}"


def command_of(error: BaseException | None) -> str | None:
    """Return the next command that an error, or one that it was made of, names.

    >>> try:
    ...     raise UsageError("no minilm").with_command("medstress doctor")
    ... except UsageError as cause:
    ...     told = UsageError(f"line 3: {cause}")
    ...     told.__cause__ = cause
    >>> command_of(told)
    'medstress doctor'
    """
    return next((one.command for one in _made_of(error) if one.command is not None), None)


def flag_of(error: BaseException | None) -> tuple[str, str | None] | None:
    """Return the flag that an error, or one that it was made of, puts right.

    >>> first, second = DataError("a"), DataError("b")
    >>> first.__cause__, second.__cause__ = second, first  # a circle, as some code makes
    >>> flag_of(first) is None
    True
    """
    return next((one.flag for one in _made_of(error) if one.flag is not None), None)


def _made_of(error: BaseException | None) -> Iterator[MedstressError]:
    """Yield our errors among an error and those that it was made of."""
    seen = set[int]()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, MedstressError):
            yield error
        error = error.__cause__ or error.__context__


def is_panic(error: BaseException) -> bool:
    """Return whether an error is a panic of a library in Rust, which is not an `Exception`.

    >>> is_panic(KeyboardInterrupt())
    False
    """
    return type(error).__name__ == "PanicException"


def reason(error: BaseException) -> str:
    """Return in a few words, on one line, why a file could not be read.

    >>> reason(RecursionError("maximum recursion depth exceeded"))
    'it is nested too deep'
    >>> reason(OSError(28, "No space left on device"))
    'No space left on device'
    >>> reason(KeyError("tokens"))
    "it lacks 'tokens'"
    """
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    if isinstance(error, MemoryError):
        return "it needs more memory than is free"
    if isinstance(error, KeyError):
        return f"it lacks {str(error)[:_MOST_SHOWN]}"
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    words = " ".join(text.encode("utf-8", "replace").decode().split()) or type(error).__name__
    return words if len(words) <= _MOST_SHOWN else f"{words[:_MOST_SHOWN]}..."
