"""The protocol of perturbations of tagged texts, what they are given and what they return."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from medstress.core.hashing import content_hash
from medstress.core.sentences import TaggedText

if TYPE_CHECKING:
    from numpy.random import Generator

Tokens: TypeAlias = tuple[str, ...]
Replacements: TypeAlias = Mapping[str, tuple[Tokens, ...]]
"""Mention (tokens joined by spaces, lower case) -> its other names, the preferred one first."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class TokenEdit:
    """One range of tokens and its replacement."""

    start: int
    """First token replaced, in the original item."""
    end: int
    """One past the last token replaced."""
    replacement: Tokens
    """The new tokens, at least one."""


class Perturbed(NamedTuple):
    """A perturbed tagged text."""

    tokens: Tokens
    """The new tokens."""
    labels: Tokens
    """One IOB2 label for each of them."""
    edits: tuple[TokenEdit, ...]
    """What was changed, in order; empty if nothing was."""


@dataclass(frozen=True, kw_only=True)
class NoiseResources:
    """What perturbations may read; built once before a run."""

    lexicon: frozenset[str] = frozenset()
    """Words, in lower case, that `scope = "lexicon"` perturbs wherever they stand."""
    replacements: Mapping[str, Replacements] = field(default_factory=dict)
    """By the perturbation's `table`: other names of the data's mentions."""
    mentions: Mapping[str, tuple[tuple[int, int, str], ...]] = field(default_factory=dict)
    """Text of a pair or question -> (first character, one past the last, type) of its entities."""
    words: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By a noise's `word_list`: words of a file or of mentions, as `word_key` writes them."""
    absent: tuple[str, ...] = ()
    """The word lists of which no word occurs in the data."""
    sources: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By the perturbation's `table`: where the other names of a mention come from."""

    @cached_property
    def most_parts(self) -> Mapping[str, int]:
        """By word list: the most parts that one of its words has."""
        return {
            name: max((word.count(" ") + 1 for word in words), default=0)
            for name, words in self.words.items()
        }

    @cached_property
    def hash(self) -> str:
        """Content hash."""
        tables = {name: dict(table) for name, table in self.replacements.items()}
        words = {name: sorted(words) for name, words in self.words.items()}
        return content_hash([sorted(self.lexicon), tables, dict(self.mentions), words])


class Perturbation(Protocol):
    """Frozen parameters and a pure function."""

    @property
    def stream(self) -> str:
        """Name of the random stream; a control shares that of what it controls."""

    @property
    def deterministic(self) -> bool:
        """True where the seed changes nothing."""

    def spec(self) -> dict[str, Any]:
        """Return the parameters, as JSON values."""

    def perturb(self, item: TaggedText, rng: Generator, resources: NoiseResources) -> Perturbed:
        """Perturb one item.

        Args:
            item: tokens and IOB2 labels.
            rng: of this item; the draws depend on the item and nothing else.
            resources: the lexicon and other names of mentions.
        """
