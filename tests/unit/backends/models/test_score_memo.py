"""Remembered scores: by content, least recently used forgotten, repetitions computed again."""

from __future__ import annotations

from medstress.backends.models.score_memo import ScoreMemo, Values, Wanted
from medstress.backends.models.token_tree import Target


def test_scores_are_found_by_tokens_start_and_source() -> None:
    memo = ScoreMemo()
    memo.put(Wanted(Target((1, 2, 3), 2)).key, [-0.5])
    assert memo.get(Wanted(Target((1, 2, 3), 2)).key) == [-0.5]
    assert memo.get(Wanted(Target((1, 2, 3), 1)).key) is None
    assert memo.get(Wanted(Target((2, 3), 1), source=(1,)).key) is None
    memo.put(Wanted(Target((2, 3), 1), source=(1,)).key, [-1.0])
    assert memo.get(Wanted(Target((2, 3), 1), source=(1,)).key) == [-1.0]


def test_what_was_not_used_for_longest_is_forgotten() -> None:
    memo = ScoreMemo(max_entries=2)
    one, two, three = (Wanted(Target((number, 0), 1)).key for number in (1, 2, 3))
    memo.put(one, [-1.0])
    memo.put(two, [-2.0])
    memo.get(one)
    memo.put(three, [-3.0])
    assert [memo.get(key) for key in (one, two, three)] == [[-1.0], None, [-3.0]]
    assert len(memo) == 2


def test_only_unknown_scores_are_computed_and_known_calls_once_more() -> None:
    memo = ScoreMemo()
    one, two, three = (Wanted(Target((number, 0), 1)) for number in (1, 2, 3))
    asked: list[tuple[list[list[Wanted]], bool]] = []

    def compute(calls: list[list[Wanted]], afresh: bool) -> list[list[Values]]:
        asked.append((calls, afresh))
        return [[[-float(each.target.tokens[0])] for each in call] for call in calls]

    assert memo.complete([[one, two]], compute) == [[[-1.0], [-2.0]]]
    assert memo.complete([[one, three], [two]], compute) == [[[-1.0], [-3.0]], [[-2.0]]]
    assert asked == [([[one, two]], False), ([[three]], False), ([[two]], True)]


def test_what_did_not_fit_into_memory_is_not_remembered() -> None:
    memo = ScoreMemo()
    wanted = Wanted(Target((1, 0), 1))
    assert memo.complete([[wanted]], lambda asked, _: [[None] for _ in asked]) == [[None]]
    assert len(memo) == 0
