import pytest
from hypothesis import given
from hypothesis import strategies as st

from medstress.entities.names import (
    VARIANT_CLASSES,
    VariantIndex,
    fold_word,
    normalise,
    variant_class,
    word_set,
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
        ("№ 5", "no. 5"),
        ("a  b", "a b"),
        ("-", ""),
    ],
)
def test_the_normal_form_ignores_case_hyphens_accents_and_spaces(text, normal):
    assert normalise(text) == normal


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


@pytest.mark.parametrize(
    ("key", "name", "expected"),
    [
        ("Aspirin", "aspirin ", "same_words"),
        ("Crohn's disease", "Crohn disease", "same_words"),
        ("Crohn\u2019s disease", "crohns disease", "same_words"),
        ("Graves' disease", "Grave's disease", "same_words"),
        ("brain abscess", "abscesses, brain", "same_words"),
        ("anaemia", "Anemias", "same_words"),
        ("oesophageal cancer", "cancer, esophageal", "same_words"),
        ("hodgkin-lymphoma", "Lymphoma Hodgkin", "same_words"),
        ("diclofenac", "diclofenac sodium", "key_plus_words"),
        ("diabetes mellitus", "type 2 diabetes mellitus", "key_plus_words"),
        ("Hemophilia", "haemophilia A", "key_plus_words"),
        ("type 2 diabetes mellitus", "diabetes mellitus", "key_subset"),
        ("diclofenac sodium", "sodium", "key_subset"),
        ("sodium bicarbonate", "sodium chloride", "different"),
        ("aspirin", "ibuprofen", "different"),
        ("hyperthyroidism", "hypothyroidism", "different"),
        ("aspirin", "?", "different"),
        ("?", "aspirin", "different"),
    ],
)
def test_a_name_gets_the_first_class_that_fits(key, name, expected):
    assert variant_class(name, [key]) == expected


def test_a_listed_synonym_is_recognised_by_its_words():
    assert variant_class("heart attacks", ["infarct"], ["heart attack"]) == "synonym"
    assert variant_class("heart failure", ["infarct"], ["heart attack"]) == "different"


def test_the_order_of_the_classes_counts_more_than_the_order_of_the_references():
    references = ["diclofenac sodium gel", "diclofenac"]
    assert variant_class("diclofenac sodium", references) == "key_plus_words"
    assert variant_class("diclofenac", references) == "same_words"
    assert variant_class("diclofenac", references[:1], ["diclofenac"]) == "key_subset"


WORD = st.sampled_from(["acid", "acids", "salt", "b12", "haem", "hem", "-", "?", "type"])
TEXTS = st.lists(st.lists(WORD, max_size=4).map(" ".join), max_size=12)


@given(TEXTS, TEXTS, TEXTS)
def test_the_index_agrees_with_asking_name_by_name(names, references, synonyms):
    found = VariantIndex(names).classes(references, synonyms)
    assert [VARIANT_CLASSES[code] for code in found] == [
        variant_class(name, references, synonyms) for name in names
    ]


@given(TEXTS, TEXTS)
def test_the_index_finds_the_names_that_equal_a_text(names, texts):
    wanted = {normalise(text) for text in texts}
    expected = {i for i, name in enumerate(names) if normalise(name) in wanted}
    assert set(VariantIndex(names).equal_to(texts)) == expected


@given(st.permutations(["portal", "vein", "thrombosis", "acute"]))
def test_word_order_does_not_matter(order):
    assert word_set(" ".join(order)) == word_set("acute portal vein thrombosis")
