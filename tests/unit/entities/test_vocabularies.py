"""The lexicon of noise: gold words, names, and what a corpus says more than once."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import polars as pl
import pytest

from medstress.core.errors import UsageError
from medstress.entities import vocabularies
from medstress.entities.vocabularies import (
    ONE_IN,
    load_vocabulary,
    noise_lexicon,
    stop_words,
    vocabulary_of,
)


def write(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return name


def message_of(source: str, folder: Path, column: int | None = None) -> str:
    with pytest.raises(UsageError) as error:
        load_vocabulary(source, folder, column)
    return str(error.value).replace(str(folder), "FOLDER")


def test_names_are_stripped_and_distinct_whatever_their_case():
    vocabulary = vocabulary_of("v", ["  Zinc ", "zinc", "", "   ", "ASPIRIN", "Aspirin", "iron"])
    assert vocabulary.names == ("Zinc", "ASPIRIN", "iron")


def test_the_hash_is_of_the_names_and_their_order_not_of_the_label():
    first = vocabulary_of("a", ["x", "y"])
    assert first.hash == vocabulary_of("b", ["x", " y"]).hash
    assert first.hash != vocabulary_of("a", ["y", "x"]).hash


@pytest.mark.parametrize(
    ("file", "text", "column", "names"),
    [
        ("v.csv", 'id,Name\n1,"hernia, inguinal"\n\n2,scurvy\n', None, "hernia, inguinal|scurvy"),
        ("v.csv", "\ufeffname\nscurvy\n", None, "scurvy"),
        ("v.csv", "7,scurvy\n8,rickets\n", 1, "scurvy|rickets"),
        ("v.tsv", "name\tid\nhernia, inguinal\t1\nscurvy\t2\n", None, "hernia, inguinal|scurvy"),
        ("v.tsv", 'name\n"X" disease\n', None, '"X" disease'),
        ("v.txt", "hernia, inguinal\r\n\nscurvy", None, "hernia, inguinal|scurvy"),
    ],
)
def test_the_names_of_a_text_file(tmp_path, file, text, column, names):
    assert "|".join(load_vocabulary(write(tmp_path, file, text), tmp_path, column).names) == names


def test_a_table_may_be_compressed(tmp_path):
    (tmp_path / "v.tsv.gz").write_bytes(gzip.compress(b"name\nscurvy\n"))
    assert load_vocabulary("v.tsv.gz", tmp_path).names == ("scurvy",)


def test_a_parquet_file_is_read_by_its_name_column(tmp_path):
    pl.DataFrame({"id": [1, 2, 3], "name": ["scurvy", None, "rickets"]}).write_parquet(
        tmp_path / "v.parquet"
    )
    assert load_vocabulary("v.parquet", tmp_path).names == ("scurvy", "rickets")


def test_a_built_in_vocabulary_holds_the_candidates_of_its_table(monkeypatch, tmp_path):
    rows = [["1", "scurvy", "label", "1"], ["1", "scorbutus", "exact", "0"]]
    monkeypatch.setattr(vocabularies, "shipped_rows", lambda table: rows)
    vocabulary = load_vocabulary("diseases", tmp_path)
    assert (vocabulary.label, vocabulary.names) == ("diseases", ("scurvy",))


BAD = [
    ("v.csv", "id,label\n1,scurvy\n", None, "expected a column 'name', got 'id', 'label' in the"),
    ("v.csv", "name\nscurvy\nhernia, inguinal\n", None, "got 2 in line 3 of FOLDER/v.csv"),
    ("v.csv", 'name\n"scurvy\n', None, "a well-formed table, got unexpected end of data in line 2"),
    ("v.csv", "1,scurvy\n", 2, "expected column = 0 to 1 (counted from 0), got 2"),
    ("v.txt", "scurvy\n", 0, "key 'column' is for a .csv or .tsv table without a header"),
    ("v.txt", " \n\n", None, "is empty; expected at least one name"),
    ("v.csv", "", None, "is empty"),
    ("v.csv", "name\n", None, "is empty"),
    ("v.csv", "", 1, "is empty"),
    ("v.txt", "PK\0\0", None, "expected text in FOLDER/v.txt, got a binary file"),
]


@pytest.mark.parametrize(("name", "text", "column", "message"), BAD)
def test_a_bad_file_is_refused_in_one_sentence(tmp_path, name, text, column, message):
    refusal = message_of(write(tmp_path, name, text), tmp_path, column)
    assert refusal.startswith(f"vocabulary '{name}'")
    assert message in refusal


def test_a_missing_file_is_named_with_its_place(tmp_path):
    assert message_of("drug", tmp_path) == (
        "vocabulary 'drug': no such file at FOLDER/drug; give a path or one of drugs, diseases; "
        "did you mean 'drugs'?"
    )
    (tmp_path / "v").mkdir()
    assert message_of("v", tmp_path) == (
        "vocabulary 'v': a folder, not a file at FOLDER/v; give a path or one of drugs, diseases"
    )


def test_a_built_in_vocabulary_has_no_column(tmp_path):
    assert message_of("drugs", tmp_path, 0) == (
        "vocabulary 'drugs': key 'column' is for a .csv or .tsv table without a header, not for "
        "a built-in vocabulary; remove it"
    )


def test_text_that_is_not_utf_8_is_refused(tmp_path):
    (tmp_path / "v.txt").write_bytes(b"Sj\xf6gren syndrome\n")
    assert re.fullmatch(
        r"vocabulary 'v.txt': expected UTF-8 text in FOLDER/v.txt, but it cannot be read \(.*"
        r"0xf6 in position 2.*\); save it as UTF-8",
        message_of("v.txt", tmp_path),
    )


def test_a_parquet_file_without_names_is_refused(tmp_path):
    for columns in ({"label": ["scurvy"]}, {"name": [1, 2]}):
        pl.DataFrame(columns).write_parquet(tmp_path / "v.parquet")
        assert "expected texts in a column 'name' of" in message_of("v.parquet", tmp_path)
    write(tmp_path, "v.parquet", "name\nscurvy\n")
    assert "expected a parquet file at" in message_of("v.parquet", tmp_path)


def test_the_published_drug_list_is_read_without_a_header(data_folder):
    assert len(load_vocabulary("FDA_Approved.csv", data_folder / "vocab", column=1).names) == 2331


def test_the_published_disease_list_loses_its_one_repeated_name(data_folder):
    vocabulary = load_vocabulary("CTD_unique_disease_names.csv", data_folder / "vocab")
    assert len(vocabulary.names) == 9847


def sentence(text: str, *gold: str) -> tuple[list[str], list[str]]:
    tokens = text.split()
    return tokens, ["B-X" if token in gold else "O" for token in tokens]


def test_gold_words_and_names_count_once_and_other_words_from_two_sentences_on():
    lexicon = noise_lexicon(
        [
            sentence("Zorblax with Patients quaffed aspirin 2024", "Zorblax"),
            sentence("patients with lorem ipsum lorem"),
        ],
        one_in=1,
    )
    assert {"zorblax", "patients", "aspirin"} <= lexicon
    assert not {"with", "quaffed", "lorem", "ipsum", "2024", "Patients"} & lexicon


def test_the_same_sentences_have_the_same_words_in_a_corpus_of_any_size():
    sentences = [sentence(f"word{chr(97 + n)} quaffed aspirin", "aspirin") for n in range(26)]
    small = noise_lexicon(sentences)
    assert "wordz" in small
    assert noise_lexicon(sentences * 400) == small
    assert "wordz" not in noise_lexicon(sentences, one_in=13)


def test_general_words_are_lower_case_words_and_no_medical_ones():
    words = stop_words()
    assert all(word == word.lower() and word.isalpha() for word in words)
    assert {"with", "were", "associated", "significant"} <= words
    assert not {"patients", "treatment", "pain", "renal"} & words


def test_the_rule_goes_by_steps_at_multiples_of_its_number() -> None:
    word = "qwertyword"  # in no vocabulary

    def is_known(n: int, times: int) -> bool:
        return word in noise_lexicon([((word,) if i < times else ("x",), ("O",)) for i in range(n)])

    assert [is_known(ONE_IN, 1), is_known(ONE_IN + 1, 1)] == [True, False]
    assert [is_known(2 * ONE_IN, 2), is_known(2 * ONE_IN + 1, 2)] == [True, False]
    page = (Path(__file__).parents[3] / "docs" / "noise.md").read_text("utf-8")
    assert f"up to {ONE_IN:,} sentences, from {ONE_IN + 1:,} on" in page
