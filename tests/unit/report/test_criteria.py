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
    assert told.startswith("1 of 2 criteria is missed: ASR at 8 queries of drugs at most 20 %: ")
    assert told.endswith(
        "33.3 %, 20 to 90 % if every unreadable or failed answer went the worst way, so the upper "
        "end is above 20 %, in sample, drugs, mock, pdws."
    )
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
    assert "of near names (n -20) at most 20 %" in told
    assert "in sample, drugs, mock, near names (n -20)." in told
    assert key not in told
    assert key in criteria.cases(found, 0)[0].name


def test_an_interval_that_no_open_answer_widens_is_said_alone(samples):
    estimate = samples.estimate(17, 51)
    own = judged(samples, False, bounds=[estimate["low"], estimate["high"]])
    told = criteria.verdict(summary(samples, own))
    assert ": 33.3 %, 22 to 47 %, so the upper end is above 20 %" in told
    score = judged(samples, False, metric="f1", bound={"min_low": 0.8}, where={}, at_budget=None)
    assert "F1 at least .800: .333, .200 to .900 if" in criteria.verdict(summary(samples, score))
    other = judged(samples, False, reason="nothing could be counted", bounds=None, estimate=None)
    assert "20 %: nothing could be counted, in sample" in criteria.verdict(summary(samples, other))


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


def test_the_table_shows_what_decided(samples):
    (cells,) = samples.shown(criteria.requirements_table([judged(samples, False)]))
    assert cells["Verdict"] == "missed"
    assert cells["Estimate"].startswith("17/51 = .333")
    assert cells["Estimate"].endswith("at worst [.200, .900]")
    assert cells["Worst row"] == "sample, drugs, mock, pdws"
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
