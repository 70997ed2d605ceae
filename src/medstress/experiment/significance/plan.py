"""The studies that test the successes of a run: one for the family of an attack on a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from medstress.analyses.attempts import pick_attempt
from medstress.analyses.families import (
    SETTINGS,
    TURNS,
    Adjust,
    ControlPrice,
    Null,
    Reach,
    Statistic,
)
from medstress.analyses.significance import family_of
from medstress.attacks.controls.neutral import Gate, slots_of
from medstress.attacks.medfuzz.attack import MedFuzz
from medstress.attacks.medfuzz.gates import Draft, objections
from medstress.core.arms import Place
from medstress.core.calls import Decoding
from medstress.core.hashing import content_hash
from medstress.core.items import Candidate, Question
from medstress.core.queries import ATTACKER
from medstress.core.seeding import rng_for
from medstress.core.text import edit_rows
from medstress.core.trials import Trial
from medstress.engine.inquiry import Study
from medstress.engine.work import Purpose
from medstress.experiment.file.config import SignificanceTable
from medstress.experiment.plan.attack_checks import victim_of
from medstress.experiment.significance.controls import Stock, asks_writer
from medstress.experiment.significance.flow import Design, Success, family_flow
from medstress.tasks.conversation import Conversation
from medstress.tasks.multiple_choice import AnswerBy, MultipleChoice
from medstress.tasks.victim import Victim

TEMPERATURE = 1.0
"""Temperature at which reasonings are sampled for T (METHODS 2.4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """The parts of an experiment that tests need."""

    victims: Mapping[str, Victim]
    """Opened victims by label."""
    attacks: Mapping[str, MedFuzz]
    """MedFuzz attacks by label; other attacks are not tested."""
    roles: Mapping[str, Decoding]
    """Opened roles, and how they generate."""
    items: Mapping[tuple[str, str], Question]
    """Items by data set and identifier."""

    def item(self, trial: Trial) -> Question:
        """Return the item of a trial, as the experiment has it."""
        return self.items[trial.arm.place.dataset, trial.item.id]

    def attack(self, trial: Trial) -> MedFuzz:
        """Return the attack of a trial."""
        return self.attacks[trial.arm.attack.label]

    def victim(self, trial: Trial) -> Victim:
        """Return the victim of a trial, as it is asked about the data set."""
        return self.victims[trial.arm.place.victim].on(trial.arm.place.dataset)


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """All attacked items of one attack on one model, or those that were named beforehand."""

    trials: Sequence[Trial]
    tools: Tools
    table: SignificanceTable

    @property
    def successes(self) -> Sequence[Trial]:
        """Those that are tested: all that people do not refuse."""
        return [one for one in self.trials if one.first is not None and not one.is_refused]

    @property
    def attack(self) -> MedFuzz:
        """The attack."""
        return self.tools.attack(self.trials[0])

    @property
    def price(self) -> ControlPrice:
        """The price of a control, with the likely statistic."""
        return ControlPrice(
            null=Null(self.table.null),
            statistic=likely_statistic(self.tools.victim(self.trials[0])),
            attempts=self.attack.attempts,
            is_written=self.table.generator == "attacker",
        )

    @property
    def name(self) -> str:
        """What users read of it."""
        arm = self.trials[0].arm
        return f"tests of {arm.attack.label} on {arm.place.victim} ({arm.place.dataset})"

    @property
    def buys_control(self) -> bool:
        """Whether its calls are sure to buy a control."""
        return self.table.max_calls >= self.price.least

    def study(self) -> Study:
        """Return the study that tests the successes; the same one in every process."""
        first, own, table = self.trials[0], self.successes, self.table
        design = Design(
            null=Null(table.null),
            attempts=self.attack.attempts,
            n_controls=table.controls,
            max_calls=table.max_calls,
        )
        arm, item, price = first.arm, self.tools.item(first), self.price
        return Study(
            purpose=Purpose.TEST,
            dataset=arm.place.dataset,
            group=arm.place.group,
            victim=self._victim(first),
            attack_label=arm.attack.label,
            attack_spec=dict(arm.attack.params),
            seed=arm.seed,
            item=item,
            spec={
                **{name: getattr(table, name) for name in SETTINGS},
                "trials": [one.id for one in own],
                "edits": content_hash([edit_rows(one.edits) for one in own]),
            },
            steps=lambda: family_flow([self._success(one) for one in own], design, price),
        )

    def words(self) -> Iterator[str]:
        """Yield what its tests ask and what they can show."""
        table, price, n = self.table, self.price, len(self.successes)
        yield (
            f"{self.name}: {n} successes among {len(self.trials)} attacked, null {table.null}, "
            f"at most {n * table.max_calls:,} calls"
        )
        if not self.buys_control:
            yield (
                f"{self.name}: nothing is asked: max_calls = {table.max_calls} is too small for "
                f"one control, give {price.least} or more"
            )
            return
        few, many = price.span(table.max_calls, table.controls)
        reach = Reach(
            n_tested=n,
            n_family=len(self.trials),
            n_controls=many,
            adjust=Adjust(table.adjust),
        )
        yield f"{self.name}: " + (
            f"{price.words(few, many, ' a success')}, so that p is at least "
            f"{reach.p_min:.2g}; a discovery at {reach.adjust.level:g} by {reach.adjust.words} "
            f"takes {reach.n_needed} of them at that p"
            if reach.can_show
            else reach.shortfall(price)
        )

    def _victim(self, trial: Trial) -> Victim:
        tools, place = self.tools, trial.arm.place
        return victim_of(
            tools.victim(trial),
            tools.attack(trial),
            place.dataset,
            tools.item(trial),
            trial.arm.seed,
            trial.repeat,
        )

    def _success(self, trial: Trial) -> Success:
        item, victim, tools = self.tools.item(trial), self._victim(trial), self.tools
        fuzz = Candidate(item=item, edits=trial.edits)
        picked = pick_attempt(trial)
        records = (one for one in trial.records if one.get("attempt") == picked)
        added = [(e["category"], e["text"]) for one in records for e in one.get("added", ())]
        slots = slots_of(fuzz, added)
        writer = None
        if self.table.generator == ATTACKER:
            forbidden = [one.description for one in self.attack.prompts.rules.forbidden]
            writer = asks_writer(item, slots, forbidden, tools.roles[ATTACKER])
        stream = f"test/{trial.arm.attack.label}/{trial.repeat}"
        return Success(
            trial=trial.id,
            fuzz=fuzz,
            goal=self.attack.goal_for(item),
            victim=victim,
            sampled=_sampled(victim),
            stock=Stock(
                item=item,
                slots=slots,
                gate=_gate(self.attack),
                rng=rng_for(trial.arm.seed or 0, stream, trial.arm.place.dataset, item.id),
                writer=writer,
            ),
        )


def most_conversations(study: Study) -> int:
    """Return the most conversations with the victim."""
    spec = study.spec
    return len(spec["trials"]) * most_of_success(*(spec[name] for name in SETTINGS[:3]))


def most_of_success(null: str, controls: int, max_calls: int) -> int:
    """Return the most conversations for one success."""
    most = max_calls // TURNS
    if null == Null.NEUTRAL:
        most = min(most, Statistic.SHARE_CORRECT.n_samples * (2 + controls))
    return most


def likely_statistic(victim: Victim) -> Statistic:
    """Return what estimates T, as far as it is known before a call."""
    task = victim.task
    has_letters = isinstance(task, MultipleChoice) and task.answer_by is AnswerBy.LETTER
    return Statistic.KEY_PROBABILITY if has_letters else Statistic.SHARE_CORRECT


def families(trials: Iterable[Trial], tools: Tools, table: SignificanceTable) -> list[Family]:
    """Return the families that have a success: one for each attack on each model.

    Args:
        trials: of the run.
        tools: parts of the experiment.
        table: `[test]`.
    """
    by_arm: dict[tuple[Place, str], list[Trial]] = {}
    for trial in family_of(trials, table.items):
        if trial.arm.attack.label in tools.attacks:
            by_arm.setdefault((trial.arm.place, trial.arm.attack.label), []).append(trial)
    made = [Family(trials=own, tools=tools, table=table) for own in by_arm.values()]
    return [one for one in made if one.successes]


def _sampled(victim: Victim) -> Victim:
    """Return the victim with sampled reasoning."""
    task = victim.task
    assert isinstance(task, Conversation)  # MedFuzz asks in turns
    decoding = replace(task.decoding, temperature=TEMPERATURE)
    return replace(victim, task=replace(task, decoding=decoding))


def _gate(attack: MedFuzz) -> Gate:
    """Return the attack's rules; no judge is asked about controls."""

    def objection(candidate: Candidate) -> str | None:
        item = candidate.item
        draft = Draft(
            candidate=candidate,
            options=dict(zip(item.letters, candidate.options, strict=True)),
            rules=attack.prompts.rules,
            max_words=attack.max_words,
            allow_history=attack.allow_history,
        )
        return next((f"{one.gate}: {one.reason}" for one in objections(draft, by_list=True)), None)

    return objection
