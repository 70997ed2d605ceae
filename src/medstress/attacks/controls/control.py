"""The base class of controls: changes without meaning, asked as an attack would ask its edits."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

from medstress.attacks.choices import check_budget
from medstress.attacks.protocol import Attack, AttackTraits, Legacy, Validity
from medstress.core.items import Candidate, Question
from medstress.core.queries import Predict, Steps, ask_in_turn
from medstress.core.resources import Resources
from medstress.core.validity import RULE

if TYPE_CHECKING:
    from numpy.random import Generator

MAX_BUDGET = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Control(Legacy):
    """Ask variants of a question that keep its meaning, until the victim errs.

    A victim that loses an answer here loses it to chance, so the rate of any other attack has to be
    read against its rate at the same budget. A control stands alone as an `[[attack]]`, or beside
    an attack as the arm `<attack> / <control>` (`ControlArm`). What it draws depends on the item,
    the seed and nothing else: not on the attack, its budget or any answer.
    """

    name: ClassVar[str]
    """The registered name."""
    control: ClassVar[str | None] = None
    edits_only: ClassVar[frozenset[str]] = frozenset()
    """As in `AttackTraits`."""
    keeps_options: ClassVar[bool] = True
    """Whether it leaves the texts of the options as they are."""
    most_bytes: ClassVar[int | None] = None
    """As `adds_bytes` in `AttackTraits`."""
    lack: ClassVar[str]
    """Why an item without any variant cannot be attacked."""

    budget: int = 8
    """Variants asked, 1 to 1,000."""

    def __post_init__(self) -> None:
        check_budget(self.name, self.budget, MAX_BUDGET)

    @property
    def traits(self) -> AttackTraits:
        """See `AttackTraits`."""
        return self._traits()

    def _traits(self) -> AttackTraits:
        return AttackTraits(
            stream=self.name,
            budget=self.budget,
            needs_entities=False,
            may_be_refuted=False,
            edits_only=self.edits_only,
            adds_bytes=self.most_bytes,
        )

    @abstractmethod
    def variants(self, item: Question, rng: Generator, resources: Resources) -> Iterator[Predict]:
        """Yield distinct variants in random order; how many are taken changes none of them."""

    @abstractmethod
    def n_variants(self, item: Question, resources: Resources) -> int:
        """Return how many variants the item has, or a lower bound that is at least the budget."""

    def beside(self, attack: Attack) -> Control:
        """Return the control as it stands beside an attack: by default itself."""
        return self

    def unfit(self, attack: Attack) -> str | None:
        """Say why it cannot be the control of an attack, or None."""
        return None

    def spec(self) -> dict[str, Any]:
        """Return the parameters."""
        return {"name": self.name, **asdict(self)}

    def obstacle(self, item: Question, resources: Resources) -> str | None:
        """Return why the item cannot be attacked, or None."""
        return None if self.n_variants(item, resources) else self.lack

    def most_queries(self, item: Question, resources: Resources) -> int:
        """Return the budget, or the number of variants if it is smaller."""
        return min(self.budget, self.n_variants(item, resources))

    def validity(self, candidate: Candidate, resources: Resources) -> Validity:
        """Leave the validity unknown: the rules of the edits were kept, and rules do not vouch."""
        return Validity(valid=None, reason=RULE)

    def run(self, item: Question, rng: Generator, resources: Resources) -> Steps[Candidate | None]:
        """Ask one variant after another."""
        return (yield from self.ask(item, rng, resources, self.budget))

    def ask(
        self, item: Question, rng: Generator, resources: Resources, most: int
    ) -> Steps[Candidate | None]:
        """Ask up to `most` variants, until one reaches the goal."""
        drawn = islice(self.variants(item, rng, resources), most)
        reached: Candidate | None = yield from ask_in_turn(drawn)
        return reached
