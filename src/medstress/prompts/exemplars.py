"""Worked questions shown before the target's case: from a set of prompts, or from a file."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from medstress.core.errors import UsageError, reason

_KEYS = ("id", "question", "options", "reasoning", "answer")
_SENTENCES = re.compile(r"(?<=[.?!])\s+")
_BEFORE_LETTERS = (
    *("vitamin", "hepatitis", "influenza", "type", "group", "factor", "protein"),
    *("class", "grade", "stage", "pugh"),
)
"""After these a letter is part of a name."""
# "A" is an article and "I" a pronoun unless something says that it is an option.
_ALONE = (
    r"(?<![\w'’.-])"
    + "".join(rf"(?<!(?i:{word})[ -])" for word in _BEFORE_LETTERS)
    + r"[{letters}](?![\w'’-])"
)
_NAMED = (
    r"\b(?i:answers?|options?|choices?|keys?|alternatives?)"
    r"(?:\s+(?i:is|was|letter|must\s+be|would\s+be))*\s*[:=]?\s*[\"'(\[*]*{letter}\b"
    r"|\b(?i:choose|pick|select|leaves|leaving|thus|hence|so|therefore)[,:]?\s+"
    r"[*(]*{letter}(?:\W*$|\s+(?:is|it|was)\b)"
    r"|(?:[:=]|->|→)\s*[\"'(\[*]*{letter}\W*$"
    r"|[(\[*]{letter}[)\]*]"
    r"|\b{letter}\s+(?:is|must\s+be)\s+(?:the\s+)?(?:right|correct|best|true)"
    r"|^\W*{letter}\W*$"
    r"|\b(?i:would\s+be|must\s+be|is|be)\s+{letter}\W*$"
)


class Exemplar(BaseModel):
    """A worked question for the target's reasoning turn."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    id: str = Field(min_length=1)
    question: str = Field(min_length=1)
    options: tuple[tuple[str, str], ...] = Field(min_length=2)
    """Pairs of letter and text."""
    reasoning: str = ""
    """One paragraph that does not choose; empty if there is none, as in MedQA."""
    answer: str
    """The letter."""

    @property
    def answer_text(self) -> str:
        """The right option."""
        return dict(self.options)[self.answer]


def exemplars_in(text: str, where: str) -> tuple[Exemplar, ...]:
    """Read the worked questions of a set of prompts, one JSON object per line.

    Raises:
        UsageError: a line is no worked question; with its number.
    """
    return _read(text, where, _exemplar)


def exemplars_from(path: Path, where: str, least: int = 1) -> tuple[Exemplar, ...]:
    """Read the worked questions of the user's file, such as MedQA's train split.

    A line holds `question`, `options` (a list, or ``{"A": "text"}``), the right letter as
    `answer_idx` or `answer`, and maybe `id` and `reasoning`; other keys are ignored.

    Args:
        path: the file.
        where: the path as the user gave it, for messages.
        least: the fewest questions it must hold.

    Raises:
        UsageError: no such file, too few questions, or a line that is no worked question or whose
            reasoning ends in an answer: the target must reason without choosing, and would copy
            the example.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"exemplars_from = {where!r}: it cannot be read: {error}") from error
    found = _read(text, f"exemplars_from = {where!r}", _row)
    if len(found) < least:
        raise UsageError(
            f"exemplars_from = {where!r}: the file holds {len(found)} questions, and {least} are "
            "shown: lower exemplars or add worked questions"
        )
    return found


def ends_in_answer(exemplar: Exemplar) -> bool:
    """Whether the last sentence of a reasoning names an option's letter or the right option.

    A letter on its own is an option's; "A" and "I" only if the words around them say so.

    >>> fields = {"id": "q", "question": "Why?", "options": (("A", "Flu"), ("B", "Cold"))}
    >>> [ends_in_answer(Exemplar(**fields, answer="A", reasoning=text))
    ...  for text in ("It is late. So B it is.", "It is flu.", "Flu is sudden. A man froze.")]
    [True, True, False]
    """
    last = _SENTENCES.split(exemplar.reasoning.strip())[-1]
    named = rf"\b{re.escape(exemplar.answer_text.strip())}(?!\w)"
    if re.search(named, last, re.IGNORECASE):
        return True
    letters = "".join(letter for letter, _ in exemplar.options)
    alone = re.escape("".join(letter for letter in letters if letter not in "AI"))
    patterns = [_NAMED.format(letter=f"[{re.escape(letters)}]")]
    if alone:
        patterns.append(_ALONE.format(letters=alone))
    return any(re.search(pattern, last, re.MULTILINE) for pattern in patterns)


def first_error(error: Exception) -> str:
    """Say in few words what is wrong."""
    if isinstance(error, ValidationError):
        found = error.errors()[0]
        return f"{'.'.join(map(str, found['loc']))}: {found['msg']}"
    return reason(error)


def _read(text: str, where: str, made: Callable[[Any, int], Exemplar]) -> tuple[Exemplar, ...]:
    found = []
    for number, line in enumerate(filter(str.strip, text.splitlines()), start=1):
        try:
            found.append(made(json.loads(line), number))
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{where}, line {number}: {first_error(error)}") from None
    return tuple(found)


def _exemplar(row: Any, number: int) -> Exemplar:
    options = row.get("options") if isinstance(row, Mapping) else None
    if not isinstance(options, Mapping):
        raise ValueError('expected an object with options as {"A": "text", ...}')
    exemplar = Exemplar.model_validate({**row, "options": tuple(options.items())})
    if exemplar.answer not in options:
        raise ValueError(f"the answer {exemplar.answer!r} is not one of its options")
    return exemplar


def _row(row: Any, number: int) -> Exemplar:
    """Read a line of a user's file; strict only about the keys it uses."""
    if not isinstance(row, Mapping):
        raise ValueError("expected an object with question, options and answer_idx")
    fields = {key: row[key] for key in _KEYS if row.get(key) is not None}
    if isinstance(fields.get("options"), list):
        fields["options"] = {chr(ord("A") + i): text for i, text in enumerate(fields["options"])}
    fields["id"] = str(fields.get("id", f"line {number}"))
    if row.get("answer_idx") is not None:
        fields["answer"] = row["answer_idx"]
    exemplar = _exemplar(fields, number)
    if ends_in_answer(exemplar):
        raise ValueError(
            "the reasoning ends in an answer, but the victim must reason without choosing: leave "
            "its last sentence out"
        )
    return exemplar
