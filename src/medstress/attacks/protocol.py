"""The base class of attacks: parameters, a description of itself, and a generator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medstress.core.errors import UsageError
from medstress.core.evidence import Evidence
from medstress.core.items import Question
from medstress.core.outcomes import Goal, parse_goal
from medstress.core.queries import Steps
from medstress.core.registry import fault_of, load
from medstress.tasks.prompt_sets import Exemplar, PromptSet

if TYPE_CHECKING:
    from numpy.random import Generator

QUESTIONS, TAGGED, PAIRS = "questions", "tagged texts", "sentence pairs"
"""The kinds of items that attacks take. Attacks on sentence pairs take labelled pairs too."""


class SearchOn(StrEnum):
    """After which success a search goes on."""

    NEVER = "never"
    """The first success ends it."""
    INVALID = "invalid"
    """A success that the attack's rules refute does not end it."""
    SMALLER = "smaller"
    """A success of several edits does not end it: fewer may be enough."""
    ALWAYS = "always"
    """No success ends it: every query is asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackTraits:
    """What an attack declares about itself; all but `stream` and `budget` have defaults."""

    stream: str
    """Name of the random stream. Leave parameters out: attacks that differ in them share draws."""
    budget: int
    """The most perturbed queries one trial may ask."""
    deterministic: bool = False
    """Whether the seed changes nothing; such attacks run once, with seed null."""
    goal: Goal | str = "untargeted"
    """When an answer is a success: a `Goal`, or `untargeted`, `replaced` or an option letter."""
    unreadable_is_success: bool = False
    """For a goal given as text: whether an unreadable answer is a success."""
    item_kinds: frozenset[str] = frozenset({QUESTIONS})
    """The kinds of items it attacks: of `questions`, `tagged texts`, `sentence pairs` (labelled
    pairs included)."""
    needs_entities: bool = True
    """Whether it draws names of an `[[entities]]` group; else it runs without one."""
    needs_names: bool = False
    """Whether it asks for the drugs and diseases in a text (`resources.names_in`)."""
    needs_drugs: bool = False
    """Whether it asks for brand and generic names of drugs (`resources.drugs`)."""
    needs_passages: bool = False
    """Whether it reads the other passages of the data set (`resources.passages`)."""
    edits_only: frozenset[str] = frozenset()
    """The fields it edits, such as `passage`; empty: any. A victim whose prompt shows none of them
    is not attackable."""
    changes_evidence: bool = False
    """Whether the text no longer supports the key after its edits, so that a lost answer is no
    error."""
    needs_scores: str | None = None
    """The parameter, as written in TOML, for which the victim must give scores; None: no need."""
    roles: Mapping[str, bool] = field(default_factory=dict)
    """Models it asks beside the victim, such as `attacker`, and whether it needs them."""
    repeats: int = 1
    """Trials per item and seed."""
    is_static: bool = False
    """Whether it asks one perturbed copy of every item, including those wrong at baseline; see
    `Attack.is_static_on`."""
    search_on: SearchOn = SearchOn.NEVER
    """After which success the search goes on."""
    may_be_refuted: bool = True
    """Whether its rules may refute a success: such a success is asked again, as the first is."""
    attack_all: bool = False
    """Whether items that are wrong at baseline are attacked too; no rate counts them."""
    asks_wrong: bool = False
    """Whether an item that is wrong at baseline is asked once, to see whether the edit makes the
    answer right."""
    keeps_answers: bool = False
    """Whether the option of every answer is kept with the trial, for rates over all variants. A
    control beside such an attack asks all its variants too, of the same items."""
    needs_listing: str | None = None
    """Why the options must stand in the victim's prompt; None: they need not. A victim whose prompt
    lists none is refused."""
    follows_up: bool = False
    """Whether it goes on speaking after the victim's answer (edits of `follow_up`). A victim that
    holds no conversation is refused."""
    control: str | None = None
    """The control that stands beside it by default; None: as the way of asking has it."""
    puts_one_name: bool = False
    """Whether every candidate holds one name of the vocabulary, which bounds its length."""
    adds_bytes: int | None = None
    """The most bytes that its edits add to a prompt; None if that is unknown or `puts_one_name`."""
    reasoning_tokens: int | None = None
    """Most tokens of the victim's reasoning, for attacks that hold a conversation with it
    (`Attack.turns`); None for those that ask single questions."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "search_on", SearchOn(self.search_on))  # may come as text

    @property
    def in_turns(self) -> bool:
        """Whether the victim is asked in a conversation, about the clean item too."""
        return self.reasoning_tokens is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Validity:
    """Whether the key still holds after an attack, as far as known without asking anyone."""

    valid: bool | None = None
    """False where a rule refutes it, else None: unknown. Rules vouch for nothing, so true counts
    as unknown unless the reason is `panel`, which vouches."""
    reason: str | None = None
    """Which rule refutes it; `rule` if rules were checked and none does."""
    variant_class: str | None = None
    """Class of the replacement against the key, for substitutions."""
    evidence: tuple[Evidence, ...] = ()
    """What tables and hierarchies say of the replacement, for people who look at the success."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """How a conversation with the victim begins."""

    prompts: PromptSet
    """What is said."""
    exemplars: tuple[Exemplar, ...]
    """Worked questions before the item."""


class Attack(ABC):
    """An attack on one item; no I/O, no clock, no global state.

    A subclass defines `traits`, `spec`, `obstacle` and `run`; the rest has defaults.
    Items are `Question`s and resources `Resources`; for attacks on sentences both are those of
    `medstress.attacks.noise.attack`.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def traits(self) -> AttackTraits:
        """What the attack is: a class attribute, or a property if parameters decide."""

    @abstractmethod
    def spec(self) -> dict[str, Any]:
        """Return the parameters as JSON, with `name` and `budget`; part of the fingerprint."""

    @abstractmethod
    def obstacle(self, item: Any, resources: Any) -> str | None:
        """Return why this item cannot be attacked, or None; called before any query."""

    @abstractmethod
    def run(self, item: Any, rng: Generator, resources: Any) -> Steps[Any]:
        """Attack one item.

        Yields:
            Steps; is sent same-length, same-order tuples.

        Returns:
            The candidate the attack prefers, or None; the referee judges for itself.
        """

    def goal_for(self, item: Any) -> Goal:
        """Return when a candidate of this item counts as success: by default as the traits say."""
        goal, unreadable = self.traits.goal, self.traits.unreadable_is_success
        return parse_goal(goal, unreadable=unreadable) if isinstance(goal, str) else goal

    def goal_on(self, item: Any, resources: Any) -> Goal:
        """Return the goal on this item for what judges the answers: by default `goal_for`."""
        return self.goal_for(item)

    def edited_options(self, item: Any, resources: Any) -> frozenset[str] | None:
        """Return the letters of the options that it may edit; None if it does not know."""
        return None

    def is_static_on(self, item: Any) -> bool:
        """Return whether the perturbed copy of this item is asked even if it cannot be flipped.

        By default as `traits.is_static` says; scores of whole data sets need such copies.
        """
        return self.traits.is_static

    def validity(self, candidate: Any, resources: Any) -> Validity | None:
        """Judge a success by the attack's own rules, which refute it or leave it unknown.

        None if the attack has no rules.
        """
        return None

    def n_excluded(self, candidate: Any, resources: Any) -> Mapping[str, int] | None:
        """Count the names that it never draws, by reason; None if it does not know."""
        return None

    def supported(self, candidate: Any) -> str | None:
        """Return the letter of the option that the edited evidence supports; None if it supports
        none, or if that is unknown. Asked of attacks whose traits say `changes_evidence`."""
        return None

    def most_queries(self, item: Any, resources: Any) -> int:
        """Return the most queries it can ask about an attackable item, whatever the answers."""
        return min(self.traits.budget, int(resources.perturbations.allowed(item).size))

    def label_parameters(self) -> dict[str, Any]:
        """Return the parameters that tell attacks of this name apart in labels."""
        return self.spec()

    def with_files(self, base: Path) -> Attack:
        """Return the attack with the files read that its parameters name, relative to a folder."""
        return self

    def on_trial(self, seed: int | None, repeat: int) -> Attack:
        """Return the attack as one trial of each item runs it: by default itself."""
        return self

    def turns(self, item: Question, rng: Generator) -> Turns:
        """Return how the conversation of one trial begins; called if the traits say `in_turns`."""
        raise NotImplementedError


def attack_class(name: str) -> type[Any]:
    """Load the class of an attack; its fields are the keys of an `[[attack]]` table.

    Raises:
        UsageError: no attack has this name, or it is not a class of an attack.
    """
    kind: type[Any] = load("attacks", name)
    if not is_dataclass(kind):
        raise UsageError(f"attack {name!r}: expected a frozen dataclass, got {kind!r}")
    if missing := sorted(getattr(kind, "__abstractmethods__", ())):
        raise UsageError(
            f"attack {name!r}: {kind.__module__}.{kind.__qualname__} has no "
            f"{' and no '.join(missing)}; every attack needs traits, spec, obstacle and run"
        )
    return kind


def rebuilt(spec: Mapping[str, Any]) -> Attack | None:
    """Return the attack that stored parameters describe; None if it is not installed any more."""
    try:
        kind = attack_class(spec["name"])
        names = {field.name for field in fields(kind) if field.init}
        made = kind(**{key: value for key, value in spec.items() if key in names})
    except Exception:  # noqa: BLE001 - plug-ins may raise anything
        return None
    return made if isinstance(made, Attack) else None


def make_attack(name: str, parameters: Mapping[str, Any]) -> Attack:
    """Build an attack.

    Raises:
        UsageError: no attack has this name, it refuses its parameters, or it is no `Attack`.
    """
    attack: Attack = attack_class(name)(**parameters)
    if fault := attack_fault(attack):
        raise UsageError(f"attack {name!r} {fault}")
    return attack


def attack_fault(made: Any) -> str | None:
    """Say why an object is not an attack, or None; see `registry.fault_of`."""
    return fault_of(made, Attack, AttackTraits)
