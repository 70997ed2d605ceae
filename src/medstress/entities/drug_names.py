"""Names of drugs: ingredients, classes, kin, and pairs of brand and generic name.

The stems of classes are facts of the WHO's naming system (INN stems). The lists in `name_rules.tsv`
were written for medstress; those of classes hold what exam questions use.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from medstress.core.resources import DrugNames
from medstress.entities.names import normalise, variant_class
from medstress.entities.vocabularies import DRUG_NAMES, name_rules, shipped_rows

_RULES = name_rules()
_OF_THE_BODY = frozenset(_RULES["body"])
"""In most questions these are measured, eaten, breathed or abused, not prescribed."""
_MEASURED = frozenset(_RULES["measured"])
"""Words of names of substances that the body or food holds."""
WORDS = frozenset(_RULES["word"])
"""Words, names of people and of places that the table has as names of drugs."""


def is_of_the_body(names: Collection[str]) -> bool:
    """Return whether a substance is one that the body, food or air holds, or a habit.

    >>> is_of_the_body(["albumin human", "albumin"]), is_of_the_body(["warfarin"])
    (True, False)
    """
    return any(name in _OF_THE_BODY or not _MEASURED.isdisjoint(name.split()) for name in names)


STEMS = {stem: tuple(classes.split(",")) for stem, classes in _RULES["stem"].items()}
"""End of a generic name -> names of its class; the longest end that fits counts."""
_PREFIXES = {start: (name,) for start, name in _RULES["prefix"].items()}
_GROUP_WORDS = re.compile(rf"\b({'|'.join(_RULES['group'])})\b")


def classes_of(ingredient: str) -> tuple[str, ...]:
    """Return the classes of a generic name by its stem; empty if it has none of ours.

    >>> classes_of("lisinopril")[0], classes_of("cefalexin"), classes_of("aspirin")
    ('ace inhibitor', ('cephalosporin',), ())
    """
    fitting = [stem for stem in STEMS if ingredient.endswith(stem) and ingredient != stem]
    if fitting:
        return STEMS[max(fitting, key=len)]
    return next((found for start, found in _PREFIXES.items() if ingredient.startswith(start)), ())


ALL_CLASSES = frozenset(each for found in (*STEMS.values(), *_PREFIXES.values()) for each in found)


def class_name(text: str) -> str | None:
    """Return the class that a text names, in the singular, or None.

    >>> class_name("Beta-blockers"), class_name("metoprolol")
    ('beta blocker', None)
    """
    plain = " ".join(re.sub(r"[^a-z0-9 ]", " ", text.lower().replace("-", " ")).split())
    for form in (plain, plain.removesuffix("s")):
        if form in ALL_CLASSES:
            return form
    return None


def names_a_class(text: str) -> bool:
    """Whether a text speaks of some group of drugs, so that any drug may belong to it."""
    return class_name(text) is not None or bool(_GROUP_WORDS.search(text))


_OF_WORDS = {"key_plus_words": "child", "key_subset": "parent"}
_ENANTIOMER = ("es", "lev", "levo", "ar", "dex", "dextro")
"""Beginnings of the names of single enantiomers (INN and USAN); the rest names the racemate."""
_METALS = _RULES["metal"]
"""First word of a salt -> the metal that acts. Sodium is left out: it mostly only carries an acid,
and sodium chloride is not given for sodium bicarbonate."""


def kin_of_sets(first: Iterable[str], second: Iterable[str]) -> str | None:
    """Return what ingredients are to others, of which each of the first has an equal or kin.

    Returns:
        Kind of evidence, or None: one of the first has neither, or all are equal.

    >>> kin_of_sets({"omeprazole"}, {"esomeprazole", "naproxen"})
    'child'
    >>> kin_of_sets({"esomeprazole", "naproxen"}, {"omeprazole"})
    """
    found: list[str] = []
    others = sorted(second)
    for one in sorted(first):
        if one in others:
            continue
        kinds = [kind for other in others if (kind := kin(one, other))]
        if not kinds:
            return None
        found.append(kinds[0])
    return found[0] if found else None


def kin(one: str, other: str) -> str | None:
    """Return what the second of two unequal ingredients is to the first, or None.

    >>> kin("insulin", "insulin lispro"), kin("levalbuterol", "albuterol")
    ('child', 'parent')
    >>> kin("lithium carbonate", "lithium citrate"), kin("metformin", "warfarin")
    ('salt', None)
    """
    if worded := by_wording(one, other):
        return worded
    for first, second, kind in ((one, other, "child"), (other, one, "parent")):
        if any(second == start + first for start in _ENANTIOMER):
            return kind
    metals = [
        _METALS.get(first) for first, _, rest in (one.partition(" "), other.partition(" ")) if rest
    ]
    return "salt" if len(metals) == 2 and metals[0] and metals[0] == metals[1] else None


def by_wording(one: str, other: str) -> str | None:
    """Return whether the second name is the first with more words, `child`, or less, `parent`."""
    return _OF_WORDS.get(variant_class(other, [one]))


SOURCES = {
    "unii": "UNII list (FDA, 2025-06)",
    "fda": "Drugs@FDA (2022-08)",
    "spellings": "list of medstress",
}
"""Source in the table -> what people read."""

BRAND = "brand"

_ROUTES = frozenset(_RULES["route"])
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


class DrugTable:
    """Looks up names of drugs; immutable once built."""

    def __init__(self, rows: Iterable[Sequence[str]]) -> None:
        """Group rows of name, kind, source and ingredients by name."""
        # A run looks up a few of 100,000 names: what a row says is read when its name is asked.
        self._rows: dict[str, list[Sequence[str]]] = {}
        for row in rows:
            self._rows.setdefault(normalise(row[0]), []).append(row)

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
def drug_names() -> DrugTable:
    """Return the shipped table, read once."""
    return DrugTable(shipped_rows(DRUG_NAMES))


_SHORTEST_PAIRED = 5
"""Characters of a name; shorter ones are abbreviations (HCT), also of other things (BAL, PRES)."""


@cache
def shipped_drug_names() -> DrugNames:
    """Return the generic names and brands of each substance of the shipped table.

    Generic names are a substance's preferred, official and common names of five letters or more.
    The one that takes the place of a brand is the preferred one without its salt (minocycline
    hydrochloride gives minocycline), if the table has it so. Brands of one word of five letters or
    more count: most others are combinations (Exforge HCT), name a form or are abbreviations.
    Substances that the body, food or air holds and names that are words (Today) are left out, for
    they seldom speak of a drug (`WORDS`).

    The larger table (`drug_names`) places names and is not drawn from: among its
    substances are charcoal, borax and carbon, and among its brands dapagliflozin, of metformin.
    """
    generics: dict[str, list[str]] = defaultdict(list)
    brands: dict[str, list[str]] = defaultdict(list)
    for concept, name, kind, *_ in shipped_rows("drugs"):
        if len(name) < _SHORTEST_PAIRED or name in WORDS:
            continue
        if kind == "brand":
            brands[concept].append(name)
        else:
            generics[concept].append(name)
    pairs, further = [], []
    for concept, known in generics.items():
        if is_of_the_body(known):
            continue
        main, stems = _without_salt(known), {name.split()[0] for name in known}
        for brand in brands[concept]:
            if brand.isalpha() and brand not in stems:
                pairs.append((brand, main))
                further += [(brand, name) for name in known if name != main]
    return DrugNames.of(pairs, further)


def _without_salt(names: Sequence[str]) -> str:
    """Return the shortest name that the preferred one, the first, begins with as whole words."""
    return min((name for name in names if f"{names[0]} ".startswith(f"{name} ")), key=len)
