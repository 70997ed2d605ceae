"""Keeping key-value tensors: the longest prefix is found, the budget holds, use counts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medstress.backends.kv_store import KvStore
from medstress.backends.token_tree import shared_length

torch = pytest.importorskip("torch", reason="needs the extra transformers")

sequences = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=6), max_size=20)


def layers(n_bytes: int) -> list[tuple[object, object]]:
    half = torch.zeros(1, n_bytes // 8, 1)
    return [(half, half.clone())]


@given(sequences, st.lists(st.integers(0, 2), max_size=6))
def test_the_longest_common_prefix_is_found(known: list[list[int]], asked: list[int]) -> None:
    store = KvStore(10**6)
    for tokens in known:
        store.put(tokens, layers(8))
    kept, length = store.longest(tuple(asked))
    assert length == max((shared_length(one, asked) for one in known), default=0)
    assert (kept is None) == (length == 0)
    assert kept is None or kept.tokens[:length] == tuple(asked[:length])


@given(sequences, st.integers(0, 60))
def test_the_budget_is_never_exceeded(known: list[list[int]], budget: int) -> None:
    store = KvStore(budget)
    for tokens in known:
        store.put(tokens, layers(8 * len(tokens)))
        assert store.n_bytes <= budget
        assert (len(store) == 0) == (store.n_bytes == 0)
    filled = len(store) > 0
    assert store.clear() == filled
    assert (len(store), store.n_bytes) == (0, 0)


def test_what_was_not_used_for_longest_is_forgotten() -> None:
    store = KvStore(24)
    for first in (1, 2, 3):
        store.put((first, 0), layers(8))
    store.longest((1, 5))
    store.put((4, 0), layers(8))
    assert [store.longest((first,))[1] for first in (1, 2, 3, 4)] == [1, 0, 1, 1]


def test_a_longer_sequence_replaces_its_beginning_and_a_huge_one_is_not_kept() -> None:
    store = KvStore(24)
    store.put((1, 2), layers(8))
    store.put((1, 2, 3), layers(16))
    assert (len(store), store.n_bytes) == (1, 16)
    store.put((7, 8), layers(32))
    assert store.longest((7,)) == (None, 0)
    assert store.longest((1, 2, 9))[1] == 2
