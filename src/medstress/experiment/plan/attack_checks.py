"""Checks before the run that attacks fit the victims and vocabularies."""

from __future__ import annotations

from collections.abc import Sequence

from medstress.attacks.protocol import SearchOn
from medstress.core.errors import UsageError
from medstress.experiment.file.config import VictimTable
from medstress.experiment.file.labels import victim_name
from medstress.experiment.plan.parts import AttackPart, GroupPart
from medstress.tasks.wrapping import gives_scores


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
            traits = part.traits
            if not traits.needs_entities:
                continue
            # The budget of a search that never stops early is the vocabulary.
            if traits.budget > size and traits.search_on is not SearchOn.ALWAYS:
                raise UsageError(
                    f"attack {part.label!r}: budget {traits.budget} is larger than the "
                    f"vocabulary of group {group.label!r} ({size} names{without}); lower the "
                    "budget or give a larger vocabulary"
                )


def check_scores(attacks: Sequence[AttackPart], victims: Sequence[VictimTable]) -> None:
    """Check that attacks that need scores have victims that give them.

    Whether a function gives scores is known only when it is asked; then each trial fails with the
    same sentence.

    Raises:
        UsageError: a victim gives no scores; the message names it and the attack.
    """
    scoreless = [t for t in victims if t.answer_by == "generate" and not gives_scores(t.wrap)]
    for part in attacks:
        why = part.traits.needs_scores
        if scoreless and why:
            raise UsageError(
                f"attack {part.label!r} needs the victim's scores ({why}), and "
                f"victim {scoreless[0].name or victim_name(scoreless[0])!r} answers by generate, "
                f'which has none: use answer_by = "letter" or "text", or another '
                f"{why.partition(' ')[0]}"
            )
