"""MedMisBench: questions with one false clinical sentence for every wrong option.

Columns: `id`, `question`, `opa`, `opb`, ..., `answer` (a letter, or a number from 1), `injecta`,
`injectb`, ...: the sentence that supports each option, true for the key and false for the others.
Two kinds of forms, as the authors name them: `type1` asks one sentence of a wrong option at a time
(theirs draws one; ours asks them all, in an order that the content hash of the item draws, up to
the budget), `type2` shows the sentences of all options at once. `injection_content` (corruption)
and `injection_provenance` (framing) stay metadata, for slices.

References:
    Zhou et al. Measuring Epistemic Resilience of LLMs Under Misleading Medical Context.
    arXiv 2606.12291, 2026.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from medstress.core.errors import DataError
from medstress.core.items import LETTERS, Question
from medstress.core.seeding import rng_for
from medstress.datasets.forms.layout import content_id
from medstress.datasets.given.forms import check_columns, given_set, put_before, with_forms
from medstress.datasets.rows import question_from_row
from medstress.datasets.source import (
    DatasetOptions,
    Loaded,
    check_keys,
    collect,
    hash_files,
    required_file,
)
from medstress.datasets.tables.reading import read_table
from medstress.datasets.tables.table import RowOrError, raise_error
from medstress.datasets.values import shown

NAME = "medmisbench"
TITLE = "Additional Clinical Context:"
"""What the authors put before the sentences."""
_EMPTY = ("", "nan", '"')
"""What counts as no text in the published files."""


def load(options: DatasetOptions) -> Loaded:
    """Read one subset of MedMisBench.

    Raises:
        UsageError: no path, a missing file, or a key that does not apply.
        DataError: other columns, or a bad row, if `on_bad_row` is ``error``.
    """
    check_keys(NAME, options, "path")
    path = required_file(NAME, "path", options.path)
    table = read_table(path)
    check_columns(
        NAME, table, ("question", "answer"), {"'opa'": ("opa",), "'injecta'": ("injecta",)}
    )
    questions, skipped = collect(path, table.rows, _question, options.on_bad_row)
    return given_set(NAME, table, questions, hash_files(path), skipped=skipped)


def _question(given: RowOrError) -> Question:
    row = dict(raise_error(given))
    options = _lettered(row, "op")
    injected = _lettered(row, "inject")
    letters = LETTERS[: len(options)]
    if list(options) != list(letters):
        raise DataError(
            f"columns 'op?': expected {', '.join(letters)} without a gap and at most 10, got "
            f"{', '.join(options) or 'none'}"
        )
    key = _key(row.pop("answer", None))
    row |= {"options": dict(options), "answer_idx": key}
    row.setdefault("id", content_id(row))
    item = question_from_row(row)
    if lost := [letter for letter in injected if letter not in item.letters]:
        raise DataError(
            f"column 'inject{lost[0].lower()}': expected a sentence for one of the options "
            f"{', '.join(item.letters)}, got one for {lost[0]}; name its option, or leave it empty"
        )
    wrong = [text for letter, text in injected.items() if letter != item.key]
    forms = {"type1": [put_before(item, f"{TITLE} {text}") for text in _drawn(item, wrong)]}
    if len(injected) > 1:
        whole = "\n".join([TITLE, *injected.values()])
        forms["type2"] = [put_before(item, whole)]
    return with_forms(item, forms)


def _drawn(item: Question, texts: Sequence[str]) -> list[str]:
    """Return texts in a random order that is the item's own, so that no letter comes first."""
    return [texts[i] for i in rng_for(0, NAME, NAME, item.hash).permutation(len(texts))]


def _lettered(row: dict[str, Any], prefix: str) -> dict[str, str]:
    """Take the columns of a prefix out of a row: letter -> text."""
    found = {}
    for letter in "abcdefghijklmnopqrstuvwxyz":
        value = row.pop(f"{prefix}{letter}", None)
        text = "" if value is None else str(value).strip()
        if text not in _EMPTY:
            found[letter.upper()] = text
    return found


def _key(value: Any) -> str:
    text = str(value).strip().upper()
    if text.isdigit() and 1 <= int(text) <= len(LETTERS):
        return LETTERS[int(text) - 1]
    if len(text) == 1 and text in LETTERS:
        return text
    raise DataError(f"field 'answer': expected a letter or a number from 1, got {shown(value)}")
