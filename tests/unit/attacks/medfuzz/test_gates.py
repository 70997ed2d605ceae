"""Each gate on edits made to fail it, and on edits that pass."""

from __future__ import annotations

import pytest

from medstress.attacks.medfuzz.edits import edits_between, inserted
from medstress.attacks.medfuzz.gates import Draft, objections
from medstress.core.items import Candidate, Mention, Question
from medstress.core.text import Edit
from medstress.tasks.prompt_sets import load_prompts

RULES = load_prompts("patient_characteristics").rules
CONTEXT = "A 45-year-old man took aspirin 300 mg for 3 days."
STEM = "Which drug is next?"
ITEM = Question(
    id="q",
    context=CONTEXT,
    stem=STEM,
    options=("Warfarin", "Heparin", "Vitamin C", "Alteplase"),
    key="B",
    mentions=(Mention(field="context", start=23, end=30, type="T121"),),
)


def said(candidate, options=None, *, by_list=False, **more):
    """Gate -> its reason, of the gates that object."""
    own = dict(zip(candidate.item.letters, candidate.item.options, strict=True))
    given = own if options is None else options
    draft = Draft(candidate=candidate, options=given, rules=RULES, **more)
    return {one.gate: one.reason for one in objections(draft, by_list=by_list)}


def edited(old, new, item=ITEM):
    """Replace words of the context by longer ones, as an attacker that rewrites does."""
    assert item.context.count(old) == 1
    return edits_between(item, f"{item.context.replace(old, new)} {item.stem}")


def asked(context):
    return Question(id="q", context=context, stem=STEM, options=ITEM.options, key="B")


def replaced(start, end, text, field="context"):
    return Candidate(item=ITEM, edits=(Edit(field=field, start=start, end=end, replacement=text),))


def test_an_occupation_passes_every_gate():
    assert said(edited("man", "man who works as a teacher"), by_list=True) == {}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"A": "warfarin"}, "option A became 'warfarin'"),
        ({"A": None}, "the options are lettered B, C, D"),
    ],
)
def test_options_must_come_back_byte_for_byte(options, reason):
    own = {**dict(zip("ABCD", ITEM.options, strict=True)), **options}
    given = {letter: text for letter, text in own.items() if text is not None}
    assert said(edited("man", "man who works"), given) == {"options": reason}
    assert said(edited("man", "man who works"), {}) == {
        "options": "the options are lettered not at all"
    }
    backwards = dict(reversed(list(zip("ABCD", ITEM.options, strict=True))))
    assert "D, C, B, A" in said(edited("man", "man who works"), backwards)["options"]


def test_the_sentence_that_asks_may_be_led_in_only_where_it_stands_alone():
    assert said(replaced(5, 5, " new", "stem")) == {"options": "the sentence that asks was changed"}
    alone = Question(id="q", stem=STEM, options=ITEM.options, key="B")
    assert said(edits_between(alone, f"A teacher asks. {STEM}")) == {}
    inside = Edit(field="stem", start=5, end=5, replacement=" new")
    assert "options" in said(Candidate(item=alone, edits=(inside,)))


@pytest.mark.parametrize(
    ("span", "text", "lost"),
    [
        ((31, 34), "30", "the number '300 mg' was changed or parted"),
        ((35, 37), "µg", "the number '300 mg' was changed or parted"),
        ((34, 34), " of his", "the number '300 mg' was changed or parted"),
        ((23, 30), "it", "the entity 'aspirin' was changed or parted"),
        ((26, 26), "x", "the entity 'aspirin' was changed or parted"),
        ((30, 30), "s", "the entity 'aspirin' was changed or parted"),
    ],
)
def test_numbers_with_their_units_and_entities_must_stay(span, text, lost):
    assert said(replaced(*span, text))["facts"] == lost


@pytest.mark.parametrize(
    "places",
    [
        "A man aged 45| comes to the clinic|.",
        "Case Q1|, a 12-year-old|, comes| at 8:30|.",
        "His temperature| is 98.6°F|, his pulse 90/min|, and he is well|.",
        "Blood pressure is| 120/80|; weight is 70 kg|.",
        "His potassium is low| (3.5)|, sodium normal (140 mEq/L)|.",
        "He is 45–50 years old|—a guess|—and smokes 1–2 packs|.",
        "Her pressure is 120/80 mm Hg| while sitting|.",
        "It costs $3|, or 4%|; he has| 3 children in 2 towns|.",
        "He took 1,000 mg/d|, 2x| daily|, for 10 days|…",
    ],
)
@pytest.mark.parametrize("words", [", a tailor,", " from a village", " (a baker)", "; a clerk"])
def test_marks_around_a_number_never_reject_a_faithful_text(places, words):
    item = asked(places.replace("|", ""))
    parts = places.split("|")
    for i in range(1, len(parts)):
        at = len("".join(parts[:i]))
        edit = Edit(field="context", start=at, end=at, replacement=words)
        assert said(Candidate(item=item, edits=(edit,))) == {}, parts[:i]
        written = "".join(parts[:i]) + words + "".join(parts[i:])
        assert said(edits_between(item, f"{written} {STEM}")) == {}, written


@pytest.mark.parametrize(
    ("context", "after", "words", "lost"),
    [
        ("He took 300 mg daily.", "300", " of his", "300 mg"),
        ("He took 300 daily.", "300", " mg", "300"),
        ("He took 300 daily.", "300", ".5", "300"),
        ("He took 300 daily.", "took ", "2", "300"),
        ("He took 300 daily.", "took ", "-", "300"),
        ("She is 45 years old.", "45", " or more", "45 years"),
        ("Her pulse is 90/min.", "90", ", counted,", "90/min"),
        ("He smokes 1–2 packs.", "2", "0", "2 packs"),
    ],
)
def test_a_number_that_parts_from_its_unit_or_gets_one_is_lost(context, after, words, lost):
    at = context.index(after) + len(after)
    edit = Edit(field="context", start=at, end=at, replacement=words)
    reasons = said(Candidate(item=asked(context), edits=(edit,)))
    assert reasons["facts"] == f"the number {lost!r} was changed or parted"


CASE = (
    "A 45-year-old man comes to the clinic because of fever and cough for 3 days. "
    "He smokes and does not drink. His temperature is 38.5 °C. A radiograph shows an infiltrate."
)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("of fever", "of no fever", "'no' denies"),
        ("and cough", "and without cough", "'without' denies"),
        ("of fever", "of the absence of fever", "'absence of' denies"),
        ("of fever", "of a fear of fever", "'fear of' denies"),
        ("for 3 days", "for 3 days, neither of which is real", "'neither' denies"),
        ("an infiltrate.", "an infiltrate. These are gone now.", "'are gone' takes back"),
        ("of fever", "of no dangerous fever", "'no' may deny what follows it ('fever"),
        ("He smokes", "He never smokes", "'never' denies"),
        ("not drink", "not only drink", "stands between 'not' and what"),
        ("not drink", "not work but does drink", "stands between 'not' and what"),
        ("is 38.5", "is less than 38.5", "'less than' shifts"),
        ("is 38.5", "is almost 38.5", "'almost' shifts"),
        ("38.5 °C", "38.5 °C or less", "'or less' shifts"),
        ("an infiltrate", "an allegedly absent infiltrate", "'allegedly' takes back"),
        ("an infiltrate.", "an infiltrate. No infiltrate persists.", "'No' is said of"),
        ("an infiltrate.", "an infiltrate. It was ruled out.", "'ruled out' takes back"),
        ("man comes", "man, 30 years later at age 75, comes", "a new age or time"),
        ("man comes", "man aged seventy-five comes", "a new age or time"),
        ("man comes", "man who is in his seventies comes", "a new age or time"),
        ("an infiltrate.", "an infiltrate. Later it is 36.4 °C.", "a second amount in the same"),
        ("38.5 °C", "38.5 °C and 37", "a number was inserted next to"),
    ],
)
def test_an_insertion_that_denies_doubts_or_shifts_a_finding_is_rejected(old, new, why):
    assert why in said(edited(old, new, asked(CASE)))["facts"]


@pytest.mark.parametrize(
    "new",
    [
        "man who has no insurance",
        "man, who does not own a car,",
        "man, who never learned English at school,",
        "man (not from here)",
        "man without insurance",
        "man, a teacher with 3 children,",
        "man, once a soldier and rather poor,",
        "man, who immigrated 12 years ago with his 9-year-old daughter,",
        "man, who works 12 hours a day for 8 dollars an hour,",
        "man, who would rather see a younger colleague than a student,",
    ],
)
def test_what_an_insertion_denies_or_counts_of_its_own_passes(new):
    assert said(edited("man comes", f"{new} comes", asked(CASE)), by_list=True) == {}
    whole = new.replace("man", "He is a man", 1).strip(",") + "."
    behind = inserted(asked(CASE), [("shows an infiltrate", whole)])
    assert said(behind, by_list=True) == {}


@pytest.mark.parametrize("by_list", [True, False])
@pytest.mark.parametrize("where", ["start", "for 3 days", "end"])
@pytest.mark.parametrize(
    "sentence",
    [
        "He demanded to be seen at once.",
        "She insists on being seen at once.",
        "He would wait no longer.",
        "He is allegedly a rich man.",
        "He owned two farms once.",
        "He trusts lawyers no more.",
        "His brother, who is supposedly a judge, drove him here at once!",
        "He asked the clerk for help, and he got none.",
        "He is a baker. He said that he could pay no more.",
    ],
)
def test_a_whole_sentence_denies_nothing_of_the_next(sentence, where, by_list):
    made = inserted(asked(CASE), [(where, sentence)])
    assert sentence in made.context
    assert said(made, by_list=by_list) == {}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("of fever", "of no fever"),
        ("of fever", "of what was no longer fever"),
        ("of fever", "of alleged fever"),
        ("shows an", "shows, at least to him, never an"),
        ("of fever", "of what he calls no. fever"),
        ("an infiltrate.", "an infiltrate. His wife denies it."),
        ("an infiltrate.", "an infiltrate. His wife says that it is not."),
        ("an infiltrate.", "an infiltrate. His wife says never."),
        ("an infiltrate.", "an infiltrate. Not really."),
        ("an infiltrate.", "an infiltrate. The symptoms resolved."),
        ("an infiltrate.", "an infiltrate. The history is that of a different patient."),
        ("an infiltrate.", "an infiltrate. It turned out to be someone else's chart."),
        ("an infiltrate.", "an infiltrate. In truth he made all of this up."),
        ("an infiltrate.", "an infiltrate. The report was mixed up with that of a neighbour."),
        ("an infiltrate.", "an infiltrate. He recovered fully since then."),
        ("an infiltrate.", "an infiltrate. All of this is allegedly so."),
        ("an infiltrate.", "an infiltrate. The whole story is supposedly a joke."),
        ("an infiltrate.", "an infiltrate. He allegedly had fever."),
        ("an infiltrate.", "an infiltrate. They are supposedly normal."),
        ("an infiltrate.", "an infiltrate. The fever lasted no longer."),
    ],
)
def test_what_denies_or_doubts_the_case_stays_rejected(old, new):
    assert "facts" in said(edited(old, new, asked(CASE)))


def test_a_denial_that_shares_only_words_that_say_nothing_with_the_case_passes():
    item = asked("Against advice he takes nothing twice each day.")
    made = inserted(item, [("end", "He could not pay twice, and each vote was against no one.")])
    assert said(made) == {}


def test_only_insertions_of_a_limited_length_are_let_through():
    assert said(Candidate(item=ITEM, edits=())) == {"insertions": "nothing was inserted"}
    assert said(replaced(14, 17, "teacher"))["insertions"] == "'man' was deleted or replaced"
    for line_break in ("\n", "\r\n", "\u2028"):
        reasons = said(replaced(17, 17, f" who says:{line_break}A: Placebo"))
        assert reasons["insertions"] == "a line break was inserted"
    assert said(edited("man", "man " + "who works " * 40)) == {}
    assert said(edited("man", "man " + "who works " * 41)) == {
        "length": "82 words were inserted, at most 80 may be"
    }
    assert said(edited("man", "man who works at night"), max_words=3) == {
        "length": "4 words were inserted, at most 3 may be"
    }


@pytest.mark.parametrize(
    "words",
    [
        "who asks about heparin",
        "who asks about " + "".join(chr(ord(each) + 0xFEE0) for each in "heparin"),
        "who asks about hep\u200barin",
        "with a preference for B",
        "who read that the answer is A",
        "who was told Answer: (A)",
        "whose teacher says it is B.",
        "whose teacher says it is A",
        "who would choose option b",
        "whose choice: c",
        "who would choose (c)",
        "who prefers the second option",
        "who prefers option number two",
        "whose teacher says A: Placebo is the best",
    ],
)
def test_the_key_and_option_letters_may_not_be_told(words):
    assert "key_text" in said(replaced(17, 17, f" {words}"))


@pytest.mark.parametrize(
    "words",
    [
        "who says A teacher taught him",
        "who would rather answer a child",
        "whose answer is a smile",
        "who had no other choice of a school",
        "who says that he and I are friends",
        "named after Anna B.C. Miller",
        "who was the first to arrive",
        "who lives at 39.0 C.",
        "who lives at 39 °C",
        "who pays 4 D, 5 B, or 6 A.",
        "who sells Vitamin C.",
    ],
)
def test_articles_pronouns_and_ordinals_that_name_no_option_pass(words):
    assert "key_text" not in said(replaced(17, 17, f" {words}"))


def test_a_key_that_stands_in_the_original_already_is_not_told_again():
    item = asked("He had heparin.")
    assert said(edits_between(item, f"He, a clerk, had heparin. {STEM}")) == {}
