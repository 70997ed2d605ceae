"""Questions under names of their own: the sample, MedQA-USMLE and MedMCQA.

The sample comes with medstress. MedQA (jind11/MedQA) and MedMCQA (medmcqa/medmcqa) are MIT; the
typed subset of MedMCQA and the entity spans of both come from the project qstab (RealPolitiX/qstab,
CC BY-NC-ND 4.0). medstress ships none of these.

References:
    Jin, Pan, Oufattole, Weng, Fang, Szolovits. What Disease does this Patient Have? A Large-scale
    Open Domain Question Answering Dataset from Medical Exams. Applied Sciences 11(14), 2021.
    Pal, Umapathi, Sankarasubbu. MedMCQA: A Large-scale Multi-Subject Multi-Choice Dataset for
    Medical domain Question Answering. CHIL 2022.
    Xian et al. TMLR 2025, arXiv 2402.10527: the typed subset, the spans and their use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from medstress.core.errors import DataError, UsageError, did_you_mean
from medstress.core.items import Mention, Question
from medstress.core.reading import read_data, read_json_data
from medstress.core.text import cut_word
from medstress.datasets.cleaning import clean_passages
from medstress.datasets.questions import question_from_row, read_questions
from medstress.datasets.source import (
    DatasetOptions,
    Loaded,
    check_keys,
    collect,
    hash_files,
    required_file,
)
from medstress.datasets.tables import Row, Table, parse_line, raise_error, read_table, shown

_DATA = resources.files("medstress.datasets").joinpath("data")
SAMPLE = {
    "questions": _DATA.joinpath("sample.jsonl"),
    "vignettes": _DATA.joinpath("vignettes.jsonl"),
}
"""Part of the sample -> its file."""
SPLITS = ("train", "dev", "test")
"""Splits of MedQA."""
_OPTIONS = ("A", "B", "C", "D")
_TYPED = ("id", "question", *_OPTIONS, "answer_idx", "subject_name")
"""Columns of the typed subset of MedMCQA."""


def load_sample(options: DatasetOptions) -> Loaded:
    """Read a part of the shipped sample; the metadata of its items has `source` and `topic`.

    Args:
        options: `sample` names the part: 200 short `questions`, each with a passage, or 24
            `vignettes` of a patient each. No clinician has reviewed either.

    Raises:
        UsageError: a key is given that the sample does not accept.
    """
    check_keys("sample", options, "sample")
    with resources.as_file(SAMPLE[options.sample]) as path:
        lines = enumerate(read_data(path).splitlines(), start=1)
        rows = ((f"line {n}", line) for n, line in lines)
        questions, skipped = collect(
            path, rows, lambda line: question_from_row(parse_line(line)), options.on_bad_row
        )
        return Loaded(
            questions=questions,
            skipped=skipped,
            source_hash=hash_files(path),
            has_optional_passages=options.sample == "questions",
        )


# -- MedQA ---------------------------------------------------------------------------------------


def load_medqa(options: DatasetOptions) -> Loaded:
    """Read MedQA as JSONL or in another format of questions, with four or five options.

    The files do not name their split, so `split` does; it becomes metadata. With annotations, a
    row's `train_index` is the position of its record; rows without one get no spans.

    Raises:
        UsageError: no path, a missing file, an unknown split, or annotations for dev or test.
        DataError: an empty file, annotations that match no row, or a bad row, if `on_bad_row` is
            ``error``.
    """
    check_keys("medqa", options, "path", "annotations", "split")
    split = options.split
    if split not in (None, *SPLITS):
        raise UsageError(
            f"dataset 'medqa': expected a split among {', '.join(SPLITS)}, got {split!r}"
            f"{did_you_mean(str(split), SPLITS)}"
        )
    if options.annotations and split in ("dev", "test"):
        raise UsageError(
            f"dataset 'medqa': annotations exist for the train split only, got split {split!r}"
        )
    path = required_file("medqa", "path", options.path)
    spans = read_annotations("medqa", options.annotations) if options.annotations else None

    def finish(_: Row, item: Question) -> Question:
        if split is not None:
            item = replace(item, metadata={**item.metadata, "split": split})
        position = item.metadata.get("train_index")
        if spans is None or position is None:
            return item
        last = len(spans.records) - 1
        if type(position) is int and 0 <= position <= last:
            return item.with_mentions(spans.mentions(item, position))
        raise DataError(
            f"field 'train_index': expected a position from 0 to {last} in {spans.path}, got "
            f"{shown(position)}"
        )

    loaded = read_questions(read_table(path), options, finish)
    if not spans:
        return loaded
    if all(item.metadata.get("train_index") is None for item in loaded.questions):
        raise DataError(
            f"{path}: expected rows with 'train_index', the position in {spans.path}, got none; "
            "leave the annotations out, since they exist for the train split only"
        )
    return replace(
        loaded, source_hash=hash_files(path, spans.path), notes=(*spans.notes, *loaded.notes)
    )


# -- MedMCQA -------------------------------------------------------------------------------------


def load_medmcqa(options: DatasetOptions) -> Loaded:
    """Read MedMCQA, or its typed subset, with the spans of its options if annotations are given.

    The original files and those of the hub have `opa` to `opd` and `cop`. The typed subset is a
    parquet file of the train split, and a JSON file with the spans of its distractors.
    `columns = {passage = "reference"}` makes the explanations passages (`exp` in the original).

    Raises:
        UsageError: no path, a missing file, or a split other than train.
        DataError: a missing column, annotations of another length, or a bad row, if `on_bad_row`
            is ``error``.
    """
    check_keys("medmcqa", options, "path", "annotations", "split", "columns", "answer_base")
    path = required_file("medmcqa", "path", options.path)
    table = read_table(path)
    first = next(iter(table.good), {})
    if options.annotations is None and "opa" in first:
        return read_questions(table, options)
    if options.split not in (None, "train"):
        raise UsageError(
            f"dataset 'medmcqa': expected the split 'train', the only one, got {options.split!r}"
        )
    if others := options.columns.keys() - {"passage"}:
        raise UsageError(
            "dataset 'medmcqa': columns: expected the field 'passage' alone, got "
            f"{', '.join(sorted(others))}"
        )
    passage = options.columns.get("passage")
    for column in (*_TYPED, *([passage] if passage else ())):
        if column not in first:
            raise DataError(
                f"{path}: expected the column {column!r}, got the columns {', '.join(first)}"
            )
    spans = read_annotations("medmcqa", options.annotations) if options.annotations else None
    if spans and len(table.rows) != len(spans.records):
        raise DataError(
            f"{spans.path}: expected {len(table.rows)} records, one for each row of {path}, got "
            f"{len(spans.records)}"
        )
    return _typed(table, spans, None if passage is None else str(passage), options)


def _typed(
    table: Table, spans: Annotations | None, passage: str | None, options: DatasetOptions
) -> Loaded:
    """Read the typed subset of Xian et al."""

    def convert(numbered: tuple[int, Any]) -> Question:
        position, row = numbered[0], raise_error(numbered[1])
        names = ("id", "question", "answer_idx", "subject_name")
        made = {**{name: row[name] for name in names}, "topic_name": row.get("topic_name")}
        made |= {"passage": row[passage]} if passage else {}
        item = question_from_row({**made, "options": {x: row[x] for x in _OPTIONS}})
        if spans is None:
            return item
        mentions = spans.mentions(item, position)
        if not any(mention.field == item.key for mention in mentions):
            # The published records cover the three distractors only. Xian et al. (2025) measure
            # distances from the whole answer string, so that is the key's entity, of unknown type.
            text = item.key_text
            start, end = len(text) - len(text.lstrip()), len(text.rstrip())
            mentions = (*mentions, Mention(field=item.key, start=start, end=end, type=""))
        return item.with_mentions(mentions)

    places = ((place, (n, row)) for n, (place, row) in enumerate(table.rows))
    questions, skipped = collect(table.path, places, convert, options.on_bad_row)
    questions, notes = clean_passages(questions)
    return Loaded(
        questions=questions,
        skipped=skipped,
        source_hash=hash_files(table.path, *([spans.path] if spans else ())),
        notes=(*(spans.notes if spans else ()), *notes),
    )


# -- entity spans, as Xian et al. published them ---------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotations:
    """The records of one annotation file.

    The file is a JSON list with one record per question, ``{letter: {"text": [...], "labels":
    [...], "boundaries": [[start, end], ...]}}``. The three lists are parallel: labels are UMLS
    semantic type identifiers or ``""``, boundaries are character offsets into the option's text.
    """

    path: Path
    """The annotation file."""
    records: list[Any]
    """One per question, not validated yet."""
    cut: list[str] = field(default_factory=list)
    """The word that each rejected span cuts; `mentions` adds to it."""

    @property
    def notes(self) -> tuple[str, ...]:
        """One sentence about rejected spans; empty if there are none."""
        if not self.cut:
            return ()
        n, first = len(self.cut), self.cut[0]
        return (f"{self.path}: skipped spans that cut a word: {n}; the first word is {first!r}",)

    def mentions(self, item: Question, position: int) -> tuple[Mention, ...]:
        """Return the item's mentions and the spans of record `position` (from 0), no duplicates.

        Spans that begin or end inside a word are skipped and counted. The published file cannot be
        fixed, and one bad span is no reason to reject thousands of good ones.

        Raises:
            DataError: the record is malformed or does not match the options.
        """
        where = f"annotations {self.path}, record {position + 1}"
        record = self.records[position]
        if not isinstance(record, Mapping):
            raise DataError(f"{where}: expected an object keyed by letter, got {shown(record)}")
        spans: list[Mention] = []
        for letter in sorted(record):
            if letter not in tuple(item.letters):
                letters = ", ".join(item.letters)
                raise DataError(f"{where}: expected a letter among {letters}, got {letter!r}")
            text = item.option(letter)
            for span in _spans(record[letter], letter, text, f"{where}, option {letter}"):
                word = cut_word(text, span.start, span.end)
                if word is None:
                    spans.append(span)
                else:
                    self.cut.append(word)
        return tuple(dict.fromkeys((*item.mentions, *spans)))


def read_annotations(source: str, path: Path) -> Annotations:
    """Read an annotation file.

    Raises:
        UsageError: the file does not exist.
        DataError: the file is not a JSON list.
    """
    required_file(source, "annotations", path)
    records = read_json_data(path, "a JSON list")
    if not isinstance(records, list):
        raise DataError(f"{path}: expected a JSON list, got {shown(records)}")
    return Annotations(path=path, records=records)


class _Entry(BaseModel):
    """The spans of one option."""

    text: list[str]
    labels: list[str]
    boundaries: list[tuple[int, int]]


def _spans(entry: Any, letter: str, option: str, where: str) -> list[Mention]:
    try:
        read = _Entry.model_validate(entry)
        rows = list(zip(read.text, read.labels, read.boundaries, strict=True))
    except ValueError as error:
        raise DataError(
            f"{where}: expected the lists 'text', 'labels' (types or ''), 'boundaries' ([start, "
            f"end]) of one length, got {shown(entry)}"
        ) from error
    for text, _, (start, end) in rows:
        if not 0 <= start < end <= len(option) or option[start:end] != text:
            raise DataError(
                f"{where}: expected {text!r} at [{start}, {end}), got {option[start:end]!r}"
            )
    return [Mention(field=letter, start=a, end=b, type=label) for _, label, (a, b) in rows]
