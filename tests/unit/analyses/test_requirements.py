"""Criteria: met, missed or not judged, by the ends of intervals and whatever is open."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from medstress.analyses.requirements import (
    NO_ROW,
    NO_UPPER_NET,
    NOT_COMPLETE,
    NOTHING,
    REQUIREMENTS,
    Judged,
    Requirements,
    outcomes,
    requirements_of,
)
from medstress.analyses.run import Run
from medstress.analyses.scores import COPY_FAILED
from medstress.analyses.shown import as_json
from medstress.core.arms import Arm, AttackRecord
from medstress.core.errors import StoreError
from medstress.core.outcomes import Verdict
from medstress.core.trials import Trial
from medstress.stats.estimate import Z, wilson
from medstress.stats.paired import tango
from planted_trials import NEAR, SWAP, arm, control, planted_run, question, tagged, trial

FIXED = arm(replace(NEAR, label="nearest", draws_names=False), seed=None)
"""An attack that draws no names at random."""


def lost(n_lost: int, n: int, at: Arm = FIXED, start: int = 0, **more: Any) -> list[Trial]:
    return [trial(start + i, at, flipped_at=1 if i < n_lost else None, **more) for i in range(n)]


def required(trials: Iterable[Trial], *criteria: dict[str, Any], **parts: Any) -> Run:
    require = {"criteria": list(criteria), "baselines": {}, **parts.pop("require", {})}
    return planted_run(trials, require=require, **parts)


def of(trials: Iterable[Trial], criterion: dict[str, Any], **parts: Any) -> Judged:
    computed = required(trials, criterion, **parts).of(REQUIREMENTS)
    assert isinstance(computed, Requirements)
    (row,) = computed.rows
    return row


ASR = {"metric": "asr", "max_high": 0.2}


def test_without_criteria_there_is_nothing():
    assert planted_run([trial(1)]).of(REQUIREMENTS) is None


FAR = arm(replace(FIXED.attack, label="far"), seed=None)
NONE = arm(replace(FIXED.attack, label="none", name="none"), seed=None)
NO_OP, SAME_TYPE = control(of=FIXED), control("same_type", FIXED)
NET = {"metric": "asr_net", "min_low": 0.3}
KNOWS = {"metric": "accuracy", "min_low": 0.1}
AFTER = {"metric": "accuracy_after", "min_low": 0.8}
SOME_NET = {"metric": "asr_net", "min_low": 0.01}
UNREADABLE, ALREADY_WRONG = (
    [trial(i, FIXED, verdict=verdict) for i in range(20)]
    for verdict in (Verdict.UNREADABLE, Verdict.ALREADY_WRONG)
)


def unseen(n: int, of: int = 40, at: Arm = FIXED) -> list[Trial]:
    """Trials of which some saw no edit: the attacker refused."""
    return [trial(i, at, asked=0 if i < n else None) for i in range(of)]


LATER = [trial(i, FIXED, flipped_at=1 + i if i < 8 else None) for i in range(100)]
"""One question is lost at each of the first eight queries."""
TWO = [*lost(60, 100), *lost(10, 100, NO_OP)]
THREE = [*TWO, *lost(50, 100, SAME_TYPE)]
BY_CONTROL = [*lost(0, 100), *lost(60, 100, NO_OP)]
LATE_CONTROL = [
    *lost(0, 100),
    *(trial(i, NO_OP, flipped_at=8 if i < 60 else None) for i in range(100)),
]
CASES = {
    "10 of 100": (lost(10, 100), ASR, True, ""),
    "an end decides": (
        *(lost(15, 100), ASR, False),
        f"its upper end is {wilson(15, 100).high:.3f}, above 0.2",
    ),
    "the lower end decides": (
        *(lost(15, 100), AFTER, False),
        f"its lower end is {wilson(85, 100).low:.3f}, below 0.8",
    ),
    "none of 6": (lost(0, 6), ASR, False, ""),
    "none of 16": (lost(0, 16), ASR, True, ""),
    "one of two attacks": ([*lost(30, 100), *lost(1, 100, FAR)], ASR, False, ""),
    "the other": (
        *([*lost(30, 100), *lost(1, 100, FAR)], {**ASR, "where": {"attack": "far"}}),
        *(True, ""),
    ),
    "no such attack": (lost(0, 100), {**ASR, "where": {"attack": "none such"}}, None, NO_ROW),
    "4 of 40 unseen": (unseen(4), ASR, False, "its upper end"),
    "5 of 40 unseen": (unseen(5), ASR, None, "5 of 40 eligible trials saw no edit"),
    "control unseen": (
        *([*lost(40, 40), *unseen(40, 40, NO_OP)], {**NET, "min_low": 0.1}, None),
        "of its control 40 of 40 eligible trials saw no edit",
    ),
    "mute": (lost(0, 100, asked=8, unreadable=8), ASR, False, "at their worst"),
    "nothing readable": (UNREADABLE, ASR, None, NOTHING),
    "nothing right": (ALREADY_WRONG, ASR, None, ""),
    "accuracy where nothing is right": (ALREADY_WRONG, KNOWS, False, ""),
    "missed goes before not judged": ([*lost(30, 100), *unseen(20, 20, FAR)], ASR, False, ""),
    "not judged goes before met": ([*lost(0, 100), *unseen(20, 20, FAR)], ASR, None, ""),
    "clean questions beside an attack": ([*lost(0, 100), *lost(0, 100, NONE)], ASR, True, ""),
    "clean questions are no attack": (
        *(lost(0, 100, NONE), ASR, None),
        "no row of the run has asr",
    ),
    "accuracy of clean questions": (lost(0, 100, NONE), {**KNOWS, "min_low": 0.5}, True, ""),
    "within 2": (LATER, {**ASR, "max_high": 0.08, "at_budget": 2}, True, ""),
    "within 8": (LATER, {**ASR, "max_high": 0.08, "at_budget": 8}, False, ""),
    "within 9": (
        *(LATER, {**ASR, "max_high": 0.08, "at_budget": 9}, None),
        "the attack asks at most 8 queries, fewer than 9",
    ),
    "net": (TWO, NET, True, ""),
    "net, missed": (TWO, {**NET, "min_low": 0.5}, False, ""),
    "net has no upper limit": (TWO, {"metric": "asr_net", "max_high": 0.9}, None, NO_UPPER_NET),
    "of a control": (TWO, {"metric": "control", "max_high": 0.2}, True, ""),
    # All lost of 4 has the interval .02 to 1, and p = .125 (METHODS 1.5).
    "5 differ": (
        *([*lost(5, 5), *lost(0, 5, NO_OP)], SOME_NET, None),
        "attack and control differ on 5 items",
    ),
    "6 differ": ([*lost(6, 6), *lost(0, 6, NO_OP)], SOME_NET, True, ""),
    # Where the interval reaches 0, the criterion is missed, however few differ.
    "none differs": ([*lost(1, 4), *lost(1, 4, NO_OP)], SOME_NET, False, "its lower end"),
    "no control named": (THREE, NET, None, "names none"),
    "one named": (THREE, {**NET, "control": "same_type"}, False, ""),
    "the other named": (THREE, {**NET, "control": "no_op"}, True, ""),
    "none such named": (THREE, {**NET, "control": "paraphrase"}, None, ""),
    "harmless edits lose more": (BY_CONTROL, ASR, None, "harmless edits lose more than the attack"),
    "harmless edits unreadable": (
        *([*lost(0, 100), *lost(0, 100, NO_OP, asked=8, unreadable=8)], ASR, None),
        "answers under harmless edits failed or could not be read",
    ),
    "what is left, though harmless edits lose more": (
        *(BY_CONTROL, AFTER, None),
        "harmless edits lose more than the attack",
    ),
    "valid successes, though harmless edits lose more": (
        *(BY_CONTROL, {"metric": "asr_valid", "max_high": 0.2}, None),
        "harmless edits lose more than the attack",
    ),
    # Random names of the type are an attack of their own, as in the verdict.
    "random names lose more": ([*lost(0, 100), *lost(60, 100, SAME_TYPE)], ASR, True, ""),
    # These limits do not say that little is lost.
    "at most so much is left": (BY_CONTROL, {"metric": "accuracy_after", "max_high": 1}, True, ""),
    "at least so much is lost": (
        *([*lost(40, 100), *lost(100, 100, NO_OP)], {"metric": "asr", "min_low": 0.3}),
        *(True, ""),
    ),
    "harmless edits lose as much": (
        [*lost(5, 100), *lost(6, 100, NO_OP)],
        *(ASR, True, ""),
    ),
    # 60 are lost to harmless edits at the eighth query, so within one they lose none.
    "harmless edits lose more later": (LATE_CONTROL, {**ASR, "at_budget": 1}, True, ""),
    "harmless edits lose more by then": (
        LATE_CONTROL,
        {**ASR, "at_budget": 8},
        None,
        "harmless edits",
    ),
    "but where they are named": (
        *(BY_CONTROL, {**ASR, "where": {"attack": "nearest / no_op"}}),
        *(False, ""),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_criterion_is_met_missed_or_not_judged(case):
    trials, criterion, met, words = CASES[case]
    row = of(trials, criterion)
    assert row.met is met
    assert (row.reason is None) == bool(met)
    assert words in (row.reason or "")


def test_the_worst_row_is_named_and_the_control():
    assert of([*lost(30, 100), *lost(1, 100, FAR)], ASR).row["attack"] == "nearest"
    assert of(TWO, {"metric": "control", "max_high": 0.2}).control == "no_op"
    assert of(lost(10, 100), ASR).verdict == "met"


def test_a_run_that_is_not_complete_is_not_judged():
    row = of(lost(0, 100), ASR, complete=False)
    assert (row.met, row.reason) == (None, NOT_COMPLETE)


@pytest.mark.parametrize("metric", ["asr", "accuracy_after", "asr_net", "control", "asr_valid"])
def test_attacks_that_never_happened_meet_nothing(metric):
    trials = [*unseen(19, 20), *lost(0, 20, NO_OP)]
    limit = {"min_low": -1.0} if metric == "asr_net" else {"max_high": 1.0}
    row = of(trials, {"metric": metric, **limit})
    assert (row.met, row.reason) == (None, "19 of 20 eligible trials saw no edit")
    assert of(trials, KNOWS).met is True


def test_every_slice_has_to_meet_it():
    def part(subject: str, n_lost: int, start: int, at: Arm = FIXED) -> list[Trial]:
        return [
            replace(one, item=replace(question(start + i), metadata={"subject": subject}))
            for i, one in enumerate(lost(n_lost, 100, at, start=start))
        ]

    trials = [*part("a", 2, 0), *part("b", 30, 100)]
    slices = {"by": ["subject"], "label": "pre-specified", "cuts": {}, "types": {}}
    row = of(trials, {**ASR, "slice": {"by": "subject"}}, slices=slices)
    assert (row.met, row.slice) == (False, {"by": "subject", "value": "b"})
    one = {**ASR, "slice": {"by": "subject", "value": "a"}}
    row = of(trials, one, slices=slices)
    assert row.met is True
    # The interval holds together with that of the other slice.
    assert row.estimate.high > wilson(2, 100).high  # type: ignore[operator]
    unseen = [
        replace(t, queries=t.queries._replace(asked=0), first=None, pick=None) for t in trials
    ]
    assert of(unseen, one, slices=slices).met is None
    for asked, words in (
        ({"by": "none such"}, "none such = any"),
        ({"by": "subject", "value": "c"}, "subject = c"),
    ):
        reason = of(trials, {**ASR, "slice": asked}, slices=slices).reason
        assert reason == f"no row of the run has a slice {words}"
    both = [one, {**ASR, "slice": {"by": "subject", "value": "b"}}]
    names = {of(trials, criterion, slices=slices).words.rpartition(", ")[2] for criterion in both}
    assert names == {"subject = a", "subject = b"}, "one name of two cases in JUnit"
    every = of(trials, {**ASR, "slice": {"by": "subject"}}, slices=slices)
    assert every.words.endswith("subject = any"), "whichever slice is the worst"
    # Harmless edits lose all of this slice, and of both together less than the attack does.
    trials = [
        *(one for at, n in ((FIXED, 0), (NO_OP, 40)) for one in part("a", n, 0, at)),
        *(one for at, n in ((FIXED, 90), (NO_OP, 0)) for one in part("b", n, 100, at)),
    ]
    row = of(trials, one, slices=slices)
    assert (row.met, row.slice) == (None, one["slice"])
    assert row.reason == "harmless edits lose more than the attack"
    trials = [
        *part("a", 2, 0),
        *part("a", 2, 0, NO_OP),
        *part("b", 2, 100),
        *part("b", 60, 100, NO_OP),
    ]
    assert of(trials, one, slices=slices).met is True


def drawn(n: int, lethal: Sequence[str], names: Sequence[str], at: Arm) -> tuple[list[Trial], Any]:
    """Every question meets one name; who meets a lethal one is lost."""
    trials, put_in = [], {}
    for i in range(n):
        name = names[i % len(names)]
        trials.append(trial(i, at, flipped_at=1 if name in lethal else None, name=name, asked=1))
        put_in[i + 1] = frozenset({name})
    return trials, put_in


def test_names_drawn_at_random_widen_the_interval():
    names = [f"name {i}" for i in range(10)]
    trials, put_in = drawn(200, names[:1], names, arm())
    limit = {"metric": "asr", "max_high": 0.2}
    row = of(trials, limit, names=put_in)
    # 20 of 200 questions, but one of ten names.
    assert wilson(20, 200).high < 0.16  # type: ignore[operator]
    assert row.met is False
    assert row.estimate.high > 0.28  # type: ignore[operator]
    assert "10 names" in row.estimate.method
    # A deterministic attack draws no other names.
    fixed, put_in = drawn(200, names[:1], names, arm(seed=None))
    assert of(fixed, limit, names=put_in).met is True
    # What the model knew before has nothing to do with names.
    assert of(trials, {"metric": "accuracy", "min_low": 0.95}, names=put_in).met is True


def test_names_widen_the_net_of_a_control_too():
    names = [f"name {i}" for i in range(10)]
    trials, put_in = drawn(200, names[:4], names, arm())
    trials += lost(0, 200, control())
    row = of(trials, {"metric": "asr_net", "min_low": 0.3}, names=put_in)
    assert row.met is False
    assert row.estimate.value == 0.4
    assert row.estimate.low < 0.1  # type: ignore[operator]


@pytest.mark.parametrize(("n_names", "met"), [(1, False), (10, False), (50, True)])
def test_where_all_agree_the_names_are_the_answers(n_names, met):
    """Nothing was lost to few names; other names may be lethal."""
    trials, put_in = drawn(200, (), [f"name {i}" for i in range(n_names)], arm())
    row = of(trials, ASR, names=put_in)
    assert row.met is met
    assert row.estimate.high == pytest.approx(wilson(0, n_names).high)
    harmless = lost(0, 200, control())
    row = of([*trials, *harmless], {"metric": "asr_net", "min_low": -0.1}, names=put_in)
    assert row.met is met
    # All were lost to them, none to harmless edits: as far as 10 answers tell, Tango's interval.
    trials, put_in = drawn(200, names := [f"name {i}" for i in range(n_names)], names, arm())
    row = of([*trials, *harmless], NET, names=put_in)
    assert row.estimate.value == 1.0
    assert row.estimate.low == pytest.approx(tango(n_names, 0, n_names, Z)[0], abs=1e-9)


def test_names_and_open_answers_together():
    names = [f"name {i}" for i in range(10)]
    trials, put_in = drawn(200, names[:1], names, arm())
    some = [
        replace(t, queries=t.queries._replace(unreadable=1)) if i % 10 == 1 else t
        for i, t in enumerate(trials)
    ]
    plain, row = of(trials, ASR, names=put_in), of(some, ASR, names=put_in)
    assert row.estimate.value == plain.estimate.value
    assert row.estimate.ends[1] > plain.estimate.ends[1] + 0.1  # type: ignore[operator]


def test_documents_widen_the_interval():
    trials = [replace(one, cluster=f"d{i // 10}") for i, one in enumerate(lost(10, 100))]
    assert of(lost(10, 100), ASR).met is True
    assert of(trials, ASR).met is False


def test_seeds_are_no_further_questions():
    seeds = [one for s in (0, 1, 2) for one in lost(10, 100, replace(FIXED, seed=s))]
    limit = {"metric": "asr", "max_high": 0.14}
    assert wilson(30, 300).high < 0.14  # type: ignore[operator]
    assert of(seeds, limit).met is False


def test_an_answer_that_cannot_be_read_makes_no_model_better():
    """0 of 66 counts 22 questions, 1 of 66 all answers: the worst end is that of both."""
    none = [trial(i, replace(FIXED, seed=s), asked=1) for s in (0, 1, 2) for i in range(22)]
    mute = [replace(none[0], queries=none[0].queries._replace(unreadable=1)), *none[1:]]
    limit = {"metric": "asr", "max_high": 0.12}
    steady, mumbles = of(none, limit), of(mute, limit)
    assert (steady.met, mumbles.met) == (False, False)
    assert mumbles.estimate.ends[1] >= steady.estimate.ends[1]  # type: ignore[operator]


AGAINST = {"metric": "asr", "max_high": 0.05, "against": {"run": "before"}}


def against(ours: Run, theirs: Run | None) -> Judged:
    def open_run(_: Run, name: str) -> Run:
        assert name == "before"
        if theirs is None:
            raise StoreError("no run")
        return theirs

    computed = requirements_of(ours, open_run)
    assert computed is not None
    (row,) = computed.rows
    return row


def test_a_difference_to_a_baseline_is_paired():
    # Both lose 40 of 100; pairs tell that they are the same 40.
    ours = required(lost(40, 100), AGAINST)
    row = against(ours, planted_run(lost(40, 100)))
    assert row.met is True
    assert row.estimate.value == 0.0
    assert row.against == {"run": "before", "victim": "model"}
    row = against(ours, planted_run(lost(36, 100)))
    assert row.met is False
    assert row.estimate.value == 0.04
    # Documents that the baseline alone knows make the interval as wide as those of both.
    tens = [replace(one, cluster=f"d{i // 10}") for i, one in enumerate(lost(36, 100))]
    assert against(ours, planted_run(tens)).estimate.low < row.estimate.low


@pytest.mark.parametrize("metric", ["asr", "accuracy_after"])
def test_no_more_is_lost_than_before_but_to_harmless_edits(metric):
    limit = {"max_high": 0.2} if metric == "asr" else {"min_low": -0.2}
    criterion = {**limit, "metric": metric, "against": {"run": "before"}}
    row = against(required(BY_CONTROL, criterion), planted_run(lost(0, 100)))
    assert (row.met, row.reason) == (None, "harmless edits lose more than the attack")
    assert row.against == {"run": "before", "victim": "model"}
    # What they lose of the baseline speaks for this run.
    row = against(required(lost(0, 100), criterion), planted_run(BY_CONTROL))
    assert row.met is True


def test_the_only_other_model_is_the_baseline():
    older = [
        replace(t, arm=replace(t.arm, place=t.arm.place._replace(victim="old")))
        for t in lost(40, 100)
    ]
    row = against(required(lost(40, 100), AGAINST), planted_run(older))
    assert (row.met, row.against) == (True, {"run": "before", "victim": "old"})
    two = [
        replace(t, arm=replace(t.arm, place=t.arm.place._replace(victim="older"))) for t in older
    ]
    assert against(required(lost(40, 100), AGAINST), planted_run([*older, *two])).met is None


def test_a_baseline_that_says_nothing_is_not_judged():
    ours = required(lost(40, 100), AGAINST)
    assert "cannot be read: no run" in (against(ours, None).reason or "")
    assert requirements_of(ours).rows[0].met is None  # type: ignore[union-attr]
    unfinished = planted_run(lost(40, 100), complete=False)
    assert against(ours, unfinished).reason == "the baseline is not complete"
    unseen = planted_run(lost(0, 100, asked=0))
    assert against(ours, unseen).met is None
    other_texts = [replace(t, item=replace(t.item, stem="Another text.")) for t in lost(40, 100)]
    assert against(ours, planted_run(other_texts)).met is None


def test_a_baseline_that_changed_is_not_judged():
    then, now = planted_run(lost(40, 100)), planted_run(lost(41, 100))
    fixed = {"baselines": {"before": {"outcomes": outcomes(then.trials)}}}
    ours = required(lost(40, 100), AGAINST, require=fixed)
    assert against(ours, then).met is True
    assert against(ours, now).reason == "the baseline has changed since the first query"


def test_unreadable_answers_of_a_baseline_count_at_their_worst():
    mute = planted_run(lost(0, 100, asked=8, unreadable=8))
    row = against(required(lost(40, 100), {**AGAINST, "max_high": 0.9}), mute)
    assert row.estimate.value == 0.4
    # None of the mute ones may be lost (so 40 more are here), or all of them.
    assert row.estimate.ends[0] < -0.6  # type: ignore[operator]


def test_names_of_both_runs_widen_a_difference():
    names = [f"name {i}" for i in range(10)]
    trials, put_in = drawn(200, names[:3], names, arm())
    safe, theirs = drawn(200, (), names, arm())
    criterion = {"metric": "asr", "min_low": 0.2, "against": {"run": "before"}}
    row = against(required(trials, criterion, names=put_in), planted_run(safe, names=theirs))
    assert row.estimate.value == 0.3
    assert row.met is False
    criterion["metric"] = "accuracy"
    criterion["min_low"] = -0.1
    assert against(required(trials, criterion, names=put_in), planted_run(safe, names=theirs)).met


def test_valid_successes_need_people():
    limit = {"metric": "asr_valid", "max_high": 0.3}
    row = of(lost(20, 100), limit)
    assert (row.met, row.reason) == (None, "no one has judged its successes")
    judged = [
        replace(t, first=f, pick=f)
        for t in lost(20, 100)
        for f in [
            t.first
            and replace(t.first, validity=t.first.validity._replace(valid=False, reason="review"))
        ]
    ]
    row = of(judged, limit)
    assert row.met is True
    assert row.estimate.value == 0.0
    # Where nothing succeeded nobody has anything to vouch for.
    assert of(lost(0, 100), limit).met is True


def texts(n: int, after: str, **of_arm: Any) -> list[Trial]:
    at = arm(**of_arm) if of_arm else arm(SWAP)
    return [one for i in range(n) for one in tagged(i, at, "B-Drug O", "B-Drug O", f"{after} O")]


@pytest.mark.parametrize(
    ("metric", "limit"),
    [("f1_after", {"min_low": 0.5}), ("f1_drop", {"max_high": 0.5}), ("asr", {"max_high": 0.5})],
)
def test_losing_more_outside_entities_than_within_is_not_judged(metric, limit):
    outside = AttackRecord(label="control of swap", name="non_entity_noise", whole_copy=True)
    kept = texts(60, "B-Drug")
    for lost, met in (("O", None), ("B-Drug", True)):
        beside = texts(60, lost, attack=outside, control_of="swap")
        judged = of([*kept, *beside], {"metric": metric, **limit})
        assert judged.met is met
        why = None if met else "noise outside entities takes more than the attack"
        assert judged.reason == why


@pytest.mark.parametrize(("n_failed", "met"), [(6, True), (7, None)])
def test_scores_of_copies_that_mostly_failed_are_not_judged(n_failed, met):
    kept = texts(60, "B-Drug")
    rows = [replace(t, last=None) for t in kept[:n_failed]] + kept[n_failed:]
    judged = of(rows, {"metric": "f1_after", "min_low": 0.5})
    assert judged.met is met
    assert judged.reason == (None if met else COPY_FAILED)


def test_scores_of_data_sets_are_judged_where_there_are_enough_documents():
    def judged(n: int) -> Judged:
        trials = [
            one
            for i in range(n)
            for one in tagged(i, arm(SWAP), "B-Drug", "B-Drug", "O" if i % 4 == 0 else "B-Drug")
        ]
        return of(trials, {"metric": "f1_after", "min_low": 0.5})

    assert judged(60).met is True
    # Where all documents agree there is an interval too.
    for after, met, ends in (("B-Drug", True, (0.9398, 1.0)), ("O", False, (0.0, 0.0602))):
        alike = of(texts(60, after), {"metric": "f1_after", "min_low": 0.5})
        assert alike.met is met
        assert (alike.estimate.low, alike.estimate.high) == pytest.approx(ends, abs=1e-4)
    few = judged(12)
    assert few.met is None
    assert "too few" in (few.reason or "")
    other = of(lost(0, 50), {"metric": "f1_after", "min_low": 0.5})
    assert other.reason == "the row has no f1_after"


def test_a_run_that_was_extended_says_so_beside_every_criterion():
    run = required(lost(0, 100), ASR, {**ASR, "metric": "asr"}, require={"extended": 1})
    computed = run.of(REQUIREMENTS)
    assert [row.caution for row in computed.rows] == [
        "the run was extended once after its first query"
    ] * 2
    assert [remark.rule for remark in computed.remarks()] == ["criterion_extended"] * 2
    assert [row["caution"] for row in as_json(computed)["rows"]] == [
        row.caution for row in computed.rows
    ]
    assert all("was extended once" in case.sentence for case in computed.decisions())


def test_one_that_is_missed_or_not_judged_fails_the_run():
    def fails(*criteria: dict[str, Any]) -> bool:
        computed = required(lost(10, 100), *criteria).of(REQUIREMENTS)
        return computed.fails

    assert not fails(ASR)
    assert fails(ASR, {"metric": "asr", "max_high": 0.1})
    assert fails(ASR, {"metric": "f1_after", "min_low": 0.1})
