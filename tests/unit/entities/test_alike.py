"""Evidence on two names: its kind, its value, and silence where the tables know nothing."""

from __future__ import annotations

from typing import get_args

import pytest

from medstress.core.items import Mention, Question
from medstress.core.validity import KINDS
from medstress.entities.alike import (
    NameRules,
    Relation,
    Relations,
    Value,
    drug_names,
    option_evidence,
    settled,
    stems,
)
from medstress.entities.vocabularies import SynonymGroups

VALUES: tuple[Value, ...] = get_args(Value)
relations = Relations().between


def first(one: str, other: str) -> tuple[str, str] | None:
    found = relations(one, other)
    assert all(each.kind in KINDS and each.source for each in found)
    return (found[0].kind, found[0].value) if found else None


def said_of(
    name: str, item: Question, field: str = "B", synonyms: SynonymGroups | None = None
) -> list[tuple[str, bool | None]]:
    known = synonyms or SynonymGroups("none", "", ())
    found = option_evidence(item, name, field, NameRules(known), Relations([known]))
    assert all(each.kind in KINDS and each.source for each in found)
    return [(each.kind, each.valid) for each in found]


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
        ("ACE inhibitors", "ramipril", ("child", "unknown")),
        ("warfarin", "metformin", ("other_concept", "different")),
        ("isosorbide dinitrate", "isosorbide mononitrate", ("other_concept", "different")),
        ("Oral clotrimazole", "clotrimazole", ("synonym", "same")),
        ("heart attack", "myocardial infarction", ("synonym", "same")),
        ("hypertensive", "hypertension", ("synonym", "same")),
        ("ARF", "acute renal failure", ("abbreviation", "same")),
        ("asthma", "status asthmaticus", ("child", "unknown")),
        ("status asthmaticus", "asthma", ("parent", "unknown")),
        ("Addison disease", "adrenal insufficiency", ("parent", "unknown")),
        ("haemophilia A", "hemophilia B", ("sibling", "different")),
        ("heparin", "enoxaparin", ("child", "unknown")),
        ("tenofovir disoproxil", "tenofovir alafenamide", ("salt", "unknown")),
        ("IV vancomycin", "oral vancomycin", ("synonym", "unknown")),
        ("ferrous sulfate", "iron", ("parent", "unknown")),
        ("TB", "asthma", ("other_concept", "unknown")),
        ("gout", "metformin", ("other_concept", "different")),
        ("vellish pox", "acute vellish pox", ("child", "unknown")),
        ("vellish severe pox", "VSP", ("abbreviation", "unknown")),
        ("IV antibiotics", "amoxicillin", None),
        ("Stop warfarin and wait", "warfarin", ("parent", "unknown")),
        ("Colonoscopy", "metformin", None),
        ("Start omeprazole before a meal", "esomeprazole", None),
        ("Humalog", "Lantus", ("other_concept", "different")),
        ("calcium carbonate", "potassium carbonate", ("other_concept", "different")),
        ("Vimovo", "omeprazole", ("sibling", "different")),
    ],
)
def test_what_the_second_name_is_to_the_first(
    one: str, other: str, expected: tuple[str, str] | None
) -> None:
    assert first(one, other) == expected


@pytest.mark.parametrize(
    ("key", "generic", "brands", "kind"),
    [
        ("insulin", "insulin lispro", ("Humalog", "Admelog", "lispro"), "child"),
        ("lithium", "lithium carbonate", ("Lithobid", "Eskalith", "Lithonate"), "child"),
        ("lithium citrate", "lithium carbonate", ("Lithobid", "Eskalith"), "salt"),
        ("iron sucrose", "ferrous sulfate", ("Feosol",), "salt"),
        ("omeprazole", "esomeprazole", ("Nexium", "Vimovo"), "child"),
    ],
)
def test_a_brand_is_judged_as_its_generic_name_is(
    key: str, generic: str, brands: tuple[str, ...], kind: str
) -> None:
    back = {"child": "parent", "salt": "salt"}[kind]
    for name in (generic, *brands):
        assert drug_names().place(name) is not None, name
        assert first(key, name) == (kind, "unknown"), name
        assert settled(relations(key, name)) is None
    assert first(generic, key) == (back, "unknown")


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("levothyroxine", "thyroxine", ("synonym", "same")),
        ("levothyroxine", "liothyronine", ("other_concept", "different")),
        ("dexamethasone", "betamethasone", ("other_concept", "different")),
        ("levodopa", "dopamine", ("other_concept", "different")),
        ("dextromethorphan", "levorphanol", ("other_concept", "different")),
        # Its name is made by the rule, and etiracetam is the racemate of which it is one half.
        ("etiracetam", "levetiracetam", ("child", "unknown")),
    ],
)
def test_only_the_rest_of_an_enantiomers_name_is_its_racemate(
    one: str, other: str, expected: tuple[str, str]
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
    assert said_of("Coumadin", item, "C") == [
        ("other_concept", None),
        ("duplicate_of_option", False),
    ]
    # Where it replaces that option, it stands there once.
    assert said_of("Coumadin", item, "B") == [("other_concept", None)]


def test_what_the_rules_refute_and_what_the_tables_know_stand_beside_each_other() -> None:
    item = Question(id="q", stem="?", options=("Warfarin", "gout"), key="A")
    assert said_of("Coumadin", item) == [("brand", False)]
    mine = SynonymGroups("lists/mine.csv", "", [("1", "warfarin"), ("1", "pyrrolol")])
    assert said_of("pyrrolol", item, synonyms=mine) == [("synonym", False)]
    assert said_of("warfarin sodium", item) == [("key_plus_words", False), ("salt", False)]
    assert said_of("Warfarin", item) == [("same_concept", False)]
    # The rules know words in any order, the list as they stand; the reason is there in any case.
    turned = SynonymGroups("mine", "", [("1", "warfarin"), ("1", "acid pyrrol")])
    assert said_of("pyrrol acid", item, synonyms=turned) == [("synonym", False)]


def test_rules_and_tables_call_a_name_wrong_or_unknown_and_never_right() -> None:
    values = {value: Relation("sibling", value, "a table").as_evidence().valid for value in VALUES}
    assert values == {"same": False, "different": None, "unknown": None}
    item = Question(
        id="q", stem="All are drugs except?", options=("Warfarin sodium", "Aspirin"), key="A"
    )
    names = ("Coumadin", "warfarin", "ASPIRIN", "heparin", "asthma", "salt of sodium", "-", "")
    judged = {valid for name in names for _, valid in said_of(name, item)}
    assert judged == {False, None}


def test_a_name_of_a_part_of_the_key_settles_nothing_by_the_tables() -> None:
    part = Mention(field="A", start=11, end=19, type="drugs")
    item = Question(
        id="q", stem="?", options=("Treat with warfarin", "gout"), key="A", mentions=(part,)
    )
    assert said_of("Coumadin", item) == [("brand", None)]
    mine = SynonymGroups("mine", "", [("1", "warfarin"), ("1", "coumadin")])
    assert set(said_of("Coumadin", item, synonyms=mine)) == {("synonym", False), ("brand", False)}


def test_stems_join_inflections_and_keep_diseases_apart() -> None:
    assert stems("Cancer of the breast") == stems("breast cancers")
    assert stems("renal failure") == stems("Kidney failure")
    assert stems("ischaemic stroke") == stems("ischemic strokes")
    assert stems("hypertension") != stems("hypotension")
    assert stems("hyperthyroidism") != stems("hypothyroidism")
