"""RABBITS: MedQA and MedMCQA with generic names of drugs replaced by brands, or back.

Two files with the same ids: `path` is the original, `perturbed` the one with other names, in the
columns of MedQA (`sent1`, `ending0`, ..., `label`) or MedMCQA (`opa`, ..., `cop`). The kind of the
forms is `renamed`: question and options together, as one query.

References:
    Gallifant et al. Language Models are Surprisingly Fragile to Drug Names in Biomedical
    Benchmarks. Findings of EMNLP 2024, arXiv 2406.12066.
"""

from __future__ import annotations

from medstress.core.errors import DataError
from medstress.core.items import Question
from medstress.datasets.given.forms import edits_between, given_set, with_forms
from medstress.datasets.questions import read_questions
from medstress.datasets.source import (
    DatasetOptions,
    Loaded,
    check_keys,
    hash_files,
    required_file,
)
from medstress.datasets.tables.reading import read_table

NAME = "rabbits"
KIND = "renamed"


def load(options: DatasetOptions) -> Loaded:
    """Read an original file and its renamed twin.

    Raises:
        UsageError: a missing file, or a key that does not apply.
        DataError: the files hold no questions, other ids, or a question with another key.
    """
    check_keys(NAME, options, "path", "perturbed", "columns", "answer_base")
    path = required_file(NAME, "path", options.path)
    other = required_file(NAME, "perturbed", options.perturbed)
    table = read_table(path)
    original = read_questions(NAME, table, options)
    renamed = read_questions(NAME, read_table(other), options)
    forms = {item.id: item for item in renamed.questions}
    common = [item for item in original.questions if item.id in forms]
    if not common:
        raise DataError(
            f"{other}: expected the ids of {path}, got none of them; give the two files of one "
            "split, both with the column 'id'"
        )
    lost = len(original.questions) + len(forms) - 2 * len(common)
    notes = [f"{NAME}: questions that only one of the two files holds: {lost}"] if lost else []
    return given_set(
        NAME,
        table,
        [_with(item, forms[item.id], str(other)) for item in common],
        hash_files(path, other),
        skipped=(*original.skipped, *renamed.skipped),
        notes=notes,
    )


def _with(item: Question, form: Question, path: str) -> Question:
    if (form.key, len(form.options)) != (item.key, len(item.options)):
        raise DataError(
            f"{path}, id {item.id!r}: expected the key {item.key} of {len(item.options)} options "
            f"as in the original, got {form.key} of {len(form.options)}"
        )
    return with_forms(item, {KIND: [edits_between(item, form)]})
