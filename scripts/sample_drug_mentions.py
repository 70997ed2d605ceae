"""What `brand_generic` would rename in your questions, and a random sample of it to judge by hand.

docs/probes.md says what share of mentions speaks of a drug; it was judged on such a sample. Run it
with: python scripts/sample_drug_mentions.py --to brand --n 50 FILE ...
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

import medstress as ms
from medstress.core.drug_names import Named
from medstress.core.items import TEXTS
from medstress.entities.brand_pairs import shipped_drug_names

_AROUND = 60
"""Characters shown on either side."""


@dataclass(frozen=True, slots=True)
class Found:
    """One mention."""

    item: ms.Question
    field: str
    named: Named

    def line(self, rng: np.random.Generator) -> str:
        """The mention in its place, and one of the names that it may get."""
        text, start, end = self.item.text_of(self.field), self.named.start, self.named.end
        before, after = text[max(0, start - _AROUND) : start], text[end : end + _AROUND]
        other = str(rng.choice(self.named.others))
        shown = f"{before}[{text[start:end]} -> {other}]{after}"
        return f"{self.item.id} {self.field}: {' '.join(shown.split())}"


def mentions(item: ms.Question, to: str) -> Iterator[Found]:
    """The drugs of an item that would be renamed."""
    known = shipped_drug_names()
    find = known.generics_in if to == "brand" else known.brands_in
    for field in (*TEXTS, *item.letters):
        for named in find(item.text_of(field)):
            yield Found(item, field, named)


def main() -> None:
    """Print the counts and the sample."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", help="files of questions")
    parser.add_argument("--to", choices=("brand", "generic"), default="brand")
    parser.add_argument("--n", type=int, default=50, help="mentions to print; all if fewer")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    items = [item for path in given.files for item in ms.load_dataset(path)]
    found = [each for item in items for each in mentions(item, given.to)]
    attackable = len({id(each.item) for each in found})
    print(f"{len(items):,} items, {attackable:,} attackable, {len(found):,} mentions")
    rng = np.random.default_rng(given.seed)
    for number in sorted(rng.permutation(len(found))[: given.n]):
        print(found[number].line(rng))


if __name__ == "__main__":
    main()
