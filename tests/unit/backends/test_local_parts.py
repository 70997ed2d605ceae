"""The parts of local models that need neither torch nor a model: tries, batches, kept scores."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medstress.backends.local.batches import cheapest_cut, in_batches, in_halves, plan_batches
from medstress.backends.local.prefix import build_trie, plan_tries
from medstress.backends.local.scores import ScoreMemo, Values, Wanted
from medstress.backends.local.tokens import Target, shared_length

# Three token values make shared prefixes and equal sequences frequent.
token_lists = st.lists(st.integers(0, 2), min_size=2, max_size=9)


@st.composite
def target_lists(draw: st.DrawFn) -> list[Target]:
    targets = []
    for tokens in draw(st.lists(token_lists, min_size=1, max_size=8)):
        targets.append(Target(tuple(tokens), draw(st.integers(1, len(tokens) - 1))))
    return targets


@given(target_lists(), st.integers(0, 3))
def test_a_trie_holds_each_prefix_once_and_a_node_sees_its_sequence(targets, n_past):
    before = (0,) * n_past
    longer = [Target((*before, *one.tokens), one.start + n_past) for one in targets]
    trie = build_trie(longer, n_past=n_past)
    seen_by: dict[int, list[int]] = {}
    for start, stop, above, hidden in trie.blocks(3):
        keys = np.array([*above, *range(start, stop)])
        seen_by |= {start + i: keys[~row].tolist() for i, row in enumerate(hidden)}
    for target, nodes in zip(targets, trie.nodes, strict=True):
        assert len(nodes) == len(target.scored)
        for offset, node in enumerate(nodes):
            seen = seen_by[node]
            assert seen == trie.path(node)
            assert [trie.tokens[i] for i in seen] == list(target.tokens[: target.start + offset])
            assert [trie.depths[i] for i in seen] == list(range(len(seen)))
    prefixes = {one.context[:n] for one in targets for n in range(1, len(one.context) + 1)}
    assert len(trie.tokens) == len(trie.depths) == len(trie.ends) == len(prefixes)


@given(target_lists(), st.integers(1, 40))
def test_every_target_is_in_exactly_one_trie(targets, most):
    groups = plan_tries(targets, max_nodes=most)
    assert sorted(index for group in groups for index in group) == list(range(len(targets)))
    for group in groups:
        assert len(build_trie([targets[i] for i in group]).tokens) <= most or len(group) == 1


def test_where_not_all_fit_variants_of_one_long_prompt_share_a_trie():
    prompt = tuple(range(100))
    variants = [Target((*prompt, 200 + i, 1), 101) for i in range(4)]
    strangers = [Target((1000 + i, *prompt, 1), 101) for i in range(2)]
    groups = plan_tries([*variants, *strangers], max_nodes=210)
    assert sorted(map(sorted, groups)) == [[0, 1, 2, 3], [4, 5]]
    assert plan_tries([], max_nodes=10) == []


@given(st.lists(st.integers(1, 50), max_size=12), st.floats(0, 100, width=32), st.integers(1, 200))
def test_every_row_is_in_exactly_one_batch_within_the_limit(lengths, overhead, max_tokens):
    batches = plan_batches(lengths, overhead=overhead, max_tokens=max_tokens)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        padded = len(batch) * max(lengths[index] for index in batch)
        assert padded <= max_tokens or len(batch) == 1
    assert in_batches(lengths, lengths, list, max_tokens=max_tokens) == lengths


@given(st.lists(st.integers(0, 9), min_size=1, max_size=7))
def test_the_cut_is_as_cheap_as_the_best_of_all_cuts(values):
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
def test_the_shared_length_is_the_longest_common_prefix(a, b):
    n = shared_length(a, b)
    assert a[:n] == b[:n]
    assert a[n : n + 1] != b[n : n + 1] or n == min(len(a), len(b))


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
    ],
)
def test_a_batch_that_does_not_fit_is_halved_and_nothing_is_lost(error):
    sizes: list[int] = []

    def run(items: Sequence[int]) -> list[int]:
        sizes.append(len(items))
        if sum(items) > 10:
            raise error
        return [item * 10 for item in items]

    assert in_halves([1, 2, 3, 4, 5, 11, 6], run) == [10, 20, 30, 40, 50, None, 60]
    assert sizes[0] == 7


def test_scores_are_kept_by_tokens_start_and_source_and_the_oldest_go():
    memo: ScoreMemo[Wanted] = ScoreMemo(max_entries=2)
    keys = [
        Wanted(Target((1, 2, 3), 2)).key,
        Wanted(Target((1, 2, 3), 1)).key,
        Wanted(Target((2, 3), 1), source=(1,)).key,
    ]
    memo.put(keys[0], [-1.0])
    memo.put(keys[1], [-2.0])
    memo.get(keys[0])
    memo.put(keys[2], [-3.0])
    assert [memo.get(key) for key in keys] == [[-1.0], None, [-3.0]]


def test_only_new_scores_are_computed_and_complete_calls_once_more():
    memo: ScoreMemo[Wanted] = ScoreMemo()
    one, two, three = (Wanted(Target((number, 0), 1)) for number in (1, 2, 3))
    computed: list[tuple[list[list[Wanted]], bool]] = []

    def compute(calls: list[list[Wanted]], afresh: bool) -> list[list[Values]]:
        computed.append((calls, afresh))
        return [[[-float(part.target.tokens[0])] for part in call] for call in calls]

    assert memo.complete([[one, two]], compute) == [[[-1.0], [-2.0]]]
    assert memo.complete([[one, three], [two]], compute) == [[[-1.0], [-3.0]], [[-2.0]]]
    assert computed == [([[one, two]], False), ([[three]], False), ([[two]], True)]
    lost = Wanted(Target((4, 0), 1))
    assert memo.complete([[lost]], lambda calls, _: [[None] for _ in calls]) == [[None]]
    assert len(memo) == 3
