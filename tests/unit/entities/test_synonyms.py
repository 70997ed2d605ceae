import gzip
from pathlib import Path

import pytest

from medstress.core.errors import UsageError
from medstress.entities.vocabularies import load_synonyms, mrconso_rows, obo_rows

TABLE = (
    "concept,name\n1,Paracetamol\n1,acetaminophen\n1,Tylenol\n2,ASA\n3,asa\n2,aspirin\n3,5-ASA\n"
)


@pytest.fixture
def table(tmp_path: Path) -> str:
    (tmp_path / "s.csv").write_text(TABLE)
    return "s.csv"


def test_names_of_one_concept_are_synonyms_whatever_their_spelling(table, tmp_path):
    groups = load_synonyms(table, tmp_path)
    assert groups.synonyms_of("PARACETAMOL") == {"acetaminophen", "tylenol"}
    assert groups.synonyms_of("zinc") == load_synonyms("none", tmp_path).synonyms_of("ASA") == set()


def test_a_name_of_two_concepts_has_the_synonyms_of_both(table, tmp_path):
    assert load_synonyms(table, tmp_path).synonyms_of("asa") == {"aspirin", "5 asa"}


def test_the_default_joins_brand_and_generic_and_names_of_one_disease():
    groups = load_synonyms("default", Path())
    assert "ibuprofen" in groups.synonyms_of("Advil")
    assert "scorbutus" in groups.synonyms_of("scurvy")


def test_the_hash_follows_the_content(table, tmp_path):
    first = load_synonyms(table, tmp_path).hash
    assert first == load_synonyms(table, tmp_path).hash
    (tmp_path / "s.csv").write_text(TABLE + "4,zinc\n")
    assert first != load_synonyms(table, tmp_path).hash


def mrconso(concept: str, name: str, language: str = "ENG", suppress: str = "N") -> str:
    fields = [""] * 18
    fields[0], fields[1], fields[14], fields[16] = concept, language, name, suppress
    return "|".join(fields) + "|\n"


CONSO = (
    mrconso("C1", "Paracetamol")
    + mrconso("C2", "Zinc")
    + mrconso("C1", "Paracétamol", language="FRE")
    + mrconso("C1", "Acetaminophen")
    + mrconso("C1", "APAP, obsolete", suppress="O")
)

OBO = r"""format-version: 1.2
synonymtypedef: abbreviation "abbreviation"

[Term]
id: D:1
name: scurvy {source="x"} ! a comment
synonym: "scorbutus" EXACT [PMID:1]
synonym: "vitamin C deficiency" BROAD []
synonym: "lack of \"C\"" EXACT abbreviation [] {a="b"}
synonym: "sailors' disease" []
exact_synonym: "Barlow disease" []

[Term]
id: D:2
name: old scurvy
synonym: "scorbutus" EXACT []
is_obsolete: true

[Typedef]
id: part_of
name: scurvy

[Term]
id: D:3
name: gout
"""


@pytest.fixture
def conso(tmp_path):
    (tmp_path / "MRCONSO.RRF").write_text(CONSO, "utf-8")
    return tmp_path / "MRCONSO.RRF"


def test_mrconso_gives_the_english_names_that_are_not_suppressed(conso):
    assert list(mrconso_rows(conso)) == [
        ("C1", "Paracetamol"),
        ("C2", "Zinc"),
        ("C1", "Acetaminophen"),
    ]


def test_only_concepts_with_a_needed_name_are_kept_and_those_whole(conso):
    rows = list(mrconso_rows(conso, ["ACETAMINOPHEN", "iron"]))
    assert rows == [("C1", "Paracetamol"), ("C1", "Acetaminophen")]
    assert list(mrconso_rows(conso, [])) == []


def test_synonyms_come_from_mrconso_compressed_or_not(conso, tmp_path):
    (tmp_path / "small.rrf.gz").write_bytes(gzip.compress(CONSO.encode()))
    for source in ("MRCONSO.RRF", "small.rrf.gz"):
        groups = load_synonyms(source, tmp_path, ["Paracetamol"])
        assert groups.synonyms_of("paracetamol") == {"acetaminophen"}
        assert groups.synonyms_of("zinc") == frozenset()


def test_an_obo_term_has_its_name_and_its_exact_synonyms(tmp_path):
    (tmp_path / "d.obo").write_text(OBO)
    assert list(obo_rows(tmp_path / "d.obo")) == [
        ("D:1", "scurvy"),
        ("D:1", "scorbutus"),
        ("D:1", 'lack of "C"'),
        ("D:1", "Barlow disease"),
        ("D:3", "gout"),
    ]


@pytest.mark.parametrize(
    ("name", "text", "where"),
    [
        # How pytest names what is long differs between its versions.
        pytest.param("m.rrf", CONSO + "C3|ENG|x|\n", "m.rrf:6", id="too few columns"),
        ("m.rrf", mrconso("", "x"), "m.rrf:1"),
        ("d.obo", "[Term]\nid: D:1\nsynonym: scorbutus EXACT []\n", "d.obo:3"),
        ("d.obo", "[Term]\nid D1\n", "d.obo:2"),
    ],
)
def test_a_malformed_line_is_named_by_file_and_number(tmp_path, name, text, where, said):
    (tmp_path / name).write_text(text)
    with pytest.raises(UsageError) as error:
        load_synonyms(name, tmp_path, ["x"])
    said(str(error.value), where)
