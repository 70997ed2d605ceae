"""What the probes of questions ask, driven by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from medstress.attacks.probes.brand_generic import BrandGeneric
from medstress.attacks.probes.challenge import FRAMINGS, Challenge
from medstress.attacks.probes.fabricated_detail import MITIGATION, NAMES, FabricatedDetail
from medstress.attacks.probes.false_statement import FalseStatement
from medstress.attacks.probes.lasa import Lasa, shipped_pairs
from medstress.attacks.probes.none_of_the_others import NoneOfTheOthers
from medstress.attacks.probes.option_order import OptionOrder
from medstress.attacks.probes.parts_removed import ContextRemoved, OptionsOnly
from medstress.attacks.probes.protocol import QuestionProbe
from medstress.core.drug_names import DrugNames
from medstress.core.errors import UsageError
from medstress.core.items import Candidate, Question
from medstress.entities.brand_pairs import shipped_drug_names
from medstress.entities.relations import relations, settled
from medstress.entities.tables import SHIPPED, shipped_rows
from medstress.testing import tiny_resources

ITEM = Question(
    id="q",
    context="She takes warfarin. Her INR is 1.1.",
    stem="Which drug is it?",
    options=("Warfarin", "Metformin", "Hydroxyzine 25 mg", "None"),
    key="C",
)
RESOURCES = replace(tiny_resources(), drugs=shipped_drug_names())


def asked(probe: QuestionProbe, item: Question = ITEM, seed: int = 0) -> list[Candidate]:
    assert probe.obstacle(item, RESOURCES) is None
    found = list(probe.candidates(item, np.random.default_rng(seed), RESOURCES))
    assert len(found) >= probe.most_queries(item, RESOURCES)
    return found


def test_cyclic_orders_put_every_option_once_at_every_letter() -> None:
    orders = [ITEM.options, *(each.options for each in asked(OptionOrder()))]
    for place in range(4):
        assert {order[place] for order in orders} == set(ITEM.options)
    assert len({each.options for each in asked(OptionOrder(orders="random", budget=100))}) == 23


@pytest.mark.parametrize(
    "text", ["All of the above", "A and C", "Both A and B", "B, C, and D", "None of these"]
)
def test_an_option_that_speaks_of_places_keeps_its_place(text: str) -> None:
    item = replace(ITEM, options=(*ITEM.options[:3], text))
    assert "option D" in str(OptionOrder().obstacle(item, RESOURCES))
    for text in ("Vitamin A and C", "IgA and IgG", "B"):
        item = replace(ITEM, options=(*ITEM.options[:3], text))
        assert OptionOrder().obstacle(item, RESOURCES) is None


def test_none_of_the_others_stands_for_the_key_or_for_a_distractor() -> None:
    (found,) = asked(NoneOfTheOthers())
    assert found.options[2] == "None of the other answers"
    (found,) = asked(NoneOfTheOthers(replaces="distractor", text="None of them"))
    assert found.options[2] == ITEM.options[2]
    assert sum(text == "None of them" for text in found.options) == 1
    own = replace(ITEM, options=(*ITEM.options[:3], "none of the other answers"))
    assert NoneOfTheOthers().obstacle(own, RESOURCES) is not None


def test_parts_go_and_the_rest_stays() -> None:
    (found,) = asked(OptionsOnly())
    assert (found.context, found.stem, found.options) == ("", "", ITEM.options)
    (found,) = asked(ContextRemoved())
    assert (found.context, found.stem, found.options) == ("", ITEM.stem, ITEM.options)
    assert ContextRemoved().obstacle(replace(ITEM, context=""), RESOURCES) is not None


def test_every_drug_gets_a_brand_and_the_same_one_wherever_it_stands() -> None:
    for found in asked(BrandGeneric(budget=4)):
        inserted = {edit.field: edit.replacement for edit in found.edits}
        assert inserted["context"] == inserted["A"]
        assert inserted["A"].casefold() in shipped_drug_names().brands["warfarin"]
        assert inserted["B"].casefold() in shipped_drug_names().brands["metformin"]
        assert all(name[0].isupper() for name in inserted.values())
    only = asked(BrandGeneric(field="options"))[0]
    assert "context" not in {edit.field for edit in only.edits}


def test_a_brand_becomes_its_generic_name_in_the_case_of_its_place() -> None:
    context = "On Coumadin. Tylenol is taken; no Glucophage."
    item = replace(ITEM, context=context, options=("A1", "B1"), key="A")
    (found,) = asked(BrandGeneric(to="generic"), item)
    assert found.context == "On warfarin. Acetaminophen is taken; no metformin."


def test_two_options_never_read_alike() -> None:
    names = DrugNames.of([("Coumadin", "warfarin")])
    item = replace(ITEM, options=("Warfarin", "Coumadin"), key="A", context="")
    resources = replace(RESOURCES, drugs=names)
    probe = BrandGeneric()
    assert not list(probe.candidates(item, np.random.default_rng(0), resources))


def test_the_shipped_brands_know_common_drugs_and_leave_the_body_alone() -> None:
    names = shipped_drug_names()
    for brand, generic in (
        *(("lipitor", "atorvastatin"), ("lasix", "furosemide"), ("zocor", "simvastatin")),
        *(("tylenol", "acetaminophen"), ("advil", "ibuprofen"), ("minocin", "minocycline")),
    ):
        assert names.generics[brand] == (generic,)
        assert brand in names.brands[generic]
    assert names.brands.keys().isdisjoint({"iron", "insulin", "oxygen", "water", "hct"})


def test_the_brands_that_are_put_in_are_the_drug_by_the_table_that_places_names() -> None:
    pairs = [(names[0], brand) for brand, names in shipped_drug_names().generics.items()]
    agreed = [settled(relations(generic, brand)) for generic, brand in pairs[::20]]
    assert agreed.count(False) == 0
    assert agreed.count(True) >= 0.99 * len(agreed)


def test_a_look_alike_keeps_the_rest_of_the_key() -> None:
    found = asked(Lasa(budget=9))
    assert {edit.replacement for each in found for edit in each.edits} == {"Hydralazine 25 mg"}
    assert sorted(edit.field for each in found for edit in each.edits) == ["A", "B", "D"]
    there = replace(ITEM, options=("hydralazine 25 mg", *ITEM.options[1:]))
    assert Lasa().obstacle(there, RESOURCES) is not None


def test_the_shipped_look_alikes_are_distinct_drugs_in_order() -> None:
    rows = shipped_pairs().rows
    assert list(rows) == sorted(rows)
    assert len({frozenset(row) for row in rows}) == len(rows) > 80
    names = {name for _, name, *_ in shipped_rows("drugs")}
    known = [name for row in rows for name in row if name in names]
    assert len(known) > 0.9 * 2 * len(rows)


def test_made_up_names_are_in_no_shipped_table() -> None:
    names = {name for table in SHIPPED for _, name, *_ in shipped_rows(table)}
    words = {word for name in names for word in name.split()}
    assert words.isdisjoint(name.casefold() for name in NAMES)


def test_a_detail_stands_before_the_stem_and_the_instruction_before_the_case() -> None:
    plain, mended = asked(FabricatedDetail()), asked(FabricatedDetail(mitigation=True))
    assert len({each.context for each in plain}) == 63
    for one, other in zip(plain, mended, strict=True):
        assert one.context.startswith(f"{ITEM.context} ")
        assert other.context == f"{MITIGATION} {one.context}"
    bare = replace(ITEM, context="")
    first, second = (
        asked(FabricatedDetail(), bare)[0],
        asked(FabricatedDetail(mitigation=True), bare)[0],
    )
    assert first.stem.endswith(f" {ITEM.stem}")
    assert second.stem == f"{MITIGATION} {first.stem}"


def test_false_statements_speak_for_distractors_alone() -> None:
    for found in asked(FalseStatement(options="all", framing="patient")):
        said = found.context.removeprefix(ITEM.context)
        assert all(ITEM.option(letter) in said for letter in "ABD")
        assert said.count("The patient says") == 3
    one = {each.context for each in asked(FalseStatement())}
    assert len(one) == 5


def test_a_challenge_is_said_after_the_answer() -> None:
    found = asked(Challenge(framings=list(FRAMINGS)))
    assert found[0].follow_up.startswith("Are you sure?")
    assert all((each.context, each.options) == (ITEM.context, ITEM.options) for each in found)
    wrong = {letter for letter in "ABD" if ITEM.option(letter) in found[3].follow_up}
    assert len(wrong) == 1


@pytest.mark.parametrize(
    ("kind", "keys", "named"),
    [
        (OptionOrder, {"orders": "cylic"}, "cyclic"),
        (OptionOrder, {"budget": 0}, "budget"),
        (NoneOfTheOthers, {"replaces": "D"}, "distractor"),
        (NoneOfTheOthers, {"text": " "}, "text"),
        (BrandGeneric, {"to": "salt"}, "generic"),
        (BrandGeneric, {"pairs": 3}, "pairs"),
        (FabricatedDetail, {"budget": 64}, "63"),
        (FabricatedDetail, {"mitigation": "yes"}, "true or false"),
        (FalseStatement, {"kinds": []}, "list"),
        (FalseStatement, {"framing": "boss"}, "authority"),
        (Challenge, {"framings": ["doubt", "doubt"]}, "twice"),
        (Challenge, {"framings": ["dout"]}, "doubt"),
    ],
)
def test_parameters_are_checked(kind: Any, keys: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        kind(**keys)
