"""What is trained on: the originals and a perturbed copy of each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medstress.attacks.noise import NoiseResources
from medstress.core.clusters import clusters_of
from medstress.core.errors import UsageError
from medstress.core.sentences import SentencePair, TaggedText
from medstress.experiment.file.config import AttackTable
from medstress.experiment.plan.parts import AttackPart, make_attacks
from medstress.training.copies import Kind, Perturber, items_by_epoch, split_off

PERTURBER = Perturber(stream="toy", noise=NoiseResources())


def attacks(*names: str) -> tuple[AttackPart, ...]:
    tables = [AttackTable.model_validate({"name": name, "scope": "all"}) for name in names]
    return tuple(make_attacks(tables, Path()))


def test_without_attacks_the_data_are_trained_on_as_they_are(sentences: list[TaggedText]) -> None:
    assert items_by_epoch(sentences, PERTURBER, Kind(name="original"), 0)(3) is sentences


def test_the_originals_come_first_and_every_one_has_a_copy(sentences: list[TaggedText]) -> None:
    kind = Kind(name="noisy", attacks=attacks("swap_noise"))
    items = items_by_epoch(sentences, PERTURBER, kind, 0)(0)
    assert list(items[: len(sentences)]) == sentences
    copies = items[len(sentences) :]
    assert [copy.labels for copy in copies] == [item.labels for item in sentences]
    changed = sum(a.tokens != b.tokens for a, b in zip(copies, sentences, strict=True))
    assert changed > 50


def test_one_copy_serves_all_epochs_unless_it_is_redrawn(sentences: list[TaggedText]) -> None:
    once = Kind(name="once", attacks=attacks("swap_noise"))
    of = items_by_epoch(sentences, PERTURBER, once, 0)
    assert of(0) is of(1)
    redrawn = items_by_epoch(sentences, PERTURBER, replace(once, is_redrawn=True), 0)
    first, second = redrawn(0), redrawn(1)
    assert first[:60] == second[:60]
    assert first[60:] != second[60:]
    assert redrawn(0) == first  # what a resumed epoch is trained on
    assert items_by_epoch(sentences, PERTURBER, once, 1)(0)[60:] != of(0)[60:]


def test_of_several_attacks_each_perturbs_a_part(sentences: list[TaggedText]) -> None:
    mixed = Kind(name="mixed", attacks=attacks("swap_noise", "keyboard_noise"))
    copies = items_by_epoch(sentences, PERTURBER, mixed, 0)(0)[60:]
    letters = [
        sorted("".join(copy.tokens)) == sorted("".join(item.tokens))
        for copy, item in zip(copies, sentences, strict=True)
    ]
    assert 15 < sum(letters) < 45  # swapping keeps the letters, the keyboard does not


def test_of_a_pair_one_text_is_perturbed(pairs: list[SentencePair]) -> None:
    kind = Kind(name="noisy", attacks=attacks("swap_noise"))
    copies: Any = items_by_epoch(pairs, PERTURBER, kind, 0)(0)[40:]
    assert [copy.text_b for copy in copies] == [pair.text_b for pair in pairs]
    assert sum(c.text_a != p.text_a for c, p in zip(copies, pairs, strict=True)) > 20


def test_documents_are_never_parted(sentences: list[TaggedText]) -> None:
    items = [replace(s, metadata={"document": f"d{n // 6}"}) for n, s in enumerate(sentences)]
    clusters = clusters_of(items)
    train, dev = split_off(items, 0.2, clusters)
    assert (len(train), len(dev)) == (48, 12)
    assert not {clusters[item.id] for item in train} & {clusters[item.id] for item in dev}
    assert split_off(items, 0.0, clusters) == (tuple(items), ())
    with pytest.raises(UsageError, match="would leave one part empty"):
        split_off(items[:3], 0.1, clusters)
