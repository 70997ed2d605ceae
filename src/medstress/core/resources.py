"""The read-only bundle an attack is given: protocols only, built by `experiment`."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from medstress.core.calls import Decoding
from medstress.core.hashing import content_hash
from medstress.core.items import Question
from medstress.core.text import named_at
from medstress.core.validity import Evidence

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]
    IndexArray = NDArray[np.int64]
    SimilarityArray = NDArray[np.float32]


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
            brands={name: tuple(sorted(names)) for name, names in brands.items()},
            generics={name: tuple(sorted(names)) for name, names in generics.items()},
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
        named = _named(text, self.generics)
        return [one for one in named if len(one.others) == 1 and text[one.start].isupper()]


def folded(name: str) -> str:
    """Return a name without case, with single spaces.

    >>> folded(" Iron  Dextran")
    'iron dextran'
    """
    return " ".join(name.casefold().split())


def _is_of_a_drug(text: str, start: int, end: int) -> bool:
    """Return whether a name speaks of the drug, as far as the words next to it say.

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


def _named(text: str, names: dict[str, tuple[str, ...]]) -> list[Named]:
    """Return the names in a text: the leftmost, and of those the longest."""
    words = [match.span() for match in _WORD.finditer(text)] if names else []
    named, at = [], 0
    while at < len(words):
        for last in range(min(at + MOST_WORDS, len(words)) - 1, at - 1, -1):
            start, end = words[at][0], words[last][1]
            if (others := names.get(folded(text[start:end]))) is not None:
                if _is_of_a_drug(text, start, end):
                    named.append(Named(start=start, end=end, others=others))
                at = last
                break
        at += 1
    return named


DECIDES = "passage_decides"
"""Field of a row: false for a passage that does not decide its question."""


@dataclass(frozen=True, slots=True, eq=False)
class Passages:
    """The distinct passages of a data set, before its sample and limit are drawn.

    They are sorted by their content hash, so that what is drawn from them depends on which
    passages the data set has, and on neither the order of its rows nor `--limit`.
    """

    texts: tuple[str, ...] = ()
    """The passages; they are those of the items, not copies."""

    @classmethod
    def of(cls, passages: Iterable[str]) -> Passages:
        """Return passages without empty and repeated ones, in order."""
        return cls(tuple(sorted({each for each in passages if each.strip()}, key=content_hash)))

    @property
    def hash(self) -> str:
        """Content hash of the passages."""
        return content_hash(list(self.texts))

    def naming(self, name: str) -> tuple[int, ...]:
        """Return the indices of the passages that name something, ascending."""
        return _naming(self, name)


@lru_cache(maxsize=4096)
def _naming(passages: Passages, name: str) -> tuple[int, ...]:
    return tuple(i for i, text in enumerate(passages.texts) if named_at(text, name))


Exclusions: TypeAlias = Literal["exclude", "mark", "key_string"]
"""Which names are never drawn (METHODS 3.3). `exclude`: any that could be a second right answer
or repeats an option. `mark`: those that repeat an option. `key_string`: those that are the key
itself, which is the published rule. A name without a distance to the key is never drawn."""


class PerturbationSet(Protocol):
    """The names that may replace entities of a group, and their distances from an anchor."""

    @property
    def names(self) -> Sequence[str]:
        """All names, in the vocabulary's order, shape (n_names,)."""

    def vectors_of(self, indices: IndexArray) -> FloatArray:
        """Return the unit vectors of some names, shape (n, n_dimensions); a zero row if a name has
        none."""

    def cosines(self, direction: FloatArray) -> SimilarityArray:
        """Return the cosine of every name's vector and a direction that is not zero, shape
        (n_names,); 0 for names without a vector."""

    def vector(self, text: str) -> FloatArray:
        """Return the unit vector of one text that need not be in the vocabulary, shape
        (n_dimensions,); zeros if it has none."""

    def distances(self, anchor: str) -> FloatArray:
        """Return h(anchor, name) for every name, shape (n_names,), >= 0; nan where undefined."""

    def distance_to(self, anchor: str, text: str) -> float:
        """Return h(anchor, text); the text need not be in the vocabulary; nan if undefined."""

    def obstacle(self, item: Question) -> str | None:
        """Return why no name has a distance from the item's key, or None."""

    def allowed(self, item: Question, rule: Exclusions = "exclude") -> IndexArray:
        """Return the indices of the names that may be drawn under a rule, ascending; by default
        those that cannot be a second right answer or repeat an option (METHODS 3.3)."""

    def n_excluded(self, item: Question, rule: Exclusions = "exclude") -> Mapping[str, int]:
        """Count the names that the rule leaves out, by reason; reasons without any are absent.
        Each name counts once, under the first reason that fits."""

    def evidence(self, item: Question, name: str, field: str) -> Sequence[Evidence]:
        """Return what tables say of a name in the option `field`; empty if nothing."""

    def objection(self, item: Question, name: str) -> str | None:
        """Return why the rule `exclude` would leave this name out because of its wording, or None:
        `key_duplicate`, `equal_to_option`, or its variant class."""

    def variant_class(self, item: Question, name: str) -> str:
        """Return the name's class against the key: `same_words`, `key_plus_words`, `key_subset`,
        `synonym` or `different` (METHODS 3.3)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What the attacks on one entity group may read."""

    group: str
    """The entity group's name."""
    types: frozenset[str]
    """UMLS semantic types that belong to the group."""
    perturbations: PerturbationSet
    """Replacements of that type."""
    roles: Mapping[str, Decoding] = field(default_factory=dict)
    """The roles that can be asked, and how each generates."""
    names_in: Callable[[str], Sequence[str]] | None = None
    """Finds the names of drugs and diseases in a text, if an attack needs them."""
    noise: Any = None
    """What noise may read (`medstress.attacks.noise.NoiseResources`), if an attack is noise."""
    drugs: DrugNames = field(default_factory=DrugNames)
    """Brand and generic names of drugs, if an attack needs them; else empty."""
    passages: Passages = field(default_factory=Passages)
    """The passages of the item's data set, if an attack needs them; else empty."""
