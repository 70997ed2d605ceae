from dataclasses import fields
from pathlib import Path

import pytest

from medstress.core import registry
from medstress.core.errors import UsageError
from medstress.core.hashing import file_hash
from medstress.datasets.source import DatasetOptions, hash_files, required_file


@pytest.mark.parametrize(
    ("path", "match"),
    [
        (None, "needs the key 'path'"),
        ("question.jsonl", "did you mean 'questions.jsonl'"),
        ("no/a.jsonl", "there is no file .*no/a.jsonl"),
        ("", "is a folder, expected a file"),
    ],
)
def test_a_missing_file_is_named_with_its_key_and_the_closest_of_its_folder(tmp_path, path, match):
    (tmp_path / "questions.jsonl").write_text("x", encoding="utf-8")
    with pytest.raises(UsageError, match=f"'table'.*key 'path'.*{match}|{match}"):
        required_file("table", "path", None if path is None else tmp_path / path)


def test_the_hash_of_one_file_is_its_own_and_that_of_two_depends_on_both(tmp_path):
    first, second = tmp_path / "a", tmp_path / "b"
    first.write_text("1", encoding="utf-8")
    second.write_text("2", encoding="utf-8")
    assert hash_files(first) == file_hash(first)
    assert len({hash_files(first), hash_files(first, second), hash_files(second, first)}) == 3


TAKES = {
    "sample": "sample",
    "table": "path columns answer_base encoding sheet",
    "attacked": "path",
    "medqa": "path annotations split",
    "medmcqa": "path annotations split columns answer_base",
    "bc5cdr": "path hub split types scheme tag on_bad_labels",
    "biosses": "path hub split columns scale",
    "iob": "path types scheme tag names documents on_bad_labels",
    "pubtator": "path types",
    "brat": "path types",
    "pairs": "path columns scale documents encoding sheet",
    "hub": "hub split types scheme tag names documents columns scale on_bad_labels encoding "
    "answer_base sheet",
}


@pytest.mark.parametrize(("source", "taken"), TAKES.items())
def test_a_key_that_means_nothing_to_a_source_is_refused(source, taken):
    load, other = registry.load("datasets", source), {"sheet": "One"}
    if "sheet" in taken.split():
        other = {"annotations": Path("x")}
    with pytest.raises(UsageError, match="' does not accept the key '"):
        load(DatasetOptions(**other))


def test_a_table_with_a_key_of_tagged_texts_is_told_the_key_that_settles_it():
    with pytest.raises(UsageError, match='set name = "iob"'):
        registry.load("datasets", "table")(DatasetOptions(names=("O", "B-Drug")))


def test_the_keys_of_every_source_are_listed_here():
    keys = {each.name for each in fields(DatasetOptions)} - {"on_bad_row"}
    assert set(TAKES) == set(registry.DATASETS)
    assert {key for taken in TAKES.values() for key in taken.split()} == keys
