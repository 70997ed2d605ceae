"""Plan the studies that test the successes of a run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from medstress.analyses.attempts import pick_attempt
from medstress.analyses.families import Attainable, ControlCost, Scope, Statistic
from medstress.analyses.significance import family_counts, family_of
from medstress.attacks.controls.neutral import is_similar_length
from medstress.attacks.controls.slots import Slot, slots_of
from medstress.attacks.medfuzz.attack import MAX_SAMPLE, MedFuzz
from medstress.attacks.medfuzz.gates import GATES, Draft
from medstress.attacks.medfuzz.judges import N_VOTES, Panel, judges_in, most_votes
from medstress.core.calls import Decoding
from medstress.core.items import Candidate, Question
from medstress.core.queries import ATTACKER
from medstress.core.seeding import rng_for
from medstress.core.trials import Trial
from medstress.engine.inquiry import Study, StudyFlow
from medstress.engine.work import Purpose
from medstress.experiment.plan.conversations import victim_of
from medstress.experiment.significance.bounds import Bound, bound_of
from medstress.experiment.significance.controls import Controls, RoleWriter
from medstress.experiment.significance.flow import Success, significance_flow
from medstress.experiment.significance.settings import Settings
from medstress.store.codec import edits_text
from medstress.tasks.conversation import Conversation
from medstress.tasks.multiple_choice import AnswerBy
from medstress.tasks.replies import Addition
from medstress.tasks.victim import Victim

Described: TypeAlias = tuple[Trial, Sequence[Slot]]
"""A success and the slots of its insertions."""


def leaders(successes: Sequence[Described]) -> dict[str, Trial]:
    """Return the success whose controls each success is compared with: itself or an earlier one.

    Two successes on one item share one set of controls if their insertions are alike: the same
    places, forms and categories, and about as many words. T of both is then estimated with the
    leader's worked questions, which the other attack did not search.

    The first has the smallest seed, then repeat, so that it does not matter when a seed joined.

    Args:
        successes: successes, in any order.

    Returns:
        The leader by trial identifier.
    """
    chosen: dict[str, Trial] = {}
    heads: list[Described] = []
    for one in sorted(successes, key=lambda one: (one[0].arm.seed or 0, one[0].repeat)):
        head = next((head for head in heads if _alike(head, one)), None)
        if head is None:
            heads.append(one)
        chosen[one[0].id] = one[0] if head is None else head[0]
    return chosen


def _alike(head: Described, one: Described) -> bool:
    (first, slots), (second, others) = head, one
    places = [(t.arm.place, t.arm.attack.label, t.item.id) for t in (first, second)]
    return places[0] == places[1] and len(slots) == len(others) and all(map(_like, slots, others))


def _like(ours: Slot, theirs: Slot) -> bool:
    a, b = (
        (
            slot.field,
            slot.at,
            slot.lead,
            slot.trail,
            [(part.form, part.category) for part in slot.parts],
        )
        for slot in (ours, theirs)
    )
    return a == b and all(
        is_similar_length(other.n_words, one.n_words)
        for one, other in zip(ours.parts, theirs.parts, strict=True)
    )


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
    names_in: Callable[[str], Sequence[str]] | None = None
    """Finds names of drugs and diseases in a text, for the gate `evidence`."""

    def item(self, trial: Trial) -> Question:
        """Return the item of a trial, as the experiment has it."""
        return self.items[trial.arm.place.dataset, trial.item.id]

    def attack(self, trial: Trial) -> MedFuzz:
        """Return the attack of a trial."""
        return self.attacks[trial.arm.attack.label]

    def victim(self, trial: Trial) -> Victim:
        """Return the victim of a trial, as it is asked about the data set."""
        return self.victims[trial.arm.place.victim].on(trial.arm.place.dataset)

    def tests(self, trial: Trial) -> bool:
        """Return whether a trial is a success of one of the attacks."""
        return trial.first is not None and trial.arm.attack.label in self.attacks


def outlook(
    trials: Sequence[Trial],
    chosen: Sequence[Trial],
    tools: Tools,
    settings: Settings,
    scope: Scope,
    done: Collection[str] = (),
    ended: Collection[str] = (),
) -> list[str]:
    """Return sentences on the most that the tests still ask, and on what they could show.

    Args:
        trials: of the run; all of them make the family, tested or not.
        chosen: successes to test.
        tools: parts of the experiment.
        settings: settings of the tests.
        scope: the family.
        done: identifiers of trials that were tested with these settings before.
        ended: identifiers of chosen trials whose test has ended, with p-values or without.
    """
    n_judges, judged = len(judges_in(tools.roles)), set[tuple[str, str]]()
    costs, bound, too_dear = [], Bound(), list[ControlCost]()
    for trial in chosen:
        attack = tools.attack(trial)
        cost = settings.cost(attack.attempts, _statistic(trial, tools))
        costs.append(cost)
        if trial.id in ended:
            continue
        if settings.plan(cost).most < 1:
            too_dear.append(cost)
            continue
        votes = most_votes(n_judges) if has_panel(attack, tools) else 0
        bound += bound_of(attack.attempts, settings, votes=votes)
        judged |= {(trial.arm.place.dataset, trial.item.id)} if votes else set()
    bound += Bound(n_votes=len(judged) * n_judges * N_VOTES)  # on the clean items
    before = f", {len(ended)} of them tested before" if ended else ""
    head = f"significance: {len(chosen)} successes{before}, {settings.null.value} controls"
    sentences = [f"{head}, {bound.in_words if bound != Bound() else 'and nothing to ask'}"]
    if too_dear:
        most = max(too_dear, key=lambda one: one.needed(1))
        sentences.append(
            f"significance: {len(too_dear)} successes are not tested and nothing is asked about "
            f"them: {most.too_dear(settings.max_calls or 0)}"
        )
    if scope.items:
        named = ", ".join(scope.items[:8])
        sentences.append(f"significance: the family was named before the first query: {named}")
    ids = {trial.id for trial in chosen} | set(done)
    tested = [trial for trial in trials if trial.id in ids and scope.holds(trial)]
    n_successes, n_attacked = family_counts(family_of(trials, tested, scope))
    plan = max((settings.plan(cost) for cost in costs), key=lambda one: one.most)
    if plan.most and tested:
        best = Attainable(
            n_tested=len(tested),
            n_family=n_attacked if settings.null.counts_attacked else n_successes,
            p_min=plan.p_min,
            adjust=scope.adjust,
        )
        sentences.append(
            f"significance: with at most {plan.most} controls the smallest p is {plan.p_min:.3g}, "
            f"adjusted {best.smallest:.3g}"
        )

        def max_calls(n_controls: int) -> int:
            return max(cost.needed(n_controls) for cost in costs)

        bounded = settings.controls.fixed is None
        if too_few := best.shortfall(max_calls if bounded else None):
            sentences.append(f"significance: {too_few}")
    sentences.append(f"significance: {settings.null.caution}")
    return sentences


def _statistic(trial: Trial, tools: Tools) -> Statistic:
    """Return the likely statistic for T; answers are counted if options have no probabilities."""
    task = tools.victim(trial).task
    is_scored = getattr(task, "answer_by", None) is AnswerBy.LETTER
    return Statistic.KEY_PROBABILITY if is_scored else Statistic.SHARE_CORRECT


def studies(
    chosen: Sequence[Trial], trials: Sequence[Trial], tools: Tools, settings: Settings
) -> list[Study]:
    """Return one study for every chosen success; the same ones in every process.

    Args:
        chosen: successes to test.
        trials: of the run; an earlier success on the item shares its controls, tested or not.
        tools: parts of the experiment.
        settings: settings of the tests.
    """
    successes = [trial for trial in trials if tools.tests(trial)]
    leader_of = leaders([(trial, _slots(trial, tools)) for trial in successes])
    return [_study(trial, leader_of[trial.id], tools, settings) for trial in chosen]


def _fuzz(trial: Trial, tools: Tools) -> Candidate:
    return Candidate(item=tools.item(trial), edits=trial.edits)


def _study(trial: Trial, leader: Trial, tools: Tools, settings: Settings) -> Study:
    attack, fuzz = tools.attack(trial), _fuzz(trial, tools)
    success = Success(
        fuzz=fuzz,
        attempts=attack.attempts,
        likely_statistic=_statistic(trial, tools),
    )

    def steps() -> StudyFlow:
        return significance_flow(success, settings, _controls(leader, fuzz, tools, settings))

    spec = {"trial": trial.id, "edits": edits_text(trial.edits), **settings.as_json()}
    if has_panel(attack, tools):
        spec["panel"] = True
    if leader is not trial:
        spec["leader"] = leader.id
    return replace(study_of(leader, tools, Purpose.TEST, spec, steps), seed=trial.arm.seed)


def study_of(
    trial: Trial,
    tools: Tools,
    purpose: Purpose,
    spec: dict[str, Any],
    steps: Callable[[], StudyFlow],
) -> Study:
    """Return a study of one trial; the victim is asked as in the trial, sampled at TEMPERATURE."""
    arm, item = trial.arm, tools.item(trial)
    dataset, group, _ = arm.place
    victim = victim_of(
        tools.victim(trial), tools.attack(trial), dataset, item, arm.seed, trial.repeat
    )
    return Study(
        purpose=purpose,
        dataset=dataset,
        group=group,
        victim=victim,
        sampled=at_temperature(victim, TEMPERATURE),
        attack_label=arm.attack.label,
        attack_spec=dict(arm.attack.params),
        seed=arm.seed,
        item=item,
        spec=spec,
        steps=steps,
    )


def at_temperature(victim: Victim, temperature: float) -> Victim:
    """Return the victim with sampled reasoning; unchanged if it is not asked in a conversation."""
    task = victim.task
    if not isinstance(task, Conversation):
        return victim
    decoding = replace(task.decoding, temperature=temperature)
    return replace(victim, task=replace(task, decoding=decoding))


def _controls(leader: Trial, fuzz: Candidate, tools: Tools, settings: Settings) -> Controls:
    """Return a success's controls, made from its leader's insertions and random streams."""
    attack, item, arm = tools.attack(leader), fuzz.item, leader.arm
    slots = _slots(leader, tools)
    gate = _gate(attack, slots, tools)

    def rng_of(purpose: str, number: int) -> np.random.Generator:
        stream = f"test/{purpose}/{arm.attack.label}/{leader.repeat}"
        return rng_for(arm.seed or 0, stream, arm.place.dataset, item.id, number)

    writer = None
    if settings.generator == "attacker":
        writer = RoleWriter(
            item=item,
            slots=slots,
            prompts=attack.prompts,
            decoding=tools.roles[ATTACKER],
            gate=gate,
            first_sample=int(rng_of("written", 0).integers(1, MAX_SAMPLE)),
        )
    return Controls(
        item=item,
        slots=slots,
        rng_of=rng_of,
        gate=gate,
        writer=writer,
        panel=Panel(item, attack.prompts, judges_in(tools.roles))
        if has_panel(attack, tools)
        else None,
    )


def has_panel(attack: MedFuzz, tools: Tools) -> bool:
    """Return True if judges vote on controls, as they did on the attack's edits."""
    return bool(judges_in(tools.roles)) and attack.has_panel


def _slots(trial: Trial, tools: Tools) -> Sequence[Slot]:
    """Return the insertions of a success without their words; the attacker names their category."""
    picked = pick_attempt(trial)
    records = [one for one in trial.records if one.get("attempt") == picked and "added" in one]
    added = [(one["category"], one["text"]) for record in records for one in record["added"]]
    return slots_of(_fuzz(trial, tools), added)


def _gate(
    attack: MedFuzz, slots: Sequence[Slot], tools: Tools
) -> Callable[[Candidate], str | None]:
    """Return the attack's rule-based gates; the panel is asked later, about candidates."""
    names = [name for name in attack.gates_on if name in GATES]
    categories = attack.prompts.categories

    def objection(candidate: Candidate) -> str | None:
        item = candidate.item
        inserted = [edit.replacement for edit in candidate.edits]
        # The generator knows the categories of its insertions, as the attacker names its own.
        additions: list[Any] = [
            Addition(category=slot.category or categories[0].name, text=text)
            for slot, text in zip(slots, inserted, strict=False)
        ]
        draft = Draft(
            candidate=candidate,
            options=dict(zip(item.letters, candidate.options, strict=True)),
            added=tuple(additions),
            categories=categories,
            max_words=attack.max_words,
            allow_history=attack.allow_history,
            names_in=tools.names_in,
        )
        return next((f"{n}: {why}" for n in names if (why := GATES[n](draft))), None)

    return objection
