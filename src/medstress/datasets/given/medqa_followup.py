"""MedQA-Followup: MedQA questions with misleading context for a later turn.

Columns: `question`, `options` (an object by letter), `answer_idx`, `misleading_context`,
`alternative_context`, `edge_case_context`, and for each the letter that it argues for
(`target_answer_misleading_context`, ...). Each context is a kind of forms. `id` is optional.

Differs from the paper: the context stands before the question, in the first prompt (its "shallow"
setting), because a form is an edit of the question. The later turn is a probe of its own.

References:
    Manczak et al. Shallow Robustness, Deep Vulnerabilities: Multi-Turn Evaluation of Medical LLMs.
    arXiv 2510.12255, 2025.
"""

from __future__ import annotations

from medstress.core.errors import DataError
from medstress.core.items import Question
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

NAME = "medqa_followup"
KINDS = ("misleading_context", "alternative_context", "edge_case_context")
TITLE = "Additional context:"


def load(options: DatasetOptions) -> Loaded:
    """Read MedQA-Followup.

    Raises:
        UsageError: no path, a missing file, or a key that does not apply.
        DataError: other columns, or a bad row, if `on_bad_row` is ``error``.
    """
    check_keys(NAME, options, "path")
    path = required_file(NAME, "path", options.path)
    table = read_table(path)
    check_columns(NAME, table, ("question", "options", "answer_idx"), {"a context": KINDS})
    questions, skipped = collect(path, table.rows, _question, options.on_bad_row)
    return given_set(NAME, table, questions, hash_files(path), skipped=skipped)


def _question(given: RowOrError) -> Question:
    row = dict(raise_error(given))
    texts = {kind: _text(kind, row.pop(kind)) for kind in KINDS if kind in row}
    row.setdefault("id", content_id(row))
    item = question_from_row(row)
    return with_forms(
        item,
        {k: [put_before(item, f"{TITLE} {text}")] for k, text in texts.items() if text.strip()},
    )


def _text(kind: str, value: object) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    raise DataError(f"field {kind!r}: expected a text, got {shown(value)}")
