"""What the report shows of valid successes: never a 0 where it means unknown."""

from __future__ import annotations

from medstress.metrics import Estimate
from medstress.report.validity import valid_cell

BOUNDS = {"asr_valid_bounds": [0.0, 0.3, 0.4], "n_flipped": 40}


def test_where_nobody_vouches_the_rate_is_unknown_and_its_bounds_are_shown() -> None:
    row = {"asr_valid": None, "n_validity_unknown": 30, "n_censored": 10, **BOUNDS}
    cell = valid_cell(row)
    assert cell.value == "unknown"
    assert cell.lines == (
        "between .000 and .300, .400 with censored",
        "30 unknown",
        "10 censored",
    )


def test_where_someone_vouches_it_is_said_who_and_how_often() -> None:
    valid = {"value": 0.25, "n": 100, "low": 0.1, "high": 0.35, "method": "m"}
    row = {"asr_valid": {**valid, "n_labels": 20}, **BOUNDS}
    cell = valid_cell(row)
    assert cell.value == Estimate(value=0.25, n=100, low=0.1, high=0.35, method="m")
    assert cell.lines[0] == "review: 20 of 40 successes"


def test_an_interval_beyond_bounds_that_assume_nothing_is_explained() -> None:
    valid = {"value": 0.25, "n": 100, "low": 0.1, "high": 0.45, "method": "m"}
    valid |= {"n_labels": 38, "n_unlabelled": 2, "settled_ends": [0.08, 0.5]}
    lines = valid_cell({"asr_valid": valid, **BOUNDS}).lines
    assert "2 without a settled label: .080 to .500 with all invalid or all valid" in lines
    assert "the interval is for items like these, the bounds for these alone" in lines
    within = valid_cell({"asr_valid": valid | {"high": 0.35}, **BOUNDS}).lines
    assert not any("items like these" in line for line in within)


def test_without_a_success_there_is_nothing_to_be_known() -> None:
    row = {"asr_valid": None, "n_flipped": 0, "asr_valid_bounds": [0.0, 0.0, 0.0]}
    assert valid_cell(row).value == "no success"


def test_where_every_success_is_refuted_that_none_is_valid_is_known() -> None:
    row = {"asr_valid": None, "n_flipped": 5, "asr_valid_bounds": [0.0, 0.0, 0.0]}
    assert (valid_cell(row).value, valid_cell(row).lines) == ("none valid", ())
    censored = {**row, "n_censored": 2, "asr_valid_bounds": [0.0, 0.0, 0.2]}
    assert valid_cell(censored).value == "unknown"
    rounded = {**row, "n_validity_unknown": 1}
    assert valid_cell(rounded).value == "unknown"


def test_too_few_labels_are_said_first() -> None:
    few = {"asr_valid": None, "validity": {"why": "4 labels"}, "n_validity_unknown": 3, **BOUNDS}
    assert valid_cell(few).lines[0] == "4 labels"
