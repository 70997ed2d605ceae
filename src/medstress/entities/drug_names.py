"""Which active ingredients a drug's name stands for: generic names, brands, salts, combinations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from medstress.entities.drug_classes import names_a_class
from medstress.entities.names import normalise
from medstress.entities.tables import DRUG_NAMES, shipped_rows

SOURCES = {
    "unii": "UNII list (FDA, 2025-06)",
    "fda": "Drugs@FDA (2022-08)",
    "spellings": "list of medstress",
}
"""Source in the table -> what people read."""

BRAND = "brand"

_ROUTE_TEXT = """
oral intravenous iv im sc subcutaneous intramuscular topical inhaled nebulized nebulised inhalation
intranasal nasal sublingual rectal vaginal ophthalmic intravitreal intrathecal transdermal systemic
high low dose therapy treatment infusion injection tablet tablets only alone and or plus with of the
a an in for to by days weeks months hours daily twice once weekly drops cream ointment gel
start begin administer give continue prescribe initiate administration supplementation supplements
"""
_ROUTES = frozenset(_ROUTE_TEXT.split())
"""Words of a text that name no drug and leave what it names as it is."""
_TOKEN = re.compile(r"[a-z0-9][a-z0-9.'/]*")
_LONGEST = 5
"""Most words of a drug's name that is looked for inside a text."""
_SHORTEST = 5
"""Fewest characters of such a name; shorter ones are mostly English words."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One thing that a drug's name may mean."""

    ingredients: frozenset[str]
    """Active ingredients by their US names, without salt."""
    kind: str
    """`generic` or `brand`."""
    source: str
    """A key of SOURCES."""


@dataclass(frozen=True, slots=True)
class Placed:
    """What a text names."""

    readings: tuple[Reading, ...]
    """Alternatives, at least one."""
    is_whole: bool = True
    """False if the text says more than the drugs found in it."""


class DrugNames:
    """Looks up names of drugs; immutable once built."""

    def __init__(self, rows: Iterable[Sequence[str]]) -> None:
        """Group rows of name, kind, source and ingredients by name."""
        # A run looks up a few of 100,000 names: what a row says is read when its name is asked.
        self._rows: dict[str, list[Sequence[str]]] = {}
        for row in rows:
            self._rows.setdefault(normalise(row[0]), []).append(row)

    def __contains__(self, name: str) -> bool:
        """Whether the name is in the table."""
        return normalise(name) in self._rows

    def place(self, text: str) -> Placed | None:
        """Return what a text names, or None.

        The whole text is looked up first, then the longest names in it. A text of nothing but
        drugs, routes and doses stands for those drugs; with other words it only mentions them.

        >>> sorted(drug_names().place("Co-trimoxazole").readings[0].ingredients)
        ['sulfamethoxazole', 'trimethoprim']
        >>> drug_names().place("Oral metformin").is_whole, drug_names().place("Colonoscopy")
        (True, None)
        """
        if found := self._of(normalise(text)):
            return Placed(found)
        within = re.sub(r"[()\[\]]", " ", normalise(text))
        if found := self._of(" ".join(within.split())):
            return Placed(found)
        return self._mentioned(_TOKEN.findall(within.replace("/", " ")))

    def _of(self, normal: str) -> tuple[Reading, ...]:
        """Return what a normalised name may mean; of equal ingredients, the first row counts."""
        found: dict[frozenset[str], Reading] = {}
        for _, kind, source, ingredients in self._rows.get(normal, ()):
            of = frozenset(ingredients.split("|"))
            found.setdefault(of, Reading(of, kind, source))
        return tuple(found.values())

    def _mentioned(self, tokens: Sequence[str]) -> Placed | None:
        found: set[str] = set()
        rest: list[str] = []
        i, source, kind = 0, "", "generic"
        while i < len(tokens):
            for n in range(min(_LONGEST, len(tokens) - i), 0, -1):
                name = " ".join(tokens[i : i + n])
                readings = self._of(name)
                if len(readings) == 1 and len(name) >= _SHORTEST and name not in _ROUTES:
                    found |= readings[0].ingredients
                    source, kind = readings[0].source, readings[0].kind
                    i += n
                    break
            else:
                rest.append(tokens[i])
                i += 1
        if not found:
            return None
        others = [word for word in rest if word not in _ROUTES and not word[0].isdigit()]
        if names_a_class(" ".join(others)):
            return None
        return Placed((Reading(frozenset(found), kind, source),), is_whole=not others)


@cache
def drug_names() -> DrugNames:
    """Return the shipped table, read once."""
    return DrugNames(shipped_rows(DRUG_NAMES))
