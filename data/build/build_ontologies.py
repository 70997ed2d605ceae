"""Lines of the two disease hierarchies that medstress ships: MONDO's parents, MeSH's trees."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from wheels import MONDO_HUMAN

# C: diseases; F03: mental disorders. The dictionary holds a few malformed numbers such as "C0".
DISEASE_TREE = re.compile(r"(C\d\d|F03)(\.\d{3})*")


def mesh_key(heading: str) -> str:
    """Return the key of a MeSH concept in the disease table."""
    return "MESH:" + re.sub(r"[^a-z0-9]+", "-", heading.lower()).strip("-")


def mesh_rows(headings: Mapping[str, Any], named: Collection[str]) -> Iterator[str]:
    """Yield ``concept TAB tree numbers``, sorted, for the headings of the disease table."""
    yield "concept\ttrees"
    rows = {
        mesh_key(heading): sorted(t for t in entry["mesh_tree"] if DISEASE_TREE.fullmatch(t))
        for heading, entry in headings.items()
    }
    for key, trees in sorted(rows.items()):
        if trees and key in named:
            yield f"{key}\t{' '.join(trees)}"


def mondo_rows(
    terms: Mapping[str, Mapping[str, Any]], joined: Mapping[str, str], named: Collection[str]
) -> Iterator[str]:
    """Yield ``disease TAB parents TAB concept``, sorted.

    Args:
        terms: the human diseases; an ancestor at distance 1 is a parent.
        joined: concept of the disease table for those that were joined with a MeSH heading.
        named: all concepts of the disease table; a disease outside keeps its place in the
            hierarchy but has no concept, and so no name.
    """
    yield "disease\tparents\tconcept"
    for key, term in sorted(terms.items()):
        near = (parent for parent, distance in term["ancestors"].items() if distance == 1)
        parents = sorted(parent for parent in near if parent in terms or parent == MONDO_HUMAN)
        concept = joined.get(key, key)
        shown = concept if concept in named else ""
        yield f"{_number(key)}\t{' '.join(map(_number, parents))}\t{_short(shown)}"


def _number(key: str) -> str:
    return key.removeprefix("MONDO:")


def _short(concept: str) -> str:
    """A disease of its own is written as "=": most are."""
    return "=" if concept.startswith("MONDO:") else concept
