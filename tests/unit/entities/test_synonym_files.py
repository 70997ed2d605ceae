import gzip

import pytest

from medstress.core.errors import UsageError
from medstress.entities.synonyms import load_synonyms, mrconso_rows, obo_rows


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


def test_synonyms_come_from_an_obo_file_and_their_hash_follows_it(tmp_path):
    (tmp_path / "d.obo").write_text(OBO)
    groups = load_synonyms("d.obo", tmp_path, ["gout"])
    assert "scorbutus" in groups.synonyms_of("Scurvy")
    (tmp_path / "d.obo").write_text(OBO.replace("scorbutus", "scorbut"))
    assert load_synonyms("d.obo", tmp_path).hash != groups.hash


@pytest.mark.parametrize(
    ("name", "text", "where"),
    [
        # How pytest names what is long differs between its versions.
        pytest.param("m.rrf", CONSO + "C3|ENG|x|\n", "m.rrf:6", id="too few columns"),
        (
            "m.rrf",
            mrconso("", "x"),
            "m.rrf:1",
        ),
        (
            "d.obo",
            "[Term]\nid: D:1\nsynonym: scorbutus EXACT []\n",
            "d.obo:3",
        ),
        (
            "d.obo",
            "[Term]\nid D1\n",
            "d.obo:2",
        ),
    ],
)
def test_a_malformed_line_is_named_by_file_and_number(tmp_path, name, text, where, said):
    (tmp_path / name).write_text(text)
    with pytest.raises(UsageError) as error:
        load_synonyms(name, tmp_path, ["x"])
    said(str(error.value), where)


@pytest.mark.parametrize("name", ["MRCONSO.RRF", "drugs.obo"])
def test_an_empty_file_is_refused(tmp_path, name, said):
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(UsageError) as caught:
        list((mrconso_rows if name.startswith("M") else obo_rows)(tmp_path / name))
    said(str(caught.value))


def test_bytes_that_are_no_text_are_named_by_file_and_number(tmp_path):
    (tmp_path / "m.rrf").write_bytes(CONSO.encode() + b"\xff|\n")
    with pytest.raises(UsageError) as error:
        load_synonyms("m.rrf", tmp_path)
    assert str(error.value).startswith(f"synonyms: {tmp_path}/m.rrf:6: expected UTF-8 text")
    (tmp_path / "d.obo.gz").write_bytes(gzip.compress(OBO.encode())[:-20])
    with pytest.raises(UsageError, match=r"d\.obo\.gz cannot be read"):
        load_synonyms("d.obo.gz", tmp_path)
