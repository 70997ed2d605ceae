"""LangTest: test cases of question answering, as its data frames are exported.

Columns of `Harness.generated_results()` and `Harness.testcases()` written as CSV or JSONL:
`test_type`, `original_question`, `perturbed_question`, optionally `original_context`,
`perturbed_context`, `options`, and `expected_result`, which is read as the key (a letter, or the
text of an option, alone or after its letter). Options stand in `options`, or at the end of the
question, one a line: "A. ...". Rows about one original are one item; every `test_type` is a kind of
forms. Answers in the file (`actual_result`, `pass`) are not read: the victim is asked anew.

`expected_result` is the data set's answer, or, where the data set has none, the answer of the model
that LangTest asked; `columns = {answer = "..."}` names another column.

References:
    LangTest 2.8, langtest/utils/custom_types/sample.py (`QASample.to_dict`).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from medstress.core.errors import DataError
from medstress.core.hashing import content_hash
from medstress.core.items import LETTERS, Question
from medstress.core.text import Edit
from medstress.datasets.given.forms import check_columns, edits_between, given_set, with_forms
from medstress.datasets.rows import question_from_row
from medstress.datasets.source import (
    DatasetOptions,
    Loaded,
    check_keys,
    collect,
    hash_files,
    required_file,
    single_columns,
)
from medstress.datasets.tables.reading import read_table
from medstress.datasets.tables.table import RowOrError, raise_error
from medstress.datasets.values import shown

NAME = "langtest"
_OPTIONS = tuple(
    re.compile(rf"^[ \t]*\(?([{letters}])[.):][ \t]*(\S.*?)[ \t]*$", re.MULTILINE)
    for letters in ("A-J", "a-j")
)
"""An option's line; the test `lowercase` changes its letter too."""
_LETTER = re.compile(r"\(?([A-Ja-j])[.):]?(?:\s|$)")
_KEPT = ("category", "dataset_name")
"""Columns that stay metadata."""


def load(options: DatasetOptions) -> Loaded:
    """Read exported test cases.

    Raises:
        UsageError: no path, a missing file, or a key that does not apply.
        DataError: other columns, or a bad row, if `on_bad_row` is ``error``.
    """
    check_keys(NAME, options, "path", "columns", "encoding")
    path = required_file(NAME, "path", options.path)
    table = read_table(path, encoding=options.encoding)
    answer = single_columns(options.columns).get("answer", "expected_result")
    needed = ("test_type", "original_question", "perturbed_question", answer)
    check_columns(NAME, table, needed, {})
    read = _Reader(answer)
    rows = ((place, (place, row)) for place, row in table.rows)
    cases, skipped = collect(path, rows, read.case, options.on_bad_row)
    return given_set(
        NAME,
        table,
        [with_forms(read.originals[key], forms) for key, forms in read.forms.items()],
        hash_files(path),
        skipped=skipped,
        notes=(f"{NAME}: {len(cases):,} test cases of {len(read.forms):,} questions",),
    )


class _Reader:
    """Collects the forms of each original."""

    def __init__(self, answer: str) -> None:
        self._answer = answer
        self.originals: dict[str, Question] = {}
        self.forms: dict[str, dict[str, list[tuple[Edit, ...]]]] = {}
        self._seen: dict[str, int] = defaultdict(int)
        self._places: dict[str, str] = {}

    def case(self, given: tuple[str, RowOrError]) -> Question:
        """Read one test case and its place in the file; returns the perturbed question."""
        place, row = given[0], raise_error(given[1])
        kind = str(row.get("test_type") or "").strip()
        if not kind:
            raise DataError("field 'test_type': expected the name of a test, got nothing")
        old = _question(row, "original", row.get(self._answer))
        new = _question(row, "perturbed", row.get(self._answer))
        if old.key != new.key or len(old.options) != len(new.options):
            raise DataError(
                "field 'perturbed_question': expected as many options as the original has, with "
                f"the key at {old.key}, got {len(new.options)} with the key at {new.key}"
            )
        item = self.originals.setdefault(old.id, old)
        first = self._places.setdefault(old.id, place)
        if item.key != old.key:
            raise DataError(
                f"field {self._answer!r}: expected the key {item.key}, as in {first}, which has "
                f"the same original, got {old.key}; if this column holds answers of a model, name "
                'the one with the keys: columns = {answer = "..."}'
            )
        self.forms.setdefault(old.id, {}).setdefault(kind, []).append(edits_between(item, new))
        self._seen[old.id] += 1
        return replace(new, id=f"{old.id}-{self._seen[old.id]}")


def _question(row: Mapping[str, Any], which: str, answer: Any) -> Question:
    text = str(row.get(f"{which}_question") or "")
    context = str(row.get(f"{which}_context") or "").strip()
    if context in ("-", "nan"):
        context = ""
    given = row.get(f"{which}_options") or row.get("options") or ""
    body, options = (text, _options(given)) if given else _split(text)
    if len(options) < 2:
        raise DataError(
            f"field '{which}_question': expected options in the column 'options', or at the end of "
            f"the question as lines such as 'A. ...', got {shown(text[-80:])}"
        )
    own = [context, body, list(options)]
    return question_from_row(
        {
            "id": content_hash(own)[-12:],
            "context": context,
            "stem": body.strip(),
            "options": list(options),
            "answer_idx": _key(answer, options),
            **{name: row[name] for name in _KEPT if row.get(name) is not None},
        }
    )


def _options(given: Any) -> tuple[str, ...]:
    if isinstance(given, Mapping):
        return tuple(str(given[letter]) for letter in sorted(given))
    if isinstance(given, list):
        return tuple(map(str, given))
    return _split(str(given))[1]


def _split(text: str) -> tuple[str, tuple[str, ...]]:
    """Return a question and the options at its end."""
    for option in _OPTIONS:
        found = list(option.finditer(text))
        while found and found[0][1] not in "Aa":
            found.pop(0)
        if found and [one[1].upper() for one in found] == list(LETTERS[: len(found)]):
            return text[: found[0].start()], tuple(one[2] for one in found)
    return text, ()


def _key(answer: Any, options: tuple[str, ...]) -> str:
    text = str(answer or "").strip()
    folded = [option.casefold() for option in options]
    if text.casefold() in folded:
        return LETTERS[folded.index(text.casefold())]
    found = _LETTER.match(text)
    if found and LETTERS.index(found[1].upper()) < len(options):
        return found[1].upper()
    raise DataError(
        f"the key: expected a letter of {len(options)} options or the text of one, got "
        f'{shown(answer)}; name the column of the key with columns = {{answer = "..."}}'
    )
