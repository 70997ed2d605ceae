"""Which words noise changes: lists of the user's, recognised words, and what `choices` makes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from medstress.attacks.noise import KeyboardNoise, SwapNoise, Synonym
from medstress.attacks.noise_control import NonEntityNoise, control_of, is_control_of
from medstress.core.errors import UsageError
from medstress.core.seeding import rng_for
from medstress.core.sentences import TaggedText
from medstress.core.text import tokenise
from medstress.experiment.plan.noise_resources import noise_resources
from medstress.experiment.plan.parts import SentenceGroupPart

ITEM = TaggedText(
    id="1",
    tokens=("Patients", "took", "aspirin", "without", "bleeding", "and", "Aspirin", "helped"),
    labels=("O", "O", "B-Chemical", "O", "O", "O", "O", "O"),
)


def changed(noise: Any, base: Path) -> set[str]:
    """The words that are changed with some seed."""
    resources = noise_resources([ITEM], [noise], base)
    found = set()
    for seed in range(20):
        for edit in noise.edits(ITEM, rng_for(seed, "x", "y", "z", 0), resources):
            found |= {token.lower() for token in ITEM.tokens[edit.start : edit.end]}
    return found


def test_a_users_list_is_perturbed_wherever_its_words_stand(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("Patients\nhelped\n\nblood-pressure\n")
    noise = SwapNoise(scope="words", words="mine.txt")
    assert changed(noise, tmp_path) == {"patients", "helped"}
    assert "words" in noise.spec()


def test_recognised_words_are_those_of_mentions_also_outside_gold_entities(tmp_path: Path) -> None:
    noise = KeyboardNoise(scope="recognised")
    assert noise.recogniser == "gazetteer"
    assert changed(noise, tmp_path) >= {"aspirin"}
    assert not changed(noise, tmp_path) & {"patients", "without", "took"}
    resources = noise_resources([ITEM], [noise], tmp_path)
    (edited,) = {
        edit.start
        for seed in range(20)
        for edit in noise.edits(ITEM, rng_for(seed, "x", "y", "z", 0), resources)
        if ITEM.tokens[edit.start] == "Aspirin"
    }
    assert ITEM.labels[edited] == "O"


def test_as_published_the_words_are_those_that_a_pipeline_recognises() -> None:
    noise = SwapNoise(choices="as_published")
    assert (noise.scope, noise.recogniser) == ("recognised", "en_core_sci_sm")
    assert SwapNoise(choices="as_published", scope="all").scope == "all"
    assert "choices" not in noise.spec()


def test_as_published_synonyms_are_related_and_else_strict(said) -> None:
    assert Synonym().mode == Synonym(choices="default").mode == "strict"
    for choices in ("as_published", "as_released"):
        made = Synonym(choices=choices)
        assert (made.mode, made.embedding) == ("related", "ngram")
    assert Synonym(choices="as_published", mode="strict").mode == "strict"
    with pytest.raises(UsageError) as caught:
        Synonym(choices="published")
    said(str(caught.value), "choices", "'published'")


@pytest.mark.parametrize(
    "kind",
    [
        SwapNoise(scope="words", words="mine.txt"),
        SwapNoise(scope="recognised"),
        Synonym(mode="related"),
    ],
)
def test_the_control_counts_what_the_noise_changes_with_its_words(kind: Any) -> None:
    parameters = control_of(kind.spec())
    assert parameters is not None
    control = NonEntityNoise(**parameters)
    assert is_control_of(control.spec(), kind.spec())
    assert control.counted.spec() == kind.spec()


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"scope": "words"}, 'add words = "FILE"'),
        ({"words": "mine.txt"}, 'with scope = "words"'),
        ({"recogniser": "gazetteer"}, 'with scope = "recognised"'),
        ({"scope": "recognised", "recogniser": ""}, "recogniser"),
    ],
)
def test_keys_that_do_not_go_together_are_refused(keys: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        SwapNoise(**keys)


def test_a_list_without_words_or_a_missing_one_is_refused(tmp_path: Path, said) -> None:
    (tmp_path / "none.txt").write_text("1\n2\n")
    with pytest.raises(UsageError) as caught:
        noise_resources([ITEM], [SwapNoise(scope="words", words="none.txt")], tmp_path)
    said(str(caught.value))
    with pytest.raises(UsageError, match="no such file"):
        noise_resources([ITEM], [SwapNoise(scope="words", words="gone.txt")], tmp_path)


@pytest.mark.parametrize("cut", [True, False], ids=["BC5CDR's tokens", "whole tokens"])
def test_words_with_a_hyphen_and_words_in_a_row_are_compared_as_a_whole(
    tmp_path: Path, cut: bool
) -> None:
    text = "Beta-blocker therapy with beta blocker for heart failure , not failure of the heart"
    tokens = tokenise(text) if cut else tuple(text.split())
    item = TaggedText(id="1", tokens=tokens, labels=("O",) * len(tokens))
    (tmp_path / "mine.txt").write_text("beta-blocker\nheart failure\ntherap\n")
    noise = SwapNoise(scope="words", words="mine.txt")
    resources = noise_resources([item], [noise], tmp_path)
    assert resources.absent == ()
    (words,) = item.words({})
    places = noise.in_scope(words, resources)
    whole = ["Beta", "-", "blocker"] if cut else ["Beta-blocker"]
    assert [tokens[n] for n in places] == [*whole, "heart", "failure"]
    assert list(places[: len(whole)]) == list(range(len(whole)))
    assert tokens[places[-1] + 1] == ","
    changed_ = {
        edit.start
        for seed in range(20)
        for edit in noise.edits(item, rng_for(seed, "x", "y", "z", 0), resources)
    }
    assert changed_ == {n for n in places if tokens[n] != "-"}


def test_a_list_of_which_nothing_stands_in_the_data_is_said(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("took aspirin twice\nbleed\n")
    noise = SwapNoise(scope="words", words="mine.txt")
    resources = noise_resources([ITEM], [noise], tmp_path)
    part = SentenceGroupPart(resources=resources)
    assert part.remark is not None
    assert "none of the words of words mine.txt occurs in the data" in part.remark
    assert part.describe()["undefined"] == part.remark  # the summary's warnings
    (tmp_path / "mine.txt").write_text("took aspirin\n")
    part = SentenceGroupPart(resources=noise_resources([ITEM], [noise], tmp_path))
    assert part.remark is None
    assert "undefined" not in part.describe()
