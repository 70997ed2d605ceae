"""What the readers of logs return: questions with the answers that a model gave elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import exp, isfinite, isnan
from pathlib import Path
from typing import Any

from medstress.core.calls import Chosen
from medstress.core.errors import DataError
from medstress.core.items import Question


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedItem:
    """One row of a log."""

    question: Question
    """The question, with its key and the row's other fields as metadata."""
    pairs_with: str
    """What the same question is called in a paired log."""
    answer: Chosen
    """What the model answered; a text without any is unreadable."""
    is_right: bool
    """Whether the log counts it as right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """One log of one model on one task."""

    path: Path
    """The file."""
    hash: str
    """Content hash of the file."""
    tool: str
    """`lm-evaluation-harness` or `inspect_ai`."""
    version: str | None
    """The tool's version, where the log says it."""
    task: str
    """The task's name there."""
    model: str
    """The model's name there."""
    items: Sequence[LoggedItem]
    """In the order of the log."""
    notes: Sequence[str] = field(default=())
    """What was left out, and how rows were understood."""
    gaps: Sequence[str] = field(default=())
    """What is missing from the log as it lies there; a warning of the run."""

    def as_json(self) -> dict[str, Any]:
        """Return what the manifest keeps of it."""
        return {
            "file": self.path.name,
            "hash": self.hash,
            "tool": self.tool,
            "version": self.version,
            "task": self.task,
            "model": self.model,
            "n_answers": len(self.items),
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """Which of several answers to a question a log is read for."""

    filter: str | None = None
    """lm-evaluation-harness: the filter of the answers."""
    scorer: str | None = None
    """inspect_ai: the scorer that judged them."""
    epoch: int | None = None
    """inspect_ai: which of several epochs."""


Read = Callable[[Path, LogOptions], Log]
UNREAD = Chosen(text="")
"""An answer that names no option."""


def judged_answer(question: Question, text: Any, *, is_right: bool) -> Chosen:
    """Return an answer as the other tool judged it.

    A wrong answer whose letter is the key was not accepted there, for its form say: it counts as
    unreadable, as does one without a letter.

    Raises:
        DataError: it counts as right and names another option than the key.
    """
    letter = letter_in(text, question)
    if is_right:
        if letter not in (None, question.key) and not _says(text, question.option(question.key)):
            raise DataError(
                f"the log counts the answer as right, but it names {letter} and the key is "
                f"{question.key}; such rows cannot be judged again"
            )
        return Chosen(answer=question.key)
    if letter is None or letter == question.key or letter not in question.letters:
        return UNREAD
    return Chosen(answer=letter)


def scored_answer(question: Question, logs: Sequence[float], *, is_right: bool) -> Chosen:
    """Return an answer by the likelihoods of the options.

    Args:
        question: its options are in the order of `logs`.
        logs: log probability (natural log) of each option's continuation.
        is_right: what the log says of it.

    Raises:
        DataError: the likelihoods say something else.
    """
    if len(logs) != len(question.options):
        raise DataError(
            f"expected one likelihood for each of {len(question.options)} options, got {len(logs)}"
        )
    top = max(logs)
    if not isfinite(top) or any(map(isnan, logs)):
        raise DataError(f"expected log probabilities, got {', '.join(map(str, logs))}")
    best = [letter for letter, one in zip(question.letters, logs, strict=True) if one == top]
    if (best[0] == question.key) is not is_right:
        told = "right" if is_right else "wrong"
        raise DataError(
            f"the log counts the answer as {told}, but its likelihoods choose {best[0]} and the "
            f"key is {question.key}; such rows cannot be judged again"
        )
    if len(best) > 1:  # the other tool takes the first
        return Chosen(answer=best[0])
    return Chosen(scores=tuple(exp(one - top) for one in logs))


def right_or_wrong(name: str, value: Any) -> bool:
    """Return whether a metric of one row says right.

    Raises:
        DataError: it is neither 0 nor 1.
    """
    if isinstance(value, bool | int | float) and value in (0, 1):
        return bool(value)
    told = "none" if value is None else repr(value)
    raise DataError(f"field {name!r}: expected 1 (right) or 0 (wrong), got {told}")


def name_in(*found: Any) -> str | None:
    """Return the first name that is there; 0 is one.

    >>> name_in(None, "", 0, "a")
    '0'
    """
    return next((str(each) for each in found if each is not None and each != ""), None)


def _says(text: Any, option: str) -> bool:
    return str(text or "").strip().casefold() == option.strip().casefold()


def letter_in(text: Any, question: Question) -> str | None:
    """Return the option that a short text names by its letter or its own text."""
    found = str(text or "").strip().strip("().:[]* ")
    if len(found) == 1 and found.upper() in question.letters:
        return found.upper()
    folded = [option.strip().casefold() for option in question.options]
    return question.letters[folded.index(found.casefold())] if found.casefold() in folded else None


def at(path: Path, place: str, error: DataError) -> DataError:
    """Return an error with its file and row before it."""
    return DataError(f"{path}, {place}: {error}")
