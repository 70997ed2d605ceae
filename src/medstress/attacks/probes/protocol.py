"""What probes share: they ask a few candidates in turn, and some ask all of them of all items."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

from medstress.attacks.protocol import AttackTraits, Legacy, SearchOn, Validity
from medstress.core.items import Candidate, Question
from medstress.core.queries import Predict, Steps, ask_in_turn
from medstress.core.resources import Resources
from medstress.core.text import Edit
from medstress.core.validity import EVIDENCE_CHANGED, RULE

if TYPE_CHECKING:
    from numpy.random import Generator

MAX_BUDGET = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe(Legacy):
    """The base: asks candidates in turn, until a success ends it."""

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
    def changes_evidence(self) -> bool:
        """Whether the edited text no longer supports the key, or not it alone."""
        return False

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


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionProbe(Probe):
    """Asks all its variants of all items, those that are answered wrongly before among them.

    Beside the rates of every attack (a trial is flipped if some variant takes a right answer), its
    rows hold `variants`: accuracy over all answers, the share of items right on all variants and
    the share answered alike on all, ReAcc and ReCon of Cocchieri et al., ReMedQA, EACL 2026. A
    control beside it asks as many variants of the same items, so each has a value to be read
    against. Answers are compared by option, wherever it stands and however it is worded.
    """

    control: ClassVar[str | None] = "no_op"
    """As in `AttackTraits`."""
    edits_only: ClassVar[frozenset[str]] = frozenset()
    """As in `AttackTraits`."""
    needs_listing: ClassVar[str | None] = None
    """As in `AttackTraits`."""
    needs_drugs: ClassVar[bool] = False
    """As in `AttackTraits`."""
    follows_up: ClassVar[bool] = False
    """As in `AttackTraits`."""

    @property
    def traits(self) -> AttackTraits:
        """See `AttackTraits`."""
        return AttackTraits(
            stream=self.name,
            budget=self.most,
            deterministic=self.deterministic,
            needs_entities=False,
            needs_drugs=self.needs_drugs,
            may_be_refuted=False,
            edits_only=self.edits_only,
            needs_listing=self.needs_listing,
            follows_up=self.follows_up,
            changes_evidence=self.changes_evidence,
            search_on=SearchOn.ALWAYS,
            attack_all=True,
            keeps_answers=True,
            control=self.control,
        )


def distractors(item: Question) -> str:
    """Return the letters of all options but the key."""
    return item.letters.replace(item.key, "")


def in_random_order(letters: str, rng: Generator) -> list[str]:
    """Return letters in random order."""
    return [letters[int(i)] for i in rng.permutation(len(letters))]


def whole(item: Question, field: str, text: str) -> Edit:
    """Return the edit that puts a text in place of a whole field."""
    return Edit(field=field, start=0, end=len(item.text_of(field)), replacement=text)


def added(item: Question, sentence: str) -> Edit:
    """Return the edit that adds a sentence before the stem: at the end of the context if any."""
    if not item.context:
        return Edit(field="stem", start=0, end=0, replacement=f"{sentence} ")
    text = item.context.rstrip()
    space = " " if text.rstrip("\"'”’)")[-1:] in {*".?!:"} else "\n"  # a table has no full stop
    return Edit(field="context", start=len(text), end=len(text), replacement=f"{space}{sentence}")
