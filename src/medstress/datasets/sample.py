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

_DATA = resources.files("medstress.datasets").joinpath("data")
SAMPLE = {
    "questions": _DATA.joinpath("sample.jsonl"),
    "vignettes": _DATA.joinpath("vignettes.jsonl"),
}
"""Part of the sample -> its file."""


def load(options: DatasetOptions) -> Loaded:
    """Read a part of the shipped sample; the metadata of its items has `source` and `topic`.

    Args:
        options: `sample` names the part: 200 short `questions`, each with a passage, or 24
            `vignettes` of a patient each. No clinician has reviewed either.

    Raises:
        UsageError: a key is given that the sample does not accept, or the installation lacks the
            file.
    """
    check_keys("sample", options, "sample")
    file = SAMPLE[options.sample]
    if not file.is_file():
        raise UsageError(
            f"dataset 'sample': the file {file} is missing from this installation; reinstall "
            "medstress"
        )
    with resources.as_file(file) as path:
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
            has_optional_passages=options.sample == "questions",
        )
