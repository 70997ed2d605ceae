"""The summary of a run, as `summary --json` prints it."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medstress.core.errors import MedstressError
from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.metrics import LEDGER_FIELDS, RowKey, summarise, wilson

Make = Callable[..., TrialRow]
Ledgers = Callable[[list[TrialRow]], dict[RowKey, dict[str, int]]]
Trials = st.SearchStrategy[list[TrialRow]]

EXPERIMENT = {"name": "r", "fingerprint": "f", "seeds": [0, 1], "complete": True}
PERFORMANCE = {"wall_seconds": 1.0}
FLIPPED = Verdict.FLIPPED

FIELDS = [
    *("dataset", "group", "victim", "attack", "attack_spec", "seed"),
    *("n_items", "n_trials", "n_already_wrong", "n_not_attackable"),
    *("n_unreadable_at_baseline", "n_failed_at_baseline"),
    *("n_eligible", "n_flipped", "n_held", "n_measured", "n_cut_short", "n_failed"),
    *("n_unreadable_answers", "n_length_at_baseline", "n_length_answers"),
    *("accuracy", "accuracy_bounds", "chance", "above_chance"),
    *("accuracy_after", "accuracy_after_bounds"),
    *(
        "asr",
        "asr_bounds",
        "asr_decided",
        "asr_valid",
        "asr_valid_bounds",
        "n_validity_unknown",
        "n_censored",
        "validity",
    ),
    *("asr_by_variant", "asr_at", "asr_valid_bounds_at", "queries", "queries_to_success"),
    *("diversity", "diversity_unbiased", "prompt_similarity"),
    *("letter_mass", "n_ties", "n_unchanged", "chose_edited", "n_never_asked", "asr_asked"),
    *("evidence", "key_probability_change"),
]


@pytest.fixture(scope="session")
def summary_of(ledgers: Ledgers, budgets: dict[str, int]) -> Callable[..., dict[str, Any]]:
    def summary(trials: list[TrialRow], **experiment: Any) -> dict[str, Any]:
        return summarise(
            trials, {**EXPERIMENT, **experiment}, ledgers(trials), PERFORMANCE, budgets
        )

    return summary


Summary = Callable[..., dict[str, Any]]


def estimates(row: dict[str, Any]) -> list[dict[str, Any]]:
    plain = [value for value in row.values() if isinstance(value, dict) and "low" in value]
    return [*plain, *row["asr_by_variant"].values(), *row["asr_at"]]


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_counts_and_rates_of_every_row_obey_the_identities(
    summary_of: Summary, some_trials: Trials, data: st.DataObject
) -> None:
    trials = data.draw(some_trials)
    summary = summary_of(trials)
    for row in summary["results"] + summary["pooled"]:
        n_answered = row["n_eligible"] + row["n_already_wrong"] + row["n_unreadable_at_baseline"]
        assert row["n_trials"] == (
            n_answered + row["n_not_attackable"] + row["n_failed_at_baseline"]
        )
        assert row["n_eligible"] == (
            row["n_flipped"]
            + row["n_held"]
            + row["n_measured"]
            + row["n_cut_short"]
            + row["n_failed"]
        )
        assert row["accuracy"]["n"] == row["accuracy_after"]["n"] == n_answered
        assert row["asr"]["n"] == row["n_eligible"]
        assert row["asr_decided"]["n"] == row["n_flipped"] + row["n_held"]
        assert row["diversity"]["n"] == row["n_flipped"]
        if n_answered:
            left = row["n_eligible"] - row["n_flipped"]
            assert row["accuracy"]["value"] == row["n_eligible"] / n_answered
            assert row["accuracy_after"]["value"] == left / n_answered
        if row["n_eligible"]:
            assert row["asr"]["value"] == row["n_flipped"] / row["n_eligible"]
            low, middle, high = row["asr_valid_bounds"]
            assert low <= middle <= high <= row["asr"]["value"]
            unknown = middle - low
            assert unknown == pytest.approx(row["n_validity_unknown"] / row["n_eligible"])
            assert high - middle == pytest.approx(row["n_censored"] / row["n_eligible"])
            if row["asr_valid"] is not None:
                assert row["asr_valid"]["value"] <= row["asr"]["value"] + 1e-9
                assert row["asr_valid"]["n"] == row["n_eligible"]
            classes = [estimate["value"] for estimate in row["asr_by_variant"].values()]
            assert sum(classes) == pytest.approx(row["asr"]["value"])
        queries = row["queries"]
        assert queries["asked"] == queries["paid"] + queries["cached"] + queries["failed"]
    assert sum(row["n_trials"] for row in summary["results"]) == len(trials)
    assert sum(row["n_trials"] for row in summary["pooled"]) == len(trials)


@pytest.mark.release
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_the_curve_never_falls_and_ends_at_asr(
    summary_of: Summary, some_trials: Trials, budgets: dict[str, int], data: st.DataObject
) -> None:
    summary = summary_of(data.draw(some_trials))
    for row in summary["results"] + summary["pooled"]:
        curve = row["asr_at"]
        assert [point["budget"] for point in curve] == list(range(1, budgets[row["attack"]] + 1))
        assert curve[-1] == {"budget": len(curve), **row["asr"]}
        if row["n_eligible"]:
            assert all(a["value"] <= b["value"] for a, b in pairwise(curve))
        bounds = row["asr_valid_bounds_at"]
        assert bounds[-1] == {"budget": len(bounds), "bounds": row["asr_valid_bounds"]}
        if row["n_eligible"]:
            for narrow, wide in pairwise(bounds):
                pairs = zip(narrow["bounds"], wide["bounds"], strict=True)
                assert all(a <= b for a, b in pairs)
            for each, point in zip(bounds, curve, strict=True):
                assert each["bounds"][2] <= point["value"]


@pytest.mark.release
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_every_estimate_has_an_interval_of_some_width_or_is_null(
    summary_of: Summary, some_trials: Trials, data: st.DataObject
) -> None:
    summary = summary_of(data.draw(some_trials))
    json.dumps(summary, allow_nan=False)
    for row in summary["results"] + summary["pooled"]:
        for estimate in estimates(row):
            if estimate["value"] is None:
                assert estimate["low"] is None
                assert estimate["high"] is None
            else:
                assert estimate["n"] > 0
                assert 0 <= estimate["low"] <= estimate["value"] <= estimate["high"] <= 1
                assert estimate["low"] < estimate["high"]


@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_the_order_of_trials_makes_no_difference(
    summary_of: Summary, some_trials: Trials, data: st.DataObject
) -> None:
    trials = data.draw(some_trials)
    assert summary_of(trials) == summary_of(data.draw(st.permutations(trials)))


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_any_prefix_of_a_run_can_be_summarised(
    summary_of: Summary, some_trials: Trials, data: st.DataObject
) -> None:
    trials = data.draw(some_trials)
    prefix = trials[: data.draw(st.integers(0, len(trials)))]
    assert sum(row["n_trials"] for row in summary_of(prefix)["results"]) == len(prefix)


def test_a_run_without_trials_has_all_parts_and_no_rows(summary_of: Summary) -> None:
    assert summary_of([]) == {
        "format": 2,
        "experiment": EXPERIMENT,
        "results": [],
        "pooled": [],
        "slices": [],
        "requirements": [],
        "tests": [],
        "warnings": [],
        "performance": PERFORMANCE,
    }


def test_rows_have_the_documented_fields_in_order_and_pooled_rows_the_seeds(
    summary_of: Summary, trial: Make
) -> None:
    summary = summary_of([trial(), trial(seed=1)])
    (pooled,) = summary["pooled"]
    assert [list(row) for row in summary["results"]] == [FIELDS, FIELDS]
    assert list(pooled) == [*FIELDS, "seeds"]
    assert (pooled["seed"], pooled["seeds"]) == (None, [0, 1])


def test_distinct_items_are_counted_beside_trials(summary_of: Summary, trial: Make) -> None:
    (pooled,) = summary_of([trial(), trial(seed=1), trial(item_id="q2")])["pooled"]
    assert (pooled["n_items"], pooled["n_trials"]) == (2, 3)


def test_a_deterministic_attack_has_one_row_that_is_pooled_with_nothing(
    summary_of: Summary, trial: Make
) -> None:
    trials = [trial(attack="nearest", seed=None), trial(seed=0), trial(seed=1)]
    summary = summary_of(trials)
    assert [(row["attack"], row["seed"]) for row in summary["results"]] == [
        ("nearest", None),
        ("random", 0),
        ("random", 1),
    ]
    assert [(row["attack"], row["seeds"]) for row in summary["pooled"]] == [
        ("nearest", [None]),
        ("random", [0, 1]),
    ]


def test_one_seed_has_wilson_intervals_and_several_those_at_the_effective_sample_size(
    summary_of: Summary, trial: Make
) -> None:
    trials = [
        trial(item_id=str(i), seed=seed, verdict=FLIPPED if i % 3 == seed else Verdict.HELD)
        for i in range(20)
        for seed in (0, 1)
    ]
    result, (pooled,) = summary_of(trials)["results"][0], summary_of(trials)["pooled"]
    (alone,) = summary_of([row for row in trials if row.seed == 0])["pooled"]
    assert result["asr"]["method"] == "Wilson 95 % (each item occurs once)"
    assert alone["asr"] == result["asr"]
    told = "Wilson 95 % at the effective sample size, 20 items"
    assert pooled["asr"]["method"].startswith(told)
    assert pooled["accuracy"]["method"].startswith(told)
    assert pooled["accuracy"]["low"] == wilson(20, 20).low


def test_queries_are_the_ledgers_of_the_row_and_add_up_over_seeds(
    trial: Make, ledgers: Ledgers, budgets: dict[str, int]
) -> None:
    trials = [trial(seed=seed, n_asked=3, n_paid=2, n_cached=1) for seed in (0, 1)]
    given = ledgers(trials)
    for ledger in given.values():
        ledger |= {"ahead": 5, "other": 1, "interrupted": 2}
    summary = summarise(trials, EXPERIMENT, given, PERFORMANCE, budgets)
    assert list(summary["results"][0]["queries"]) == list(LEDGER_FIELDS)
    assert summary["pooled"][0]["queries"] == {
        "asked": 6,
        "paid": 4,
        "cached": 2,
        "failed": 0,
        "ahead": 10,
        "baseline": 2,
        "other": 2,
        "interrupted": 4,
    }


def test_a_ledger_that_does_not_add_up_is_refused(
    trial: Make, ledgers: Ledgers, budgets: dict[str, int], said
) -> None:
    trials = [trial(n_asked=1, n_paid=1)]
    given = ledgers(trials)
    next(iter(given.values()))["paid"] = 2
    with pytest.raises(MedstressError) as caught:
        summarise(trials, EXPERIMENT, given, PERFORMANCE, budgets)
    said(str(caught.value), "says {'paid'")
    with pytest.raises(MedstressError) as caught:
        summarise(trials, EXPERIMENT, {}, PERFORMANCE, budgets)
    said(str(caught.value))
    with pytest.raises(MedstressError, match="its trials add up to"):
        summarise([], EXPERIMENT, given, PERFORMANCE, budgets)


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"verdict": Verdict.FAILED}, "failed at None"),
        ({"verdict": FLIPPED, "first_success": None}, "succeeded at query None"),
        ({"verdict": FLIPPED, "first_success": 5}, ""),
        ({"verdict": FLIPPED, "variant_class": "kin"}, "'kin'"),
        ({"attack": "unheard of"}, "'unheard of'"),
    ],
)
def test_a_trial_that_breaks_its_contract_is_refused(
    summary_of: Summary, trial: Make, given: dict[str, Any], where: str, said
) -> None:
    with pytest.raises(MedstressError) as caught:
        summary_of([trial(**given)])
    said(str(caught.value), where)


def test_a_victim_that_guesses_is_named_before_other_warnings(
    summary_of: Summary, trial: Make
) -> None:
    trials = [
        trial(
            item_id=str(i),
            key="ABCD"[i % 4],
            attack=attack,
            verdict=Verdict.HELD if i < 23 else Verdict.ALREADY_WRONG,
            n_asked=1,
            n_paid=1,
        )
        for i in range(100)
        for attack in ("random", "pdws")
    ]
    trials.append(trial(item_id="x", verdict=Verdict.FAILED, at="baseline"))
    assert summary_of(trials)["warnings"] == [
        "mock on sample/drugs is not above chance (accuracy .23, 95 % .16-.32, chance .25): "
        "its success rate cannot be told from guessing.",
        "1 of 201 trials failed; those that failed under attack count as not flipped: run again "
        "with --retry-failed.",
    ]


def test_failed_trials_are_told_victim_by_victim(summary_of: Summary, trial: Make) -> None:
    trials = [trial(item_id=str(i), victim="v", verdict=Verdict.HELD, n_asked=1) for i in range(9)]
    trials += [
        trial(item_id=str(i), victim=f"broken {n}", verdict=Verdict.FAILED, at="baseline")
        for n in range(1, 6)
        for i in range(n)
    ]
    (told,) = [each for each in summary_of(trials)["warnings"] if "trials failed" in each]
    assert told.startswith(
        "15 of 24 trials failed (5 of broken 5, 4 of broken 4, 3 of broken 3, and of 2 more "
        "victims); those"
    )


def test_nothing_is_said_of_chance_before_the_end(summary_of: Summary, trial: Make) -> None:
    trials = [trial(item_id=str(i), verdict=Verdict.ALREADY_WRONG) for i in range(9)]
    assert summary_of(trials, complete=False)["warnings"] == [
        "The run is not complete: the trials that have ended, 9 so far, are not a random part of "
        "it, so that any rate may be too low or too high."
    ]


def test_a_chance_level_of_few_items_says_how_it_is_reached(
    summary_of: Summary, trial: Make
) -> None:
    one = trial(item_id="q", key="B", n_asked=1, n_paid=1)
    assert summary_of([one])["warnings"] == [
        "mock on sample/drugs is not above chance (accuracy 1.00, 95 % .21-1.00, chance 1.00 by "
        "always answering the commonest key letter, n = 1): its success rate cannot be told from "
        "guessing."
    ]


def test_a_victim_above_chance_draws_no_warning(summary_of: Summary, trial: Make) -> None:
    trials = [trial(item_id=str(i), key="ABCD"[i % 4], n_asked=1, n_paid=1) for i in range(12)]
    assert summary_of(trials)["warnings"] == []


def test_successes_that_did_not_repeat_are_warned_about(summary_of: Summary, trial: Make) -> None:
    trials = [
        trial(item_id=str(i), key="ABCD"[i % 4], verdict=FLIPPED, repeats=repeats)
        for i, repeats in enumerate([True, False, None] * 4)
    ]
    assert summary_of(trials)["warnings"] == [
        "4 of 8 successes did not repeat when asked again alone."
    ]


def test_prompt_similarity_is_said_not_to_be_computed(summary_of: Summary, trial: Make) -> None:
    (row,) = summary_of([trial()])["results"]
    assert row["prompt_similarity"] == {
        "value": None,
        "n": 0,
        "low": None,
        "high": None,
        "method": "not computed",
    }
