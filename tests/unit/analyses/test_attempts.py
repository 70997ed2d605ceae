"""Attempts on planted trials: the curve, attempts that asked nothing, judges, the panel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from medstress.analyses.as_json import as_json
from medstress.analyses.attempts import ATTEMPTS, Attempts, AttemptsOfArm
from medstress.core.arms import AttackRecord
from medstress.core.evidence import of_reason
from medstress.core.outcomes import Verdict
from medstress.core.trials import Trial, Validity
from medstress.testing.planted_trials import arm, planted_run, trial

GATES = ("facts", "evidence")
FUZZ = AttackRecord(
    label="MedFuzz",
    name="medfuzz",
    budget=3,
    attempts=3,
    params={"name": "medfuzz", "gates": GATES, "gate_mode": "reject"},
)


def at(victim: str = "target", **params: Any) -> Any:
    return arm(replace(FUZZ, params={**FUZZ.params, **params}), victim=victim)


def tries(
    *attempts: str, clean: Sequence[str | None] = "AAA", key: str = "A"
) -> tuple[dict[str, Any], ...]:
    """Records of attempts: `held`, `lost`, `refused`, a gate's name or several with +."""
    records: list[dict[str, Any]] = [{"attempt": 0, "query": 0, "answer": key}]
    query = 0
    for i, what in enumerate(attempts, start=1):
        if what == "refused":
            records.append({"attempt": i, "unreadable": "the plan", "reason": "no JSON"})
            continue
        gates = [] if what in ("held", "lost") else what.split("+")
        judges = {"judge": {"clean": list(clean), "votes": ["A"]}}
        records.append(
            {
                "attempt": i,
                "edits": [],
                "judges": judges,
                "objections": [{"gate": gate, "reason": "why"} for gate in gates],
            }
        )
        if not gates:
            query += 1
            records.append({"attempt": i, "query": query, "answer": "B" if what == "lost" else "A"})
    return tuple(records)


def fuzzed(number: int, *attempts: str, where: Any = None, **rest: Any) -> Trial:
    """A trial of these attempts; the last one is its success if it is lost."""
    asked = [what for what in attempts if what in ("held", "lost")]
    is_lost = attempts[-1:] == ("lost",)
    made = trial(
        number,
        where or at(),
        flipped_at=len(asked) if is_lost else None,
        asked=len(asked),
        records=tries(*attempts),
        rejected=len(attempts) - len(asked),
        **rest,
    )
    if made.first is None:
        return made
    success = replace(made.first, attempt=len(attempts))
    return replace(made, first=success, pick=success)


def result(trials: list[Trial], **parts: Any) -> Attempts:
    computed = planted_run(trials, **parts).of(ATTEMPTS)
    assert computed is not None
    return computed


def only(trials: list[Trial], **parts: Any) -> AttemptsOfArm:
    (row,) = result(trials, **parts).rows
    return row


def test_the_curve_counts_attempts_and_not_queries() -> None:
    # Rejected attempts take attempts and no query: the second trial is lost in its third attempt,
    # at its first query.
    row = only(
        [
            fuzzed(1, "lost"),
            fuzzed(2, "facts", "refused", "lost"),
            fuzzed(3, "held", "held", "held"),
            trial(4, at(), verdict=Verdict.ALREADY_WRONG),
        ]
    )
    assert [(one.attempt, one.estimate.hits, one.estimate.n) for one in row.curve] == [
        (0, 3, 4),
        (1, 2, 4),
        (2, 2, 4),
        (3, 1, 4),
    ]
    assert (row.attempts_to_success.median, row.attempts_to_success.mean) == (2.0, 2.0)


def test_runs_of_an_item_weigh_alike_and_are_no_independent_answers() -> None:
    trials = [
        fuzzed(i, "lost" if run < 2 else "held", repeat=run) for i in range(6) for run in range(3)
    ]
    row = only(trials)
    last = row.curve[-1].estimate
    assert (last.hits, last.n, row.n_runs) == (6, 18, 3)
    assert row.curve[0].estimate.effect == 3


def test_an_attacker_that_refuses_asks_nothing() -> None:
    shown = result([fuzzed(i, "refused", "refused", "refused") for i in range(4)])
    (row,) = shown.rows
    assert (row.n_made, row.n_asked, row.n_lost) == (12, 0, 12)
    assert row.lost_by_reason == {"unreadable: the plan": 12}
    assert {one.estimate.hits for one in row.curve} == {4}
    (remark,) = shown.remarks()
    assert remark.rule == "attempts_lost"
    assert "12 of 12" in remark.sentence


def test_gates_that_reject_everything_leave_the_rate_open() -> None:
    row = only([fuzzed(i, "facts", "facts+evidence", "evidence") for i in range(5)])
    assert row.lost_by_reason == {"facts": 10, "evidence": 5}
    assert row.n_made == row.n_asked + sum(row.lost_by_reason.values())
    counts = {gate.gate: (gate.n_objected, gate.n_alone) for gate in row.gates}
    assert counts == {"facts": (10, 5), "evidence": (10, 5)}
    # Nobody knows what the rejected edits would have done.
    assert all(gate.asr_without is not None and gate.asr_without.value == 1 for gate in row.gates)


def test_gates_that_mark_reject_nothing() -> None:
    marking = at(gate_mode="mark")
    row = only([fuzzed(1, "held", where=marking), fuzzed(2, "lost", where=marking)])
    assert row.lost_by_reason == {}
    assert [gate.asr_without for gate in row.gates] == [None, None]


def test_answers_that_nobody_can_read_may_be_lost() -> None:
    row = only([fuzzed(i, "held", "held", "held", unreadable=3) for i in range(8)])
    after = row.curve[-1].estimate
    assert after.value == 1.0
    assert after.worst is not None
    assert after.worst[0] == 0.0
    assert row.curve[0].estimate.worst is None


def test_a_judge_that_misses_the_right_answer_is_named() -> None:
    knowing, missing, mute = (
        replace(fuzzed(i, "held"), records=tries("held", clean=clean))
        for i, clean in ((1, "AAB"), (2, "BBA"), (3, ("A", None, None)))
    )
    shown = result([knowing, missing, mute])
    (row,) = shown.rows
    (judge,) = row.judges
    assert (judge.n_items, judge.missed, judge.unreadable) == (3, ["q2"], ["q3"])
    assert row.asr_unjudged is not None
    assert (row.asr_unjudged.hits, row.asr_unjudged.n) == (0, 2)
    assert {remark.rule for remark in shown.remarks()} == {"unjudged", "unreadable_judge"}


def judged(number: int, panel: bool, people: bool | None, sampled: bool = True) -> Trial:
    """A success that a panel judged, and people if they did."""
    made = fuzzed(number, "lost")
    assert made.pick is not None
    evidence = of_reason("panel", panel)
    valid = Validity(None, "panel", evidence)
    if people is not None:
        valid = Validity(people, "review", (*evidence, *of_reason("review", people)))
    pick = replace(made.pick, validity=valid)
    return replace(made, first=pick, pick=pick, sampled=sampled)


def test_the_panel_is_compared_with_people_on_the_sample_alone() -> None:
    trials = [
        judged(1, True, True),
        judged(2, True, False),
        judged(3, False, False),
        judged(4, True, True, sampled=False),
        judged(5, False, None),
    ]
    row = only(trials)
    assert row.panel is not None
    assert (row.panel.n_right, row.panel.n_wrong) == (3, 2)
    assert (row.panel.agrees_right.hits, row.panel.agrees_right.n) == (1, 1)
    assert (row.panel.agrees_wrong.hits, row.panel.agrees_wrong.n) == (1, 2)


def test_attacks_without_attempts_have_no_entry() -> None:
    assert planted_run([trial(1)]).of(ATTEMPTS) is None


def test_tables_and_json_name_every_reason() -> None:
    shown = result([fuzzed(1, "facts", "refused", "lost"), fuzzed(2, "held", "held", "held")])
    names = [one.name for one in shown.tables()]
    assert names == ["attempts", "attempts-lost", "gates", "judges"]
    lost = shown.tables()[1]
    assert [row[3].value for row in lost.rows] == ["facts", "unreadable: the plan"]
    (chart,) = shown.charts()
    assert [point.x for point in chart.points] == [0, 1, 2, 3]
    (row,) = as_json(shown.rows)
    assert row["curve"][3]["attempt"] == 3
    assert row["curve"][3]["value"] == pytest.approx(0.5)
    assert row["lost_by_reason"] == {"facts": 1, "unreadable: the plan": 1}
    assert "cell" not in row
