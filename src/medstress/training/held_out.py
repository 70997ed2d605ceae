"""Held-out names: training data without the names that attacks put into the attacked data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from medstress.attacks.noise import Abbreviation, NoiseResources, Synonym, noise_of
from medstress.core.errors import UsageError
from medstress.experiment.plan.noise_resources import (
    mentions_in,
    names_put_in,
    names_put_into,
    other_names_in,
    without_names,
)
from medstress.experiment.plan.plan import Prepared
from medstress.training.copies import Kind
from medstress.training.data import TrainingData


def with_held_out(prepared: Prepared, kinds: Iterable[Kind], data: TrainingData) -> TrainingData:
    """Add separate data for each kind with held-out names.

    These data lack items with a mention that equals a name that the kind's attacks put into the
    attacked data, and no copy gets such a name. So training and test share no such name, neither in
    the originals nor in the copies.

    Raises:
        UsageError: no training or no dev data are left.
    """
    held_out = {
        k.name: _without_test_names(prepared, k, data) for k in kinds if k.has_held_out_names
    }
    return replace(data, held_out=held_out)


def _without_test_names(prepared: Prepared, kind: Kind, data: TrainingData) -> TrainingData:
    attacked, tested = _attacked(prepared), _tested(prepared, data)
    synonyms = [part.attack for part in kind.attacks if isinstance(part.attack, Synonym)]
    excluded = frozenset(n for attack in synonyms for n in names_put_into(tested, attack, attacked))
    noise, items = data.perturber.noise, (*data.train, *data.dev)

    def without_excluded(part: Sequence[Any], what: str) -> tuple[Any, ...]:
        kept = tuple(item for item in part if excluded.isdisjoint(mentions_in([item], noise)))
        if part and not kept:
            raise UsageError(
                f"[train] adversarial: {kind.name!r} has no {what} left, since all {len(part)} "
                "items mention a name that the attack puts into the attacked data; give more data, "
                "or leave out held_out_names"
            )
        return kept

    perturber = replace(
        data.perturber, noise=without_names(noise, excluded, items, synonyms, prepared.base)
    )
    train = without_excluded(data.train, "training data")
    dev = without_excluded(data.dev, "dev data")
    return replace(data, train=train, dev=dev, perturber=perturber)


def share_met(
    attack: Synonym, prepared: Prepared, data: Iterable[TrainingData], kind: Kind
) -> float | None:
    """Return the share of replaced mentions whose new name occurs in a model's training data.

    A name occurs there if a mention of the originals equals it, or if a copy may get it. Each model
    counts with the mentions it is tested on; of a pair, those in the text that the attack changes.

    Args:
        attack: the attack that replaces mentions.
        prepared: the prepared attacks.
        data: training data of the models: one for all, or one per seed and fold.
        kind: the kind of the models.

    Returns:
        The share in [0, 1]; None if no mention is replaced.
    """
    attacked, n, n_met = _attacked(prepared), 0, 0
    for one in data:
        known = _names_trained_on(one.of(kind), kind)
        for names, _ in other_names_in(_tested(prepared, one), attack, attacked):
            if names:
                n += 1
                n_met += not names_put_in(names, attack.choice).isdisjoint(known)
    return n_met / n if n else None


def n_left_out(data: Iterable[TrainingData], kind: Kind) -> tuple[int, int]:
    """Return how many training and dev items a kind leaves out, and how many there are."""
    sizes = [(_size(one), _size(one.of(kind))) for one in data]
    return sum(full - kept for full, kept in sizes), sum(full for full, _ in sizes)


def _size(data: TrainingData) -> int:
    return len(data.train) + len(data.dev)


def _names_trained_on(data: TrainingData, kind: Kind) -> frozenset[str]:
    """Return the names of all mentions in the training data and, possibly, their copies."""
    noise = data.perturber.noise
    attacks = [part.attack for part in kind.attacks]
    return mentions_in(data.train, noise).union(
        *(
            names_put_into(data.train, attack, noise)
            for attack in attacks
            if isinstance(attack, Synonym | Abbreviation)
        )
    )


def _attacked(prepared: Prepared) -> NoiseResources:
    """Return what noise may read about the attacked data."""
    return next(filter(None, (noise_of(group.resources) for group in prepared.groups)))


def _tested(prepared: Prepared, data: TrainingData) -> Sequence[Any]:
    items = prepared.datasets[0].questions
    return items if data.tested is None else [item for item in items if item.id in data.tested]
