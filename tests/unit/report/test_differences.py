from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medstress.report.cases.differences import Change, mark_changes
from medstress.report.cases.packing import splices

TEXT = st.text(alphabet="ab .,-\n(β", max_size=60)


def without(segments, change: Change) -> str:
    return "".join(segment.text for segment in segments if segment.change is not change)


@given(TEXT, TEXT)
def test_marked_texts_give_both_prompts_back(before, after):
    segments = mark_changes(before, after)
    assert without(segments, Change.ADDED) == before
    assert without(segments, Change.REMOVED) == after


def test_equal_prompts_have_nothing_marked():
    assert {segment.change for segment in mark_changes("A: x\n", "A: x\n")} == {Change.SAME}
    assert mark_changes("", "") == ()


def test_only_the_replaced_name_is_marked_and_whole():
    segments = mark_changes("A: folic acid.\nB: sotalol", "A: acetylsalicylic acid.\nB: sotalol")
    assert [(s.change.value, s.text) for s in segments] == [
        ("same", "A: "),
        ("removed", "folic"),
        ("added", "acetylsalicylic"),
        ("same", " acid.\nB: sotalol"),
    ]


def test_words_changed_side_by_side_are_one_change():
    segments = mark_changes("B: old big name.", "B: new small thing.")
    assert [s.text for s in segments] == ["B: ", "old big name", "new small thing", "."]


def test_insertions_in_several_places_are_marked_apart():
    segments = mark_changes("A man has a cough.", "A poor man has a bad cough.")
    assert [s.text.strip() for s in segments if s.change is Change.ADDED] == ["poor", "bad"]
    assert not [s for s in segments if s.change is Change.REMOVED]


@pytest.mark.timeout(20)
def test_very_long_changes_are_marked_without_comparing_every_word():
    before, after = " ".join(["a", "b"] * 3000), " ".join(["c", "b"] * 3000)
    segments = mark_changes(before, after)
    assert without(segments, Change.ADDED) == before


@pytest.mark.timeout(20)
def test_a_wall_of_punctuation_is_split_in_linear_time():
    wall = "x" + "." * 200_000 + "x"
    assert without(mark_changes(wall, wall + "!"), Change.REMOVED) == wall + "!"


@given(TEXT, TEXT)
def test_splices_give_the_text_after_back_in_the_units_of_scripts(before, after):
    before, after = "💊" + before, after + "𝔸"
    units, found, at = before.encode("utf-16-le"), b"", 0
    for start, removed, added in splices(before, after):
        found += units[2 * at : 2 * start] + added.encode("utf-16-le")
        at = start + removed
    assert (found + units[2 * at :]).decode("utf-16-le") == after
