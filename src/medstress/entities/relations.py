"""How two names are related: evidence with its kind, its source and what it says of sameness.

`same` means: where the first name is the right answer, the second is one too. Unknown is the
default: what the tables do not place is neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from medstress.core.items import Question
from medstress.entities.disease_names import disease_names
from medstress.entities.drug_classes import class_name, classes_of
from medstress.entities.drug_names import BRAND, SOURCES, Placed, Reading, drug_names
from medstress.entities.names import normalise, variant_class, word_set
from medstress.entities.synonyms import SynonymGroups

Value = Literal["same", "different", "unknown"]

KINDS = (
    "same_concept",
    "synonym",
    "brand",
    "generic",
    "salt",
    "abbreviation",
    "duplicate_of_option",
    "combination_product",
    "parent",
    "child",
    "sibling",
    "other_concept",
)
"""Kinds of evidence: what the *second* name is to the first."""

WORDING, INITIALS = "wording", "initials"
DISEASES, STEMS = "MeSH and MONDO", "INN stems"


@dataclass(frozen=True, slots=True)
class Evidence:
    """One reason to hold two names for the same, or for different ones."""

    kind: str
    """One of KINDS."""
    value: Value
    """What it says; `unknown` names a relation that decides nothing."""
    source: str
    """Where it comes from, for people."""


def settled(evidence: Iterable[Evidence]) -> bool | None:
    """Return whether the names mean the same by all evidence; None: unknown.

    One piece that says `same` outweighs those that say `different`: a name with several meanings
    is a second right answer by any of them.
    """
    values = {each.value for each in evidence}
    return True if "same" in values else False if "different" in values else None


class Relations:
    """Finds evidence in the shipped tables and in the user's synonyms."""

    def __init__(self, synonyms: Sequence[SynonymGroups] = ()) -> None:
        """Keep further sources: groups loaded from UMLS, an OBO file or a table."""
        self._synonyms = synonyms

    def between(self, one: str, other: str) -> tuple[Evidence, ...]:
        """Return all evidence on two names, the strongest first; empty: unknown.

        >>> [(e.kind, e.value) for e in relations("ezetimibe", "Vytorin")]
        [('combination_product', 'same')]
        >>> [(e.kind, e.source) for e in relations("salbutamol", "albuterol sulfate")]
        [('salt', 'UNII list (FDA, 2025-06)')]
        """
        if normalise(one) == normalise(other) or (
            word_set(one) and word_set(one) == word_set(other)
        ):
            return (Evidence("same_concept", "same", WORDING),)
        found = [*self._listed(one, other), *_of_drugs(one, other)]
        if settled(found) is None:
            # The diseases are read only where they are needed: that takes a second.
            found += _of_diseases(one, other)
        if settled(found) is not True:
            # Initials have many meanings, and a table knows some: another one refutes nothing.
            found = [*_of_initials(one, other)] or found
            found += _of_wording(one, other)
        return tuple(sorted(dict.fromkeys(found), key=_strength))

    def _listed(self, one: str, other: str) -> Iterator[Evidence]:
        for groups in self._synonyms:
            if normalise(other) in groups.synonyms_of(one):
                kind = "abbreviation" if _abbreviates(one, other) else "synonym"
                yield Evidence(kind, "same", groups.label)


def relations(one: str, other: str) -> tuple[Evidence, ...]:
    """Return the evidence of the shipped tables on two names (see `Relations.between`)."""
    return _shipped().between(one, other)


def option_evidence(
    item: Question, name: str, found: Relations | None = None
) -> tuple[Evidence, ...]:
    """Return the evidence on a name that replaces an entity of a wrong option.

    First against the key, then `duplicate_of_option` for each other option that it means.
    """
    known = found or _shipped()
    against = list(known.between(item.key_text, name))
    for letter in item.letters:
        if letter == item.key:
            continue
        same = [each for each in known.between(item.option(letter), name) if each.value == "same"]
        against += [Evidence("duplicate_of_option", "same", each.source) for each in same[:1]]
    return tuple(against)


def _of_drugs(one: str, other: str) -> Iterator[Evidence]:
    names = drug_names()
    first, second = names.place(one), names.place(other)
    if second and (group := class_name(one)):
        yield from _of_class(group, second, "child")
    elif first and (group := class_name(other)):
        yield from _of_class(group, first, "parent")
    if first is None or second is None:
        return
    pairs = [(x, y) for x in first.readings for y in second.readings]
    if not (first.is_whole and second.is_whole):
        # A text that only mentions drugs is placed against drugs that it does not mention.
        if not any(x.ingredients & y.ingredients for x, y in pairs):
            yield Evidence("other_concept", "different", _sources(*pairs[0]))
        return
    equal = [(x, y) for x, y in pairs if x.ingredients == y.ingredients]
    if equal:
        x, y = min(equal, key=lambda pair: pair[1].kind)
        yield Evidence(_kind(one, other, x, y), "same", _sources(x, y))
        return
    if whole := next((pair for pair in pairs if pair[0].ingredients < pair[1].ingredients), None):
        # It holds the first one's drug, so picking it is no error that a study should count.
        yield Evidence("combination_product", "same", _sources(*whole))
        return
    x, y = next((p for p in pairs if p[0].ingredients & p[1].ingredients), pairs[0])
    if x.ingredients & y.ingredients:
        yield Evidence("combination_product", "different", _sources(x, y))
    elif _classes(x) & _classes(y):
        yield Evidence("sibling", "different", STEMS)
    else:
        yield Evidence("other_concept", "different", _sources(x, y))


def _of_class(group: str, placed: Placed, kind: str) -> Iterator[Evidence]:
    if any(group in _classes(reading) for reading in placed.readings):
        yield Evidence(kind, "different", STEMS)


def _classes(reading: Reading) -> frozenset[str]:
    return frozenset().union(*(classes_of(each) for each in reading.ingredients))


def _kind(one: str, other: str, x: Reading, y: Reading) -> str:
    """Return what the second name of the same ingredients is to the first."""
    if x.kind != y.kind:
        return "brand" if y.kind == BRAND else "generic"
    if BRAND in (x.kind, y.kind):
        return "synonym"
    base = " and ".join(sorted(x.ingredients))
    plain = [normalise(each) for each in (one, other)]
    if _abbreviates(one, other):
        return "abbreviation"
    # Several words that begin with the base's name: its salt, hydrate or ester.
    stem = normalise(base).partition(" ")[0]
    if any(each != normalise(base) and each.startswith(f"{stem} ") for each in plain):
        return "salt"
    return "synonym"


def _sources(*readings: Reading) -> str:
    return " and ".join(dict.fromkeys(SOURCES[each.source] for each in readings))


def _strength(evidence: Evidence) -> tuple[bool, bool]:
    return evidence.value != "same", evidence.kind == "other_concept"


def _of_diseases(one: str, other: str) -> Iterator[Evidence]:
    names = disease_names()
    (first, as_written), (second, also) = names.place(one), names.place(other)
    if bool(first) != bool(second):
        lacking = other if first else one
        if (placed := drug_names().place(lacking)) and placed.is_whole:
            yield Evidence(
                "other_concept", "different", f"{DISEASES}; {_sources(*placed.readings)}"
            )
        return
    if not first:
        return
    source = DISEASES if as_written and also else f"{DISEASES}, inflected"
    if first & second:
        kind = "abbreviation" if _abbreviates(one, other) else "synonym"
        yield Evidence(kind, "same", source)
    elif second & names.ancestors(first):
        yield Evidence("parent", "different", source)
    elif first & names.ancestors(second):
        yield Evidence("child", "different", source)
    elif names.parents(first) & names.parents(second):
        yield Evidence("sibling", "different", source)
    else:
        yield Evidence("other_concept", "different", source)


def _of_initials(one: str, other: str) -> Iterator[Evidence]:
    """Yield an abbreviation by its letters, of two names that no table calls the same."""
    if _abbreviates(one, other):
        yield Evidence("abbreviation", "unknown", INITIALS)


def _abbreviates(one: str, other: str) -> bool:
    """Whether one name is made of the initials of the other, of three words or more."""
    short, long = sorted((normalise(one), normalise(other)), key=len)
    initials = "".join(word[0] for word in long.split())
    return len(short) > 1 and short.replace(".", "") == initials


def _of_wording(one: str, other: str) -> Iterator[Evidence]:
    found = variant_class(other, [one])
    kind = {"key_plus_words": "child", "key_subset": "parent"}.get(found)
    if kind:
        yield Evidence(kind, "unknown", WORDING)


@cache
def _shipped() -> Relations:
    return Relations()
