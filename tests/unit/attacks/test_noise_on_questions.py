"""Noise on questions: which text changes, which words of it, and what is not attacked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from medstress.attacks.noise import NoiseResources
from medstress.attacks.protocol import make_attack
from medstress.core.hashing import rng_for
from medstress.core.items import Mention, Question
from medstress.experiment.groups import noise_resources

ITEM = Question(
    id="q",
    context="He had a heart attack.",
    passage="A heart attack needs aspirin.",
    stem="Treat the heart attack how?",
    options=("rest", "aspirin"),
    key="B",
    mentions=(
        Mention(field="context", start=9, end=21, type="T047"),
        Mention(field="passage", start=2, end=14, type="T047"),
        Mention(field="question", start=33, end=45, type="T047"),
        Mention(field="B", start=0, end=7, type="T109"),
    ),
)
NAMES = {"heart attack": (("myocardial", "infarction"),), "aspirin": (("acetylsalicylic", "acid"),)}
UPPER = {"name": "case_noise", "to": "upper", "scope": "all"}


def made(**keys):
    return make_attack(keys.pop("name"), keys)


def texts(attack, item=ITEM, noise=None):
    found = noise or NoiseResources(replacements={getattr(attack, "table", ""): NAMES})
    return item.candidate(attack.edits(item, rng_for(0, "x", "d", item.id), found))


@pytest.mark.parametrize(
    ("field", "changed"),
    [
        ("question", {"context", "stem"}),
        ("stem", {"stem"}),
        ("context", {"context"}),
        ("passage", {"passage"}),
        ("options", {"options"}),
    ],
)
def test_one_field_is_perturbed_and_the_others_stay(field, changed):
    new = texts(made(**UPPER, field=field))
    names = ("context", "stem", "passage", "options")
    assert {name for name in names if getattr(new, name) != getattr(ITEM, name)} == changed
    shown = {"options": ("A",), "question": ("context", "stem")}.get(field, (field,))
    assert {edit.field for edit in new.edits} == set(shown)


def test_the_words_of_the_right_answer_stay_and_nothing_else_changes():
    new = texts(made(**UPPER, field="options"))
    assert new.options == ("REST", "aspirin")
    assert [(edit.field, edit.replacement) for edit in new.edits] == [("A", "REST")]
    draws = [
        texts(made(name="keyboard_noise", scope="all", field="options"), i)
        for i in (ITEM, replace(ITEM, key="A"))
    ]
    assert draws[0].options[1] == "aspirin" != draws[1].options[1]


def test_an_edit_that_would_make_two_options_equal_is_not_made():
    item = Question(id="q", stem="Which?", options=("Iron", "IRON", "zinc"), key="A")
    assert texts(made(**UPPER, field="options"), item).options == ("Iron", "IRON", "ZINC")
    twins = Question(id="q", stem="Which?", options=("Zinc", "Iron", "iron", "iRON"), key="A")
    assert texts(made(**UPPER, field="options"), twins).options == ("Zinc", "IRON", "iron", "iRON")


class TestAnAlwaysRightVictim:
    """It picks the option that names the right thing, and loses no question to synonyms."""

    NAMES = (
        "concept,name\n1,paracetamol\n1,acetaminophen\n2,ibuprofen\n2,brufenal\n3,gout\n3,podagra\n"
    )
    NAMES += "4,naproxen\n4,paracetamol\n"  # a table may be wrong, and say that two things are one

    def attacked(self, tmp_path, key, **keys):
        (tmp_path / "names.csv").write_text(self.NAMES)
        options = ("Paracetamol", "Ibuprofen", "Naproxen", "Rest")
        item = Question(
            id="q",
            stem="What helps?",
            options=options,
            key=key,
            mentions=tuple(
                Mention(field=letter, start=0, end=len(text), type="T121")
                for letter, text in zip("ABC", options, strict=False)
            ),
        )
        attack = made(name="synonym", field="options", synonyms="names.csv", **keys)
        return texts(attack, item, noise_resources([item], [attack], tmp_path)).options

    def test_wrong_options_get_their_other_names(self, tmp_path):
        options = self.attacked(tmp_path, "D")
        assert options == ("acetaminophen", "brufenal", "Naproxen", "Rest")

    def test_the_right_answer_stays(self, tmp_path):
        assert self.attacked(tmp_path, "A")[0] == "Paracetamol"
        assert self.attacked(tmp_path, "B")[1] == "Ibuprofen"

    def test_no_option_comes_to_mean_what_another_means(self, tmp_path):
        # By the table naproxen is paracetamol, and paracetamol is the right answer.
        assert self.attacked(tmp_path, "A")[2] == "Naproxen"
        (tmp_path / "vocabulary.txt").write_text("naproxenol\nacetaminophenol\nibuprofenum\n")
        related = self.attacked(tmp_path, "A", mode="related", vocabulary="vocabulary.txt")
        assert related[0] == "Paracetamol"

    @pytest.mark.parametrize("right", ["Stop brufenal 5 mg daily", "Give ibuprofen at night"])
    def test_no_option_comes_to_name_a_thing_inside_another(self, tmp_path, right):
        # In the second a mention that noise itself found is of the concept of the new name.
        (tmp_path / "names.csv").write_text(self.NAMES.replace("ibuprofen", "Ibuprofen"))
        item = Question(id="q", stem="What helps?", options=(right, "Ibuprofen"), key="A")
        attack = made(name="synonym", field="options", synonyms="names.csv")
        noise = noise_resources([item], [attack], tmp_path)
        found = ((5, 14, "T121"),) if "ibuprofen" in right else ()
        marked = {right: found, "Ibuprofen": ((0, 9, "T121"),)}
        assert texts(attack, item, replace(noise, mentions=marked)).options == item.options

    def test_no_two_new_names_mean_the_same(self, tmp_path, monkeypatch):
        # Each name alone is new to the others; a third concept of the table has both.
        third = "5,acetaminophen\n5,brufenal\n"
        monkeypatch.setattr(type(self), "NAMES", self.NAMES + third)
        options = self.attacked(tmp_path, "D")
        assert options == ("acetaminophen", "Ibuprofen", "Naproxen", "Rest")


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("question", "He had a myocardial infarction. Treat the myocardial infarction how?"),
        ("stem", "He had a heart attack. Treat the myocardial infarction how?"),
    ],
)
def test_synonyms_replace_mentions_of_the_field_and_of_the_question(field, text):
    new = texts(made(name="synonym", field=field))
    assert f"{new.context} {new.stem}" == text


def test_entities_are_found_in_a_field_without_mentions():
    plain = Question(
        id="q", passage="Take aspirin.", stem="Which?", options=("ibuprofen", "rest"), key="B"
    )
    attacks = [made(name="swap_noise", scope="entities", field=f) for f in ("passage", "options")]
    noise = noise_resources([plain], attacks, Path())
    assert [edit.field for edit in texts(attacks[0], plain, noise).edits] == ["passage"]
    assert texts(attacks[0], plain, noise).passage.startswith("Take a")
    assert texts(attacks[1], plain, noise).options[1] == "rest"
    assert texts(attacks[1], plain, noise).options[0] != "ibuprofen"
    marks = ITEM.marks()
    assert marks[ITEM.stem] == ((10, 22, "T047"),)
    assert marks["rest"] is None
    labels = [words.labels for words in ITEM.words({"rest": ((0, 4, "x"),)}, "options")]
    assert labels == [("B-x",), ("B-T109",)]


@pytest.mark.parametrize("scope", ["lexicon", "entities", "recognised", "words"])
def test_every_scope_finds_its_words_in_a_passage(scope, tmp_path):
    (tmp_path / "list.txt").write_text("aspirin\n")
    keys = {"words": "list.txt"} if scope == "words" else {}
    attack = made(name="case_noise", to="upper", scope=scope, field="passage", **keys)
    plain = Question(
        id="q", passage="With aspirin.", stem="Which?", options=("rest", "sleep"), key="A"
    )
    noise = noise_resources([plain], [attack], tmp_path)
    assert texts(attack, plain, noise).passage == "With ASPIRIN."


def test_a_field_without_text_is_an_obstacle():
    empty = Question(id="q", stem="Which?", options=("a", "b"), key="A", context=" ")
    found = {
        field: made(**UPPER, field=field).obstacle(empty, NoiseResources())
        for field in ("question", "stem", "context", "passage", "options")
    }
    assert found == {
        "question": None,
        "stem": None,
        "context": "the question has no context",
        "passage": "the question has no passage",
        "options": None,
    }
