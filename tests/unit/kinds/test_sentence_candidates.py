"""Entities and pairs as candidates: where an entity stands after edits, and what is stored."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medstress.core.sentences import (
    Entity,
    EntityUnit,
    SentencePair,
    TaggedCandidate,
    TaggedText,
    entities_of,
)
from medstress.core.text import Edit
from medstress.store.codec import decode_item, encode_item

TEXT = TaggedText(
    id="s1",
    tokens=("no", "salicylic", "acid", "or", "aspirin", "now"),
    labels=("O", "B-Drug", "I-Drug", "O", "B-Drug", "O"),
    metadata={"document": "7"},
)
PAIR = SentencePair(id="p1", text_a="Aspirin helps", text_b="It does", score=3.0)


@st.composite
def edited(draw: Any) -> tuple[TaggedText, tuple[Edit, ...]]:
    """A sentence, and edits of some of its entities and of single words outside."""
    pieces = draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=6))
    tokens, labels, spans = [], [], []
    for n_outside, n_inside in pieces:
        spans += [(len(tokens) + i, len(tokens) + i + 1) for i in range(n_outside)]
        tokens += ["o"] * n_outside
        labels += ["O"] * n_outside
        if n_inside:
            spans.append((len(tokens), len(tokens) + n_inside))
            tokens += ["e"] * n_inside
            labels += ["B-X", *["I-X"] * (n_inside - 1)]
    if not tokens:
        tokens, labels, spans = ["o"], ["O"], [(0, 1)]
    chosen = draw(st.lists(st.sampled_from(spans), unique=True))
    words = st.lists(st.sampled_from(["a", "bb"]), min_size=1, max_size=4)
    edits = tuple(
        Edit(field="tokens", start=start, end=end, replacement=" ".join(draw(words)))
        for start, end in chosen
    )
    return TaggedText(id="s", tokens=tuple(tokens), labels=tuple(labels)), edits


@given(edited())
def test_entities_stay_as_many_and_each_is_found_where_its_candidate_says(
    case: tuple[TaggedText, tuple[Edit, ...]],
) -> None:
    text, edits = case
    after = [
        TaggedCandidate(item=unit, edits=edits).entity
        for unit in text.units()
        if unit.entity is not None
    ]
    assert after == list(entities_of(TaggedCandidate(item=text.units()[0], edits=edits).labels))


def test_a_sentence_has_a_unit_an_entity_and_without_any_one_for_itself() -> None:
    assert [unit.unit for unit in TEXT.units()] == ["1:3:Drug", "4:5:Drug"]
    empty = TaggedText(id="s2", tokens=("nothing",), labels=("O",))
    assert empty.units() == (EntityUnit(text=empty, entity=None),)
    assert empty.units()[0].unit == "item"
    assert PAIR.units() == (PAIR,)


@pytest.mark.parametrize("item", [*TEXT.units(), PAIR], ids=lambda item: item.unit)
def test_a_stored_item_comes_back_with_its_unit(item: Any) -> None:
    stored = decode_item(encode_item(item))
    back = stored.of_unit(item.unit)
    assert back == item
    assert back.hash == item.hash
    assert stored.metadata == getattr(item, "text", item).metadata


def test_types_with_colons_survive_the_unit() -> None:
    unit = EntityUnit(text=TEXT, entity=Entity(start=1, end=3, type="a:b"))
    assert TEXT.of_unit(unit.unit) == unit


def test_edits_of_a_pair_touch_the_text_they_name() -> None:
    edit = Edit(field="text_b", start=0, end=2, replacement="He")
    candidate = PAIR.candidate((edit,))
    assert candidate.texts == {"text_a": "Aspirin helps", "text_b": "He does"}
    assert PAIR.replaced(edit) == "It"


def test_replaced_tokens_are_told_as_text() -> None:
    edit = Edit(field="tokens", start=1, end=3, replacement="aspirin")
    assert TEXT.units()[0].replaced(edit) == "salicylic acid"
    assert TEXT.candidate((edit,)).edits == (edit,)
