"""Synonyms: gold entities are replaced by another name of the same thing, or by a near one.

Reference: Araujo, Carvallo, Aspillaga, Parra, "On adversarial examples for biomedical NLP tasks",
2020; METHODS 4.5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias, get_args

from medstress.attacks.noise.mention_table import Choice, check_choice
from medstress.attacks.noise.parameters import MentionReplacement
from medstress.errors import UsageError, did_you_mean

Mode: TypeAlias = Literal["strict", "related"]


@dataclass(frozen=True, kw_only=True)
class Synonym(MentionReplacement):
    """Replace every gold mention that has another name; the rest of the text never changes.

    What is put in is in lower case, tokenised anew and labelled B-, I-, I-...; mentions without
    another name stay. The names come from `resources.replacements[table]`.

    Differs from the paper, whose source (UMLS through PyMedTermino) also gave names that are
    only related: the default is `strict`.
    """

    mode: Mode = "strict"
    """`strict`: another name of the same concept; `related`: the nearest name of the vocabulary,
    which is the published behaviour and may name something else."""
    synonyms: str = "default"
    """strict: where names come from: `default` (the shipped drug and disease tables), a .csv or
    .tsv table with the columns concept and name, UMLS' MRCONSO.RRF, or an .obo file."""
    embedding: str = "minilm"
    """related: what nearness is measured in, as in `[[entities]]`."""
    vocabulary: str | None = None
    """related: `drugs`, `diseases` or a file; default: the built-in one of the mention's type."""
    choice: Choice = "fixed"
    """`fixed`: one name for each mention string, as published; `drawn`: any, each occurrence."""

    name: ClassVar[str] = "synonym"

    def __post_init__(self) -> None:
        if self.mode not in get_args(Mode):
            raise UsageError(
                f"{self.name}: mode: expected one of {', '.join(get_args(Mode))}, "
                f"got {self.mode!r}{did_you_mean(str(self.mode), get_args(Mode))}"
            )
        check_choice(self.name, self.choice)
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
        return f"related {self.vocabulary or 'by type'} {self.embedding}"
