"""Rows of results on planted trials: counts, shares and their worst ends."""

from dataclasses import replace

from medstress.analyses.results import RESULTS, Results
from medstress.analyses.run import Run
from medstress.analyses.verdict import VERDICT
from medstress.core.outcomes import Verdict
from planted_trials import planted_run, trial


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
