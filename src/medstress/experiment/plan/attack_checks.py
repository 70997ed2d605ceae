"""Whether attacks fit victims and vocabularies, and the victims that they ask in conversations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Literal, get_args, get_origin, get_type_hints

from medstress.attacks.controls.arm import ControlArm, turn_attack
from medstress.attacks.controls.harmless import Control
from medstress.attacks.protocol import Attack
from medstress.core.calls import Decoding
from medstress.core.errors import MedstressError, UsageError
from medstress.core.items import Question
from medstress.core.seeding import rng_for
from medstress.experiment.file.config import VictimTable, victim_name
from medstress.experiment.plan.parts import AttackPart, GroupPart
from medstress.tasks.conversation import Conversation
from medstress.tasks.multiple_choice import AnswerBy, MultipleChoice
from medstress.tasks.victim import Victim
from medstress.tasks.wrappers import Wrapper, gives_scores

STREAM = "exemplars"


def check_conversations(victims: Sequence[Victim], attacks: Sequence[AttackPart]) -> None:
    """Check that all victims can hold a conversation, if an attack needs it.

    Raises:
        UsageError: a victim cannot; the message names it and the attack.
    """
    part = next((part for part in attacks if "turns" in part.attack.needs), None)
    if part is None:
        return
    for victim in victims:
        if not isinstance(victim.task, MultipleChoice):
            raise UsageError(
                f"attack {part.label!r} holds its own conversation, which wrap and shots cannot "
                f"change: leave them out of victim {victim.label!r}"
            )
        if "generate" not in victim.backend.traits.calls:
            raise UsageError(
                f"attack {part.label!r} needs a victim that writes its reasoning, but the back end "
                f"of victim {victim.label!r} generates no text"
            )


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


_NEEDS_TURNS = "go on speaking after its answer"


def check_probes(
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
    asked = [(victim, victim.on(label)) for label in datasets for victim in victims]
    for part in attacks:
        if isinstance(part.attack, Control | ControlArm):
            continue  # where the options are not shown, an item is not attackable
        for victim, on_dataset in asked:
            reason = None
            if "listing" in part.attack.needs:
                reason = _hides_options(on_dataset)
            if "follow_up" in part.attack.needs:
                reason = reason or _is_mute(on_dataset)
            if reason is not None:
                raise UsageError(
                    f"attack {part.label!r} means nothing for victim {victim.label!r}: {reason}"
                )


def _hides_options(victim: Victim) -> str | None:
    """Say that a victim answers without a list of options; None if it is shown one."""
    task = _own(victim)
    if task is not None and task.answer_by is AnswerBy.HEAD:
        return (
            'answer_by = "head" scores every option by itself, and the attack is about the list of '
            'them; use answer_by = "letter", or leave the victim or the attack out'
        )
    if victim.shows("options"):
        return None
    return (
        "its prompt lists no options, and the attack is about the list of them; use a prompt that "
        'lists them, such as "qstab", or leave the victim or the attack out'
    )


def _is_mute(victim: Victim) -> str | None:
    """Say why nothing can be said after the victim's answer; None if it holds a conversation."""
    task, traits = victim.task, victim.backend.traits
    if not isinstance(task, MultipleChoice):
        return "wrap and shots change what is asked, not what is said after it; leave them out"
    by = task.answer_by
    if by in (AnswerBy.TEXT, AnswerBy.HEAD):
        return (
            f'answer_by = "{by.value}" scores texts, so that nobody can {_NEEDS_TURNS}; use '
            'answer_by = "generate", or "letter" with a chat prompt'
        )
    if by is AnswerBy.LETTER and not task.template.chat:
        return (
            f"its prompt is one text, so that nobody can {_NEEDS_TURNS}; use a chat prompt "
            '(prompt = "chat"), or answer_by = "generate"'
        )
    if not traits.in_turns:
        return f"its model has no turns, so that nobody can {_NEEDS_TURNS}; use a chat model"
    if by is not AnswerBy.LETTER and "generate" not in traits.calls:
        return f"its back end generates no text, so that nobody can {_NEEDS_TURNS}"
    return None


def _own(victim: Victim) -> MultipleChoice | None:
    """Return the victim's own task, below its wrappers; None if it does not answer questions."""
    task = victim.task
    while isinstance(task, Wrapper):
        task = task.inner
    return task if isinstance(task, MultipleChoice) else None


def check_budgets(attacks: Sequence[AttackPart], groups: Sequence[GroupPart]) -> None:
    """Check that no budget is larger than a vocabulary.

    Raises:
        UsageError: an attack's budget is larger than a group's vocabulary.
    """
    for group in groups:
        if group.table is None:
            continue
        size = len(group.perturbations.names) - len(group.perturbations.undefined)
        without = (
            f" that are not {group.perturbations.lack}"
            if len(group.perturbations.undefined)
            else ""
        )
        for part in attacks:
            attack = part.attack
            if "names" not in attack.needs:
                continue
            # The budget of a search that never stops early is the vocabulary.
            if attack.budget > size and attack.ends != "all":
                raise UsageError(
                    f"attack {part.label!r}: budget {attack.budget} is larger than the "
                    f"vocabulary of group {group.label!r} ({size} names{without}); lower the "
                    "budget or give a larger vocabulary"
                )


def check_scores(attacks: Sequence[AttackPart], victims: Sequence[VictimTable]) -> None:
    """Check that attacks that need scores have victims that give them.

    Whether a function gives scores is known only when it is asked (`score_lines`); then each trial
    fails with the same sentence.

    Raises:
        UsageError: a victim gives no scores; the message names it and the attack.
    """
    scoreless = [t for t in victims if not _may_score(t)]
    for part in attacks:
        if scoreless and "scores" in part.attack.needs:
            victim = scoreless[0]
            how = "by generate" if victim.answer_by == "generate" else "with a letter alone"
            raise UsageError(
                f"attack {part.label!r} needs the victim's scores{_because(part.attack)}, and "
                f"victim {victim.name or victim_name(victim)!r} answers {how}, which has none: "
                'use answer_by = "letter" or "text", or other keys of the attack'
            )


def _because(attack: Attack) -> str:
    """Return the parameter that needs scores, where another of its words needs none."""
    for key, hint in get_type_hints(type(attack)).items():
        words = get_args(hint) if get_origin(hint) is Literal else ()
        for word in words:
            with suppress(MedstressError):  # words that do not go together
                if "scores" not in replace(attack, **{key: word}).needs:  # type: ignore[type-var]
                    return f" ({key} = {attack.spec().get(key)!r})"
    return ""


def score_lines(attacks: Sequence[AttackPart], victims: Sequence[VictimTable]) -> Iterator[str]:
    """Yield a line for each function that must give scores, which only its answers show."""
    wanting = [part.label for part in attacks if "scores" in part.attack.needs]
    for victim in victims if wanting else ():
        if victim.backend == "python" and not gives_scores(victim.wrap):
            yield (
                f"attack {wanting[0]!r} needs scores: {victim.name or victim_name(victim)} must "
                "return {'scores': {'A': 0.7, ...}} for each prompt; after any other answer every "
                "trial of it fails"
            )


def _may_score(victim: VictimTable) -> bool:
    if gives_scores(victim.wrap):
        return True
    if victim.backend == "mock":
        return victim.answer_by not in (None, "generate")
    return victim.answer_by != "generate"
