"""Victims that an attack asks in conversations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from medstress.attacks.controls.arm import turn_attack
from medstress.attacks.protocol import Attack
from medstress.core.calls import Decoding
from medstress.core.errors import UsageError
from medstress.core.items import Question
from medstress.core.seeding import rng_for
from medstress.experiment.plan.parts import AttackPart
from medstress.tasks.conversation import Conversation
from medstress.tasks.multiple_choice import AnswerBy, MultipleChoice
from medstress.tasks.victim import Victim

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
