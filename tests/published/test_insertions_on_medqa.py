"""Where insertions are found on MedQA; run with -s and -m "release or not release", it
prints the figures of docs/medfuzz.md."""

import re
from functools import lru_cache

import pytest

from medstress.attacks.medfuzz.edits import edits_between
from medstress.attacks.medfuzz.gates import Draft, objections
from medstress.datasets.named import load_medqa
from medstress.datasets.source import DatasetOptions
from medstress.tasks.prompt_sets import load_prompts

_SENTENCE = re.compile(r"(?<=[.?!] )(\w+)")
_OF_WOMEN = re.compile(r"\b(?:woman|girl|she|her)\b", re.IGNORECASE)
_CURLY = re.compile("[‘’“”–—]")


@pytest.fixture
def items(published):
    return read(published("qa/medqa_test_first.jsonl"))


@lru_cache(maxsize=1)
def read(path):
    return load_medqa(DatasetOptions(path=path)).questions


def sentences_of(item):
    """Sentences about the patient that begin with a pronoun."""
    he, his, wife = ("She", "Her", "husband") if _OF_WOMEN.search(item.context) else (
        "He", "His", "wife"
    )  # fmt: skip
    return (
        f"{he} plays chess with a neighbour.",
        f"{he} works as a teacher and sings in a choir.",
        f"{his} brother plays chess.",
        f"{his} {wife}, who plays chess, works as a teacher.",
    )


def places_of(item):
    """Where sentences of the context begin, the first apart, and with which word."""
    for found in _SENTENCE.finditer(item.context):
        yield found.start(), found.group()


def put(item, at, sentence):
    return f"{item.context[:at]}{sentence} {item.context[at:]} {item.stem}"


def is_found(made, sentence):
    return [edit.replacement.strip() for edit in made.edits] == [sentence]


def draft(made):
    options = dict(zip(made.item.letters, made.item.options, strict=True))
    rules = load_prompts("patient_characteristics").rules
    return Draft(candidate=made, options=options, rules=rules)


def told(name, n, of):
    print(f"\n{name}: {n:,} of {of:,} ({n / of:.1%})")


@pytest.mark.parametrize("every_nth", [25, pytest.param(1, marks=pytest.mark.release)])
def test_sentences_that_begin_like_the_next_one_are_found_whole(items, every_nth):
    alike = lost_alike = every = lost = 0
    for item in items[::every_nth]:
        for sentence in sentences_of(item):
            for at, first in places_of(item):
                ok = is_found(edits_between(item, put(item, at, sentence)), sentence)
                every, lost = every + 1, lost + (not ok)
                if sentence.startswith(f"{first} "):
                    alike, lost_alike = alike + 1, lost_alike + (not ok)
    told("pronoun sentences found elsewhere", lost, every)
    told("of them, before a sentence that begins with the same pronoun", lost_alike, alike)
    assert alike > 1_000 / every_nth
    assert lost == lost_alike == 0


def test_items_with_curly_quotes_or_dashes_are_not_rejected_when_they_come_back_straight(items):
    curly = rejected = 0
    for item in items:
        at = next((at for at, _ in places_of(item)), None)
        if at is None or not _CURLY.search(item.question + "".join(item.options)):
            continue
        curly += 1
        made = edits_between(item, _straight(put(item, at, "This is a quiet place.")))
        rejected += bool(objections(draft(made), by_list=True))
    told("items with curly quotes or dashes rejected", rejected, curly)
    assert curly > 100
    assert rejected == 0


def _straight(text):
    """As models write it: straight quotes, hyphens for dashes, nothing else changed."""
    return text.translate(str.maketrans("‘’“”–—", "''\"\"--"))


def test_a_sentence_that_begins_like_the_question_is_accepted(items):
    asked = rejected = 0
    for item in items[::5]:
        first = item.stem.split()[0]
        if not item.context or not first.isalpha():
            continue
        asked += 1
        sentence = f"{first} others in town do for a living is teaching."
        made = edits_between(item, f"{item.context} {sentence} {item.stem}")
        rejected += any(one.gate == "options" for one in objections(draft(made), by_list=True))
    told("sentences rejected that begin like the question", rejected, asked)
    assert asked > 100
    assert rejected == 0
