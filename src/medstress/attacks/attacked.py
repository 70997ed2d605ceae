"""Replay of stored edits: an attack that needs none of the resources of the one that made them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from medstress.attacks.controls.arm import ControlArm
from medstress.attacks.protocol import UNBOUNDED, Attack, Need, Validity, parameters
from medstress.core.attacked import FIELD, NAME, AttackSet, Selection, StoredArm
from medstress.core.errors import UsageError
from medstress.core.items import FOLLOW_UP, TEXTS, Candidate, Question
from medstress.core.outcomes import Goal, parse_goal
from medstress.core.queries import Predict, Steps, ask_in_turn
from medstress.core.resources import Resources
from medstress.core.text import Edit
from medstress.core.validity import EVIDENCE_CHANGED

if TYPE_CHECKING:
    from numpy.random import Generator

_LACK = "the file holds no edit of it"


@parameters
class Attacked(Attack):
    """Ask the edits that came with the items of a data set of name `attacked`.

    The edits of an item are asked in the order in which they were asked first, until the victim
    errs, the budget is used or none is left. By default only the first is asked: no answer chose
    it, while the last is the one that made the first victim err. Goal and the treatment of
    unreadable answers are those of the attack that made them. Each stored attack is an arm with
    the name it had. No entities, embeddings or other models are needed, and nothing depends on the
    answers of the victim.

    Controls are made again for it, as for every attack, with as many queries as an item has
    stored edits: that of a stored probe, else `no_op`. Stored controls are left out: each was asked
    until the first victim erred, so its number of edits is chosen by that victim's answers.
    """

    name = NAME

    budget: Annotated[int, Field(ge=1, le=UNBOUNDED)] = UNBOUNDED
    """The most stored edits asked of an item. Default: 1, or all of a file that holds successes
    alone."""
    attacks: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Names of the stored attacks to ask; default: all."""

    def obstacle(self, item: Question, resources: Resources) -> str | None:
        """Say that the file with the edits is not known here: its arms take its place."""
        return f'its edits come from [[dataset]] name = "{NAME}", with medstress run'

    def run(self, item: Question, rng: Generator, resources: Resources) -> Steps[Candidate | None]:
        """Ask nothing."""
        yield from ()
        return None

    def arms(self, attack_set: AttackSet) -> list[AttackedArm]:
        """Return the arms of a file that it asks.

        Raises:
            UsageError: the file holds no attack of a name.
        """
        labels = [arm.label for arm in attack_set.arms]
        for name in self.attacks:
            if name not in labels:
                raise UsageError(
                    f"{NAME}: attacks: the file holds no attack {name!r} (it holds "
                    f"{', '.join(labels)})"
                )
        wanted = self.attacks or labels
        is_default = self.budget == UNBOUNDED and attack_set.selection is not Selection.FLIPPED
        budget = 1 if is_default else self.budget
        return [
            AttackedArm(stored=arm, set=attack_set, budget=min(budget, arm.most))
            for arm in attack_set.arms
            if arm.label in wanted
        ]


@dataclass(frozen=True, kw_only=True)
class AttackedArm(Attack):
    """One stored attack."""

    stored: StoredArm
    """What the file says of it."""
    set: AttackSet
    """The file."""
    budget: int
    """The most stored edits asked of an item."""
    trial: tuple[int | None, int] | None = None
    """Seed and repeat of the stored trial whose edits are asked."""
    name = NAME

    @property
    def fields(self) -> frozenset[str]:
        """Those of the stored edits, if texts alone are edited."""
        fields = frozenset(self.stored.fields)
        return fields if fields <= set(TEXTS) else frozenset()

    @property
    def needs(self) -> frozenset[Need]:
        """A victim that is spoken to again, if the stored edits do so."""
        return frozenset({"follow_up"} if FOLLOW_UP in self.stored.fields else ())

    @property
    def is_random(self) -> bool:
        """Whether the stored trials have seeds."""
        return self.stored.seeds != (None,)

    @property
    def repeats(self) -> int:
        """As stored."""
        return self.stored.n_repeats

    @property
    def is_judged(self) -> bool:
        """As stored."""
        return not self.stored.changes_evidence

    @property
    def control(self) -> str | None:
        """That of a stored probe, else `no_op`."""
        return self.stored.beside or "no_op"

    @property
    def success(self) -> Goal:
        """The goal of the attack that was stored, with its treatment of unreadable answers."""
        of: Mapping[str, Any] = self.stored.spec
        while of.get("name") == NAME and "of" in of:
            of = of["of"]
        unreadable = bool(of.get("unreadable_is_success", False))
        return parse_goal(str(of.get("goal", "untargeted")), unreadable=unreadable)

    def spec(self) -> dict[str, Any]:
        """Return what is asked."""
        return {
            "name": NAME,
            "budget": self.budget,
            "of": dict(self.stored.spec),
            "label": self.stored.label,
            "set": self.set.hash,
            "selection": self.set.selection.value,
            "is_blind": self.stored.is_blind,
            "source": dict(self.set.source),
        }

    def obstacle(self, item: Question, resources: Resources) -> str | None:
        """Return why the item cannot be attacked, or None."""
        return None if any(self._stored(item)) else _LACK

    def bound(self, item: Any) -> int:
        """Return the most edits of a stored trial, up to the budget."""
        return max(map(len, self._stored(item)), default=0)

    def validity(self, candidate: Candidate, resources: Resources) -> Validity | None:
        """Refute successes on changed evidence, and leave all others unknown."""
        if self.stored.changes_evidence:
            return Validity(valid=False, reason=EVIDENCE_CHANGED)
        return None

    def run(self, item: Question, rng: Generator, resources: Resources) -> Steps[Candidate | None]:
        """Ask the stored edits in order."""
        rows = next(iter(self._stored(item)), [])
        queries = (Predict(Candidate(item=item, edits=edits)) for edits in rows)
        reached: Candidate | None = yield from ask_in_turn(queries)
        return reached

    def _stored(self, item: Question) -> Iterator[list[tuple[Edit, ...]]]:
        """Yield the edits of each stored trial of an item; of one trial if it is known which."""
        for entry in item.metadata.get(FIELD, ()):
            place = (entry["seed"], entry["repeat"])
            queries = entry["queries"][: self.budget]
            if entry["arm"] == self.stored.label and self.trial in (None, place) and queries:
                yield [tuple(Edit(**edit) for edit in query["edits"]) for query in queries]


def on_trial(attack: Attack, seed: int | None, repeat: int) -> Attack:
    """Return an attack as one trial of each item runs it: stored edits are those of that trial."""
    if isinstance(attack, AttackedArm):
        return replace(attack, trial=(seed, repeat))
    if isinstance(attack, ControlArm) and isinstance(attack.of, AttackedArm):
        return replace(attack, of=replace(attack.of, trial=(seed, repeat)))
    return attack
