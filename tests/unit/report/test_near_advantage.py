"""What the report and the terminal say of near draws' advantage."""

from __future__ import annotations

from typing import Any

from medstress.metrics.near_advantage import BEHIND, LABELS, NO_ADVANTAGE
from medstress.metrics.surviving import CASES
from medstress.report import render_report
from medstress.report.near_advantage import near_lines, near_table
from medstress.results.names import Names

NAMES = Names(attacks={"near n=-20": "near names"})


def estimate(value: float) -> dict[str, Any]:
    return {"value": value, "n": 100, "low": value - 0.1, "high": value + 0.1, "method": "m"}


def row(**changes: Any) -> dict[str, Any]:
    left = dict(zip(CASES, (-0.1, 0.0, 0.15, 0.25, -0.1, 0.3), strict=True))
    return {
        "dataset": "cases", "group": "drugs", "victim": "careful", "near": "near n=-20",
        "random": "random", "budget": 8, "differs": [], "n_items": 100, "n_pairs": 100,
        "n_open": 0, "advantage": estimate(0.2), "guesses": False, "why_no_share": None,
        "left": {**{name: estimate(value) for name, value in left.items()}, LABELS: None},
        "share": {**{name: estimate(value / 0.2) for name, value in left.items()}, LABELS: None},
        "n_labels": [0, 0], "n_unsettled": [0, 0], "settled_ends": None, "why_no_estimate": "w",
        **changes,
    }  # fmt: skip


def test_one_sentence_has_the_bounds_and_says_what_is_missing() -> None:
    (line,) = near_lines([row()], NAMES)
    assert line == (
        "near names against random (careful, cases, drugs): if only valid successes count, none to "
        "all of the advantage .200 [.100, .300] survives, 75% if every unknown success is valid; "
        "labels of a random sample would say how much"
    )


def test_labels_give_the_share_with_its_interval() -> None:
    share = {**row()["share"], LABELS: estimate(0.4)}
    (line,) = near_lines([row(share=share, n_labels=[30, 12])], NAMES)
    assert line.endswith("by 30 + 12 labels .400 [.300, .500]")


def test_without_an_advantage_no_share_is_named() -> None:
    none = dict.fromkeys((*CASES, LABELS))
    for why in (NO_ADVANTAGE, BEHIND):
        (line,) = near_lines([row(share=none, why_no_share=why)], NAMES)
        assert why in line
        assert "%" not in line
        assert "−.100 to .300" in line


def test_of_a_victim_that_guesses_nothing_follows() -> None:
    (line,) = near_lines([row(guesses=True)], NAMES)
    assert line.endswith("not above chance, so nothing follows")


def test_many_near_arms_are_cut_short() -> None:
    lines = near_lines([row(near=f"n{i}") for i in range(5)], NAMES)
    assert len(lines) == 4
    assert lines[-1] == "and 2 more near arms: summary --json, near_advantage"
    assert near_lines([], NAMES) == []


def test_the_report_has_the_table_among_second_right_answers(samples) -> None:
    share = {**row()["share"], LABELS: estimate(0.4)}
    left = {**row()["left"], LABELS: estimate(0.08)}
    none = dict.fromkeys((*CASES, LABELS))
    rows = [
        row(share=share, left=left, n_labels=[30, 12], differs=["variants"]),
        row(share=none, why_no_share=NO_ADVANTAGE, guesses=True),
    ]
    table = near_table(rows, NAMES)
    first, second = samples.shown(table)
    assert first["Near"] == "near names"
    assert first["Left of it: any unknown may be valid"] == "−.100 to .300"
    assert first["Share that survives: any unknown may be valid"] == "none to all"
    assert first["Share, by labels"] == ".400 [.300, .500]"
    assert second["Share that survives: any unknown may be valid"] == "none exists"
    assert "careful, drugs: not above chance, so nothing follows." in table.notes
    assert "near names and random also differ in variants." in table.notes
    page = render_report(samples.summary(near_advantage=rows), [], {})
    assert "Near draws against random ones" in page
    assert near_table([], NAMES) is None
