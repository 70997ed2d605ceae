"""Where insertions stand: in a question written anew, and after words that the attacker names."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import Indel

from medstress.attacks.medfuzz.alignment import aligned, readings, words_of
from medstress.attacks.medfuzz.gates import Draft, facts_kept, options_kept
from medstress.attacks.medfuzz.insertion_places import NoPlaceError, inserted
from medstress.attacks.medfuzz.item_edits import edits_between
from medstress.core.items import Candidate, Question


def question(context: str, stem: str = "What is it?") -> Question:
    return Question(id="q", context=context, stem=stem, options=("Flu", "Cold"), key="A")


def texts(made: Candidate) -> list[str]:
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


@pytest.mark.parametrize("insertion", ["in the north", "north in the"])
def test_what_the_attacker_says_it_inserted_decides_where_nothing_else_does(insertion):
    item = question("He lives in the city.")
    new = "He lives in the north in the city. What is it?"
    assert texts(edits_between(item, new, [insertion])) == [insertion]


def test_what_the_attacker_says_in_other_words_does_not_move_a_sentence():
    new = HIS.replace("His t", "His wife plays chess. His t")
    made = edits_between(question(HIS), f"{new} What is it?", ["the wife's chess", "His"])
    assert texts(made) == ["His wife plays chess."]


def test_two_texts_that_the_attacker_names_may_stand_together_or_apart():
    item = question("He lives in the city. He is ill.")
    new = "He lives in the north, a teacher, in the city. He is ill. What is it?"
    one = edits_between(item, new, ["in the north", "a teacher"])
    assert texts(one) == ["in the north, a teacher,"]
    apart = "He lives in the north in the city. He sings. He is ill. What is it?"
    assert texts(edits_between(item, apart, ["He sings.", "in the north"])) == [
        "in the north",
        "He sings.",
    ]


@pytest.mark.parametrize("context", ["A man coughs.", ""])
def test_a_sentence_that_begins_like_the_question_is_no_change_of_it(context):
    item = question(context, "What is the best next step?")
    new = f"{context} What is known of him is that he is a teacher. {item.stem}".strip()
    made = edits_between(item, new)
    assert texts(made) == ["What is known of him is that he is a teacher."]
    options = dict(zip("AB", item.options, strict=True))
    assert options_kept(Draft(candidate=made, options=options)) is None


def test_a_changed_question_is_still_a_changed_question():
    item = question("A man coughs.", "What is the best next step?")
    for new in ("What is the very best next step?", "What is the best next step? What else?"):
        made = edits_between(item, f"A man coughs. {new}")
        options = dict(zip("AB", item.options, strict=True))
        assert options_kept(Draft(candidate=made, options=options)) is not None


def test_curly_quotes_and_dashes_are_those_of_the_original():
    item = question("The patient’s wife – “a nurse” – says he’s ill… now.")
    new = "The patient's old wife -- \"a nurse\" - says he's ill... now. What is it?"
    made = edits_between(item, new)
    assert texts(made) == ["old"]
    assert made.context == "The patient’s old wife – “a nurse” – says he’s ill… now."
    back = edits_between(question('It\'s "a" - b.'), "It’s “a” — very b. What is it?")
    assert back.context == 'It\'s "a" - very b.'


def test_options_that_come_back_with_other_quotes_are_the_same_options():
    item = Question(id="q", stem="Why?", options=("Crohn’s disease", "1–2 µg"), key="A")
    made = Candidate(item=item)
    assert options_kept(Draft(candidate=made, options={"A": "Crohn's disease", "B": "1-2 μg"})) is (
        None
    )
    assert options_kept(Draft(candidate=made, options={"A": "Crohn disease", "B": "1-2 μg"}))


@pytest.mark.parametrize("claimed", ["of the absence", "the absence of"])
def test_no_claim_about_the_place_gets_a_denial_past_the_gate(claimed):
    item = question("He comes because of fever.")
    made = edits_between(item, "He comes because of the absence of fever. What is it?", [claimed])
    assert texts(made) == [claimed]
    assert "denies" in (facts_kept(Draft(candidate=made, options={})) or "")


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
    for claimed in ("He has no car and no money.", "has no car and no money. He"):
        made = edits_between(item, new, [claimed])
        assert texts(made) == [claimed]
        assert facts_kept(Draft(candidate=made, options={})) is None
    (read,) = readings("He smokes. He", " has no car. He", " is ill.")
    assert read == ("He smokes.", " He has no car.", " He is ill.")


WORDS = st.lists(st.sampled_from(["his", "wife", "is", "ill", ".", ","]), max_size=14)


@given(WORDS, WORDS, st.lists(WORDS.map(" ".join), max_size=3))
def test_no_alignment_changes_more_words_than_needed(old, new, told):
    before, after = words_of(" ".join(old)), words_of(" ".join(new))
    pairs = aligned(before, after, len(before), told)
    assert len(pairs) == (len(old) + len(new) - Indel.distance(old, new)) // 2
    assert all(before[i].text == after[j].text for i, j in pairs)
    assert all(a < c and b < d for (a, b), (c, d) in pairwise(pairs))


@pytest.mark.parametrize("piece", ["a ", "a, ", "His wife. ", ") ", "\"' ", "a b c d e f g. "])
@pytest.mark.parametrize("n_times", [3, 60])
def test_a_question_of_any_length_is_compared_in_seconds(piece, n_times):
    item = question((piece * 100)[: 100 * len(piece) - 1])
    new = (piece * 100 * n_times)[:100_000]
    started = time.monotonic()
    made = edits_between(item, f"{new} What is it?", [new] * 60)
    list(readings(new, new, new))
    assert time.monotonic() - started < 30
    assert f"{made.context} {made.stem}".split() == f"{new} What is it?".split()


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
    ],
)
def test_words_stand_after_those_that_are_named(after, text, found):
    made = inserted(CASE, [(after, text)])
    assert all(edit.field == "context" for edit in made.edits)
    assert found in f"{made.context} {made.stem}"
    assert made.stem == CASE.stem


@pytest.mark.parametrize(
    ("after", "text", "said"),
    [
        ("woman", "who sings", "the question does not hold the words 'woman'"),
        ("He h", "sings", "does not hold the words 'He h'"),
        ("45", "old", "after '45' it would stand inside a word"),
        ("of 38", "or so", "inside a word"),
        ("man", " , ", "holds no word"),
    ],
)
def test_a_place_that_is_none_is_said_in_one_sentence(after, text, said):
    with pytest.raises(NoPlaceError) as refused:
        inserted(CASE, [(after, text)])
    assert said in str(refused.value)


def test_words_that_stand_twice_are_no_place(said):
    item = question("He is ill. He is old.")
    with pytest.raises(NoPlaceError) as caught:
        inserted(item, [("He is", "very")])
    said(str(caught.value), "'He is'")
    assert inserted(item, [("ill. He is", "very")]).context == "He is ill. He is very old."


def test_insertions_come_in_any_order_and_may_share_a_place():
    told = [("clinic.", "He sings."), ("man", "a clerk"), ("clinic.", "He reads."), ("", "Today.")]
    made = inserted(CASE, told)
    assert made.context.startswith(
        "Today. A 45-year-old man a clerk comes to the clinic. He sings."
    )
    assert "He sings. He reads. He has" in made.context


def test_an_insertion_inside_the_question_is_left_to_the_gates():
    made = inserted(CASE, [("What is", "really")])
    assert options_kept(Draft(candidate=made, options={"A": "Flu", "B": "Cold"})) is not None
