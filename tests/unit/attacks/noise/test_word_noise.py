"""Swap, keyboard, case and OCR noise do what is recovered of the published data."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medstress.attacks.noise import (
    CaseNoise,
    KeyboardNoise,
    NoiseResources,
    NonEntityNoise,
    OcrNoise,
    SwapNoise,
    Synonym,
)
from medstress.attacks.noise.keyboard_noise import NEIGHBOURS
from medstress.core.errors import UsageError
from medstress.core.seeding import rng_for
from medstress.core.sentences import TaggedText

words = st.text("abcdefghijklmnopqrstuvwxyzABC01-", min_size=1, max_size=12)
draws = st.floats(0, 1, exclude_max=True)
rows = st.lists(st.tuples(draws, draws), min_size=1, max_size=4)


def sentence(*tokens: str, labels: tuple[str, ...] | None = None) -> TaggedText:
    return TaggedText(id="s1", tokens=tokens, labels=labels or ("O",) * len(tokens))


def perturbed(noise, item, seed=0, lexicon=()):
    resources = NoiseResources(lexicon=frozenset(lexicon))
    return noise.perturb(item, rng_for(seed, noise.stream, "d", item.id), resources)


@given(words.filter(lambda word: len(word) >= 4), rows)
def test_swap_moves_neither_the_first_nor_the_last_character(word, given):
    found = SwapNoise().edit(word, given)
    assert (found[0], found[-1], sorted(found)) == (word[0], word[-1], sorted(word))


@given(words.filter(lambda word: len(word) >= 4), draws)
def test_one_swap_exchanges_two_inner_neighbours(word, at):
    found = SwapNoise().edit(word, [(at, 0.0)])
    i = 1 + int(at * (len(word) - 3))
    assert 1 <= i <= len(word) - 3
    assert found == word[:i] + word[i + 1] + word[i] + word[i + 2 :]


def test_equal_neighbours_are_not_drawn_again():
    noise, word = SwapNoise(scope="all"), sentence("blood")
    n_kept = sum(perturbed(noise, word, seed).tokens == ("blood",) for seed in range(1000))
    # Of two places one holds "oo": the share is one half, and 1000 draws miss it by 5 s.d. of
    # .016 once in a million.
    assert 420 < n_kept < 580


def test_words_of_three_letters_and_numbers_are_not_swapped():
    assert perturbed(SwapNoise(scope="all"), sentence("the", "2024", "1998")).edits == ()


@given(words.filter(lambda word: len(word) >= 2), draws, draws)
def test_a_key_slips_to_a_neighbour_and_only_lower_case_letters_slip(word, at, which):
    found = KeyboardNoise().edit(word, [(at, which)])
    i = int(at * len(word))
    if word[i] in NEIGHBOURS:
        assert found[i] in NEIGHBOURS[word[i]]
        assert (found[:i], found[i + 1 :]) == (word[:i], word[i + 1 :])
    else:
        assert found == word


def test_slips_fall_on_all_characters_alike_the_first_and_the_last_included():
    noise, word = KeyboardNoise(scope="all"), sentence("hyperten")
    places = Counter()
    for seed in range(1600):
        (token,) = perturbed(noise, word, seed).tokens
        (place,) = [i for i, (a, b) in enumerate(zip(token, "hyperten", strict=True)) if a != b]
        places[place] += 1
    # 200 expected at each of 8 places, standard deviation 13.
    assert all(130 < places[i] < 270 for i in range(8))


def test_every_lower_case_letter_has_neighbours_and_the_map_need_not_be_symmetric():
    assert sorted(NEIGHBOURS) == list("abcdefghijklmnopqrstuvwxyz")
    assert "-" in NEIGHBOURS["p"]
    assert "-" not in NEIGHBOURS
    assert sum(map(len, NEIGHBOURS.values())) == 151
    assert all(letter not in near for letter, near in NEIGHBOURS.items())


def test_every_occurrence_of_a_word_has_its_own_draw():
    item = sentence(*["treatment"] * 30)
    found = perturbed(SwapNoise(), item, lexicon=["treatment"]).tokens
    assert len(set(found)) > 3
    assert all(token[0] == "t" and token[-1] == "t" for token in found)


def test_the_lexicon_is_of_word_types_whatever_their_case_or_label():
    item = sentence("Renal", "with", "renal", labels=("O", "O", "B-Disease"))
    found = perturbed(CaseNoise(to="upper"), item, lexicon=["renal"])
    assert found.tokens == ("RENAL", "with", "RENAL")


def test_scopes_say_which_words_are_perturbed():
    item = sentence("give", "some", "warfarin", "now", labels=("O", "O", "B-Chemical", "O"))
    upper = {
        scope: perturbed(CaseNoise(to="upper", scope=scope), item, lexicon=["some"]).tokens
        for scope in ("lexicon", "entities", "all")
    }
    assert upper == {
        "lexicon": ("give", "SOME", "warfarin", "now"),
        "entities": ("give", "some", "WARFARIN", "now"),
        "all": ("GIVE", "SOME", "WARFARIN", "NOW"),
    }


@given(st.integers(0, 1000))
def test_a_lower_rate_makes_a_part_of_the_same_edits(seed):
    item = sentence(*["hypertension", "clonidine", "patients"] * 5)
    whole = perturbed(SwapNoise(scope="all"), item, seed).edits
    half = perturbed(SwapNoise(scope="all", rate=0.5), item, seed).edits
    assert set(half) <= set(whole)


def test_the_rate_is_the_share_of_words():
    item = sentence(*["clonidine"] * 2000)
    n = len(perturbed(SwapNoise(scope="all", rate=0.3), item).edits)
    assert 500 < n < 700


def test_edits_per_word_are_made_one_after_the_other():
    one = perturbed(KeyboardNoise(scope="all"), sentence("clonidine")).tokens[0]
    three = perturbed(KeyboardNoise(scope="all", edits_per_word=3), sentence("clonidine")).tokens[0]
    assert sum(a != b for a, b in zip(one, "clonidine", strict=True)) == 1
    assert 1 < sum(a != b for a, b in zip(three, "clonidine", strict=True)) <= 3


@given(words.filter(lambda word: any(map(str.isalpha, word))), rows)
def test_case_noise_keeps_the_letters(word, given):
    assert CaseNoise().edit(word, given).lower() == word.lower()


def test_a_slip_of_the_shift_key_changes_one_letter():
    found = CaseNoise(to="letter").edit("2-Furan", [(0.0, 0.0)])
    assert found == "2-furan"


def test_ocr_takes_characters_for_what_looks_like_them():
    noise = OcrNoise()
    readings = {noise.edit("burn", [(at / 20, 0.0)]) for at in range(20)}
    assert "bum" in readings
    assert all(reading != "burn" for reading in readings)
    assert noise.edit("jjj", [(0.5, 0.0)]) == "jjj"


@given(st.integers(0, 500))
def test_the_control_changes_as_many_words_and_none_in_an_entity(seed):
    tokens = ("clonidine", "reversed", "hypertension", "within", "minutes", "after", "dosing")
    labels = ("B-Chemical", "O", "B-Disease", "O", "O", "O", "O")
    item = sentence(*tokens, labels=labels)
    lexicon = ["clonidine", "hypertension", "minutes"]
    attack = perturbed(SwapNoise(), item, seed, lexicon)
    control = perturbed(NonEntityNoise(), item, seed, lexicon)
    assert len(control.edits) == len(attack.edits)
    assert all(item.labels[edit.start] == "O" for edit in control.edits)


def test_the_control_stops_where_no_word_is_left():
    item = sentence("clonidine", "hypertension", labels=("B-Chemical", "B-Disease"))
    assert perturbed(NonEntityNoise(scope="all"), item).edits == ()


@pytest.mark.parametrize(
    ("make", "where"),
    [
        (lambda: SwapNoise(scope="entity"), "swap_noise: scope"),
        (lambda: SwapNoise(rate=0), "swap_noise: rate"),
        (lambda: KeyboardNoise(rate=1.5), "keyboard_noise: rate"),
        (lambda: SwapNoise(edits_per_word=0), "edits_per_word"),
        (lambda: SwapNoise(edits_per_word=True), "edits_per_word"),
        (lambda: CaseNoise(to="uper"), "case_noise: to"),
        (lambda: NonEntityNoise(noise="synonym"), "non_entity_noise: noise"),
        (lambda: NonEntityNoise(rate=2), "swap_noise: rate"),
    ],
)
def test_wrong_parameters_are_refused_in_one_sentence(make, where, said):
    with pytest.raises(UsageError) as caught:
        make()
    said(str(caught.value), where)


def test_the_control_of_synonyms_changes_as_many_words_outside_entities() -> None:
    words = ("patients", "received", "warfarin", "sodium", "without", "relief", "and", "bleeding")
    labels = ("O", "O", "B-Chemical", "I-Chemical", "O", "O", "O", "B-Disease")
    item = TaggedText(id="1", tokens=words, labels=labels)
    control = NonEntityNoise(of={"name": "synonym"})
    table = {"warfarin sodium": (("coumadin",),)}
    resources = NoiseResources(replacements={Synonym().table: table})
    found = control.perturb(item, rng_for(0, control.stream, "d", "1"), resources)
    assert len(found.edits) == 2
    assert all(item.labels[edit.start] == "O" for edit in found.edits)
    assert found.labels == labels
    assert control.spec()["of"] == {"name": "synonym"}
    assert NonEntityNoise().spec()["of"] is None
