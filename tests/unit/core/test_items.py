from typing import Any

import pytest

from medstress.core.errors import DataError
from medstress.core.items import Candidate, Mention, Question


def question(**given: Any) -> Question:
    values: dict[str, Any] = {
        "id": "q1",
        "context": "A man bleeds.",
        "stem": "Which drug?",
        "options": ("Aspirin", "Warfarin sodium", "Heparin"),
        "key": "B",
    }
    return Question(**(values | given))


def mention(field: str, start: int, end: int) -> Mention:
    return Mention(field=field, start=start, end=end, type="T121")


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"options": ("x",)}, "item 'q1', field 'options'"),
        ({"options": tuple("abcdefghijk")}, "item 'q1', field 'options'"),
        ({"options": ("x", "  ")}, "item 'q1', field 'options'"),
        ({"options": ("x", "y", " x ")}, "item 'q1', field 'options'"),
        ({"key": "D"}, "item 'q1', field 'answer_idx'"),
        ({"key": ""}, "item 'q1', field 'answer_idx'"),
        ({"key": "AB"}, "item 'q1', field 'answer_idx'"),
        ({"context": "", "stem": " "}, "item 'q1', field 'question'"),
        ({"mentions": (mention("E", 0, 1),)}, "item 'q1', field 'mentions'"),
        ({"mentions": (mention("A", 0, 8),)}, "item 'q1', field 'mentions'"),
        ({"mentions": (mention("A", 3, 3),)}, "item 'q1', field 'mentions'"),
        ({"mentions": (mention("question", -1, 3),)}, "item 'q1', field 'mentions'"),
    ],
)
def test_a_broken_question_is_refused_with_a_sentence(given, where, said):
    with pytest.raises(DataError) as caught:
        question(**given)
    said(str(caught.value), where)


def test_every_field_can_be_read_by_name():
    item = question()
    assert item.text_of("question") == "A man bleeds. Which drug?"
    assert item.text_of("context") == "A man bleeds."
    assert item.text_of("stem") == "Which drug?"
    assert item.text_of("C") == item.option("C") == "Heparin"


def test_the_hash_covers_what_reaches_a_prompt_or_a_judgement():
    base = question()
    changes: list[dict[str, Any]] = [
        {"context": "A man bled."},
        {"stem": "Which drug now?"},
        {"options": ("Aspirin", "Warfarin", "Heparin")},
        {"options": ("Heparin", "Warfarin sodium", "Aspirin")},
        {"key": "C"},
        {"mentions": (mention("A", 0, 7),)},
    ]
    hashes = {question(**change).hash for change in changes}
    assert len(hashes | {base.hash}) == len(changes) + 1


def test_metadata_does_not_tell_items_apart():
    assert question(metadata={"topic": ["x"]}) == question()
    assert hash(question(metadata={"topic": ["x"]})) == hash(question())


def test_an_edit_changes_its_field_and_no_other():
    item = question()
    candidate = Candidate(item=item).edit(mention("B", 0, 8), "Digoxin")
    assert candidate.options == ("Aspirin", "Digoxin sodium", "Heparin")
    assert (candidate.context, candidate.stem) == (item.context, item.stem)
    assert item.options[1] == "Warfarin sodium"


def test_edits_are_in_the_offsets_of_the_original():
    twice = (
        Candidate(item=question())
        .edit(mention("B", 0, 8), "Digitoxin, a glycoside, as")
        .edit(mention("B", 9, 15), "salt")
    )
    assert twice.options[1] == "Digitoxin, a glycoside, as salt"


def test_context_and_stem_can_be_edited():
    candidate = (
        Candidate(item=question())
        .edit(mention("context", 2, 5), "woman")
        .edit(mention("stem", 0, 5), "What")
    )
    assert (candidate.context, candidate.stem) == ("A woman bleeds.", "What drug?")


def test_other_mentions_are_checked_and_change_the_hash():
    item = Question(id="q", stem="Why?", options=("flu", "cold"), key="A")
    mention = Mention(field="A", start=0, end=3, type="T047")
    _ = item.hash
    again = item.with_mentions([mention])
    assert again == Question(
        id="q", stem="Why?", options=("flu", "cold"), key="A", mentions=(mention,)
    )
    assert again.hash != item.hash
    assert again.with_mentions(()).hash == item.hash
    with pytest.raises(DataError, match="lie outside A"):
        item.with_mentions([Mention(field="A", start=0, end=4, type="T047")])
