"""Tagged texts and sentence pairs: their contract, and where an entity stands after edits."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medstress.core.errors import DataError
from medstress.core.sentences import Entity, SentencePair, TaggedText, entities_of
from medstress.core.text import Edit


def tagged(**changes: Any) -> TaggedText:
    given: dict[str, Any] = {
        "id": "s1",
        "tokens": ("Salicylic", "acid", "aspirin", "helped"),
        "labels": ("B-Chemical", "I-Chemical", "B-Chemical", "O"),
    }
    return TaggedText(**{**given, **changes})


def test_labels_are_read_as_conlleval_reads_them() -> None:
    assert [(e.start, e.end) for e in tagged().entities] == [(0, 2), (2, 3)]
    whole = tagged(labels=("O", "O", "B-Disease", "I-Disease")).entities
    assert whole == (Entity(start=2, end=4, type="Disease"),)
    # Those of a model may be malformed.
    marked = entities_of(["I-A", "I-A", "I-B", "B-B", "O", "I-B"])
    assert [(e.start, e.end, e.type) for e in marked] == [
        (0, 2, "A"),
        (2, 3, "B"),
        (3, 4, "B"),
        (5, 6, "B"),
    ]


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
    after = [unit.candidate(edits).entity for unit in text.units() if unit.entity is not None]
    assert after == list(entities_of(text.candidate(edits).labels))


def test_a_sentence_has_a_unit_an_entity_and_without_any_one_for_itself() -> None:
    assert [unit.unit for unit in tagged().units()] == ["0:2:Chemical", "2:3:Chemical"]
    odd = tagged(entity=Entity(start=0, end=2, type="a:b"))
    assert tagged().of_unit(odd.unit) == odd
    empty = TaggedText(id="s2", tokens=("nothing",), labels=("O",))
    assert empty.units() == (empty,)
    assert empty.units()[0].unit == "item"
    edit = Edit(field="tokens", start=0, end=2, replacement="aspirin")
    assert tagged().units()[0].replaced(edit) == "Salicylic acid"


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"tokens": (), "labels": ()}, "item 's1'"),
        ({"labels": ("O",)}, "item 's1'"),
        ({"tokens": ("a", "b c", "d", "e")}, "item 's1', token 2"),
        ({"tokens": ("a", "", "d", "e")}, "item 's1', token 2"),
        ({"labels": ("O", "S-Drug", "O", "O")}, "item 's1', token 2"),
        ({"labels": ("O", "B-", "O", "O")}, "item 's1', token 2"),
        ({"labels": ("O", "I-Drug", "O", "O")}, "item 's1', token 2"),
        ({"labels": ("B-Disease", "I-Drug", "O", "O")}, "item 's1', token 2"),
    ],
)
def test_a_broken_tagged_text_is_refused_in_one_sentence(changes, where, said):
    with pytest.raises(DataError) as caught:
        tagged(**changes)
    said(str(caught.value), where)


def test_the_hash_depends_on_tokens_and_labels_alone():
    assert tagged(id="other", metadata={"document": 1}).hash == tagged().hash
    assert tagged(labels=("O",) * 4).hash != tagged().hash
    assert tagged(tokens=("Salicylic", "acid", "aspirin", "hepled")).hash != tagged().hash


def pair(**changes: Any) -> SentencePair:
    return SentencePair(**{"id": "p1", "text_a": "One.", "text_b": "Two.", "score": 4.0, **changes})


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"text_b": " "}, "item 'p1', field 'text_b'"),
        ({"score": 4.2}, "item 'p1', field 'score'"),
        ({"score": float("nan")}, "item 'p1', field 'score'"),
        ({"low": 5.0}, "item 'p1'"),
    ],
)
def test_a_broken_pair_is_refused_in_one_sentence(changes, where, said):
    with pytest.raises(DataError) as caught:
        pair(**changes)
    said(str(caught.value), where)


def test_a_pair_of_another_scale_is_another_item_and_edits_name_their_text() -> None:
    assert pair(high=5.0).score == 4.0
    assert pair(high=5.0).hash != pair().hash
    edit = Edit(field="text_b", start=0, end=3, replacement="Three")
    assert pair().candidate((edit,)).texts == {"text_a": "One.", "text_b": "Three."}
    assert (pair().replaced(edit), pair().units()) == ("Two", (pair(),))
