"""Entities replaced by other names; perturbations of pairs and of questions."""

from __future__ import annotations

import pytest

from medstress.attacks.noise import Abbreviation, CaseNoise, NoiseResources, SwapNoise, Synonym
from medstress.attacks.noise.texts import labels_of, perturb_pair, perturb_question
from medstress.core.errors import UsageError
from medstress.core.items import Mention, Question
from medstress.core.seeding import rng_for
from medstress.core.sentences import SentencePair, TaggedText

NAMES = {"heart attack": (("myocardial", "infarction"), ("mi",))}
RNG = rng_for(0, "x", "d", "1")


def resources(kind, **others):
    return NoiseResources(replacements={kind.table: NAMES}, **others)


def test_a_mention_is_replaced_everywhere_by_one_name_and_others_stay():
    item = TaggedText(
        id="1",
        tokens=("Heart", "Attack", "or", "gout", "?", "Heart", "attack"),
        labels=("B-D", "I-D", "O", "B-D", "O", "B-D", "I-D"),
    )
    found = Synonym().perturb(item, RNG, resources(Synonym()))
    assert found.tokens == (
        *("myocardial", "infarction", "or", "gout", "?", "myocardial", "infarction"),
    )
    assert found.labels == item.labels


def test_words_outside_entities_are_never_replaced():
    item = TaggedText(id="1", tokens=("heart", "attack"), labels=("O", "O"))
    assert Synonym().perturb(item, RNG, resources(Synonym())).edits == ()


def test_drawn_names_differ_between_occurrences():
    kind = Synonym(choice="drawn")
    item = TaggedText(id="1", tokens=("heart", "attack") * 12, labels=("B-D", "I-D") * 12)
    found = kind.perturb(item, rng_for(0, "x", "d", "1"), resources(kind)).tokens
    assert {"mi", "myocardial"} <= set(found)
    assert (Synonym().deterministic, kind.deterministic) == (True, False)


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
def test_wrong_parameters_are_refused_in_one_sentence(make, where, said):
    with pytest.raises(UsageError) as caught:
        make()
    said(str(caught.value), where)


def pair(a="A  heart attack, then.", b="A heart attack."):
    return SentencePair(id="p", text_a=a, text_b=b, score=2.0)


def test_one_text_of_a_pair_changes_and_its_spacing_stays():
    kind = Synonym()
    found = {"A  heart attack, then.": ((3, 15, "diseases"),)}
    new = perturb_pair(pair(), kind, RNG, resources(kind, mentions=found))
    assert new.texts["text_a"] == "A  myocardial infarction, then."
    assert (new.texts["text_b"], new.item) == (pair().text_b, pair())
    assert [(e.field, e.start, e.end) for e in new.edits] == [("text_a", 3, 15)]


def test_the_second_or_a_random_text_can_be_the_one(said):
    noise = CaseNoise(scope="all", to="upper")
    nothing = NoiseResources()
    new = perturb_pair(pair(), noise, RNG, nothing, "second")
    assert (new.texts["text_a"], new.texts["text_b"]) == (pair().text_a, "A HEART ATTACK.")
    sides = {
        perturb_pair(pair(), noise, rng_for(seed, "x", "d", "p"), nothing, "random").edits[0].field
        for seed in range(20)
    }
    assert sides == {"text_a", "text_b"}
    with pytest.raises(UsageError) as caught:
        perturb_pair(pair(), noise, RNG, nothing, "secnd")  # type: ignore[arg-type]
    said(str(caught.value), "side", "'second'")


def test_a_vignette_is_perturbed_and_the_options_stay():
    item = Question(
        id="q",
        context="He had a heart attack.",
        stem="Treat the heart attack how?",
        options=("rest", "aspirin"),
        key="B",
        mentions=(
            Mention(field="context", start=9, end=21, type="T047"),
            Mention(field="question", start=33, end=45, type="T047"),
            Mention(field="B", start=0, end=7, type="T109"),
        ),
    )
    found = perturb_question(item, Synonym(), RNG, resources(Synonym()))
    assert found.context == "He had a myocardial infarction."
    assert found.stem == "Treat the myocardial infarction how?"
    assert found.options == item.options


def test_a_text_without_a_word_is_left_alone():
    new = perturb_pair(pair(a="..."), SwapNoise(scope="all"), RNG, NoiseResources())
    assert (new.texts["text_a"], new.edits) == ("...", ())


def test_of_overlapping_entities_the_first_and_longest_wins():
    spans = [(0, 3), (4, 8), (9, 12)]
    assert labels_of(spans, [(4, 8, "B"), (0, 8, "A"), (9, 12, "C")]) == ("B-A", "I-A", "B-C")
