"""Warnings for readers of training results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from medstress.attacks.noise import Synonym
from medstress.experiment.file.config import TrainTable
from medstress.experiment.plan.plan import Prepared
from medstress.stats.trainings import ENOUGH_SEEDS


def cautions(prepared: Prepared, table: TrainTable) -> Iterator[str]:
    """Yield one sentence for each warning.

    Args:
        prepared: the prepared attacks.
        table: `[train]`.
    """
    n_seeds = len(table.seeds)
    if n_seeds < ENOUGH_SEEDS:
        yield (
            f"{n_seeds} training seed{'s' * (n_seeds > 1)}: intervals say nothing of other seeds; "
            f"train at least {ENOUGH_SEEDS} before you judge a kind of model"
        )
    if table.adversarial and not table.twice:
        yield (
            "models trained on copies read twice as much as the original ones, so that a part of "
            "what they gain may be longer training; twice = true trains models that tell them apart"
        )
    for part in prepared.attacks:
        attack: Any = part.attack
        is_near = isinstance(attack, Synonym) and attack.mode == "related"
        if is_near and attack.embedding == table.model:
            yield (
                f"attack {part.label!r} takes the nearest names by {attack.embedding}, which is "
                "the model under attack; choose another embedding, such as ngram"
            )
