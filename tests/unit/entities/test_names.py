import pytest
from hypothesis import given
from hypothesis import strategies as st

from medstress.core.validity import VARIANT_CLASSES
from medstress.entities.names import (
    DIFFERENT,
    VariantIndex,
    fold_word,
    normalise,
    split,
    variant_class,
    word_set,
    words,
)


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("  Aspirin ", "aspirin"),
        ("Non-Hodgkin", "non hodgkin"),
        ("non\u2013hodgkin", "non hodgkin"),
        ("Sjögren", "sjogren"),
        ("Straße", "strasse"),
        ("ﬁbrosis", "fibrosis"),
        ("№ 5", "no 5"),
        ("Crohn´s", "crohn's"),
        ("β-blocker", "b blocker"),
        ("37 ℃", "37 °c"),
        ("аspirin", "aspirin"),  # begins with a Cyrillic letter
        ("as\u00adpirin", "aspirin"),
        ("糖尿病", "糖尿病"),
        ("a  b", "a b"),
        ("-", ""),
    ],
)
def test_the_normal_form_ignores_case_hyphens_accents_and_spaces(text, normal):
    assert normalise(text) == normal


def test_words_of_other_scripts_are_words_and_differ():
    assert words("糖尿病 2") == ["糖尿病", "2"]
    assert word_set("糖尿病") != word_set("高血压")
    text = "У него диабет."
    assert [text[word.start : word.end] for word in split(text)] == ["У", "него", "диабет", "."]


@given(st.text())
def test_normalising_twice_changes_nothing(text):
    assert normalise(normalise(text)) == normalise(text)


@pytest.mark.parametrize(
    ("one", "many"),
    [
        ("abscess", "abscesses"),
        ("disease", "diseases"),
        ("injury", "injuries"),
        ("metastasis", "metastases"),
        ("virus", "viruses"),
        ("headache", "headaches"),
        ("box", "boxes"),
        ("kidney", "kidneys"),
        ("vertebra", "vertebrae"),
        ("toe", "toes"),
    ],
)
def test_singular_and_plural_fold_to_one_word(one, many):
    assert fold_word(one) == fold_word(many)


@pytest.mark.parametrize("word", ["mass", "virus", "b12", "ms", "bis"])
def test_a_word_that_is_no_plural_stays(word):
    assert fold_word(word) == word


# Real names: accents, possessives, plurals, salts, types and stages.
REAL = [
    ("Sj\u00f6gren's syndrome", "Sjogren syndrome", "same_words"),
    ("M\u00e9ni\u00e8re disease", "Meniere's Disease", "same_words"),
    ("Guillain-Barr\u00e9 syndrome", "guillain barre syndrome", "same_words"),
    ("pulmonary embolism", "Embolism, Pulmonary", "same_words"),
    ("brain metastasis", "brain metastases", "same_words"),
    ("leukaemia, hairy cell", "Hairy-cell leukemia", "same_words"),
    ("diphenhydramine", "diphenhydramine hydrochloride", "key_plus_words"),
    ("Ehlers-Danlos syndrome", "Ehlers Danlos syndrome, vascular type", "key_plus_words"),
    ("chronic kidney disease", "chronic kidney disease stage 3", "key_plus_words"),
    ("glycogen storage disease type II", "glycogen storage disease", "key_subset"),
    ("diabetes mellitus type 1", "diabetes mellitus type 2", "different"),
    ("hepatitis B", "hepatitis C", "different"),
    ("ketotifen fumarate", "quetiapine fumarate", "different"),
    ("Crohn's disease", "Addison's disease", "different"),
]


@pytest.mark.parametrize(("key", "name", "expected"), REAL)
def test_real_names_get_the_class_that_a_reader_would_give_them(key, name, expected):
    assert variant_class(name, [key]) == expected


def test_the_order_of_the_classes_counts_more_than_the_order_of_the_references():
    references = ["diclofenac sodium gel", "diclofenac"]
    assert variant_class("diclofenac sodium", references) == "key_plus_words"
    assert variant_class("diclofenac", references) == "same_words"
    assert variant_class("diclofenac", references[:1], ["diclofenac"]) == "key_subset"


WORD = st.sampled_from(["acid", "acids", "salt", "b12", "haem", "hem", "-", "?", "type"])
TEXTS = st.lists(st.lists(WORD, max_size=4).map(" ".join), max_size=12)


@given(TEXTS, TEXTS, TEXTS)
def test_the_index_agrees_with_asking_name_by_name(names, references, synonyms):
    found = VariantIndex(names).variants(references, synonyms)
    assert DIFFERENT not in found.values()
    assert [VARIANT_CLASSES[found.get(i, DIFFERENT)] for i in range(len(names))] == [
        variant_class(name, references, synonyms) for name in names
    ]


@given(TEXTS, TEXTS)
def test_the_index_finds_the_names_that_equal_a_text(names, texts):
    wanted = {normalise(text) for text in texts}
    expected = {i for i, name in enumerate(names) if normalise(name) in wanted}
    assert set(VariantIndex(names).equal_to(texts)) == expected
