"""Replace whole entities by other names of them, looked up in a table built beforehand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from medstress.attacks.noise.projection import apply_edits
from medstress.attacks.noise.protocol import Perturbed, Replacements, TokenEdit, Tokens
from medstress.core.sentences import Entity, TaggedText

if TYPE_CHECKING:
    from numpy.random import Generator

Choice: TypeAlias = Literal["fixed", "drawn"]


def mention_key(tokens: Sequence[str]) -> str:
    """Return the key of a mention in a table.

    >>> mention_key(("Salicylic", "Acid"))
    'salicylic acid'
    """
    return " ".join(tokens).lower()


def replace_mentions(
    item: TaggedText, table: Replacements, choice: Choice, rng: Generator
) -> Perturbed:
    """Replace every gold entity that the table knows; the rest of the item stays.

    Args:
        item: tokens and IOB2 labels.
        table: other names of mentions.
        choice: `fixed`, always the first name, or `drawn`, any.
        rng: used only to draw names.
    """
    edits = []
    for entity, names in known_mentions(item, table):
        name = names[0] if choice == "fixed" else names[int(rng.random() * len(names))]
        edits.append(TokenEdit(start=entity.start, end=entity.end, replacement=name))
    return apply_edits(item, edits)


def known_mentions(
    item: TaggedText, table: Replacements
) -> Iterator[tuple[Entity, tuple[Tokens, ...]]]:
    """Yield the gold entities that a table has other names for, with these names, in order."""
    for entity in item.entities:
        if names := table.get(mention_key(item.tokens[entity.start : entity.end])):
            yield entity, names
