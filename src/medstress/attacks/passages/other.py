"""The passage of another question, or none: what the passage is worth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from medstress.attacks.passages.protocol import NO_PASSAGE, PassageProbe, whole
from medstress.core.items import Candidate, Question
from medstress.core.passages import named_at
from medstress.core.resources import Resources

if TYPE_CHECKING:
    from numpy.random import Generator


@dataclass(frozen=True, slots=True, kw_only=True)
class PassageOther(PassageProbe):
    """Show the passage of another question of the data set, which does not name the key.

    It is drawn by the seed among all passages of the data set, each once, before any limit or
    sample; what is drawn depends on which passages there are, not on the order of the rows.
    """

    name: ClassVar[str] = "passage_other"

    @property
    def needs_passages(self) -> bool:
        """True."""
        return True

    def obstacle(self, item: Question, resources: Resources) -> str | None:
        """Return why the item cannot be attacked, or None."""
        if not item.passage.strip():
            return NO_PASSAGE
        if not any(_is_other(item, text) for text in resources.passages.texts):
            return "the data set has no other passage that does not name the key"
        return None

    def candidates(
        self, item: Question, rng: Generator, resources: Resources
    ) -> Iterator[Candidate]:
        """Yield the only candidate."""
        texts = resources.passages.texts
        order = rng.permutation(len(texts))
        yield whole(item, next(texts[int(i)] for i in order if _is_other(item, texts[int(i)])))


@dataclass(frozen=True, slots=True, kw_only=True)
class PassageNone(PassageProbe):
    """Take the passage away."""

    name: ClassVar[str] = "passage_none"

    @property
    def deterministic(self) -> bool:
        """True."""
        return True

    def obstacle(self, item: Question, resources: Resources) -> str | None:
        """Return why the item cannot be attacked, or None."""
        return None if item.passage.strip() else NO_PASSAGE

    def candidates(
        self, item: Question, rng: Generator, resources: Resources
    ) -> Iterator[Candidate]:
        """Yield the only candidate."""
        yield whole(item, "")


def _is_other(item: Question, text: str) -> bool:
    return text != item.passage and not named_at(text, item.key_text)
