"""The options of a question: in columns of their own, or together in one."""

from __future__ import annotations

import ast
import io
import json
import re
import tokenize
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

from medstress.core.errors import DataError
from medstress.core.items import LETTERS
from medstress.datasets.forms.naming import OPTION_LISTS, called, is_nothing, plain_name
from medstress.datasets.tables.table import Row
from medstress.datasets.values import shown

_COLUMN = re.compile(
    r"(answeroption|answerchoice|options?|opt|op|choices?|alternative|endings?|answers?|ans|)"
    r"([a-j]|\d\d?)"
)
_LABELLED = re.compile(r"\(?([A-Ja-j])[).:]\s+(\S.*)", re.DOTALL)
_SEPARATORS = ("|", ";", "\n")
_SPOKEN = {"|": "vertical bars", ";": "semicolons", "\n": "line ends"}
_LABELS = ("key", "label", "letter", "aid", "id", "option_id", "option", "name")
_TEXTS = ("value", "text", "atext", "content", "answer", "option")
_MOST = len(LETTERS)
_ROMAN = ("i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x")


@dataclass(frozen=True, slots=True, kw_only=True)
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
    told: str
    """In words."""
    read: Callable[[Row], Options]
    """Reads one row; raises `DataError`."""


def find_options(rows: Sequence[Row], columns: Sequence[str], given: Any) -> OptionsForm:
    """Find the options of a file.

    Args:
        rows: all rows, with fields named by `columns` under their names here.
        columns: all columns.
        given: what the key `columns` says of options: a name, a list of names, or None.

    Raises:
        DataError: there are none, or two columns hold different ones.
    """
    if given is not None and not isinstance(given, str):
        return _in_columns(tuple(given))
    found: list[OptionsForm] = []
    for column in ["options"] if given else called(columns, OPTION_LISTS):
        if any(isinstance(row.get(column), list | dict | str) for row in rows):
            found += _in_cells(rows, column, is_given=given is not None)
    if given is None:
        found += [_in_columns(group) for group in option_columns(columns)]
    if not found:
        raise DataError(
            f"expected options in columns such as A, B, C, D, or in one column 'options', got the "
            f'columns {", ".join(columns)}; name them with columns = {{options = ["...", '
            '"..."]}, or columns = {options = "..."} for one column'
        )
    return _without_labels(rows, _only(rows, found))


def option_columns(columns: Iterable[str]) -> list[tuple[str, ...]]:
    """Return each set of columns that hold one option each, in order.

    >>> option_columns(["id", "opa", "opb", "opc", "Option 2", "Option 1", "B"])
    [('opa', 'opb', 'opc'), ('Option 1', 'Option 2')]
    """
    groups: dict[tuple[str, bool], dict[int, str]] = {}
    for column in columns:
        match = _COLUMN.fullmatch(plain_name(column))
        if match is None:
            continue
        prefix, mark = match[1].removesuffix("s"), match[2]
        if not prefix and mark.isdigit():
            continue
        at = int(mark) if mark.isdigit() else LETTERS.lower().index(mark)
        group = groups.setdefault((prefix, mark.isdigit()), {})
        if at in group:
            raise DataError(
                f"expected one column for each option, got {group[at]!r} and {column!r}; name "
                'them with columns = {options = ["...", "..."]}'
            )
        group[at] = column
    found = []
    for (_, numbered), group in groups.items():
        first = min(group)
        if len(group) < 2 or first > (1 if numbered else 0):
            continue
        if max(group) - first + 1 != len(group):
            raise DataError(
                f"expected columns of options without a gap, got {', '.join(group.values())}; "
                'name them with columns = {options = ["...", "..."]}'
            )
        found.append(tuple(group[at] for at in sorted(group)))
    return found


def option_text(value: Any) -> str:
    """Return the text of an option; a number is written as it is.

    Raises:
        DataError: neither text nor number.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return str(value)
    raise DataError(
        f"field 'options': expected texts, got {shown(value)}; write it as text (spreadsheets turn "
        "some texts into dates)"
    )


def _in_columns(columns: tuple[str, ...]) -> OptionsForm:
    first, last = columns[0], columns[-1]

    def read(row: Row) -> Options:
        values = [None if is_nothing(row.get(column)) else row[column] for column in columns]
        while values and values[-1] is None:
            values.pop()
        if None in values:
            gap = columns[values.index(None)]
            raise DataError(f"field {gap!r}: expected an option, got nothing; fill the gap")
        return Options(texts=tuple(map(option_text, values)), labels=tuple(columns[: len(values)]))

    return OptionsForm(
        columns=columns, told=f"options in the columns {first!r} to {last!r}", read=read
    )


def _in_cells(rows: Sequence[Row], column: str, *, is_given: bool) -> list[OptionsForm]:
    """Return the form of a column of options, or none if it holds something else."""
    values = [row[column] for row in rows if not is_nothing(row.get(column))]
    texts = [value for value in values if isinstance(value, str)]
    split = [text for text in texts if not text.strip().startswith(("[", "{"))]
    separator = None
    if split:
        fits = {mark: sum(_is_split(text, mark) for text in split) for mark in _SEPARATORS}
        whole = [mark for mark in _SEPARATORS if fits[mark] == len(split)]
        many = whole or [mark for mark in _SEPARATORS if fits[mark] > len(split) / 2]
        if len(many) > 1:
            raise DataError(
                f"field {column!r}: expected options separated by one mark, got texts that "
                f"{' and '.join(_SPOKEN[mark] for mark in many)} divide; write a JSON list, such "
                'as ["aspirin", "codeine"], or one column for each option'
            )
        if not many and len(split) > len(texts) / 2:
            if not is_given and column != "options":
                return []
            raise DataError(
                f"field {column!r}: expected a list, an object keyed by letter, or texts divided "
                f"by | or ;, got {shown(split[0])}; write a JSON list, such as "
                '["aspirin", "codeine"], or one column for each option'
            )
        separator = many[0] if many else None
    kind = "a list" if not split else f"texts divided by {_SPOKEN[separator or '|']}"
    if values and all(isinstance(value, Mapping) or str(value)[:1] == "{" for value in values):
        kind = "an object"
    return [
        OptionsForm(
            columns=(column,),
            told=f"options in {column!r} ({kind})",
            read=partial(_from_cell, column=column, separator=separator),
        )
    ]


def _is_split(text: str, separator: str) -> bool:
    parts = text.strip().split(separator)
    return 2 <= len(parts) <= _MOST and all(part.strip() for part in parts)


def _from_cell(row: Row, *, column: str, separator: str | None) -> Options:
    value = row.get(column)
    if is_nothing(value):
        raise DataError(f"field {column!r}: expected 2 to 10 options, got nothing; fill it")
    if isinstance(value, str):
        text = value.strip()
        if text.startswith(("[", "{")):
            value = parsed(text, column)
        elif separator is not None and _is_split(text, separator):
            value = [part.strip() for part in text.split(separator)]
    if isinstance(value, tuple):
        value = list(value)
    if isinstance(value, Mapping):
        return _from_object(value, column)
    if not isinstance(value, list):
        raise DataError(
            f"field {column!r}: expected the options as in the other rows, got {shown(value)}"
        )
    if value and all(isinstance(part, Mapping) for part in value):
        return _from_objects(value, column)
    return Options(texts=tuple(map(option_text, value)))


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
    except (
        ValueError,
        SyntaxError,
        tokenize.TokenError,
        MemoryError,
        RecursionError,
        TypeError,
    ) as error:
        why = error.msg if isinstance(error, SyntaxError) else str(error)
        raise DataError(
            f"field {column!r}: expected a list written as JSON, got {shown(text)} ({why}); write "
            'it as in ["aspirin", "codeine"]'
        ) from error


def _from_object(value: Mapping[Any, Any], column: str) -> Options:
    texts = next((value[key] for key in _TEXTS if isinstance(value.get(key), list)), None)
    labels = next((value[key] for key in _LABELS if isinstance(value.get(key), list)), None)
    if texts is not None and labels is not None:
        if len(texts) != len(labels):
            raise DataError(
                f"field {column!r}: expected as many labels as texts, got {len(labels)} and "
                f"{len(texts)}; fix the row"
            )
        return _labelled(list(map(str, labels)), [option_text(text) for text in texts])
    present = {str(label).strip(): text for label, text in value.items() if not is_nothing(text)}
    if all(label.isdigit() for label in present):
        ordered = sorted(present, key=int)
        numbers = list(map(int, ordered))
        contiguous = (
            numbers == list(range(numbers[0], numbers[0] + len(numbers))) if numbers else True
        )
    elif {plain_name(label) for label in present} == set(_ROMAN[: len(present)]):
        ordered = sorted(present, key=lambda label: _ROMAN.index(plain_name(label)))
        contiguous = True
    else:
        ordered = sorted(present, key=plain_name)
        marks = [plain_name(label) for label in ordered]
        groups = option_columns(ordered)
        contiguous = marks == list(LETTERS.lower()[: len(marks)]) or (
            len(groups) == 1 and len(groups[0]) == len(ordered)
        )
        ordered = list(groups[0]) if len(groups) == 1 and contiguous else ordered
    if not contiguous:
        raise DataError(
            f"field {column!r}: expected options with the letters "
            f"{', '.join(LETTERS[: len(present)])}, got {', '.join(present)}; fix the row"
        )
    return _labelled(ordered, [option_text(present[label]) for label in ordered])


def _from_objects(parts: Sequence[Mapping[str, Any]], column: str) -> Options:
    first = parts[0]
    text_key = next((key for key in _TEXTS if isinstance(first.get(key), str | int | float)), None)
    label_key = next((key for key in _LABELS if key in first and key != text_key), None)
    if text_key is None or any(text_key not in part for part in parts):
        raise DataError(
            f"field {column!r}: expected objects with a text, such as "
            f'{{"label": "A", "text": "aspirin"}}, got {shown(dict(first))}; fix the row'
        )
    texts = [option_text(part[text_key]) for part in parts]
    if label_key is None or any(label_key not in part for part in parts):
        return Options(texts=tuple(texts))
    return _labelled([str(part[label_key]).strip() for part in parts], texts)


def _labelled(labels: Sequence[str], texts: Sequence[str]) -> Options:
    """Return options in the order of the file, or of their letters if they have letters."""
    letters = [label.upper() for label in labels]
    if sorted(letters) == list(LETTERS[: len(letters)]):
        pairs = sorted(zip(letters, texts, strict=True))
        return Options(texts=tuple(text for _, text in pairs))
    return Options(texts=tuple(texts), labels=tuple(labels))


def _only(rows: Sequence[Row], found: Sequence[OptionsForm]) -> OptionsForm:
    """Return the first form; what the others read has to be the same.

    Raises:
        DataError: two columns hold different options.
    """
    if len(found) == 1:
        return found[0]
    readings = [[_texts(form, row) for row in rows] for form in found]
    readable = [sum(texts is not None for texts in reading) for reading in readings]
    kept = [n for n, count in enumerate(readable) if count >= max(readable) / 2 and count]
    if not kept:
        return found[0]
    first = kept[0]
    for other in kept[1:]:
        pairs = zip(readings[first], readings[other], strict=True)
        if any(a is not None and b is not None and a != b for a, b in pairs):
            raise DataError(
                f"expected options in one place, got {found[first].told} and "
                f"{found[other].told}; choose with columns = {{options = "
                f"{_as_toml(found[first].columns)}}}"
            )
    same = [column for n in kept for column in found[n].columns]
    return OptionsForm(
        columns=tuple(dict.fromkeys([*found[first].columns, *same])),
        told=found[first].told,
        read=found[first].read,
    )


def _texts(form: OptionsForm, row: Row) -> tuple[str, ...] | None:
    try:
        return form.read(row).texts
    except DataError:
        return None


def _as_toml(columns: Sequence[str]) -> str:
    quoted = [json.dumps(column, ensure_ascii=False) for column in columns]
    return quoted[0] if len(quoted) == 1 else f"[{', '.join(quoted)}]"


def _without_labels(rows: Sequence[Row], form: OptionsForm) -> OptionsForm:
    """Drop "A. " before each option, if every option of every row has its letter there.

    Raises:
        DataError: some rows have letters in another order, and some have none.
    """
    readings = [texts for row in rows if (texts := _texts(form, row)) is not None]
    letters = list(map(letters_before, readings))
    if not letters or not all(letters):
        mixed = next((texts for texts in readings if is_reordered(texts)), None)
        if mixed is not None:
            raise DataError(
                f"field {form.columns[0]!r}: expected the letters before the options in the order "
                f"A, B, C, ..., or in every row, got {shown(list(mixed))} and rows without; write "
                'an object, such as {"A": "aspirin", "B": "codeine"}'
            )
        return form

    def read(row: Row) -> Options:
        options = form.read(row)
        texts = tuple(_LABELLED.sub(r"\2", text.strip(), count=1) for text in options.texts)
        if is_reordered(options.texts):
            return Options(texts=texts, labels=tuple(letters_before(options.texts)))
        return Options(texts=texts, labels=options.labels)

    return OptionsForm(columns=form.columns, told=f"{form.told}, without their letters", read=read)


def letters_before(texts: Sequence[str]) -> str:
    """Return the letters before the options of a row, such as those of "A. "; "" if not all.

    >>> letters_before(["B. codeine", "A) aspirin"]), letters_before(["A. codeine", "aspirin"])
    ('BA', '')
    """
    found = [_LABELLED.fullmatch(text.strip()) for text in texts]
    letters = "".join(match[1].upper() if match else "-" for match in found)
    return letters if are_letters(letters) else ""


def are_letters(labels: Sequence[str]) -> bool:
    """Return whether labels are A, B, C, ..., in any order."""
    return bool(labels) and sorted(labels) == list(LETTERS[: len(labels)])


def is_reordered(texts: Sequence[str]) -> bool:
    """Return whether the letters before the options of a row stand in another order."""
    letters = letters_before(texts)
    return letters != LETTERS[: len(letters)]
