"""Which parts of a row attend in one product."""

from __future__ import annotations

import numpy as np
import pytest

from medstress.backends.models.token_tree import Target, build_row
from medstress.backends.shared_prefix.attention import Part, stacks


def chain_of(n: int) -> Part:
    row = build_row([Target(tuple(range(n + 1)), n)])
    assert len(row.tokens) == n
    return Part(row=row, past=np.zeros(0, dtype=np.int64))


@pytest.mark.parametrize(
    ("heads_per_thread", "expected"),
    [(1.0, [[0], [1], [2], [3]]), (1.5, [[0, 1], [2, 3]]), (3.0, [[0], [1], [2], [3]])],
)
def test_parts_are_stacked_in_pairs_where_one_alone_leaves_a_thread_idle(
    heads_per_thread, expected
):
    parts = [chain_of(n) for n in (100, 95, 50, 48)]
    assert stacks(parts, 1.0, heads_per_thread) == expected
