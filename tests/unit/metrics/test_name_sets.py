"""Compact sets of names are sets of names."""

from __future__ import annotations

import random

from medstress.metrics.name_sets import KnownNames


def test_they_hold_and_join_what_sets_do():
    known, draw = KnownNames(), random.Random(0)
    names = [f"name {i}" for i in range(3000)]
    for name in names:
        known.number(name)
    for n in (0, 1, 2, 40, 2900):
        one, other = set(draw.sample(names, n)), set(draw.sample(names, 40))
        compact, small = known.set_of(one), known.set_of(other)
        assert set(compact) == one
        assert len(compact) == len(one)
        assert compact == one
        assert set(compact | small) == one | other
        assert set(compact | {"new"}) == {*one, "new"}


def test_neither_few_nor_many_of_many_names_take_more_than_they_must():
    known = KnownNames()
    names = [f"name {i}" for i in range(32_000)]
    everything = known.set_of(names)
    few = known.set_of(names[-10:])
    assert len(everything) == 32_000
    assert everything.n_bytes < 5000
    assert few.n_bytes < 200
