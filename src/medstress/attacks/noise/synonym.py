"""Synonyms: gold entities are replaced by another name of the same thing, or by a near one.

Reference: Araujo, Carvallo, Aspillaga, Parra, "On adversarial examples for biomedical NLP tasks",
2020; METHODS 4.5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias, get_args

from medstress.attacks.choices import BY_CHOICES, CHOICES, check_word
from medstress.attacks.noise.mention_table import Choice
from medstress.attacks.noise.parameters import MentionReplacement
from medstress.core.errors import UsageError

Mode: TypeAlias = Literal["strict", "related"]
Names: TypeAlias = Literal["listed_first", "nearest"]

FIRST_EDITION = "nearest"
"""The value of `names` if a folder's parameters do not have it and mode = "related"."""


@dataclass(frozen=True, kw_only=True)
class Synonym(MentionReplacement):
    """Replace every gold mention that has another name; the rest of the text never changes.

    New names are in lower case, tokenised anew and labelled B-, I-, I-...; mentions without
    another name stay. The names come from `resources.replacements[table]`.

    Differs from the paper, whose source (UMLS through PyMedTermino) also gave names that are
    only related: the default is `strict`. `related` takes a listed name where there is one, and
    else the nearest name of a vocabulary, in an embedding that should not be the one under attack;
    acronyms and names of fewer than four letters have no nearest name, as an embedding knows
    nothing of them.
    """

    mode: Mode = BY_CHOICES
    """`strict`: another name of the same concept; `related`: also a near name, which may name
    something else; default `strict`, as_published and as_released `related`."""
    names: Names | None = BY_CHOICES
    """related: `listed_first` (default), or `nearest`: the nearest name for every mention, acronyms
    too, as the first edition did."""
    synonyms: str = "default"
    """Where listed names come from: `default` (the shipped drug and disease tables), a .csv or
    .tsv table with the columns concept and name, UMLS' MRCONSO.RRF, or an .obo file."""
    embedding: str = BY_CHOICES
    """related: the embedding that measures nearness, as in `[[entities]]`; take one that no victim
    has. Default `ngram`."""
    vocabulary: str | None = None
    """related: `drugs`, `diseases` or a file; default: the built-in one of the mention's type."""
    choice: Choice = "fixed"
    """`fixed`: one name for each mention string, as published; `drawn`: a random one for each
    occurrence."""
    choices: str = "default"
    """`default`, `as_published` or `as_released`: the default of mode (METHODS section 7, row
    23)."""

    name: ClassVar[str] = "synonym"

    def __post_init__(self) -> None:
        check_word(self.name, "choices", self.choices, CHOICES)
        self._fill()
        check_word(self.name, "mode", self.mode, get_args(Mode))
        if self.mode == "related":
            check_word(self.name, "names", self.names, get_args(Names))
        elif self.names is not None:
            raise UsageError(f"{self.name}: names is for mode = 'related', got {self.mode!r}")
        check_word(self.name, "choice", self.choice, get_args(Choice))
        for key in ("synonyms", "embedding"):
            value = getattr(self, key)
            if not isinstance(value, str) or not value:
                raise UsageError(f"{self.name}: {key}: expected a name or a path, got {value!r}")
        if self.synonyms == "none":
            raise UsageError(f"{self.name}: synonyms: 'none' leaves nothing to replace")
        if self.vocabulary is not None and (
            self.mode == "strict" or not isinstance(self.vocabulary, str) or not self.vocabulary
        ):
            raise UsageError(
                f"{self.name}: vocabulary: expected a name or a path, with mode = 'related', "
                f"got {self.vocabulary!r} with mode = {self.mode!r}"
            )

    @property
    def is_listed_first(self) -> bool:
        """Whether a listed name comes before a near one."""
        return self.names != FIRST_EDITION

    @property
    def table(self) -> str:
        """Key of its names in `NoiseResources.replacements`."""
        if self.mode == "strict":
            return f"strict {self.synonyms}"
        near = f"related {self.vocabulary or 'by type'} {self.embedding}"
        return f"{near}, listed first {self.synonyms}" if self.is_listed_first else near

    @property
    def surrogate(self) -> str:
        """What replaces the paper's synonyms, in words.

        >>> Synonym(mode="related").surrogate
        'listed names (default), else the nearest by ngram'
        """
        if self.mode == "strict":
            return f"listed names ({self.synonyms})"
        near = f"the nearest by {self.embedding}"
        return f"listed names ({self.synonyms}), else {near}" if self.is_listed_first else near

    def spec(self) -> dict[str, Any]:
        """Return the parameters; an attack of the first edition is written as in its folders.

        Those have no `names`, and `minilm` even if nothing is embedded.
        """
        found = super().spec()
        if self.names in (None, FIRST_EDITION):
            del found["names"]
        return found

    def _fill(self) -> None:
        """Set the defaults that depend on other keys."""
        put = object.__setattr__
        if self.mode is BY_CHOICES:
            put(self, "mode", "strict" if self.choices == "default" else "related")
        if self.mode == "related" and self.names is None:
            put(self, "names", "listed_first")
        if self.embedding is BY_CHOICES:
            put(self, "embedding", "ngram" if self.names == "listed_first" else "minilm")
