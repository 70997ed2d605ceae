"""What an attack is: parameters, what it declares about itself, and a generator of queries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
from functools import wraps
from itertools import islice
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Literal,
    Protocol,
    TypeAlias,
    TypeVar,
    dataclass_transform,
    get_args,
)

from pydantic import ConfigDict, ValidationError
from pydantic.dataclasses import dataclass as checked

from medstress.core.errors import UsageError, did_you_mean, fault_of, unknown
from medstress.core.hashing import rng_for
from medstress.core.items import PAIRS as PAIRS
from medstress.core.items import QUESTIONS as QUESTIONS
from medstress.core.items import TAGGED as TAGGED
from medstress.core.items import Question
from medstress.core.outcomes import (
    Goal,
    Measured,
    Moved,
    Outcome,
    Prediction,
    Replaced,
    Targeted,
    Untargeted,
)
from medstress.core.queries import Ask, CleanAnswer, Consult, Predict, Step, Steps
from medstress.core.registry import load
from medstress.core.validity import Evidence

if TYPE_CHECKING:
    from numpy.random import Generator

    from medstress.tasks.prompt_sets import Exemplar

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
shown a `listing` of the options, or that is spoken to again after its answer (`follow_up`) or
throughout (`turns`). The role `attacker`; `judge` and `paraphraser` are asked where they are."""

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
            names = [one.name for one in fields(made) if one.init]
            raise UsageError(f"{kind.name}: {_fault(failure, names)}") from None  # type: ignore[attr-defined]

    made.__init__ = init
    checked_type: type[A] = made
    return checked_type


def _fault(failure: ValidationError, keys: list[str]) -> str:
    """Say in one sentence what is wrong with the first parameter that pydantic refuses."""
    errors = failure.errors()
    first, *others = [one for one in errors if one["loc"][:1] == errors[0]["loc"][:1]]
    key = str(next(iter(first["loc"]), ""))
    if first["type"] == "unexpected_keyword_argument":
        return unknown("key", key, keys)
    also = "".join(one["msg"].replace("Input should be", " or") for one in others)
    return fault_of({**first, "msg": first["msg"] + also}, key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Validity:
    """Whether the key still holds after an attack, as far as known without asking anyone."""

    valid: bool | None = None
    """False where a rule refutes it, else None: unknown. Only people vouch for a success, so true
    counts as unknown."""
    reason: str | None = None
    """Which rule refutes it; `rule` if rules were checked and none does."""
    variant_class: str | None = None
    """Class of the replacement against the key, for substitutions."""
    evidence: tuple[Evidence, ...] = ()
    """What tables and hierarchies say of the replacement, for people who look at the success."""


if TYPE_CHECKING:
    declared = property
else:

    class declared:  # noqa: N801
        """A default that a class attribute, a property or a field of a subclass overrides."""

        def __init__(self, default):
            self._default, self.__doc__ = default, default.__doc__

        def __get__(self, attack, kind=None):
            if attack is None:  # so that a field of this name without a default has none
                raise AttributeError
            return self._default(attack)


class Shows(Protocol):
    """What an attack asks of a victim."""

    def shows(self, name: str) -> bool:
        """Return whether its prompt shows a field of an item, or lists the `options`."""


class Attack(ABC):
    """An attack on one item: no I/O, no clock, no state between items.

    A subclass is decorated with `parameters`, sets `name`, and writes `obstacle` and `run`; it
    overrides `validity` where rules can refute a success. What it does not declare otherwise, by a
    class attribute or by a property of its parameters, is as the properties here say.
    """

    name: ClassVar[str]
    """In files and entry points."""

    @declared
    def budget(self) -> int:
        """The most queries about one item, in one trial."""
        return 1

    @declared
    def takes(self) -> frozenset[str]:
        """The kinds of items it takes: `questions`, `tagged texts`, `sentence pairs`."""
        return frozenset({QUESTIONS})

    @declared
    def needs(self) -> frozenset[Need]:
        """What must be there for it to run; see `Need`."""
        return frozenset()

    @declared
    def fields(self) -> frozenset[str]:
        """The fields it edits: `passage`, `context`, `stem`, `options`; empty: any.

        An item is not attackable if the victim's prompt shows none of them. Options are seen by
        every victim, since one that is shown no list scores their texts; an attack that makes sense
        only on the list needs `listing`.
        """
        return frozenset()

    @declared
    def success(self) -> Goal:
        """When an answer is a success; pairs are measured alone unless this is `Moved`."""
        return Untargeted()

    @declared
    def ends(self) -> Ends:
        """What ends the search; see `Ends`."""
        return "success"

    @declared
    def is_random(self) -> bool:
        """Whether the seed changes anything; if not, there is one trial, with seed null."""
        return True

    @declared
    def is_judged(self) -> bool:
        """Whether a changed answer is an error; not so where the edit changes the evidence."""
        return True

    @declared
    def every_item(self) -> bool:
        """Whether items that are wrong on the clean prompt are asked too.

        With `ends = "all"` these are probes: every variant of every item, whose answers are kept.
        Else it is one perturbed copy of every item, of kinds that score whole data sets.
        """
        return False

    @declared
    def control(self) -> str | None:
        """The harmless edits that are its control by default; None: none."""
        return "no_op"

    @declared
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
            item: of one of `takes`.
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

    def with_files(self, base: Path) -> Attack:
        """Return the attack with the files read that its parameters name, relative to a folder."""
        return self

    # -- what follows from these values ----------------------------------------------------------
    @declared
    def repeats(self) -> int:
        """Trials per item and seed."""
        return 1

    @declared
    def is_control(self) -> bool:
        """Whether it is the control of an attack, and asks what the attack could ask."""
        return False

    @property
    def is_probe(self) -> bool:
        """Whether every variant of every item is asked, so that the answers are a finding."""
        return self.every_item and self.ends == "all"

    @property
    def is_copy(self) -> bool:
        """Whether it makes one perturbed copy of each item."""
        return self.every_item and not self.is_probe and "turns" not in self.needs

    def asks_copy_of(self, item: Any) -> bool:
        """Return whether the one copy of this item is asked even if it cannot be flipped.

        Scores of whole data sets need such copies; questions have none.
        """
        return self.is_copy and item.kind != QUESTIONS

    def goal_for(self, item: Any) -> Goal:
        """Return when a candidate of this item counts as success."""
        goal = self.success
        if isinstance(goal, Moved) and item.is_judged:
            return Untargeted()  # its answers are right or wrong, whatever their score
        return Measured() if isinstance(goal, Untargeted) and not item.is_judged else goal

    def is_unseen_by(self, victim: Shows) -> bool:
        """Return whether a victim's prompt shows none of the fields that it edits.

        Every victim sees the options, in a list or as the texts that it scores.
        """
        if "options" in self.fields and "listing" not in self.needs:
            return False
        return bool(self.fields) and not any(map(victim.shows, self.fields))

    def spec(self) -> dict[str, Any]:
        """Return the parameters as JSON, with `name` and `budget`; part of the fingerprint."""
        values: dict[str, Any] = asdict(self) if is_dataclass(self) else {}
        budget = None if self.budget == UNBOUNDED else self.budget
        return {"name": self.name, **values, "budget": budget}

    def label_parameters(self) -> Mapping[str, Any]:
        """Return the parameters that tell attacks of this name apart in labels."""
        return self.spec()


class TurnAttack(Attack):
    """An attack that asks the victim in a conversation, about the clean item too."""

    @property
    @abstractmethod
    def reasoning_tokens(self) -> int:
        """Most tokens of the victim's reasoning."""

    @abstractmethod
    def turns(self, item: Question, rng: Generator) -> tuple[Exemplar, ...]:
        """Return the worked questions with which the conversation of one trial begins."""


@parameters
class Unasked(Attack):
    """Ask the clean items and nothing else.

    Accuracy, criteria, slices and comparisons of clean answers work as in every run. No item is
    lost, because none is attacked: the summary counts them as never asked.
    """

    name = "none"
    is_random = False
    control = None

    def obstacle(self, item: Any, resources: Any) -> str | None:
        """Return None: every item has a clean answer."""
        return None

    def run(self, item: Any, rng: Generator, resources: Any) -> Steps[Any]:
        """Ask nothing."""
        yield from ()
        return None


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
        values = {k: v for k, v in spec.items() if k in names and v is not None}
        made = kind(**values)
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


ROLES: frozenset[Need] = frozenset({"attacker", "judge", "paraphraser"})
_DECLARED: Mapping[str, Any] = {
    "name": str,
    "budget": int,
    "takes": frozenset,
    "needs": frozenset,
    "fields": frozenset,
    "ends": str,
    "is_random": bool,
    "is_judged": bool,
    "every_item": bool,
    "control": str | None,
}


def declared_by(attack: Attack) -> dict[str, Any]:
    """Return what an attack declares, as JSON, so that trials are judged again where it is not.

    Nothing, if its goal is a rule of its own.
    """
    goal = attack.success
    words = {Untargeted: "untargeted", Replaced: "replaced"}.get(type(goal))
    if isinstance(goal, Targeted):
        words = goal.letter
    if words is None:
        return {}
    values = {
        name: getattr(attack, name) for name in (*_DECLARED, "stream", "repeats") if name != "name"
    }
    values |= {"success": words, "unreadable": getattr(goal, "unreadable", False)}
    values |= {"is_control": attack.is_control}
    if isinstance(attack, TurnAttack):
        values["reasoning_tokens"] = attack.reasoning_tokens
    return {k: sorted(v) if isinstance(v, frozenset) else v for k, v in values.items()}


def attack_fault(made: Any) -> str | None:
    """Say why an object is not an attack, as the end of a sentence; None if nothing is wrong."""
    if not isinstance(made, Attack):
        return "is no Attack: its class has to inherit medstress.plugin.Attack"
    for name, kind in _DECLARED.items():
        value = getattr(made, name, None)
        if not isinstance(value, kind) or isinstance(value, bool) > (kind is bool) or value == "":
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


def never_lost(
    attack: Attack, item: Any, resources: Any, rng: Generator | None = None
) -> Sequence[Predict] | None:
    """Return all that an attack asks about an item that it can attack if it is never lost.

    So one learns how often it asks at most, and which fields it edits.

    Args:
        attack: the attack.
        item: the item.
        resources: what the attack may read.
        rng: the random numbers of a trial; by default those of no trial.

    Returns:
        The queries; None if that is unknown: it consults other models, or the item is no question.
    """
    if not isinstance(item, Question) or "turns" in attack.needs:
        return None
    if ROLES & attack.needs & set(resources.roles):
        return None
    rng = rng or rng_for(0, attack.stream, "", item.id)
    return list(islice(never_wrong(attack, item, rng, resources), attack.budget))


def most_queries(attack: Attack, item: Any, resources: Any) -> int:
    """Return the most queries about an item that an attack can ask, whatever the answers."""
    queries = never_lost(attack, item, resources)
    return attack.budget if queries is None else len(queries)


def never_wrong(attack: Attack, item: Any, rng: Generator, resources: Any) -> Iterator[Predict]:
    """Yield what an attack asks a victim that is always right; the end, if it consults others."""
    scores = tuple(-0.5 if x == item.key else -2.0 for x in item.choices) or None
    held = Prediction(outcome=Outcome.RIGHT, answer=item.key, scores=scores)
    steps = attack.run(item, rng, resources)
    replies: tuple[Prediction, ...] = ()
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
