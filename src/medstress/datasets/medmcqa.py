"""MedMCQA: single-answer questions of Indian medical entrance examinations, with typed entities.

This source reads the original files and those of the hub (`opa` to `opd`, `cop`), and the typed
subset of the train split that Xian et al. publish: a parquet file, and a JSON file with the entity
spans of its distractors. The questions come from the project MedMCQA
(MIT), both files from the project qstab (RealPolitiX/qstab, CC BY-NC-ND 4.0). medstress ships
neither.

References:
    Pal, Umapathi, Sankarasubbu. MedMCQA: A Large-scale Multi-Subject Multi-Choice Dataset for
    Medical domain Question Answering. CHIL 2022.
    Xian et al. TMLR 2025, arXiv 2402.10527: the typed subset and its use.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from medstress.core.errors import DataError, UsageError
from medstress.core.items import Mention, Question
from medstress.datasets.annotations import Annotations, read_annotations
from medstress.datasets.passages import clean_passages
from medstress.datasets.questions import read_questions
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
from medstress.datasets.tables.columnar import parquet_rows
from medstress.datasets.tables.reading import ENDINGS, read_table

_OPTIONS = ("A", "B", "C", "D")
_COLUMNS = ("id", "question", *_OPTIONS, "answer_idx", "subject_name")


def load(options: DatasetOptions) -> Loaded:
    """Read MedMCQA, or its typed subset, with the spans of its options if annotations are given.

    `columns = {passage = "reference"}` makes the explanations passages (`exp` in the original).

    Raises:
        UsageError: no path, a missing file, or a split other than train.
        DataError: a missing column, annotations of another length, or a bad row, if `on_bad_row`
            is ``error``.
    """
    check_keys("medmcqa", options, "path", "annotations", "split", "columns", "answer_base")
    path = required_file("medmcqa", "path", options.path)
    if options.annotations is None and _is_original(path):
        return read_questions("medmcqa", read_table(path), options)
    if options.split not in (None, "train"):
        raise UsageError(
            f"dataset 'medmcqa': expected the split 'train', the only one, got {options.split!r}"
        )
    passage = _passage_column(single_columns(options.columns))
    spans = read_annotations("medmcqa", options.annotations) if options.annotations else None
    rows = _rows(path, passage)
    if spans and 0 < len(rows) != len(spans.records):
        raise DataError(
            f"{spans.path}: expected {len(rows)} records, one for each row of {path}, "
            f"got {len(spans.records)}"
        )

    def convert(numbered: tuple[int, dict[str, Any]]) -> Question:
        return _question(*numbered, spans, passage)

    places = ((f"row {n + 1}", (n, row)) for n, row in enumerate(rows))
    questions, skipped = collect(path, places, convert, options.on_bad_row)
    questions, notes = clean_passages(questions)
    return Loaded(
        questions=questions,
        skipped=skipped,
        source_hash=hash_files(path, spans.path) if spans else hash_files(path),
        notes=(*(spans.notes if spans else ()), *notes),
    )


def _is_original(path: Path) -> bool:
    """Return whether the file has the columns of the original data set, whatever its format."""
    rows = read_table(path).rows if path.suffix.lower() in ENDINGS else ()
    return any(isinstance(row, dict) and "opa" in row for _, row in rows)


def _passage_column(columns: Mapping[str, str]) -> str | None:
    """Return the column that holds explanations, which are read only where it is named."""
    if others := columns.keys() - {"passage"}:
        raise UsageError(
            f"dataset 'medmcqa': columns: expected the field 'passage' alone, got "
            f"{', '.join(sorted(others))}"
        )
    return columns.get("passage")


def _rows(path: Path, passage: str | None) -> list[dict[str, Any]]:
    rows = parquet_rows(path)
    for column in (*_COLUMNS, *([passage] if passage else ())):
        if rows and column not in rows[0]:
            raise DataError(
                f"{path}: expected the column {column!r}, got the columns {', '.join(rows[0])}"
            )
    return rows


def _question(
    position: int, row: dict[str, Any], spans: Annotations | None, passage: str | None
) -> Question:
    item = question_from_row(
        {
            "id": row["id"],
            "question": row["question"],
            "options": {letter: row[letter] for letter in _OPTIONS},
            "answer_idx": row["answer_idx"],
            "answer": row.get("answer"),
            "subject_name": row["subject_name"],
            "topic_name": row.get("topic_name"),
            **({"passage": row[passage]} if passage else {}),
        }
    )
    if spans is None:
        return item
    mentions = spans.mentions(item, position)
    if not any(mention.field == item.key for mention in mentions):
        mentions = (*mentions, _key_mention(item))
    return item.with_mentions(mentions)


def _key_mention(item: Question) -> Mention:
    """Return a mention over the whole key option, of unknown type ("").

    The published records cover the three distractors only. Xian et al. (2025) measure distances
    from the whole answer string, so that is the key's entity here.
    """
    text = item.key_text
    start, end = len(text) - len(text.lstrip()), len(text.rstrip())
    return Mention(field=item.key, start=start, end=end, type="")
