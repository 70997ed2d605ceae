"""Names that the attacked data are given: who trains on them, and data without them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from medstress.attacks.noise import Abbreviation, NoiseResources, Synonym
from medstress.entities.names import folded
from medstress.errors import UsageError
from medstress.experiment.noise_resources import (
    mentions_in,
    names_put_in,
    names_put_into,
    side_of,
    without_names,
)
from medstress.experiment.prepared import Prepared
from medstress.training.copies import Kind
from medstress.training.data import TrainingData


def with_held_out(prepared: Prepared, kinds: Iterable[Kind], data: TrainingData) -> TrainingData:
    """The same, with data of its own for each kind that is to know no name of those tested.

    From these is left out what has a mention that is called as a name that the kind's attacks put
    into the attacked data, and such names are put into no copy. So names of training and test do
    not meet, in the originals, in mentions that stay as they are, or in the copies.

    Raises:
        UsageError: nothing is left to train on, or to choose the epoch by.
    """
    found = {k.name: _without_given(prepared, k, data) for k in kinds if k.has_held_out_names}
    return replace(data, held_out=found)


def _without_given(prepared: Prepared, kind: Kind, data: TrainingData) -> TrainingData:
    attacked, tested = _attacked(prepared), _tested(prepared, data)
    own = [part.attack for part in kind.attacks if isinstance(part.attack, Synonym)]
    given = frozenset(n for attack in own for n in names_put_into(tested, attack, attacked))
    noise, items = data.perturber.noise, (*data.train, *data.dev)

    def left(part: Sequence[Any], what: str) -> tuple[Any, ...]:
        kept = tuple(item for item in part if given.isdisjoint(_known([item], noise)))
        if part and not kept:
            raise UsageError(
                f"[train] adversarial: {kind.name!r} has no {what} left, as all {len(part)} have a "
                "mention that is called as a name that the attack puts into the attacked data; "
                "give more data, or leave out held_out_names"
            )
        return kept

    perturber = replace(
        data.perturber, noise=without_names(noise, given, items, own, prepared.base)
    )
    train, dev = left(data.train, "data to train on"), left(data.dev, "dev data")
    return replace(data, train=train, dev=dev, perturber=perturber)


def share_met(
    attack: Synonym, prepared: Prepared, data: Iterable[TrainingData], kind: Kind
) -> float | None:
    """The share of replaced mentions whose new name a model has been trained on.

    It has been where a mention of the originals is called so, or where its copy may be given that
    name. Each model counts with the mentions that it is tested on, of a pair those of the text
    that the attack changes.

    Args:
        attack: puts the names in.
        prepared: what is attacked.
        data: of the models: one for all, or one a seed and fold.
        kind: of the models.

    Returns:
        None where nothing is replaced.
    """
    attacked = _attacked(prepared)
    table, n, n_met = attacked.replacements[attack.table], 0, 0
    for one in data:
        known = _trained_on(one.of(kind), kind)
        tested = mentions_in(_tested(prepared, one), attacked, side_of(attack))
        for mention, count in tested.items():
            if mention in table:
                n += count
                n_met += count * bool(names_put_in(table[mention], attack.choice) & known)
    return n_met / n if n else None


def n_left_out(data: Iterable[TrainingData], kind: Kind) -> tuple[int, int]:
    """How many items a kind is not trained on and does not choose its epoch by, and of how many."""
    sizes = [(_size(one), _size(one.of(kind))) for one in data]
    return sum(whole - kept for whole, kept in sizes), sum(whole for whole, _ in sizes)


def _size(data: TrainingData) -> int:
    return len(data.train) + len(data.dev)


def _trained_on(data: TrainingData, kind: Kind) -> frozenset[str]:
    """The names that stand as mentions in what a model reads, as it is and perturbed."""
    noise = data.perturber.noise
    attacks = [part.attack for part in kind.attacks]
    return _known(data.train, noise).union(
        *(
            names_put_into(data.train, attack, noise)
            for attack in attacks
            if isinstance(attack, Synonym | Abbreviation)
        )
    )


def _known(items: Sequence[Any], noise: NoiseResources) -> frozenset[str]:
    return frozenset(folded(mention) for mention in mentions_in(items, noise))


def _attacked(prepared: Prepared) -> NoiseResources:
    found = prepared.groups[0].resources
    assert isinstance(found, NoiseResources)
    return found


def _tested(prepared: Prepared, data: TrainingData) -> Sequence[Any]:
    items = prepared.datasets[0].questions
    return items if data.tested is None else [item for item in items if item.id in data.tested]
