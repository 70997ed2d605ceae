"""Where insertions stand: in a question written anew, and after words that the attacker names."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medstress.attacks.medfuzz.edits import (
    EditError,
    aligned,
    edits_between,
    hidden_in,
    inserted,
    readings,
    words_of,
)
from medstress.core.items import Question


def question(context, stem="What is it?"):
    return Question(id="q", context=context, stem=stem, options=("Flu", "Cold"), key="A")


def texts(made):
    return [edit.replacement.strip() for edit in made.edits]


HIS = "A man is ill. His temperature is 38°C. His pulse is 90/min."


@pytest.mark.parametrize(
    ("context", "new", "insertion"),
    [
        # Sentences that begin, or go on, like the next one.
        (HIS, HIS.replace("His t", "His wife plays chess. His t"), "His wife plays chess."),
        (HIS, HIS.replace("His p", "His wife plays chess. His p"), "His wife plays chess."),
        (
            HIS,
            HIS.replace("His t", "His temperature is no topic at home. His t"),
            "His temperature is no topic at home.",
        ),
        # A sentence that ends like the one before it.
        ("He works in town. He coughs.", "He works in town. He sings in town. He coughs.",
         "He sings in town."),
        # The very beginning.
        ("He coughs.", "He sings. He coughs.", "He sings."),
        # Two sentences in a row.
        ("He coughs. He is ill.", "He coughs. He sings. He has a cat. He is ill.",
         "He sings. He has a cat."),
        # Quoted ends.
        ('He says "no." He is ill.', 'He says "no." He sings. He is ill.', "He sings."),
        # Clauses between commas, and words that begin like the next ones.
        ("A man, who smokes, coughs.", "A man, who sings, who smokes, coughs.", ", who sings"),
        ("A man who smokes coughs.", "A man who sings who smokes coughs.", "who sings"),
        ("He is a well-known man.", "He is a well-liked well-known man.", "well-liked"),
        ("A man (45) coughs.", "A man (a teacher) (45) coughs.", "(a teacher)"),
    ],
)  # fmt: skip
def test_among_equal_alignments_sentences_clauses_and_words_stay_whole(context, new, insertion):
    made = edits_between(question(context), f"{new} What is it?")
    assert texts(made) == [insertion]
    assert f"{made.context} {made.stem}" == f"{new} What is it?"


@pytest.mark.parametrize("context", ["A man coughs.", ""])
def test_a_sentence_that_begins_like_the_question_is_no_change_of_it(context):
    item = question(context, "What is the best next step?")
    new = f"{context} What is known of him is that he is a teacher. {item.stem}".strip()
    made = edits_between(item, new)
    assert texts(made) == ["What is known of him is that he is a teacher."]


def test_curly_quotes_and_dashes_are_those_of_the_original():
    item = question("The patient’s wife – “a nurse” – says he’s ill… now.")
    new = "The patient's old wife -- \"a nurse\" - says he's ill... now. What is it?"
    made = edits_between(item, new)
    assert texts(made) == ["old"]
    assert made.context == "The patient’s old wife – “a nurse” – says he’s ill… now."
    back = edits_between(question('It\'s "a" - b.'), "It’s “a” — very b. What is it?")
    assert back.context == 'It\'s "a" - very b.'


def test_readings_give_the_same_words_at_every_place():
    found = list(readings("He lives in the", " north in the", " city."))
    assert [inserted.strip() for _, inserted, _ in found] == [
        "north in the",
        "the north in",
        "in the north",
    ]
    assert {"".join(each) for each in found} == {"He lives in the north in the city."}
    assert len(list(readings("", "no", ""))) == 1


def test_a_sentence_of_its_own_is_read_as_one_and_changes_nothing_beside_it():
    item = question("He smokes. He is ill.")
    new = "He smokes. He has no car and no money. He is ill. What is it?"
    assert texts(edits_between(item, new)) == ["He has no car and no money."]
    (read,) = readings("He smokes. He", " has no car. He", " is ill.")
    assert read == ("He smokes.", " He has no car.", " He is ill.")


WORDS = st.lists(st.sampled_from(["his", "wife", "is", "ill", ".", ","]), max_size=14)


CASE = question("A 45-year-old man comes to the clinic. He has “pain” of 38.5°C – at night.")


@pytest.mark.parametrize(
    ("after", "text", "found"),
    [
        ("man", "who works as a clerk", "man who works as a clerk comes"),
        ("man", ", a clerk,", "man, a clerk, comes"),
        ("to the clinic.", "He sings.", "clinic. He sings. He has"),
        ("to the clinic", "He sings.", "clinic. He sings. He has"),
        ("to the clinic", ", a busy one.", "clinic, a busy one. He has"),
        ("to the clinic", "in town.", "clinic in town. He has"),
        ('has "pain"', "in town", "“pain” in town of"),
        ("38.5°C -", "he is a clerk -", "– he is a clerk - at night."),
        ("at night.", "He sings.", "at night. He sings. What"),
        ("at night", "He sings.", "at night. He sings. What"),
        ("", "He sings.", "He sings. A 45"),
        ("start", "He sings.", "He sings. A 45"),
        ("END", "He sings.", "at night. He sings. What"),
        ("... comes to the CLINIC", "He sings.", "clinic. He sings. He has"),
        ("to the clinic", "He sings.\n", "clinic. He sings. He has"),
    ],
)
def test_words_stand_after_those_that_are_named(after, text, found):
    made = inserted(CASE, [(after, text)])
    assert all(edit.field == "context" for edit in made.edits)
    assert found in f"{made.context} {made.stem}"
    assert made.stem == CASE.stem


@pytest.mark.parametrize(
    ("where", "text", "cause"),
    [
        ("woman", "who sings", "no place"),
        ("He h", "sings", "no place"),
        ("45", "old", "no place"),
        ("of 38", "or so", "no place"),
        ("...", "sings", "no place"),
        ("What is", "really", "no place"),
        ("it?", "He sings.", "no place"),
        ("man", " , ", "nothing inserted"),
    ],
)
def test_a_place_that_is_none_is_refused(where, text, cause):
    with pytest.raises(EditError) as refused:
        inserted(CASE, [(where, text)])
    assert refused.value.cause == cause


def test_words_that_are_there_twice_are_no_place_and_more_of_them_are():
    item = question("He is ill. He is old.")
    with pytest.raises(EditError, match="2 times"):
        inserted(item, [("He is", "very")])
    assert inserted(item, [("ill. He is", "very")]).context == "He is ill. He is very old."


@pytest.mark.parametrize(
    ("new", "named"),
    [
        ("A man coughs. What is the very best next step?", "very"),
        ("A man coughs. What is the best next step? What else?", "What else"),
        ("A man sneezes. What is the best next step?", "coughs"),
        ("What is the best next step?", "A man coughs"),
        ("A coughs man. What is the best next step?", "coughs"),
        ("", "A man"),
    ],
)
def test_a_question_in_which_more_than_insertions_differ_is_refused_with_what_differs(new, named):
    with pytest.raises(EditError) as refused:
        edits_between(question("A man coughs.", "What is the best next step?"), new)
    assert named in str(refused.value)
    assert refused.value.cause == "not only insertions"


@given(WORDS, WORDS)
def test_every_word_stays_in_order_or_none_can(old, new):
    before, after = words_of(" ".join(old)), words_of(" ".join(new))
    places = aligned(before, after, len(before))
    rest = iter(new)
    if places is None:
        assert not all(word in rest for word in old)
    else:
        assert [after[j].text for j in places] == [word.text for word in before]
        assert places == sorted(set(places))


@pytest.mark.parametrize("piece", ["a ", "His wife. ", "\"' "])
def test_a_question_of_any_length_is_compared_in_seconds(piece):
    item = question((piece * 100)[: 100 * len(piece) - 1])
    new = (piece * 6_000)[:100_000]
    started = time.process_time()
    made = edits_between(item, f"{new} What is it?")
    list(readings(new, new, new))
    assert time.process_time() - started < 30
    assert f"{made.context} {made.stem}".split() == f"{new} What is it?".split()


def test_characters_that_nobody_sees_are_named():
    assert hidden_in("He\u202e sings", "He") == "U+202E"
    assert hidden_in("He\u00ad sings", "He\u00ad") is None
