"""Attempts on planted trials: the curve, attempts that asked nothing, votes on the key."""

from dataclasses import replace
from typing import Any

import pytest

from medstress.analyses.attempts import ATTEMPTS, Attempts, AttemptsOfArm
from medstress.analyses.shown import as_json
from medstress.core.arms import AttackRecord
from medstress.core.outcomes import Verdict
from medstress.core.trials import Trial
from planted_trials import arm, planted_run, trial

FUZZ = AttackRecord(
    label="MedFuzz",
    name="medfuzz",
    budget=3,
    attempts=3,
    params={"name": "medfuzz", "template": "mine"},
)


def tries(*attempts: str, votes: tuple[str | None, str | None] | None = None) -> Any:
    """Records of attempts: `held`, `lost`, `refused`, `judge`, a gate's name or several with +."""
    records: list[dict[str, Any]] = [{"attempt": 0, "query": 0, "answer": "A"}]
    query = 0
    for i, what in enumerate(attempts, start=1):
        if what == "refused":
            lost = {"unreadable": "the plan", "lost": "no JSON", "reason": "no JSON"}
            records.append({"attempt": i, **lost})
            continue
        gates = [] if what in ("held", "lost") else what.replace("judge", "evidence").split("+")
        records.append(
            {
                "attempt": i,
                "edits": [],
                "evidence_by": "judge" if what == "judge" else "list",
                "objections": [{"gate": gate, "reason": "why"} for gate in gates],
            }
        )
        if not gates:
            query += 1
            records.append({"attempt": i, "query": query, "answer": "B" if what == "lost" else "A"})
        if what == "lost" and votes is not None:
            records.append({"attempt": i, "clean_vote": votes[0], "key_vote": votes[1]})
    return tuple(records)


def fuzzed(number: int, *attempts: str, votes: Any = None, **rest: Any) -> Trial:
    """A trial of these attempts; the last one is its success if it is lost."""
    asked = [what for what in attempts if what in ("held", "lost")]
    is_lost = attempts[-1:] == ("lost",)
    made = trial(
        number,
        arm(FUZZ),
        flipped_at=len(asked) if is_lost else None,
        asked=len(asked),
        records=tries(*attempts, votes=votes),
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


def test_the_curve_counts_attempts_and_not_queries():
    # Rejected attempts take attempts and no query: the second trial is lost in its third attempt,
    # at its first query.
    row = only(
        [
            fuzzed(1, "lost"),
            fuzzed(2, "facts", "refused", "lost"),
            fuzzed(3, "held", "held", "held"),
            trial(4, arm(FUZZ), verdict=Verdict.ALREADY_WRONG),
        ]
    )
    assert [(one.attempt, one.estimate.hits, one.estimate.n) for one in row.curve] == [
        (0, 3, 4),
        (1, 2, 4),
        (2, 2, 4),
        (3, 1, 4),
    ]
    assert (row.attempts_to_success.median, row.attempts_to_success.mean) == (2.0, 2.0)


def test_runs_of_an_item_weigh_alike_and_are_no_independent_answers():
    trials = [
        fuzzed(i, "lost" if run < 2 else "held", repeat=run) for i in range(6) for run in range(3)
    ]
    row = only(trials)
    last = row.curve[-1].estimate
    assert (last.hits, last.n) == (6, 18)
    assert row.curve[0].estimate.effect == 3


def test_gates_that_reject_everything_are_named_with_who_said_so():
    row = only([fuzzed(i, "facts", "facts+evidence", "judge") for i in range(5)])
    assert row.lost_by_reason == {"facts": 10, "evidence, says the judge": 5}
    assert row.n_made == row.n_asked + sum(row.lost_by_reason.values())


def test_what_was_cut_off_is_named_with_its_turn_and_the_key_of_its_role():
    def lost(number: int, *turns: str) -> Trial:
        made = fuzzed(number, *(["refused"] * len(turns)))
        notes = [
            {"attempt": i, "unreadable": turn, "lost": "cut off", "reason": "it was cut off"}
            for i, turn in enumerate(turns, start=1)
        ]
        return replace(made, records=(made.records[0], *notes))

    trials = [lost(i, "the plan", "the plan", "the insertions") for i in range(2)]
    (remark,) = (one for one in result(trials).remarks() if one.rule == "attempts_lost")
    assert "6 of 6 attempts never reached" in remark.sentence
    assert "Lost by: the plan: cut off (4); the insertions: cut off (2). " in remark.sentence
    assert remark.sentence.endswith(
        "Raise max_new_tokens of [role.attacker], which cut the plan 4 times and the insertions 2 "
        "times."
    )
    talks = [{"attempt": 0, "query": 0, "answer": "A", "cut_turn": "confidences"}]
    trials = [replace(fuzzed(1, "held"), records=(*talks, *tries("held")[1:]))]
    (remark,) = (one for one in result(trials).remarks() if one.rule == "cut_confidences")
    assert "in 1 conversations" in remark.sentence


def test_replies_of_a_judge_that_cannot_be_used_are_said_with_the_reason():
    reason = "evidence: Field required"
    made = fuzzed(1, "held")
    judged = {**made.records[1], "judge": {"unreadable": reason}}
    trials = [replace(made, records=(made.records[0], judged, *made.records[2:]))]
    (remark,) = (one for one in result(trials).remarks() if one.rule == "judge_unread")
    assert f"1 of 1 replies of the judge about evidence could not be used: {reason}. " in (
        remark.sentence
    )


def test_answers_that_nobody_can_read_may_be_lost():
    row = only([fuzzed(i, "held", "held", "held", unreadable=3) for i in range(8)])
    after = row.curve[-1].estimate
    assert after.value == 1.0
    assert after.worst[0] == 0.0
    assert row.curve[0].estimate.worst is None


def test_tables_and_json_name_every_reason():
    lost = fuzzed(1, "facts", "refused", "lost", votes=("A", "A"))
    shown = result([lost, fuzzed(2, "held", "held", "held")])
    assert [one.name for one in shown.tables()] == ["attempts", "attempts-lost", "key-votes"]
    reasons = shown.tables()[1].rows
    assert [row[3].value for row in reasons] == ["facts", "the plan: no JSON object in the reply"]
    (chart,) = shown.charts()
    assert [point.x for point in chart.points] == [0, 1, 2, 3]
    (row,) = as_json(shown.rows)
    assert row["curve"][3]["attempt"] == 3
    assert row["curve"][3]["value"] == pytest.approx(0.5)
    assert row["lost_by_reason"] == {"facts": 1, "the plan: no JSON object in the reply": 1}
    assert "cell" not in row
