"""Remembered scores: by content, least recently used forgotten."""

from __future__ import annotations

from medstress.backends.score_memo import ScoreMemo
from medstress.backends.token_tree import Target


def test_scores_are_found_by_tokens_start_and_source() -> None:
    memo = ScoreMemo()
    memo.put(Target((1, 2, 3), 2), [-0.5])
    assert memo.get(Target((1, 2, 3), 2)) == [-0.5]
    assert memo.get(Target((1, 2, 3), 1)) is None
    assert memo.get(Target((2, 3), 1), source=(1,)) is None
    memo.put(Target((2, 3), 1), [-1.0], source=(1,))
    assert memo.get(Target((2, 3), 1), source=(1,)) == [-1.0]


def test_what_was_not_used_for_longest_is_forgotten() -> None:
    memo = ScoreMemo(max_entries=2)
    one, two, three = (Target((number, 0), 1) for number in (1, 2, 3))
    memo.put(one, [-1.0])
    memo.put(two, [-2.0])
    memo.get(one)
    memo.put(three, [-3.0])
    assert [memo.get(target) for target in (one, two, three)] == [[-1.0], None, [-3.0]]
    assert len(memo) == 2
