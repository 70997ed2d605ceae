"""Rows, masks and plans against plain definitions."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medstress.backends.models.token_tree import (
    Target,
    build_row,
    cheapest_cut,
    plan_batches,
    plan_rows,
    shared_length,
    visible,
)

# Three token values make shared prefixes and equal sequences frequent.
token_lists = st.lists(st.integers(0, 2), min_size=2, max_size=9)


@st.composite
def target_lists(draw: st.DrawFn) -> list[Target]:
    targets = []
    for tokens in draw(st.lists(token_lists, min_size=1, max_size=8)):
        targets.append(Target(tuple(tokens), draw(st.integers(1, len(tokens) - 1))))
    return targets


@given(target_lists())
def test_following_the_mask_from_a_node_reads_back_its_sequence(targets: list[Target]) -> None:
    row = build_row(targets)
    (mask,) = visible([row])
    for target, nodes in zip(targets, row.nodes, strict=True):
        assert len(nodes) == len(target.scored)
        for offset, node in enumerate(nodes):
            seen = np.flatnonzero(mask[node])
            assert [row.tokens[i] for i in seen] == list(target.tokens[: target.start + offset])
            assert [row.depths[i] for i in seen] == list(range(len(seen)))


@given(target_lists())
def test_a_row_holds_every_distinct_prefix_once(targets: list[Target]) -> None:
    row = build_row(targets)
    prefixes = {
        target.context[:length]
        for target in targets
        for length in range(1, len(target.context) + 1)
    }
    assert len(row.tokens) == len(row.depths) == len(row.ends) == len(prefixes)


@given(st.lists(target_lists(), min_size=1, max_size=3))
def test_padding_sees_only_itself_and_is_seen_by_nobody(groups: list[list[Target]]) -> None:
    rows = [build_row(group) for group in groups]
    mask = visible(rows)
    assert mask.shape == (len(rows), *[max(len(row.tokens) for row in rows)] * 2)
    for row, seen in zip(rows, mask, strict=True):
        n = len(row.tokens)
        assert np.array_equal(seen[:n, :n], visible([row])[0])
        assert np.array_equal(seen[n:, n:], np.eye(len(seen) - n, dtype=bool))
        assert not seen[:n, n:].any()
        assert not seen[n:, :n].any()


@given(target_lists(), st.integers(1, 30), st.floats(1.0, 1000.0))
def test_every_target_is_in_exactly_one_row_within_the_limit(
    targets: list[Target], max_nodes: int, full_attention: float
) -> None:
    groups = plan_rows(targets, full_attention=full_attention, max_nodes=max_nodes)
    assert sorted(index for group in groups for index in group) == list(range(len(targets)))
    for group in groups:
        row = build_row([targets[index] for index in group])
        assert len(row.tokens) <= max_nodes or len(group) == 1


def test_variants_of_one_long_prompt_share_a_row_and_strangers_do_not() -> None:
    prompt = tuple(range(100))
    variants = [Target((*prompt, 200 + i, 1), 101) for i in range(4)]
    strangers = [Target((1000 + i, *prompt, 1), 101) for i in range(2)]
    groups = plan_rows([*variants, *strangers], full_attention=1000.0, max_nodes=1000)
    assert sorted(map(sorted, groups)) == [[0, 1, 2, 3], [4], [5]]


@given(st.lists(st.integers(1, 50), max_size=12), st.floats(0, 100, width=32), st.integers(1, 200))
def test_every_row_is_in_exactly_one_batch_within_the_limit(
    lengths: list[int], overhead: float, max_tokens: int
) -> None:
    batches = plan_batches(lengths, overhead=overhead, max_tokens=max_tokens)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        padded = len(batch) * max(lengths[index] for index in batch)
        assert padded <= max_tokens or len(batch) == 1


@given(st.lists(st.integers(0, 9), min_size=1, max_size=7))
def test_the_cut_is_as_cheap_as_the_best_of_all_cuts(values: list[int]) -> None:
    n = len(values)
    sums = np.concatenate([[0], np.cumsum(values)])

    def cost(starts, stop):  # type: ignore[no-untyped-def]
        return 3.0 + (sums[stop] - sums[starts]) ** 2.0

    def total(pieces: list[tuple[int, int]]) -> float:
        return sum(float(cost(np.array([start]), stop)[0]) for start, stop in pieces)

    every = []
    for choice in range(2 ** (n - 1)):
        bounds = [0, *(i + 1 for i in range(n - 1) if choice >> i & 1), n]
        every.append(total(list(pairwise(bounds))))
    assert total(cheapest_cut(n, cost)) == pytest.approx(min(every))


@given(token_lists, token_lists)
def test_the_shared_length_is_the_longest_common_prefix(a: list[int], b: list[int]) -> None:
    n = shared_length(a, b)
    assert a[:n] == b[:n]
    assert a[n : n + 1] != b[n : n + 1] or n == min(len(a), len(b))


def test_nothing_gives_no_rows() -> None:
    assert plan_rows([], full_attention=10.0, max_nodes=10) == []
    assert plan_batches([], overhead=1.0, max_tokens=10) == []
