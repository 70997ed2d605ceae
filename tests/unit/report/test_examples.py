from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medstress.report.examples import Change, choose, mark_changes, show, successes

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


def test_the_choice_is_even_over_the_attacks(samples):
    trials = [samples.trial(i, attack="common") for i in range(500)]
    trials += [samples.trial(i, attack="rare", trial_id=f"r{i}") for i in range(7)]
    trials += [samples.trial(i, attack="other", trial_id=f"o{i}") for i in range(300)]
    chosen = Counter(trial.attack for trial in choose(trials, 200, "salt"))
    assert chosen == {"rare": 7, "common": 97, "other": 96}


def test_the_choice_does_not_depend_on_the_order_of_the_trials(samples):
    trials = [samples.trial(i) for i in range(60)]
    shuffled = random.Random(0).sample(trials, len(trials))
    assert choose(trials, 10, "salt") == choose(shuffled, 10, "salt")
    assert choose(trials, 10, "salt") != choose(trials, 10, "pepper")


def test_controls_that_flip_are_no_successes(samples):
    assert successes([samples.trial(0, arm="repeat"), samples.trial(1)]) == [samples.trial(1)]


def test_a_success_without_prompts_shows_the_names(samples):
    shown = show(samples.trial(0, listing_before=None, listing_after=None))
    assert [segment.text for segment in shown.segments] == [
        shown.trial.replaced,
        shown.trial.replacement,
    ]
