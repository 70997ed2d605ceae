"""Noise: what is recovered of the published data, which words change, labels that follow."""

from __future__ import annotations

from functools import partial

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
from medstress.core.hashing import rng_for
from medstress.core.sentences import SentencePair, TaggedText
from medstress.core.text import tokenise
from medstress.entities.names import folded
from medstress.experiment.groups import free_group, names_put_into, noise_resources, other_names_in

words = st.text("abcdefghijklmnopqrstuvwxyzABC01-", min_size=1, max_size=12)
draws = st.floats(0, 1, exclude_max=True)
rows = st.lists(st.tuples(draws, draws), min_size=1, max_size=4)


def sentence(*tokens, labels=None):
    return TaggedText(id="s1", tokens=tokens, labels=labels or ("O",) * len(tokens))


def perturbed(noise, item, seed=0, lexicon=(), **resources):
    """The whole copy: a candidate."""
    if resources or not isinstance(lexicon, NoiseResources):
        lexicon = NoiseResources(lexicon=frozenset(lexicon), **resources)
    return item.candidate(noise.edits(item, rng_for(seed, noise.stream, "d", item.id), lexicon))


# -- letters
@given(words.filter(lambda word: len(word) >= 4), rows)
def test_a_swap_exchanges_two_inner_neighbours(word, given):
    swapped = SwapNoise().edit(word, given)
    assert (swapped[0], swapped[-1], sorted(swapped)) == (word[0], word[-1], sorted(word))
    at, _ = given[0]
    i = 1 + int(at * (len(word) - 3))
    assert 1 <= i <= len(word) - 3
    assert SwapNoise().edit(word, given[:1]) == word[:i] + word[i + 1] + word[i] + word[i + 2 :]


def test_equal_neighbours_are_not_drawn_again():
    noise, word = SwapNoise(scope="all"), sentence("blood")
    n_kept = sum(perturbed(noise, word, seed).tokens == ("blood",) for seed in range(1000))
    # Of two places one holds "oo": the share is one half, and 1000 draws miss it by 5 s.d. of
    # .016 once in a million.
    assert 420 < n_kept < 580


@given(words.filter(lambda word: len(word) >= 2), draws, draws)
def test_a_key_slips_to_a_neighbour_and_only_lower_case_letters_slip(word, at, which):
    slipped = KeyboardNoise().edit(word, [(at, which)])
    i = int(at * len(word))
    if word[i] in NEIGHBOURS:
        assert slipped[i] in NEIGHBOURS[word[i]]
        assert (slipped[:i], slipped[i + 1 :]) == (word[:i], word[i + 1 :])
    else:
        assert slipped == word


def test_numbers_stay_and_doses_in_one_word_change():
    item = sentence("the", "2024", "250mg", "10")
    kinds = (SwapNoise, KeyboardNoise, CaseNoise, OcrNoise)
    copies = [
        perturbed(kind(scope="all"), item, seed).tokens for kind in kinds for seed in range(40)
    ]
    assert {(tokens[1], tokens[3]) for tokens in copies} == {("2024", "10")}
    assert {"205mg", "25m0g"} <= {tokens[2] for tokens in copies}


@given(words.filter(lambda word: any(map(str.isalpha, word))), rows)
def test_case_noise_keeps_the_letters(word, given):
    assert CaseNoise().edit(word, given).lower() == word.lower()
    assert CaseNoise(to="letter").edit("2-Furan", [(0.0, 0.0)]) == "2-furan"


def test_ocr_takes_characters_for_what_looks_like_them():
    noise = OcrNoise()
    readings = {noise.edit("burn", [(at / 20, 0.0)]) for at in range(20)}
    assert "bum" in readings
    assert "burn" not in readings
    assert noise.edit("jjj", [(0.5, 0.0)]) == "jjj"


# -- which words, and how many
def test_scopes_say_which_words_are_perturbed():
    item = sentence("give", "Some", "warfarin", "some", labels=("O", "O", "B-Chemical", "O"))
    upper = {
        scope: " ".join(perturbed(CaseNoise(to="upper", scope=scope), item, 0, ["some"]).tokens)
        for scope in ("lexicon", "entities", "all")
    }
    assert upper == {
        "lexicon": "give SOME warfarin SOME",
        "entities": "give Some WARFARIN some",
        "all": "GIVE SOME WARFARIN SOME",
    }


@given(st.integers(0, 1000))
def test_a_lower_rate_makes_a_part_of_the_same_edits(seed):
    item = sentence(*["hypertension", "clonidine", "patients"] * 5)
    whole = perturbed(SwapNoise(scope="all"), item, seed).edits
    half = perturbed(SwapNoise(scope="all", rate=0.5), item, seed).edits
    assert set(half) <= set(whole)


ITEM = TaggedText(
    id="1",
    tokens=("Patients", "took", "aspirin", "without", "bleeding", "and", "Aspirin", "helped"),
    labels=("O", "O", "B-Chemical", "O", "O", "O", "O", "O"),
)


def changed(noise, base, item=ITEM):
    """The words that are changed with some seed."""
    resources = noise_resources([item], [noise], base)
    return {
        edit.start for seed in range(20) for edit in perturbed(noise, item, seed, resources).edits
    }


def test_words_of_a_list_and_of_recognised_mentions_are_perturbed_wherever_they_stand(tmp_path):
    (tmp_path / "mine.txt").write_text("Patients\nhelped\n\nblood-pressure\n")
    assert changed(SwapNoise(scope="words", words="mine.txt"), tmp_path) == {0, 7}
    recognised = KeyboardNoise(scope="recognised")
    assert recognised.recogniser == "gazetteer"
    places = changed(recognised, tmp_path)
    assert {2, 6} <= places  # the second aspirin is no gold entity
    assert not places & {0, 1, 3}


@pytest.mark.parametrize("cut", [True, False], ids=["BC5CDR's tokens", "whole tokens"])
def test_words_with_a_hyphen_and_words_in_a_row_are_compared_as_a_whole(tmp_path, cut):
    text = "Beta-blocker therapy with beta blocker for heart failure , not failure of the heart"
    tokens = tokenise(text) if cut else tuple(text.split())
    item = TaggedText(id="1", tokens=tokens, labels=("O",) * len(tokens))
    (tmp_path / "mine.txt").write_text("beta-blocker\nheart failure\ntherap\n")
    noise = SwapNoise(scope="words", words="mine.txt")
    resources = noise_resources([item], [noise], tmp_path)
    assert resources.absent == ()
    (text_words,) = item.words({})
    places = list(noise.in_scope(text_words, resources))
    whole = ["Beta", "-", "blocker"] if cut else ["Beta-blocker"]
    assert [tokens[n] for n in places] == [*whole, "heart", "failure"]
    assert places[: len(whole)] == list(range(len(whole)))
    assert tokens[places[-1] + 1] == ","
    assert changed(noise, tmp_path, item) == {n for n in places if tokens[n] != "-"}


def test_a_list_that_is_no_use_is_refused_or_said(tmp_path):
    noise = SwapNoise(scope="words", words="mine.txt")
    with pytest.raises(UsageError, match="no such file"):
        noise_resources([ITEM], [noise], tmp_path)
    (tmp_path / "mine.txt").write_text("1\n2\n")
    with pytest.raises(UsageError, match="no word with a letter"):
        noise_resources([ITEM], [noise], tmp_path)
    (tmp_path / "mine.txt").write_text("took aspirin twice\nbleed\n")
    (part,) = free_group([noise], noise_resources([ITEM], [noise], tmp_path))
    (remark,) = part.remarks
    assert "words mine.txt" in remark
    assert part.describe()["undefined"] == remark  # the summary's warnings
    (tmp_path / "mine.txt").write_text("took aspirin\n")
    (part,) = free_group([noise], noise_resources([ITEM], [noise], tmp_path))
    assert part.describe()["undefined"] is None


def test_what_the_papers_words_mean_for_defaults():
    noise = SwapNoise(choices="as_published")
    assert (noise.scope, noise.recogniser) == ("recognised", "en_core_sci_sm")
    assert SwapNoise(choices="as_published", scope="all").scope == "all"
    assert "choices" not in noise.spec()
    assert Synonym().mode == "strict"
    for choices in ("as_published", "as_released"):
        assert Synonym(choices=choices).mode == "related"
        assert Synonym(choices=choices, mode="strict").mode == "strict"


@pytest.mark.parametrize(
    ("kind", "keys", "where"),
    [
        (SwapNoise, {"scope": "entity"}, "swap_noise: scope"),
        (KeyboardNoise, {"rate": 1.5}, "keyboard_noise: rate"),
        (SwapNoise, {"edits_per_word": 0}, "edits_per_word"),
        (CaseNoise, {"to": "uper"}, "case_noise: to"),
        (NonEntityNoise, {"of": {"name": "synonim"}}, "of: expected name = one of swap_noise"),
        (NonEntityNoise, {"of": {"name": "synonym", "rate": 0.5}}, "synonym: unknown key 'rate'"),
        (NonEntityNoise, {"rate": 0.5, "of": {"name": "synonym"}}, "belong to what it names"),
        (SwapNoise, {"scope": "words"}, 'words = "FILE"'),
        (SwapNoise, {"words": "mine.txt"}, 'scope = "words"'),
        (Synonym, {"mode": "strickt"}, "synonym: mode"),
        (Synonym, {"synonyms": "none"}, "'none'"),
        (Synonym, {"vocabulary": "drugs"}, "vocabulary"),
        (SwapNoise, {"budget": 3}, "budget = 3"),
        (SwapNoise, {"max_change": float("nan")}, "max_change"),
    ],
)
def test_wrong_parameters_are_refused_in_one_sentence(kind, keys, where, said):
    with pytest.raises(UsageError) as caught:
        kind(**keys)
    said(str(caught.value), where)


# -- the control
@given(st.integers(0, 500))
def test_the_control_changes_as_many_words_and_none_in_an_entity(seed):
    tokens = ("clonidine", "reversed", "hypertension", "within", "minutes", "after", "dosing")
    labels = ("B-Chemical", "O", "B-Disease", "O", "O", "O", "O")
    item = sentence(*tokens, labels=labels)
    copy = partial(perturbed, item=item, seed=seed, lexicon=["clonidine", "hypertension"])
    control = copy(NonEntityNoise())
    assert len(control.edits) == len(copy(SwapNoise()).edits)
    assert all(item.labels[edit.start] == "O" for edit in control.edits)
    assert NonEntityNoise().stream == SwapNoise().stream
    # Named by its parameters or in `of`, the control of a noise makes the same edits.
    assert copy(NonEntityNoise(of=SwapNoise().own)).edits == control.edits


@pytest.mark.parametrize(
    "attack",
    [
        SwapNoise(scope="all", rate=0.5, edits_per_word=2),
        SwapNoise(scope="words", words="mine.txt"),
        CaseNoise(to="upper"),
        Synonym(mode="related"),
        HyphenNoise(),
    ],
)
def test_a_control_counts_what_its_noise_changes_and_searches_have_none(attack):
    control = NonEntityNoise(of=attack.own)
    assert control.controls(attack)
    assert control.counted.spec() == attack.spec()
    assert not control.controls(SwapNoise())
    assert not control.controls(type(attack)(**{**keys_of(attack), "search": "greedy"}))
    assert NonEntityNoise(scope="all").controls(SwapNoise(scope="all"))


def keys_of(attack):
    return {key: value for key, value in attack.own.items() if key != "name"}


# -- labels follow, whatever is changed
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
def tagged_texts(draw):
    tokens = draw(st.lists(st.sampled_from(TOKENS), min_size=1, max_size=14))
    labels: list[str] = []
    for _ in tokens:
        choices = ["O", "B-Chemical", "B-Disease"]
        if labels and labels[-1] != "O":
            choices.append(f"I-{labels[-1][2:]}")
        labels.append(draw(st.sampled_from(choices)))
    return TaggedText(id="s", tokens=tuple(tokens), labels=tuple(labels))


@given(tagged_texts(), st.sampled_from(EVERY), st.integers(0, 2**32), st.data())
def test_labels_align_and_any_part_of_the_edits_keeps_every_entity(item, noise, seed, data):
    whole = perturbed(noise, item, seed, RESOURCES)
    assert whole == perturbed(noise, item, seed, RESOURCES)
    part = item.candidate(tuple(edit for edit in whole.edits if data.draw(st.booleans())))
    for copy in (whole, part):
        new = TaggedText(id="s", tokens=copy.tokens, labels=copy.labels)  # legal IOB2, as many
        assert [e.type for e in new.entities] == [e.type for e in item.entities]
        position = old = 0
        for edit in (*copy.edits, None):
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


# -- other names
SAME = {"heart attack": (("myocardial", "infarction"), ("mi",))}


def renamed(kind, item, **resources):
    return perturbed(kind, item, replacements={kind.table: SAME}, **resources)


def test_an_entity_is_replaced_everywhere_by_one_name_and_all_else_stays():
    item = TaggedText(
        id="1",
        tokens=("Heart", "Attack", "or", "gout", "?", "Heart", "attack", "heart", "attack"),
        labels=("B-D", "I-D", "O", "B-D", "O", "B-D", "I-D", "O", "O"),
    )
    copy = renamed(Synonym(), item)
    text = "myocardial infarction or gout ? myocardial infarction heart attack"
    assert (" ".join(copy.tokens), copy.labels) == (text, item.labels)


# -- pairs
def pair(a="A  heart attack, then.", b="A heart attack."):
    return SentencePair(id="p", text_a=a, text_b=b, score=2.0)


def test_one_text_of_a_pair_changes_and_its_spacing_stays():
    mentions = {"A  heart attack, then.": ((3, 15, "diseases"),)}
    new = renamed(Synonym(), pair(), mentions=mentions)
    assert new.texts == {"text_a": "A  myocardial infarction, then.", "text_b": pair().text_b}
    assert [(e.field, e.start, e.end) for e in new.edits] == [("text_a", 3, 15)]


def test_the_second_or_a_random_text_can_be_the_one():
    new = perturbed(CaseNoise(scope="all", to="upper", side="second"), pair())
    assert new.texts == {"text_a": pair().text_a, "text_b": "A HEART ATTACK."}
    drawn = CaseNoise(scope="all", to="upper", side="random")
    sides = {perturbed(drawn, pair(), seed).edits[0].field for seed in range(20)}
    assert sides == {"text_a", "text_b"}
    assert perturbed(SwapNoise(scope="all"), pair(a="...")).edits == ()


def of_document(name, tokens, labels, document):
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
