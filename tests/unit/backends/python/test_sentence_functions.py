"""Functions of the user's for entities and sentence pairs: what they get, and every refusal."""

import numpy as np
import pytest

from medstress.backends.python import wrap_function
from medstress.core.calls import Compare, Compared, Tag, Tagged
from medstress.core.errors import UsageError
from medstress.testing import check_backend


def chemicals(sentences: list[list[str]]) -> list[list[str]]:
    return [["B-Chemical" if w == "aspirin" else "O" for w in words] for words in sentences]


def overlap(pairs: list[tuple[str, str]]) -> list[float]:
    words = [(set(a.split()), set(b.split())) for a, b in pairs]
    return [len(a & b) / len(a | b) for a, b in words]


def test_a_tagger_is_given_words_and_returns_one_label_a_word():
    backend = wrap_function(chemicals, task="ner")
    assert backend.traits.calls == {"tag"}
    assert backend.answer([Tag(("no", "aspirin"))]) == [Tagged(labels=("O", "B-Chemical"))]
    check_backend(backend, [Tag(("aspirin",) * n) for n in range(1, 6)])


def test_a_scorer_of_pairs_returns_one_number_a_pair():
    backend = wrap_function(overlap, task="similarity")
    assert backend.answer([Compare("a b", "a c")]) == [Compared(score=1 / 3)]
    check_backend(backend, [Compare("a b", "a" * n) for n in range(1, 6)])


def test_an_array_of_scores_is_taken_as_it_is():
    backend = wrap_function(lambda pairs: np.full(len(pairs), 0.5), "1", task="similarity")
    assert backend.answer([Compare("a", "b")]) == [Compared(score=0.5)]


def test_labels_of_iobes_are_read_as_iob2():
    def tag(sentences: list[list[str]]) -> list[list[str]]:
        return [["B-Drug", "E-Drug", "S-Drug"] for _ in sentences]

    backend = wrap_function(tag, task="ner")
    (reply,) = backend.answer([Tag(("folic", "acid", "aspirin"))])
    assert reply == Tagged(labels=("B-Drug", "I-Drug", "B-Drug"))


def test_labels_may_be_bare() -> None:
    backend = wrap_function(lambda _: [["B", "I", "O"]], task="ner")
    assert backend.answer([Tag(("folic", "acid", "."))]) == [Tagged(labels=("B", "I", "O"))]
    backend = wrap_function(lambda _: [["B", "E", "S"]], task="ner")
    assert backend.answer([Tag(("folic", "acid", "."))]) == [Tagged(labels=("B", "I", "B"))]


@pytest.mark.parametrize(
    ("returned", "where"),
    [
        ([["O"]], "1 labels for the 2 words of 'no aspirin'"),
        ([["O", "Chemical"]], "'Chemical'"),
        ([["O", None]], ""),
        (["O O"], "'O O'"),
        ([], ""),
        ("O", ""),
    ],
)
def test_wrong_labels_are_refused_in_one_sentence(returned, where, said):
    backend = wrap_function(lambda _: returned, "1", task="ner")
    with pytest.raises(UsageError) as caught:
        backend.answer([Tag(("no", "aspirin"))])
    said(str(caught.value), where)


@pytest.mark.parametrize("returned", [["high"], [None], [float("nan")], ["0.5"], [[0.5]]])
def test_wrong_scores_are_refused_in_one_sentence(returned, said):
    backend = wrap_function(lambda _: returned, "1", task="similarity")
    with pytest.raises(UsageError) as caught:
        backend.answer([Compare("a", "b")])
    said(str(caught.value))
