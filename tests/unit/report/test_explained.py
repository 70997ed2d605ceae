"""Sentences and rows of explanations: no group is told twice, and none is lost."""

from __future__ import annotations

from typing import Any

from medstress.report.explained import distinct, sentences


def row(n: int, kind: str = "success", **given: Any) -> dict[str, Any]:
    """A row of the summary."""
    values = {
        "victim": "v",
        "mask": "...",
        "regime": None,
        "attack": None,
        "shared_regime": None,
        "kind": kind,
        "n": n,
        "edit_after": {"n": n, "hits": 1, "by_chance": 2.04},
    }
    return {**values, **given}


def test_a_group_with_the_trials_of_a_narrower_one_is_left_out() -> None:
    both = row(10)
    near = row(5, regime="n<0", shared_regime="n<0")
    of_near = row(5, attack="near", shared_regime="n<0")
    # As many trials, but others.
    other = row(5, attack="random")
    assert distinct([both, near, of_near, other]) == [both, of_near, other]
    assert distinct([row(5), near]) == [near]
    # Of failed attacks the groups differ, so both are told.
    failed = [row(5), row(4, "failed"), near, row(3, "failed", regime="n<0")]
    assert distinct(failed) == failed


def test_a_sentence_has_successes_beside_failed_attacks_and_chance() -> None:
    found = {"values": ["probability"], "units": ["words"], "rows": [row(40), row(1, "failed")]}
    assert sentences({"explanations": found}) == [
        "In 1 of 40 successes the top word lies in the edit, by chance in 2; "
        "in 1 of 1 failed attack, by chance in 2."
    ]
    found["rows"] = [row(3, victim=f"v{i}") for i in range(7)]
    said = sentences({"explanations": found})
    assert (len(said), said[-1]) == (6, "The tables have 2 more.")
    assert sentences({}) == []
