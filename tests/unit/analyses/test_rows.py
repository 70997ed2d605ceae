"""Rows of results on planted trials: counts, shares and their worst ends."""

from dataclasses import replace

import pytest

from medstress.analyses.results import RESULTS, Results
from medstress.analyses.run import Run
from medstress.analyses.shown import as_json
from medstress.analyses.verdict import VERDICT
from medstress.core.outcomes import Verdict
from medstress.stats.estimate import Estimate
from planted_trials import arm, control, planted_run, trial


def results(run: Run) -> Results:
    computed = run.of(RESULTS)
    assert computed is not None
    return computed


def test_counts_add_up():
    run = planted_run(
        [
            trial(1, flipped_at=2),
            trial(2),
            trial(3, verdict=Verdict.ALREADY_WRONG),
            trial(4, verdict=Verdict.NOT_ATTACKABLE),
            trial(5, verdict=Verdict.UNREADABLE),
            trial(6, verdict=Verdict.FAILED, asked=3),
            trial(7, flipped_at=8),
        ]
    )
    (row,) = results(run).rows
    n = row.counts
    assert (n.n_trials, n.n_eligible, n.n_flipped, n.n_held, n.n_failed) == (7, 4, 2, 1, 1)
    assert row.success.asr.hits == 2
    assert row.success.asr.n == 4
    # The failed trial may be lost, and the unreadable question may have been right and lost.
    assert row.success.asr.worst is not None
    low, high = row.success.asr.worst
    assert low < row.success.asr.low  # type: ignore[operator]
    assert high > row.success.asr.high  # type: ignore[operator]
    assert row.queries["asked"] == 2 + 8 + 3 + 8


def test_scores_that_are_always_tied_are_said():
    tied = [trial(i) for i in range(1, 31)]
    tied = [replace(one, queries=one.queries._replace(ties=1)) for one in tied]
    run = planted_run(tied)
    assert "ties" in {remark.rule for remark in results(run).remarks()}
    verdict = run.of(VERDICT)
    assert "several options" in verdict.lines[2]
    assert "ties" not in {
        remark.rule for remark in results(planted_run([*tied[1:], trial(1)])).remarks()
    }


def test_success_within_every_budget():
    run = planted_run([trial(i, flipped_at=i) for i in range(1, 5)] + [trial(9)])
    (row,) = results(run).rows
    hits = {point.budget: point.estimate.hits for point in row.success.asr_at}
    assert hits == {1: 1, 2: 2, 3: 3, 4: 4, 5: 4, 6: 4, 7: 4, 8: 4}


def test_a_mute_model_is_not_robust():
    run = planted_run([trial(i, asked=8, unreadable=8) for i in range(20)])
    (row,) = results(run).rows
    assert row.counts.n_unreadable_under_attack == 20
    assert row.success.asr.value == 0.0
    assert row.success.asr.ends[1] == 1.0


def test_seeds_are_pooled_and_told_apart():
    trials = [
        trial(i, arm(seed=s), flipped_at=1 if i < 5 + s else None)
        for s in (0, 1)
        for i in range(10)
    ]
    found = results(planted_run(trials))
    assert [row.success.asr.hits for row in found.by_seed() if row.success] == [5, 6]
    (pooled,) = found.rows
    assert (pooled.success.asr.hits, pooled.success.asr.n) == (11, 20)
    assert pooled.success.asr.effect > 1


def test_a_control_that_takes_as_much_leaves_nothing():
    trials = [trial(i, flipped_at=1 if i % 2 else None) for i in range(40)]
    trials += [trial(i, control(), flipped_at=1 if i % 2 else None) for i in range(40)]
    row = results(planted_run(trials)).attacks[0]
    net = row.loss.asr_net["no_op"]
    assert net.value == 0.0
    assert row.loss.loss_bounds["no_op"] == (0.0, pytest.approx(0.648, abs=1e-3))


def test_failed_trials_are_counted_and_their_commonest_reason_is_said():
    trials = [trial(i) for i in range(6)]
    trials += [
        trial(i, verdict=Verdict.FAILED, note="no such\n weights" if i < 9 else "no network")
        for i in range(6, 10)
    ]
    (said,) = (one for one in results(planted_run(trials)).remarks() if one.rule == "failed")
    assert "4 of 10 trials failed" in said.sentence
    assert said.sentence.endswith("3 times: no such weights")


def test_json_keeps_hits_and_worst_ends():
    (row,) = results(planted_run([trial(1, flipped_at=1), trial(2, asked=8, unreadable=1)])).rows
    made = as_json(row)
    assert made["asr"]["hits"] == 1
    assert made["asr"]["worst"][1] == 1.0
    assert "cell" not in made


def test_questions_that_were_never_asked_may_be_lost():
    run = planted_run([trial(i) for i in range(19)] + [trial(19, asked=0)])
    (row,) = results(run).rows
    assert row.success.asr.worst[1] > row.success.asr.high  # type: ignore[operator]


def test_tables_show_worst_ends_of_controls_too():
    trials = [trial(i, arm()) for i in range(20)]
    trials += [trial(i, control(), unreadable=8) for i in range(20)]
    table = next(t for t in results(planted_run(trials)).tables() if t.name == "results")
    (row,) = table.rows
    entry = row[[column.key for column in table.columns].index("control_no_op")]
    assert isinstance(entry.value, Estimate)
    assert entry.value.hits == 0
    assert entry.lines == ("at worst [.000, 1.000]",)
    # No note speaks of a table that may not be there.
    assert table.notes == (
        "Shares have their counts and, in brackets, their 95 % intervals. Accuracy is of what "
        "could be attacked.",
    )
