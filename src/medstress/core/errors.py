"""Every error medstress raises on purpose; the message says what to do."""

from __future__ import annotations

from collections.abc import Iterable
from os import sep
from traceback import extract_tb

_MOST_SHOWN = 300
_OURS = f"{sep}medstress{sep}"
_SHELL = "run_code"
"""The function of IPython that runs a cell."""


class MedstressError(Exception):
    """Base of all errors raised on purpose."""

    def _render_traceback_(self) -> list[str]:
        """Return what IPython shows: the user's own lines and the sentence, none of our code."""
        own = [at for at in extract_tb(self.__traceback__) if _OURS not in at.filename]
        lines = [f"line {at.lineno}: {at.line}" for at in own if at.line and _SHELL not in at.name]
        return [*lines, f"{type(self).__name__}: {self}"]


class UsageError(MedstressError):
    """The user can fix it: a wrong key, file, flag or combination."""


class DataError(MedstressError):
    """An item breaks its contract; the message names the source, the row and the field."""


class StoreError(MedstressError):
    """The run folder cannot be read or written, or holds another run."""


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


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a suggestion such as ``; did you mean 'pdws'?``, or an empty string.

    >>> did_you_mean("pwds", ["random", "pdws"])
    "; did you mean 'pdws'?"
    >>> did_you_mean("zzz", ["random", "pdws"])
    ''
    """
    from difflib import get_close_matches

    close = get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""


def missing_extra(what: str, extra: str) -> UsageError:
    """Return the error for a part whose extra is not installed, with the exact install line.

    >>> str(missing_extra("the back end", "transformers"))
    "the back end is not installed; install it with: pip install 'medstress[transformers]'"
    """
    return UsageError(f"{what} is not installed; install it with: pip install 'medstress[{extra}]'")


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
