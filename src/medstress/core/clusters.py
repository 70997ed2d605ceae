"""Group the items that belong together: intervals, tests and folds treat them as one unit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from medstress.core.items import Item

GROUPS = "documents (pairs that share a sentence are one)"
"""What a split keeps together, in messages."""
ALONE = " (alone)"
"""Marks the id of an item without a document if a document has the same name."""


def clusters_of(items: Iterable[Item]) -> dict[str, str]:
    """Return the cluster of every item of one data set.

    Answers on items of one document are not independent, nor are those on pairs that share a
    sentence (18 sentences occur in 34 of the 100 pairs of BIOSSES): if one of two such pairs is
    hard, so is the other. Pairs that are linked through several sentences are one cluster, and so
    is a question that is asked again under other ids. White space does not tell texts apart.

    Args:
        items: of one data set, in any order.

    Returns:
        id -> the item's document if it is known, else its id; for linked items the smallest of
        these names.

    >>> from medstress.core.sentences import SentencePair
    >>> pair = lambda id, a, b: SentencePair(id=id, text_a=a, text_b=b, score=1)
    >>> clusters_of([pair("1", "A.", "B."), pair("2", "C.", "A."), pair("3", "D.", "E.")])
    {'1': '1', '2': '1', '3': '3'}
    """
    every = list(items)
    own = documents_of(every)
    holders: dict[str, list[str]] = {}
    for item in every:
        for text in sentences_of(item):
            holders.setdefault(text, []).append(own[item.id])
    shared = [names for names in holders.values() if len(names) > 1]
    if not shared:
        return own
    from scipy.cluster.hierarchy import DisjointSet

    linked = DisjointSet(set(own.values()))
    for first, *others in shared:
        for name in others:
            linked.merge(first, name)
    least = {name: min(group) for group in linked.subsets() for name in group}
    return {item.id: least[own[item.id]] for item in every}


def clusters_by_dataset(items: Iterable[tuple[str, Item]]) -> dict[str, dict[str, str]]:
    """Return the clusters of items of several data sets: data set's label -> clusters.

    Only items of the same data set are compared.
    """
    held: dict[str, list[Item]] = {}
    for dataset, item in items:
        held.setdefault(dataset, []).append(item)
    return {dataset: clusters_of(group) for dataset, group in held.items()}


def sentences_of(item: Item) -> tuple[str, ...]:
    """Return the texts that link an item to others, normalised for comparison."""
    return tuple(" ".join(text.split()) for text in item.shared_texts)


def document_of(metadata: Mapping[str, Any]) -> str | None:
    """Return the document that an item's metadata name; None if it is missing or empty.

    >>> document_of({"document": 7}), document_of({"document": ""})
    ('7', None)
    """
    document = metadata.get("document")
    return None if document is None else str(document) or None


def documents_of(items: Iterable[Item]) -> dict[str, str]:
    """Return the document of every item if it is known, else its id; pairs are not linked.

    If a document has the same name as an item without one, as numbers may, such ids get a mark.

    >>> from medstress.core.sentences import TaggedText
    >>> text = lambda id, of: TaggedText(id=id, tokens="a", labels="O", metadata=of)
    >>> documents_of([text("1", {}), text("2", {"document": "1"})])
    {'1': '1 (alone)', '2': '1'}
    """
    by_item = {item.id: document_of(item.metadata) or "" for item in items}
    documents, mark = set(by_item.values()), ""
    while any(not name and item + mark in documents for item, name in by_item.items()):
        mark += ALONE
    return {item: name or item + mark for item, name in by_item.items()}
