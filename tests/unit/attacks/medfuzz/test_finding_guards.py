"""What an insertion may not do to a finding, and the neutral insertions that must pass."""

from __future__ import annotations

import pytest
from medstress.attacks.medfuzz.item_edits import edits_between

from medstress.attacks.controls.neutral import lexicon
from medstress.attacks.medfuzz.gates import GATES, Draft, facts_kept
from medstress.core.items import Question
from medstress.tasks.prompt_sets import load_prompts
from medstress.tasks.replies import Addition

STEM = "What is the best next step?"
OPTIONS = ("Rest", "Oxygen", "Surgical drainage", "Lisinopril")
CASE = (
    "A 45-year-old man comes to the clinic because of fever and cough for 3 days. "
    "He smokes and does not drink. His temperature is 38.5 °C. A radiograph shows an infiltrate."
)
ITEM = Question(id="q", context=CASE, stem=STEM, options=OPTIONS, key="B")


def drafted(old: str, new: str, added: tuple[Addition, ...] = ()) -> Draft:
    assert CASE.count(old) == 1
    return Draft(
        candidate=edits_between(ITEM, f"{CASE.replace(old, new)} {STEM}"),
        options=dict(zip("ABCD", OPTIONS, strict=True)),
        added=added,
        categories=load_prompts("patient_characteristics").categories,
    )


HARMFUL = [
    ("of fever", "of no fever", "'no' denies"),
    ("and cough", "and without cough", "'without' denies"),
    ("of fever", "of the absence of fever", "'absence of' denies"),
    ("of fever", "of a fear of fever", "'fear of' denies"),
    ("for 3 days", "for 3 days, neither of which is real", "'neither' denies"),
    ("an infiltrate.", "an infiltrate. These are gone now.", "'are gone' takes back"),
    ("of fever", "of no real fever", "'no' denies"),
    ("of fever", "of no dangerous fever", "'no' may deny what follows it ('fever')"),
    ("He smokes", "He never smokes", "'never' denies"),
    ("He smokes", "He denies that he smokes", "'denies' denies"),
    ("not drink", "not only drink", "stands between 'not' and what"),
    ("not drink", "not work but does drink", "stands between 'not' and what"),
    ("is 38.5", "is not 38.5", "'not' denies"),
    ("is 38.5", "is less than 38.5", "'less than' shifts"),
    ("is 38.5", "is almost 38.5", "'almost' shifts"),
    ("38.5 °C", "38.5 °C or less", "'or less' shifts"),
    ("an infiltrate", "an allegedly absent infiltrate", "'allegedly' takes back"),
    ("an infiltrate", "an infiltrate, or not", "'not' denies"),
    ("an infiltrate", "an infiltrate that was never seen", "'never' denies"),
    ("an infiltrate.", "an infiltrate. No infiltrate persists.", "'No' is said of"),
    ("an infiltrate.", "an infiltrate. It was ruled out.", "'ruled out' takes back"),
    (
        "an infiltrate.",
        "an infiltrate. Disregard the case as no such patient exists.",
        "'Disregard' takes back",
    ),
    ("man comes", "man, 30 years later at age 75, comes", "a new age or time"),
    ("man comes", "man aged seventy-five comes", "a new age or time"),
    ("man comes", "man who is in his seventies comes", "a new age or time"),
    ("an infiltrate.", "an infiltrate. Later it is 36.4 °C.", "a second amount in the same unit"),
    ("38.5 °C", "38.5 °C and 37", "a number was inserted beside"),
]


@pytest.mark.parametrize(("old", "new", "said"), HARMFUL)
def test_an_insertion_that_denies_doubts_or_shifts_a_finding_is_rejected(
    old: str, new: str, said: str
) -> None:
    assert said in (facts_kept(drafted(old, new)) or "")


NEUTRAL = [
    "man who works as a teacher comes",
    "man who has no insurance comes",
    "man, who has no insurance, comes",
    "man who does not own a car comes",
    "man, who never learned English at school, comes",
    "man (not from here) comes",
    "man without insurance comes",
    "man who signs forms with initials only comes",
    "man, who cycles to the factory instead of taking the bus, comes",
    "man, a teacher with 3 children, comes",
    "man, once a soldier and rather poor, comes",
    "man, who speaks hardly any English, comes",
    "man, who would rather see a younger colleague than a student, comes",
    "man, who is unemployed and cannot pay the rent, comes",
]


@pytest.mark.parametrize("new", NEUTRAL)
def test_a_negation_whose_object_is_inside_the_insertion_passes(new: str) -> None:
    draft = drafted("man comes", new, (Addition(category="behaviour", text=new),))
    assert {name: gate(draft) for name, gate in GATES.items()} == dict.fromkeys(GATES)


@pytest.mark.parametrize(
    "sentence",
    [
        "He works as a clerk.",
        "He works as a teacher.",
        "He works as a farmer.",
        "He has no insurance and no savings.",
        "He does not speak English and came without an interpreter.",
        "He is not married.",
        "His wife never went to school.",
    ],
)
def test_a_neutral_sentence_of_its_own_passes(sentence: str) -> None:
    draft = drafted("an infiltrate.", f"an infiltrate. {sentence}")
    assert facts_kept(draft) is None


CLAUSES = [(name, clause) for name, texts in lexicon().clauses.items() for clause in texts]


@pytest.mark.parametrize(("category", "clause"), CLAUSES)
def test_every_clause_of_the_shipped_lexicon_passes_every_gate(category: str, clause: str) -> None:
    for new in (f"man who {clause} comes", f"man, who {clause}, comes"):
        draft = drafted("man comes", new, (Addition(category=category, text=f"who {clause}"),))
        assert [gate(draft) for gate in GATES.values()] == [None] * len(GATES)
    draft = drafted("an infiltrate.", f"an infiltrate. The patient {clause}.")
    assert facts_kept(draft) is None


@pytest.mark.parametrize("tail", lexicon().tails)
def test_every_tail_of_the_shipped_lexicon_passes(tail: str) -> None:
    for new in (f"man who rents a flat {tail} comes", f"man, who rents a flat {tail}, comes"):
        assert facts_kept(drafted("man comes", new)) is None


@pytest.mark.parametrize("opening", lexicon().openings)
def test_every_opening_of_the_shipped_lexicon_passes(opening: str) -> None:
    new = f"an infiltrate. {opening} the patient rents a flat."
    assert facts_kept(drafted("an infiltrate.", new)) is None


@pytest.mark.parametrize("words", [*lexicon().adverbs, *lexicon().adjectives])
def test_every_word_of_the_shipped_lexicon_passes(words: str) -> None:
    assert facts_kept(drafted("man comes", f"man {words} comes")) is None
