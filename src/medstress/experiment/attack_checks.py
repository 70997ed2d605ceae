"""What can be known before the run about attacks that victims or vocabularies do not fit."""

from __future__ import annotations

from collections.abc import Sequence

from medstress.attacks.protocol import SearchOn
from medstress.errors import UsageError
from medstress.experiment.config import VictimTable
from medstress.experiment.labels import victim_name
from medstress.experiment.parts import AttackPart, GroupPart
from medstress.tasks.wrapping import gives_scores


def check_budgets(attacks: Sequence[AttackPart], groups: Sequence[GroupPart]) -> None:
    """Refuse a budget that no item could use up.

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
            traits = part.traits
            if not traits.needs_entities:
                continue
            # A search that nothing ends has the vocabulary as its budget.
            if traits.budget > size and traits.search_on is not SearchOn.ALWAYS:
                raise UsageError(
                    f"attack {part.label!r}: budget {traits.budget} is larger than the "
                    f"vocabulary of group {group.label!r} ({size} names{without}); lower the "
                    "budget or give a larger vocabulary"
                )


def check_scores(attacks: Sequence[AttackPart], victims: Sequence[VictimTable]) -> None:
    """Refuse attacks that need scores where a victim is known to give none.

    Of a function nobody knows before it is asked: there each trial fails with the same sentence.

    Raises:
        UsageError: naming both.
    """
    silent = [t for t in victims if t.answer_by == "generate" and not gives_scores(t.wrap)]
    for part in attacks:
        why = part.traits.needs_scores
        if silent and why:
            raise UsageError(
                f"attack {part.label!r} needs the victim's scores ({why}), and "
                f"victim {silent[0].name or victim_name(silent[0])!r} answers by generate, which "
                f'has none: use answer_by = "letter" or "text", or another '
                f"{why.partition(' ')[0]}"
            )
