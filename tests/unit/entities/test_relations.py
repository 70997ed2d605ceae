"""Evidence on two names: its kind, its value, and silence where the tables know nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from medstress.core.items import Question
from medstress.entities.disease_names import stems
from medstress.entities.drug_names import drug_names
from medstress.entities.relations import KINDS, Relations, option_evidence, relations, settled
from medstress.entities.synonyms import SynonymGroups, concept_rows
from medstress.entities.tables import shipped_rows


def first(one: str, other: str) -> tuple[str, str] | None:
    found = relations(one, other)
    assert all(each.kind in KINDS and each.source for each in found)
    return (found[0].kind, found[0].value) if found else None


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("Metformin", "metformin", ("same_concept", "same")),
        ("paracetamol", "acetaminophen", ("synonym", "same")),
        ("salbutamol", "albuterol", ("synonym", "same")),
        ("diclofenac", "diclofenac sodium", ("salt", "same")),
        ("salbutamol", "albuterol sulfate", ("salt", "same")),
        ("warfarin", "Coumadin", ("brand", "same")),
        ("Lipitor", "atorvastatin", ("generic", "same")),
        ("simvastatin", "Vytorin", ("combination_product", "same")),
        ("Vytorin", "simvastatin", ("combination_product", "different")),
        ("co-trimoxazole", "Bactrim", ("brand", "same")),
        ("lisinopril", "enalapril", ("sibling", "different")),
        ("ACE inhibitors", "ramipril", ("child", "different")),
        ("warfarin", "metformin", ("other_concept", "different")),
        ("potassium chloride", "sodium chloride", ("other_concept", "different")),
        ("isosorbide dinitrate", "isosorbide mononitrate", ("other_concept", "different")),
        ("Oral clotrimazole", "clotrimazole", ("synonym", "same")),
        ("Start a trial of warfarin", "metformin", ("other_concept", "different")),
        ("heart attack", "myocardial infarction", ("synonym", "same")),
        ("hypertensive", "hypertension", ("synonym", "same")),
        ("ARF", "acute renal failure", ("abbreviation", "same")),
        ("asthma", "status asthmaticus", ("child", "different")),
        ("status asthmaticus", "asthma", ("parent", "different")),
        ("gout", "metformin", ("other_concept", "different")),
        ("vellish pox", "acute vellish pox", ("child", "unknown")),
        ("vellish severe pox", "VSP", ("abbreviation", "unknown")),
        ("IV antibiotics", "amoxicillin", None),
        ("Stop warfarin and wait", "warfarin", ("parent", "unknown")),
        ("Colonoscopy", "metformin", None),
    ],
)
def test_what_the_second_name_is_to_the_first(
    one: str, other: str, expected: tuple[str, str] | None
) -> None:
    assert first(one, other) == expected


def test_one_meaning_that_is_the_same_outweighs_the_others() -> None:
    mine = SynonymGroups("mine", "", [("1", "warfarin"), ("1", "metformin")])
    found = Relations([mine]).between("warfarin", "metformin")
    assert {each.value for each in found} == {"same", "different"}
    assert settled(found) is True
    assert settled(relations("warfarin", "metformin")) is False
    assert settled(relations("Colonoscopy", "metformin")) is None


def test_a_name_that_another_option_means_is_its_duplicate() -> None:
    item = Question(id="q", stem="?", options=("gout", "Warfarin", "asthma"), key="A")
    found = option_evidence(item, "Coumadin")
    assert [(each.kind, each.value) for each in found] == [
        ("other_concept", "different"),
        ("duplicate_of_option", "same"),
    ]


def test_stems_join_inflections_and_keep_diseases_apart() -> None:
    assert stems("Cancer of the breast") == stems("breast cancers")
    assert stems("renal failure") == stems("Kidney failure")
    assert stems("ischaemic stroke") == stems("ischemic strokes")
    assert stems("hypertension") != stems("hypotension")
    assert stems("hyperthyroidism") != stems("hypothyroidism")


def test_the_table_has_four_columns_and_bases_are_their_own() -> None:
    rows = list(shipped_rows("drug_names"))
    assert {len(row) for row in rows} == {4}
    assert {row[1] for row in rows} == {"generic", "brand"}
    assert {row[2] for row in rows} == {"unii", "fda", "spellings"}
    assert "simvastatin" in drug_names()
    assert "vellomycin" not in drug_names()


def test_the_synonyms_of_old_folders_stay_what_they_were() -> None:
    _, default, _ = concept_rows("default", Path())
    _, wide, rows = concept_rows("wide", Path())
    assert default == "blake2b-128:7c25080810d41e62ada7c3f8fc23b296"
    assert wide != default
    groups = SynonymGroups("wide", wide, (row for row in rows if "warfarin" in row[0]))
    assert "coumadin" in groups.synonyms_of("warfarin")
