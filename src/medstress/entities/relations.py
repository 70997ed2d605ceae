"""How two names are related: kind, source and what it says of sameness.

`same` means: where the first name is the right answer, the second is one too. Unknown is the
default: what the tables do not place is neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal

from medstress.core.evidence import Evidence
from medstress.entities.disease_names import disease_names
from medstress.entities.drug_classes import class_name, classes_of
from medstress.entities.drug_kin import by_wording, kin, kin_of_sets
from medstress.entities.drug_names import BRAND, SOURCES, Placed, Reading, drug_names
from medstress.entities.names import normalise, word_set
from medstress.entities.synonyms import SynonymGroups

Value = Literal["same", "different", "unknown"]

WORDING, INITIALS = "wording", "initials"
DISEASES, STEMS = "MeSH and MONDO", "INN stems"
_AMBIGUOUS = 3
"""Most characters of a name, such as TB, OA or ASA, that may have meanings which no table lists: it
can be found the same as another one, and never different."""
_APPLIED = (
    frozenset(("oral", "enteral")),
    frozenset(("iv", "intravenous", "infusion")),
    frozenset(("im", "intramuscular")),
    frozenset(("sc", "subcutaneous")),
    frozenset(("topical", "cream", "ointment", "gel", "transdermal")),
    frozenset(("inhaled", "inhalation", "nebulized", "nebulised")),
    frozenset(("intranasal", "nasal")),
    frozenset(("intrathecal",)),
    frozenset(("intravitreal", "ophthalmic", "drops")),
    frozenset(("rectal",)),
    frozenset(("vaginal",)),
    frozenset(("high",)),
    frozenset(("low",)),
)
"""How a drug is given, and how much: a text that says one is not one that says another."""


@dataclass(frozen=True, slots=True)
class Relation:
    """One reason to hold two names for the same, or for different ones."""

    kind: str
    """What the *second* name is to the first: one of `medstress.core.evidence.KINDS`."""
    value: Value
    """What it says; `unknown` names a relation that decides nothing."""
    source: str
    """Where it comes from, for people."""

    def as_evidence(self) -> Evidence:
        """Return it as evidence about a key: one that stands there twice is not right alone.

        Tables refute and never vouch, so names that differ settle nothing.
        """
        valid = False if self.value == "same" else None
        return Evidence(kind=self.kind, source=self.source, valid=valid)


def settled(evidence: Iterable[Relation]) -> bool | None:
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

    def between(self, one: str, other: str) -> tuple[Relation, ...]:
        """Return all evidence on two names, the strongest first; empty: unknown.

        >>> [(e.kind, e.value) for e in relations("ezetimibe", "Vytorin")]
        [('combination_product', 'same')]
        >>> [(e.kind, e.source) for e in relations("salbutamol", "albuterol sulfate")]
        [('salt', 'UNII list (FDA, 2025-06)')]
        """
        if normalise(one) == normalise(other) or (
            word_set(one) and word_set(one) == word_set(other)
        ):
            return (Relation("same_concept", "same", WORDING),)
        worded: list[Relation] = []
        found = [*self._listed(one, other), *_of_drugs(one, other)]
        if settled(found) is None:
            # The diseases are read only where they are needed: that takes a second.
            found += _of_diseases(one, other)
        if settled(found) is not True:
            # Initials have many meanings, and a table knows some: another one refutes nothing.
            found = [*_of_initials(one, other)] or found
            worded = [*_of_wording(one, other)]
            found += worded
        if worded or min(len(normalise(one)), len(normalise(other))) <= _AMBIGUOUS:
            found = [_unknown(each) if each.value == "different" else each for each in found]
        return tuple(sorted(dict.fromkeys(found), key=_strength))

    def _listed(self, one: str, other: str) -> Iterator[Relation]:
        for groups in self._synonyms:
            if normalise(other) in groups.synonyms_of(one):
                kind = "abbreviation" if _abbreviates(one, other) else "synonym"
                is_ours = groups.label == "default"
                source = "shipped synonyms" if is_ours else Path(groups.label).name
                yield Relation(kind, "same", source)


def relations(one: str, other: str) -> tuple[Relation, ...]:
    """Return the evidence of the shipped tables on two names (see `Relations.between`)."""
    return _shipped().between(one, other)


def _of_drugs(one: str, other: str) -> Iterator[Relation]:
    names = drug_names()
    first, second = names.place(one), names.place(other)
    if second and (group := class_name(one)) and _is_of(group, second):
        yield Relation("child", "unknown", STEMS)
        return
    if first and (group := class_name(other)) and _is_of(group, first):
        yield Relation("parent", "unknown", STEMS)
        return
    if first is None or second is None:
        return
    pairs = [(x, y) for x in first.readings for y in second.readings]
    if not (first.is_whole and second.is_whole):
        # A text that only mentions drugs is placed against drugs that it does not mention.
        if not any(_share(x, y) for x, y in pairs):
            yield Relation("other_concept", "different", _sources(*pairs[0]))
        return
    equal = [(x, y) for x, y in pairs if x.ingredients == y.ingredients]
    if equal:
        x, y = min(equal, key=lambda pair: pair[1].kind)
        found = Relation(_kind(one, other, x, y), "same", _sources(x, y))
        yield _unknown(found) if _given_otherwise(one, other) else found
        return
    if whole := next((pair for pair in pairs if pair[0].ingredients < pair[1].ingredients), None):
        # It holds the first one's drug, so picking it is no error that a study should count.
        yield Relation("combination_product", "same", _sources(*whole))
        return
    for x, y in pairs:
        # Brands are asked by their ingredients, as the generic names are by their words.
        if kind := kin_of_sets(x.ingredients, y.ingredients):
            yield Relation(kind, "unknown", _sources(x, y))
            return
    x, y = next((p for p in pairs if p[0].ingredients & p[1].ingredients), pairs[0])
    if x.ingredients & y.ingredients:
        yield Relation("combination_product", "different", _sources(x, y))
    elif _classes(x) & _classes(y):
        yield Relation("sibling", "different", STEMS)
    else:
        yield Relation("other_concept", "different", _sources(x, y))


def _share(x: Reading, y: Reading) -> bool:
    """Whether two readings have an ingredient in common, or kin."""
    return any(i == j or kin(i, j) is not None for i in x.ingredients for j in y.ingredients)


def _is_of(group: str, placed: Placed) -> bool:
    return any(group in _classes(reading) for reading in placed.readings)


def _unknown(found: Relation) -> Relation:
    return replace(found, value="unknown")


def _given_otherwise(one: str, other: str) -> bool:
    """Whether two texts on one drug tell unlike routes or doses, or unlike salts or esters of it.

    Tenofovir disoproxil and tenofovir alafenamide, oral and intravenous vancomycin: where one is
    the right answer, the other may be a wrong one.
    """
    first, second = normalise(one).split(), normalise(other).split()
    ways = [{i for i, way in enumerate(_APPLIED) if way & set(text)} for text in (first, second)]
    if all(ways) and ways[0] != ways[1]:
        return True
    has_forms = len(first) > 1 and len(second) > 1
    return has_forms and first[0] == second[0] and set(first[1:]).isdisjoint(second[1:])


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


def _strength(found: Relation) -> tuple[bool, bool]:
    return found.value != "same", found.kind == "other_concept"


def _of_diseases(one: str, other: str) -> Iterator[Relation]:
    names = disease_names()
    (first, as_written), (second, also) = names.place(one), names.place(other)
    if bool(first) != bool(second):
        lacking = other if first else one
        if (placed := drug_names().place(lacking)) and placed.is_whole:
            yield Relation(
                "other_concept", "different", f"{DISEASES}; {_sources(*placed.readings)}"
            )
        return
    if not first:
        return
    source = DISEASES if as_written and also else f"{DISEASES}, inflected"
    if first & second:
        kind = "abbreviation" if _abbreviates(one, other) else "synonym"
        yield Relation(kind, "same", source)
    elif second & names.ancestors(first):
        yield Relation("parent", "unknown", source)
    elif first & names.ancestors(second):
        yield Relation("child", "unknown", source)
    elif names.parents(first) & names.parents(second):
        yield Relation("sibling", "different", source)
    else:
        yield Relation("other_concept", "different", source)


def _of_initials(one: str, other: str) -> Iterator[Relation]:
    """Yield an abbreviation by its letters, of two names that no table calls the same."""
    if _abbreviates(one, other):
        yield Relation("abbreviation", "unknown", INITIALS)


def _abbreviates(one: str, other: str) -> bool:
    """Whether one name is made of the initials of the other, of three words or more."""
    short, long = sorted((normalise(one), normalise(other)), key=len)
    initials = "".join(word[0] for word in long.split())
    return len(short) > 1 and short.replace(".", "") == initials


def _of_wording(one: str, other: str) -> Iterator[Relation]:
    if kind := by_wording(one, other):
        yield Relation(kind, "unknown", WORDING)


@cache
def _shipped() -> Relations:
    return Relations()
