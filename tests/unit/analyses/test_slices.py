"""Slices: planted rates, overlapping and tiny ones, and which of them differ."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from medstress.analyses.slices import SLICES, Slicer, Slices
from medstress.core.items import Mention
from medstress.core.outcomes import Verdict
from medstress.core.trials import Trial
from medstress.stats.estimate import sidak
from planted_trials import PLACE, control, planted_run, question, trial

SPECIFIED = {"by": ["subject"], "label": "pre-specified", "cuts": {}, "types": {}}


def rows(subject: Any, lost: int, n: int, start: int, **more: Any) -> list[Trial]:
    trials = []
    for i in range(n):
        item = replace(question(start + i), metadata={"subject": subject})
        trials.append(trial(start + i, item=item, flipped_at=1 if i < lost else None, **more))
    return trials


def of(trials: Sequence[Trial], **described: Any) -> Slices:
    return planted_run(trials, slices={**SPECIFIED, **described}).of(SLICES)


def rules(slices: Slices) -> dict[str, str]:
    return {remark.rule: remark.sentence for remark in slices.remarks()}


def test_a_slice_that_loses_more_is_named():
    slices = of([*rows("a", 10, 100, 0), *rows("b", 70, 100, 100), *rows("c", 12, 100, 200)])
    assert [(row.value, row.n_items, row.asr.hits) for row in slices.rows] == [
        ("a", 100, 10),
        ("b", 100, 70),
        ("c", 100, 12),
    ]
    sentence = rules(slices)["slice_differs"]
    assert "subject = b loses more than subject = a, subject = c" in sentence


def test_rates_that_differ_by_chance_are_no_difference():
    slices = of([*rows("a", 30, 100, 0), *rows("b", 42, 100, 100)])
    assert "slice_differs" not in rules(slices)
    assert "no_slice_differs" in rules(slices)


def test_a_tiny_slice_with_the_highest_rate_is_not_the_worst():
    slices = of([*rows("a", 60, 100, 0), *rows("b", 2, 2, 100), *rows("c", 10, 100, 200)])
    assert rules(slices)["slice_differs"].endswith("subject = a loses more than subject = c.")
    assert rules(slices)["small_slices"].startswith("1 of 3 slices")
    assert "subject = b" in rules(slices)["small_slices"]


def test_nothing_is_said_of_a_difference_where_a_slice_cannot_be_counted():
    wrong = [
        replace(one, verdict=Verdict.ALREADY_WRONG, first=None, pick=None)
        for one in rows("b", 0, 20, 100)
    ]
    slices = of([*rows("a", 5, 100, 0), *wrong])
    assert {row.value: row.asr.n for row in slices.rows} == {"a": 100, "b": 0}
    assert "no_slice_differs" not in rules(slices)


def test_slices_where_all_answers_are_alike_are_not_called_equal_for_no_variance():
    """Every trial of one slice is lost and none of the other: no estimate of a variance is 0."""
    slices = of([*rows("a", 30, 30, 0), *rows("b", 0, 30, 100)])
    assert "slice_differs" in rules(slices)
    slices = of([*rows("a", 0, 30, 0), *rows("b", 0, 30, 100)])
    assert "no_slice_differs" in rules(slices)


def test_open_answers_count_at_their_worst():
    mute = rows("b", 0, 100, 100, asked=8, unreadable=8)
    slices = of([*rows("a", 60, 100, 0), *mute])
    _, b = slices.rows
    assert b.asr.high < 0.1
    assert b.asr.ends[1] == 1.0
    # All of b may be lost, so a is not shown to lose more.
    assert "slice_differs" not in rules(slices)


def test_nets_hold_together_with_those_of_other_slices():
    attack = [*rows("a", 60, 100, 0), *rows("b", 20, 100, 100)]
    harmless = [*rows("a", 10, 100, 0, at=control()), *rows("b", 20, 100, 100, at=control())]
    a, b = of([*attack, *harmless]).rows
    assert (a.asr_net["no_op"].value, b.asr_net["no_op"].value) == (0.5, 0.0)
    assert f"{100 * sidak(2):.4g} %" in a.asr_net["no_op"].method
    assert a.level == sidak(2)


def test_properties_of_an_item():
    item = replace(
        question(1, key="B"),
        mentions=(
            Mention(field="A", start=0, end=4, type="T121"),
            Mention(field="B", start=0, end=4, type="T047"),
            Mention(field="C", start=0, end=4, type="made up"),
        ),
        metadata={"topic": "heart"},
    )
    described = {
        "by": ["key", "type", "semantic_group", "option_length", "question_length", "subject"],
        "cuts": {PLACE.dataset: {"option_length": [], "question_length": [10, 20]}},
        "types": {PLACE.group: ["T121", "T047"]},
    }
    slices = dict(Slicer(described).slices_of(item, PLACE))
    assert slices == {
        "key": "B",
        "type": "T121 (Pharmacologic Substance)",
        "semantic_group": "Chemicals & Drugs",
        "option_length": "any length",
        "question_length": "21 characters and more",
        "subject": "heart",
    }
