from pathlib import Path

import pytest

from medstress.core.errors import UsageError
from medstress.entities import synonyms
from medstress.entities.synonyms import load_synonyms

TABLE = (
    "concept,name\n1,Paracetamol\n1,acetaminophen\n1,Tylenol\n2,ASA\n3,asa\n2,aspirin\n3,5-ASA\n"
)


@pytest.fixture
def table(tmp_path: Path) -> str:
    (tmp_path / "s.csv").write_text(TABLE)
    return "s.csv"


@pytest.fixture
def shipped(monkeypatch):
    rows = {
        "drugs": [["1", "ibuprofen", "generic", "1"], ["1", "advil", "brand", "0"]],
        "diseases": [["1", "scurvy", "label", "1"], ["1", "scorbutus", "exact", "0"]],
    }
    monkeypatch.setattr(synonyms, "shipped_rows", lambda name: rows[name])
    monkeypatch.setattr(synonyms, "shipped_bytes", lambda name: b"x")
    synonyms._shipped.cache_clear()
    yield
    synonyms._shipped.cache_clear()


def test_names_of_one_concept_are_synonyms_whatever_their_spelling(table, tmp_path):
    groups = load_synonyms(table, tmp_path)
    assert groups.synonyms_of("PARACETAMOL") == {"acetaminophen", "tylenol"}


def test_a_name_of_two_concepts_has_the_synonyms_of_both(table, tmp_path):
    assert load_synonyms(table, tmp_path).synonyms_of("asa") == {"aspirin", "5 asa"}


def test_an_unlisted_name_has_no_synonyms(table, tmp_path):
    assert load_synonyms(table, tmp_path).synonyms_of("zinc") == frozenset()


def test_none_lists_nothing(tmp_path):
    assert load_synonyms("none", tmp_path).synonyms_of("advil") == frozenset()


def test_the_default_joins_brand_and_generic_but_not_tables_with_equal_identifiers(
    shipped, tmp_path
):
    groups = load_synonyms("default", tmp_path)
    assert groups.synonyms_of("Advil") == {"ibuprofen"}
    assert groups.synonyms_of("scurvy") == {"scorbutus"}


def test_the_hash_follows_the_content(table, tmp_path):
    first = load_synonyms(table, tmp_path).hash
    assert first == load_synonyms(table, tmp_path).hash
    (tmp_path / "s.csv").write_text(TABLE + "4,zinc\n")
    assert first != load_synonyms(table, tmp_path).hash


def test_the_shipped_tables_know_twins(tmp_path):
    groups = load_synonyms("default", tmp_path)
    assert "acetaminophen" in groups.synonyms_of("Tylenol")
    assert "myocardial infarction" in groups.synonyms_of("heart attack")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "s.csv",
            "id,name\n1,zinc\n",
            "synonyms 's.csv': expected the columns 'concept' and 'name', got 'id', 'name' in the "
            "first line of FOLDER/s.csv; rename the columns",
        ),
        (
            "s.csv",
            "concept,name\n",
            "synonyms 's.csv': expected at least one row under the header, got none in "
            "FOLDER/s.csv",
        ),
        (
            "s.txt",
            "zinc\n",
            "synonyms 's.txt': cannot tell what kind of file FOLDER/s.txt is; give 'default', "
            "'none', a .csv or .tsv table with the columns concept, name, UMLS' "
            "MRCONSO.RRF or an .obo file",
        ),
    ],
)
def test_a_bad_table_is_refused_in_one_sentence(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(UsageError) as error:
        load_synonyms(name, tmp_path)
    assert str(error.value).replace(str(tmp_path), "FOLDER") == message


def test_a_missing_table_is_named_with_its_place(tmp_path):
    with pytest.raises(UsageError) as error:
        load_synonyms("defaults", tmp_path)
    assert str(error.value).replace(str(tmp_path), "FOLDER") == (
        "synonyms 'defaults': no such file at FOLDER/defaults; give 'default', 'none', a "
        ".csv or .tsv table with the columns concept, name, UMLS' MRCONSO.RRF or an .obo file"
    )
