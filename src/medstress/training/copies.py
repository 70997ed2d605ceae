"""Perturbed copies of what is trained on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from medstress.attacks.noise import NoiseResources
from medstress.attacks.sentence_attack import SentenceAttack
from medstress.clusters import GROUPS, sentences_of
from medstress.errors import UsageError
from medstress.experiment.parts import AttackPart, GroupPart
from medstress.experiment.perturb import drawn_candidates
from medstress.hashing import digest
from medstress.kinds import kind_of
from medstress.seeding import rng_for
from medstress.text import WHOLE


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One way to train: on the data as they are, or with a perturbed copy."""

    name: str
    """In results."""
    attacks: tuple[AttackPart, ...] = ()
    """What perturbs the copy; none for the original data alone."""
    is_redrawn: bool = False
    """Whether every epoch has a copy of its own."""
    has_held_out_names: bool = False
    """Whether it is trained on no name that the attacked data are given."""
    n_plain: int = 1
    """Plain copies that are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Perturber:
    """What perturbs the items of one data set."""

    stream: str
    """Names the random numbers: never those of the attacked data."""
    noise: NoiseResources
    """What noise may read, of the data trained on."""
    groups: tuple[GroupPart, ...] = ()
    """Entity groups, of substitutions in questions."""

    def copy(self, item: Any, kind: Kind, seed: int, epoch: int) -> Any:
        """One perturbed copy of an item; of several attacks one is drawn for each item."""
        rng = rng_for(seed, "train/which", self.stream, item.id, epoch)
        part = kind.attacks[int(rng.integers(len(kind.attacks)))]
        kind_of_item = kind_of(item)
        if kind_of_item.draws_names:
            return self._substituted(item, part, seed, epoch)
        attack = part.attack
        assert isinstance(attack, SentenceAttack)
        own = rng_for(seed, f"{attack.stream}/train", self.stream, item.id, epoch)
        unit = kind_of_item.with_unit(item, WHOLE)
        return kind_of_item.changed(unit.candidate(attack.edits(unit, own, self.noise)))

    def _substituted(self, item: Any, part: AttackPart, seed: int, epoch: int) -> Any:
        """The first name that the sampler draws; the item as it is where it draws none."""
        stream = f"{self.stream}/train/{epoch}"
        for group in self.groups:
            found = drawn_candidates(item, seed, stream, part, group.resources)
            candidate = next(found, None)
            found.close()
            if candidate is not None:
                return kind_of(item).changed(candidate)
        return item


def items_by_epoch(
    items: Sequence[Any], perturber: Perturber, kind: Kind, seed: int
) -> Callable[[int], Sequence[Any]]:
    """What is trained on in each epoch: the originals, then one perturbed copy of each.

    Where nothing is drawn anew, every epoch has the very same object.

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
    """Part items into those to train on and a share to choose the epoch by, whole clusters.

    Which ones follows from the clusters' names alone.

    Args:
        items: to part.
        share: of the clusters, to choose the epoch by.
        clusters: of each item, by id.

    Raises:
        UsageError: one side would be empty.
    """
    if share == 0:
        return tuple(items), ()
    names = list(dict.fromkeys(clusters[item.id] for item in items))
    chosen = set(_ranked(names)[: round(share * len(names))])
    if not chosen or len(chosen) == len(names):
        raise UsageError(
            f"[train] dev = {share:g}: of {len(names)} {GROUPS} one part would have none; give "
            "more data, another share, or dev = 0"
        )
    rest = tuple(item for item in items if clusters[item.id] not in chosen)
    return rest, tuple(item for item in items if clusters[item.id] in chosen)


def _ranked(names: Sequence[str]) -> list[str]:
    return sorted(names, key=lambda name: digest(["dev", name]))


def shared_with(items: Sequence[Any], attacked: Sequence[Any]) -> int:
    """How many of the attacked items are among those trained on, by content."""
    known = {item.hash for item in items}
    return sum(item.hash in known for item in attacked)


def sharing_a_sentence(items: Sequence[Any], attacked: Sequence[Any]) -> int:
    """How many of the attacked pairs share a sentence with one that is trained on."""
    known = {text for item in items for text in sentences_of(item)}
    return sum(not known.isdisjoint(sentences_of(item)) for item in attacked)
