"""Keys and rows in memory."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medstress.store import key_index
from medstress.store.run_store import KeyIndex

ALIKE = st.binary(min_size=12, max_size=12).map(b"same".__add__)
KEYS = st.binary(min_size=16, max_size=16) | ALIKE


class Index(KeyIndex):
    """One that keeps what it is told, as the store does."""

    def __init__(self):
        super().__init__(lambda rows: {row: self.stored[row] for row in rows})
        self.stored = {}

    def add(self, pairs):
        pairs = list(pairs)
        self.stored.update((row, key) for key, row in pairs)
        super().add(pairs)


@given(batches=st.lists(st.lists(KEYS, max_size=9), max_size=12), others=st.lists(KEYS, max_size=5))
def test_every_key_is_found_with_its_row_and_no_other(batches, others):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_index, "NEWEST", 4)
        index, expected = Index(), {}
        for batch in batches:
            new = {
                key: len(expected) + i for i, key in enumerate(sorted(set(batch) - set(expected)))
            }
            index.add(new.items())
            expected.update(new)
        asked = [*expected, *others]
        assert index.find(asked) == {key: expected[key] for key in asked if key in expected}
        assert len(index) == len(expected)


def test_keys_with_zero_bytes_are_told_apart(monkeypatch):
    monkeypatch.setattr(key_index, "NEWEST", 2)
    keys = [bytes(16), bytes(15) + b"a", b"a" + bytes(15), b"ab" + bytes(14)]
    index = Index()
    for row, key in enumerate(keys):
        index.add([(key, row)])
    assert index.find(keys) == {key: row for row, key in enumerate(keys)}
    assert index.find([b"b" + bytes(15)]) == {}


def test_a_key_takes_eight_bytes_once_it_is_old(monkeypatch):
    monkeypatch.setattr(key_index, "NEWEST", 64)
    index, rng = Index(), random.Random(0)
    for row in range(6400):
        index.add([(rng.randbytes(16), row)])
    assert index._older.nbytes == 8 * (6400 - len(index._newest))
    assert 64 <= len(index._newest) < max(128, 6400 // 16)
