"""Name a distractor in the passage wherever it names the key: a victim that reads follows it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from medstress.attacks.choices import check_word
from medstress.attacks.passages.protocol import (
    NO_PASSAGE,
    PassageProbe,
    key_at,
    with_name,
)
from medstress.attacks.probes.protocol import distractors, in_random_order
from medstress.core.items import LETTERS, Candidate, Question
from medstress.core.passages import DECIDES, named_at
from medstress.core.resources import Resources

if TYPE_CHECKING:
    from numpy.random import Generator

RANDOM = "random"


@dataclass(frozen=True, slots=True, kw_only=True)
class PassageSwap(PassageProbe):
    """Replace every mention of the key in the passage by one distractor.

    A mention is the key's text as whole words, in any case. The passage then supports the
    distractor, so a victim that answers it has read (`followed`), and one that still answers the
    key remembers, or did not look (`kept`). A lost answer is no error. Distractors that the passage
    names already are not put in: it would say two things of one name.
    """

    name: ClassVar[str] = "passage_swap"

    distractor: str = RANDOM
    """The option whose text is put in: `random`, drawn by the seed, or a letter."""

    def __post_init__(self) -> None:
        check_word(self.name, "distractor", self.distractor, (RANDOM, *LETTERS))

    @property
    def deterministic(self) -> bool:
        """Whether nothing is drawn."""
        return self.distractor != RANDOM

    def obstacle(self, item: Question, resources: Resources) -> str | None:
        """Return why the item cannot be attacked, or None."""
        if not item.passage.strip():
            return NO_PASSAGE
        if item.metadata.get(DECIDES) is False:
            return "its passage does not decide the question, so there is no evidence to change"
        if not key_at(item, item.passage):
            return "its passage does not name the key"
        if self.distractor == item.key:
            return f"its key is {item.key}, the distractor of this attack"
        if self.distractor != RANDOM and self.distractor not in item.letters:
            return f"it has no option {self.distractor}, the distractor of this attack"
        if not _unnamed(item, self.distractor):
            return "its passage names the distractor already, so a swap would support neither"
        return None

    def candidates(
        self, item: Question, rng: Generator, resources: Resources
    ) -> Iterator[Candidate]:
        """Yield the only candidate."""
        letter = self.distractor
        if letter == RANDOM:
            letter = in_random_order(_unnamed(item, RANDOM), rng)[0]
        edits = with_name(item.passage, key_at(item, item.passage), item.option(letter))
        yield Candidate(item=item, edits=tuple(edits))


def _unnamed(item: Question, distractor: str) -> str:
    """Return the letters of the distractors that may be put in: the passage does not name them."""
    letters = distractors(item) if distractor == RANDOM else distractor
    return "".join(x for x in letters if not named_at(item.passage, item.option(x)))
