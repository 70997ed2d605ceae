"""Which items belong together."""

from collections import Counter
from dataclasses import replace
from typing import Any

from medstress.core.clusters import clusters_by_dataset, clusters_of, documents_of
from medstress.core.items import Question
from medstress.core.sentences import SentencePair, TaggedText
from medstress.datasets.named import load_biosses
from medstress.datasets.sentences import load_iob
from medstress.datasets.source import DatasetOptions, draw_documents


def pair(name: str, first: str, second: str, **metadata: str) -> SentencePair:
    return SentencePair(id=name, text_a=first, text_b=second, score=1, metadata=metadata)


def test_pairs_that_are_linked_over_sentences_are_one_cluster_named_after_the_least():
    pairs = [
        pair("7", "Rain.", "Snow."),
        pair("3", "Snow.", "Hail."),  # 3 and 5 share nothing, and 7 links neither to the other
        pair("5", "Fog.", "Rain."),
        pair("4", "Snow", "rain."),  # a mark or a capital makes another sentence
        pair("6", "Sun  and\twind.", "5"),
        pair("8", "3", "Sun and wind."),  # a sentence that reads like an id is none
        pair("9", "Ice.", "Ice."),
    ]
    expected = {"7": "3", "3": "3", "5": "3", "4": "4", "6": "6", "8": "6", "9": "9"}
    assert clusters_of(pairs) == clusters_of(pairs[::-1]) == expected
    assert documents_of(pairs) == {each.id: each.id for each in pairs}


def test_a_question_that_is_asked_again_is_one_cluster_with_the_first():
    asked: dict[str, Any] = {"stem": "Which drug?", "options": ("Iron", "Zinc"), "key": "A"}
    rows = [
        Question(id="b", **asked),
        Question(id="a", **{**asked, "stem": "which  DRUG?", "options": ("Zinc", "Iron")}),
        Question(id="c", **{**asked, "passage": "A note."}),
        Question(id="d", **{**asked, "options": ("Iron", "Gold")}),
        Question(id="e", **asked, metadata={"document": "x"}),
        Question(id="f", **{**asked, "stem": "Which dose?"}, metadata={"document": "x"}),
    ]
    expected = {"a": "a", "b": "a", "c": "c", "d": "d", "e": "a", "f": "a"}
    assert clusters_of(rows) == clusters_of(rows[::-1]) == expected


def test_documents_of_pairs_are_linked_as_a_whole():
    pairs = [
        pair("1", "Rain.", "Snow.", document="x"),
        pair("2", "Fog.", "Sun.", document="x"),
        pair("3", "Sun.", "Ice.", document="w"),
    ]
    assert clusters_of(pairs) == {"1": "w", "2": "w", "3": "w"}


def test_sentences_belong_to_their_documents_and_data_sets_are_apart():
    texts = [
        TaggedText(id=str(n), tokens=("x",), labels=("O",), metadata={"document": d} if d else {})
        for n, d in enumerate([11, 11, None, "b"])
    ]
    assert clusters_of(texts) == {"0": "11", "1": "11", "2": "2", "3": "b"}
    one, other = pair("1", "Rain.", "Snow."), pair("2", "Rain.", "Snow.")
    apart = clusters_by_dataset([("a", one), ("b", other)])
    assert apart == {"a": {"1": "1"}, "b": {"2": "2"}}


def test_18_sentences_stand_in_34_pairs_of_biosses(published) -> None:
    items = load_biosses(DatasetOptions(path=published("sts/biosses.tsv"))).items
    sizes = Counter(Counter(clusters_of(items).values()).values())
    assert sizes == {1: 66, 2: 14, 3: 2}


def test_sentences_of_no_document_are_no_part_of_one_with_the_same_name(tmp_path) -> None:
    path = tmp_path / "rows.conll"
    sentence, mark = "Aspirin\tO\n\n", "-DOCSTART-\tO\n\n"
    path.write_text(2 * sentence + mark + 2 * sentence + mark + sentence, "utf-8")
    items = load_iob(DatasetOptions(path=path)).items
    found = clusters_of(items)
    assert found["3"] == found["4"] == "1"
    assert found["5"] == "2"
    assert len(set(found.values())) == 4
    assert clusters_of(items[::-1]) == found
    # Of four units one is drawn: never a document with the sentence that is called like it.
    sizes = [len(draw_documents(items, 1, seed)) for seed in range(40)]
    assert sorted(set(sizes)) == [1, 2]
    odd = [*items, replace(items[0], id="9", metadata={"document": "1 (alone)"})]
    assert len(set(clusters_of(odd).values())) == 5
