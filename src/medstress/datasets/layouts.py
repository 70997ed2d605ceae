"""How a file holds questions: documented names of columns, and what all its rows say together.

A file says the same thing in every row: which columns hold the options, whether answers are
letters, numbers or texts, from where numbers count. So all rows are looked at before one is read.
What more than one reading fits is refused with the key that settles it.
"""

from __future__ import annotations

import ast
import io
import json
import re
import tokenize
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal, TypeAlias

from medstress.core.errors import DataError, UsageError, did_you_mean
from medstress.core.hashing import content_hash, digest
from medstress.core.items import LETTERS
from medstress.core.reading import MAX_COLUMNS
from medstress.core.tables import (
    Placed,
    Row,
    RowOrError,
    Table,
    attempt,
    columns_of,
    cut_names,
    is_nothing,
    plain_name,
    raise_error,
    shown,
    source_of,
    wrong,
)
from medstress.datasets.source import CONVERT_SPANS

NAMED = (
    *("answer", "answer_idx", "answer_text", "context", "id"),
    *("options", "passage", "question", "stem"),
)
"""Fields that `columns` may name."""
QUESTIONS = (
    *("question", "questiontext", "questionstem", "stem", "query", "prompt", "qtext", "sent1"),
)
PARTS = (
    *("context", "vignette", "casevignette", "case", "scenario"),
    *("leadin", "text", "problem", "item", "input"),
)
"""Names of a text that may belong to the question next to it."""
OPTION_LISTS = ("options", "choices", "answeroptions", "answerchoices", "alternatives", "answers")
ANSWERS = (
    *("answeridx", "answer", "answerkey", "correctoption", "correctanswer", "answerindex"),
    *("answerletter", "correctchoice", "correctletter", "correctindex", "correctidx", "correct"),
    *("correctansweridx", "rightanswer", "rightoption", "answertext", "cop", "ra", "ans"),
)
IDS = (
    *("id", "questionid", "qid", "itemid", "uid", "uuid", "guid", "exampleid", "sampleid"),
    *("caseid", "recordid", "uniqueid", "idx", "index"),
)
RIGHT = ("correctanswer", "rightanswer", "correct", "answer")
"""Names of the right answer next to columns of wrong ones."""
_COLUMN = re.compile(
    r"(answeroption|answerchoice|options?|opt|op|choices?|alternative|endings?|answers?|ans|)"
    r"([a-j]|\d\d?)"
)
_WRONG = re.compile(r"(?:distractor|incorrect|incorrectanswer|wronganswer)(\d\d?)")
_WRONG_LISTS = ("incorrectanswers", "distractors", "wronganswers")
_LABELS = ("key", "label", "letter", "aid", "id", "option_id", "option", "name")
_TEXTS = ("value", "text", "atext", "content", "answer", "option")
_LETTERED = re.compile(r"\(?([A-Ja-j])[).:]\s+(\S.*)", re.DOTALL)
_LETTER = re.compile(
    r"[\s(\[\"']*(?:option|choice|answer)?[\s:]*([A-Ja-j])[\s)\].:,\"']*", re.IGNORECASE
)
_WITH_TEXT = re.compile(r"\(?([A-Ja-j])[).:\-]\s*(\S.*)", re.DOTALL)
_NUMBER = re.compile(r"\(?\s*(-?\d{1,9})(?:\.0+)?\s*[).]?")
_SEVERAL = re.compile(r"\s*(?:[,;/&+|]|\band\b)\s*")
_SEVERAL_RIGHT = "these are several right answers, and medstress asks questions with one"
_YES_FIRST = (("true", "false"), ("yes", "no"))
"""Two options of which the first, number 0, is what 1 often means."""
_AGREE = 0.8
"""A second column of answers is one if it agrees with the first in this share of rows."""

ColumnNames: TypeAlias = Mapping[str, str | Sequence[str]]
"""The key `columns`: field -> its name in the file; `options` may be a list of names."""
Form = Literal["letter", "label", "text", "number"]
_WORDS: dict[Form, str] = {
    "letter": "letters",
    "label": "names of options",
    "text": "texts of options",
    "number": "numbers",
}
_SETTLES: dict[Form, str] = {
    "letter": 'columns = {{answer_idx = "{}"}} if it is a letter',
    "label": "letters as answers if it is the name of an option",
    "text": 'columns = {{answer_text = "{}"}} if it is the text of an option',
    "number": "answer_base = 0 or answer_base = 1 if it is a number",
}
"""What says that a column has answers of a form."""
_FORMS_OF: dict[str, tuple[Form, ...]] = {
    "answer_text": ("text",),
    "answer_idx": ("letter", "number"),
    "answer": ("letter", "label", "text", "number"),
}
"""Field that `columns` names -> the forms its cells may have."""


class Unsettled(DataError):
    """More than one reading of a column of answers fits; the message names the key."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of one row."""

    texts: tuple[str, ...]
    """In order."""
    labels: tuple[str, ...] = ()
    """What the file calls them, where that is not A, B, C, ... in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionsForm:
    """Where and how a file holds options."""

    columns: tuple[str, ...]
    """The columns that hold them."""
    words: str
    """In words."""
    read: Callable[[Row], Options]
    """Reads one row; raises `DataError`."""

    def texts(self, row: Row) -> tuple[str, ...] | None:
        """Return the options of a row; None if they cannot be read."""
        options = attempt(self.read, row)
        return None if isinstance(options, DataError) else options.texts


@dataclass(frozen=True, slots=True)
class Case:
    """One row with its options."""

    place: str
    row: Row
    options: Options

    def value(self, column: str) -> Any:
        """Return a cell with an answer; a list of one answer is that answer."""
        cell = self.row.get(column)
        return cell[0] if isinstance(cell, list) and len(cell) == 1 else cell


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerForm:
    """How one column says the answer."""

    column: str
    form: Form
    base: int = 0
    """The number of the first option."""

    @property
    def words(self) -> str:
        """In words."""
        of = f" from {self.base}" if self.form == "number" else ""
        return f"answers in {self.column!r} as {_WORDS[self.form]}{of}"

    def find(self, value: Any, options: Options) -> int | None:
        """Return the position of the right option, or None if the value names none."""
        at = _READERS[self.form](value, options)
        at = at - self.base if at is not None and self.form == "number" else at
        return at if at is not None and 0 <= at < len(options.texts) else None

    def position(self, case: Case) -> int:
        """Return the position of the right option.

        Raises:
            DataError: no answer, several, or one that is none of the options.
        """
        value, options = case.value(self.column), case.options
        at = None if is_nothing(value) else self.find(value, options)
        if at is not None:
            return at
        if _n_answers(value, self, options) > 1:
            raise wrong(self.column, "one right answer", value, _SEVERAL_RIGHT)
        n = len(options.texts)
        expected = {
            "letter": f"one of the letters {', '.join(LETTERS[:n])}",
            "number": f"a number from {self.base} to {self.base + n - 1}",
            "text": "the text of one option",
            "label": f"one of {', '.join(options.labels or LETTERS[:n])}",
        }[self.form]
        as_others = f"{expected}, as the file's other answers are {_WORDS[self.form]}"
        raise wrong(self.column, as_others, value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How one file holds questions."""

    question: tuple[str, str]
    """Columns of context ("" if none) and stem, or "" and that of the whole question; "" twice
    where some rows have a `question` and others a `stem`."""
    options: OptionsForm
    """Where the options are."""
    answers: tuple[AnswerForm, ...]
    """How the answer is said; the first that is filled decides, the others have to agree."""
    identifier: str | None = None
    """The column of ids; None: ids are made from the content."""

    def words(self, columns: ColumnNames) -> str:
        """Return it in words, on one line; fields that `columns` names by their names there."""
        context, stem = self.question
        question = f"context in {context!r}, " if context else ""
        ids = "ids from the content" if self.identifier is None else f"ids in {self.identifier!r}"
        words = f"{question}question in {stem or 'question'!r}, {self.options.words}, "
        words += f"{self.answers[0].words}, {ids}"
        for name, own in columns.items():
            words = words.replace(f"in {name!r}", f"in {own!r}") if isinstance(own, str) else words
        return words

    @property
    def is_documented(self) -> bool:
        """Whether the file is in medstress's own format, and nothing had to be chosen."""
        answer = self.answers[0]
        return (
            self.identifier == "id"
            and self.question in (("", "question"), ("context", "stem"), ("", "stem"), ("", ""))
            and self.options.columns == ("options",)
            and answer.column in ("answer", "answer_idx")
            and answer.form != "number"
        )

    def row(self, case: Case) -> Row:
        """Return a row in the documented format; ``id`` is None where it comes from the content.

        Raises:
            DataError: names the column, what was expected and what came.
        """
        cells, (context, stem) = case.row, self.question
        if stem and (not isinstance(cells.get(stem), str) or is_nothing(cells[stem])):
            raise wrong(stem, "the text of the question", cells.get(stem))
        filled = [a for a in self.answers if not is_nothing(case.value(a.column))]
        first, *others = filled or self.answers[:1]
        position = first.position(case)
        for other in others:
            value = case.value(other.column)
            if other.find(value, case.options) != position:
                as_in = f"option {LETTERS[position]} as in {first.column!r}"
                raise wrong(other.column, as_in, value)
        used = {context, stem, self.identifier, *self.options.columns}
        used |= {answer.column for answer in self.answers}
        row = {name: value for name, value in cells.items() if name not in used}
        row |= {
            "id": None if self.identifier is None else cells.get(self.identifier),
            "options": list(case.options.texts),
            "answer_idx": LETTERS[position] if position < len(LETTERS) else position,
        }
        if context:
            row["context"] = cells.get(context)
        elif stem and is_nothing(row.get("context")):
            row.pop("context", None)  # empty in all rows
        if stem:
            row["stem" if context or plain_name(stem) == "stem" else "question"] = cells.get(stem)
        if isinstance(mentions := row.get("mentions"), str):
            row["mentions"] = parsed(mentions, "mentions") if mentions.strip() else None
        return row


def understand(
    table: Table, columns: ColumnNames, answer_base: int | None
) -> tuple[Layout, list[tuple[str, Case | DataError]]]:
    """Find the layout of a file.

    Args:
        table: its rows.
        columns: the key of this name.
        answer_base: the number of the first option, or None.

    Returns:
        The layout, and all rows with their options, or what is wrong with them.

    Raises:
        UsageError: `columns` names what no field or column is called.
        DataError: something is missing, or fits in two ways; the message names the key.
    """
    rows = _renamed(table, columns)
    if not table.good:
        place, error = rows[0]
        raise DataError(f"{table.path}, {place}: {error}")
    try:
        _check_header(table)
        return _understood(rows, columns, answer_base)
    except DataError as error:
        if (source := source_of(columns_of(table.good))) != "table":
            raise DataError(
                f"{table.path}: expected questions with options, got rows for another source; give "
                f'name = "{source}"'
            ) from error
        raise type(error)(f"{table.path}: {error}") from error


def _renamed(table: Table, columns: ColumnNames) -> list[Placed]:
    """Return rows with fields named by `columns`, without nesting, and classes by their names."""
    names = columns_of(table.good)
    for name, own in columns.items():
        if name not in NAMED:
            raise UsageError(
                f"columns: expected fields of {', '.join(NAMED)}, got {name!r}"
                f"{did_you_mean(name, NAMED)}"
            )
        if not isinstance(own, str) and name != "options":
            raise UsageError(f"columns: expected one name for {name!r}, got {list(own)!r}")
        for column in [own] if isinstance(own, str) else own:
            if names and column not in names:
                raise UsageError(
                    f"{table.path}: columns: expected a column {column!r}, got {cut_names(names)}"
                    f"{did_you_mean(column, names)}"
                )
    single = {name: own for name, own in columns.items() if isinstance(own, str)}

    def nests(name: str) -> bool:
        cells = [row.get(name) for row in table.good]
        n = sum(isinstance(cell, dict) and bool(called(cell, QUESTIONS)) for cell in cells)
        return 2 * n > len(cells)

    inner = next(filter(nests, ("data", "question")), None)

    def renamed(row: Row) -> Row:
        if inner and isinstance(row.get(inner), dict):
            row = {**{k: v for k, v in row.items() if k != inner}, **row[inner]}
        if table.names:
            row = {name: _class(value, table.names.get(name, ())) for name, value in row.items()}
        if isinstance(options := row.get("options"), dict):  # Parquet has a field for each letter
            row = {**row, "options": {k: v for k, v in options.items() if v is not None}}
        rest = {name: value for name, value in row.items() if name not in single.values()}
        return {**rest, **{name: row.get(own) for name, own in single.items()}}

    return [
        (place, row if isinstance(row, DataError) else renamed(row)) for place, row in table.rows
    ]


def _class(value: Any, names: Sequence[str]) -> Any:
    if isinstance(value, list):
        return [_class(part, names) for part in value]
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return names[value] if is_number and 0 <= value < len(names) else value


def _check_header(table: Table) -> None:
    """Refuse a table without a header, such as MMLU's own files: its first question would be lost.

    Raises:
        DataError: the first row looks like a question.
    """
    columns, names = columns_of(table.good), (*QUESTIONS, *PARTS, *OPTION_LISTS, *ANSWERS, *IDS)
    if table.path.suffix.lower() not in (".csv", ".tsv", ".xlsx") or len(columns) < 4:
        return
    cells = [columns[-1], *(str(row.get(columns[-1]) or "") for row in table.good)]
    is_named = called(columns, names) or option_columns(columns)
    if not is_named and all(re.fullmatch("[A-Ja-j0-9]", cell) for cell in cells):
        header = ",".join(["question", *LETTERS[: len(columns) - 2], "answer"])
        raise DataError(
            "expected a header with the names of the columns, got what looks like a question "
            f"({shown(columns[0])}); add a first row such as {header}"
        )


def _understood(
    rows: Sequence[Placed], keys: ColumnNames, answer_base: int | None
) -> tuple[Layout, list[tuple[str, Case | DataError]]]:
    fields = [row for _, row in rows if isinstance(row, dict)]
    columns = columns_of(fields)
    n = Counter(name for row in fields for name, value in row.items() if not is_nothing(value))
    own = ("answer", "answer_idx")  # of which each row of the documented format has one
    common = [name for name in columns if name in own or n[name] > (len(fields) - 1) / 2]
    identifier = _identifier(fields, [name for name in columns if n[name]], keys)
    asked = called(columns, QUESTIONS)

    def seed(row: Row) -> Any:
        return str(row.get(identifier)) if identifier else [row.get(name) for name in asked]

    options = _options(fields, columns, keys.get("options"), seed)
    question = _question(fields, [c for c in common if c not in options.columns], keys)

    def case_of(place: str, row: RowOrError) -> Case:
        good = raise_error(row)
        return Case(place, good, options.read(good))

    placed = [(place, attempt(case_of, place, row)) for place, row in rows]
    cases = [case for _, case in placed if isinstance(case, Case)]
    if not cases:
        place, fault = placed[0]
        raise DataError(f"{place}: {fault}")
    right = {c for c in options.columns if plain_name(c) in RIGHT}
    taken = {*question, *options.columns} - right
    answers = _answers(cases, [c for c in common if c not in taken], keys, answer_base)
    layout = Layout(question=question, options=options, answers=answers, identifier=identifier)
    return layout, placed


def content_id(row: Row) -> str:
    """Return an id made from the content of a row in the documented format."""
    names = ("context", "stem", "question", "passage", "options", "answer_idx")
    return content_hash([row.get(name) for name in names]).rpartition(":")[2][:12]


def called(columns: Iterable[str], names: Sequence[str]) -> list[str]:
    """Return the columns that go by one of `names`, in the order of `names`."""
    by_name: dict[str, list[str]] = {}
    for column in columns:
        by_name.setdefault(plain_name(column), []).append(column)
    return [column for name in names for column in by_name.get(name, ())]


def _identifier(rows: Sequence[Row], filled: Sequence[str], keys: Any) -> str | None:
    """Return the column of ids; one that is not called `id` counts if it tells all rows apart."""
    if "id" in keys or "id" in filled:
        return "id"
    for column in called(filled, IDS):
        values = [row.get(column) for row in rows]
        is_good = all(isinstance(v, str | int) and not isinstance(v, bool) for v in values)
        if plain_name(column) == "id" or (is_good and len(set(map(str, values))) == len(values)):
            return column
    return None


# -- the question --------------------------------------------------------------------------------


def _question(rows: Sequence[Row], columns: Sequence[str], keys: Any) -> tuple[str, str]:
    """Return the columns of context and stem."""
    if "question" in keys:
        return "", "question"
    if "stem" in keys:
        return ("context" if "context" in keys else ""), "stem"
    texts = [c for c in columns if any(isinstance(row.get(c), str) for row in rows)]
    asked = called(texts, QUESTIONS)
    if all(any(isinstance(row.get(name), str) for row in rows) for name in ("question", "stem")):
        return "", ""
    if not asked:
        names = cut_names(columns_of(rows))
        raise DataError(
            f"expected a column such as 'question', got {names and 'the columns '}"
            f'{names or "no column"}; name it with columns = {{question = "..."}}'
        )
    parts = [c for c in called(texts, PARTS) if c not in keys and _is_prose(rows, c)]
    stem = next((column for column in asked if plain_name(column) == "stem"), None)
    context = ""
    if stem and parts and plain_name(parts[0]) == "context":
        asked, parts, context = [stem], parts[1:], parts[0]
    for other in asked[1:]:
        if any(row.get(other) != row.get(asked[0]) for row in rows):
            raise DataError(
                f"expected one column that holds the question, got {asked[0]!r} and {other!r}; "
                f'choose with columns = {{question = "{asked[0]}"}}, or columns = {{context = '
                f'"{other}", stem = "{asked[0]}"}} if it has two parts'
            )
    if parts:
        raise DataError(
            f"the column {parts[0]!r} is part of the question or a text to read before it; give "
            f'columns = {{context = "{parts[0]}", stem = "{asked[0]}"}} for a part, or columns = '
            f'{{passage = "{parts[0]}"}} for a text'
        )
    return context, asked[0]


def _is_prose(rows: Sequence[Row], column: str) -> bool:
    """Return whether most cells hold three words or more, as no number or name of a row does."""
    cells = [row.get(column) for row in rows if not is_nothing(row.get(column))]
    return 2 * sum(isinstance(cell, str) and len(cell.split()) > 2 for cell in cells) > len(cells)


# -- the options ---------------------------------------------------------------------------------


def _holds_spans(cell: Any) -> bool:
    """Return whether a cell lists objects with a start, as entities of a text."""
    starts = {"start", "begin", "start_offset", "start_char"}
    return isinstance(cell, list) and any(
        isinstance(one, dict) and not starts.isdisjoint(one) for one in cell
    )


def _options(
    rows: Sequence[Row], columns: Sequence[str], named: Any, seed: Callable[[Row], Any]
) -> OptionsForm:
    """Find the options of a file.

    Args:
        rows: all rows, with fields named by `columns` under their names here.
        columns: all columns.
        named: what the key `columns` says of options: a name, a list of names, or None.
        seed: what the order of right and wrong answers is drawn from.

    Raises:
        DataError: there are none, or two columns hold different ones.
    """
    if named is not None and not isinstance(named, str):
        return _in_columns(tuple(named))
    forms: list[OptionsForm] = []
    for column in ["options"] if named else called(columns, OPTION_LISTS):
        if any(isinstance(row.get(column), list | tuple | dict | str) for row in rows):
            forms += _in_cells(rows, column, is_certain=named is not None or column == "options")
    if named is None:
        forms += [_in_columns(group) for group in option_columns(columns)]
        forms += _right_and_wrong(columns, seed) if not forms else []
    if not forms and (spans := next((c for c in columns if _holds_spans(rows[0].get(c))), None)):
        raise DataError(f"expected questions, got spans of texts in {spans!r}{CONVERT_SPANS}")
    if not forms:
        raise DataError(
            f"expected options in columns such as A, B, C, D, or in one column 'options', got the "
            f'columns {cut_names(columns)}; name them with columns = {{options = ["...", "..."]}}, '
            'or columns = {options = "..."} for one column'
        )
    readings = [[form.texts(row) for row in rows] for form in forms]
    n = [sum(texts is not None for texts in reading) for reading in readings]
    kept = [i for i, count in enumerate(n) if count and count >= max(n) / 2] or [0]
    first = forms[kept[0]]
    for i in kept[1:]:
        pairs = zip(readings[kept[0]], readings[i], strict=True)
        if any(a is not None and b is not None and a != b for a, b in pairs):
            choice: Any = first.columns[0] if len(first.columns) == 1 else first.columns
            raise DataError(
                f"expected options in one place, got {first.words} and {forms[i].words}; choose "
                f"with columns = {{options = {json.dumps(choice, ensure_ascii=False)}}}"
            )
    same = tuple(dict.fromkeys(column for i in kept for column in forms[i].columns))
    texts = [one for one in readings[kept[0]] if one is not None]
    return _without_letters(texts, replace(first, columns=same))


def option_columns(columns: Iterable[str]) -> list[tuple[str, ...]]:
    """Return each set of columns that hold one option each, in order.

    >>> option_columns(["id", "opa", "opb", "opc", "Option 2", "Option 1", "B"])
    [('opa', 'opb', 'opc'), ('Option 1', 'Option 2')]
    """
    groups: dict[tuple[str, bool], dict[int, str]] = {}
    mend = 'name them with columns = {options = ["...", "..."]}'
    for column in columns:
        match = _COLUMN.fullmatch(plain_name(column))
        if match is None or (not match[1] and match[2].isdigit()):
            continue
        group = groups.setdefault((match[1].removesuffix("s"), match[2].isdigit()), {})
        if (other := group.setdefault(_place(match[2]), column)) != column:
            raise DataError(
                f"expected one column for each option, got {other!r} and {column!r}; {mend}"
            )
    whole = []
    for (_, is_numbered), group in groups.items():
        first, last = min(group), max(group)
        if len(group) > 1 and first <= is_numbered:
            if last - first + 1 != len(group):
                listed = ", ".join(group.values())
                raise DataError(f"expected columns of options without a gap, got {listed}; {mend}")
            whole.append(tuple(group[at] for at in sorted(group)))
    return whole


def _place(mark: str) -> int:
    return int(mark) if mark.isdigit() else LETTERS.lower().index(mark)


def _in_columns(columns: tuple[str, ...]) -> OptionsForm:
    def read(row: Row) -> Options:
        values = [None if is_nothing(row.get(column)) else row[column] for column in columns]
        while values and values[-1] is None:
            values.pop()
        if None in values:
            raise wrong(columns[values.index(None)], "an option", None, "fill the gap")
        labels = () if are_letters(columns) else columns[: len(values)]
        return Options(tuple(map(_text_of, values)), labels)

    words = f"options in the columns {columns[0]!r} to {columns[-1]!r}"
    return OptionsForm(columns=columns, words=words, read=read)


def _right_and_wrong(columns: Sequence[str], seed: Callable[[Row], Any]) -> list[OptionsForm]:
    """Return the form of a right answer next to wrong ones, as SciQ and GPQA are published.

    The right one is nowhere in particular, so the order is drawn from the item's id.
    """
    right = next(iter(called(columns, RIGHT)), None)
    numbered = {int(m[1]): c for c in columns if (m := _WRONG.fullmatch(plain_name(c)))}
    wrongs = [numbered[at] for at in sorted(numbered)] or called(columns, _WRONG_LISTS)[:1]
    if right is None or not wrongs:
        return []

    def read(row: Row) -> Options:
        values = [row.get(right)]
        if is_nothing(values[0]):
            raise wrong(right, "the right option", None, "fill it")
        for column in wrongs:
            cell = row.get(column)
            cell = parsed(cell, column) if isinstance(cell, str) and cell[:1] == "[" else cell
            _check_few(cell, column)
            values += cell if isinstance(cell, list) else [cell]
        texts = [_text_of(value) for value in values if not is_nothing(value)]
        return Options(tuple(sorted(texts, key=lambda text: digest(["order", seed(row), text]))))

    words = f"options in {right!r} and {', '.join(map(repr, wrongs))}, order drawn from the id"
    return [OptionsForm(columns=(right, *wrongs), words=words, read=read)]


def _in_cells(rows: Sequence[Row], column: str, *, is_certain: bool) -> list[OptionsForm]:
    """Return the form of a column of options, or none if it holds something else."""
    values = [row[column] for row in rows if not is_nothing(row.get(column))]
    loose = [v for v in values if isinstance(v, str) and not v.strip().startswith(("[", "{"))]
    expected = "a list of options or an object keyed by letter"
    if 2 * len(loose) > len(values):
        if is_certain:
            mend = 'write a JSON list, such as ["aspirin", "codeine"], or a column for each option'
            raise wrong(column, expected, loose[0], mend)
        return []
    is_object = all(isinstance(value, Mapping) or str(value)[:1] == "{" for value in values)

    def read(row: Row) -> Options:
        value = row.get(column)
        if isinstance(value, str) and value.strip().startswith(("[", "{")):
            value = parsed(value.strip(), column)
        _check_few(value, column)
        if isinstance(value, Mapping):
            return _from_object(value, column)
        if not isinstance(value, list | tuple):
            expected_here = "2 to 10 options" if is_nothing(value) else expected
            raise wrong(column, expected_here, None if is_nothing(value) else value)
        if value and all(isinstance(part, Mapping) for part in value):
            return _from_objects(value, column)
        return Options(tuple(_text_of(text, column) for text in value))

    words = f"options in {column!r} ({'an object' if is_object else 'a list'})"
    return [OptionsForm(columns=(column,), words=words, read=read)]


def _check_few(value: Any, column: str) -> None:
    """Refuse a list so long that it would take seconds to make texts of it."""
    for part in (value, *(value.values() if isinstance(value, Mapping) else ())):
        if isinstance(part, list | tuple | Mapping) and len(part) > MAX_COLUMNS:
            raise DataError(f"field {column!r}: expected 2 to 10 options, got {len(part):,}")


def parsed(text: str, column: str) -> Any:
    """Return a list or object written as JSON or as Python writes it.

    Raises:
        DataError: neither, or texts side by side without a comma, as numpy prints them.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        kinds = [token.type for token in tokenize.generate_tokens(io.StringIO(text).readline)]
        kinds = [kind for kind in kinds if kind not in (tokenize.NL, tokenize.NEWLINE)]
        if any(a == b == tokenize.STRING for a, b in pairwise(kinds)):
            raise ValueError("texts without a comma between them, as numpy prints arrays")
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, tokenize.TokenError, MemoryError, RecursionError) as error:
        mend = f'write it as in ["aspirin", "codeine"] ({error})'
        raise wrong(column, "a list written as JSON", text, mend) from error


def _text_of(value: Any, column: str = "options") -> str:
    """Return the text of an option; a number is written as it is."""
    if isinstance(value, str | int | float):
        return str(value)
    raise wrong(column, "texts", value, "write it as text (spreadsheets turn some into dates)")


def _from_object(value: Mapping[Any, Any], column: str) -> Options:
    texts = next((value[key] for key in _TEXTS if isinstance(value.get(key), list)), None)
    labels = next((value[key] for key in _LABELS if isinstance(value.get(key), list)), None)
    if texts is not None and labels is not None:
        if len(texts) != len(labels):
            raise wrong(column, f"{len(texts)} labels, one for each text", labels)
        return _labelled([str(label) for label in labels], [_text_of(text) for text in texts])
    present = {str(name).strip(): text for name, text in value.items()}
    names = sorted(present, key=lambda name: (len(plain_name(name)), plain_name(name)))
    while len(names) > 2 and is_nothing(present[names[-1]]):
        names.pop()  # a file for five options with a question of four
    marks = [match for name in names if (match := _COLUMN.fullmatch(plain_name(name)))]
    places = [_place(match[2]) for match in marks]
    is_run = bool(places) and places == list(range(places[0], places[0] + len(names)))
    if not is_run or len({match[1] for match in marks}) > 1:
        raise wrong(column, f"options with the letters {', '.join(LETTERS[: len(names)])}", names)
    return _labelled(names, [_text_of(present[name], column) for name in names])


def _from_objects(parts: Sequence[Mapping[str, Any]], column: str) -> Options:
    first = parts[0]
    text_key = next((key for key in _TEXTS if isinstance(first.get(key), str | int | float)), None)
    label_key = next((key for key in _LABELS if key in first and key != text_key), None)
    if text_key is None or any(text_key not in part for part in parts):
        expected = 'objects with a text, such as {"label": "A", "text": "aspirin"}'
        raise wrong(column, expected, dict(first))
    texts = [_text_of(part[text_key]) for part in parts]
    if label_key is None or any(label_key not in part for part in parts):
        return Options(tuple(texts))
    return _labelled([str(part[label_key]).strip() for part in parts], texts)


def _labelled(labels: Sequence[str], texts: Sequence[str]) -> Options:
    """Return options in the order of the file, or of their letters if they have letters."""
    letters = [label.upper() for label in labels]
    if are_letters(letters):
        return Options(tuple(text for _, text in sorted(zip(letters, texts, strict=True))))
    return Options(tuple(texts), tuple(labels))


def are_letters(labels: Sequence[str]) -> bool:
    """Return whether labels are A, B, C, ..., in any order."""
    return bool(labels) and sorted(labels) == list(LETTERS[: len(labels)])


def _without_letters(readings: Sequence[tuple[str, ...]], form: OptionsForm) -> OptionsForm:
    """Drop "A. " before each option, if every option of every row has its letter there.

    Raises:
        DataError: letters in another order.
    """
    n_lettered = 0
    for texts in readings:
        marks = [m[1].upper() for text in texts if (m := _LETTERED.fullmatch(text.strip()))]
        if len(marks) == len(texts) and are_letters(marks):
            n_lettered += 1
            if marks != sorted(marks):
                expected = "the letters before the options in the order A, B, C, ..."
                mend = 'write an object, such as {"A": "aspirin", "B": "codeine"}'
                raise wrong(form.columns[0], expected, list(texts), mend)
    if not readings or n_lettered < len(readings):
        return form

    def read(row: Row) -> Options:
        options = form.read(row)
        texts = (_LETTERED.sub(r"\2", text.strip(), count=1) for text in options.texts)
        return Options(tuple(texts), options.labels)

    return replace(form, words=f"{form.words}, without their letters", read=read)


# -- the answer ----------------------------------------------------------------------------------


def _answers(
    cases: Sequence[Case], columns: Sequence[str], keys: Any, base: int | None
) -> tuple[AnswerForm, ...]:
    """Return the form of the answers, and those of further columns that say the same.

    Raises:
        DataError: no column does, one fits in two ways, or two contradict each other.
    """
    named = [name for name in _FORMS_OF if name in keys]
    candidates = named or [c for c in called(columns, ANSWERS) if not _is_flag(c, cases)]
    forms: list[AnswerForm] = []
    unsettled: Unsettled | None = None
    for column in candidates:
        allowed = _FORMS_OF[column] if column in named else _FORMS_OF["answer"]
        try:
            form = _form(column, cases, base, allowed)
        except Unsettled as error:
            unsettled = unsettled or error
        else:
            forms += [form] if form else []
    if not forms:
        raise unsettled or _no_answer(cases, columns, candidates)
    first, *others = forms
    for other in others:
        if not _agree(first, other, cases):
            raise DataError(
                f"expected one column that holds the answer, got {first.column!r} and "
                f"{other.column!r}, which say different things; choose with columns = "
                f'{{answer = "{first.column}"}}'
            )
    return tuple(forms)


def _is_flag(column: str, cases: Sequence[Case]) -> bool:
    """Return whether `correct` says if something was right, not which option is."""
    values = {str(case.value(column)).casefold() for case in cases}
    many = any(len(case.options.texts) > 2 for case in cases)
    flags = {"0", "1", "true", "false", "none"}
    return plain_name(column) == "correct" and many and values <= flags


def _form(
    column: str, cases: Sequence[Case], base: int | None, allowed: Sequence[Form]
) -> AnswerForm | None:
    """Find how a column says the answers; None if it does not.

    The form is the one that every filled cell fits, or, where rows are broken, at least half.

    Raises:
        Unsettled: several readings fit, or a base is needed.
    """
    filled = [case for case in cases if not is_nothing(case.value(column))]
    bases = (0, 1) if base is None else (base,)
    read: dict[AnswerForm, list[int | None]] = {}
    for form in allowed:
        for first in bases if form == "number" else (0,):
            way = AnswerForm(column=column, form=form, base=first)
            # A letter beyond the options is one all the same, and its row is wrong.
            reader = way.find if form == "number" else _READERS[form]
            read[way] = [reader(case.value(column), case.options) for case in filled]
    n = {way: sum(at is not None for at in places) for way, places in read.items()}
    best = max(n.values(), default=0)
    if not best or 2 * best < len(filled):
        return None
    kept = [way for way in read if n[way] == best or 2 * n[way] > len(filled)]
    numbers = [way for way in kept if way.form == "number"]
    if base is not None and numbers and n[numbers[0]] == best:
        return numbers[0]
    if any(way.form == "label" and n[way] == len(filled) for way in kept):
        kept = [way for way in kept if way.form != "number"]  # the options' own numbers
    elif len(numbers) == 2 and (n[numbers[0]] != n[numbers[1]] or column == "answer_idx"):
        numbers.remove(min(reversed(numbers), key=n.__getitem__))
        kept = [way for way in kept if way.form != "number" or way in numbers]
    lead = next(way for way in kept if n[way] == best)
    if lead.form == "number" and base is None:
        _check_base(lead, filled, is_open=len(numbers) == 2)
    for rival in read:
        # A few texts that are also letters are a doubt; most of them are another form.
        is_kept = rival in kept
        if not is_kept and (rival.form == "number" or "text" not in (lead.form, rival.form)):
            continue
        for case, one, other in zip(filled, read[lead], read[rival], strict=True):
            value = case.value(column)
            if None not in (one, other) and one != other and (is_kept or isinstance(value, str)):
                raise _two_readings(case, lead, rival)
    return lead


def _check_base(lead: AnswerForm, cases: Sequence[Case], *, is_open: bool) -> None:
    """Refuse numbers of which the file does not show from where they count.

    Raises:
        Unsettled: from 0 or from 1 alike, `answer_idx` from 1, or 1 where it may stand for yes.
    """
    column, case = lead.column, cases[0]
    if all(tuple(map(_same, one.options.texts)) in _YES_FIRST for one in cases):
        yes, no = case.options.texts
        expected = f"the texts {yes} and {no}"
        mend = (
            f", which may be the number of an option, or 1 for {yes}; write the texts, or give "
            "answer_base = 0 or answer_base = 1 if it is the number"
        )
    elif column == "answer_idx" and lead.base == 1:
        expected, mend = "positions from 0", ", and numbers from 1 alone; give answer_base = 1"
    elif is_open:
        expected = "answers that show whether numbers count from 0 or from 1"
        mend = "; give answer_base = 0 or answer_base = 1"
    else:
        return
    got = f"got {shown(case.value(column))} in {case.place}"
    raise Unsettled(f"field {column!r}: expected {expected}, {got}{mend}")


def _two_readings(case: Case, one: AnswerForm, other: AnswerForm) -> Unsettled:
    keys = (_SETTLES[way.form].format(way.column) for way in (one, other))
    return Unsettled(
        f"field {one.column!r}: expected answers that can be read in one way, got "
        f"{shown(case.value(one.column))} in {case.place}, which fits as one of the "
        f"{_WORDS[one.form]} and as one of the {_WORDS[other.form]}; give {', or '.join(keys)}"
    )


def _agree(one: AnswerForm, other: AnswerForm, cases: Sequence[Case]) -> bool:
    """Return whether two columns say the same in most of the rows that fill both."""
    pairs = [(case.value(one.column), case.value(other.column), case.options) for case in cases]
    both = [pair for pair in pairs if not is_nothing(pair[0]) and not is_nothing(pair[1])]
    n = sum(one.find(a, options) == other.find(b, options) for a, b, options in both)
    return n >= _AGREE * len(both)


def _no_answer(
    cases: Sequence[Case], columns: Sequence[str], candidates: Sequence[str]
) -> DataError:
    """Return the error about a file in which no column says the answer."""
    if not candidates:
        likely = [c for c in columns if plain_name(c) not in IDS and _is_likely(c, cases)]
        # Of several, which one is right cannot be told from here.
        only = likely[0] if len(likely) == 1 else "..."
        named = f'name it with columns = {{answer = "{only}"}}'
        return DataError(
            "expected a column with the right option, such as 'answer', got besides question and "
            f"options {cut_names(columns) or 'no column'}; {named if columns else 'add one'}, or "
            "take a split that is published with its answers"
        )
    filled = [
        (column, case)
        for column in candidates
        for case in cases
        if not is_nothing(case.value(column))
    ]
    odd = (one for one in filled if _n_answers(one[1].value(one[0]), None, one[1].options) != 1)
    column, case = next(odd, (filled or [(candidates[0], cases[0])])[0])
    value = case.value(column)
    mend = 'fix the answers, or name their column with columns = {answer = "..."}'
    if all(str(case.value(column)) == "-1" for case in cases):
        mend = "take train or validation, since this split is published without answers"
    elif _n_answers(value, None, case.options) > 1:
        mend = _SEVERAL_RIGHT
    return DataError(
        f"field {column!r}: expected letters, numbers or texts of options in most rows, got "
        f"{shown(value)} in {case.place}; {mend}"
    )


def _is_likely(column: str, cases: Sequence[Case]) -> bool:
    """Return whether the cells of a column could be answers."""
    try:
        return _form(column, cases, None, _FORMS_OF["answer"]) is not None
    except Unsettled:
        return True


def _n_answers(value: Any, form: AnswerForm | None, options: Options) -> int:
    """Return how many options a value names: letters, names, numbers or texts in a row."""
    forms = [form] if form else [AnswerForm(column="", form=name) for name in _READERS]
    parts = value if isinstance(value, list) else _SEVERAL.split(str(value))
    if len(parts) == 1 and isinstance(value, str) and re.fullmatch("[A-J]{2,}", value.strip()):
        parts = list(value.strip())
    for one in (*forms, AnswerForm(column="", form="text")):
        places = {one.find(part, options) for part in parts}
        if None not in places:
            return len(places)
    return 0


def _letter(value: Any, options: Options) -> int | None:
    if not isinstance(value, str):
        return None
    own = options.labels if are_letters(options.labels) else LETTERS
    if match := _LETTER.fullmatch(value):
        letter = match[1].upper()
        return own.index(letter) if letter in own else LETTERS.index(letter)
    if match := _WITH_TEXT.fullmatch(value.strip()):
        letter = match[1].upper()
        at = own.index(letter) if letter in own else len(options.texts)
        if at < len(options.texts) and _same(options.texts[at]) == _same(match[2]):
            return at
    return None


def _label(value: Any, options: Options) -> int | None:
    """Return the position of an option by what the file calls it, a letter if by nothing."""
    if not options.labels:
        return _letter(value, options)
    names = [plain_name(label) for label in options.labels]
    name = plain_name(str(value)) if isinstance(value, str | int) else ""
    return names.index(name) if name and names.count(name) == 1 else None


def _number(value: Any, options: Options) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    match = _NUMBER.fullmatch(value.strip()) if isinstance(value, str) else None
    return int(match[1]) if match else None


def _text(value: Any, options: Options) -> int | None:
    if not isinstance(value, str | int | float):  # of true and false too: TRUE is Excel's True
        return None
    text = str(value)
    if options.texts.count(text) == 1:
        return options.texts.index(text)
    same = [_same(option) for option in options.texts]
    return same.index(_same(text)) if same.count(_same(text)) == 1 else None


def _same(text: str) -> str:
    return unicodedata.normalize("NFC", " ".join(text.split())).casefold()


_READERS: dict[Form, Callable[[Any, Options], int | None]] = {
    "letter": _letter,
    "label": _label,
    "text": _text,
    "number": _number,
}
