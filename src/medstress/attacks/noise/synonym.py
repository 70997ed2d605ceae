"""Synonyms: gold entities are replaced by another name of the same thing, or by a near one.

Reference: Araujo, Carvallo, Aspillaga, Parra, "On adversarial examples for biomedical NLP tasks",
2020; METHODS 4.5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias, get_args

from medstress.attacks.choices import BY_CHOICES, CHOICES, check_word
from medstress.attacks.noise.mention_table import Choice
from medstress.attacks.noise.parameters import MentionReplacement
from medstress.core.errors import UsageError

Mode: TypeAlias = Literal["strict", "related"]


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
    synonyms: str = "default"
    """Where listed names come from: `default` (the shipped drug and disease tables), a .csv or
    .tsv table with the columns concept and name, UMLS' MRCONSO.RRF, or an .obo file."""
    embedding: str = "ngram"
    """related: the embedding that measures nearness, as in `[[entities]]`; take one that no victim
    has."""
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
        if self.mode is BY_CHOICES:
            mode = "strict" if self.choices == "default" else "related"
            object.__setattr__(self, "mode", mode)
        check_word(self.name, "mode", self.mode, get_args(Mode))
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
    def table(self) -> str:
        """Key of its names in `NoiseResources.replacements`."""
        if self.mode == "strict":
            return f"strict {self.synonyms}"
        near = f"related {self.vocabulary or 'by type'} {self.embedding}"
        return f"{near}, listed first {self.synonyms}"

    @property
    def surrogate(self) -> str:
        """What replaces the paper's synonyms, in words.

        >>> Synonym(mode="related").surrogate
        'listed names (default), else the nearest by ngram'
        """
        if self.mode == "strict":
            return f"listed names ({self.synonyms})"
        return f"listed names ({self.synonyms}), else the nearest by {self.embedding}"
