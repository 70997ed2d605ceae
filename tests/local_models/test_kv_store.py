"""Keeping keys and values: the longest prefix is found, rows are right, the budget holds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medstress.backends.models.token_tree import shared_length
from medstress.backends.shared_prefix.store import KvStore, Read, Rows

torch = pytest.importorskip("torch", reason="needs the extra transformers")

ROW_BYTES = 2 * 8
"""Two layers, a float of four bytes as key and one as value."""
NOTHING = np.zeros(0, dtype=np.int64)

sequences = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=6), max_size=20)


def read(store: KvStore, tokens: Sequence[int]) -> Read:
    """What a model does with a sequence: only what is new to the store is computed.

    The key of a token is its own number with those of all before it as digits; the value is the
    key's negative, and the second layer has ten thousand more.
    """
    kept, past = store.longest(tuple(tokens))
    past = min(past, len(tokens) - 1)
    numbers = [float("".join(map(str, (9, *tokens[: i + 1])))) for i in range(past, len(tokens))]
    new = written(store, numbers)
    rows = kept.rows[:past] if kept is not None else NOTHING
    return Read(tuple(tokens), rows, new)


def written(store: KvStore, numbers: list[float]) -> Rows:
    """Write a batch whose keys are these numbers; its rows."""
    rows, keys = store.begin(len(numbers)), torch.tensor(numbers)[:, None, None]
    for layer in range(2):
        store.write(layer, torch.from_numpy(rows), keys + 1e4 * layer, -keys - 1e4 * layer)
    return rows


def put(store: KvStore, tokens: Sequence[int]) -> None:
    store.put([read(store, tokens)])


def assert_right(store: KvStore, tokens: Sequence[int]) -> None:
    """Every kept token has the keys and values that its whole sequence would give it."""
    kept, length = store.longest(tuple(tokens))
    if kept is None:
        return
    expected = [float("".join(map(str, (9, *tokens[: i + 1])))) for i in range(length)]
    nothing, no_rows = torch.zeros(0, 1, 1), torch.from_numpy(NOTHING)
    for layer in range(2):
        keys, values = store.write(layer, no_rows, nothing, nothing)
        assert (keys[kept.rows[:length]].flatten() - 1e4 * layer).tolist() == expected
        assert (-values[kept.rows[:length]].flatten() - 1e4 * layer).tolist() == expected


@given(sequences, st.lists(st.integers(0, 2), max_size=6))
def test_the_longest_common_prefix_is_found(known: list[list[int]], asked: list[int]) -> None:
    store = KvStore(10**6)
    for tokens in known:
        put(store, tokens)
    kept, length = store.longest(tuple(asked))
    assert length == max((shared_length(one, asked) for one in known), default=0)
    assert (kept is None) == (length == 0)
    assert kept is None or kept.tokens[:length] == tuple(asked[:length])


@given(sequences, st.integers(0, 20), st.integers(0, 6))
def test_rows_are_right_and_the_budget_is_never_exceeded(
    known: list[list[int]], most: int, batch_rows: int
) -> None:
    store = KvStore(most * ROW_BYTES, batch_rows=batch_rows)
    for tokens in known:
        put(store, tokens)
        assert store.n_bytes <= store.max_bytes
        # Beside the budget no more than the largest batch needs.
        assert len(store._layers[0][0]) <= most + max(6, min(batch_rows, most))
        assert (len(store) == 0) == (store.n_bytes == 0)
        for one in known:
            assert_right(store, one)
    filled = len(store) > 0
    assert store.clear() == filled
    assert (len(store), store.n_bytes) == (0, 0)


def test_what_was_not_used_for_longest_is_forgotten() -> None:
    store = KvStore(6 * ROW_BYTES)
    for first in (1, 2, 3):
        put(store, (first, 0))
    store.longest((1, 5))
    put(store, (4, 0))
    assert [store.longest((first,))[1] for first in (1, 2, 3, 4)] == [1, 0, 1, 1]


def test_a_longer_sequence_replaces_its_beginning_and_a_huge_one_is_not_kept() -> None:
    store = KvStore(3 * ROW_BYTES)
    put(store, (1, 2))
    put(store, (1, 2, 3))
    assert (len(store), store.n_bytes) == (1, 3 * ROW_BYTES)
    put(store, (7, 8, 8, 8))
    assert store.longest((7,)) == (None, 0)
    assert (len(store), store.n_bytes) == (1, 3 * ROW_BYTES)
    assert_right(store, (1, 2, 3))


def test_sequences_share_the_rows_of_their_common_past() -> None:
    store = KvStore(10**6)
    put(store, (1, 1, 1, 1, 2))
    put(store, (1, 1, 1, 1, 0))
    assert (len(store), store.n_bytes) == (2, 6 * ROW_BYTES)
    assert_right(store, (1, 1, 1, 1, 2))
    assert_right(store, (1, 1, 1, 1, 0))


def test_a_past_that_is_forgotten_while_its_batch_is_put_is_still_there() -> None:
    store = KvStore(4 * ROW_BYTES)
    put(store, (1, 1))
    # (1, 1) goes to make room for the first one; its rows are those of the second one's past.
    rows = written(store, [92.0, 922.0, 9222.0, 9110.0])
    past = store.longest((1, 1))[0]
    assert past is not None
    strange = Read((2, 2, 2), NOTHING, rows[:3])
    store.put([strange, Read((1, 1, 0), past.rows, rows[3:])])
    assert kept_rows(store, [1, 1, 0])[:2] == past.rows.tolist()
    assert_right(store, (1, 1, 0))
    assert store.n_bytes <= store.max_bytes


@given(st.lists(sequences.filter(bool), max_size=6), st.integers(0, 20), st.integers(1, 4))
def test_rows_are_right_whatever_a_batch_brings(
    batches: list[list[list[int]]], most: int, entries: int
) -> None:
    store = KvStore(most * ROW_BYTES, entries)
    for batch in batches:
        # Nothing kept is used, so that each sequence is new from its first token on.
        numbers = [
            float("".join(map(str, (9, *one[: i + 1])))) for one in batch for i in range(len(one))
        ]
        rows = written(store, numbers)
        starts = np.cumsum([0, *map(len, batch)])
        store.put(
            [
                Read(tuple(one), NOTHING, rows[start : start + len(one)])
                for one, start in zip(batch, starts, strict=False)
            ]
        )
        assert store.n_bytes <= store.max_bytes
        for one in batch:
            assert_right(store, one)


def test_there_are_never_more_sequences_than_allowed() -> None:
    store = KvStore(10**6, max_entries=3)
    for first in range(9):
        put(store, (first, 0))
    assert len(store) == 3
    assert store.n_bytes == 6 * ROW_BYTES


def test_rows_that_are_in_no_use_are_given_to_the_next_batch() -> None:
    store = KvStore(10 * ROW_BYTES)
    put(store, [0, 1])
    assert not set(store.begin(5)) & set(kept_rows(store, [0, 1]))
    strange = written(store, [9.0] * 5)
    assert set(strange) == set(store.begin(5))
    put(store, [0, 1, 2])
    # What was read stays where it was written.
    assert kept_rows(store, [0, 1, 2])[-1] in strange
    assert_right(store, [0, 1, 2])


def kept_rows(store: KvStore, tokens: Sequence[int]) -> list[int]:
    kept, length = store.longest(tuple(tokens))
    assert kept is not None
    assert length == len(tokens)
    return kept.rows.tolist()


def test_sequences_of_a_batch_share_what_it_read_once() -> None:
    store = KvStore(4 * ROW_BYTES)
    rows = written(store, [91.0, 911.0, 9112.0, 9113.0])
    store.put([Read((1, 1, 2), NOTHING, rows[:3]), Read((1, 1, 3), NOTHING, rows[[0, 1, 3]])])
    assert (len(store), store.n_bytes) == (2, 4 * ROW_BYTES)
    for tokens in ((1, 1, 2), (1, 1, 3)):
        assert_right(store, tokens)


def test_room_for_batches_is_made_beside_the_budget() -> None:
    store = KvStore(10 * ROW_BYTES, batch_rows=40)
    put(store, [0, 1])
    # How large a row is was not known yet.
    assert len(store._layers[0][0]) == 2
    written(store, [9.0] * 46)
    keys = store._layers[0][0]
    assert len(keys) == 10 + 46
    for token in range(50, 99):
        put(store, [token])
        written(store, [9.0] * 46)
    assert store._layers[0][0] is keys
    assert store.n_bytes == store.max_bytes
    for token in range(89, 99):
        assert_right(store, [token])
