"""What the columns of one file hold, and the translation of its rows into the documented format."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

from medstress.core.errors import DataError
from medstress.core.hashing import content_hash
from medstress.core.items import LETTERS
from medstress.datasets.forms.answers import AnswerForm, Case, Form, Unsettled, find_form
from medstress.datasets.forms.naming import (
    ANSWERS,
    CASES,
    FLAGS,
    IDS,
    QUESTIONS,
    WEAK_ANSWERS,
    WEAK_QUESTIONS,
    called,
    columns_of,
    filled_columns,
    is_nothing,
    plain_name,
)
from medstress.datasets.forms.options import OptionsForm, find_options, parsed
from medstress.datasets.source import DatasetOptions
from medstress.datasets.tables.table import Row
from medstress.datasets.values import shown

_WITHHELD = "-1"
"""What published test splits hold instead of answers."""
_AGREE = 0.8
"""A second column of answers is one if it agrees with the first in this share of rows."""
_GIVEN: dict[str, frozenset[Form] | None] = {
    "answer_text": frozenset({"text"}),
    "answer_idx": frozenset({"letter", "number"}),
    "answer": None,
}
"""Field that `columns` names -> the forms its cells may have."""

Rows = Sequence[tuple[str, Row]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How one file holds questions."""

    question: tuple[str, str]
    """Columns of context ("" if none) and stem, or "" and that of the whole question."""
    options: OptionsForm
    """Where the options are."""
    answer: AnswerForm
    """How the answer is said."""
    others: tuple[AnswerForm, ...] = ()
    """Further columns of answers, which have to agree."""
    identifier: str | None = None
    """The column of ids; None: ids are made from the content."""

    def told(self, columns: Mapping[str, Any]) -> str:
        """Return it in words, on one line.

        Args:
            columns: the user's key: fields named here, whose names in the file are told.
        """
        found = self._in_words()
        for name, own in columns.items():
            if isinstance(own, str):
                found = found.replace(f"in {name!r}", f"in {own!r}")
        return found

    def _in_words(self) -> str:
        context, stem = self.question
        question = (
            f"context in {context!r}, question in {stem!r}" if context else f"question in {stem!r}"
        )
        ids = "ids from the content" if self.identifier is None else f"ids in {self.identifier!r}"
        return f"{question}, {self.options.told}, {self.answer.told}, {ids}"

    def row(self, given: Row) -> Row:
        """Return a row in the documented format, with ``id`` None where it comes from the content.

        Raises:
            DataError: names the column, what was expected and what came.
        """
        context, stem = self.question
        options = self.options.read(given)
        position = self.answer.position(_answer(given, self.answer.column), options)
        for other in self.others:
            value = _answer(given, other.column)
            if not is_nothing(value) and other.position(value, options) != position:
                raise DataError(
                    f"field {other.column!r}: expected option {LETTERS[position]} as in "
                    f"{self.answer.column!r}, got {shown(value)}; fix the row"
                )
        used = {context, stem, self.identifier, self.answer.column, *self.options.columns}
        used |= {other.column for other in self.others}
        found = {name: value for name, value in given.items() if name not in used}
        found |= {
            "id": None if self.identifier is None else given.get(self.identifier),
            "options": list(options.texts),
            "answer_idx": LETTERS[position] if position < len(LETTERS) else position,
            **({"context": given.get(context)} if context else {}),
            ("stem" if context or plain_name(stem) == "stem" else "question"): _text(given, stem),
        }
        if not context and is_nothing(found.get("context")):
            found.pop("context", None)  # empty in all rows
        if isinstance(mentions := found.get("mentions"), str):
            found["mentions"] = parsed(mentions, "mentions") if mentions.strip() else None
        return found


def understand(path: Path, rows: Rows, options: DatasetOptions) -> Layout:
    """Find the layout of a file.

    Args:
        path: the file, for messages.
        rows: place and fields of every readable row, with fields named by `columns` renamed.
        options: what the user says of it.

    Raises:
        DataError: something is missing, or fits in two ways; the message names the key.
    """
    try:
        return _understood(rows, options)
    except DataError as error:
        raise DataError(f"{path}: {error}") from error


def _understood(rows: Rows, options: DatasetOptions) -> Layout:
    given = options.columns
    fields = [row for _, row in rows]
    columns, filled = columns_of(fields), filled_columns(fields)
    # Columns of a few rows alone say nothing of the file.
    common = filled_columns(fields, above=len(fields) / 2 - 1 / 2)
    options_form = find_options(fields, columns, given.get("options"))
    question = _question(fields, [c for c in common if c not in options_form.columns], given)
    cases = _readable(rows, options_form)
    taken = {*question, *options_form.columns}
    answer, others = _answers(cases, [c for c in common if c not in taken], options)
    if not set(_GIVEN) & set(given):
        rest = [c for c in filled if c not in taken and c not in {o.column for o in others}]
        _check_flag(answer, cases, rest)
    return Layout(
        question=question,
        options=options_form,
        answer=answer,
        others=others,
        identifier=_identifier(fields, filled, given),
    )


def content_id(row: Row) -> str:
    """Return an id made from the content of a row in the documented format."""
    names = ("context", "stem", "question", "passage", "options", "answer_idx")
    return content_hash([row.get(name) for name in names]).rpartition(":")[2][:12]


def _answer(row: Row, column: str) -> Any:
    """Return a cell with an answer; a list of one answer is that answer."""
    value = row.get(column)
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _text(row: Row, column: str) -> str:
    value = row.get(column)
    if isinstance(value, str) and value.strip():
        return value
    raise DataError(f"field {column!r}: expected the text of the question, got {shown(value)}")


def _readable(rows: Rows, form: OptionsForm) -> list[tuple[str, Row, Any]]:
    """Return the rows whose options can be read, with the options.

    Raises:
        DataError: none can; that about the first.
    """
    found, first = [], None
    for place, row in rows:
        try:
            found.append((place, row, form.read(row)))
        except DataError as error:
            first = first or DataError(f"{place}: {error}")
    if not found and first is not None:
        raise first
    return found


def _question(rows: Sequence[Row], columns: Sequence[str], given: Any) -> tuple[str, str]:
    """Return the columns of context and stem."""
    if "question" in given:
        return "", "question"
    if "stem" in given:
        return ("context" if "context" in given else ""), "stem"
    texts = [c for c in columns if any(isinstance(row.get(c), str) for row in rows)]
    found = called(texts, QUESTIONS) or called(texts, WEAK_QUESTIONS)
    if not found:
        raise DataError(
            "expected a header with a column such as 'question', got the columns "
            f'{", ".join(columns)}; name it with columns = {{question = "..."}}'
        )
    beside = [c for c in called(texts, WEAK_QUESTIONS) if c not in found and _is_prose(rows, c)]
    found = [*found, *beside]
    different = [c for c in found[1:] if any(row.get(c) != row.get(found[0]) for row in rows)]
    context = next(iter(called(texts, ("context",))), None)
    if different and not (context and {"question", "stem"} >= {*map(plain_name, found)}):
        case = next(iter(called(found, CASES)), None)
        rest = [c for c in found if c != case]
        asked = next((c for c in rest if _is_prose(rows, c)), rest[0])
        first_part = case or next(c for c in rest if c != asked)
        raise DataError(
            f"expected one column that holds the question, got {found[0]!r} and "
            f"{', '.join(map(repr, different))}; choose with columns = "
            f'{{question = "{asked}"}}, or, if it has two parts, columns = {{context = "'
            f'{first_part}", stem = "{asked}"}}'
        )
    if context is None:
        return "", found[0]
    stem = next((c for c in found if plain_name(c) == "stem"), None)
    if stem is None and "passage" not in given and "context" not in given:
        raise DataError(
            f"expected 'context' with 'stem', got it with {found[0]!r}; say what it is: columns = "
            f'{{context = "{context}", stem = "{found[0]}"}} for the first part of the question, '
            f'columns = {{passage = "{context}"}} for a text to read before it'
        )
    return context, stem or found[0]


def _is_prose(rows: Sequence[Row], column: str) -> bool:
    """Return whether most cells hold three words or more, as no number or name of a row does."""
    cells = [row.get(column) for row in rows if not is_nothing(row.get(column))]
    return sum(isinstance(cell, str) and len(cell.split()) > 2 for cell in cells) > len(cells) / 2


def _answers(
    cases: Sequence[tuple[str, Row, Any]], columns: Sequence[str], options: DatasetOptions
) -> tuple[AnswerForm, tuple[AnswerForm, ...]]:
    """Return the form of the answers, and those of further columns that say the same.

    Raises:
        DataError: no column does, one fits in two ways, or two contradict each other.
    """
    given = [(name, only) for name, only in _GIVEN.items() if name in options.columns]
    candidates = given or [(name, None) for name in called(columns, ANSWERS)]
    of = partial(_cases, cases)
    found: list[AnswerForm] = []
    unsettled: list[tuple[str, Unsettled]] = []

    for column, only in candidates:
        try:
            form = find_form(column, of(column), options.answer_base, only)
        except Unsettled as error:
            unsettled.append((column, error))
        else:
            found += [form] if form else []
    if not found:
        raise (
            unsettled[0][1] if unsettled else _no_answer(cases, columns, [c for c, _ in candidates])
        )
    found.sort(key=lambda form: plain_name(form.column) in WEAK_ANSWERS)
    first, others = found[0], list[AnswerForm]()
    rivals = [*found[1:], *(_closest(column, first, of) for column, _ in unsettled)]
    for other in rivals:
        share = _agreement(first, other, of(first.column), of(other.column))
        if share >= _AGREE:
            others.append(other)
        elif plain_name(other.column) not in WEAK_ANSWERS:
            raise DataError(
                f"expected one column that holds the answer, got {first.column!r} and "
                f"{other.column!r}, which say different things; choose with columns = "
                f'{{answer = "{first.column}"}}'
            )
    if first.doubt is not None and not others:
        raise first.doubt
    return first, tuple(others)


def _cases(cases: Sequence[tuple[str, Row, Any]], column: str) -> list[Case]:
    return [
        Case(place=place, value=_answer(row, column), options=read) for place, row, read in cases
    ]


def _check_flag(
    answer: AnswerForm, cases: Sequence[tuple[str, Row, Any]], columns: Sequence[str]
) -> None:
    """Refuse a column of answers with a weak name beside another that could be the answers.

    Args:
        answer: the form of the column.
        cases: the rows with their options.
        columns: all columns with a value that hold nothing else of a question.
    """
    if plain_name(answer.column) not in FLAGS:
        return

    of = partial(_cases, cases)

    def fits(form: AnswerForm) -> int:
        return sum(_position(form, case) is not None for case in of(form.column))

    for column in columns:
        if column == answer.column or plain_name(column) in IDS:
            continue
        try:
            other = find_form(column, of(column), None)
        except Unsettled:
            other = _closest(column, answer, of)
        if other is None:
            continue
        # One with a better name is here because most of its cells are empty.
        named = plain_name(column) in ANSWERS and plain_name(column) not in FLAGS
        same = _agreement(answer, other, of(answer.column), of(column)) >= _AGREE
        if named or (fits(other) >= fits(answer) and not same):
            raise DataError(
                f"expected one column that holds the answer, got {answer.column!r} and "
                f"{column!r}, whose values fit as well; choose with columns = "
                f'{{answer = "{column}"}} or columns = {{answer = "{answer.column}"}}'
            )


def _closest(column: str, first: AnswerForm, of: Callable[[str], list[Case]]) -> AnswerForm:
    """Return the reading of an unsettled column that agrees best with a settled one."""
    forms = [AnswerForm(column=column, form="number", base=base) for base in (0, 1)]
    forms += [AnswerForm(column=column, form="text"), AnswerForm(column=column, form="letter")]
    of_first, of_other = of(first.column), of(column)
    return max(forms, key=lambda form: _agreement(first, form, of_first, of_other))


def _agreement(
    one: AnswerForm, other: AnswerForm, of_one: Sequence[Case], of_other: Sequence[Case]
) -> float:
    """Return the share of rows with both answers in which they are the same."""
    n = same = 0
    for a, b in zip(of_one, of_other, strict=True):
        if is_nothing(a.value) or is_nothing(b.value):
            continue
        n += 1
        same += _position(one, a) == _position(other, b)
    return same / n if n else 0.0


def _position(form: AnswerForm, case: Case) -> int | None:
    try:
        return form.position(case.value, case.options)
    except DataError:
        return None


def _no_answer(
    cases: Sequence[tuple[str, Row, Any]], columns: Sequence[str], candidates: Sequence[str]
) -> DataError:
    """Return the error about a file in which no column says the answer."""
    near = next(iter(get_close_matches("answer", columns, n=1)), "...")
    mend = f'name it with columns = {{answer = "{near}"}}'
    if not candidates:
        return DataError(
            "expected a column with the right option, such as 'answer', got besides question and "
            f"options {', '.join(columns) or 'no column'}; {mend}, or, if these are questions of a "
            "test split that is published without answers, take train or validation"
        )
    if all(str(row.get(candidates[0])) == _WITHHELD for _, row, _ in cases):
        return DataError(
            f"field {candidates[0]!r}: expected the right options, got {_WITHHELD} in every row: "
            "this split is published without answers; take train or validation"
        )
    place, row, options = next(
        (case for case in cases if not is_nothing(case[1].get(candidates[0]))), cases[0]
    )
    others = [column for column in columns if column != candidates[0]]
    other = next(iter(get_close_matches("answer", others, n=1)), "...")
    elsewhere = f', or name their column with columns = {{answer = "{other}"}}' if others else ""
    last = LETTERS[min(len(options.texts), len(LETTERS)) - 1]
    return DataError(
        f"field {candidates[0]!r}: expected letters, numbers or texts of options in most rows, got "
        f"{shown(row.get(candidates[0]))} in {place}, whose options are A to {last}; fix the "
        f"answers{elsewhere}"
    )


def _identifier(rows: Sequence[Row], filled: Sequence[str], given: Any) -> str | None:
    """Return the column of ids; one that is not called `id` counts if it tells all rows apart."""
    if "id" in given or "id" in filled:
        return "id"
    for column in called(filled, IDS):
        values = [row.get(column) for row in rows]
        if plain_name(column) == "id":
            return column
        good = all(isinstance(v, str | int) and not isinstance(v, bool) for v in values)
        if good and len(set(map(str, values))) == len(values):
            return column
    return None
