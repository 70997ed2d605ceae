"""Brand names for generic ones, or the reverse: the same drug under its other name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

from medstress.attacks.choices import check_word
from medstress.attacks.probes.listed_names import ListedNames, tells_options_apart
from medstress.core.drug_names import DrugNames, Named
from medstress.core.items import TEXTS, Candidate, Question
from medstress.core.resources import Resources
from medstress.core.text import Edit
from medstress.files.name_pairs import NamePairs

if TYPE_CHECKING:
    from numpy.random import Generator

BRAND, GENERIC = "brand", "generic"
ALL, QUESTION, OPTIONS = "all", "question", "options"
_ENDS = ".?!:"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrandGeneric(ListedNames):
    """Replace every generic name of a drug by one of its brands, or every brand by its generic.

    All drugs are replaced at once, in question and options. A drug with several brands gets another
    one in each variant, in an order drawn by the seed; where all have one there is one variant. The
    key stays the key, whatever it is called. Names come from the shipped table (FDA's UNII list) or
    the user's file; brands that look like words must be capitalised, and a brand of which it is not
    clear what drug it is stays. So do, of the shipped names, words (Today) and substances of the
    body or food, and every name beside what makes it another thing: a receptor, an enzyme, a
    level, a laboratory's value. A variant in which two options would read alike is not asked.

    *Differs from the paper.* Gallifant et al. put in one brand a drug, from a list of their own,
    of which nothing is in ours. Nobody checked ours against the questions: brands of old days or
    other countries are among them, and a success is of unknown validity until someone reviews it.

    References:
        Gallifant et al., "Language models are surprisingly fragile to drug names in biomedical
        benchmarks", EMNLP Findings 2024 (RABBITS, arXiv 2406.12066).
    """

    name: ClassVar[str] = "brand_generic"
    needs_drugs: ClassVar[bool] = True
    columns: ClassVar[tuple[str, str]] = (BRAND, GENERIC)

    to: str = BRAND
    """Which name is put in: `brand` or `generic`."""
    field: str = ALL
    """Where: `all`, `question` or `options`."""

    def __post_init__(self) -> None:
        # The zero-argument form does not work in a class with slots.
        super(BrandGeneric, self).__post_init__()
        check_word(self.name, "to", self.to, (BRAND, GENERIC))
        check_word(self.name, "field", self.field, (ALL, QUESTION, OPTIONS))

    def obstacle(self, item: Question, resources: Resources) -> str | None:
        """Return why the item cannot be attacked, or None."""
        if self._n_variants(item, resources):
            return None
        other = GENERIC if self.to == BRAND else BRAND
        return f"it holds no {other} name of a drug whose {self.to} name is known"

    def most_queries(self, item: Question, resources: Resources) -> int:
        """Return the number of variants, at most the budget."""
        return min(self.budget, self._n_variants(item, resources))

    def candidates(
        self, item: Question, rng: Generator, resources: Resources
    ) -> Iterator[Candidate]:
        """Yield a variant with other brands each time."""
        found = self._found(item, resources)
        distinct = dict.fromkeys(each.others for _, each in found)
        orders = {others: rng.permutation(len(others)) for others in distinct}
        for number in range(self._n_variants(item, resources)):
            edits = []
            for field, each in found:
                order = orders[each.others]
                name = each.others[int(order[number % len(order)])]
                edits.append(_edit(item, field, each, name, is_brand=self.to == BRAND))
            candidate = Candidate(item=item, edits=tuple(edits))
            if tells_options_apart(candidate):
                yield candidate

    def _n_variants(self, item: Question, resources: Resources) -> int:
        return max((len(each.others) for _, each in self._found(item, resources)), default=0)

    def _found(self, item: Question, resources: Resources) -> list[tuple[str, Named]]:
        """Return field and name of every drug that is replaced."""
        fields = () if self.field == OPTIONS else TEXTS
        fields = fields if self.field == QUESTION else (*fields, *item.letters)
        known = _of(self.pairs) if isinstance(self.pairs, NamePairs) else resources.drugs
        find = known.generics_in if self.to == BRAND else known.brands_in
        return [(field, each) for field in fields for each in find(item.text_of(field))]


@lru_cache(maxsize=8)
def _of(pairs: NamePairs) -> DrugNames:
    return DrugNames.of(pairs.rows)


def _edit(item: Question, field: str, named: Named, name: str, *, is_brand: bool) -> Edit:
    """Return the edit that puts a name in: capitalised if it is a brand or a sentence begins."""
    before = item.text_of(field)[: named.start].rstrip()
    begins = item.text_of(field)[named.start].isupper() and (not before or before[-1] in _ENDS)
    if is_brand or begins:
        name = name[0].upper() + name[1:]
    elif name[1:].islower():
        name = name.lower()
    return Edit(field=field, start=named.start, end=named.end, replacement=name)
