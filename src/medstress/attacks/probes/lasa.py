"""Look-alike and sound-alike names of the key among the options."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import product
from typing import TYPE_CHECKING, ClassVar

from medstress.attacks.probes.listed_names import ListedNames
from medstress.attacks.probes.protocol import distractors, whole
from medstress.core.drug_names import folded
from medstress.core.items import Candidate, Question
from medstress.core.passages import named_at
from medstress.core.resources import Resources
from medstress.core.text import Edit, apply_edits, copy_case
from medstress.files.name_pairs import NamePairs

if TYPE_CHECKING:
    from numpy.random import Generator

COLUMNS = ("name", "confused_with")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lasa(ListedNames):
    """Put a name that looks or sounds like the key's in place of a distractor.

    The key is *hydroxyzine 25 mg*: a distractor becomes *hydralazine 25 mg*. A victim that knows
    the drug by its name, and not by what it begins with, answers as before. Names of the key that
    the list holds are looked for as whole words; each look-alike takes each distractor's place, in
    an order drawn by the seed, up to the budget. The list works in both directions.

    The shipped list was written for medstress from names that are known to be confused (the idea is
    that of the lists of the ISMP and the FDA; theirs are not copied). Pairs that could stand for
    each other as an answer, such as prednisone and prednisolone, are left out; still nobody has
    checked the look-alike against each question, so a success is of unknown validity.

    References:
        Institute for Safe Medication Practices, "List of confused drug names" (the idea).
        Lambert, Lin, Chang and Gandhi, "Similarity as a risk factor in drug-name confusion
        errors", Medical Care 1999.
    """

    name: ClassVar[str] = "lasa"
    columns: ClassVar[tuple[str, str]] = COLUMNS

    def obstacle(self, item: Question, resources: Resources) -> str | None:
        """Return why the item cannot be attacked, or None."""
        if self._texts(item):
            return None
        return "its key holds no name that the list pairs with another"

    def most_queries(self, item: Question, resources: Resources) -> int:
        """Return the number of variants, at most the budget."""
        return min(self.budget, len(self._texts(item)) * len(distractors(item)))

    def candidates(
        self, item: Question, rng: Generator, resources: Resources
    ) -> Iterator[Candidate]:
        """Yield one look-alike in one distractor's place after another."""
        placed = list(product(self._texts(item), distractors(item)))
        for number in rng.permutation(len(placed)):
            text, letter = placed[int(number)]
            yield Candidate(item=item, edits=(whole(item, letter, text),))

    def _texts(self, item: Question) -> list[str]:
        """Return the key's text under each name that is confused with its own, in order."""
        pairs = self.pairs if isinstance(self.pairs, NamePairs) else shipped_pairs()
        there = {option.strip().casefold() for option in item.options}
        found: dict[str, str] = {}
        for name, other in (*pairs.rows, *((b, a) for a, b in pairs.rows)):
            spans = named_at(item.key_text, name)
            if not spans or folded(name) == folded(other):
                continue
            text = _renamed(item.key_text, spans, other)
            if text.strip().casefold() not in there:
                found.setdefault(text.casefold(), text)
        return [found[text] for text in sorted(found)]


@cache
def shipped_pairs() -> NamePairs:
    """Return the pairs of the shipped list."""
    text = (files("medstress.attacks") / "data" / "lasa.tsv").read_text("utf-8")
    rows = [line.split("\t") for line in text.splitlines()[1:]]
    return NamePairs(tuple((first, second) for first, second in rows))


def _renamed(text: str, spans: list[tuple[int, int]], name: str) -> str:
    return apply_edits(
        text,
        [
            Edit(field="key", start=a, end=b, replacement=copy_case(name, text[a:b]))
            for a, b in spans
        ],
    )
