"""Noise on questions: which text changes, which words of it, and what is not attacked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medstress.attacks.noise import NoiseResources, noise_of
from medstress.attacks.protocol import make_attack
from medstress.attacks.set_search import importance
from medstress.core.items import Mention, Question
from medstress.core.outcomes import Outcome, Prediction, Untargeted
from medstress.core.resources import Resources
from medstress.core.seeding import rng_for
from medstress.core.text import Edit
from medstress.entities.groups import NoNames
from medstress.experiment.plan.noise_resources import mentions_in, noise_resources, other_names_in
from medstress.testing import tiny_questions

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


def made(**keys: Any) -> Any:
    return make_attack(keys.pop("name"), keys)


def texts(attack: Any, item: Question = ITEM, noise: NoiseResources | None = None) -> Any:
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
def test_one_field_is_perturbed_and_the_others_stay(field: str, changed: set[str]) -> None:
    new = texts(made(**UPPER, field=field))
    names = ("context", "stem", "passage", "options")
    assert {name for name in names if getattr(new, name) != getattr(ITEM, name)} == changed
    shown = {"options": ("A",), "question": ("context", "stem")}.get(field, (field,))
    assert {edit.field for edit in new.edits} == set(shown)


def test_the_words_of_the_right_answer_stay_and_nothing_else_changes() -> None:
    new = texts(made(**UPPER, field="options"))
    assert new.options == ("REST", "aspirin")
    assert [(edit.field, edit.replacement) for edit in new.edits] == [("A", "REST")]
    draws = [
        texts(made(name="keyboard_noise", scope="all", field="options"), i)
        for i in (ITEM, replace(ITEM, key="A"))
    ]
    assert draws[0].options[1] == "aspirin" != draws[1].options[1]


def test_an_edit_that_would_make_two_options_equal_is_not_made() -> None:
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

    def attacked(self, tmp_path: Path, key: str, **keys: Any) -> tuple[str, ...]:
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

    def test_wrong_options_get_their_other_names(self, tmp_path: Path) -> None:
        options = self.attacked(tmp_path, "D")
        assert options == ("acetaminophen", "brufenal", "Naproxen", "Rest")

    def test_the_right_answer_stays(self, tmp_path: Path) -> None:
        assert self.attacked(tmp_path, "A")[0] == "Paracetamol"
        assert self.attacked(tmp_path, "B")[1] == "Ibuprofen"

    def test_no_option_comes_to_mean_what_another_means(self, tmp_path: Path) -> None:
        # By the table naproxen is paracetamol, and paracetamol is the right answer.
        assert self.attacked(tmp_path, "A")[2] == "Naproxen"
        (tmp_path / "vocabulary.txt").write_text("naproxenol\nacetaminophenol\nibuprofenum\n")
        related = self.attacked(tmp_path, "A", mode="related", vocabulary="vocabulary.txt")
        assert related[0] == "Paracetamol"


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("question", "He had a myocardial infarction. Treat the myocardial infarction how?"),
        ("stem", "He had a heart attack. Treat the myocardial infarction how?"),
    ],
)
def test_synonyms_replace_mentions_of_the_field_and_of_the_question(field: str, text: str) -> None:
    new = texts(made(name="synonym", field=field))
    assert f"{new.context} {new.stem}" == text


def test_synonyms_replace_mentions_of_passage_and_options() -> None:
    # The second mention of the passage, aspirin, is no mention of the item.
    in_passage = texts(made(name="synonym", field="passage"))
    assert in_passage.passage == "A myocardial infarction needs aspirin."
    assert texts(made(name="synonym", field="options"), replace(ITEM, key="A")).options == (
        "rest",
        "acetylsalicylic acid",
    )


def test_entities_are_found_in_a_field_without_mentions() -> None:
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
def test_every_scope_finds_its_words_in_a_passage(scope: str, tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("aspirin\n")
    keys = {"words": "list.txt"} if scope == "words" else {}
    attack = made(name="case_noise", to="upper", scope=scope, field="passage", **keys)
    plain = Question(
        id="q", passage="With aspirin.", stem="Which?", options=("rest", "sleep"), key="A"
    )
    noise = noise_resources([plain], [attack], tmp_path)
    assert texts(attack, plain, noise).passage == "With ASPIRIN."


def test_the_lexicon_counts_sentences_and_no_options() -> None:
    attack = made(name="swap_noise", field="options")
    item = Question(id="q", stem="Zyxel?", options=("qwopt", "asdfg"), key="A")
    lexicon = noise_resources([item], [attack], Path()).lexicon
    assert "zyxel" in lexicon
    assert lexicon.isdisjoint({"qwopt", "asdfg"})


@pytest.mark.parametrize(("field", "n"), [("question", 2), ("passage", 1), ("options", 0)])
def test_mentions_are_counted_in_the_field_that_an_attack_changes(field: str, n: int) -> None:
    attack = made(name="synonym", field=field)
    noise = NoiseResources(replacements={attack.table: NAMES})
    assert len(list(other_names_in([ITEM], attack, noise))) == n
    assert mentions_in([ITEM], noise) == {"heart attack", "aspirin"}
    words = [words.tokens for words in ITEM.words({})]
    assert [tokens[0] for tokens in words] == ["A", "He", "Treat"]


def test_a_field_without_text_is_an_obstacle() -> None:
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


def test_a_question_is_attacked_like_every_question() -> None:
    attack = made(name="swap_noise")
    assert (attack.goal_for(ITEM), attack.asks_copy_of(ITEM)) == (Untargeted(), False)
    assert attack.is_copy
    assert "names" not in attack.needs
    # The default field is no part of labels.
    fields = [
        made(name="swap_noise", **keys).label_parameters()["field"]
        for keys in ({}, {"field": "stem"})
    ]
    assert fields == [None, "stem"]


def test_noise_without_its_resources_is_a_defect() -> None:
    bare = Resources(group="all", types=frozenset(), perturbations=NoNames())
    assert noise_of(bare) is None
    with pytest.raises(ValueError, match="NoiseResources"):
        made(name="swap_noise").edits(ITEM, rng_for(0, "x", "d", "q"), bare)


def test_a_greedy_search_ranks_edits_by_the_score_of_the_key() -> None:
    item = tiny_questions(2)[1]
    assert item.key == "B"
    clean = Prediction(outcome=Outcome.RIGHT, answer="B", scores=(-2.0, -0.5, -3.0, -3.0))
    other = Prediction(outcome=Outcome.RIGHT, answer="B", scores=(-2.0, -1.25, -3.0, -3.0))
    edit = Edit(field="stem", start=0, end=1, replacement="x")
    assert importance(clean, other, edit, 1) == 0.75
    assert importance(clean, other, edit) == 0
