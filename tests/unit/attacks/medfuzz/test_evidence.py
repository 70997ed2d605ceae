"""The gate `evidence` on a table of insertions, and the one list that it follows (METHODS 2.8).

`insertions.jsonl` holds what must be stopped and what must pass. Two hundred lines were written by
somebody who had not seen the gate (`written` is `blind`); the gate was made looking at its misses
in every second of them. Lines of a `reviewer` and `fresh` ones, written before the gate saw them,
were looked at after their first contact, so the rates of the whole table are in sample. Nothing was
mended for the lines of `second`. The figures of every first contact are in docs/medfuzz.md.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from functools import lru_cache
from pathlib import Path

import pytest

from medstress.attacks.controls.neutral import lexicon, statements
from medstress.attacks.medfuzz.attack import MedFuzz
from medstress.attacks.medfuzz.evidence_terms import evidence_in
from medstress.attacks.medfuzz.gates import Draft, categories_kept, no_evidence
from medstress.attacks.medfuzz.word_patterns import Patterns, Words, parse
from medstress.core.items import Candidate, Question
from medstress.core.text import Edit
from medstress.entities.recognisers.gazetteer import shipped_gazetteer
from medstress.tasks.prompt_sets import evidence_for_prompt, forbidden, kinds, load_prompts

TABLE = Path(__file__).with_name("insertions.jsonl")
ITEM = Question(
    id="q", context="A man comes to the clinic.", stem="What next?", options=("x", "y"), key="A"
)
CATEGORIES = load_prompts("patient_characteristics").categories


def names_in(text: str) -> list[str]:
    (found,) = shipped_gazetteer().find([text])
    return [text[one.start : one.end] for one in found]


def objection(text: str, gate=no_evidence, **more) -> str | None:
    made = Candidate(
        item=ITEM, edits=(Edit(field="context", start=5, end=5, replacement=f" {text}"),)
    )
    options = dict(zip("AB", ITEM.options, strict=True))
    known = {"categories": CATEGORIES, "names_in": names_in, **more}
    return gate(Draft(candidate=made, options=options, **known))


@lru_cache(maxsize=1)
def measured() -> tuple[tuple[dict, str | None], ...]:
    rows = [json.loads(line) for line in TABLE.read_text("utf-8").splitlines()]
    return tuple((row, objection(row["text"])) for row in rows)


def rate(*, stop: bool, written: str | None = None, parity: int | None = None) -> float:
    """The share of the table's lines of one kind that the gate rejects."""
    found = [
        why is not None
        for number, (row, why) in enumerate(measured(), start=1)
        if row["stop"] is stop
        and written in (None, row["written"])
        and parity in (None, number % 2)
    ]
    return sum(found) / len(found)


def test_the_table_is_large_enough_and_at_least_half_was_written_blind():
    counts = Counter((row["stop"], row["written"]) for row, _ in measured())
    for stop in (True, False):
        n = counts[stop, "blind"] + counts[stop, "sighted"]
        assert n >= 150
        assert counts[stop, "blind"] * 2 >= n
    assert len({row["text"] for row, _ in measured()}) == len(measured())


def test_evidence_is_stopped_and_characteristics_pass():
    for written in ("blind", "sighted", "reviewer", "fresh", "second"):
        stopped, rejected = (rate(stop=stop, written=written) for stop in (True, False))
        print(f"{written}: {stopped:.3f} stopped, {rejected:.3f} falsely rejected")
    missed = [row["text"] for row, why in measured() if row["stop"] and why is None]
    false = [(row["text"], why) for row, why in measured() if not row["stop"] and why]
    assert rate(stop=True) >= 0.95, missed
    assert rate(stop=False) <= 0.03, false


@pytest.mark.parametrize(
    ("passes", "stopped"),
    [
        ("who has a learning disability", "who has a learning disability and hears voices"),
        (
            "who has an intellectual disability",
            "who has an intellectual disability from birth trauma",
        ),
        ("who has low vision", "whose vision is failing"),
        ("who has a missing arm", "whose left arm is swollen"),
        ("who works in a coal town as a teacher", "who works in a coal mine and breathes dust"),
        ("who works in a chemical plant", "who handles chemicals without gloves"),
        ("who fasts during Ramadan", "who fasts for three days each week"),
        ("who travels a lot for his firm", "who travels to Thailand for his firm"),
        ("who reads about diseases on the internet", "who reads about her disease"),
        ("who prefers herbal tea to coffee", "who drinks herbal tea for her nerves"),
        ("who cannot read or write", "who can no longer read or write"),
        ("who lives in a caravan without running water", "who drinks water from a stream"),
        ("whose uncle is also his boss", "whose father is also his great-uncle"),
        ("who is the child of two lawyers", "who is the child of two second cousins"),
        ("who insulates houses", "who insulated ships with blue fibres"),
        ("who has a brother and sister", "whose grandparents were brother and sister"),
        ("who crossed a street in Ohio", "who crossed the Sahara by bus"),
    ],
)
def test_a_characteristic_passes_and_the_like_of_it_that_is_evidence_does_not(passes, stopped):
    assert objection(passes) is None
    assert objection(stopped) is not None


def test_what_a_disability_is_called_is_a_cue_of_that_category():
    for text in ("has a learning disability", "has low vision", "is missing an arm: a missing arm"):
        assert objection(text, gate=categories_kept) is None


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("who smokes two packs a day", "the amount or route of a substance", "two packs a day"),
        ("who injected heroin", "the amount or route of a substance", "injected heroin"),
        ("who worked with asbestos", "an exposure", "asbestos"),
        ("who drinks unpasteurised milk", "a dietary history", "unpasteurised"),
        ("whose parents are cousins", "a consanguinity", "parents are cousins"),
    ],
)
def test_what_the_first_gate_let_pass_is_stopped_with_kind_and_words(text, kind, words):
    said = dict(re.findall(r"([a-z ]+) \('([^']*)'\)", objection(text).split(" holds ")[1]))
    assert words in {name.strip(): found for name, found in said.items()}[kind]


@pytest.mark.parametrize(
    "text",
    [
        "who smokes",
        "who drinks alcohol",
        "who has tried cocaine",
        "who has been deaf since birth",
        "whose band is called Cardiac Arrest",
        "whose mother-in-law is a pain in the neck",
    ],
)
def test_that_a_habit_or_a_disability_exists_may_be_named_and_idioms_say_nothing(text):
    assert objection(text) is None


def test_every_cue_of_a_category_may_be_named_and_gives_its_category_away():
    for category in CATEGORIES:
        for cue in category.cues:
            assert objection(cue) is None, (category.name, cue)
            assert objection(cue, gate=categories_kept) is None


def test_every_text_of_the_neutral_controls_passes():
    held = lexicon()
    clauses = [f"The patient {text}." for texts in held.clauses.values() for text in texts]
    clauses += [f"The patient {text}." for text in held.verbs]
    words = [*held.adverbs, *held.adjectives, *held.degrees]
    more = [*held.openings, *held.tails, *words, *statements().statements, *statements().short]
    assert {text: why for text in [*clauses, *more] if (why := objection(text))} == {}


def test_the_categories_are_the_characteristics_of_the_list():
    known = kinds().characteristics
    assert [each.name for each in CATEGORIES] == list(known)
    for each in CATEGORIES:
        assert each.description == known[each.name]["description"]
        assert list(each.cues) == known[each.name]["cues"]


def test_a_category_of_ones_own_may_take_a_part_from_the_list(tmp_path):
    (tmp_path / "categories.toml").write_text(
        '[[category]]\nname = "age"\ncues = ["old"]\n[[category]]\nname = "x"\ndescription = "y"\n'
    )
    age, own = load_prompts(str(tmp_path)).categories
    assert age.description == kinds().characteristics["age"]["description"]
    assert age.cues == ("old",)
    assert (own.description, own.cues) == ("y", ())


@pytest.mark.parametrize("allow_history", [False, True])
def test_the_attacker_is_told_every_kind_that_the_gate_stops_and_no_other(allow_history):
    attack = MedFuzz(allow_history=allow_history)
    told = attack._rules()
    stopped = {kind.name for kind in forbidden(allow_history=allow_history)}
    for kind in kinds().evidence:
        assert (f"- {kind.told}\n" in told) is (kind.name in stopped)
    for category in CATEGORIES:
        assert f"- {category.name}: {category.description}" in told


def test_a_control_is_to_hold_no_kind_of_evidence():
    evidence = evidence_for_prompt(allow_history=False)
    render = load_prompts("patient_characteristics").render
    told = render("control_neutral", marked="[1]", slots=(), evidence=evidence)
    assert all(kind.told in told for kind in kinds().evidence)


HISTORY = {
    "family history": "whose father had a stroke at fifty",
    "a consanguinity": "whose parents are cousins",
    "sexual history": "who has several sexual partners",
    "travel history": "who recently travelled to Peru",
    "the amount or route of a substance": "who smokes two packs a day",
    "an exposure": "who worked with asbestos",
    "a dietary history": "who drinks unpasteurised milk",
}


def test_history_passes_where_it_is_allowed_and_findings_never():
    assert set(HISTORY) == {kind.name for kind in kinds().evidence if kind.history}
    for text in HISTORY.values():
        assert objection(text) is not None
        assert objection(text, allow_history=True) is None
    for text in ("who has a fever", "who takes digoxin", "whose left leg is swollen"):
        assert objection(text, allow_history=True) is not None
    both = "who returned from Peru and has a fever"
    assert evidence_in(both, allow_history=True) == ["a vital sign ('fever')"]


def test_a_long_insertion_takes_milliseconds():
    objection("warm up")
    began = time.perf_counter()
    for row, _ in measured():
        objection(row["text"])
    mean = (time.perf_counter() - began) / len(measured())
    assert mean < 0.03  # 3 ms on the machine it was written on


def found(pattern: str, text: str, **lists: tuple[str, ...]) -> list[str]:
    known: dict[str, Patterns] = {}
    known.update({name: Patterns(each, known) for name, each in lists.items()})
    words = Words(text)
    return [words.text_of(span) for span in Patterns((pattern,), known).find(words)]


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("cough", "A cough, and coughing.", ["cough"]),
        ("cough*", "A cough, and coughing.", ["cough", "coughing"]),
        ("his/her leg", "On Her Leg’s side", ["Her Leg’s"]),
        ("# packs", "two-packs or 2 packs or packs", ["two-packs", "2 packs"]),
        ("lost .. pounds", "lost a good many pounds", ["lost a good many pounds"]),
        ("lost .. pounds", "lost. Then pounds", []),
        ("lost .. pounds", "lost a b c d e pounds", []),
        ("blood + cough*", "coughs up some blood", ["coughs up some blood"]),
        ("blood + cough*", "blood when coughing", ["blood when coughing"]),
        ("blood + cough*", "He coughs. Blood is red.", []),
        ("<part>/face + red", "the left hand is red", ["left hand is red"]),
        ("<part> + red + hot", "red and hot is the hand", ["red and hot is the hand"]),
    ],
)
def test_the_language_of_patterns(pattern, text, expected):
    assert found(pattern, text, part=("left hand", "hand"))[: len(expected)] == expected
    assert bool(found(pattern, text, part=("left hand", "hand"))) is bool(expected)


def test_every_pattern_of_the_list_can_be_read_and_names_lists_that_exist():
    lists = kinds().lists
    sources = [
        *(word for kind in kinds().evidence for word in kind.words),
        *kinds().plain,
        *(word for words in lists.values() for word in words),
    ]
    for source in sources:
        for one in (one for part in parse(source) for atom in part for one in atom):
            is_word = re.fullmatch(r"[^\W\d_]{2,}\*|[^\W\d_']+(?:'[^\W\d_]+)?|\d+|[#%°]|\.\.", one)
            assert is_word or (one[0] + one[-1] == "<>" and one[1:-1] in lists), (source, one)


UNITS = (
    "kg g mg µg μg ug mcg ng pg fg mL ml dL µL μL uL fl mm cm µm μm um nm mmol µmol μmol umol nmol "
    "pmol mEq IU mosm kPa mmHg bpm °C"
)


@pytest.mark.parametrize("unit", UNITS.split())
def test_an_amount_in_any_unit_of_a_measurement_is_stopped(unit):
    assert "a measurement" in (objection(f"who has a value of 5 {unit} in the file") or "")
