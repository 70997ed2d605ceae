"""Brand and generic names of the shipped table of drugs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cache

from medstress.core.drug_names import DrugNames
from medstress.entities.tables import shipped_rows

_OF_THE_BODY = frozenset(
    (
        *("alcohol", "calcium", "carbon dioxide", "chloride", "cholesterol", "cortisol"),
        *("dopamine", "epinephrine", "estradiol", "ethanol", "fluoride", "folate", "glucagon"),
        *("glucose", "glycine", "heme", "histamine", "insulin", "iodine", "iron", "lactose"),
        *("lithium", "magnesium", "nicotine", "nitrogen", "norepinephrine", "oxygen", "oxytocin"),
        *("phosphate", "phosphorus", "potassium", "progesterone", "serotonin", "sodium"),
        *("somatostatin", "sucrose", "sulfur", "testosterone", "thyroxine", "urea"),
        *("vasopressin", "water", "zinc"),
    )
)
"""In most texts these are measured, eaten or breathed, not prescribed."""
_SHORTEST = 5
"""Characters of a generic name; shorter ones are abbreviations (HCT)."""


@cache
def shipped_drug_names() -> DrugNames:
    """Return the generic names and brands of each substance of the shipped table.

    Generic names are a substance's preferred, official and common names of five letters or more.
    The one that takes the place of a brand is the preferred one without its salt (minocycline
    hydrochloride gives minocycline), if the table has it so. Brands of one word count: most others
    are combinations (Exforge HCT) or name a form. Substances that the body, food or air holds are
    left out, for their names seldom speak of a drug.

    The larger table (`medstress.entities.drug_names`) places names and is not drawn from: among its
    substances are charcoal, borax and carbon, and among its brands dapagliflozin, of metformin.
    """
    generics: dict[str, list[str]] = defaultdict(list)
    brands: dict[str, list[str]] = defaultdict(list)
    for concept, name, kind, _ in shipped_rows("drugs"):
        if kind == "brand":
            brands[concept].append(name)
        elif len(name) >= _SHORTEST:
            generics[concept].append(name)
    pairs, further = [], []
    for concept, known in generics.items():
        if not _OF_THE_BODY.isdisjoint(known):
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
