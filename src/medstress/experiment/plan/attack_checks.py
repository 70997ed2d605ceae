"""Checks before the run that attacks fit the victims and vocabularies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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

    Whether a function gives scores is known only when it is asked (`score_lines`); then each trial
    fails with the same sentence.

    Raises:
        UsageError: a victim gives no scores; the message names it and the attack.
    """
    scoreless = [t for t in victims if not _may_score(t)]
    for part in attacks:
        why = part.traits.needs_scores
        if scoreless and why:
            victim = scoreless[0]
            how = "by generate" if victim.answer_by == "generate" else "with a letter alone"
            raise UsageError(
                f"attack {part.label!r} needs the victim's scores ({why}), and "
                f"victim {victim.name or victim_name(victim)!r} answers {how}, "
                f'which has none: use answer_by = "letter" or "text", or another '
                f"{why.partition(' ')[0]}"
            )


def score_lines(attacks: Sequence[AttackPart], victims: Sequence[VictimTable]) -> Iterator[str]:
    """Yield a line for each function that must give scores, which only its answers show."""
    wanting = [part.label for part in attacks if part.traits.needs_scores]
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
