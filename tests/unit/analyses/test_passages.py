"""What passages are worth, what attacks take with them, and who remembers: by hand."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from medstress.analyses.probes import READING, Passages
from medstress.analyses.run import Run
from medstress.core.arms import Arm, AttackRecord
from medstress.core.items import Question
from medstress.core.outcomes import Verdict
from medstress.core.resources import DECIDES
from medstress.core.text import Edit
from medstress.core.trials import Answer, Trial
from planted_trials import arm, planted_run, question, trial

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
    return run_of(trials, **parts).of(READING)


def test_the_gain_is_paired_and_split_by_what_the_passage_decides():
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
    assert [table.name for table in of.tables() if table.rows] == ["passages"]


def test_without_a_model_that_is_not_shown_the_passage_nothing_is_compared():
    alone = {"open": VICTIMS["open"]}
    assert run_of(answered("open", "a"), victims=alone).of(READING) is None
    other = {**VICTIMS, "closed": {**VICTIMS["closed"], "model_hash": "another"}}
    assert run_of(answered("open", "a"), victims=other).of(READING) is None
    # It is there, but nothing asked it.
    assert [remark.rule for remark in passages(answered("open", "a")).remarks()] == ["no_gain"]


def changed(name: str, answer: str | None, *, at: Arm, **more: Any) -> Trial:
    edits = (Edit(field="passage", start=0, end=1, replacement=item(name).option("B")),)
    return trial(ord(name), at, item=item(name), last=Answer(answer), edits=edits, **more)


def test_the_three_shares_of_changed_evidence_add_up():
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


def test_a_model_that_remembers_is_named():
    swap = arm(AttackRecord(label="swap", name="passage_swap"), victim="open")
    names = "".join(chr(ord("a") + i) for i in range(20))
    remembers = passages([changed(name, "A", at=swap) for name in names])
    assert "remembers" in [remark.rule for remark in remembers.remarks()]
    reads = passages([changed(name, "B", at=swap) for name in names])
    assert "remembers" not in [remark.rule for remark in reads.remarks()]
