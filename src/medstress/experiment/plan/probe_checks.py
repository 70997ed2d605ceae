"""Checks before the run that probes mean something where a victim answers in its way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from medstress.core.errors import UsageError
from medstress.experiment.plan.parts import AttackPart
from medstress.tasks.multiple_choice import AnswerBy, MultipleChoice
from medstress.tasks.victim import Victim
from medstress.tasks.wrappers import Wrapper

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
        for victim, on_dataset in asked:
            reason = None
            if part.traits.needs_listing:
                reason = _hides_options(on_dataset, part.traits.needs_listing)
            if part.traits.follows_up:
                reason = reason or _is_mute(on_dataset)
            if reason is not None:
                raise UsageError(
                    f"attack {part.label!r} means nothing for victim {victim.label!r}: {reason}"
                )


def _hides_options(victim: Victim, why: str) -> str | None:
    """Say that a victim answers without a list of options; None if it is shown one."""
    task = _own(victim)
    if task is not None and task.answer_by is AnswerBy.HEAD:
        return (
            f'answer_by = "head" scores every option by itself, and {why}; use answer_by = '
            '"letter", or leave the victim or the attack out'
        )
    if victim.shows("options"):
        return None
    return (
        f"its prompt lists no options, and {why}; use a prompt that lists them, such as "
        '"qstab", or leave the victim or the attack out'
    )


def _is_mute(victim: Victim) -> str | None:
    """Say why nothing can be said after the victim's answer; None if it holds a conversation."""
    task = victim.task
    if not isinstance(task, MultipleChoice):
        return "wrap and shots change what is asked, not what is said after it; leave them out"
    return next(_reasons(task, victim), None)


def _reasons(task: MultipleChoice, victim: Victim) -> Iterator[str]:
    traits, by = victim.backend.traits, task.answer_by
    if by in (AnswerBy.TEXT, AnswerBy.HEAD):
        yield (
            f'answer_by = "{by.value}" scores texts, so that nobody can {_NEEDS_TURNS}; use '
            'answer_by = "generate", or "letter" with a chat prompt'
        )
    elif by is AnswerBy.LETTER and not task.template.chat:
        yield (
            f"its prompt is one text, so that nobody can {_NEEDS_TURNS}; use a chat prompt "
            '(prompt = "chat"), or answer_by = "generate"'
        )
    if not traits.in_turns:
        yield f"its model has no turns, so that nobody can {_NEEDS_TURNS}; use a chat model"
    if by is not AnswerBy.LETTER and "generate" not in traits.calls:
        yield f"its back end generates no text, so that nobody can {_NEEDS_TURNS}"


def _own(victim: Victim) -> MultipleChoice | None:
    """Return the victim's own task, below its wrappers; None if it does not answer questions."""
    task = victim.task
    while isinstance(task, Wrapper):
        task = task.inner
    return task if isinstance(task, MultipleChoice) else None
