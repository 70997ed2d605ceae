"""Other names of mentions, from the shipped tables and from the user's files."""

from __future__ import annotations

from pathlib import Path

import pytest

from medstress.core.errors import UsageError
from medstress.entities.names import folded
from medstress.entities.replacements import abbreviations, is_word, listed_first, strict_names


def mrconso_line(concept: str, name: str, language: str = "ENG", suppress: str = "N") -> str:
    fields = [""] * 18
    fields[0], fields[1], fields[14], fields[16] = concept, language, name, suppress
    return "|".join(fields) + "|\n"


@pytest.fixture
def mrconso(tmp_path):
    path = tmp_path / "MRCONSO.RRF"
    path.write_text(
        mrconso_line("C1", "Heart attack")
        + mrconso_line("C1", "Myocardial Infarction")
        + mrconso_line("C1", "MI")
        + mrconso_line("C1", "Infarkt", language="GER")
        + mrconso_line("C1", "Obsolete attack", suppress="O")
        + mrconso_line("C2", "Parkinson's disease")
        + mrconso_line("C2", "Shaking palsy"),
        encoding="utf-8",
    )
    return path


def test_names_of_umls_concepts_come_in_the_order_of_the_file(mrconso, tmp_path):
    mentions = {"heart attacks": "Disease", "parkinson ' s disease": "Disease", "gout": "Disease"}
    assert strict_names(mentions, "MRCONSO.RRF", tmp_path) == {
        "heart attacks": (("myocardial", "infarction"), ("mi",)),
        "parkinson ' s disease": (("shaking", "palsy"),),
    }


def test_abbreviations_are_made_of_initials_and_go_both_ways(mrconso, tmp_path):
    mentions = {"mi": "Disease", "myocardial infarction": "Disease", "heart attack": "Disease"}
    found = {
        direction: abbreviations(mentions, "MRCONSO.RRF", tmp_path, direction)
        for direction in ("both", "expand", "contract")
    }
    assert found["expand"] == {"mi": (("myocardial", "infarction"),)}
    assert found["contract"] == {"myocardial infarction": (("MI",),)}
    assert found["both"] == {**found["expand"], **found["contract"]}


def test_exact_synonyms_of_an_obo_file_are_names(tmp_path):
    (tmp_path / "x.obo").write_text(
        '[Term]\nid: X:1\nname: gout\nsynonym: "uric arthritis" EXACT []\n'
        'synonym: "joint pain" BROAD []\n',
        encoding="utf-8",
    )
    assert strict_names({"gout": "Disease"}, "x.obo", tmp_path) == {
        "gout": (("uric", "arthritis"),)
    }


def test_a_table_of_concepts_is_a_source_and_writings_of_one_name_are_no_other_name(tmp_path):
    (tmp_path / "mine.csv").write_text(
        "concept,name\n1,Alpha-methyldopa\n1,alpha methyldopas\n1,Aldomet\n1,ALDOMET\n"
    )
    assert strict_names({"alpha - methyldopa": "Drug"}, "mine.csv", tmp_path) == {
        "alpha - methyldopa": (("aldomet",),)
    }


def test_of_the_shipped_tables_chemicals_are_looked_up_among_drugs(tmp_path):
    as_drug = strict_names({"aspirin": "Chemical"}, "default", tmp_path)
    assert ("acetylsalicylic", "acid") in as_drug["aspirin"]
    assert strict_names({"aspirin": "Disease"}, "default", tmp_path) == {}


def test_a_missing_source_is_refused(tmp_path):
    with pytest.raises(UsageError, match="no such file"):
        strict_names({"gout": "Disease"}, "none.csv", tmp_path)


def test_a_near_name_is_the_nearest_that_is_not_the_mention_itself(tmp_path):
    (tmp_path / "names.txt").write_text("Gout\nGouty arthritis\nHypertension\n")
    mentions, written = {"gouts": "Disease"}, {"gouts": ["gouts"]}
    made = listed_first(mentions, written, "none", "names.txt", "ngram", tmp_path)
    assert made.table == {"gouts": (("gouty", "arthritis"),)}


def test_near_names_of_other_types_need_a_vocabulary(tmp_path, said):
    with pytest.raises(UsageError) as caught:
        listed_first({"brca": "Gene"}, {"brca": ["brca"]}, "none", None, "ngram", tmp_path)
    said(str(caught.value), "'Gene'")


LISTED = "concept,name\n1,aspirin\n1,acetylsalicylic acid\n1,Aspro\n2,HTN\n2,hypertension\n"
NAMES = "aspirin sulfate\nWarfarin sodium\nwarfarin\nAML\nmorphine\n"


@pytest.fixture
def base(tmp_path: Path) -> Path:
    (tmp_path / "listed.csv").write_text(LISTED)
    (tmp_path / "names.txt").write_text(NAMES)
    return tmp_path


def found(base: Path, *names: str, without: frozenset[str] = frozenset()):  # type: ignore[no-untyped-def]
    mentions = {name.lower(): "Chemical" for name in names}
    written = {name.lower(): {name} for name in names}
    return listed_first(mentions, written, "listed.csv", "names.txt", "ngram", base, without)


def test_a_listed_name_comes_before_a_nearer_one(base: Path) -> None:
    made = found(base, "aspirin", "warfarins")
    assert made.table["aspirin"][0] == ("acetylsalicylic", "acid")
    assert made.table["warfarins"] == (("warfarin", "sodium"),)
    assert made.sources == {"aspirin": "listed", "warfarins": "nearest"}


@pytest.mark.parametrize("name", ["AMLs", "AML", "5-FU", "NaCl", "eye", "MPTP"])
def test_acronyms_and_short_names_are_never_embedded(base: Path, name: str) -> None:
    assert found(base, name).table == {}


def test_an_acronym_may_have_a_listed_name(base: Path) -> None:
    made = found(base, "HTN")
    assert made.table == {"htn": (("hypertension",),)}
    assert made.sources == {"htn": "listed"}


def test_no_acronym_of_the_vocabulary_is_put_in(base: Path) -> None:
    (base / "names.txt").write_text("AMLX\nsomething else\n")
    assert found(base, "amlxis").table.get("amlxis") != (("amlx",),)


def test_a_word_that_is_once_written_in_capitals_stays_a_word(base: Path) -> None:
    made = listed_first(
        {"warfarins": "Chemical"},
        {"warfarins": {"WARFARINS", "warfarins"}},
        "listed.csv",
        "names.txt",
        "ngram",
        base,
    )
    assert made.sources == {"warfarins": "nearest"}


def test_names_that_may_not_be_put_in_leave_the_next_one(base: Path) -> None:
    without = frozenset({folded("acetylsalicylic acids"), folded("warfarin sodium")})
    made = found(base, "aspirin", "warfarine", without=without)
    assert made.table["aspirin"] == (("aspro",),)
    assert folded(" ".join(made.table["warfarine"][0])) not in without
    all_listed = without | {folded("aspro")}
    assert found(base, "aspirin", without=all_listed).sources == {"aspirin": "nearest"}


def test_what_a_word_is() -> None:
    words = ("gout", "Iron deficiency", "HIV infection", "beta-HCH salt")
    assert all(map(is_word, words))
    assert not any(map(is_word, ("GABA", "L-DOPA", "MAO", "vit B", "6-OHDA", "cAMP", "ACEIs")))
