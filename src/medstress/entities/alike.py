"""Names that are alike: how tables relate them, and which names the rules refute.

Validity is what people judge. The rules say that a name is wrong, or nothing: they refute names by
their wording and never vouch for one. The tables place two names as the same, as different, or not
at all (unknown is the default), and people read that as evidence.

Names of drugs come with their ingredients, classes and kin. The stems of classes are facts of the
WHO's naming system (INN stems). The lists in `name_rules.tsv` were written for medstress; those of
classes hold what exam questions use.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Literal

from medstress.core.items import Question
from medstress.core.resources import DrugNames
from medstress.core.validity import VARIANT_CLASSES, Evidence, of_reason
from medstress.entities.distances import parent_headings
from medstress.entities.names import DIFFERENT, SYNONYM, normalise, variant_class, word_set, words
from medstress.entities.vocabularies import (
    DRUG_NAMES,
    SynonymGroups,
    load_synonyms,
    name_rules,
    shipped_rows,
)

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


_OF_STEM = {stem: tuple(classes.split(",")) for stem, classes in _RULES["stem"].items()}
"""End of a generic name -> names of its class; the longest end that fits counts."""
_PREFIXES = {start: (name,) for start, name in _RULES["prefix"].items()}
_GROUP_WORDS = re.compile(rf"\b({'|'.join(_RULES['group'])})\b")


def classes_of(ingredient: str) -> tuple[str, ...]:
    """Return the classes of a generic name by its stem; empty if it has none of ours.

    >>> classes_of("lisinopril")[0], classes_of("cefalexin"), classes_of("aspirin")
    ('ace inhibitor', ('cephalosporin',), ())
    """
    fitting = [stem for stem in _OF_STEM if ingredient.endswith(stem) and ingredient != stem]
    if fitting:
        return _OF_STEM[max(fitting, key=len)]
    return next(
        (classes for start, classes in _PREFIXES.items() if ingredient.startswith(start)), ()
    )


ALL_CLASSES = frozenset(
    each for found in (*_OF_STEM.values(), *_PREFIXES.values()) for each in found
)


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
    kinships: list[str] = []
    others = sorted(second)
    for one in sorted(first):
        if one in others:
            continue
        kinds = [kind for other in others if (kind := kin(one, other))]
        if not kinds:
            return None
        kinships.append(kinds[0])
    return kinships[0] if kinships else None


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
        drugs, routes and doses means those drugs; with other words it only mentions them.

        >>> sorted(drug_names().place("Co-trimoxazole").readings[0].ingredients)
        ['sulfamethoxazole', 'trimethoprim']
        >>> drug_names().place("Oral metformin").is_whole, drug_names().place("Colonoscopy")
        (True, None)
        """
        if readings := self._of(normalise(text)):
            return Placed(readings)
        within = re.sub(r"[()\[\]]", " ", normalise(text))
        if readings := self._of(" ".join(within.split())):
            return Placed(readings)
        return self._mentioned(_TOKEN.findall(within.replace("/", " ")))

    def _of(self, normal: str) -> tuple[Reading, ...]:
        """Return what a normalised name may mean; of equal ingredients, the first row counts."""
        readings: dict[frozenset[str], Reading] = {}
        for _, kind, source, ingredients in self._rows.get(normal, ()):
            of = frozenset(ingredients.split("|"))
            readings.setdefault(of, Reading(of, kind, source))
        return tuple(readings.values())

    def _mentioned(self, tokens: Sequence[str]) -> Placed | None:
        ingredients: set[str] = set()
        rest: list[str] = []
        i, source, kind = 0, "", "generic"
        while i < len(tokens):
            for n in range(min(_LONGEST, len(tokens) - i), 0, -1):
                name = " ".join(tokens[i : i + n])
                readings = self._of(name)
                if len(readings) == 1 and len(name) >= _SHORTEST and name not in _ROUTES:
                    ingredients |= readings[0].ingredients
                    source, kind = readings[0].source, readings[0].kind
                    i += n
                    break
            else:
                rest.append(tokens[i])
                i += 1
        if not ingredients:
            return None
        others = [word for word in rest if word not in _ROUTES and not word[0].isdigit()]
        if names_a_class(" ".join(others)):
            return None
        return Placed((Reading(frozenset(ingredients), kind, source),), is_whole=not others)


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
    for concept, generic in generics.items():
        if is_of_the_body(generic):
            continue
        main, stems = _without_salt(generic), {name.split()[0] for name in generic}
        for brand in brands[concept]:
            if brand.isalpha() and brand not in stems:
                pairs.append((brand, main))
                further += [(brand, name) for name in generic if name != main]
    return DrugNames.of(pairs, further)


def _without_salt(names: Sequence[str]) -> str:
    """Return the shortest name that the preferred one, the first, begins with as whole words."""
    return min((name for name in names if f"{names[0]} ".startswith(f"{name} ")), key=len)


# -- names that are alike --------------------------------------------------------------------------

_FUNCTION_TEXT = "a an the of in on to by and or with due from disease diseas disorder syndrome"
_FUNCTION_WORDS = frozenset(words(_FUNCTION_TEXT))

_ENDINGS = name_rules()["ending"]
"""Endings of folded words -> what nouns and adjectives of one stem share: hypertension,
hypertensive; ischemia, ischemic; arthritis, arthritic. The first that fits counts."""
_SPELLINGS = name_rules()["spelling"]
"""Folded words -> one of two that mean the same part or are spelt differently."""
_ROMAN = {"i": "1", "ii": "2", "iii": "3", "iv": "4", "v": "5"}


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """Return what the inflected forms of a folded word share.

    >>> stem("hypertensiv") == stem("hypertension"), stem("ischemic") == stem("ischemia")
    (True, True)
    """
    word = _SPELLINGS.get(word, _ROMAN.get(word, word))
    for ending, shared in _ENDINGS.items():
        if word.endswith(ending) and len(word) > len(ending) + 1:
            return word[: -len(ending)] + shared
    return word


def stems(text: str) -> frozenset[str]:
    """Return the stems of a name's words, without those that only join words.

    >>> stems("Cancer of the breast") == stems("breast cancers")
    True
    """
    folded = words(text)
    kept = [word for word in folded if word not in _FUNCTION_WORDS]
    if folded[-1:] == ["a"]:  # the last word of haemophilia A is no article
        kept.append("a")
    return frozenset(map(stem, kept or folded))


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
        if diseases := frozenset(concept for table, _, concept in concepts if table == "diseases"):
            return diseases, True
        return frozenset(self._inflected.get(stems(name), ())), False

    @cached_property
    def _inflected(self) -> dict[frozenset[str], set[str]]:
        """Return stems of a name -> its concepts. Reading 100,000 names takes half a second."""
        concepts: dict[frozenset[str], set[str]] = {}
        for concept, name in self._names():
            if key := stems(name):
                concepts.setdefault(key, set()).add(concept)
        return concepts

    def parents(self, concepts: Iterable[str]) -> frozenset[str]:
        """Return the concepts right above some concepts."""
        return frozenset().union(*(self._parents.get(concept, ()) for concept in concepts))

    def ancestors(self, concepts: frozenset[str]) -> frozenset[str]:
        """Return all concepts above some concepts."""
        above: frozenset[str] = frozenset()
        new = concepts
        while new := self.parents(new) - above:
            above |= new
        return above


@cache
def disease_names() -> DiseaseNames:
    """Return the shipped diseases with the links of MONDO and of MeSH, read once."""
    mondo = list(shipped_rows("mondo"))
    concept = {r[0]: r[2] if re.match(r"M\w+:", r[2]) else f"MONDO:{r[0]}" for r in mondo}
    parents: dict[str, set[str]] = {}
    for row in mondo:
        parents[concept[row[0]]] = {concept[p] for p in row[1].split() if p in concept}
    for heading, above in parent_headings(list(shipped_rows("mesh"))).items():
        # Trees' roots and numbers without a heading are no diseases.
        headings = {node for node in above if node.startswith("MESH:")}
        parents.setdefault(heading, set()).update(headings)
    listed = load_synonyms("default", Path())
    return DiseaseNames(listed, lambda: ((r[0], r[1]) for r in shipped_rows("diseases")), parents)


Value = Literal["same", "different", "unknown"]

WORDING, INITIALS = "wording", "initials"
DISEASES, STEMS = "MeSH and MONDO", "INN stems"
_AMBIGUOUS = 3
"""Most characters of a name, such as TB, OA or ASA, that may have meanings which no table lists: it
can be found the same as another one, and never different."""
_APPLIED = [frozenset(way.split()) for way in name_rules()["applied"]]
"""How a drug is given, and how much: a text that says one is not one that says another."""


@dataclass(frozen=True, slots=True)
class Relation:
    """One reason to hold two names for the same, or for different ones."""

    kind: str
    """What the *second* name is to the first: one of `medstress.core.validity.KINDS`."""
    value: Value
    """What it says; `unknown` names a relation that decides nothing."""
    source: str
    """Where it comes from, for people."""

    def as_evidence(self) -> Evidence:
        """Return it as evidence about a key: one that is there twice is not right alone.

        Tables refute and never vouch, so names that differ settle nothing.
        """
        valid = False if self.value == "same" else None
        return Evidence(kind=self.kind, source=self.source, valid=valid)


def settled(evidence: Iterable[Relation]) -> bool | None:
    """Return whether the names mean the same by all evidence; None: unknown.

    One piece that says `same` outweighs those that say `different`: a name with several meanings
    is a second right answer by any of them.
    """
    values = {relation.value for relation in evidence}
    return True if "same" in values else False if "different" in values else None


class Relations:
    """Finds evidence in the shipped tables and in the user's synonyms."""

    def __init__(self, synonyms: Sequence[SynonymGroups] = ()) -> None:
        """Keep further sources: groups loaded from UMLS, an OBO file or a table."""
        self._synonyms = synonyms

    def between(self, one: str, other: str) -> tuple[Relation, ...]:
        """Return all evidence on two names, the strongest first; empty: unknown.

        >>> [(e.kind, e.value) for e in Relations().between("ezetimibe", "Vytorin")]
        [('combination_product', 'same')]
        >>> [(e.kind, e.source) for e in Relations().between("salbutamol", "albuterol sulfate")]
        [('salt', 'UNII list (FDA, 2025-06)')]
        """
        if normalise(one) == normalise(other) or (
            word_set(one) and word_set(one) == word_set(other)
        ):
            return (Relation("same_concept", "same", WORDING),)
        worded = None
        relations = [*self._listed(one, other), *_of_drugs(one, other)]
        if settled(relations) is None:
            # The diseases are read only where they are needed: that takes a second.
            relations += _of_diseases(one, other)
        if settled(relations) is not True:
            # Initials have many meanings, and a table knows some: another one refutes nothing.
            if _abbreviates(one, other):
                relations = [Relation("abbreviation", "unknown", INITIALS)]
            if worded := by_wording(one, other):
                relations.append(Relation(worded, "unknown", WORDING))
        if worded or min(len(normalise(one)), len(normalise(other))) <= _AMBIGUOUS:
            relations = [
                replace(r, value="unknown") if r.value == "different" else r for r in relations
            ]
        strongest = sorted(relations, key=lambda r: (r.value != "same", r.kind == "other_concept"))
        return tuple(dict.fromkeys(strongest))

    def _listed(self, one: str, other: str) -> Iterator[Relation]:
        for groups in self._synonyms:
            if normalise(other) in groups.synonyms_of(one):
                kind = "abbreviation" if _abbreviates(one, other) else "synonym"
                is_ours = groups.label == "default"
                source = "shipped synonyms" if is_ours else Path(groups.label).name
                yield Relation(kind, "same", source)


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
        ingredients = ((i, j) for x, y in pairs for i in x.ingredients for j in y.ingredients)
        if not any(i == j or kin(i, j) for i, j in ingredients):
            yield Relation("other_concept", "different", _sources(*pairs[0]))
        return
    equal = [(x, y) for x, y in pairs if x.ingredients == y.ingredients]
    if equal:
        x, y = min(equal, key=lambda pair: pair[1].kind)
        value: Value = "unknown" if _is_another_form(one, other) else "same"
        yield Relation(_kind(one, other, x, y), value, _sources(x, y))
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


def _is_of(group: str, placed: Placed) -> bool:
    return any(group in _classes(reading) for reading in placed.readings)


def _is_another_form(one: str, other: str) -> bool:
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
    return frozenset().union(*(classes_of(ingredient) for ingredient in reading.ingredients))


def _kind(one: str, other: str, x: Reading, y: Reading) -> str:
    """Return what the second name of the same ingredients is to the first."""
    if x.kind != y.kind:
        return "brand" if y.kind == BRAND else "generic"
    if BRAND in (x.kind, y.kind):
        return "synonym"
    base = " and ".join(sorted(x.ingredients))
    plain = [normalise(text) for text in (one, other)]
    if _abbreviates(one, other):
        return "abbreviation"
    # Several words that begin with the base's name: its salt, hydrate or ester.
    stem = normalise(base).partition(" ")[0]
    if any(text != normalise(base) and text.startswith(f"{stem} ") for text in plain):
        return "salt"
    return "synonym"


def _sources(*readings: Reading) -> str:
    return " and ".join(dict.fromkeys(SOURCES[reading.source] for reading in readings))


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


def _abbreviates(one: str, other: str) -> bool:
    """Whether one name is made of the initials of the other, of three words or more."""
    short, long = sorted((normalise(one), normalise(other)), key=len)
    initials = "".join(word[0] for word in long.split())
    return len(short) > 1 and short.replace(".", "") == initials


EQUAL, DUPLICATE = "equal_to_option", "key_duplicate"
"""Reasons that take precedence over variant classes."""


class NameRules:
    """Judges names against the options of a question."""

    def __init__(self, synonyms: SynonymGroups) -> None:
        """Keep the names that would be a second right answer."""
        self._synonyms = synonyms

    def objection(self, item: Question, name: str) -> str | None:
        """Return why `exclude` rejects a name for its wording, or None."""
        normal, (key, forbidden) = normalise(name), _normal_texts(item)
        if normal == key:
            return DUPLICATE
        if normal in forbidden:
            return EQUAL
        kind = self.variant_class(item, name)
        return None if kind == VARIANT_CLASSES[DIFFERENT] else kind

    def variant_class(self, item: Question, name: str) -> str:
        """Return the class of `name` relative to the key's text and the entities in it."""
        references = option_texts(item, item.key)
        return variant_class(name, references, self.synonyms_of(references))

    def synonyms_of(self, references: Iterable[str]) -> frozenset[str]:
        """Return the synonyms of any of some names."""
        return frozenset().union(*(self._synonyms.synonyms_of(text) for text in references))


def option_texts(item: Question, letter: str) -> list[str]:
    """Return the text of one option, then the entities in it."""
    text = item.option(letter)
    return [text, *(text[m.start : m.end] for m in item.mentions if m.field == letter)]


@lru_cache(maxsize=256)
def _normal_texts(item: Question) -> tuple[str, frozenset[str]]:
    """Return the key's text and those of `forbidden_texts`, normalised."""
    return normalise(item.key_text), frozenset(map(normalise, forbidden_texts(item)))


def forbidden_texts(item: Question) -> list[str]:
    """Return the texts that no replacement may equal.

    These are options, entities in them, and texts that would turn one option of several parts into
    another.
    """
    texts = [text for letter in item.letters for text in option_texts(item, letter)]
    options = {letter: normalise(item.option(letter)) for letter in item.letters}
    for letter in item.letters:
        spans = [(m.start, m.end) for m in item.mentions if m.field == letter]
        if letter == item.key or not spans:
            continue
        others = [text for name, text in options.items() if name != letter]
        text = item.option(letter)
        for start, end in spans:
            before, after = normalise(text[:start]), normalise(text[end:])
            texts += [
                other[len(before) : len(other) - len(after)]
                for other in others
                if 0 < len(before) + len(after) < len(other)
                and other.startswith(before)
                and other.endswith(after)
            ]
    return texts


_EXCEPTION = re.compile(r"\b(?:not|except|least|incorrect|false|contraindicated)\b", re.IGNORECASE)
"""Words of questions that ask for the exception, where several options fit what is described."""


def option_evidence(
    item: Question, name: str, field: str, rules: NameRules, relations: Relations
) -> tuple[Evidence, ...]:
    """Return what is known of a name that replaces an entity of a wrong option.

    First what refutes it by the rules, then the tables: against the key, against entities within
    the key, and against the options that stay.

    Args:
        item: the question.
        name: the name.
        field: letter of the option that it is put in.
        rules: the rules of the attack.
        relations: the shipped tables, and the user's synonyms.
    """
    objection = rules.objection(item, name)
    is_synonym = objection == VARIANT_CLASSES[SYNONYM]
    key, *parts = option_texts(item, item.key)
    # What the words alone say is the rules' part.
    of_tables = [e.as_evidence() for e in relations.between(key, name) if e.source != WORDING]
    for part in parts:
        # Another name of a part of the key need not be right where the whole key is.
        if normalise(part) != normalise(key):
            of_tables += [
                replace(relation.as_evidence(), valid=False if is_synonym else None)
                for relation in relations.between(part, name)
                if relation.source != WORDING and relation.value == "same"
            ]
    pieces: list[Evidence] = []
    # A table that knows a synonym says so itself.
    if not (is_synonym and any(piece.valid is False for piece in of_tables)):
        pieces += of_reason(objection, False if objection else None)
    pieces += of_tables
    for letter in item.letters:
        if letter in (item.key, field) or objection == EQUAL:
            continue
        against = relations.between(item.option(letter), name)
        if settled(against):
            pieces.append(replace(against[0].as_evidence(), kind="duplicate_of_option"))
    if word := _EXCEPTION.search(item.stem):
        source = f"the question says {word[0].lower()!r}"
        pieces.append(Evidence(kind="exception_asked", source=source))
    return tuple(dict.fromkeys(pieces))
