"""MedQA-USMLE with four options: questions in the style of the US medical licensing examination.

The questions come from the project MedQA (jind11/MedQA, MIT), the entity spans of the train split's
options from the project qstab (RealPolitiX/qstab, CC BY-NC-ND 4.0). medstress ships neither.

References:
    Jin, Pan, Oufattole, Weng, Fang, Szolovits. What Disease does this Patient Have? A Large-scale
    Open Domain Question Answering Dataset from Medical Exams. Applied Sciences 11(14), 2021.
"""

from __future__ import annotations

from dataclasses import replace

from medstress.core.errors import DataError, UsageError, did_you_mean
from medstress.core.items import Question
from medstress.datasets.annotations import Annotations, read_annotations
from medstress.datasets.questions import read_questions
from medstress.datasets.source import (
    DatasetOptions,
    Loaded,
    check_keys,
    hash_files,
    required_file,
)
from medstress.datasets.tables.reading import read_table
from medstress.datasets.tables.table import Row
from medstress.datasets.values import shown

SPLITS = ("train", "dev", "test")


def load(options: DatasetOptions) -> Loaded:
    """Read MedQA as JSONL or in another format of questions, with four or five options.

    The files do not name their split, so `split` does; it becomes metadata. With annotations, a
    row's `train_index` is the position of its record; rows without one get no spans.

    Raises:
        UsageError: no path, a missing file, an unknown split, or annotations for dev or test.
        DataError: an empty file, annotations that match no row, or a bad row, if `on_bad_row` is
            ``error``.
    """
    check_keys("medqa", options, "path", "annotations", "split")
    _check_split(options)
    path = required_file("medqa", "path", options.path)
    spans = read_annotations("medqa", options.annotations) if options.annotations else None

    def finish(_: Row, item: Question) -> Question:
        if options.split is not None:
            item = replace(item, metadata={**item.metadata, "split": options.split})
        return _annotate(item, spans) if spans else item

    loaded = read_questions("medqa", read_table(path), options, finish)
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


def _check_split(options: DatasetOptions) -> None:
    split = options.split
    if split is not None and split not in SPLITS:
        raise UsageError(
            f"dataset 'medqa': expected a split among {', '.join(SPLITS)}, got {split!r}"
            f"{did_you_mean(split, SPLITS)}"
        )
    if options.annotations and split in ("dev", "test"):
        raise UsageError(
            f"dataset 'medqa': annotations exist for the train split only, got split {split!r}"
        )


def _annotate(item: Question, spans: Annotations) -> Question:
    position = item.metadata.get("train_index")
    if position is None:
        return item
    last = len(spans.records) - 1
    match position:
        case int() if not isinstance(position, bool) and 0 <= position <= last:
            return item.with_mentions(spans.mentions(item, position))
    raise DataError(
        f"field 'train_index': expected a position from 0 to {last} in {spans.path}, "
        f"got {shown(position)}"
    )
