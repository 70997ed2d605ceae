"""What a passage is worth, by hand."""

from __future__ import annotations

import pytest

from medstress.core.outcomes import Verdict
from medstress.metrics.passages import accuracies_by_attack, passage_gains


def answered(trial, victim: str, right: str, items: str = "abcdefgh", **given):
    """One trial for each item; the victim is right about those in `right`."""
    return [
        trial(
            victim=victim,
            item_id=item,
            verdict=Verdict.HELD if item in right else Verdict.ALREADY_WRONG,
            **given,
        )
        for item in items
    ]


DECIDES = {("sample", item): item in "abcd" for item in "abcdefgh"}


def test_the_gain_is_paired_and_told_by_slice(trial) -> None:
    trials = [
        *answered(trial, "open", "abcdef"),
        *answered(trial, "closed", "afgh"),
        # Another attack asks the same clean items, which count once.
        *answered(trial, "open", "abcdef", attack="pdws"),
    ]
    found = passage_gains(trials, [("open", "closed")], DECIDES)
    rows = {row["passages"]: row for row in found}
    assert {name: row["n"] for name, row in rows.items()} == {
        "all": 8,
        "deciding": 4,
        "undecided": 4,
    }
    assert rows["all"]["gain"]["value"] == pytest.approx(2 / 8)
    assert rows["deciding"]["gain"]["value"] == pytest.approx(3 / 4)
    assert rows["undecided"]["gain"]["value"] == pytest.approx(-1 / 4)
    assert (rows["all"]["accuracy_open"]["value"], rows["all"]["accuracy_closed"]["value"]) == (
        6 / 8,
        4 / 8,
    )
    # b = 4 (b, c, d, e) and c = 2 (g, h): the exact p of 4 against 2 is far from significant.
    assert rows["all"]["p"] > 0.3


def test_only_items_that_both_answered_count_and_slices_need_marks(trial) -> None:
    trials = [
        *answered(trial, "open", "ab", items="abc"),
        *answered(trial, "closed", "a", items="ab"),
        trial(victim="closed", item_id="c", verdict=Verdict.FAILED, at="baseline"),
    ]
    (row,) = passage_gains(trials, [("open", "closed")], {})
    assert (row["passages"], row["n"]) == ("all", 2)
    assert passage_gains(trials, [], {}) == []
    assert passage_gains(trials, [("open", "elsewhere")], {}) == []


def test_documents_widen_the_interval(trial) -> None:
    def gain(**given):
        items = [f"{i}{c}" for i in range(12) for c in "ab"]
        wide = [x for i, x in enumerate(items) if i < 12]
        rows = [
            trial(
                victim=victim,
                item_id=item,
                verdict=Verdict.HELD if item in right else Verdict.ALREADY_WRONG,
                **({"cluster": item[:-1]} if given else {}),
            )
            for victim, right in (("open", wide), ("closed", []))
            for item in items
        ]
        (row,) = passage_gains(rows, [("open", "closed")], {})
        return row["gain"]["high"] - row["gain"]["low"]

    assert gain(documents=True) > 1.2 * gain()


def test_attacks_without_names_are_shown_on_the_items_of_each_group(trial) -> None:
    trials = [
        *answered(trial, "open", "ab", items="abcd", group="drugs", attack="near"),
        *answered(trial, "open", "e", items="ef", group="diseases", attack="near"),
        *answered(trial, "open", "abe", items="abcdefgh", group="all", attack="no_op"),
        trial(victim="closed", item_id="a", group="all", attack="no_op", verdict=Verdict.HELD),
    ]
    found = accuracies_by_attack(trials, free=["all"])
    shown = {
        (row["group"], row["attack"]): (row["accuracy"]["value"], row["accuracy"]["n"])
        for row in found
    }
    assert shown == {
        ("drugs", "near"): (0.5, 4),
        ("drugs", "no_op"): (0.5, 4),
        ("diseases", "near"): (0.5, 2),
        ("diseases", "no_op"): (0.5, 2),
    }
    alone = accuracies_by_attack([row for row in trials if row.group == "all"], free=["all"])
    assert {(row["group"], row["victim"]) for row in alone} == {("all", "open"), ("all", "closed")}


def test_items_that_an_attack_cannot_edit_keep_their_answers(trial) -> None:
    near = answered(trial, "open", "abc", items="abcd", attack="near")
    noise = [
        trial(victim="open", item_id="a", attack="noise", verdict=Verdict.FLIPPED),
        *(
            trial(victim="open", item_id=item, attack="noise", verdict=Verdict.NOT_ATTACKABLE)
            for item in "bcd"
        ),
    ]
    after = {r["attack"]: r["accuracy_after"] for r in accuracies_by_attack([*near, *noise])}
    assert (after["near"]["value"], after["near"]["n"]) == (3 / 4, 4)
    # Of its own single item nothing is left; of the four that the figure compares, half.
    assert (after["noise"]["value"], after["noise"]["n"]) == (2 / 4, 4)


def test_every_seed_counts_after_an_attack_and_each_item_once_before(trial) -> None:
    rows = [
        trial(victim="open", item_id=item, seed=seed, verdict=verdict)
        for item in "ab"
        for seed, verdict in ((0, Verdict.HELD), (1, Verdict.FLIPPED))
    ]
    (row,) = accuracies_by_attack(rows)
    assert (row["accuracy"]["value"], row["accuracy"]["n"]) == (1, 2)
    assert (row["accuracy_after"]["value"], row["accuracy_after"]["n"]) == (1 / 2, 4)


def test_what_changes_the_evidence_takes_nothing_that_this_figure_counts(trial) -> None:
    swapped = trial(victim="open", item_id="a", attack="swap", verdict=Verdict.HELD, supported="B")
    taken = trial(
        **{"victim": "open", "item_id": "a", "attack": "none", "verdict": Verdict.FLIPPED},
        **{"valid": False, "validity_reason": "evidence_changed"},
    )
    near = answered(trial, "open", "a", items="a", attack="near")
    assert [r["attack"] for r in accuracies_by_attack([swapped, taken, *near])] == ["near"]
