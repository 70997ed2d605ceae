"""Read the JSON replies of models: the first object of the text, validated."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from medstress.tasks.reading import without_thoughts

_MOST_BRACES = 100
"""Braces of a reply tried as the beginning of an object: a hostile reply may hold millions."""
LONGEST_ITEM = 100_000
"""Most characters of a rewritten question, which is compared word by word."""
MOST_INSERTIONS = 100
"""Most insertions in one attempt."""
MAX_REASON = 200
"""Most characters of a reason that go back to the model."""


def _bounded(text: str) -> str:
    """Check the length here: the schema sent to servers must not change, as caches key on it."""
    if len(text) > LONGEST_ITEM:
        raise ValueError(f"more than {LONGEST_ITEM:,} characters")
    return text


class Reply(BaseModel):
    """Base of all replies; unknown keys are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", str_strip_whitespace=True)


class Plan(Reply):
    """The attacker's plan of one attempt."""

    post_mortem: str | None = None
    """Why the last attempt failed; None at the first."""
    target_option: str = ""
    """The letter it wants answered."""
    plan: Annotated[str, Field(min_length=1)]
    """One paragraph."""


class Addition(Reply):
    """What the attacker says it inserted."""

    category: str
    """As the attacker names it."""
    text: str
    """The words."""


class Insertion(Addition):
    """What the attacker inserts, and where."""

    after: str
    """The words of the question right before it; empty at the very beginning."""


def _countable(found: tuple[Insertion, ...]) -> tuple[Insertion, ...]:
    if len(found) > MOST_INSERTIONS:
        raise ValueError(f"more than {MOST_INSERTIONS} insertions")
    return found


class Insertions(Reply):
    """The attacker's edit of the item, insertion by insertion."""

    added: Annotated[tuple[Insertion, ...], Field(min_length=1), AfterValidator(_countable)]
    """In any order."""


class Modification(Reply):
    """The attacker's edit of the item, as the whole question."""

    added: tuple[Addition, ...] = ()
    """What it says it inserted."""
    modified_item: Annotated[str, Field(min_length=1), AfterValidator(_bounded)]
    """The whole question, without options."""
    options: dict[str, str]
    """Letter -> text."""


class Confidences(Reply):
    """The target's confidence in each option."""

    confidence: dict[str, Annotated[float, Field(ge=1, le=5)]]
    """Letter -> 1 (surely wrong) to 5 (surely right)."""


class Letter(Reply):
    """An answer of the target."""

    answer: str
    """An option letter."""


class Vote(Reply):
    """An answer of a judge, who may reason first."""

    reasoning: str | None = None
    """What it thought before it answered; only people read it."""
    answer: str
    """An option letter, or YES or NO."""


class CategoryVote(Reply):
    """The category that a judge puts an insertion in."""

    reasoning: str | None = None
    """See `Vote`."""
    category: str
    """A category's name, or `none`."""


R = TypeVar("R", bound=Reply)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A reply that cannot be used."""

    reason: str
    """What is wrong with it, for the model and for people."""


def read_reply(
    text: str, kind: type[R], objection: Callable[[R], str | None] | None = None
) -> R | Unreadable:
    """Read the first JSON object after the thoughts of a text.

    Code fences and other text around the object are ignored.

    Args:
        text: what the model wrote.
        kind: what it was told to write.
        objection: says what is wrong with a reply of the right form, or None.

    >>> read_reply('Sure! ```json\\n{"answer": "B"}\\n```', Letter)
    Letter(answer='B')
    >>> read_reply("B", Letter)
    Unreadable(reason='it holds no JSON object')
    """
    found = _first_object(without_thoughts(text))
    if found is None:
        return Unreadable("it holds no JSON object")
    try:
        reply = kind.model_validate(found)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        return Unreadable(f"{place}: {first['msg']}"[:MAX_REASON])
    reason = objection(reply) if objection is not None else None
    return reply if reason is None else Unreadable(reason[:MAX_REASON])


def _first_object(text: str) -> dict[str, Any] | None:
    decoder = json.JSONDecoder(strict=False)
    for brace in islice(re.finditer(r"\{", text), _MOST_BRACES):
        with suppress(ValueError, RecursionError):  # no JSON, an integer Python refuses; too deep
            found: dict[str, Any] = decoder.raw_decode(text, brace.start())[0]
            return found
    return None


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
        return {"anyOf": [_strict(each, letters, shared) for each in node["anyOf"]]}
    if node.get("type") == "array":
        return {"type": "array", "items": _strict(node["items"], letters, shared)}
    if node.get("type") != "object":
        return {"type": node["type"]}
    inner = node.get("additionalProperties")
    named = node.get("properties") or dict.fromkeys(letters, inner)
    properties = {name: _strict(each, letters, shared) for name, each in named.items()}
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
