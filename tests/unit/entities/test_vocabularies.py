"""The lexicon of noise: gold words, names, and what a corpus says more than once."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from medstress.core.errors import UsageError
from medstress.entities.vocabularies import ONE_IN, load_vocabulary, noise_lexicon, vocabulary_of


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


def test_a_parquet_file_is_read_by_its_name_column(tmp_path):
    pl.DataFrame({"id": [1, 2, 3], "name": ["scurvy", None, "rickets"]}).write_parquet(
        tmp_path / "v.parquet"
    )
    assert load_vocabulary("v.parquet", tmp_path).names == ("scurvy", "rickets")


BAD = [
    ("v.csv", "id,label\n1,scurvy\n", None, "expected a column 'name', got 'id', 'label' in"),
    (
        "v.csv",
        "name\nscurvy\nhernia, inguinal\n",
        None,
        "line 3: expected 1 fields as in the header",
    ),
    ("v.csv", 'name\n"scurvy\n', None, "v.csv, line 2: expected every quotation mark to be closed"),
    ("v.csv", "1,scurvy\n", 2, "expected column = 0 to 1 (counted from 0), got 2"),
    ("v.txt", "scurvy\n", 0, "key 'column' is for a .csv or .tsv table without a header"),
    ("v.txt", " \n\n", None, "is empty; expected at least one name"),
    ("v.csv", "", None, "expected at least one row, got an empty file"),
    ("v.csv", "name\n", None, "expected at least one row, got none"),
    ("v.csv", "", 1, "expected at least one row, got an empty file"),
    ("v.txt", "PK\0\0", None, "expected UTF-8 text"),
]


@pytest.mark.parametrize(("name", "text", "column", "message"), BAD)
def test_a_bad_file_is_refused_in_one_sentence(tmp_path, name, text, column, message):
    refusal = message_of(write(tmp_path, name, text), tmp_path, column)
    assert refusal.startswith(f"vocabulary '{name}'")
    assert message in refusal


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


def test_the_rule_goes_by_steps_at_multiples_of_its_number() -> None:
    word = "qwertyword"  # in no vocabulary

    def is_known(n: int, times: int) -> bool:
        return word in noise_lexicon([((word,) if i < times else ("x",), ("O",)) for i in range(n)])

    assert [is_known(ONE_IN, 1), is_known(ONE_IN + 1, 1)] == [True, False]
    assert [is_known(2 * ONE_IN, 2), is_known(2 * ONE_IN + 1, 2)] == [True, False]
    page = (Path(__file__).parents[3] / "docs" / "noise.md").read_text("utf-8")
    assert f"{ONE_IN:,} sentences" in page
