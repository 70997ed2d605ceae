"""Noise: what is recovered of the published data, labels that follow, other names."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medstress.attacks.noise import (
    NEIGHBOURS,
    Abbreviation,
    CaseNoise,
    HyphenNoise,
    KeyboardNoise,
    NoiseResources,
    OcrNoise,
    SwapNoise,
    Synonym,
    is_one_unit,
)
from medstress.attacks.noise_control import NonEntityNoise
from medstress.core.errors import UsageError
from medstress.core.items import labels_of
from medstress.core.seeding import rng_for
from medstress.core.sentences import SentencePair, TaggedText
from medstress.entities.names import folded
from medstress.experiment.plan.noise_resources import (
    names_put_into,
    noise_resources,
    other_names_in,
)

words = st.text("abcdefghijklmnopqrstuvwxyzABC01-", min_size=1, max_size=12)
draws = st.floats(0, 1, exclude_max=True)
rows = st.lists(st.tuples(draws, draws), min_size=1, max_size=4)


def sentence(*tokens: str, labels: tuple[str, ...] | None = None) -> TaggedText:
    return TaggedText(id="s1", tokens=tokens, labels=labels or ("O",) * len(tokens))


def perturbed(noise, item, seed=0, lexicon=(), **resources):
    """The whole copy: a candidate."""
    given = NoiseResources(lexicon=frozenset(lexicon), **resources)
    rng = rng_for(seed, noise.stream, "d", item.id)
    return item.candidate(noise.edits(item, rng, given))


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
        (lambda: NonEntityNoise(rate=2), "non_entity_noise: rate"),
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
    found = perturbed(control, item, replacements={Synonym().table: table})
    assert len(found.edits) == 2
    assert all(item.labels[edit.start] == "O" for edit in found.edits)
    assert found.labels == labels
    assert control.spec()["of"] == {"name": "synonym"}
    assert NonEntityNoise().spec()["of"] is None


TOKENS = ("blood", "of", "aspirin", "Salicylic", "acid", "-", "5", "DNA", "burn", "renal", "(", "x")
NAMES = {
    "aspirin": (("acetylsalicylic", "acid"), ("asa",)),
    "salicylic acid": (("sa",),),
    "renal": (("of", "the", "kidney"),),
}
EVERY = [
    *(
        kind(scope=scope, rate=rate, edits_per_word=n)
        for kind in (SwapNoise, KeyboardNoise, CaseNoise, OcrNoise)
        for scope, rate, n in (("lexicon", 1.0, 1), ("entities", 0.5, 1), ("all", 1.0, 3))
    ),
    HyphenNoise(scope="all"),
    HyphenNoise(scope="entities", rate=0.5),
    Synonym(),
    Synonym(choice="drawn"),
    Abbreviation(),
    NonEntityNoise(),
    NonEntityNoise(noise="keyboard_noise", scope="all"),
]
RESOURCES = NoiseResources(
    lexicon=frozenset({"blood", "aspirin", "salicylic", "renal", "of"}),
    replacements={Synonym().table: NAMES, Abbreviation().table: NAMES},
)


@st.composite
def tagged_texts(draw: st.DrawFn) -> TaggedText:
    tokens = draw(st.lists(st.sampled_from(TOKENS), min_size=1, max_size=14))
    labels: list[str] = []
    for _ in tokens:
        choices = ["O", "B-Chemical", "B-Disease"]
        if labels and labels[-1] != "O":
            choices.append(f"I-{labels[-1][2:]}")
        labels.append(draw(st.sampled_from(choices)))
    return TaggedText(id="s", tokens=tuple(tokens), labels=tuple(labels))


def copied(noise, item, seed):
    rng = rng_for(seed, noise.stream, "d", item.id)
    return item.candidate(noise.edits(item, rng, RESOURCES))


@given(tagged_texts(), st.sampled_from(EVERY), st.integers(0, 2**32), st.data())
def test_labels_align_and_any_part_of_the_edits_keeps_every_entity(item, noise, seed, data):
    whole = copied(noise, item, seed)
    assert whole == copied(noise, item, seed)
    part = item.candidate(tuple(edit for edit in whole.edits if data.draw(st.booleans())))
    for found in (whole, part):
        new = TaggedText(id="s", tokens=found.tokens, labels=found.labels)  # legal IOB2, as many
        assert [e.type for e in new.entities] == [e.type for e in item.entities]
        position = old = 0
        for edit in (*found.edits, None):
            end = edit.start if edit else len(item.tokens)
            n = end - old
            assert new.tokens[position : position + n] == item.tokens[old:end]
            assert new.labels[position : position + n] == item.labels[old:end]
            position += n
            if edit:
                assert item.replaced(edit) != edit.replacement
                assert is_one_unit(item.labels[edit.start : edit.end])
                position += len(edit.replacement.split())
                old = edit.end
        assert position == len(new.tokens)


def test_two_entities_side_by_side_are_two_units():
    labels = ("B-Drug", "I-Drug", "B-Drug", "O")
    assert is_one_unit(labels[0:2])
    assert not is_one_unit(labels[1:3])
    assert not is_one_unit(labels[2:4])


SAME = {"heart attack": (("myocardial", "infarction"), ("mi",))}


def renamed(kind, item, **resources):
    return perturbed(kind, item, replacements={kind.table: SAME}, **resources)


def test_a_mention_is_replaced_everywhere_by_one_name_and_others_stay():
    item = TaggedText(
        id="1",
        tokens=("Heart", "Attack", "or", "gout", "?", "Heart", "attack"),
        labels=("B-D", "I-D", "O", "B-D", "O", "B-D", "I-D"),
    )
    found = renamed(Synonym(), item)
    assert found.tokens == (
        *("myocardial", "infarction", "or", "gout", "?", "myocardial", "infarction"),
    )
    assert found.labels == item.labels


def test_words_outside_entities_are_never_replaced():
    item = TaggedText(id="1", tokens=("heart", "attack"), labels=("O", "O"))
    assert renamed(Synonym(), item).edits == ()


def test_drawn_names_differ_between_occurrences():
    kind = Synonym(choice="drawn")
    item = TaggedText(id="1", tokens=("heart", "attack") * 12, labels=("B-D", "I-D") * 12)
    found = renamed(kind, item).tokens
    assert {"mi", "myocardial"} <= set(found)
    assert (Synonym().is_random, kind.is_random) == (False, True)


@pytest.mark.parametrize(
    ("make", "where"),
    [
        (lambda: Synonym(mode="strickt"), "synonym: mode"),
        (lambda: Synonym(choice="any"), "synonym: choice"),
        (lambda: Synonym(synonyms="none"), "'none'"),
        (lambda: Synonym(vocabulary="drugs"), "vocabulary"),
        (lambda: Abbreviation(direction="up"), "direction"),
        (lambda: Abbreviation(synonyms=""), "abbreviation: synonyms"),
    ],
)
def test_wrong_names_are_refused_in_one_sentence(make, where, said):
    with pytest.raises(UsageError) as caught:
        make()
    said(str(caught.value), where)


def pair(a="A  heart attack, then.", b="A heart attack."):
    return SentencePair(id="p", text_a=a, text_b=b, score=2.0)


def test_one_text_of_a_pair_changes_and_its_spacing_stays():
    kind = Synonym()
    found = {"A  heart attack, then.": ((3, 15, "diseases"),)}
    new = renamed(kind, pair(), mentions=found)
    assert new.texts["text_a"] == "A  myocardial infarction, then."
    assert (new.texts["text_b"], new.item) == (pair().text_b, pair())
    assert [(e.field, e.start, e.end) for e in new.edits] == [("text_a", 3, 15)]


def test_the_second_or_a_random_text_can_be_the_one():
    second = CaseNoise(scope="all", to="upper", side="second")
    new = perturbed(second, pair())
    assert new.texts == {"text_a": pair().text_a, "text_b": "A HEART ATTACK."}
    drawn = CaseNoise(scope="all", to="upper", side="random")
    sides = {perturbed(drawn, pair(), seed).edits[0].field for seed in range(20)}
    assert sides == {"text_a", "text_b"}
    plain = SwapNoise(scope="all")
    assert perturbed(plain, pair(a="...")).edits == ()


def test_of_overlapping_entities_the_first_and_longest_wins():
    spans = [(0, 3), (4, 8), (9, 12)]
    assert labels_of(spans, [(4, 8, "B"), (0, 8, "A"), (9, 12, "C")]) == ("B-A", "I-A", "B-C")


def of_document(name: str, tokens: str, labels: str, document: str) -> TaggedText:
    types = {"D": "B-Disease", "d": "I-Disease", "O": "O"}
    return TaggedText(
        id=name,
        tokens=tuple(tokens.split()),
        labels=tuple(types[label] for label in labels),
        metadata={"document": document},
    )


def test_an_acronym_becomes_what_its_own_document_defines(tmp_path):
    (tmp_path / "names.csv").write_text(
        "concept,name\n1,PD\n1,panic disorder\n2,Parkinson disease\n2,shaking palsy\n"
    )
    items = [
        of_document("1", "PD is common", "DOO", "a"),
        of_document("2", "Parkinson Disease ( PD ) is common", "DdODOOO", "a"),
        of_document("3", "PD was rare", "DOO", "b"),  # the same letters, which nothing defines
        of_document("4", "panic disorder ( PD ) was PD", "DdODOOD", "c"),
    ]
    attack = Synonym(synonyms="names.csv")
    noise = noise_resources(items, [attack], tmp_path)
    new = [
        " ".join(item.candidate(attack.edits(item, rng_for(0, "x", "d", "q"), noise)).tokens)
        for item in items
    ]
    assert new == [
        "Parkinson Disease is common",
        "shaking palsy ( PD ) is common",
        "PD was rare",
        "panic disorder ( PD ) was panic disorder",
    ]
    sources = [source for _, source in other_names_in(items, attack, noise)]
    assert sources == ["defined", "listed", *["unchanged"] * 4, "defined"]
    assert names_put_into(items, attack, noise) == {
        *map(folded, ("Parkinson disease", "shaking palsy", "panic disorder"))
    }
