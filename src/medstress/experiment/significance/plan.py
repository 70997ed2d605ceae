"""From the successes of a run to the studies that test them."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from medstress.attacks.controls.slots import Slot, slots_of
from medstress.attacks.edit_gates import GATES, Draft
from medstress.attacks.judges import N_VOTES, Panel, judges_in, most_votes
from medstress.attacks.medfuzz import MedFuzz
from medstress.calls import Decoding
from medstress.errors import UsageError
from medstress.experiment.conversations import victim_of
from medstress.experiment.significance.controls import Controls
from medstress.experiment.significance.flow import Success, significance_flow
from medstress.experiment.significance.panel import MAX_ROUNDS
from medstress.experiment.significance.settings import Settings
from medstress.experiment.significance.writer import RoleWriter
from medstress.items import Candidate, Question
from medstress.metrics.counts import is_flipped, is_refused
from medstress.metrics.hardness import Statistic
from medstress.metrics.significance import Null, attainable, refusal
from medstress.metrics.success_tests import family_counts
from medstress.metrics.tries import entries, pick_attempt
from medstress.prompts.replies import Addition
from medstress.rows import TrialRow
from medstress.scheduler.need import Purpose
from medstress.scheduler.study import Study, Studying
from medstress.seeding import rng_for
from medstress.store.codec import decode_edits
from medstress.tasks.conversation import Conversation
from medstress.validity import PANEL
from medstress.victim import Victim

TEMPERATURE = 1.0
"""At which reasonings are sampled for T (METHODS 2.4)."""
ATTACKER = "attacker"
MOST_SAMPLES = max(statistic.n_samples for statistic in Statistic)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What tests need of an experiment."""

    victims: Mapping[str, Victim]
    """Opened, by label."""
    attacks: Mapping[str, MedFuzz]
    """By label; attacks of other kinds are not tested."""
    roles: Mapping[str, Decoding]
    """Roles that are opened, and how they generate."""
    items: Mapping[tuple[str, str], Question]
    """By data set and identifier."""
    names_in: Callable[[str], Sequence[str]] | None = None
    """Names of drugs and diseases in a text, for the gate `evidence`."""


def testable(rows: Iterable[TrialRow], attacks: Mapping[str, MedFuzz]) -> list[TrialRow]:
    """The successes that can be tested: of these attacks, and not found invalid by experts."""
    return [row for row in rows if _is_success(row) and row.attack in attacks]


def _is_success(row: TrialRow) -> bool:
    return is_flipped(row) and not is_refused(row)


def check_family(
    rows: Sequence[TrialRow],
    chosen: Sequence[TrialRow],
    settings: Settings,
    done: Collection[str] = (),
) -> None:
    """Refuse a family of tests in which nothing could be found, before anything is asked.

    Args:
        rows: trials of the run; they make the family, whichever are tested.
        chosen: successes to test.
        settings: of the tests.
        done: identifiers of trials that were tested with these settings before.

    Raises:
        UsageError: with the number of controls it needs.
    """
    ids = {row.trial_id for row in chosen} | set(done)
    tested = [row for row in rows if row.trial_id in ids]
    n_successes, n_attacked = family_counts(rows, tested)
    best = attainable(n_successes, n_attacked, settings.family, settings.controls, len(tested))
    if said := refusal(best):
        more = ", or test more of them" if len(tested) < n_successes else ""
        raise UsageError(said + more)


def n_conversations(chosen: Sequence[TrialRow], tools: Tools, settings: Settings) -> int:
    """The most conversations that the tests can hold with the victims.

    A share of right answers takes more samples than a mean; the bound counts the share.
    """
    return sum(
        most_conversations(tools.attacks[row.attack].attempts, attempts_used(row), settings)
        for row in chosen
    )


def n_votes(chosen: Sequence[TrialRow], tools: Tools, settings: Settings) -> int:
    """The most votes of judges that the tests can take: on controls, and on the clean items."""
    n_judges = len(judges_in(tools.roles))
    judged = [
        (row, attack.attempts)
        for row in chosen
        if has_panel(attack := tools.attacks[row.attack], tools, settings)
    ]
    n_controls = sum(most_judged(most, attempts_used(row), settings) for row, most in judged)
    n_items = len({(row.dataset, row.item_id) for row, _ in judged})
    return n_controls * most_votes(n_judges) + n_items * n_judges * N_VOTES


def most_conversations(attempts: int, used: int, settings: Settings) -> int:
    """The most conversations of one test.

    Args:
        attempts: K of the attack.
        used: attempts until its success.
        settings: of the test.
    """
    tries = _tries(attempts, used, settings)
    return 2 * MOST_SAMPLES + settings.controls.most * (tries + MOST_SAMPLES)


def most_judged(attempts: int, used: int, settings: Settings) -> int:
    """The most controls that judges see in one test: each one tried, or drawn in its place."""
    return settings.controls.most * (_tries(attempts, used, settings) or MAX_ROUNDS)


def attempts_used(row: TrialRow) -> int:
    """The attempts that a success took."""
    return pick_attempt(row) or 1


def _tries(attempts: int, used: int, settings: Settings) -> int:
    """The most attempts of one control's loop; 0 where there is no loop."""
    return {
        Null.MATCHED: attempts * settings.loops,
        Null.FLIPPED: attempts * settings.loops,
        Null.BEST_OF_K: used,
    }.get(settings.null, 0)


def studies(chosen: Sequence[TrialRow], tools: Tools, settings: Settings) -> list[Study]:
    """One study for every success; the same ones in every process."""
    return [_study(row, tools, settings) for row in chosen]


def _study(row: TrialRow, tools: Tools, settings: Settings) -> Study:
    item = tools.items[row.dataset, row.item_id]
    attack = tools.attacks[row.attack]
    fuzz = Candidate(item=item, edits=decode_edits(row.edits))
    success = Success(
        fuzz=fuzz,
        attempts=attack.attempts,
        used=attempts_used(row),
    )

    def steps() -> Studying:
        return significance_flow(success, settings, _controls(row, fuzz, tools, settings))

    told = {"trial": row.trial_id, "edits": row.edits, **settings.as_told()}
    if success.used != row.first_success_attempt:
        # Earlier versions took number and categories of attempts from the first success.
        told["attempt"] = success.used
    if has_panel(attack, tools, settings):
        told["panel"] = True
    return study_of(row, tools, Purpose.TEST, told, steps)


def study_of(
    row: TrialRow,
    tools: Tools,
    purpose: Purpose,
    told: dict[str, Any],
    steps: Callable[[], Studying],
) -> Study:
    """A study of one trial, whose victim is asked as it was then and sampled at TEMPERATURE."""
    item, attack = tools.items[row.dataset, row.item_id], tools.attacks[row.attack]
    asked = tools.victims[row.victim].on(row.dataset)
    victim = victim_of(asked, attack, row.dataset, item, row.seed, row.repeat)
    return Study(
        purpose=purpose,
        dataset=row.dataset,
        group=row.group,
        victim=victim,
        sampled=at_temperature(victim, TEMPERATURE),
        attack_label=row.attack,
        attack_spec=json.loads(row.attack_spec),
        seed=row.seed,
        item=item,
        told=told,
        steps=steps,
    )


def at_temperature(victim: Victim, temperature: float) -> Victim:
    """The victim with its reasoning sampled; one that is not asked in turns as it is."""
    task = victim.task
    if not isinstance(task, Conversation):
        return victim
    decoding = replace(task.decoding, temperature=temperature)
    return replace(victim, task=replace(task, decoding=decoding))


def _controls(row: TrialRow, fuzz: Candidate, tools: Tools, settings: Settings) -> Controls:
    attack, item = tools.attacks[row.attack], fuzz.item
    slots = slots_of(fuzz, _added(row))
    gate = _gate(attack, slots, tools)

    def rng_of(what: str, number: int) -> np.random.Generator:
        stream = f"test/{what}/{row.attack}/{row.repeat}"
        return rng_for(row.seed or 0, stream, row.dataset, item.id, number)

    decoding = tools.roles.get(ATTACKER)
    writer = None
    if decoding is not None:
        writer = RoleWriter(
            item=item, slots=slots, prompts=attack.prompts, decoding=decoding, gate=gate
        )
    return Controls(
        fuzz=fuzz,
        slots=slots,
        rng_of=rng_of,
        gate=gate,
        writer=writer,
        written=settings.generator == "attacker",
        panel=Panel(item, attack.prompts, judges_in(tools.roles))
        if has_panel(attack, tools, settings)
        else None,
    )


def has_panel(attack: MedFuzz, tools: Tools, settings: Settings) -> bool:
    """Whether judges vote on controls, as they did on the attack's edits."""
    return bool(judges_in(tools.roles)) and PANEL in attack.gates_on and settings.panel


def _added(row: TrialRow) -> list[tuple[str, str]]:
    """What the attacker says it inserted at the success."""
    picked = pick_attempt(row)
    said = [each for each in entries(row) if each.get("attempt") == picked and "added" in each]
    return [(one["category"], one["text"]) for each in said for one in each["added"]]


def _gate(
    attack: MedFuzz, slots: Sequence[Slot], tools: Tools
) -> Callable[[Candidate], str | None]:
    """The attack's gates that are rules; the panel is asked once there are candidates."""
    names = [name for name in attack.gates_on if name in GATES]
    categories = attack.prompts.categories

    def objection(candidate: Candidate) -> str | None:
        item = candidate.item
        inserted = [edit.replacement for edit in candidate.edits]
        # The generator knows the category of what it inserts, as the attacker says its own.
        said: list[Any] = [
            Addition(category=slot.category or categories[0].name, text=text)
            for slot, text in zip(slots, inserted, strict=False)
        ]
        draft = Draft(
            candidate=candidate,
            options=dict(zip(item.letters, candidate.options, strict=True)),
            added=tuple(said),
            categories=categories,
            max_words=attack.max_words,
            allow_history=attack.allow_history,
            names_in=tools.names_in,
        )
        return next((f"{n}: {why}" for n in names if (why := GATES[n](draft))), None)

    return objection
