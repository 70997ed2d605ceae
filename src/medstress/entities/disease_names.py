"""Which disease concepts a name stands for, whatever its inflection, spelling and word order."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache, cached_property, lru_cache
from pathlib import Path

from medstress.entities.names import words
from medstress.entities.ontologies import parent_headings
from medstress.entities.synonyms import SynonymGroups, load_synonyms
from medstress.entities.tables import shipped_rows

_TABLE = "diseases"

_FUNCTION_TEXT = "a an the of in on to by and or with due from disease diseas disorder syndrome"
_FUNCTION_WORDS = frozenset(words(_FUNCTION_TEXT))

_ENDINGS = (
    ("emic", "emi"),
    ("emia", "emi"),
    ("otic", "os"),
    ("itic", "it"),
    ("plegic", "plegi"),
    ("plegia", "plegi"),
    ("pathic", "pathi"),
    ("uric", "uri"),
    ("uria", "uri"),
    ("algic", "algi"),
    ("algia", "algi"),
    ("ension", "ens"),
    ("ensiv", "ens"),
    ("eptic", "eps"),
    ("epsi", "eps"),
    ("rrhagic", "rrhag"),
    ("rrhag", "rrhag"),
    ("trophic", "trophi"),
    ("betic", "bet"),
    ("bet", "bet"),
    ("matic", "m"),
    ("ectomi", "ectomi"),
    ("toxic", "tox"),
    ("toxiciti", "tox"),
    ("ous", "o"),
)
"""Endings of folded words -> what nouns and adjectives of one stem share: hypertension,
hypertensive; ischemia, ischemic; arthritis, arthritic."""
_SPELLINGS = {
    "tumour": "tumor",
    "neoplasm": "tumor",
    "leucemi": "leukemi",
    "leucaemi": "leukemi",
    "renal": "kidnei",
    "kidney": "kidnei",
    "kidnei": "kidnei",
    "hepatic": "liver",
    "cardiac": "heart",
    "pulmonari": "lung",
    "ganglia": "ganglion",
    "carcinomata": "carcinoma",
}
"""Folded words -> one of two that mean the same part or are spelt differently."""
_ROMAN = {"i": "1", "ii": "2", "iii": "3", "iv": "4", "v": "5"}


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """Return what the inflected forms of a folded word share.

    >>> stem("hypertensiv") == stem("hypertension"), stem("ischemic") == stem("ischemia")
    (True, True)
    """
    word = _SPELLINGS.get(word, _ROMAN.get(word, word))
    for ending, shared in _ENDINGS:
        if word.endswith(ending) and len(word) > len(ending) + 1:
            return word[: -len(ending)] + shared
    return word


def stems(text: str) -> frozenset[str]:
    """Return the stems of a name's words, without those that only join words.

    >>> stems("Cancer of the breast") == stems("breast cancers")
    True
    """
    found = words(text)
    kept = [word for word in found if word not in _FUNCTION_WORDS] or found
    return frozenset(map(stem, kept))


class DiseaseNames:
    """Looks up diseases and their places in the hierarchies; immutable once built."""

    def __init__(
        self,
        listed: SynonymGroups,
        names: Callable[[], Iterable[tuple[str, str]]],
        parents: Mapping[str, Iterable[str]],
    ) -> None:
        """Keep the names as written, all (concept, name) rows, and the parents of each concept."""
        self._listed, self._names = listed, names
        self._parents = {node: frozenset(above) - {node} for node, above in parents.items()}

    def place(self, name: str) -> tuple[frozenset[str], bool]:
        """Return the concepts of a name, and whether it is listed as written."""
        concepts = (each.partition(":") for each in self._listed.concepts_of(name))
        if found := frozenset(concept for table, _, concept in concepts if table == _TABLE):
            return found, True
        return frozenset(self._inflected.get(stems(name), ())), False

    @cached_property
    def _inflected(self) -> dict[frozenset[str], set[str]]:
        """Return stems of a name -> its concepts. Reading 100,000 names takes half a second."""
        found: dict[frozenset[str], set[str]] = {}
        for concept, name in self._names():
            if key := stems(name):
                found.setdefault(key, set()).add(concept)
        return found

    def parents(self, concepts: Iterable[str]) -> frozenset[str]:
        """Return the concepts right above some concepts."""
        return frozenset().union(*(self._parents.get(each, ()) for each in concepts))

    def ancestors(self, concepts: frozenset[str]) -> frozenset[str]:
        """Return all concepts above some concepts."""
        found: frozenset[str] = frozenset()
        new = concepts
        while new := self.parents(new) - found:
            found |= new
        return found


@cache
def disease_names() -> DiseaseNames:
    """Return the shipped diseases with the links of MONDO and of MeSH, read once."""
    mondo = list(shipped_rows("mondo"))
    concept = {row[0]: _concept(row) for row in mondo}
    parents: dict[str, set[str]] = {}
    for row in mondo:
        parents[concept[row[0]]] = {concept[p] for p in row[1].split() if p in concept}
    for heading, above in parent_headings(list(shipped_rows("mesh"))).items():
        # Trees' roots and numbers without a heading are no diseases.
        known = {each for each in above if each.startswith("MESH:")}
        parents.setdefault(heading, set()).update(known)
    listed = load_synonyms("default", Path())
    return DiseaseNames(listed, lambda: ((r[0], r[1]) for r in shipped_rows(_TABLE)), parents)


def _concept(row: list[str]) -> str:
    return row[2] if re.match(r"M\w+:", row[2]) else f"MONDO:{row[0]}"
