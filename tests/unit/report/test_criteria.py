"""Verdicts, cases and tables of criteria and slices."""

from __future__ import annotations

from medstress.report import criteria
from medstress.results.junit import Outcome


def judged(samples, met, **more):
    return {
        "metric": "asr", "at_budget": 8, "where": {"group": "drugs"}, "bound": {"max_high": 0.2},
        "estimate": samples.estimate(17, 51), "bounds": [0.2, 0.9], "met": met,
        "reason": None if met else "its upper end is .900, above .2",
        "row": {"dataset": "sample", "group": "drugs", "victim": "mock", "attack": "pdws"}, **more,
    }  # fmt: skip


def summary(samples, *requirements, **experiment):
    found = samples.summary(requirements=list(requirements))
    found["experiment"] |= experiment
    lengths = {"n_length_at_baseline": 0, "n_length_answers": 0}
    found["results"] = [row | lengths for row in found["results"]]
    return found


def test_the_verdict_names_what_is_missed_and_where(samples):
    told = criteria.verdict(summary(samples, *(judged(samples, met) for met in (False, True))))
    assert told.startswith("1 of 2 criteria is missed: ASR at 8 queries of drugs at most .200: ")
    assert "above .2, in sample, drugs, mock, pdws." in told
    assert criteria.verdict(summary(samples)) is None
    assert criteria.verdict(summary(samples, judged(samples, True))).startswith(
        "The criterion is met: "
    )
    both = summary(samples, judged(samples, True), judged(samples, True))
    assert criteria.verdict(both).startswith("All 2 criteria are met: ")
    assert "not judged yet" in criteria.verdict(summary(samples, judged(samples, None)))


def test_the_verdict_speaks_in_names_and_files_for_machines_in_keys(samples):
    key = "entity_substitution sampler=pdws n=-20"
    row = {"dataset": "sample", "group": "drugs", "victim": "mock", "attack": key}
    each = judged(samples, False, where={"attack": key}, row=row)
    found = {**summary(samples, each), "names": {"attacks": {key: "near names (n -20)"}}}
    told = criteria.verdict(found)
    assert "of near names (n -20) at most .200" in told
    assert "in sample, drugs, mock, near names (n -20)." in told
    assert key not in told
    assert key in criteria.cases(found, 0)[0].name


def test_a_long_label_is_cut_and_the_reason_is_not(samples):
    long = {"dataset": "d" * 500, "group": "g" * 500, "victim": "v" * 500, "attack": "a" * 500}
    each = judged(samples, False, where={"attack": long["attack"]}, row=long)
    told = criteria.verdict(summary(samples, each))
    assert "its upper end is .900, above .2, in " in told
    assert len(told) < 500


def test_a_criterion_is_a_failure_and_a_fault_an_error(samples):
    found = summary(samples, judged(samples, False), judged(samples, True), complete=True)
    failed = sum(row["n_failed"] + row["n_failed_at_baseline"] for row in found["results"])
    assert failed
    cases = criteria.cases(found, allowed=0)
    assert [case.outcome for case in cases] == [
        Outcome.FAILED,
        Outcome.OK,
        Outcome.ERROR,
        Outcome.OK,
        Outcome.OK,
    ]
    assert criteria.cases(found, allowed=failed)[2].outcome is Outcome.OK
    partial = summary(samples, judged(samples, None), complete=False)
    assert [case.outcome for case in criteria.cases(partial, failed)][-1] is Outcome.ERROR
    assert criteria.cases(partial, failed)[0].outcome is Outcome.ERROR


def test_a_criterion_that_found_nothing_to_count_is_an_error(samples):
    found = summary(
        samples, judged(samples, False, fault=True), judged(samples, False, fault=False)
    )
    first, second, *_ = criteria.cases(found, allowed=0)
    assert (first.outcome, second.outcome) == (Outcome.ERROR, Outcome.FAILED)
    assert criteria.misses(found)


def test_a_run_that_stopped_by_its_own_rule_is_no_fault(samples):
    decided = {"saved_trials": 100, "saved_queries": 321}
    found = summary(samples, judged(samples, True), complete=False, decided=decided)
    assert criteria.cases(found, 99)[-1].outcome is Outcome.OK


def test_the_table_shows_what_decided(samples):
    (cells,) = samples.shown(criteria.requirements_table([judged(samples, False)]))
    assert cells["Verdict"] == "missed"
    assert cells["Estimate"].startswith("17/51 = .333")
    assert cells["Estimate"].endswith("at worst [.200, .900]")
    assert cells["Worst row"] == "sample, drugs, mock, pdws"
    by = judged(samples, True, judged_by="99 % confidence sequence over 94 items")
    (cells,) = samples.shown(criteria.requirements_table([by]))
    assert cells["Estimate"].endswith("99 % confidence sequence over 94 items: [.200, .900]")
    none = judged(samples, False) | {"estimate": None, "row": None, "bounds": None}
    (cells,) = samples.shown(criteria.requirements_table([none]))
    assert (cells["Estimate"], cells["Worst row"]) == ("–", "–")


def test_a_difference_has_no_counts(samples):
    found = judged(samples, True, against={"run": "old", "victim": "v"})
    (cells,) = samples.shown(criteria.requirements_table([found]))
    assert "17/51" not in cells["Estimate"]
    assert "minus that of old" in cells["Criterion"]


def test_a_slice_that_says_nothing_says_so(samples):
    row = samples.result("drugs", "random", 0) | {"by": "type", "value": "T121"}
    tiny = row | {"asr": samples.estimate(1, 2), "asr_shrunken": 0.31}
    wide, said = samples.shown(criteria.slices_table([row, tiny]))
    assert wide["Slice"] == "type = T121"
    assert "too few" not in wide["ASR"]
    assert said["ASR"].endswith("too few items to say anything")
    assert said["ASR, shrunken"] == ".310"


def test_a_worst_slice_that_differs_from_none_says_so(samples):
    row = samples.result("drugs", "random", 0) | {"by": "key", "value": "A", "asr_shrunken": 0.4}
    worst = [row | {"n_slices": n, "differs": d} for n, d in ((3, True), (3, False), (1, None))]
    clear, tied, only = samples.shown(criteria.worst_table({"worst": worst}))
    assert clear["ASR, shrunken"] == ".400"
    assert tied["ASR, shrunken"].endswith("no slice differs from the others beyond chance")
    assert only["ASR, shrunken"].endswith("the only slice")
