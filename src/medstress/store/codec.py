"""Encode answers, edits and items as JSON text and decode them, without loss."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from math import isfinite
from typing import Any

import orjson

from medstress.core.calls import Answer, Chosen, Compared, Generated, Scored, Tagged
from medstress.core.errors import StoreError, UsageError
from medstress.core.items import Item, Question
from medstress.core.sentences import SentencePair, TaggedText
from medstress.core.text import Edit, edit_rows, edits_of

_CLASSES: Mapping[str, type[Item]] = {one.kind: one for one in (Question, TaggedText, SentencePair)}


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"expected a text, got {type(value).__name__}")
    return value


def _text_or_none(value: Any) -> str | None:
    return None if value is None else _text(value)


def _scores(values: Any) -> tuple[float | None, ...] | None:
    for value in values or ():
        if value is not None and type(value) not in (int, float):
            raise ValueError(f"expected a number, got {type(value).__name__}")
    return None if values is None else tuple(values)


_ANSWERS: Mapping[str, tuple[Callable[..., Answer], Mapping[str, Callable[[Any], Any]]]] = {
    "c": (Chosen, {"text": _text_or_none, "answer": _text_or_none, "scores": _scores}),
    "s": (
        Scored,
        {
            "log_probs": lambda values: tuple(map(float, values)),
            "n_tokens": lambda values: tuple(map(int, values)),
            "note": _text_or_none,
        },
    ),
    "g": (
        Generated,
        {
            "text": _text,
            "finish_reason": _text_or_none,
            "reasoning": _text_or_none,
            "note": _text_or_none,
        },
    ),
    "t": (Tagged, {"labels": lambda values: tuple(map(_text, values))}),
    "p": (Compared, {"score": float}),
}
"""Kind of a stored answer -> its class, and its parts in order with what reads each; parts at the
end that are None are not stored."""
_KINDS = {of: kind for kind, (of, _) in _ANSWERS.items()}


def encode_answer(answer: Answer) -> str:
    """Encode an answer without its token counts, which have columns of their own."""
    kind = _KINDS[type(answer)]
    parts = [getattr(answer, name) for name in _ANSWERS[kind][1]]
    if isinstance(answer, Scored):  # non-finite numbers are written as text: JSON has none
        parts[0] = [value if isfinite(value) else str(value) for value in answer.log_probs]
    while parts and parts[-1] is None:
        parts.pop()
    return _dump([kind, *parts])


def decode_answer(body: str, tokens_in: int, tokens_out: int) -> Answer:
    """Invert `encode_answer`.

    Raises:
        ValueError: it holds values of other types.
        StoreError: an answer of an unknown kind.
    """
    kind, *parts = orjson.loads(body)
    if not isinstance(kind, str) or kind not in _ANSWERS:
        raise StoreError(
            f"unknown kind of answer {kind!r}: a newer medstress wrote this run; use that version"
        )
    of, readers = _ANSWERS[kind]
    parts += [None] * (len(readers) - len(parts))
    values = {name: read(part) for (name, read), part in zip(readers.items(), parts, strict=True)}
    return of(**values, tokens_in=tokens_in, tokens_out=tokens_out)


def decode_edits(text: str) -> tuple[Edit, ...]:
    """Decode edits from the JSON text of their rows (`medstress.core.text.edit_rows`)."""
    return edits_of(orjson.loads(text))


def edits_text(edits: Iterable[Edit]) -> str:
    """Return edits as the JSON text that inquiries name them by; ids hold it, so it never changes.

    >>> edits_text(edits_of([["stem", 0, 3, "Ein"]]))
    '[["stem", 0, 3, "Ein"]]'
    """
    return json.dumps(edit_rows(edits), ensure_ascii=False)


def encode_item(item: Item) -> str:
    """Encode an item as JSON; for a unit of an item, the whole item."""
    return _dump({"kind": item.kind, **item.whole.encode()})


def decode_item(text: str) -> Any:
    """Invert `encode_item`.

    Raises:
        StoreError: an item of a kind that is not installed here.
    """
    row: dict[str, Any] = orjson.loads(text)
    kind = row.pop("kind")
    if kind in _CLASSES:
        return _CLASSES[kind].decode(row)
    from medstress.tasks.kinds import kind_named  # few runs hold items of a plug-in

    try:
        return kind_named(kind).item.decode(row)
    except UsageError as error:
        raise StoreError(str(error)) from error


def _dump(value: Any) -> str:
    return orjson.dumps(value, default=str).decode()
