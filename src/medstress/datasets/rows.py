"""The conversion of rows that all question sources share: the documented row format.

A row holds `id`; `question`, or `context` and `stem`; `options`, a list or ``{"A": ...}``; the
key as `answer_idx` (a letter or a 0-based position), else as `answer` (a letter, else the exact
text of one option); and optionally `passage` and `mentions`. A null counts as absent. Further
fields become metadata. Rows of other forms are turned into this one by `medstress.datasets.forms`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from sys import intern
from typing import Any

from medstress.core.errors import DataError, did_you_mean
from medstress.core.items import LETTERS, Mention, Question, check_words
from medstress.core.passages import DECIDES
from medstress.datasets.values import plain, shown

FIELDS = {"id", "question", "context", "stem", "passage", "options", "answer_idx", "mentions"}
"""Fields with a meaning; `answer` is one where `answer_idx` is missing, or says the same."""


def question_from_row(row: Mapping[str, Any]) -> Question:
    """Turn one row into a question.

    Raises:
        DataError: names the field, what was expected and what came, but not file or line.

    >>> item = question_from_row({"id": 7, "question": "Febrile. Why?", "options": ["Flu", "Cold"],
    ...                           "answer_idx": 1, "year": 2024})
    >>> item.id, item.context, item.stem, item.key, item.metadata
    ('7', 'Febrile.', 'Why?', 'B', {'year': 2024})
    """
    identifier = _identifier(row)
    context, stem = _context_and_stem(row)
    options = _options(row)
    key = _key(row, options)
    answer = row.get("answer")
    used = answer is None or _letter_of_answer(answer, options) is not None
    metadata = {
        name: plain(value)
        for name, value in row.items()
        if name not in FIELDS and not (name == "answer" and used)
    }
    item = Question(
        id=identifier,
        context=context,
        stem=stem,
        passage=_passage(row),
        options=options,
        key=key,
        mentions=mentions_of(row),
        metadata=metadata,
    )
    check_words(item)
    return item


def row_from_question(item: Question) -> dict[str, Any]:
    """Return the row that `question_from_row` reads as this question, without metadata."""
    return {
        "id": item.id,
        **({"passage": item.passage} if item.passage else {}),
        "context": item.context,
        "stem": item.stem,
        "options": dict(zip(item.letters, item.options, strict=True)),
        "answer_idx": item.key,
        "mentions": [asdict(mention) for mention in item.mentions],
    }


def split_question(text: str) -> tuple[str, str]:
    """Split a question at the last ``". "`` into context and stem.

    Context, one space and stem joined give exactly the question. Differs from the rule of Xian et
    al. (METHODS 1.1) in two points: the context keeps its full stop, and white space at the very
    end is ignored, since it would leave an empty stem.

    >>> split_question("A man coughs. He smokes. What is next?")
    ('A man coughs. He smokes.', 'What is next?')
    >>> split_question("What is next?")
    ('', 'What is next?')
    """
    at = text.rfind(". ", 0, len(text.rstrip()))
    return ("", text) if at < 0 else (text[: at + 1], text[at + 2 :])


def _missing(row: Mapping[str, Any], name: str, expected: str) -> DataError:
    hint = did_you_mean(name, [each for each in row if each not in FIELDS and each != "answer"])
    return DataError(f"field {name!r}: expected {expected}, got nothing{hint}")


def _identifier(row: Mapping[str, Any]) -> str:
    value = row.get("id")
    if value is None:
        raise _missing(row, "id", "a text or a whole number")
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        raise DataError(f"field 'id': expected a text or a whole number, got {shown(value)}")
    return str(value)


def _text(row: Mapping[str, Any], name: str) -> str | None:
    value = row.get(name)
    if value is None or isinstance(value, str):
        return value
    raise DataError(f"field {name!r}: expected a text, got {shown(value)}")


def _context_and_stem(row: Mapping[str, Any]) -> tuple[str, str]:
    question, context, stem = (_text(row, name) for name in ("question", "context", "stem"))
    if question is None and stem is None:
        name = "question" if context is None else "stem"
        raise _missing(row, name, "a text ('question', or 'context' and 'stem')")
    if stem is None:
        if context is not None:
            raise DataError("field 'context': expected it with 'stem', got it with 'question'")
        return split_question(question or "")
    joined = f"{context} {stem}" if context else stem
    if question is not None and question != joined:
        raise DataError(
            "field 'question': expected 'context', one space and 'stem' joined (or leave those "
            f"two out), got {shown(question)}"
        )
    return context or "", stem


def _passage(row: Mapping[str, Any]) -> str:
    """Return the passage; one space for a text without any, which is then counted as none."""
    decides = row.get(DECIDES)
    if decides is not None and not isinstance(decides, bool):
        raise DataError(f"field {DECIDES!r}: expected true or false, got {shown(decides)}")
    text = _text(row, "passage")
    return "" if text is None else text if text.strip() else " "


def _options(row: Mapping[str, Any]) -> tuple[str, ...]:
    value = row.get("options")
    if value is None:
        raise _missing(row, "options", "2 to 10 options")
    if isinstance(value, Mapping):
        value = _lettered(value)
    elif not isinstance(value, list):
        raise DataError(
            f"field 'options': expected a list or an object keyed by letter, got {shown(value)}"
        )
    for position, text in enumerate(value):
        if not isinstance(text, str):
            letter = LETTERS[position] if position < len(LETTERS) else str(position)
            raise DataError(
                f"field 'options': expected texts, got {shown(text)} as option {letter}"
            )
    if not 2 <= len(value) <= len(LETTERS):
        raise DataError(
            f"field 'options': expected 2 to 10 options, got {len(value)}; change their number, or "
            'leave such rows out with on_bad_row = "skip"'
        )
    return tuple(value)


def _lettered(options: Mapping[Any, Any]) -> list[Any]:
    letters = sorted(map(str, options))
    while len(letters) > 2 and not str(options.get(letters[-1]) or "").strip():
        letters.pop()  # a file for five options with a question of four
    if letters != list(LETTERS[: len(letters)]) and len(letters) <= len(LETTERS):
        raise DataError(
            f"field 'options': expected the letters {', '.join(LETTERS[: len(letters)])}, "
            f"got {', '.join(letters)}"
        )
    return [options[letter] for letter in letters]


def _key(row: Mapping[str, Any], options: tuple[str, ...]) -> str:
    letters = LETTERS[: len(options)]
    index, answer = row.get("answer_idx"), row.get("answer")
    if index is None and answer is None:
        raise _missing(row, "answer_idx", "a letter or a 0-based position (or the field 'answer')")
    if index is None:
        letter = _letter_of_answer(answer, options)
        if letter is None:
            raise DataError(
                f"field 'answer': expected one of {', '.join(letters)} or the exact text of an "
                f"option, got {shown(answer)}"
            )
        return letter
    if isinstance(index, int) and not isinstance(index, bool) and 0 <= index < len(letters):
        key = letters[index]
    elif isinstance(index, str) and len(index) == 1 and index in letters:
        key = index
    else:
        raise DataError(
            f"field 'answer_idx': expected one of {', '.join(letters)} or a position from 0 to "
            f"{len(letters) - 1}, got {shown(index)}"
        )
    # A letter can also be the text of another option (blood groups), so both readings are allowed.
    other = _letter_of_answer(answer, options)
    if other not in (None, key) and answer != options[letters.index(key)]:
        raise DataError(
            f"field 'answer': expected option {key} as in 'answer_idx', got {shown(answer)}, which "
            f"is option {other}"
        )
    return key


def _letter_of_answer(answer: Any, options: tuple[str, ...]) -> str | None:
    if not isinstance(answer, str):
        return None
    letters = LETTERS[: len(options)]
    if len(answer) == 1 and answer in letters:
        return answer
    return letters[options.index(answer)] if answer in options else None


def mentions_of(row: Mapping[str, Any]) -> tuple[Mention, ...]:
    """The mentions that a row brings; whether they lie in their texts is not checked.

    Raises:
        DataError: naming the entry.
    """
    value = row.get("mentions")
    if value is None:
        return ()
    if not isinstance(value, list):
        raise DataError(f"field 'mentions': expected a list of objects, got {shown(value)}")
    return tuple(_mention(entry, n) for n, entry in enumerate(value, start=1))


def _mention(entry: Any, number: int) -> Mention:
    where = f"field 'mentions', entry {number}"
    if not isinstance(entry, Mapping):
        raise DataError(f"{where}: expected an object, got {shown(entry)}")
    for name in ("field", "start", "end", "type"):
        if name not in entry:
            raise DataError(f"{where}: expected {name!r}, got nothing{did_you_mean(name, entry)}")
    for name in ("start", "end"):
        if isinstance(entry[name], bool) or not isinstance(entry[name], int):
            raise DataError(
                f"{where}: expected a whole number as {name!r}, got {shown(entry[name])}"
            )
    type_ = "" if entry["type"] is None else entry["type"]
    if not isinstance(entry["field"], str) or not isinstance(type_, str):
        wrong = "type" if isinstance(entry["field"], str) else "field"
        raise DataError(f"{where}: expected a text as {wrong!r}, got {shown(entry[wrong])}")
    # Interned: all mentions of all items share a few types.
    return Mention(field=entry["field"], start=entry["start"], end=entry["end"], type=intern(type_))
