"""Active ingredients of which one may be right where the other is, though they are not equal."""

from __future__ import annotations

from collections.abc import Iterable

from medstress.entities.names import variant_class

_OF_WORDS = {"key_plus_words": "child", "key_subset": "parent"}
_ENANTIOMER = ("es", "lev", "levo", "ar", "dex", "dextro")
"""Beginnings of the names of single enantiomers (INN and USAN); the rest names the racemate."""
_METALS = {
    **dict.fromkeys(("iron", "ferrous", "ferric"), "iron"),
    **{
        each: each
        for each in (
            *("aluminum", "bismuth", "calcium", "copper", "gold", "lithium", "magnesium"),
            *("potassium", "silver", "zinc"),
        )
    },
}
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
    if _is_enantiomer(other, one):
        return "child"
    if _is_enantiomer(one, other):
        return "parent"
    metal = _metal(one)
    return "salt" if metal and metal == _metal(other) else None


def by_wording(one: str, other: str) -> str | None:
    """Return whether the second name is the first with more words, `child`, or less, `parent`."""
    return _OF_WORDS.get(variant_class(other, [one]))


def _is_enantiomer(name: str, racemate: str) -> bool:
    return any(name == start + racemate for start in _ENANTIOMER)


def _metal(ingredient: str) -> str | None:
    first, _, rest = ingredient.partition(" ")
    return _METALS.get(first) if rest else None
