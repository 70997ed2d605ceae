"""`trial_seconds` and `max_seconds`: both are said, and nothing that arrived is lost."""


def test_a_trial_that_runs_out_is_cut_short_with_the_reason_and_can_be_run_again(
    bench, workbench, monkeypatch
):
    bench.write_items(workbench.questions(6))
    whole = bench.root / "whole"
    assert bench.run(out=whole) == 0
    monkeypatch.setenv("VICTIM_DELAY", "0.02")
    bench.tables["experiment"]["trial_seconds"] = 0.1
    assert bench.run("--set", "experiment.max_failed=99") == 0
    found = bench.summary()
    assert found["experiment"]["complete"]
    cut = [row for row in bench.rows() if row.verdict == "cut_short"]
    assert {row.error for row in cut} == {
        "it had not ended 0.1 seconds after its first call (trial_seconds)"
    }
    for row in bench.rows():
        assert row.n_asked == row.n_paid + row.n_cached + row.n_failed
    assert cut
    assert "cut_short" in {one["rule"] for one in found["warnings"]}
    n_before = len(bench.received())
    assert bench.run("--set", "experiment.max_failed=99") == 0
    assert len(bench.received()) == n_before
    monkeypatch.setenv("VICTIM_DELAY", "0")
    del bench.tables["experiment"]["trial_seconds"]
    assert bench.run("--retry-failed") == 0
    verdicts = [(row.trial_id, row.verdict, row.n_asked) for row in bench.rows()]
    assert verdicts == [(row.trial_id, row.verdict, row.n_asked) for row in bench.rows(whole)]
