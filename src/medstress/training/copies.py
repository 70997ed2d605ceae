"""Perturbed copies of training data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from medstress.attacks.noise import Noise, NoiseResources
from medstress.core.clusters import GROUPS, sentences_of
from medstress.core.errors import UsageError
from medstress.core.hashing import digest
from medstress.core.seeding import rng_for
from medstress.core.text import WHOLE
from medstress.experiment.perturb import drawn_candidates
from medstress.experiment.plan.parts import AttackPart, GroupPart


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One way to train a model: on the original data, or also on a perturbed copy."""

    name: str
    """Name in results."""
    attacks: tuple[AttackPart, ...] = ()
    """The attacks that perturb the copy; empty: original data only."""
    is_redrawn: bool = False
    """Whether every epoch gets a new copy."""
    has_held_out_names: bool = False
    """Whether training avoids all names that attacks put into the attacked data."""
    n_plain: int = 1
    """How often an epoch reads the original data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Perturber:
    """Perturbs the items of one data set."""

    stream: str
    """Name of the random stream, which differs from those of the attacked data."""
    noise: NoiseResources
    """Resources for noise, built from the training data."""
    groups: tuple[GroupPart, ...] = ()
    """Entity groups for substitutions in questions."""

    def copy(self, item: Any, kind: Kind, seed: int, epoch: int) -> Any:
        """Return one perturbed copy of an item, by one of the attacks drawn at random."""
        rng = rng_for(seed, "train/which", self.stream, item.id, epoch)
        part = kind.attacks[int(rng.integers(len(kind.attacks)))]
        attack = part.attack
        if not isinstance(attack, Noise):
            return self._substituted(item, part, seed, epoch)
        own = rng_for(seed, f"{attack.stream}/train", self.stream, item.id, epoch)
        unit = item.of_unit(WHOLE)
        return item.changed(attack.edits(unit, own, self.noise))

    def _substituted(self, item: Any, part: AttackPart, seed: int, epoch: int) -> Any:
        """Return the item with the first name that the sampler draws, unchanged if none."""
        stream = f"{self.stream}/train/{epoch}"
        for group in self.groups:
            found = drawn_candidates(item, seed, stream, part, group.resources)
            candidate = next(found, None)
            found.close()
            if candidate is not None:
                return item.changed(candidate.edits)
        return item


def items_by_epoch(
    items: Sequence[Any], perturber: Perturber, kind: Kind, seed: int
) -> Callable[[int], Sequence[Any]]:
    """Return a function epoch -> training items: the originals, then one perturbed copy of each.

    Unless copies are redrawn, all epochs get the identical object.

    References:
        Araujo et al., 2020 (METHODS 4.6): the original training set and one perturbed copy.
    """
    if not kind.attacks:
        plain = items if kind.n_plain == 1 else tuple(items) * kind.n_plain
        return lambda _: plain

    @lru_cache(maxsize=1)
    def doubled(epoch: int) -> Sequence[Any]:
        return (*items, *(perturber.copy(item, kind, seed, epoch) for item in items))

    return doubled if kind.is_redrawn else lambda _: doubled(0)


def split_off(
    items: Sequence[Any], share: float, clusters: Mapping[str, str]
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Split items into a training and a dev part without dividing clusters.

    The split depends on the clusters' names alone.

    Args:
        items: the items to split.
        share: share of clusters in the dev part, in [0, 1).
        clusters: item id -> cluster.

    Raises:
        UsageError: one part would be empty.
    """
    if share == 0:
        return tuple(items), ()
    names = list(dict.fromkeys(clusters[item.id] for item in items))
    chosen = set(_ranked(names)[: round(share * len(names))])
    if not chosen or len(chosen) == len(names):
        raise UsageError(
            f"[train] dev = {share:g}: splitting {len(names)} {GROUPS} would leave one part empty; "
            "give more data, another share, or dev = 0"
        )
    rest = tuple(item for item in items if clusters[item.id] not in chosen)
    return rest, tuple(item for item in items if clusters[item.id] in chosen)


def _ranked(names: Sequence[str]) -> list[str]:
    return sorted(names, key=lambda name: digest(["dev", name]))


def shared_with(items: Sequence[Any], attacked: Sequence[Any]) -> int:
    """Count the attacked items whose content is also in the training items."""
    known = {item.hash for item in items}
    return sum(item.hash in known for item in attacked)


def sharing_a_sentence(items: Sequence[Any], attacked: Sequence[Any]) -> int:
    """Count the attacked pairs that share a sentence with a training pair."""
    known = {text for item in items for text in sentences_of(item)}
    return sum(not known.isdisjoint(sentences_of(item)) for item in attacked)
