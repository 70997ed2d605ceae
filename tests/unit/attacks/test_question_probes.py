"""What the probes of questions ask, driven by hand."""

from __future__ import annotations

from dataclasses import replace
from difflib import SequenceMatcher

import numpy as np
import pytest

from medstress.attacks.probes import (
    FRAMINGS,
    MITIGATION,
    BrandGeneric,
    Challenge,
    ContextRemoved,
    FabricatedDetail,
    FalseStatement,
    Lasa,
    NoneOfTheOthers,
    OptionOrder,
    OptionsOnly,
    shipped_pairs,
)
from medstress.core.errors import UsageError
from medstress.core.items import Question
from medstress.core.resources import DrugNames
from medstress.entities.alike import shipped_drug_names
from medstress.entities.vocabularies import shipped_rows
from medstress.testing import tiny_resources

ITEM = Question(
    id="q",
    context="She takes warfarin. Her INR is 1.1.",
    stem="Which drug is it?",
    options=("Warfarin", "Metformin", "Hydroxyzine 25 mg", "Nothing"),
    key="C",
)
RESOURCES = replace(tiny_resources(), drugs=shipped_drug_names())


def asked(probe, item=ITEM, seed=0):
    assert probe.obstacle(item, RESOURCES) is None
    return list(probe.variants(item, np.random.default_rng(seed), RESOURCES))


def test_cyclic_orders_put_every_option_once_at_every_letter():
    orders = [ITEM.options, *(each.options for each in asked(OptionOrder()))]
    for place in range(4):
        assert {order[place] for order in orders} == set(ITEM.options)
    assert len({each.options for each in asked(OptionOrder(orders="random", budget=100))}) == 23


@pytest.mark.parametrize(
    "text",
    [
        *("All of the above", "All of above", "None of above", "All the above", "None of these"),
        *("A and C", "Both A and B", "B, C, and D", "Neither A nor B", "A & B", "a, b and c"),
        *("None", "All", "Both", "All are correct", "A and C are correct", "1,2,3", "1, 2 and 3"),
        *("Both of them", "Answers 1 and 2", "None of the options is right", "No correct answer"),
    ],
)
def test_an_option_that_speaks_of_the_others_is_neither_moved_nor_left_beside_none(text):
    item = replace(ITEM, options=(*ITEM.options[:3], text))
    assert "option D" in str(OptionOrder().obstacle(item, RESOURCES))
    assert NoneOfTheOthers().obstacle(item, RESOURCES) is not None


@pytest.mark.parametrize(
    "text",
    [
        *("Vitamin A and C", "IgA and IgG", "B", "One", "1/4", "1-2", "10, 11", "A1", "No drug"),
        *("All or none law", "Hepatitis B, C", "One of the kidneys", "Nothing", "5"),
    ],
)
def test_an_option_that_only_sounds_like_it_is_asked(text):
    item = replace(ITEM, options=(*ITEM.options[:3], text))
    assert OptionOrder().obstacle(item, RESOURCES) is None
    assert NoneOfTheOthers().obstacle(item, RESOURCES) is None


def test_none_of_the_others_stands_for_the_key_or_for_a_distractor():
    (found,) = asked(NoneOfTheOthers())
    assert found.options[2] == "None of the other answers"
    (found,) = asked(NoneOfTheOthers(replaces="distractor", text="None of them"))
    assert found.options[2] == ITEM.options[2]
    assert sum(text == "None of them" for text in found.options) == 1
    own = replace(ITEM, options=(*ITEM.options[:3], "none of the other answers"))
    assert NoneOfTheOthers().obstacle(own, RESOURCES) is not None


def test_parts_go_and_the_rest_stays():
    (found,) = asked(OptionsOnly())
    assert (found.context, found.stem, found.options) == ("", "", ITEM.options)
    (found,) = asked(ContextRemoved())
    assert (found.context, found.stem, found.options) == ("", ITEM.stem, ITEM.options)
    assert ContextRemoved().obstacle(replace(ITEM, context=""), RESOURCES) is not None


def test_every_drug_gets_a_brand_and_the_same_one_wherever_it_stands():
    for found in asked(BrandGeneric(budget=4)):
        inserted = {edit.field: edit.replacement for edit in found.edits}
        assert inserted["context"] == inserted["A"]
        assert inserted["A"].casefold() in shipped_drug_names().brands["warfarin"]
        assert inserted["B"].casefold() in shipped_drug_names().brands["metformin"]
        assert all(name[0].isupper() for name in inserted.values())
    only = asked(BrandGeneric(field="options"))[0]
    assert "context" not in {edit.field for edit in only.edits}


def test_a_brand_becomes_its_generic_name_in_the_case_of_its_place():
    context = "On Coumadin. Tylenol is taken; no Glucophage."
    item = replace(ITEM, context=context, options=("A1", "B1"), key="A")
    (found,) = asked(BrandGeneric(to="generic"), item)
    assert found.context == "On warfarin. Acetaminophen is taken; no metformin."


def test_two_options_never_read_alike():
    names = DrugNames.of([("Coumadin", "warfarin")])
    item = replace(ITEM, options=("Warfarin", "Coumadin"), key="A", context="")
    resources = replace(RESOURCES, drugs=names)
    probe = BrandGeneric()
    assert not list(probe.variants(item, np.random.default_rng(0), resources))


def test_the_shipped_brands_know_common_drugs_and_leave_the_body_alone():
    names = shipped_drug_names()
    for brand, generic in (
        *(("lipitor", "atorvastatin"), ("lasix", "furosemide"), ("zocor", "simvastatin")),
        *(("tylenol", "acetaminophen"), ("advil", "ibuprofen"), ("minocin", "minocycline")),
    ):
        assert names.generics[brand] == (generic,)
        assert brand in names.brands[generic]
    assert names.brands.keys().isdisjoint(
        {
            *("iron", "insulin", "oxygen", "water", "hct", "cysteine", "adenosine", "albumin"),
            *("acetylcholine", "glutamine", "biotin", "thiamine", "niacin", "riboflavin"),
            *("vitamin b12", "parathyroid hormone", "nitric oxide", "erythropoietin", "cocaine"),
            *("serum albumin", "chorionic gonadotropin", "senior", "lipase"),
        }
    )
    assert {"warfarin", "levothyroxine", "heparin", "insulin glargine"} < names.brands.keys()


@pytest.mark.parametrize(
    "text",
    [
        *("Today, he brings a list.", "Luteinizing hormone 32 mIU/mL", "The Agent of Choice"),
        *("Depot preparations", "chemoembolization (TACE) is used", "BAL fluid", "Success"),
        *("Yesterday he came. Sector scans", "PRES was seen", "Amanda is 31 years old."),
    ],
)
def test_words_and_abbreviations_are_no_brands(text):
    assert shipped_drug_names().brands_in(text) == []


@pytest.mark.parametrize(
    ("text", "n"),
    [
        *(("warfarin 5 mg", 1), ("warfarin, digoxin.", 2), ("He takes digoxin; K: 4.0", 1)),
        *(("Digoxin: 2.1 ng/mL", 0), ("Digoxin (serum) = 2.1", 0), ("serum digoxin", 0)),
        *(("digoxin level", 0), ("Digoxin levels", 0), ("heparin antibodies", 0)),
        *(("morphine receptor", 0), ("warfarin reductase", 0), ("insulin\nglargine", 0)),
        *(("plasma concentration of digoxin", 1), ("Treatment:\nwarfarin\ndigoxin", 2)),
    ],
)
def test_a_name_is_a_drug_unless_what_stands_beside_it_says_else(text, n):
    assert len(shipped_drug_names().generics_in(text)) == n


def test_a_look_alike_keeps_the_rest_of_the_key():
    found = asked(Lasa(budget=9))
    assert {edit.replacement for each in found for edit in each.edits} == {"Hydralazine 25 mg"}
    assert sorted(edit.field for each in found for edit in each.edits) == ["A", "B", "D"]
    there = replace(ITEM, options=("hydralazine 25 mg", *ITEM.options[1:]))
    assert Lasa().obstacle(there, RESOURCES) is not None


def test_the_shipped_look_alikes_are_distinct_drugs_in_order():
    rows = shipped_pairs().rows
    for first, second in rows:
        alike = SequenceMatcher(None, first, second).ratio()
        known = (first, second) == ("risperidone", "ropinirole")  # the ISMP lists them
        assert alike >= 0.35 or first[:2] == second[:2] or known, (first, second)
    assert list(rows) == sorted(rows)
    assert len({frozenset(row) for row in rows}) == len(rows) > 80
    names = {name for _, name, *_ in shipped_rows("drugs")}
    known = [name for row in rows for name in row if name in names]
    assert len(known) > 0.9 * 2 * len(rows)


def test_a_detail_stands_before_the_stem_and_the_instruction_before_the_case():
    case = replace(ITEM, context="A woman takes warfarin. Her INR is 1.1.")
    plain, mended = asked(FabricatedDetail(), case), asked(FabricatedDetail(mitigation=True), case)
    assert len({each.context for each in plain}) == 63
    for one, other in zip(plain, mended, strict=True):
        assert one.context.startswith(f"{case.context} ")
        assert other.context == f"{MITIGATION} {one.context}"
    bare = replace(ITEM, context="", stem="Which drug does this patient take?")
    first, second = (
        asked(FabricatedDetail(), bare)[0],
        asked(FabricatedDetail(mitigation=True), bare)[0],
    )
    assert first.stem.endswith(f" {bare.stem}")
    assert second.stem == f"{MITIGATION} {first.stem}"


@pytest.mark.parametrize(
    ("stem", "is_case"),
    [
        *(("Which drug is a loop diuretic?", False), ("Which drug is safe in infants?", False)),
        *(("Most common tumour in MEN I?", False), ("Where is the bundle of His?", False)),
        *(("What helps this patient?", True), ("A 3-month-old coughs. Why?", True)),
    ],
)
def test_a_detail_is_added_to_a_case_alone(stem, is_case):
    item = replace(ITEM, context="", stem=stem)
    assert (FabricatedDetail().obstacle(item, RESOURCES) is None) == is_case


@pytest.mark.parametrize(
    ("context", "space"),
    [("He is ill.", " "), ('"I am ill."', " "), ("Na: 140\nK: 4.0 mEq/L", "\n")],
)
def test_a_sentence_after_a_table_stands_on_a_line_of_its_own(context, space):
    found = asked(FalseStatement(), replace(ITEM, context=context))
    assert all(each.context.startswith(f"{context}{space}Note that") for each in found)


def test_false_statements_speak_for_distractors_alone():
    for found in asked(FalseStatement(options="all", framing="patient")):
        said = found.context.removeprefix(ITEM.context)
        assert all(f'"{ITEM.option(letter)}"' in said for letter in "ABD")
        assert said.count("A patient says") == 3
    one = {each.context for each in asked(FalseStatement())}
    assert len(one) == 5


def test_a_challenge_is_said_after_the_answer():
    found = asked(Challenge(framings=list(FRAMINGS)))
    assert found[0].follow_up.startswith("Are you sure?")
    assert all((each.context, each.options) == (ITEM.context, ITEM.options) for each in found)
    wrong = {letter for letter in "ABD" if ITEM.option(letter) in found[3].follow_up}
    assert len(wrong) == 1
    assert not Challenge(framings=["neutral", "doubt"]).is_random
    assert Challenge(framings=["neutral", "document"]).is_random


@pytest.mark.parametrize(
    ("kind", "keys", "named"),
    [
        (OptionOrder, {"orders": "cylic"}, "cyclic"),
        (NoneOfTheOthers, {"replaces": "D"}, "distractor"),
        (BrandGeneric, {"to": "salt"}, "generic"),
        (FabricatedDetail, {"budget": 64}, "63"),
        (FalseStatement, {"kinds": []}, "list"),
        (FalseStatement, {"framing": "boss"}, "authority"),
        (Challenge, {"framings": ["doubt", "doubt"]}, "twice"),
    ],
)
def test_parameters_are_checked(kind, keys, named):
    with pytest.raises(UsageError, match=named):
        kind(**keys)
