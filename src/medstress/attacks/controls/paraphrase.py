"""Paraphrases: other words for the same facts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from medstress.attacks.controls.control import Control
from medstress.attacks.controls.facts import Original
from medstress.attacks.controls.rewording import Rewording, rewording_of
from medstress.attacks.controls.written_paraphrases import ROLE, ask_written
from medstress.attacks.protocol import AttackTraits
from medstress.core.items import Candidate, Question
from medstress.core.queries import Predict, Steps
from medstress.core.resources import Resources

if TYPE_CHECKING:
    from numpy.random import Generator

_LAST_SAMPLE = 2**31


@dataclass(frozen=True, slots=True, kw_only=True)
class Paraphrase(Control):
    """Ask the question in other words.

    Phrases of clinical vignettes and exam questions are replaced by others that say the same, and
    lead-ins such as "It is recorded that" come before sentences where that changes too little.
    Every variant differs from the question in at least a fifth of its words (word-level edit
    distance over words) and keeps its numbers in their order, denials, sides, sexes, ages, times
    and the names of drugs and diseases; a variant that does not is not asked. Options and
    passage stay.

    Where the experiment has a `[role.paraphraser]`, it writes the variants; one that fails the same
    check is replaced by one of the lexicon.
    """

    name: ClassVar[str] = "paraphrase"
    edits_only: ClassVar[frozenset[str]] = frozenset(("context", "stem"))
    lack: ClassVar[str] = "the lexicon cannot change a fifth of its words"

    def variants(self, item: Question, rng: Generator, resources: Resources) -> Iterator[Predict]:
        """Yield all variants, in random order."""
        return map(Predict, self._rewording(item, resources).variants(rng))

    def n_variants(self, item: Question, resources: Resources) -> int:
        """Return the number of variants."""
        return self._rewording(item, resources).n

    @property
    def traits(self) -> AttackTraits:
        """See `AttackTraits`."""
        return replace(self._traits(), needs_names=True, roles={ROLE: False})

    def ask(
        self, item: Question, rng: Generator, resources: Resources, most: int
    ) -> Steps[Candidate | None]:
        """Ask up to `most` variants, written by the role if there is one."""
        if ROLE not in resources.roles:
            return (yield from Control.ask(self, item, rng, resources, most))
        sample = int(rng.integers(1, _LAST_SAMPLE))
        rewording = self._rewording(item, resources)
        return (
            yield from ask_written(
                item,
                resources.roles[ROLE],
                sample,
                Original(item.question, rewording.names),
                self.variants(item, rng, resources),
                most,
            )
        )

    def _rewording(self, item: Question, resources: Resources) -> Rewording:
        names = () if resources.names_in is None else tuple(resources.names_in(item.question))
        return rewording_of(item, names)
