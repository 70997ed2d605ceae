"""What a rater sees of each kind of item, and codes that tell nothing."""

import json
import re

from medstress.core.items import Question
from medstress.core.sentences import SentencePair, TaggedText
from medstress.core.text import Edit
from medstress.experiment.room import described, shown
from medstress.report.room_pages import room_page

QUESTION = Question(
    id="q", passage="Read.", context="A man.", stem="Which?", options=("a", "b", "c"), key="B"
)


def swap(*letters):
    return tuple(
        Edit(field=to, start=0, end=1, replacement=QUESTION.option(at)) for to, at in letters
    )


def test_a_question_shows_its_edited_texts_and_the_key():
    edits = (
        Edit(field="A", start=0, end=1, replacement="x"),
        Edit(field="context", start=2, end=5, replacement="woman"),
    )
    case = shown(QUESTION, edits)
    assert [(name, parts[0][1]) for name, parts in case.texts] == [
        ("Text", "Read."),
        ("Question", "A woman. Which?"),
    ]
    assert (case.options, case.key, case.letters) == (("x", "b", "c"), "B", "ABC")
    assert "key" not in case.as_json(with_key=False)


def test_a_passage_that_the_victim_did_not_get_is_not_shown():
    case = shown(QUESTION, (), hidden=["passage"])
    assert case.texts == (("Question", ((False, "A man. Which?"),)),)


def test_the_key_follows_its_text_where_options_change_places():
    case = shown(QUESTION, swap(("A", "B"), ("B", "A")))
    assert (case.options, case.key) == (("b", "a", "c"), "A")


def test_an_entity_is_marked_where_it_stands_now_and_its_type_is_the_key():
    text = TaggedText(
        id="1", tokens=("no", "folic", "acid", "today"), labels=("O", "B-Drug", "I-Drug", "O")
    )
    unit = text.units()[0]
    edits = (Edit(field="tokens", start=0, end=1, replacement="there is"),)
    case = shown(unit, edits, ("Disease", "Drug"))
    ((_, parts),) = case.texts
    assert parts == ((False, "there is"), (True, "folic acid"), (False, "today"))
    assert (case.options, case.key) == (("Disease", "Drug"), "B")


def test_what_has_no_key_is_no_case():
    assert shown(SentencePair(id="1", text_a="a", text_b="b", score=1.0), ()) is None
    no_entity = TaggedText(id="1", tokens=("no",), labels=("O",))
    assert shown(no_entity, (), ("Drug",)) is None


def test_hostile_texts_are_data_and_never_markup():
    hostile = "</script><script>alert(1)</script><!--\u2028&\ud800"
    case = {"id": "0" * 12, "texts": [{"name": hostile, "parts": []}], "options": [hostile]}
    public = {"mode": "judge", "pairs": [], "cases": [case], "questions": {}, "words": []}
    for is_served in (True, False):
        page = room_page(public, is_served=is_served)
        assert page.count("<script") == 2
        assert page.count("alert(1)") == page.count("\\u003cscript>alert(1)") == 2
        page.encode("utf-8")
        data = json.loads(re.search(r'id="data">(.*?)</script>', page)[1])
        assert data["cases"][0]["options"] == [hostile.replace("\ud800", "?")]


def test_one_of_a_kind_is_singular():
    body = {"mode": "judge", "drawn": 1, "population": 1, "planted": {"unchanged": 1}, "seed": 0}
    assert described({**body, "cases": ["a", "b"]}) == (
        "1 of 1 success (seed 0): 1 different text, and 1 planted control"
    )
