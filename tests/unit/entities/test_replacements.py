"""Other names of mentions, from the shipped tables and from the user's files."""

from __future__ import annotations

import pytest

from medstress.core.errors import UsageError
from medstress.entities.replacements import abbreviations, related_names, strict_names


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


def test_the_related_name_is_the_nearest_that_is_not_the_mention_itself(tmp_path):
    (tmp_path / "names.txt").write_text("Gout\nGouty arthritis\nHypertension\n")
    found = related_names({"gouts": "Disease"}, "names.txt", "ngram", tmp_path)
    assert found == {"gouts": (("gouty", "arthritis"),)}


def test_related_names_of_other_types_need_a_vocabulary(tmp_path, said):
    with pytest.raises(UsageError) as caught:
        related_names({"brca1": "Gene"}, None, "ngram", tmp_path)
    said(str(caught.value), "'Gene'")
