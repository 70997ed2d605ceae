"""The lexicon of noise: gold words, names, and what a corpus says more than once."""

from __future__ import annotations

from pathlib import Path

from medstress.entities.vocabularies import ONE_IN, noise_lexicon, stop_words


def sentence(text: str, *gold: str) -> tuple[list[str], list[str]]:
    tokens = text.split()
    return tokens, ["B-X" if token in gold else "O" for token in tokens]


def test_gold_words_and_names_count_once_and_other_words_from_two_sentences_on():
    lexicon = noise_lexicon(
        [
            sentence("Zorblax with Patients quaffed aspirin 2024", "Zorblax"),
            sentence("patients with lorem ipsum lorem"),
        ],
        one_in=1,
    )
    assert {"zorblax", "patients", "aspirin"} <= lexicon
    assert not {"with", "quaffed", "lorem", "ipsum", "2024", "Patients"} & lexicon


def test_the_same_sentences_have_the_same_words_in_a_corpus_of_any_size():
    sentences = [sentence(f"word{chr(97 + n)} quaffed aspirin", "aspirin") for n in range(26)]
    small = noise_lexicon(sentences)
    assert "wordz" in small
    assert noise_lexicon(sentences * 400) == small
    assert "wordz" not in noise_lexicon(sentences, one_in=13)


def test_a_word_counts_from_its_share_of_the_sentences_on():
    rest = [sentence("aspirin helps")] * (2 * ONE_IN - 2)
    twice = noise_lexicon([*rest, sentence("quaffed"), sentence("quaffed")])
    once = noise_lexicon([*rest, sentence("quaffed"), sentence("helps")])
    assert "quaffed" in twice
    assert "quaffed" not in once


def test_general_words_stay_out_even_of_gold_entities():
    assert "of" not in noise_lexicon([sentence("cancer of skin", "cancer", "of", "skin")] * 3)


def test_general_words_are_lower_case_words_and_no_medical_ones():
    words = stop_words()
    assert all(word == word.lower() and word.isalpha() for word in words)
    assert {"with", "were", "associated", "significant"} <= words
    assert not {"patients", "treatment", "pain", "renal"} & words


def test_the_rule_goes_by_steps_at_multiples_of_its_number() -> None:
    word = "qwertyword"  # in no vocabulary

    def is_known(n: int, times: int) -> bool:
        return word in noise_lexicon([((word,) if i < times else ("x",), ("O",)) for i in range(n)])

    assert [is_known(ONE_IN, 1), is_known(ONE_IN + 1, 1)] == [True, False]
    assert [is_known(2 * ONE_IN, 2), is_known(2 * ONE_IN + 1, 2)] == [True, False]
    page = (Path(__file__).parents[3] / "docs" / "noise.md").read_text("utf-8")
    assert f"up to {ONE_IN:,} sentences, from {ONE_IN + 1:,} on" in page
