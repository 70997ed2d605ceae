"""The questions that medstress ships, in the row format that all sources share."""

from __future__ import annotations

from importlib import resources

from medstress.core.errors import UsageError
from medstress.datasets.rows import question_from_row
from medstress.datasets.source import (
    DatasetOptions,
    Loaded,
    check_keys,
    collect,
    hash_files,
)
from medstress.datasets.tables.objects import jsonl_lines, parse_line

SAMPLE = resources.files("medstress.datasets").joinpath("data", "sample.jsonl")


def load(options: DatasetOptions) -> Loaded:
    """Read the shipped questions; their metadata has `source` and `topic`.

    Raises:
        UsageError: a path, annotations or a split is given, or the installation lacks the file.
    """
    check_keys("sample", options)
    if not SAMPLE.is_file():
        raise UsageError(
            f"dataset 'sample': the file {SAMPLE} is missing from this installation; reinstall "
            "medstress"
        )
    with resources.as_file(SAMPLE) as path:
        questions, skipped = collect(
            path,
            jsonl_lines(path),
            lambda line: question_from_row(parse_line(line)),
            options.on_bad_row,
        )
        return Loaded(
            questions=questions,
            skipped=skipped,
            source_hash=hash_files(path),
            has_optional_passages=True,
        )
