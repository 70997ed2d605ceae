"""One row of questions, validated once, and the source `table`: questions from any file of rows.

A row of the documented format holds `id`; `question`, or `context` and `stem`; `options`, a list or
``{"A": ...}``; the key as `answer_idx`, a letter or a 0-based position; and optionally `passage`
and `mentions`. A null counts as absent. Further fields become metadata. Rows of other forms, an
answer as a text among them, are turned into this one by `medstress.datasets.layouts`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from sys import intern
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from medstress.core.errors import DataError, did_you_mean
from medstress.core.items import LETTERS, Mention, Question, check_words
from medstress.core.resources import DECIDES
from medstress.datasets.cleaning import Cleaning, clean_passages
from medstress.datasets.layouts import Case, content_id, understand
from medstress.datasets.source import (
    DatasetOptions,
    Loaded,
    check_keys,
    collect,
    hash_files,
    required_file,
)
from medstress.datasets.tables import (
    Row,
    Table,
    plain,
    raise_error,
    read_table,
    shown,
    wrong,
)

Finish = Callable[[Row, Question], Question]
"""Gets a row and its question, returns what becomes of it; raises `DataError` about the row."""

_EXPECTED = {
    "string_type": "a text",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "list_type": "a list",
    "tuple_type": "a list of objects",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "missing": "a value",
}
"""Pydantic's name of a fault -> what was expected."""


def _identifier(value: Any) -> Any:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if is_number else value


def _options(value: Any) -> Any:
    """Return the options of an object keyed by letter as a list."""
    if not isinstance(value, Mapping):
        return list(value) if isinstance(value, tuple) else value
    letters = sorted(map(str, value))
    if letters != list(LETTERS[: len(letters)]):
        raise DataError(
            f"field 'options': expected the letters {', '.join(LETTERS[: len(letters)])}, got "
            f"{', '.join(letters)}"
        )
    return [value[letter] for letter in letters]


class MentionRow(BaseModel):
    """One mention as a row writes it."""

    model_config = ConfigDict(strict=True)

    field: str
    start: int
    end: int
    type: Annotated[str, BeforeValidator(lambda value: "" if value is None else value)]


class QuestionRow(BaseModel):
    """One question as a row writes it; other fields are metadata."""

    model_config = ConfigDict(strict=True, extra="allow")

    id: Annotated[str, BeforeValidator(_identifier)]
    question: str | None = None
    context: str | None = None
    stem: str | None = None
    passage: str | None = None
    passage_decides: bool | None = None
    options: Annotated[list[str], BeforeValidator(_options)]
    answer_idx: Any = None
    mentions: Annotated[list[MentionRow], BeforeValidator(lambda value: value or [])] = []


def question_from_row(row: Mapping[str, Any]) -> Question:
    """Turn one row into a question.

    Raises:
        DataError: names the field, what was expected and what came, but not file or line.

    >>> item = question_from_row({"id": 7, "question": "Febrile. Why?", "options": ["Flu", "Cold"],
    ...                           "answer_idx": 1, "year": 2024})
    >>> item.id, item.context, item.stem, item.key, item.metadata
    ('7', 'Febrile.', 'Why?', 'B', {'year': 2024})
    """
    for name, expected in (("id", "a text or a whole number"), ("options", "2 to 10 options")):
        if row.get(name) is None:
            others = [one for one in row if one not in QuestionRow.model_fields]
            raise wrong(name, expected, None, f"fill it{did_you_mean(name, others)}")
    try:
        made = QuestionRow.model_validate(row)
    except ValidationError as error:
        raise _fault(error) from error
    if not made.id.strip():
        raise wrong("id", "a text or a whole number", made.id)
    if not 2 <= len(made.options) <= len(LETTERS):
        raise DataError(f"field 'options': expected 2 to 10 options, got {len(made.options)}")
    context, stem = _context_and_stem(made, row)
    options = tuple(made.options)
    metadata = {name: plain(value) for name, value in (made.model_extra or {}).items()}
    if DECIDES in row:
        metadata[DECIDES] = row[DECIDES]
    passage = made.passage or ""
    item = Question(
        id=made.id,
        context=context,
        stem=stem,
        passage=" " if passage and not passage.strip() else passage,
        options=options,
        key=_key(made.answer_idx, LETTERS[: len(options)]),
        # Interned: all mentions of all items share a few types.
        mentions=tuple(
            Mention(field=one.field, start=one.start, end=one.end, type=intern(one.type))
            for one in made.mentions
        ),
        metadata=metadata,
    )
    check_words(item)
    return item


def _fault(error: ValidationError) -> DataError:
    """Return the first fault in our words."""
    fault = error.errors()[0]
    first, *rest = fault["loc"]
    where = "".join(f", {one!r}" if isinstance(one, str) else f", entry {one + 1}" for one in rest)
    if first == "options" and fault["type"] == "list_type":
        expected = "a list or an object keyed by letter"
    else:
        expected = _EXPECTED.get(fault["type"], fault["msg"])
    came = "nothing" if fault["type"] == "missing" else shown(fault["input"])
    return DataError(f"field {first!r}{where}: expected {expected}, got {came}")


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


def _context_and_stem(made: QuestionRow, row: Mapping[str, Any]) -> tuple[str, str]:
    question, context, stem = made.question, made.context, made.stem
    if question is None and stem is None:
        name = "question" if context is None else "stem"
        others = [one for one in row if one not in QuestionRow.model_fields]
        expected = "a text ('question', or 'context' and 'stem')"
        raise wrong(name, expected, None, f"fill it{did_you_mean(name, others)}")
    if stem is None:
        if context is not None:
            raise DataError("field 'context': expected it with 'stem', got it with 'question'")
        return split_question(question or "")
    if question is not None and question != (f"{context} {stem}" if context else stem):
        expected = "'context', one space and 'stem' joined"
        raise wrong("question", expected, question, "leave it out, or those two")
    return context or "", stem


def _key(index: Any, letters: str) -> str:
    if isinstance(index, int) and not isinstance(index, bool) and 0 <= index < len(letters):
        return letters[index]
    if isinstance(index, str) and len(index) == 1 and index in letters:
        return index
    expected = f"one of {', '.join(letters)} or a position from 0 to {len(letters) - 1}"
    raise wrong("answer_idx", expected, index)


# -- files ---------------------------------------------------------------------------------------


def load(options: DatasetOptions) -> Loaded:
    """Read questions from a file of rows.

    Raises:
        UsageError: no path, a missing file, or a key that does not apply.
        DataError: an empty file, rows that fit no layout or two, or a bad row, if `on_bad_row` is
            ``error``.
    """
    check_keys("table", options, "path", "columns", "answer_base", "encoding", "sheet")
    path = required_file("table", "path", options.path)
    table = read_table(path, encoding=options.encoding, sheet=options.sheet)
    return read_questions(table, options)


def read_questions(table: Table, options: DatasetOptions, finish: Finish | None = None) -> Loaded:
    """Turn the rows of a file into questions; see `load`.

    Args:
        table: the rows.
        options: the keys `columns`, `answer_base` and `on_bad_row`.
        finish: changes the questions.
    """
    layout, rows = understand(table, options.columns, options.answer_base)
    cleaning = Cleaning(skips_figures=options.on_bad_row == "skip")
    numbers: dict[str, int] = {}

    def convert(one: Case | DataError) -> Question:
        case = raise_error(one)
        row = cleaning.row(case.place, layout.row(case))
        if layout.identifier is None:
            name = content_id(row)
            numbers[name] = n = numbers.get(name, 0) + 1
            row["id"] = name if n == 1 else f"{name}-{n}"
        item = question_from_row(row)
        return finish(case.row, item) if finish else item

    questions, skipped = collect(table.path, rows, convert, options.on_bad_row)
    questions, notes = clean_passages(questions)
    how = layout.words(options.columns)
    unusual = f" ({table.unusual})" if table.unusual else ""
    n = len(questions)
    understood = f"{table.path.name}{unusual}: {n:,} question{'s' * (n != 1)}; {how}"
    return Loaded(
        questions=questions,
        skipped=skipped,
        source_hash=hash_files(table.path),
        notes=(*cleaning.notes(len(rows)), *_again(questions), *notes),
        understood="" if layout.is_documented and not unusual else understood,
    )


def _again(questions: Sequence[Question]) -> list[str]:
    """Return a sentence about questions that come again, and one about those with another key."""
    first: dict[tuple[str, ...], tuple[str, str]] = {}
    again: dict[bool, list[tuple[str, str]]] = {True: [], False: []}
    for item in questions:
        key, question, passage, *options = (
            " ".join(text.split()).casefold()
            for text in (item.key_text, item.question, item.passage, *item.options)
        )
        name, right = first.setdefault((question, passage, *sorted(options)), (item.id, key))
        if name != item.id:
            again[right == key].append((item.id, name))
    notes = []
    for is_same, pairs in again.items():
        if pairs:
            one, other = pairs[0]
            how = (
                f"under another id, such as {one!r}, which is {other!r}; each is an item of its own"
                if is_same
                else f"with another right answer, such as {one!r} and {other!r}; one of the two is "
                "wrong"
            )
            notes.append(f"{len(pairs)} of {len(questions)} questions are asked again {how}")
    return notes
