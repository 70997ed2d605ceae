"""Whether attacks fit victims and data, and the controls beside them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product
from typing import TypeAlias

from medstress.attacks.attacked import Attacked
from medstress.attacks.controls.arm import LEAST_FILLED, ControlArm, control_arm, turn_attack
from medstress.attacks.controls.harmless import Control
from medstress.attacks.noise_control import NonEntityNoise, has_control
from medstress.attacks.protocol import QUESTIONS, Attack, Unasked, make_attack
from medstress.core.arms import CONTROLS, NOISE_CONTROL, arm_label
from medstress.core.attacked import NAME
from medstress.core.calls import Decoding
from medstress.core.errors import UsageError, did_you_mean
from medstress.core.hashing import rng_for
from medstress.core.items import Question
from medstress.experiment.file import config
from medstress.experiment.plan.dataset_parts import DatasetPart
from medstress.experiment.plan.parts import AttackPart, GroupPart
from medstress.tasks.conversation import Conversation
from medstress.tasks.kinds import Kind
from medstress.tasks.multiple_choice import AnswerBy, MultipleChoice
from medstress.tasks.victim import Victim
from medstress.tasks.wrappers import Wrapper, gives_scores

# -- controls and stored edits ---------------------------------------------------------------------


def stored_attacks(
    attacks: Sequence[AttackPart],
    datasets: Sequence[DatasetPart],
    seeds: Sequence[int],
) -> list[AttackPart]:
    """Build the arms of the attacks `attacked` from the file that the data set read.

    Args:
        attacks: the experiment's attacks.
        datasets: the data sets, loaded.
        seeds: the experiment's seeds.

    Raises:
        UsageError: no data set or several of this name, or a seed is not stored.
    """
    parts = [part for part in attacks if isinstance(part.attack, Attacked)]
    if not parts:
        return []
    sets = [found for one in datasets if (found := one.loaded.attack_set) is not None]
    if len(sets) != 1 or not sets[0].arms:
        raise UsageError(
            f'attack "{NAME}" asks the edits of one [[dataset]] of name = "{NAME}" that holds an '
            f"attack; medstress export DIR --table {NAME} --to FILE.jsonl writes such a file"
        )
    kept: list[AttackPart] = []
    for part in parts:
        assert isinstance(part.attack, Attacked)
        arms = part.attack.arms(sets[0])
        for arm in arms:
            label, own_seeds = arm.stored.label, arm.stored.seeds
            if own_seeds != (None,) and not set(seeds) <= set(own_seeds):
                raise UsageError(
                    f"[experiment] seeds: the file holds the edits of {label!r} for seeds = "
                    f"[{', '.join(map(str, own_seeds))}] alone; give some of these"
                )
            if len(parts) > 1 or part.is_labelled:
                label = f"{part.label}: {label}" if len(arms) > 1 else part.label
            kept.append(AttackPart(label=label, attack=arm, is_labelled=part.is_labelled))
    labels = [part.label for part in kept]
    if twice := [label for label in labels if labels.count(label) > 1]:
        raise UsageError(
            f'attack "{NAME}": two arms are called {twice[0]!r}; give the tables labels'
        )
    return kept


PREFIX = "control of "
"""Prefix of the label of an added arm of noise outside entities."""
DEFAULT, IN_TURNS = "no_op", "neutral_insertion"
"""The default control of attacks on questions, and of those that hold a conversation."""
_NOT_TAGGED = "only in tagged texts can noise go round the entities"
_REMEDY = "lower the budget, or name other controls in [experiment] controls"
"""What to do so that the attack is net of a control."""


LeftOut: TypeAlias = dict[str, dict[str, str]]
"""Label of an attack -> control -> why the attack has it not."""


def control_arms(
    attacks: Sequence[AttackPart], wanted: bool | Sequence[str] | None
) -> tuple[list[AttackPart], LeftOut]:
    """Build the control arms of all attacks on questions.

    Args:
        attacks: the experiment's attacks.
        wanted: `[experiment] controls`: names, true for all that fit, false for none, or None for
            the default: `no_op`, or `neutral_insertion` where the victim is asked in turns.

    Returns:
        The arms, labelled `<attack> / <control>`; the controls that do not fit.

    Raises:
        UsageError: a name is no control.
    """
    names = () if isinstance(wanted, bool | None) else tuple(wanted)
    for name in names:
        if name not in CONTROLS:
            raise UsageError(
                f"[experiment] controls: {name!r} is no control of attacks on questions; expected "
                f"some of {', '.join(CONTROLS)}{did_you_mean(name, CONTROLS)}"
            )
    arms: list[AttackPart] = []
    left_out: LeftOut = {}
    for part in attacks:
        # An attack that changes the evidence takes no right answer away by chance; a control, and
        # asking the clean items alone, need no control.
        is_controlled = QUESTIONS in part.attack.takes and part.attack.is_judged
        if wanted is False or not is_controlled or isinstance(part.attack, Control | Unasked):
            continue
        of_attack = CONTROLS if wanted is True else names or (part.attack.control or DEFAULT,)
        for name in of_attack:
            control: Control = make_attack(name, {})  # type: ignore[assignment]
            if (reason := control.unfit(part.attack)) is not None:
                left_out.setdefault(part.label, {})[name] = reason
                continue
            arm = control_arm(control, part.attack)
            label = arm_label(part.label, name)
            arms.append(AttackPart(label=label, attack=arm, is_labelled=part.is_labelled))
    return arms, left_out


def fitting_arms(
    arms: Iterable[AttackPart],
    left_out: LeftOut,
    datasets: Sequence[DatasetPart],
    groups: Sequence[GroupPart],
    wanted: bool | Sequence[str] | None,
) -> list[AttackPart]:
    """Take out arms that could not ask as often as their attack on 95 % of the items.

    What is taken out is added to `left_out`.

    Raises:
        UsageError: the file names such a control.
    """
    kept: list[AttackPart] = []
    n_variants: dict[tuple[str, int], int] = {}
    for part in arms:
        arm = part.attack
        assert isinstance(arm, ControlArm)
        reason = _too_few(arm, datasets, groups, n_variants)
        if reason is None:
            kept.append(part)
            continue
        attack = part.label.removesuffix(f" / {arm.harmless.name}")
        if not isinstance(wanted, bool | None):
            raise UsageError(
                f"[experiment] controls: {arm.harmless.name} cannot control attack {attack!r}: "
                f"{reason}; {_REMEDY}"
            )
        left_out.setdefault(attack, {})[arm.harmless.name] = f"{reason}; {_REMEDY}"
    return kept


def _too_few(
    arm: ControlArm,
    datasets: Sequence[DatasetPart],
    groups: Sequence[GroupPart],
    n_variants: dict[tuple[str, int], int],
) -> str | None:
    """Say on how many items the control has too few variants; None if these are few.

    `n_variants` holds those of controls that draw no names, which arms and groups share.
    """
    asked = [
        (item, resources)
        for dataset in datasets
        for group in groups
        if (group.table is None) is not ("names" in arm.needs)
        for resources in (group.resources_on(dataset),)
        for item in group.items(dataset)
    ]
    # Most controls have enough variants of nearly every text, whatever the attack asks about it.
    name, is_plain = arm.harmless.name, "names" not in arm.harmless.needs
    for item, resources in asked if is_plain else ():
        if (name, id(item)) not in n_variants:
            n_variants[name, id(item)] = arm.harmless.n_variants(item, resources)
    lacking = [
        item.id
        for item, resources in asked
        if not (is_plain and n_variants[name, id(item)] >= arm.of.budget)
        and arm.of.obstacle(item, resources) is None
        and not arm.fills(item, resources)
    ]
    if not lacking:
        return None
    n_items = sum(arm.of.obstacle(item, resources) is None for item, resources in asked)
    if n_items - len(lacking) >= LEAST_FILLED * n_items:
        return None
    return (
        f"it has as many variants as the attack has queries on only {n_items - len(lacking):,} of "
        f"{n_items:,} items, and too few on {lacking[0]!r}"
    )


def noise_controls(attacks: Sequence[AttackPart], kind: Kind) -> tuple[list[AttackPart], LeftOut]:
    """Return the control arm of every perturbed copy of tagged texts that the experiment lacks.

    It is `non_entity_noise`, which changes as many words, none of them in an entity. Attacks with
    the same control share it. A search has none, nor have other kinds.

    Args:
        attacks: the experiment's attacks.
        kind: kind of its items.

    Returns:
        The arms, and why attacks have none.
    """
    added: list[AttackPart] = []
    left_out: LeftOut = {}
    for part in attacks:
        attack = part.attack
        if isinstance(attack, NonEntityNoise | Unasked):
            continue
        if not kind.has_parts or not has_control(attack):
            why = "a search perturbs no whole data set" if kind.has_parts else _NOT_TAGGED
            left_out[part.label] = {NOISE_CONTROL: why}
            continue
        arms = (one.attack for one in (*attacks, *added))
        if not any(isinstance(arm, NonEntityNoise) and arm.controls(attack) for arm in arms):
            control = NonEntityNoise(of=attack.own)
            label = f"{PREFIX}{part.label}"
            added.append(AttackPart(label=label, attack=control, is_labelled=True))
    return added, left_out


# -- checks ----------------------------------------------------------------------------------------


STREAM = "exemplars"


def victim_of(
    victim: Victim, attack: Attack, dataset: str, item: Question, seed: int | None, repeat: int
) -> Victim:
    """Return the victim that an attack asks about one item, clean or edited, in one trial."""
    of = turn_attack(attack)
    if of is None:
        return victim
    task, backend = victim.task, victim.backend
    assert isinstance(task, MultipleChoice)  # checked when it was opened
    exemplars = of.turns(item, rng_for(seed or 0, STREAM, dataset, item.id, repeat))
    decoding = Decoding(
        max_new_tokens=task.reasoning_tokens or of.reasoning_tokens,
        temperature=task.decoding.temperature,
    )
    conversation = Conversation(
        own=task,
        exemplars=exemplars,
        parser=task.parser,
        thoughts=task.thoughts,
        by_letter=task.answer_by is AnswerBy.LETTER,
        in_turns=backend.traits.in_turns,
        decoding=decoding,
        answer_tokens=task.decoding.max_new_tokens,
    )
    return replace(victim, task=conversation)


def check_asking(
    victims: Sequence[Victim], attacks: Sequence[AttackPart], datasets: Iterable[str]
) -> None:
    """Check that victims see the options, or hold a conversation, where an attack needs it.

    Args:
        victims: opened.
        attacks: the experiment's attacks, control arms among them.
        datasets: labels of the data sets.

    Raises:
        UsageError: a victim does not; the message names it, the attack and what to do.
    """
    asked = [victim.on(label) for label in datasets for victim in victims]
    reasons = {"turns": _holds_none, "listing": _hides_options, "follow_up": _is_mute}
    for part, victim in product(attacks, asked):
        is_control = isinstance(part.attack, Control | ControlArm)
        for need, reason_of in reasons.items():
            if need not in part.attack.needs or (is_control and need != "turns"):
                continue  # where the options are not shown, an item is not attackable
            if (reason := reason_of(victim)) is not None:
                raise UsageError(
                    f"attack {part.label!r} does not fit victim {victim.label!r}: {reason}; or "
                    "leave one of them out"
                )


_WRAPPED = "wrap and shots change what is asked, and not what is said after it: leave them out"
_WRITES_NONE = "its back end generates no text, so it holds no conversation"


def _holds_none(victim: Victim) -> str | None:
    """Say why the attack cannot hold its own conversation with the victim; None if it can."""
    if not isinstance(victim.task, MultipleChoice):
        return _WRAPPED
    return None if "generate" in victim.backend.traits.calls else _WRITES_NONE


def _hides_options(victim: Victim) -> str | None:
    """Say that a victim answers without a list of options; None if it is shown one."""
    task = victim.task
    while isinstance(task, Wrapper):
        task = task.inner
    if isinstance(task, MultipleChoice) and task.answer_by is AnswerBy.HEAD:
        return 'answer_by = "head" scores every option by itself; use answer_by = "letter"'
    if victim.shows("options"):
        return None
    return 'its prompt lists no options; use a prompt that lists them, such as "qstab"'


def _is_mute(victim: Victim) -> str | None:
    """Say why nothing can be said after the victim's answer; None if it holds a conversation."""
    task, traits = victim.task, victim.backend.traits
    if not isinstance(task, MultipleChoice):
        return _WRAPPED
    by = task.answer_by
    if by in (AnswerBy.TEXT, AnswerBy.HEAD):
        return f'answer_by = "{by.value}" scores texts; use answer_by = "generate"'
    if by is AnswerBy.LETTER and not task.template.chat:
        return 'its prompt is one text; use prompt = "chat", or answer_by = "generate"'
    if not traits.in_turns:
        return "its model has no turns; use a chat model"
    return _WRITES_NONE if by is not AnswerBy.LETTER and "generate" not in traits.calls else None


def check_budgets(attacks: Sequence[AttackPart], groups: Sequence[GroupPart]) -> None:
    """Check that no budget is larger than a vocabulary.

    Raises:
        UsageError: an attack's budget is larger than a group's vocabulary.
    """
    for group in groups:
        if group.table is None:
            continue
        n_undefined = len(group.perturbations.undefined)
        size = len(group.perturbations.names) - n_undefined
        without = f" that are not {group.perturbations.lack}" if n_undefined else ""
        for part in attacks:
            attack = part.attack
            # The budget of a search that never stops early is the vocabulary.
            if "names" in attack.needs and attack.budget > size and attack.ends != "all":
                raise UsageError(
                    f"attack {part.label!r}: budget {attack.budget} is larger than the "
                    f"vocabulary of group {group.label!r} ({size} names{without})"
                )


def check_scores(attacks: Sequence[AttackPart], victims: Sequence[config.Victim]) -> None:
    """Check that attacks that need scores have victims that give them.

    Whether a function gives scores is known only when it is asked; then each trial fails with the
    same sentence.

    Raises:
        UsageError: a victim gives no scores; the message names it and the attack.
    """
    wanting = [part.label for part in attacks if "scores" in part.attack.needs]
    for victim in victims if wanting else ():
        none = ("generate", None) if victim.backend == "mock" else ("generate",)
        if victim.answer_by in none and not gives_scores(victim.wrap):
            raise UsageError(
                f"attack {wanting[0]!r} needs the victim's scores, and the answers of victim "
                f'{victim.called!r} have none: use answer_by = "letter" or "text", or other keys '
                "of the attack"
            )
