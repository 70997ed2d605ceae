"""Encode answers, edits and items as JSON text and decode them, without loss."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any

import orjson

from medstress.core.calls import Answer, Chosen, Compared, Generated, Scored, Tagged
from medstress.core.errors import StoreError, UsageError
from medstress.core.items import Item, Question
from medstress.core.sentences import SentencePair, TaggedText
from medstress.core.text import Edit, edit_rows, edits_of

_CLASSES: Mapping[str, type[Item]] = {one.kind: one for one in (Question, TaggedText, SentencePair)}


def encode_answer(answer: Answer) -> str:
    """Encode an answer without its token counts, which have columns of their own."""
    if isinstance(answer, Chosen):
        return _dump(["c", answer.text, answer.answer, answer.scores])
    if isinstance(answer, Scored):
        noted = () if answer.note is None else (answer.note,)
        return _dump(["s", _plain(answer.log_probs), answer.n_tokens, *noted])
    if isinstance(answer, Generated):
        noted = () if answer.note is None else (answer.note,)
        ended = [answer.finish_reason, answer.reasoning, *noted]
        return _dump(["g", answer.text, *(ended if any(ended) else ())])
    if isinstance(answer, Tagged):
        return _dump(["t", answer.labels])
    return _dump(["p", answer.score])


def decode_answer(body: str, tokens_in: int, tokens_out: int) -> Answer:
    """Invert `encode_answer`.

    Raises:
        ValueError: it holds values of other types.
        StoreError: an answer of an unknown kind.
    """
    kind, *parts = orjson.loads(body)
    if kind == "s":
        return Scored(
            log_probs=tuple(map(float, parts[0])),
            n_tokens=tuple(map(int, parts[1])),
            note=_text_or_none(parts[2]) if len(parts) > 2 else None,
            tokens_in=tokens_in,
            tokens_out=tokens_out,
        )
    if kind == "g":
        # None of these is stored for a plain reply.
        finish_reason, reasoning, note = [*parts[1:], None, None, None][:3]
        return Generated(
            text=_text(parts[0]),
            finish_reason=_text_or_none(finish_reason),
            reasoning=_text_or_none(reasoning),
            note=_text_or_none(note),
            tokens_in=tokens_in,
            tokens_out=tokens_out,
        )
    if kind == "t":
        return Tagged(
            labels=tuple(map(_text, parts[0])), tokens_in=tokens_in, tokens_out=tokens_out
        )
    if kind == "p":
        return Compared(score=float(parts[0]), tokens_in=tokens_in, tokens_out=tokens_out)
    if kind == "c":
        scores = None if parts[2] is None else tuple(map(_number_or_none, parts[2]))
        return Chosen(
            text=_text_or_none(parts[0]),
            answer=_text_or_none(parts[1]),
            scores=scores,
            tokens_in=tokens_in,
            tokens_out=tokens_out,
        )
    raise StoreError(
        f"unknown kind of answer {kind!r}: a newer medstress wrote this run; use that version"
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"expected a text, got {type(value).__name__}")
    return value


def _text_or_none(value: Any) -> str | None:
    return None if value is None else _text(value)


def _number_or_none(value: Any) -> Any:
    if value is not None and type(value) not in (int, float):
        raise ValueError(f"expected a number, got {type(value).__name__}")
    return value


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


def _plain(values: tuple[float, ...]) -> list[float | str]:
    """Write non-finite numbers as text, because JSON has none."""
    return [value if isfinite(value) else str(value) for value in values]


def _dump(value: Any) -> str:
    return orjson.dumps(value, default=str).decode()
