"""Tagged texts and sentence pairs keep their contract."""

from typing import Any

import pytest

from medstress.core.errors import DataError
from medstress.core.sentences import Entity, SentencePair, TaggedText


def tagged(**changes: Any) -> TaggedText:
    given: dict[str, Any] = {
        "id": "s1",
        "tokens": ("Salicylic", "acid", "aspirin", "helped"),
        "labels": ("B-Chemical", "I-Chemical", "B-Chemical", "O"),
    }
    return TaggedText(**{**given, **changes})


def test_neighbouring_entities_are_told_apart_by_their_b_label():
    assert tagged().entities == (
        Entity(start=0, end=2, type="Chemical"),
        Entity(start=2, end=3, type="Chemical"),
    )


def test_an_entity_reaches_to_the_end_of_the_sentence():
    item = tagged(labels=("O", "O", "B-Disease", "I-Disease"))
    assert item.entities == (Entity(start=2, end=4, type="Disease"),)


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"tokens": (), "labels": ()}, "item 's1'"),
        ({"labels": ("O",)}, "item 's1'"),
        (
            {"tokens": ("a", "b c", "d", "e")},
            "item 's1', token 2",
        ),
        (
            {"tokens": ("a", "", "d", "e")},
            "item 's1', token 2",
        ),
        (
            {"labels": ("O", "S-Drug", "O", "O")},
            "item 's1', token 2",
        ),
        (
            {"labels": ("O", "B-", "O", "O")},
            "item 's1', token 2",
        ),
        (
            {"labels": ("O", "I-Drug", "O", "O")},
            "item 's1', token 2",
        ),
        (
            {"labels": ("B-Disease", "I-Drug", "O", "O")},
            "item 's1', token 2",
        ),
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
        (
            {"score": float("nan")},
            "item 'p1', field 'score'",
        ),
        ({"low": 5.0}, "item 'p1'"),
    ],
)
def test_a_broken_pair_is_refused_in_one_sentence(changes, where, said):
    with pytest.raises(DataError) as caught:
        pair(**changes)
    said(str(caught.value), where)


def test_a_pair_of_another_scale_is_another_item():
    assert pair(high=5.0).score == 4.0
    assert pair(high=5.0).hash != pair().hash
