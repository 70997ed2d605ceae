"""What every attack is: frozen parameters and a generator."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from medstress.items import Question
from medstress.outcomes import Goal, parse_goal
from medstress.prompts import PromptSet
from medstress.prompts.exemplars import Exemplar
from medstress.queries import Steps

if TYPE_CHECKING:
    from numpy.random import Generator


@dataclass(frozen=True, slots=True, kw_only=True)
class Validity:
    """Whether the key still holds after an attack, as far as known without asking anyone."""

    valid: bool | None = None
    """False where a rule refutes it, else None: unknown. Rules vouch for nothing, so true counts
    as unknown unless the reason names who vouches (`panel`, `checker`)."""
    reason: str | None = None
    """Which rule refutes it; `rule` where rules were asked and none does."""
    variant_class: str | None = None
    """Class of the replacement against the key, for substitutions."""


class Attack(Protocol):
    """An attack on one item; no I/O, no clock, no global state.

    What items and resources are follows from what it attacks: `Question` and `Resources` as a
    rule, and for attacks on sentences (`attacks_on`) those of `medstress.attacks.sentence_attack`.
    """

    @property
    def stream(self) -> str:
        """Name of the random stream: shared by arms that differ in sampler, n or budget."""

    @property
    def budget(self) -> int:
        """The most perturbed queries one trial may consume."""

    @property
    def deterministic(self) -> bool:
        """True where the seed changes nothing; such attacks run once, with seed null."""

    @property
    def goal(self) -> Goal | str:
        """When a candidate counts as success; a text as in the experiment file: `untargeted`,
        `replaced` or an option letter."""

    def spec(self) -> dict[str, Any]:
        """The parameters, as JSON values; part of the fingerprint."""

    def obstacle(self, item: Any, resources: Any) -> str | None:
        """Why this item cannot be attacked, or None; asked before any query."""

    def run(self, item: Any, rng: Generator, resources: Any) -> Steps[Any]:
        """Attack one item.

        Yields:
            Steps; is sent same-length, same-order tuples.

        Returns:
            The candidate the attack prefers, or None; the referee judges for itself.
        """


@runtime_checkable
class RuleChecked(Protocol):
    """An attack with rules of its own about whether the key still holds; others have none."""

    def validity(self, candidate: Any, resources: Any) -> Validity:
        """What the rules say of a success: they refute it, or leave it unknown."""


@runtime_checkable
class Bounded(Protocol):
    """An attack that knows a closer bound than its budget for an item."""

    def most_queries(self, item: Any, resources: Any) -> int:
        """The most queries it can ask about an attackable item, whatever is answered."""


@runtime_checkable
class ReadsFiles(Protocol):
    """An attack some of whose parameters may name files."""

    def with_files(self, base: Path) -> Attack:
        """The attack with its files read, relative to a folder."""


@runtime_checkable
class AsksInTurns(Protocol):
    """An attack that asks the victim in a conversation, about the clean item too."""

    @property
    def budget(self) -> int:
        """As every attack has it."""

    @property
    def prompts(self) -> PromptSet:
        """What is said."""

    @property
    def reasoning_tokens(self) -> int:
        """Most tokens of the victim's reasoning."""

    def draw_exemplars(self, item: Question, rng: Generator) -> tuple[Exemplar, ...]:
        """Draw the worked questions of one run."""


def needs_entities(attack: Attack) -> bool:
    """Whether an attack draws names of an entity group; those that do not say so do."""
    return bool(getattr(attack, "needs_entities", True))


def n_repeats(attack: Attack) -> int:
    """How often an attack runs on each item and seed."""
    return int(getattr(attack, "repeats", 1))


class SearchOn(StrEnum):
    """After which success a search goes on."""

    NEVER = "never"
    """The first success ends it."""
    INVALID = "invalid"
    """One that the attack's rules refute does not end it."""
    SMALLER = "smaller"
    """One of several edits does not end it: fewer of them may do."""
    ALWAYS = "always"
    """None ends it: every query is asked."""


QUESTIONS, TAGGED, PAIRS = "questions", "tagged texts", "sentence pairs"
"""The kinds of items there are."""


def attacks_on(attack: Attack) -> frozenset[str]:
    """The kinds of items an attack is for; questions where it does not say."""
    return frozenset(getattr(attack, "attacks_on", (QUESTIONS,)))


def is_static(attack: Attack) -> bool:
    """Whether it asks one perturbed copy of every item, right at baseline or not: what comes of
    the whole data set needs all answers. False where it does not say."""
    return bool(getattr(attack, "is_static", False))


def search_on(attack: Attack) -> SearchOn:
    """After which success the attack's search goes on; `NEVER` where it does not say."""
    return SearchOn(getattr(attack, "search_on", SearchOn.NEVER))


def goal_for(attack: Attack, item: Any) -> Goal:
    """The goal of an attack on an item; that of the attack where it is the same for all."""
    of_item = getattr(attack, "goal_for", None)
    return goal_of(attack) if of_item is None else of_item(item)


def goal_of(attack: Attack) -> Goal:
    """The goal of an attack, from the object or the text it carries.

    >>> from medstress.attacks import EntitySubstitution
    >>> goal_of(EntitySubstitution(sampler="random", goal="C"))
    Targeted(letter='C', unreadable=False)
    """
    goal = attack.goal
    if isinstance(goal, str):
        return parse_goal(goal, unreadable=bool(getattr(attack, "unreadable_is_success", False)))
    return goal
