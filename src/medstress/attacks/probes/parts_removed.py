"""The options without the question, and the question without its context."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from medstress.attacks.probes.protocol import QuestionProbe, whole
from medstress.core.items import TEXTS, Candidate, Question
from medstress.core.resources import Resources

if TYPE_CHECKING:
    from numpy.random import Generator


@dataclass(frozen=True, slots=True, kw_only=True)
class PartsRemoved(QuestionProbe):
    """The base: takes fields away. The rest no longer supports the key, so a lost answer is no
    error, and an answer that stays was not read there."""

    removed: ClassVar[tuple[str, ...]]
    """The fields."""

    @property
    def deterministic(self) -> bool:
        """True."""
        return True

    @property
    def changes_evidence(self) -> bool:
        """True."""
        return True

    def candidates(
        self, item: Question, rng: Generator, resources: Resources
    ) -> Iterator[Candidate]:
        """Yield the only candidate."""
        held = [name for name in self.removed if item.text_of(name)]
        yield Candidate(item=item, edits=tuple(whole(item, name, "") for name in held))


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionsOnly(PartsRemoved):
    """Show the options alone: no passage, context or stem.

    Accuracy over the variants, read against `chance`, says what the options give away by
    themselves: which looks like a key, which the victim has seen as one.

    *Differs from the paper.* Balepur et al. show the choices after exemplars that are choices too;
    here the victim's own prompt stays, with an empty question.

    References:
        Balepur, Ravichander and Rudinger, "Artifacts or abduction: how do LLMs answer
        multiple-choice questions without the question?", ACL 2024.
        Gu et al., "The illusion of readiness", 2025 (arXiv 2509.18234).
    """

    name: ClassVar[str] = "options_only"
    needs_listing: ClassVar[str | None] = "without the question such a prompt is empty"
    removed: ClassVar[tuple[str, ...]] = TEXTS

    def obstacle(self, item: Question, resources: Resources) -> str | None:
        """Return None: every item has a question."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextRemoved(PartsRemoved):
    """Ask the stem without its context, the case before it.

    A victim that answers as before did not need the case. What a question loses with its case
    differs: some stems ask for plain knowledge, and then a kept answer is right.

    *Differs from the paper.* Gu et al. take images and parts of multimodal input away; this is the
    text's counterpart. A passage stays (`passage_none` takes it away).

    References:
        Gu et al., "The illusion of readiness", 2025 (arXiv 2509.18234).
    """

    name: ClassVar[str] = "context_removed"
    edits_only: ClassVar[frozenset[str]] = frozenset(("context",))
    removed: ClassVar[tuple[str, ...]] = ("context",)

    def obstacle(self, item: Question, resources: Resources) -> str | None:
        """Return why the item cannot be attacked, or None."""
        return None if item.context.strip() else "it has no context before its stem"
