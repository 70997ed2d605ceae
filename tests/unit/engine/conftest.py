"""Trials by hand: attacks that ask what they are told to, and victims that read options."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from medstress.attacks.protocol import Attack, Ends
from medstress.core.calls import Backend
from medstress.core.items import Candidate, Question
from medstress.core.queries import Ask, Predict
from medstress.engine.trial import Trial
from medstress.tasks.multiple_choice import AnswerBy, MultipleChoice
from medstress.tasks.templates import load_template
from medstress.tasks.victim import Victim
from medstress.testing import ScriptedBackend, tiny_questions, tiny_resources

ITEM = tiny_questions(1)[0]


def swap(name: str, item: Question = ITEM) -> Predict:
    """A query that puts `name` in place of the item's last option but one."""
    letter = next(letter for letter in item.letters[::-1] if letter != item.key)
    span = next(mention for mention in item.mentions if mention.field == letter)
    return Predict(Candidate(item=item).edit(span, name))


@dataclass(frozen=True)
class ByHand(Attack):
    """An attack whose `run` is given: by default it asks one list of names after the other."""

    lists: tuple[tuple[str, ...], ...] = ()
    budget: int = 8
    body: Callable[[Question, Any], Any] | None = None
    reason: str | None = None
    told: list[Any] = field(default_factory=list, compare=False)
    ends: Ends = "success"
    name = "by_hand"
    is_random = False

    def spec(self) -> dict[str, Any]:
        return {"name": "by_hand", "lists": self.lists, "budget": self.budget}

    def obstacle(self, item: Question, resources: Any) -> str | None:
        return self.reason

    def run(self, item: Question, rng: Any, resources: Any) -> Any:
        if self.body is not None:
            return (yield from self.body(item, rng))
        for names in self.lists:
            self.told.append((yield Ask(tuple(swap(name, item) for name in names))))
        return None


def make_trial(
    attack: Any,
    item: Question = ITEM,
    backend: Backend | None = None,
    *,
    victim: Victim | None = None,
    **given: Any,
) -> Trial:
    """A trial against a victim that chooses, on the data set `d`."""
    task = MultipleChoice(template=load_template("qstab"), answer_by=AnswerBy.CHOICE)
    victim = victim or Victim(label="v", task=task, backend=backend or ScriptedBackend())
    values: dict[str, Any] = {
        "dataset": "d",
        "group": "drugs",
        "attack_label": "by hand",
        "resources": tiny_resources(),
        "seed": None,
    }
    return Trial(item=item, victim=victim, attack=attack, **(values | given))


@pytest.fixture
def by_hand():
    """`by_hand(("a", "b"), ("c",), budget=3)` asks two lists."""

    def make(*lists: Sequence[str], **given: Any) -> ByHand:
        return ByHand(lists=tuple(map(tuple, lists)), **given)

    return make


@pytest.fixture
def trial_of():
    return make_trial


@pytest.fixture
def query_of():
    return swap
