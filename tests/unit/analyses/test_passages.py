"""What passages are worth, what attacks take with them, and who remembers: by hand."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from medstress.analyses.passages import READING, Passages
from medstress.analyses.run import Run
from medstress.core.arms import Arm, AttackRecord
from medstress.core.items import Question
from medstress.core.outcomes import Verdict
from medstress.core.passages import DECIDES
from medstress.core.text import Edit
from medstress.core.trials import Answer, Success, Trial, Validity
from medstress.core.validity import EVIDENCE_CHANGED
from medstress.testing.planted_trials import arm, control, planted_run, question, trial

SAME = {"model_hash": "m", "task": {"answer_by": "letter"}}
NAMES = {"drugs": {"n_names": 9}, "diseases": {"n_names": 9}, "all": {}}


def prompt(source: str) -> dict[str, Any]:
    return {"name": "p", "source": source, "jinja": False, "lists_options": True}


VICTIMS = {
    "open": {**SAME, "prompt": prompt("{passage} {stem}")},
    "closed": {**SAME, "prompt": prompt("{stem}")},
}


def item(name: str, **metadata: Any) -> Question:
    return replace(question(ord(name)), id=name, passage=f"About {name}.", metadata=metadata)


def attack(label: str) -> AttackRecord:
    return AttackRecord(label=label, name=label)


def answered(
    victim: str, right: str, items: str = "abcdefgh", label: str = "near", group: str = "drugs"
) -> list[Trial]:
    """One trial an item; the model is right about those in `right`; abcd decide."""
    at = arm(attack(label), victim=victim, group=group)
    return [
        trial(
            ord(name),
            at,
            item=item(name, **{DECIDES: name in "abcd"}),
            verdict=Verdict.HELD if name in right else Verdict.ALREADY_WRONG,
        )
        for name in items
    ]


def run_of(trials: Iterable[Trial], **parts: Any) -> Run:
    return planted_run(trials, **{"victims": VICTIMS, "groups": NAMES, **parts})


def passages(trials: Iterable[Trial], **parts: Any) -> Passages:
    computed = run_of(trials, **parts).of(READING)
    assert computed is not None
    return computed


def test_the_gain_is_paired_and_split_by_what_the_passage_decides() -> None:
    of = passages(
        [
            *answered("open", "abcdef"),
            *answered("closed", "afgh"),
            # Another attack asks the same clean items, which count once.
            *answered("open", "abcdef", label="pdws"),
        ]
    )
    gains = {row.passages: row for row in of.gains}
    assert {name: (row.n, row.gain.value) for name, row in gains.items()} == {
        "all": (8, pytest.approx(2 / 8)),
        "deciding": (4, pytest.approx(3 / 4)),
        "undecided": (4, pytest.approx(-1 / 4)),
    }
    assert (gains["all"].accuracy_open.hits, gains["all"].accuracy_closed.hits) == (6, 4)
    # Four against two: far from significant, and it is said.
    assert (gains["all"].p or 0) > 0.3
    assert [remark.rule for remark in of.remarks()] == ["passage_gain"]
    assert [table.name for table in of.tables() if table.rows] == ["passages", "passage_accuracies"]


def test_only_items_that_both_answered_are_compared() -> None:
    closed = arm(attack("near"), victim="closed")
    failed = replace(trial(ord("c"), closed, item=item("c"), verdict=Verdict.FAILED), at="baseline")
    (row,) = passages(
        [
            *(replace(one, item=item(one.item.id)) for one in answered("open", "ab", "abc")),
            *(replace(one, item=item(one.item.id)) for one in answered("closed", "a", "ab")),
            failed,
        ]
    ).gains
    assert (row.passages, row.n) == ("all", 2)


def test_a_gain_from_passages_that_decide_nothing_is_no_reading() -> None:
    names = "".join(chr(ord("e") + i) for i in range(20))
    of = passages([*answered("open", names, names), *answered("closed", "", names)])
    sentences = [remark.sentence for remark in of.remarks()]
    assert len(sentences) == 1
    assert "no reading" in sentences[0]


def test_without_a_model_that_is_not_shown_the_passage_nothing_is_compared() -> None:
    alone = {"open": VICTIMS["open"]}
    assert run_of(answered("open", "a"), victims=alone).of(READING) is None
    other = {**VICTIMS, "closed": {**VICTIMS["closed"], "model_hash": "another"}}
    assert run_of(answered("open", "a"), victims=other).of(READING) is None
    # It is there, but nothing asked it.
    assert [remark.rule for remark in passages(answered("open", "a")).remarks()] == ["no_gain"]


def test_attacks_without_names_are_shown_on_the_items_of_each_group() -> None:
    of = passages(
        [
            *answered("open", "ab", "abcd"),
            *answered("open", "e", "ef", group="diseases"),
            *answered("open", "abe", label="noise", group="all"),
        ]
    )
    shown = {(row.group, row.attack): (row.accuracy.hits, row.accuracy.n) for row in of.accuracies}
    assert shown == {
        ("drugs", "near"): (2, 4),
        ("drugs", "noise"): (2, 4),
        ("diseases", "near"): (1, 2),
        ("diseases", "noise"): (1, 2),
    }


def test_items_that_an_attack_cannot_edit_keep_their_answers() -> None:
    noise = arm(attack("noise"), victim="open")
    trials = [
        *answered("open", "abc", "abcd"),
        trial(ord("a"), noise, item=item("a"), flipped_at=1),
        *(
            trial(ord(name), noise, item=item(name), verdict=Verdict.NOT_ATTACKABLE)
            for name in "bcd"
        ),
    ]
    after = {row.attack: row.accuracy_after for row in passages(trials).accuracies}
    assert (after["near"].hits, after["near"].n) == (3, 4)
    # Of its own single item nothing is left; of the four that are compared, half.
    assert (after["noise"].hits, after["noise"].n) == (2, 4)


def test_every_seed_counts_after_an_attack_and_each_item_once_before() -> None:
    trials = [
        trial(ord(name), arm(attack("near"), seed, victim="open"), item=item(name), flipped_at=hit)
        for name in "ab"
        for seed, hit in ((0, None), (1, 1))
    ]
    (row,) = passages(trials).accuracies
    assert (row.accuracy.hits, row.accuracy.n) == (2, 2)
    assert (row.accuracy_after.hits, row.accuracy_after.n) == (2, 4)


def test_of_the_arms_of_one_control_that_with_most_queries_stands_for_all() -> None:
    def beside(label: str, asked: int, right: bool) -> Trial:
        at = control(of=arm(attack(label), victim="open"))
        hit = None if right else 1
        return trial(ord("a"), at, item=item("a"), flipped_at=hit, asked=asked)

    trials = [
        *answered("open", "a", "a"),
        *answered("open", "a", "a", label="far"),
        beside("near", 2, right=True),
        beside("far", 5, right=False),
    ]
    rows = {row.attack: row.accuracy_after.hits for row in passages(trials).accuracies}
    assert rows == {"near": 1, "far": 1, "no_op": 0}


def changed(name: str, answer: str | None, *, at: Arm, **more: Any) -> Trial:
    edits = (Edit(field="passage", start=0, end=1, replacement=item(name).option("B")),)
    return trial(ord(name), at, item=item(name), last=Answer(answer), edits=edits, **more)


def test_the_three_shares_of_changed_evidence_add_up() -> None:
    swap = arm(AttackRecord(label="swap", name="passage_swap"), victim="open")
    of = passages(
        [
            changed("a", "B", at=swap),
            changed("b", None, at=swap),
            changed("c", "A", at=swap),
            changed("d", "C", at=swap, verdict=Verdict.ALREADY_WRONG),
            trial(ord("e"), swap, item=item("e"), verdict=Verdict.FAILED),
        ]
    )
    (row,) = of.evidence
    for share in (row.followed, row.kept, row.other):
        assert (share.hits, share.n) == (1, 3)
    # What it takes is no error, so that no accuracy after it is shown.
    assert of.accuracies == []
    assert [chart.name for chart in of.charts() if chart.points] == ["evidence"]


def test_a_success_that_changes_the_evidence_is_no_error_either() -> None:
    taken = Success(
        query=1,
        edits=(),
        answer=Answer("B"),
        validity=Validity(valid=False, reason=EVIDENCE_CHANGED),
    )
    none = trial(
        ord("a"),
        arm(attack("none"), victim="open"),
        item=item("a"),
        verdict=Verdict.FLIPPED,
        first=taken,
        pick=taken,
    )
    of = passages([none, *answered("open", "a", "a")])
    assert [row.attack for row in of.accuracies] == ["near"]


def test_a_model_that_remembers_is_named() -> None:
    swap = arm(AttackRecord(label="swap", name="passage_swap"), victim="open")
    names = "".join(chr(ord("a") + i) for i in range(20))
    remembers = passages([changed(name, "A", at=swap) for name in names])
    assert "remembers" in [remark.rule for remark in remembers.remarks()]
    reads = passages([changed(name, "B", at=swap) for name in names])
    assert "remembers" not in [remark.rule for remark in reads.remarks()]
