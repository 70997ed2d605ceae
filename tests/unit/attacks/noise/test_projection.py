"""Labels follow their tokens, whatever any perturbation does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medstress.attacks.noise import (
    Abbreviation,
    CaseNoise,
    HyphenNoise,
    KeyboardNoise,
    NoiseResources,
    NonEntityNoise,
    OcrNoise,
    SwapNoise,
    Synonym,
    TokenEdit,
    apply_edits,
)
from medstress.attacks.noise.projection import same_unit
from medstress.core.seeding import rng_for
from medstress.core.sentences import TaggedText, entities_of

WORDS = ("blood", "of", "aspirin", "Salicylic", "acid", "-", "5", "DNA", "burn", "renal", "(", "x")
NAMES = {
    "aspirin": (("acetylsalicylic", "acid"), ("asa",)),
    "salicylic acid": (("sa",),),
    "renal": (("of", "the", "kidney"),),
}
PERTURBATIONS = [
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
    tokens = draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=14))
    labels: list[str] = []
    for _ in tokens:
        choices = ["O", "B-Chemical", "B-Disease"]
        if labels and labels[-1] != "O":
            choices.append(f"I-{labels[-1][2:]}")
        labels.append(draw(st.sampled_from(choices)))
    return TaggedText(id="s", tokens=tuple(tokens), labels=tuple(labels))


@given(tagged_texts(), st.sampled_from(PERTURBATIONS), st.integers(0, 2**32))
def test_labels_align_untouched_tokens_keep_theirs_and_entities_are_as_many(
    item, perturbation, seed
):
    found = perturbation.perturb(item, rng_for(seed, perturbation.stream, "d", item.id), RESOURCES)
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
            assert new.tokens[position : position + len(edit.replacement)] == edit.replacement
            assert item.tokens[edit.start : edit.end] != edit.replacement
            position += len(edit.replacement)
            old = edit.end
    assert position == len(new.tokens)


@given(tagged_texts(), st.sampled_from(PERTURBATIONS), st.integers(0, 2**32))
def test_the_same_seed_makes_the_same_edits(item, perturbation, seed):
    first, again = (
        perturbation.perturb(item, rng_for(seed, perturbation.stream, "d", item.id), RESOURCES)
        for _ in range(2)
    )
    assert first == again


@given(tagged_texts(), st.sampled_from(PERTURBATIONS), st.integers(0, 2**32), st.data())
def test_any_part_of_the_edits_is_a_perturbation(item, perturbation, seed, data):
    edits = perturbation.perturb(item, rng_for(seed, "x", "d", "s"), RESOURCES).edits
    part = [edit for edit in edits if data.draw(st.booleans())]
    found = apply_edits(item, part)
    assert len(entities_of(found.labels)) == len(item.entities)
    assert found.edits == tuple(part)


def item(labels: tuple[str, ...]) -> TaggedText:
    return TaggedText(id="s", tokens=tuple("abcd"[: len(labels)]), labels=labels)


def test_new_tokens_in_the_middle_of_an_entity_continue_it():
    found = apply_edits(
        item(("B-Drug", "I-Drug", "I-Drug", "O")),
        [TokenEdit(start=1, end=2, replacement=("x", "y"))],
    )
    assert found.labels == ("B-Drug", "I-Drug", "I-Drug", "I-Drug", "O")


def test_the_next_entity_does_not_join_one_that_shrinks():
    found = apply_edits(
        item(("B-Drug", "I-Drug", "B-Drug")), [TokenEdit(start=0, end=2, replacement=("x",))]
    )
    assert found.labels == ("B-Drug", "B-Drug")


@pytest.mark.parametrize(
    ("start", "end", "replacement", "why"),
    [
        (0, 2, ("x",), "crosses the border"),
        (2, 4, ("x",), "crosses the border"),
        (1, 1, ("x",), "is empty"),
        (3, 5, ("x",), "leaves"),
        (1, 2, (), "puts in no token"),
    ],
)
def test_an_edit_that_would_break_the_labels_is_refused(start, end, replacement, why):
    edit = TokenEdit(start=start, end=end, replacement=replacement)
    with pytest.raises(ValueError, match=why):
        apply_edits(item(("O", "B-Drug", "I-Drug", "B-Drug")), [edit])


def test_overlapping_edits_are_refused():
    edits = [TokenEdit(start=n, end=n + 2, replacement=("x",)) for n in (0, 1)]
    with pytest.raises(ValueError, match="overlaps"):
        apply_edits(item(("O", "O", "O")), edits)


def test_two_entities_side_by_side_are_two_units():
    labels = ("B-Drug", "I-Drug", "B-Drug", "O")
    assert same_unit(item(labels), 0, 2)
    assert not same_unit(item(labels), 1, 3)
    assert not same_unit(item(labels), 2, 4)
