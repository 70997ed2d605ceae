"""Batches hold everything once, and a seed decides them."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from medstress.training.batching import batches

TEXTS = st.lists(st.text(max_size=30), max_size=200)


@given(TEXTS, st.integers(1, 20), st.integers())
def test_every_example_is_in_one_batch_and_no_batch_is_too_large(
    texts: list[str], size: int, seed: int
) -> None:
    found = list(batches(texts, size, random.Random(seed), len))
    assert sorted(text for batch in found for text in batch) == sorted(texts)
    assert all(0 < len(batch) <= size for batch in found)


@given(TEXTS, st.integers())
def test_the_seed_alone_decides(texts: list[str], seed: int) -> None:
    first, again = (list(batches(texts, 4, random.Random(seed), len)) for _ in range(2))
    assert first == again


def test_batches_pad_less_than_shuffled_ones() -> None:
    texts = ["x" * random.Random(n).randint(1, 60) for n in range(400)]

    def padding(parts: list[list[str]]) -> int:
        return sum(max(map(len, part)) * len(part) - sum(map(len, part)) for part in parts)

    grouped = list(batches(texts, 8, random.Random(0), len))
    plain = [texts[i : i + 8] for i in range(0, 400, 8)]
    assert padding(grouped) < padding(plain) / 4
