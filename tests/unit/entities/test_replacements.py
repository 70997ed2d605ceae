"""Other names of mentions, from the shipped table and from the user's files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from medstress.entities.names import folded
from medstress.entities.replacements import (
    LEAST_SIMILARITY,
    abbreviations,
    definitions,
    may_become,
    strict_names,
    with_nearest,
)


def mrconso_line(concept: str, name: str, *, preferred: bool = False, **other: str) -> str:
    fields = [""] * 18
    fields[0], fields[1], fields[14] = concept, other.get("language", "ENG"), name
    fields[2], fields[4], fields[6] = ("P", "PF", "Y") if preferred else ("S", "VO", "N")
    fields[16] = other.get("suppress", "N")
    return "|".join(fields) + "|\n"


@pytest.fixture
def mrconso(tmp_path: Path) -> Path:
    path = tmp_path / "MRCONSO.RRF"
    path.write_text(
        mrconso_line("C1", "Heart attack")
        + mrconso_line("C1", "Coronary attack")
        + mrconso_line("C1", "Myocardial Infarction", preferred=True)
        + mrconso_line("C1", "MI")
        + mrconso_line("C1", "Infarkt", language="GER")
        + mrconso_line("C1", "Obsolete attack", suppress="O")
        + mrconso_line("C2", "Shaking palsy")
        + mrconso_line("C2", "Parkinson's disease", preferred=True)
        + mrconso_line("C3", "Coronary attack")
        + mrconso_line("C3", "Unstable angina", preferred=True),
        encoding="utf-8",
    )
    return path


def strict(base: Path, source: str, *names: str, type_: str = "Disease", **how: Any) -> Any:
    return strict_names(dict.fromkeys(names, type_), source, base, **how)


def test_names_of_umls_concepts_come_with_the_preferred_one_first(
    mrconso: Path, tmp_path: Path
) -> None:
    made = strict(tmp_path, "MRCONSO.RRF", "heart attack", "parkinson ' s disease", "gout")
    assert made.table == {
        "heart attack": (("myocardial", "infarction"), ("coronary", "attack")),
        "parkinson ' s disease": (("shaking", "palsy"),),
    }
    assert set(made.sources.values()) == {"listed"}


def test_what_several_concepts_list_stays_and_is_counted(mrconso: Path, tmp_path: Path) -> None:
    made = strict(tmp_path, "MRCONSO.RRF", "coronary attack")
    assert made.table == {}
    assert made.sources == {"coronary attack": "ambiguous"}


def test_the_concept_whose_preferred_name_is_the_mention_goes_before_others(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text(
        "concept,name\n1,seizure\n1,convulsion\n2,epilepsy\n2,seizure\n2,falling sickness\n"
    )
    assert strict(tmp_path, "mine.csv", "seizure").table == {"seizure": (("convulsion",),)}


@pytest.mark.parametrize(
    ("mention", "name", "may"),
    [
        ("paracetamol", "acetaminophen", True),
        ("heparin", "heparin sodium", False),  # a salt
        ("valproic acid", "sodium valproate", False),
        ("seizure", "absence seizure", False),  # narrower
        ("breast cancer", "cancer of the breast", False),
        ("acute kidney failure", "kidney failure", False),  # wider
        ("heart attack", "infarction, myocardial", False),
        ("seizure", "convulsions", False),  # a plural for a singular
        ("seizures", "convulsions", True),
        ("breast cancer", "breast neoplasm", False),  # benign as well
        ("lung cancer", "pulmonary carcinoma", True),
        ("kidney failure", "renal insufficiency", False),  # a degree
        ("heart failure", "cardiac failure", True),
        ("lupus", "sle 2", False),  # a number
        ("type 2 diabetes", "niddm 2", True),
        ("gout", "uric acid crystals in the joint", False),  # six words
        ("gout", "podagracrystallopathiahyperuricaemicassive", False),
        ("non-union of bone", "nonunion of bone", False),  # a spelling
        ("hiv infection", "htlv-iii disease", False),
    ],
)
def test_what_may_stand_for_a_mention(mention: str, name: str, may: bool) -> None:
    assert may_become(mention, name) == may


def test_no_acronym_and_no_forbidden_name_is_put_in(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(
        "concept,name\n1,hypertension\n1,HTN\n1,hbp\n1,high blood pressure\n1,raised pressure\n"
    )
    assert strict(tmp_path, "x.csv", "hypertension").table["hypertension"] == (
        ("high", "blood", "pressure"),
        ("raised", "pressure"),
    )
    without = {folded("high blood pressures"), folded("raised pressure")}
    assert strict(tmp_path, "x.csv", "hypertension", without=without).table == {}


def test_abbreviations_are_made_of_initials_and_go_both_ways(mrconso: Path, tmp_path: Path) -> None:
    mentions = {"mi": "Disease", "myocardial infarction": "Disease", "heart attack": "Disease"}
    made = {
        direction: abbreviations(mentions, "MRCONSO.RRF", tmp_path, direction)
        for direction in ("both", "expand", "contract")
    }
    assert made["expand"] == {"mi": (("myocardial", "infarction"),)}
    assert made["contract"] == {"myocardial infarction": (("MI",),)}
    assert made["both"] == {**made["expand"], **made["contract"]}


def test_a_table_of_concepts_is_a_source_and_writings_of_one_name_are_no_other_name(
    tmp_path: Path,
) -> None:
    (tmp_path / "mine.csv").write_text(
        "concept,name\n1,Alpha-methyldopa\n1,alpha methyldopas\n1,Aldomet\n1,ALDOMET\n"
    )
    made = strict(tmp_path, "mine.csv", "alpha - methyldopa", type_="Drug")
    assert made.table == {"alpha - methyldopa": (("aldomet",),)}


class TestShipped:
    """Traps of the first edition (METHODS 4.5)."""

    @pytest.mark.parametrize(
        ("mention", "name"), [("acetaminophen", "paracetamol"), ("paracetamol", "acetaminophen")]
    )
    def test_a_chemical_gets_a_name_of_the_same_substance(self, mention: str, name: str) -> None:
        assert strict(Path(), "default", mention, type_="Chemical").table[mention][0] == (name,)

    def test_a_disease_gets_a_name_of_the_same_disease(self) -> None:
        made = strict(Path(), "default", "hypertension", "chickenpox").table
        assert made["hypertension"][0] == ("high", "blood", "pressure")
        assert made["chickenpox"][0] == ("varicella",)

    @pytest.mark.parametrize(
        ("type_", "mention", "wrong"),
        [
            ("Chemical", "heparin", "tinzaparin"),
            ("Chemical", "heparin", "heparin sodium"),
            ("Chemical", "warfarin", "choice"),
            ("Chemical", "thalidomide", "celgene"),
            ("Disease", "seizure", "absence seizure"),
            ("Disease", "seizures", "absence seizures"),
            ("Disease", "diabetes", "diabetes insipidus"),
            ("Disease", "lymphoma", "germinoblastoma"),  # MeSH alone
            ("Disease", "dyskinesia", "abnormal movement"),
            ("Disease", "breast cancer", "breast neoplasm"),
            ("Disease", "wilson disease", "cerebral pseudosclerosis"),  # obsolete
            ("Disease", "sore throat", "pharyngitis"),  # one term in MONDO, two in HPO
        ],
    )
    def test_what_was_put_in_once_is_no_more(self, type_: str, mention: str, wrong: str) -> None:
        table = strict(Path(), "default", mention, type_=type_).table
        assert tuple(wrong.split()) not in table.get(mention, ())

    def test_chemicals_are_looked_up_among_chemicals(self) -> None:
        assert strict(Path(), "default", "paracetamol", type_="T121").table
        assert not strict(Path(), "default", "paracetamol", type_="Disease").table

    def test_all_names_keep_the_rules(self) -> None:
        from medstress.entities.vocabularies import shipped_rows

        rows = list(shipped_rows("other_names"))
        names = [(label, name) for _, _, label, all_, _ in rows for name in all_.split("|") if name]
        assert len(names) > 10_000
        assert all(concept[0] in "CD" and concept[1:].isdigit() for concept, *_ in rows)
        assert not any(mark in name for _, name in names for mark in "|\t")
        for _, _, label, all_, keys in rows:
            assert {label, *map(folded, all_.split("|"))} - {""} <= set(keys.split("|"))


LISTED = "concept,name\n1,aspirin\n1,acetylsalicylic acid\n1,Aspro\n2,HTN\n2,hypertension\n"
NAMES = "aspirin sulfate\nWarfarin sodium\nwarfarin\nAML\nmorphine\n"


@pytest.fixture
def base(tmp_path: Path) -> Path:
    (tmp_path / "listed.csv").write_text(LISTED)
    (tmp_path / "names.txt").write_text(NAMES)
    return tmp_path


def related(base: Path, *names: str, without: frozenset[str] = frozenset(), **written: Any) -> Any:
    mentions = {name.lower(): "Chemical" for name in names}
    spelt = {name.lower(): {name} for name in names} | written
    listed = strict_names(mentions, "listed.csv", base, without)
    return with_nearest(listed, mentions, spelt, "names.txt", "ngram", base, without)


def test_a_listed_name_comes_before_a_nearer_one(base: Path) -> None:
    made = related(base, "aspirin", "warfarins")
    assert made.table["aspirin"][0] == ("acetylsalicylic", "acid")
    assert made.table["warfarins"] == (("warfarin", "sodium"),)
    assert made.sources == {"aspirin": "listed", "warfarins": "nearest"}


def test_below_the_least_similarity_nothing_is_put_in(base: Path) -> None:
    assert 0 < LEAST_SIMILARITY < 1
    made = related(base, "morphinan alkaloids of the poppy", "metoprololl")
    assert (made.table, set(made.sources.values())) == ({}, {"distant"})


@pytest.mark.parametrize("name", ["AMLs", "AML", "5-FU", "NaCl", "eye", "MPTP"])
def test_acronyms_and_short_names_are_never_embedded(base: Path, name: str) -> None:
    assert related(base, name).table == {}


def test_names_that_may_not_be_put_in_leave_the_next_one(base: Path) -> None:
    without = frozenset({folded("acetylsalicylic acids"), folded("warfarin sodium")})
    made = related(base, "aspirin", "warfarins sodium", without=without)
    assert made.table["aspirin"] == (("aspro",),)
    assert folded(" ".join(made.table["warfarins sodium"][0])) not in without
    assert related(base, "aspirin", without=without | {"aspro"}).sources == {"aspirin": "nearest"}


def test_a_short_form_is_defined_in_brackets_after_its_long_form() -> None:
    text = "Parkinson ' s disease ( P - D ) is not ( PD )"
    tokens = tuple(text.split())
    labels = ["B-D", "I-D", "I-D", "I-D", "O", "B-D", "I-D", "I-D", "O", "O", "O", "O", "B-D", "O"]
    assert list(definitions(tokens, labels)) == [(tokens[:4], tokens[5:8])]
    other_type = [
        label.replace("B-D", "B-X") if n == 5 else label for n, label in enumerate(labels)
    ]
    assert list(definitions(tokens, other_type)) == []
