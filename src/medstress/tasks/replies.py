"""Read the replies of models: the last JSON object that fits, or, where there is none, prose.

Thoughts, code fences and other text around the object are ignored. A model that corrects itself
writes a second object, so the last one counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from medstress.tasks.reading import without_thoughts

LONGEST = 200_000
"""Most characters of a reply that are read."""
MAX_REASON = 200
"""Most characters of a reason that go back to the model."""
_MOST_BRACES = 500
"""Braces tried as the beginning of an object: a hostile reply may hold millions."""


class Reply(BaseModel):
    """Base of all replies; unknown keys are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", str_strip_whitespace=True)


class Vote(Reply):
    """An answer of a judge, who may reason first."""

    reasoning: str | None = None
    """What it thought before it answered; only people read it."""
    answer: str
    """An option letter, or YES or NO."""


class Confidences(Reply):
    """The target's confidence in each option."""

    confidence: dict[str, Annotated[float, Field(ge=1, le=5)]]
    """Letter -> 1 (surely wrong) to 5 (surely right)."""


class Letter(Reply):
    """An answer of the target."""

    answer: str
    """An option letter."""


R = TypeVar("R", bound=Reply)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A reply that cannot be used."""

    reason: str
    """What is wrong with it, for the model and for people."""
    cause: str = "wrong form"
    """The same in two or three words, to be counted: `cut off`, `no JSON`, `wrong form`, ..."""


def read_reply(
    text: str, kind: type[R], objection: Callable[[R], Unreadable | str | None] | None = None
) -> R | Unreadable:
    """Read the last JSON object of a text that fits.

    Args:
        text: what the model wrote.
        kind: what it was told to write.
        objection: says what is wrong with a reply of the right form, or None.

    Returns:
        The reply, or what is wrong with the last object.

    >>> read_reply('Sure! ```json\\n{"answer": "B"}\\n``` No, wait: {"answer": "C"}', Letter)
    Letter(answer='C')
    >>> read_reply("B", Letter)
    Unreadable(reason='it holds no JSON object', cause='no JSON')
    """
    prose = without_thoughts(text)
    if not prose.strip():
        return Unreadable("it is empty", "empty")
    fault: Unreadable | None = None
    for value in reversed(list(objects_in(prose))):
        try:
            reply = kind.model_validate(value)
        except ValidationError as error:
            first = error.errors()[0]
            why = "it is empty" if first["type"] == "too_short" else first["msg"]
            wrong: Unreadable | str | None = f"{'.'.join(map(str, first['loc']))}: {why}"
        else:
            wrong = None if objection is None else objection(reply)
            if wrong is None:
                return reply
        if isinstance(wrong, str):
            wrong = Unreadable(wrong[:MAX_REASON])
        fault = fault or wrong
    return fault or Unreadable("it holds no JSON object", "no JSON")


def objects_in(text: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of a text, in order; one inside another is not yielded."""
    decoder, text, end = json.JSONDecoder(strict=False), text[-LONGEST:], 0
    for brace in [match.start() for match in re.finditer(r"\{", text)][-_MOST_BRACES:]:
        if brace >= end:
            with suppress(ValueError, RecursionError):  # no JSON, a number too long; too deep
                value, end = decoder.raw_decode(text, brace)
                yield value


_LABEL = re.compile(
    r"(?<![A-Za-z0-9'’])([A-J])(?![A-Za-z0-9'’])"
    r"(?=[\"'*_]{0,3}\s{0,3}[:=.)(–—-]|\s+(?:is|at|\d))"
)
_RATING = re.compile(
    r"(?<![\d.])([1-5](?:\.\d{1,2})?)(?:\s{0,2}/\s{0,2}5| out of 5)?(?![\d%]|\.\d)"
)


def confidences_in(text: str, letters: str) -> tuple[float, ...] | None:
    """Read a number from 1 to 5 for every option from prose; None if one has none.

    What follows a letter, up to the next one, holds its number last.

    >>> confidences_in("A: 3, B: 5, C - 1/5; **D**: 2", "ABCD")
    (3.0, 5.0, 1.0, 2.0)
    >>> confidences_in("A: 3, B: high", "AB")
    """
    prose = without_thoughts(text)[-LONGEST:]
    labels = [match for match in _LABEL.finditer(prose) if match[1] in letters]
    numbers: dict[str, float] = {}
    ends = [*(match.start() for match in labels[1:]), len(prose)]
    for label, end in zip(labels, ends, strict=False):
        line = prose[label.end() : end].split("\n", 1)[0]
        if ratings := _RATING.findall(line):
            numbers[label[1]] = float(ratings[-1])
    if any(letter not in numbers or numbers[letter] > 5 for letter in letters):
        return None
    return tuple(numbers[letter] for letter in letters)


@lru_cache(maxsize=64)
def schema_of(kind: type[Reply], letters: str) -> str:
    """Return the JSON schema of a reply about an item with these option letters.

    Every property is required and no other is allowed, as servers demand. Objects that hold
    something for every option have the letters as keys. Properties keep their order, because
    models write them in it: the post-mortem before the plan.
    """
    return json.dumps(_strict(kind.model_json_schema(), letters), separators=(",", ":"))


def _strict(node: Any, letters: str, shared: Any = None) -> Any:
    shared = node.get("$defs", {}) if shared is None else shared
    if "$ref" in node:
        return _strict(shared[node["$ref"].rpartition("/")[2]], letters, shared)
    if "anyOf" in node:
        return {"anyOf": [_strict(one, letters, shared) for one in node["anyOf"]]}
    if node.get("type") == "array":
        return {"type": "array", "items": _strict(node["items"], letters, shared)}
    if node.get("type") != "object":
        return {"type": node["type"]}
    inner = node.get("additionalProperties")
    named = node.get("properties") or dict.fromkeys(letters, inner)
    properties = {name: _strict(one, letters, shared) for name, one in named.items()}
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
