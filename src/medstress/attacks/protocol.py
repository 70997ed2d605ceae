"""What an attack is: parameters, what it declares about itself, and a generator of queries."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from enum import StrEnum
from functools import wraps
from itertools import islice
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Literal,
    TypeAlias,
    TypeVar,
    dataclass_transform,
    get_args,
)

from pydantic import ConfigDict, ValidationError
from pydantic.dataclasses import dataclass as checked

from medstress.core.errors import UsageError, did_you_mean
from medstress.core.evidence import Evidence
from medstress.core.items import PAIRS as PAIRS
from medstress.core.items import QUESTIONS as QUESTIONS
from medstress.core.items import TAGGED as TAGGED
from medstress.core.items import Question
from medstress.core.outcomes import (
    Goal,
    Measured,
    Outcome,
    Prediction,
    Replaced,
    Targeted,
    Untargeted,
    parse_goal,
)
from medstress.core.queries import Ask, CleanAnswer, Consult, Predict, Step, Steps
from medstress.core.registry import load
from medstress.core.seeding import rng_for
from medstress.prompts import PromptSet
from medstress.prompts.exemplars import Exemplar

if TYPE_CHECKING:
    from numpy.random import Generator

Need: TypeAlias = Literal[
    "names",
    "drugs",
    "mentions",
    "passages",
    "scores",
    "listing",
    "follow_up",
    "turns",
    "attacker",
    "judge",
    "paraphraser",
]
"""What must be there. `names`: an `[[entities]]` group. `drugs`: brand and generic names
(`resources.drugs`). `mentions`: a finder of drugs and diseases in a text (`resources.names_in`).
`passages`: those of the data set (`resources.passages`). A victim that gives `scores`, that is
shown a `listing` of the options, or that is spoken to again after its answer (`follow_up`), or
throughout (`turns`). Roles: `attacker`, `judge`, `paraphraser`."""

Ends: TypeAlias = Literal["success", "valid", "smallest", "all"]
"""What ends a search: `success`, the first; `valid`, the first that the attack's rules do not
refute; `smallest`, one that is a single edit; `all`: nothing, every query is asked."""

UNBOUNDED = 1_000_000_000
"""The budget of an attack that asks as much as there is: more names than any vocabulary holds."""

A = TypeVar("A")


@dataclass_transform(frozen_default=True, kw_only_default=True)
def parameters(kind: type[A]) -> type[A]:
    """Make the fields of an attack the keys of its `[[attack]]` table.

    The class becomes a frozen dataclass whose values pydantic checks, strictly: no text becomes a
    number. `Annotated[int, Field(ge=1)]` and `Literal["near", "far"]` give ranges and words;
    `__post_init__` is for what concerns several keys. What is wrong is a `UsageError` of one
    sentence.
    """
    made: Any = checked(
        frozen=True,
        kw_only=True,
        config=ConfigDict(strict=True, extra="forbid", arbitrary_types_allowed=True),
    )(kind)
    check = made.__init__

    @wraps(check)
    def init(self: Any, *args: Any, **keys: Any) -> None:
        try:
            check(self, *args, **keys)
        except ValidationError as failure:
            known = [one.name for one in fields(made) if one.init]
            raise UsageError(f"{kind.name}: {_fault(failure, known)}") from None  # type: ignore[attr-defined]

    made.__init__ = init
    checked_type: type[A] = made
    return checked_type


_PLAIN = {
    "a valid integer": "a whole number",
    "a valid boolean": "true or false",
    "a valid string": "a text",
    "a valid tuple": "a list",
    "a valid number": "a number",
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
}


def _fault(failure: ValidationError, known: list[str]) -> str:
    """Say in one sentence what is wrong with the first parameter that pydantic refuses."""
    errors = failure.errors()
    error, *others = [one for one in errors if one["loc"][:1] == errors[0]["loc"][:1]]
    key, value = str(next(iter(error["loc"]), "")), error["input"]
    if error["type"] == "unexpected_keyword_argument":
        hint = f" (known: {', '.join(known)})"
        return f"unknown key {key!r}{did_you_mean(key, known) or hint}"
    message = error["msg"].replace("Input should be", "expected").removeprefix("Value error, ")
    for word, plain in _PLAIN.items():
        message = message.replace(word, plain)
    if not key:  # what `__post_init__` says of several keys
        return message
    message += "".join(one["msg"].replace("Input should be", " or") for one in others)
    words = re.findall(r"'([^']*)'", message) if error["type"] == "literal_error" else ()
    return f"{key}: {message}, got {value!r}{did_you_mean(str(value), words)}"


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


_SEARCH_ON: Mapping[Ends, SearchOn] = {
    "success": SearchOn.NEVER,
    "valid": SearchOn.INVALID,
    "smallest": SearchOn.SMALLER,
    "all": SearchOn.ALWAYS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """How a conversation with the victim begins."""

    prompts: PromptSet
    """What is said."""
    exemplars: tuple[Exemplar, ...]
    """Worked questions before the item."""


class Attack(ABC):
    """An attack on one item: no I/O, no clock, no state between items.

    A subclass is decorated with `parameters`, sets `name`, and writes `obstacle` and `run`; it
    overrides `validity` where rules can refute a success. What it does not declare otherwise, by a
    class attribute or by a property of its parameters, is as the properties here say.
    """

    name: ClassVar[str]
    """In files and entry points."""

    @property
    def budget(self) -> int:
        """The most queries about one item, in one trial."""
        return 1

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of items it takes: `questions`, `tagged texts`, `sentence pairs`."""
        return frozenset({QUESTIONS})

    @property
    def needs(self) -> frozenset[Need]:
        """What must be there for it to run; see `Need`."""
        return frozenset()

    @property
    def fields(self) -> frozenset[str]:
        """The fields it edits: `passage`, `context`, `stem`, `options`; empty: any.

        An item is not attackable if the victim's prompt shows none of them. Options are seen by
        every victim, since one that is shown no list scores their texts; an attack that makes sense
        only on the list needs `listing`.
        """
        return frozenset()

    @property
    def success(self) -> Goal:
        """When an answer is a success; pairs are measured alone unless this is `Moved`."""
        return Untargeted()

    @property
    def ends(self) -> Ends:
        """What ends the search; see `Ends`."""
        return "success"

    @property
    def is_random(self) -> bool:
        """Whether the seed changes anything; if not, there is one trial, with seed null."""
        return True

    @property
    def is_judged(self) -> bool:
        """Whether a changed answer is an error; not so where the edit changes the evidence."""
        return True

    @property
    def every_item(self) -> bool:
        """Whether items that are wrong on the clean prompt are asked too.

        With `ends = "all"` these are probes: every variant of every item, whose answers are kept.
        Else it is one perturbed copy of every item, of kinds that score whole data sets.
        """
        return False

    @property
    def control(self) -> str | None:
        """The harmless edits that stand beside it by default; None: none."""
        return "no_op"

    @property
    def stream(self) -> str:
        """Name of the random stream. Parameters are no part of it, so they share their draws."""
        return self.name

    @abstractmethod
    def obstacle(self, item: Any, resources: Any) -> str | None:
        """Return why this item cannot be attacked, or None; called before any query."""

    @abstractmethod
    def run(self, item: Any, rng: Generator, resources: Any) -> Steps[Any]:
        """Attack one item.

        Args:
            item: of one of `kinds`.
            rng: the trial's own random numbers.
            resources: a `Resources`; of attacks on sentences also `NoiseResources`.

        Yields:
            Steps; is sent same-length, same-order tuples.

        Returns:
            The candidate the attack prefers, or None; the referee judges for itself.
        """

    def validity(self, candidate: Any, resources: Any) -> Validity | None:
        """Judge a success by the attack's own rules, which refute it or leave it unknown.

        None if the attack has no rules.
        """
        return None

    # -- what follows is derived, or goes when all attacks declare the values above ---------------
    def spec(self) -> dict[str, Any]:
        """Return the parameters as JSON, with `name` and `budget`; part of the fingerprint."""
        values = asdict(self) if is_dataclass(self) else {}
        budget = None if self.budget == UNBOUNDED else self.budget
        return {"name": self.name, **values, "budget": budget}

    def label_parameters(self) -> dict[str, Any]:
        """Return the parameters that tell attacks of this name apart in labels."""
        return self.spec()

    @property
    def traits(self) -> AttackTraits:
        """The former description, from the declared values."""
        goal = self.success
        words = {Untargeted: "untargeted", Replaced: "replaced"}.get(type(goal), goal)
        is_probe = self.every_item and self.ends == "all"
        return AttackTraits(
            stream=self.stream,
            budget=self.budget,
            deterministic=not self.is_random,
            goal=goal.letter if isinstance(goal, Targeted) else words,
            unreadable_is_success=getattr(goal, "unreadable", False),
            item_kinds=self.kinds,
            needs_entities="names" in self.needs,
            needs_names="mentions" in self.needs,
            needs_drugs="drugs" in self.needs,
            needs_passages="passages" in self.needs,
            edits_only=shown_fields(self),
            changes_evidence=not self.is_judged,
            needs_scores="by its parameters" if "scores" in self.needs else None,
            roles={role: True for role in ROLES if role in self.needs},
            is_static=self.every_item and not is_probe,
            search_on=_SEARCH_ON[self.ends],
            may_be_refuted=self.ends == "valid",
            attack_all=is_probe,
            keeps_answers=is_probe,
            needs_listing=_UNLISTED if "listing" in self.needs else None,
            follows_up="follow_up" in self.needs,
            control=self.control,
            puts_one_name="names" in self.needs,
        )

    def goal_for(self, item: Any) -> Goal:
        """Return when a candidate of this item counts as success."""
        goal, unreadable = self.traits.goal, self.traits.unreadable_is_success
        if isinstance(goal, str):
            goal = parse_goal(goal, unreadable=unreadable)
        if isinstance(goal, Untargeted) and item is not None and not item.is_judged:
            return Measured()
        return goal

    def goal_on(self, item: Any, resources: Any) -> Goal:
        """Return the goal on this item for what judges the answers: by default `goal_for`."""
        return self.goal_for(item)

    def edited_options(self, item: Any, resources: Any) -> frozenset[str] | None:
        """Return the letters of the options that it may edit; None if it does not know."""
        if not _declares(self):
            return None
        if self.obstacle(item, resources) is not None:
            return frozenset()
        edited = {
            edit.field
            for n in range(_N_DRIVEN if self.is_random else 1)
            for query in islice(
                never_wrong(self, item, _any_rng(self, item, n), resources), _MOST_DRIVEN
            )
            for edit in query.candidate.edits
        }
        return frozenset(edited & set(item.choices))

    def is_static_on(self, item: Any) -> bool:
        """Return whether the perturbed copy of this item is asked even if it cannot be flipped."""
        is_scored = not (_declares(self) and isinstance(item, Question))
        return self.traits.is_static and is_scored

    def n_excluded(self, candidate: Any, resources: Any) -> Mapping[str, int] | None:
        """Count the names that it never draws, by reason; None if it does not know."""
        return None

    def supported(self, candidate: Any) -> str | None:
        """Return the letter of the option that the edited evidence supports, or None."""
        return None

    def most_queries(self, item: Any, resources: Any) -> int:
        """Return the most queries it can ask about an attackable item, whatever the answers."""
        budget = self.traits.budget
        if not _declares(self):
            return min(budget, int(resources.perturbations.allowed(item).size))
        if not isinstance(item, Question) or ROLES & self.needs:
            return budget
        if self.obstacle(item, resources) is not None:
            return 0
        rng = _any_rng(self, item)
        return sum(1 for _ in islice(never_wrong(self, item, rng, resources), budget))

    def with_files(self, base: Path) -> Attack:
        """Return the attack with the files read that its parameters name, relative to a folder."""
        return self

    def on_trial(self, seed: int | None, repeat: int) -> Attack:
        """Return the attack as one trial of each item runs it: by default itself."""
        return self

    def turns(self, item: Question, rng: Generator) -> Turns:
        """Return how the conversation of one trial begins; called if the traits say `in_turns`."""
        raise NotImplementedError


ROLES = frozenset({"attacker", "judge", "paraphraser"})
_UNLISTED = "it means nothing where no list of options is shown"
_MOST_DRIVEN, _N_DRIVEN = 1000, 16


def shown_fields(attack: Attack) -> frozenset[str]:
    """Return the fields of which a victim must show one; empty if it need not.

    Options are seen by every victim, unless it is the list of them that counts.
    """
    if "options" in attack.fields and "listing" not in attack.needs:
        return frozenset()
    return attack.fields


def _declares(attack: Attack) -> bool:
    """Whether an attack declares the values of `Attack`, and no traits."""
    return type(attack).traits is Attack.traits


def _any_rng(attack: Attack, item: Any, n: int = 0) -> Generator:
    return rng_for(n, f"{attack.stream}/bound", "", item.id)


def attack_class(name: str) -> type[Any]:
    """Load the class of an attack; its fields are the keys of an `[[attack]]` table.

    Raises:
        UsageError: no attack has this name, or it is not a class of an attack.
    """
    kind: type[Any] = load("attacks", name)
    if not is_dataclass(kind):
        raise UsageError(
            f"attack {name!r}: expected a class decorated with parameters, got {kind!r}"
        )
    if missing := sorted(getattr(kind, "__abstractmethods__", ())):
        raise UsageError(
            f"attack {name!r}: {kind.__module__}.{kind.__qualname__} has no "
            f"{' and no '.join(missing)}; every attack needs obstacle and run"
        )
    return kind


def rebuilt(spec: Mapping[str, Any]) -> Attack | None:
    """Return the attack that stored parameters describe; None if it is not installed any more."""
    try:
        kind = attack_class(spec["name"])
        names = {field.name for field in fields(kind) if field.init}
        given = {k: v for k, v in spec.items() if k in names and v is not None}
        made = kind(**given)
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


_DECLARED: Mapping[str, Any] = {
    "name": str,
    "budget": int,
    "kinds": frozenset,
    "needs": frozenset,
    "fields": frozenset,
    "ends": str,
    "is_random": bool,
    "is_judged": bool,
    "every_item": bool,
    "control": str | None,
}


def attack_fault(made: Any) -> str | None:
    """Say why an object is not an attack, as the end of a sentence; None if nothing is wrong."""
    if not isinstance(made, Attack):
        return "is no Attack: its class has to inherit medstress.plugin.Attack"
    if not _declares(made):
        traits = getattr(made, "traits", None)
        return None if isinstance(traits, AttackTraits) else "has no traits"
    for name, kind in _DECLARED.items():
        value = getattr(made, name, None)
        if not isinstance(value, kind) or (kind is int and type(value) is not int):
            wanted = getattr(kind, "__name__", str(kind))
            return f"has no proper {name}: expected {wanted}, got {value!r}"
    if made.budget < 1:
        return f"has a budget of {made.budget}: expected at least 1"
    if strange := made.needs - set(get_args(Need)):
        word = min(strange)
        return f"needs {word!r}, which is unknown{did_you_mean(word, get_args(Need))}"
    if made.ends not in get_args(Ends):
        return f"ends = {made.ends!r}: expected one of {', '.join(get_args(Ends))}"
    if not hasattr(made.success, "reached"):
        return f"has no proper success: expected a Goal, got {made.success!r}"
    return None


def never_wrong(attack: Attack, item: Any, rng: Generator, resources: Any) -> Iterator[Predict]:
    """Yield what an attack asks a victim that is always right, lazily.

    So one learns how often it asks at most, and which options it edits. An attack that consults
    other models ends here.
    """
    scores = tuple(-0.5 if x == item.key else -2.0 for x in item.choices) or None
    held = Prediction(outcome=Outcome.RIGHT, answer=item.key, scores=scores)
    steps, replies = attack.run(item, rng, resources), None
    try:
        step: Step = next(steps)
        while not isinstance(step, Consult):
            replies = ()
            if isinstance(step, Ask):
                yield from step.queries
                replies = (held,) * len(step.queries)
            elif isinstance(step, CleanAnswer):
                replies = (held,)
            step = steps.send(replies)
    except StopIteration:
        return
    finally:
        steps.close()
