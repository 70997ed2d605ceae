"""What the probes of the passage share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

from medstress.attacks.protocol import Attack, AttackTraits, Validity
from medstress.core.items import Candidate, Question
from medstress.core.passages import named_at
from medstress.core.queries import Predict, Steps, ask_in_turn
from medstress.core.resources import Resources
from medstress.core.text import Edit, copy_case
from medstress.core.validity import EVIDENCE_CHANGED, RULE

if TYPE_CHECKING:
    from numpy.random import Generator

FIELD = "passage"
NO_PASSAGE = "it has no passage"


@dataclass(frozen=True, slots=True, kw_only=True)
class PassageProbe(Attack):
    """The base: asks candidates whose passage alone is edited, until the victim errs."""

    name: ClassVar[str]
    """Registered name."""

    @abstractmethod
    def candidates(
        self, item: Question, rng: Generator, resources: Resources
    ) -> Iterator[Candidate]:
        """Yield what is asked, in order; nothing beyond the budget is taken."""

    @property
    def most(self) -> int:
        """The budget."""
        return 1

    @property
    def deterministic(self) -> bool:
        """Whether nothing is drawn."""
        return False

    @property
    def needs_passages(self) -> bool:
        """Whether it reads other passages of the data set."""
        return False

    @property
    def changes_evidence(self) -> bool:
        """Whether the edited passage no longer supports the key, or not it alone."""
        return True

    @property
    def traits(self) -> AttackTraits:
        """See `AttackTraits`."""
        return AttackTraits(
            stream=self.name,
            budget=self.most,
            deterministic=self.deterministic,
            needs_entities=False,
            needs_passages=self.needs_passages,
            may_be_refuted=False,
            edits_only=frozenset({FIELD}),
            changes_evidence=self.changes_evidence,
        )

    def spec(self) -> dict[str, Any]:
        """Return the parameters."""
        return {"name": self.name, "budget": self.most, **asdict(self)}

    def label_parameters(self) -> dict[str, Any]:
        """Return the parameters that tell attacks of this name apart in labels."""
        return {"name": self.name, **asdict(self)}

    def validity(self, candidate: Candidate, resources: Resources) -> Validity:
        """Refute every success if the evidence is changed: a lost answer is then no error."""
        if self.changes_evidence:
            return Validity(valid=False, reason=EVIDENCE_CHANGED)
        return Validity(valid=None, reason=RULE)

    def most_queries(self, item: Question, resources: Resources) -> int:
        """Return the budget."""
        return self.most

    def run(self, item: Question, rng: Generator, resources: Resources) -> Steps[Candidate | None]:
        """Ask one candidate after another."""
        drawn = islice(self.candidates(item, rng, resources), self.most)
        reached: Candidate | None = yield from ask_in_turn(map(Predict, drawn))
        return reached


def distractors(item: Question) -> str:
    """Return the letters of all options but the key."""
    return item.letters.replace(item.key, "")


def in_random_order(letters: str, rng: Generator) -> list[str]:
    """Return letters in random order."""
    return [letters[int(i)] for i in rng.permutation(len(letters))]


def key_at(item: Question, text: str) -> list[tuple[int, int]]:
    """Return where a text names the key, but not as a part of another option (iron in iron
    dextran)."""
    found = named_at(text, item.key_text)
    longer = [item.option(x) for x in distractors(item) if named_at(item.option(x), item.key_text)]
    inside = [span for option in longer for span in named_at(text, option)] if found else []
    return [(a, b) for a, b in found if not any(start <= a and b <= end for start, end in inside)]


def with_name(text: str, spans: list[tuple[int, int]], name: str) -> list[Edit]:
    """Return the edits that put a name into spans of the passage, in the case of what stood there.

    Spaces at the ends of the name are left out.
    """
    name = name.strip()
    return [
        Edit(field=FIELD, start=start, end=end, replacement=copy_case(name, text[start:end]))
        for start, end in spans
    ]


def whole(item: Question, text: str) -> Candidate:
    """Return the item with another passage."""
    edit = Edit(field=FIELD, start=0, end=len(item.passage), replacement=text)
    return Candidate(item=item, edits=(edit,))
