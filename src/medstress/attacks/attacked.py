"""Replay of stored edits: an attack that needs none of the resources of the one that made them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from medstress.attacks.choices import check_budget, check_flag
from medstress.attacks.controls.same_type import NAME as SAME_TYPE
from medstress.attacks.protocol import Attack, AttackTraits, Validity
from medstress.core.attacked import FIELD, NAME, AttackSet, Selection, StoredArm
from medstress.core.errors import UsageError
from medstress.core.items import FOLLOW_UP, TEXTS, Candidate, Question
from medstress.core.outcomes import Goal, Replaced, parse_goal
from medstress.core.queries import Predict, Steps, ask_in_turn
from medstress.core.resources import Resources
from medstress.core.text import Edit
from medstress.core.validity import EVIDENCE_CHANGED

if TYPE_CHECKING:
    from numpy.random import Generator

MAX_BUDGET = 1_000_000
BY_FILE = 0
"""The default budget, which depends on the file."""
_LACK = "the file holds no edit of it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attacked(Attack):
    """Ask the edits that came with the items of a data set of name `attacked`.

    The edits of an item are asked in the order in which they were asked first, until the victim
    errs, the budget is used or none is left. By default only the first is asked: no answer chose
    it, while the last is the one that made the first victim err. Goal and the treatment of
    unreadable answers are those of the attack that made them. Each stored attack is an arm with
    the name it had. No entities, embeddings or other models are needed, and nothing depends on the
    answers of the victim.

    Controls are made anew beside it, as beside every attack, with as many queries as an item has
    stored edits: that of a stored probe, else `no_op`. A stored control was asked until the first
    victim erred, so its number of edits is chosen by that victim's answers.
    """

    budget: int = BY_FILE
    """The most stored edits asked of an item. Default: 1, or all of a file that holds successes
    alone."""
    attacks: tuple[str, ...] | list[str] = ()
    """Names of the stored attacks to ask; default: all."""
    stored_controls: bool = False
    """Whether the stored controls are asked in place of new ones."""

    def __post_init__(self) -> None:
        if type(self.budget) is not int or self.budget != BY_FILE:
            check_budget(NAME, self.budget, MAX_BUDGET)
        check_flag(NAME, "stored_controls", self.stored_controls)
        names = self.attacks
        if isinstance(names, str) or not all(isinstance(name, str) for name in names):
            raise UsageError(f"{NAME}: attacks must be a list of names, got {names!r}")
        object.__setattr__(self, "attacks", tuple(names))

    @property
    def traits(self) -> AttackTraits:
        """Those of an attack that asks nothing: the file's arms take its place."""
        return AttackTraits(stream=NAME, budget=self.budget, needs_entities=False)

    def spec(self) -> dict[str, Any]:
        """Return the parameters."""
        return {"name": NAME, **asdict(self), "attacks": list(self.attacks)}

    def obstacle(self, item: Question, resources: Resources) -> str | None:
        """Say that the file with the edits is not known here."""
        return f'its edits come from [[dataset]] name = "{NAME}", with medstress run'

    def run(self, item: Question, rng: Generator, resources: Resources) -> Steps[Candidate | None]:
        """Ask nothing."""
        yield from ()
        return None

    def arms(self, found: AttackSet) -> list[AttackedArm]:
        """Return the arms of a file that it asks, controls beside their attacks.

        Raises:
            UsageError: the file holds no attack of a name.
        """
        known = [arm.label for arm in found.arms if arm.control is None]
        for name in self.attacks:
            if name not in known:
                raise UsageError(
                    f"{NAME}: attacks: the file holds no attack {name!r} (it holds "
                    f"{', '.join(known)})"
                )
        wanted = self.attacks or known
        by_file = MAX_BUDGET if found.selection is Selection.FLIPPED else 1
        return [
            AttackedArm(stored=arm, set=found, budget=min(self.budget or by_file, arm.most))
            for arm in found.arms
            if arm.attack_label in wanted and (self.stored_controls or arm.control is None)
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackedArm(Attack):
    """One stored attack or control."""

    stored: StoredArm
    """What the file says of it."""
    set: AttackSet
    """The file."""
    budget: int
    """The most stored edits asked of an item."""
    trial: tuple[int | None, int] | None = None
    """Seed and repeat of the stored trial whose edits are asked."""

    @property
    def traits(self) -> AttackTraits:
        """See `AttackTraits`."""
        goal, unreadable = self._rules()
        fields = frozenset(self.stored.fields)
        return AttackTraits(
            stream=NAME,
            budget=self.budget,
            deterministic=self.stored.seeds == (None,),
            goal=goal,
            unreadable_is_success=unreadable,
            needs_entities=False,
            repeats=self.stored.n_repeats,
            edits_only=fields if fields <= set(TEXTS) else frozenset(),
            follows_up=FOLLOW_UP in fields,
            changes_evidence=self.stored.changes_evidence,
            control=self.stored.beside,
            may_be_refuted=self.stored.changes_evidence,
            asks_wrong=self.stored.control is not None,
        )

    def _rules(self) -> tuple[str, bool]:
        """Return goal and treatment of unreadable answers: those of the attack that was stored."""
        spec: Mapping[str, Any] = self.stored.spec
        of = spec.get("control_of", spec)
        while of.get("name") == NAME and "of" in of:
            of = of["of"]
        return str(of.get("goal", "untargeted")), bool(of.get("unreadable_is_success", False))

    def spec(self) -> dict[str, Any]:
        """Return what is asked; for a control under its name, with that of its attack."""
        own = {
            "budget": self.budget,
            "of": dict(self.stored.spec),
            "label": self.stored.label,
            "set": self.set.hash,
            "selection": self.set.selection.value,
            "is_blind": self.stored.is_blind,
            "source": dict(self.set.source),
        }
        if self.stored.control is None:
            return {"name": NAME, **own}
        attack = next(a for a in self.set.arms if a.label == self.stored.attack_label)
        of = replace(self, stored=attack, budget=min(self.budget, attack.most))
        return {"name": self.stored.control, **own, "control_of": of.spec()}

    def goal_for(self, item: Question) -> Goal:
        """Return the goal of the attack that was stored."""
        goal, unreadable = self._rules()
        return parse_goal(goal, unreadable=unreadable)

    def goal_on(self, item: Question, resources: Resources) -> Goal:
        """Return the goal; `replaced` holds a control that keeps options to those of its attack."""
        goal = self.goal_for(item)
        if isinstance(goal, Replaced) and self.stored.control not in (None, SAME_TYPE):
            return replace(goal, options=self.edited_options(item, resources))
        return goal

    def edited_options(self, item: Question, resources: Resources) -> frozenset[str]:
        """Return the options that the stored edits of the attack change."""
        return frozenset(
            edit["field"]
            for entry in item.metadata.get(FIELD, ())
            if entry["arm"] == self.stored.attack_label
            for query in entry["queries"]
            for edit in query["edits"]
            if edit["field"] in item.letters
        )

    def on_trial(self, seed: int | None, repeat: int) -> AttackedArm:
        """Return the arm that asks what the trial of a seed and repeat asked."""
        return replace(self, trial=(seed, repeat))

    def obstacle(self, item: Question, resources: Resources) -> str | None:
        """Return why the item cannot be attacked, or None."""
        return None if any(self._stored(item)) else _LACK

    def most_queries(self, item: Question, resources: Resources) -> int:
        """Return the number of stored edits, up to the budget."""
        return max(map(len, self._stored(item)), default=0)

    def validity(self, candidate: Candidate, resources: Resources) -> Validity | None:
        """Refute successes on changed evidence, and leave all others unknown."""
        if self.stored.changes_evidence:
            return Validity(valid=False, reason=EVIDENCE_CHANGED)
        return None

    def run(self, item: Question, rng: Generator, resources: Resources) -> Steps[Candidate | None]:
        """Ask the stored edits in order."""
        edits = next(iter(self._stored(item)), [])
        asked = (Predict(Candidate(item=item, edits=each)) for each in edits)
        reached: Candidate | None = yield from ask_in_turn(asked)
        return reached

    def _stored(self, item: Question) -> Iterator[list[tuple[Edit, ...]]]:
        """Yield the edits of each stored trial of an item; of one trial if it is known which.

        A control asks no more of them than its attack.
        """
        entries = item.metadata.get(FIELD, ())
        most = {
            (entry["seed"], entry["repeat"]): len(entry["queries"])
            for entry in entries
            if entry["arm"] == self.stored.attack_label
        }
        for entry in entries:
            place = (entry["seed"], entry["repeat"])
            if entry["arm"] == self.stored.label and self.trial in (None, place):
                n = min(self.budget, most.get(place, 0))
                if n:
                    yield [
                        tuple(Edit(**edit) for edit in query["edits"])
                        for query in entry["queries"][:n]
                    ]
