"""The key's words give way to "none of the other answers": recalled, or reasoned?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from medstress.attacks.choices import check_word
from medstress.attacks.probes.options_about_others import about_others
from medstress.attacks.probes.protocol import QuestionProbe, distractors, in_random_order, whole
from medstress.core.errors import UsageError
from medstress.core.items import Candidate, Question
from medstress.core.resources import Resources

if TYPE_CHECKING:
    from numpy.random import Generator

KEY, DISTRACTOR = "key", "distractor"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoneOfTheOthers(QuestionProbe):
    """Replace the text of one option by "None of the other answers".

    `key`: the right option's text gives way, so that the same letter is still right if every
    distractor is wrong. A victim that knows the answer by its wording loses it; one that can rule
    the others out keeps it. `distractor`: one distractor, drawn by the seed, gives way and the key
    stays: it shows what the words alone do, without a change of what is known.

    An item with an option that speaks of the others already ("all of the above") is not attackable.

    *Differs from the paper.* Bedi et al. had a clinician check that no distractor is right, which
    kept 68 of 100 questions. Nobody checks it here, so a success is of unknown validity until
    someone reviews it.

    References:
        Bedi, Jiang, Chung, Koyejo and Shah, "Fidelity of medical reasoning in large language
        models", JAMA Network Open 2025.
    """

    name: ClassVar[str] = "none_of_the_others"
    edits_only: ClassVar[frozenset[str]] = frozenset(("options",))
    needs_listing: ClassVar[str | None] = (
        '"none of the other answers" says nothing to a victim that does not see the others'
    )

    replaces: str = KEY
    """The option whose text gives way: `key`, or `distractor`, drawn by the seed."""
    text: str = "None of the other answers"
    """What stands there instead."""

    def __post_init__(self) -> None:
        check_word(self.name, "replaces", self.replaces, (KEY, DISTRACTOR))
        if not isinstance(self.text, str) or not self.text.strip():
            raise UsageError(f"{self.name}: text must be words, got {self.text!r}")

    @property
    def deterministic(self) -> bool:
        """Whether the key gives way."""
        return self.replaces == KEY

    def obstacle(self, item: Question, resources: Resources) -> str | None:
        """Return why the item cannot be attacked, or None."""
        own = self.text.strip().casefold()
        spoken = about_others(item) or any(text.strip().casefold() == own for text in item.options)
        return "an option speaks of the others already" if spoken else None

    def candidates(
        self, item: Question, rng: Generator, resources: Resources
    ) -> Iterator[Candidate]:
        """Yield the only candidate."""
        letter = item.key
        if self.replaces == DISTRACTOR:
            letter = in_random_order(distractors(item), rng)[0]
        yield Candidate(item=item, edits=(whole(item, letter, self.text),))
