"""Brand and generic names of drugs, and where a text holds them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from medstress.core.hashing import content_hash

MOST_WORDS = 4
"""Words of the longest name that is looked for."""
_WORD = re.compile(r"\w+(?:[-'’]\w+)*")
_MEASURED = re.compile(
    r"\b(?:serum|plasma|urine|urinary|salivary|endogenous)[ -]+\Z", re.IGNORECASE
)
"""What precedes a name that a laboratory measures."""
_OTHER = re.compile(
    r"[ -]+(?:(?:auto)?antibod|(?:co)?transporter|receptor|"
    r"[a-z]*(?:kinase|synthase|synthetase|deaminase|dehydrogenase|hydroxylase|oxidase|reductase|transferase)\b|"
    r"(?:mono|di|tri)phosphate|level|concentration|deficien|metabolism|gene\b)"
    r"|(?: \([^()\n]*\))?[ \t]*[:=][ \t]*[<>]?[ \t]*\d",
    re.IGNORECASE,
)
"""What follows a name that is no drug's there: a receptor, an enzyme, what a laboratory found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A drug's name in a text."""

    start: int
    """Its first character."""
    end: int
    """One past its last character."""
    others: tuple[str, ...]
    """What it may be replaced by, in lower case or as listed, sorted."""


@dataclass(frozen=True, slots=True, eq=False)
class DrugNames:
    """Names of drugs: generic name -> brands, and brand -> generic names."""

    brands: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Generic name, folded -> its brands."""
    generics: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Brand, folded -> its generic names: one if it is clear which drug it is."""

    @classmethod
    def of(
        cls, pairs: Iterable[tuple[str, str]], further: Iterable[tuple[str, str]] = ()
    ) -> DrugNames:
        """Return the names of (brand, generic) pairs.

        Args:
            pairs: both names may be replaced by the other.
            further: the same with generic names that are found in texts and never put in.

        >>> names = DrugNames.of([("Coumadin", "warfarin"), ("Jantoven", "warfarin")])
        >>> names.brands["warfarin"], names.generics["coumadin"]
        (('Coumadin', 'Jantoven'), ('warfarin',))
        """
        brands: dict[str, set[str]] = defaultdict(set)
        generics: dict[str, set[str]] = defaultdict(set)
        for brand, generic in pairs:
            if folded(brand) != folded(generic):
                brands[folded(generic)].add(brand)
                generics[folded(brand)].add(generic)
        for brand, generic in further:
            brands[folded(generic)].add(brand)
        return cls(
            brands={name: tuple(sorted(found)) for name, found in brands.items()},
            generics={name: tuple(sorted(found)) for name, found in generics.items()},
        )

    @property
    def hash(self) -> str:
        """Content hash of all names."""
        return content_hash([sorted(self.brands.items()), sorted(self.generics.items())])

    def generics_in(self, text: str) -> list[Named]:
        """Return the generic names in a text that have a brand, in order."""
        return _named(text, self.brands)

    def brands_in(self, text: str) -> list[Named]:
        """Return the brands in a text of which it is clear what drug they are, in order.

        A brand may look like an everyday word (Today), so it must be capitalised; at the beginning
        of a sentence that says nothing.

        >>> names = DrugNames.of([("today", "nonoxynol-9")])
        >>> len(names.brands_in("Since today.")), len(names.brands_in("She uses Today."))
        (0, 1)
        """
        found = _named(text, self.generics)
        return [each for each in found if len(each.others) == 1 and text[each.start].isupper()]


def folded(name: str) -> str:
    """Return a name without case, with single spaces.

    >>> folded(" Iron  Dextran")
    'iron dextran'
    """
    return " ".join(name.casefold().split())


def _is_of_a_drug(text: str, start: int, end: int) -> bool:
    """Return whether a name speaks of the drug, as far as what stands beside it says.

    >>> _is_of_a_drug("lithium 300 mg", 0, 7), _is_of_a_drug("lithium: 1.2", 0, 7)
    (True, False)
    >>> _is_of_a_drug("serum lithium", 6, 13), _is_of_a_drug("opioid receptor", 0, 6)
    (False, False)
    """
    return not (
        "\n" in text[start:end]
        or _OTHER.match(text, end)
        or _MEASURED.search(text[max(0, start - 20) : start])
    )


def _named(text: str, known: dict[str, tuple[str, ...]]) -> list[Named]:
    """Return the names in a text: the leftmost, and of those the longest."""
    words = [found.span() for found in _WORD.finditer(text)] if known else []
    found, at = [], 0
    while at < len(words):
        for last in range(min(at + MOST_WORDS, len(words)) - 1, at - 1, -1):
            start, end = words[at][0], words[last][1]
            if (others := known.get(folded(text[start:end]))) is not None:
                if _is_of_a_drug(text, start, end):
                    found.append(Named(start=start, end=end, others=others))
                at = last
                break
        at += 1
    return found
