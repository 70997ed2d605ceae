"""F1 and correlations of planted models, before and after an attack."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from medstress.analyses.results import RESULTS, TESTS
from medstress.analyses.run import Run
from medstress.analyses.scores import Scores, scores
from medstress.analyses.verdict import VERDICT
from medstress.core.arms import Arm, AttackRecord
from medstress.core.outcomes import Verdict
from medstress.core.trials import Queries, Trial
from planted_trials import SWAP, arm, paired, planted_run, tagged, trial

NOISE = arm(SWAP)
SEARCH = arm(replace(SWAP, label="search", whole_copy=False))
OUTSIDE = AttackRecord(label="control of swap", name="non_entity_noise", whole_copy=True)
MEASURED = arm(replace(SWAP, judged=False))
OF_SCORES = (
    *("answers", "few_clusters", "undefined_score", "may_be_chance"),
    "control_takes_as_much",
)
ONE = "B-Drug O O"
NONE = "O O O"


def controlled(seed: int | None = 0) -> Arm:
    return arm(OUTSIDE, seed=seed, control_of="swap")


def sentences(
    n: int, at: Arm = NOISE, *, before: str = ONE, after: str | None = NONE, gold: str = ONE
) -> list[Trial]:
    return [one for i in range(n) for one in tagged(i, at, gold, before, after)]


def scored(run: Run, number: int = 0) -> Scores:
    return scores(run, run.cells[number])


def rules(run: Run) -> list[str]:
    warnings = (one.rule for one in run.of(RESULTS).remarks() if one.level == "warning")
    return [rule for rule in warnings if rule in OF_SCORES]


def test_questions_have_no_scores_of_a_data_set():
    run = planted_run([trial(1)])
    assert scores(run, run.cells[0]) is None
    assert "scores" not in [one.name for one in run.of(RESULTS).tables()]


@pytest.mark.parametrize("of_pairs", [False, True])
def test_other_kinds_have_tables_and_pictures_of_their_own_alone(of_pairs):
    """No attack success of zeros, and no recall that is called accuracy."""
    trials = sentences(40, MEASURED)
    if of_pairs:
        trials = [paired(i, MEASURED, i / 10, i / 10, 2 + i % 3) for i in range(40)]
    results = planted_run(trials).of(RESULTS)
    tables = [one for one in results.tables() if one.rows]
    assert [one.name for one in tables] == ["scores", "outcomes", "queries"]
    headings = " ".join(column.heading for column in tables[0].columns)
    assert not re.search("ASR|Accuracy|Lost", headings)
    main, (row,) = "Pearson" if of_pairs else "F1", tables[0].rows
    shown = dict(zip((column.heading for column in tables[0].columns), row, strict=True))
    score = scored(results.run).main
    wanted = {main: score.before, f"{main} after": score.after, f"{main} drop": score.drop}
    assert {heading: shown[heading].value for heading in wanted} == wanted
    (chart,) = (one for one in results.charts() if one.points)
    assert (chart.name, chart.unit) == ("scores", not of_pairs)


def test_entities_that_are_lost_are_no_answers_and_those_found_no_accuracy():
    results = planted_run([*sentences(40), *sentences(40, SEARCH)]).of(RESULTS)
    (rates,) = (one for one in results.tables() if one.name == "results")
    headings = [column.heading for column in rates.columns]
    assert [one for one in headings if "after" in one or "Found" in one] == ["Found", "Found after"]
    assert "Accuracy" not in " ".join([*headings, *rates.notes])
    # Figures call columns by their keys.
    assert {one.key for one in rates.columns} >= {"found", "found_after"}
    assert "accuracy" not in {one.key for one in rates.columns}
    assert {one.y for one in results.charts() if one.name == "loss"} == {"share of entities lost"}
    assert not any("right answer" in one.sentence for one in results.remarks())


def test_a_tagger_that_forgets_perturbed_words_loses_all():
    run = planted_run(sentences(40))
    f1 = scored(run)["f1"]
    assert (f1.before.value, f1.after.value, f1.drop.value) == (1.0, 0.0, 1.0)
    assert f1.p == pytest.approx(1 / 2001)
    assert not f1.may_be_chance
    recall, precision = scored(run)["recall"], scored(run)["precision"]
    assert (recall.after.value, recall.after.n) == (0.0, 40)
    # Nothing is marked, so that precision has nothing to divide by; it is no number and no crash.
    assert (precision.after.value, precision.drop.value, precision.p) == (None, None, None)
    assert rules(run) == []
    # All resamples agree: with L = 40 / (40 + z^2) at least .912 of all sentences look like these.
    assert f1.after.low == 0.0
    assert f1.after.high == pytest.approx(0.0876, abs=1e-4)
    assert (f1.drop.low, f1.drop.high) == pytest.approx((0.8248, 1.0), abs=1e-4)
    # The control lost nothing.
    beside = planted_run([*sentences(40), *sentences(40, controlled(), after=ONE)])
    assert beside.of(VERDICT).lines[1:] == [
        "The same noise outside entities costs .00: .82 to 1.00 more is lost where entities are "
        "hit.",
        "You can rely on this.",
    ]


def test_a_tagger_that_any_changed_word_breaks_is_not_relied_on():
    run = planted_run([*sentences(40), *sentences(40, controlled())])
    assert run.of(VERDICT).lines == [
        "F1 of model falls by 1.00 under the same noise outside entities.",
        "Under swap it falls from 1.00 to .00 (40 texts; .00 to .09); the difference may be "
        "chance.",
        "Do not rely on this: the same noise outside entities may cost as much.",
    ]
    assert rules(run) == ["control_takes_as_much"]


@pytest.mark.parametrize("n_lost", [0, 12])
def test_noise_outside_entities_that_surely_takes_more_is_said(n_lost):
    attack = [
        one for i in range(40) for one in tagged(i, NOISE, ONE, ONE, NONE if i < n_lost else ONE)
    ]
    run = planted_run([*attack, *sentences(40, controlled())])
    first, second, third = run.of(VERDICT).lines
    if n_lost:
        assert first == "F1 of model falls by 1.00 under the same noise outside entities."
        assert re.fullmatch(r"Under swap it falls from 1.00 to .82 \(.*\), which is less\.", second)
        said = [one.sentence for one in run.of(RESULTS).remarks()]
        assert "swap: its control takes more of F1." in said
    else:
        assert first == "F1 of model stays at 1.00 under swap (40 texts; .91 to 1.00)."
        less = "The same noise outside entities costs 1.00, more than where entities are hit."
        assert second == less
    assert third == "Do not rely on this: the same noise outside entities costs more."


def test_a_copy_without_an_answer_is_no_failure_before_the_attack():
    """Of sentences without entities, and of an entity that was missed before, the copy failed."""
    lost = [*sentences(12, before=NONE, gold=NONE, after=None), *sentences(1, before=NONE)]
    missing: dict[str, Any] = {"last": None, "queries": Queries(asked=1, failed=1)}
    failed = [replace(one, verdict=Verdict.FAILED, at="baseline", **missing) for one in lost]
    run = planted_run([*failed, *sentences(40, after=ONE)])
    (row,) = run.of(RESULTS).rows
    n, accuracy = row.counts, row.knows.accuracy
    assert (n.n_failed_at_baseline, n.n_failed, n.n_not_attackable, n.n_already_wrong) == (
        0,
        0,
        12,
        1,
    )
    assert (accuracy.hits, accuracy.n, accuracy.worst) == (40, 41, None)
    assert any("13 of 53 trials failed" in one.sentence for one in run.of(RESULTS).remarks())
    none = planted_run(
        [replace(one, verdict=Verdict.FAILED, at="attack", **missing) for one in sentences(40)]
    )
    assert scored(none).main.after.method == "no perturbed copy was answered"


def test_documents_may_be_called_as_sentences_are():
    """IOB numbers both."""
    trials = [
        one
        for i in range(60)
        for one in tagged(i, NOISE, ONE, ONE, NONE if i % 3 else ONE, document=f"s{i // 2}")
    ]
    assert {trial.cluster for trial in trials} < {trial.item.id for trial in trials}
    assert "(30 documents; " in planted_run(trials).of(VERDICT).lines[0]


def test_a_tagger_that_forgets_some_has_an_interval_around_what_was_planted():
    trials = [
        one for i in range(60) for one in tagged(i, NOISE, ONE, ONE, NONE if i % 3 == 0 else ONE)
    ]
    drop = scored(planted_run(trials))["recall"].drop
    assert drop.value == pytest.approx(1 / 3)
    # Standard error of a share of 1/3 over 60 sentences: .061.
    assert drop.high - drop.low == pytest.approx(2 * 1.96 * 0.061, rel=0.15)


def test_where_nothing_changes_nothing_may_be_chance():
    """A tagger that never marks anything, and a scorer that no edit reaches."""
    run = planted_run([*sentences(40, before=NONE), *sentences(40, controlled(), before=NONE)])
    of = scored(run)
    assert (of["f1"].before.value, of["f1"].drop.value) == (0.0, 0.0)
    assert of["precision"].before.value is None
    assert rules(run) == []
    (said,) = (x.sentence for x in run.of(RESULTS).remarks() if x.rule == "unchanged")
    assert said == "F1 of model does not change under swap."
    assert run.of(VERDICT).lines[1] == "The same noise outside entities costs nothing either."
    assert rules(planted_run(pairs([(i / 10, i % 7, i % 7) for i in range(40)]))) == []
    assert "F1 of model is .00 before any edit" in run.of(VERDICT).trust.reasons


@pytest.mark.parametrize(("n", "has_interval"), [(1, False), (29, False), (30, True)])
def test_intervals_need_thirty_documents(n, has_interval):
    trials = [
        one
        for i in range(2 * n)
        for one in tagged(i, NOISE, ONE, ONE, NONE if i % 3 else ONE, document=f"d{i // 2}")
    ]
    run = planted_run(trials)
    of = scored(run)
    assert (of.n_clusters, of.clusters, of.are_few) == (n, "documents", not has_interval)
    for estimate in (of.main.before, of.main.after, of.main.drop):
        assert estimate.value is not None
        assert ("too few documents" in estimate.method) is not has_interval
    assert (of.main.drop.low is not None) is has_interval
    assert ("few_clusters" in rules(run)) is not has_interval
    # One document cannot tell a fall from chance, whatever it holds.
    assert of.main.may_be_chance is (n == 1)


def test_the_fall_net_of_the_control_pairs_by_seed_and_sentence():
    half = [NONE if i % 2 else ONE for i in range(40)]
    trials = [
        one
        for seed in (0, 1)
        for i in range(40)
        for one in (
            *tagged(i, arm(SWAP, seed=seed), ONE, ONE, NONE),
            *tagged(i, controlled(seed), ONE, ONE, half[i]),
        )
    ]
    # A sentence that only the control saw is compared with nothing.
    trials += tagged(77, controlled(0), ONE, ONE, NONE)
    run = planted_run(trials)
    own, of_attack = (scored(run, i) for i in (0, 1))
    assert own["f1"].after.value == pytest.approx(2 * 40 / (40 + 81))
    # After the control 40 of 80 are marked, F1 = 80 / 120; after the attack none.
    assert of_attack["f1"].net_drop.value == pytest.approx(2 / 3)
    assert of_attack["recall"].net_drop.value == pytest.approx(1 / 2)
    assert own["f1"].net_drop.value is None
    assert "no control" in own["f1"].net_drop.method


def test_a_control_that_takes_as_much_is_said():
    rng = np.random.default_rng(0)
    lost = rng.random((2, 60)) < 0.5
    trials = [
        one
        for i in range(60)
        for one in (
            *tagged(i, NOISE, ONE, ONE, NONE if lost[0, i] else ONE),
            *tagged(i, controlled(), ONE, ONE, NONE if lost[1, i] else ONE),
        )
    ]
    assert rules(planted_run(trials)) == ["control_takes_as_much"]


def test_every_score_has_a_family_of_its_own():
    both = "B-Drug O B-Gene"
    run = planted_run(sentences(40, gold=both, before=both, after="B-Drug O O"))
    of = scored(run)
    assert of["f1"].after.value == pytest.approx(2 / 3)
    assert list(of.parts) == ["Drug", "Gene"]
    families = [test.family for test in run.of(TESTS).rows]
    assert len(families) == len(set(families)) == 6
    assert families[2] == "before_after"
    (table,) = run.of(TESTS).tables()
    column = [one.heading for one in table.columns].index("Family")
    shown = [row[column].value for row in table.rows]
    assert shown[:3] == [f"before_after {name}" for name in ("Precision", "Recall", "F1")]


def test_a_search_has_no_copy_and_takes_clean_sentences_from_other_arms():
    searched = [
        one
        for i in range(40)
        for one in tagged(i, SEARCH, ONE if i < 30 else NONE, ONE if i < 30 else None)
    ]
    alone = planted_run(searched)
    f1 = scored(alone)["f1"]
    assert "10 without a clean answer" in f1.before.method
    assert (f1.before.value, f1.after.value, f1.p) == (1.0, None, None)
    assert alone.of(TESTS) is None
    # Another arm asked the ten sentences without entities, and the model marks one in each.
    others = [one for i in range(30, 40) for one in tagged(i, NOISE, NONE, ONE, ONE)]
    filled = planted_run([*searched, *others])
    precision = scored(filled)["precision"].before
    assert (precision.value, precision.n) == (0.75, 40)
    assert "without a clean answer" not in precision.method


def pairs(
    rows: Iterable[tuple[float, float, float]], at: Arm = MEASURED, group: int = 1
) -> list[Trial]:
    return [
        paired(i, at, gold, before, after, cluster=f"c{i // group}")
        for i, (gold, before, after) in enumerate(rows)
    ]


def noisy(n: int, before: float, after: float, seed: int = 1) -> list[tuple[float, float, float]]:
    rng = np.random.default_rng(seed)
    gold = rng.random(n) * 4
    return [
        (float(g), float(g + before * a), float(g + after * b))
        for g, a, b in zip(gold, rng.normal(size=n), rng.normal(size=n), strict=True)
    ]


def test_a_fall_of_the_correlation_is_told_from_none():
    fall = scored(planted_run(pairs(noisy(80, 0.4, 4.0)))).main
    assert fall.drop.low > 0
    assert fall.p < 0.01
    alike = planted_run(pairs(noisy(80, 0.4, 0.4)))
    assert scored(alike).main.may_be_chance
    assert rules(alike) == ["may_be_chance"]


def test_a_fall_is_found_where_scores_shrink_as_well():
    # Swapped as they are, large and small scores make mixtures that correlate with nothing.
    shrunk = [(gold, before, 0.1 * after - 3) for gold, before, after in noisy(80, 0.4, 4.0)]
    fall = scored(planted_run(pairs(shrunk))).main
    assert (fall.drop.low > 0, fall.p < 0.01, fall.may_be_chance) == (True, True, False)


def test_constant_scores_have_no_correlation_and_it_is_said():
    rows = [(gold, before, 0.5) for gold, before, _ in noisy(40, 0.1, 0.1)]
    run = planted_run(pairs(rows))
    of = scored(run)
    assert of.main.before.value is not None
    assert (of.main.after.value, of.main.drop.value, of.main.p) == (None, None, None)
    assert rules(run) == ["undefined_score"]
    why = "undefined under swap: the model gives every pair the same score."
    assert run.of(VERDICT).lines == [
        f"The correlation of model with people's scores is 1.00 before any edit and {why}",
        "So no number says what attacks take.",
        "Do not rely on this: there is no score after the edits.",
    ]
    seeds = [*pairs(rows), *pairs(noisy(40, 0.1, 0.1), arm(MEASURED.attack, seed=1))]
    why = "undefined: the model gives every pair the same score in seed 0"
    assert scored(planted_run(seeds)).main.after.method == why
    # What another attack leaves does not hide it.
    other = replace(MEASURED, attack=replace(MEASURED.attack, label="other noise"))
    both = planted_run([*pairs(rows), *pairs(noisy(40, 0.1, 4.0), other)])
    why = "Pearson after the edits is undefined: the model gives every pair the same score"
    assert any(reason.endswith(why) for reason in both.of(VERDICT).trust.reasons)
    # Constant but for rounding, beside the size of the scores, is constant.
    rounded = [(gold, 1e6 + 1e-4 * before, 0.5) for gold, before, _ in rows]
    flat = planted_run(pairs(rounded))
    assert rules(flat)[:2] == ["answers", "undefined_score"]
    why = "undefined: the model gives every pair the same score"
    assert scored(flat).main.before.method == scored(flat).main.drop.method == why
    verdict = flat.of(VERDICT)
    assert verdict.lines[0].endswith(f"is {why}.")
    assert verdict.trust.reasons == ["there is no score before any edit"]
    # Where a limit makes changes countable, a model that says one thing loses nothing.
    limited = [trial(i, item=t.item, before=t.before) for i, t in enumerate(pairs(rounded))]
    held = planted_run(limited).of(VERDICT)
    assert f"Pearson is {why}" in held.trust.reasons
    # Small scores that differ are not.
    small = [(gold, 1e-9 * before, 1e-9 * after) for gold, before, after in noisy(40, 0.1, 0.1)]
    assert scored(planted_run(pairs(small))).main.before.value > 0.9
    people = scored(planted_run(pairs([(2.0, before, after) for _, before, after in rows])))
    assert people.main.before.method == "undefined: people gave every pair the same score"


@pytest.mark.parametrize(
    ("n", "group", "has_interval"), [(39, 1, False), (40, 1, True), (60, 2, False)]
)
def test_intervals_need_forty_pairs_that_share_no_sentence(n, group, has_interval):
    of = scored(planted_run(pairs(noisy(n, 0.4, 0.4), group=group)))
    assert of.n_clusters == n // group
    assert (of.main.before.low is not None) is has_interval
    assert (of.main.before.n, of.are_few) == (n, not has_interval)


def test_pairs_that_share_sentences_count_once_in_the_verdict_too():
    """Sixty pairs of five sentences."""
    run = planted_run(pairs(noisy(60, 0.4, 0.4), group=12))
    trust = run.of(VERDICT).trust
    assert "only 5 pairs that share no sentence" in trust.reasons
    assert trust.level != "yes"
    alone = planted_run(pairs(noisy(20, 0.4, 0.4)))
    assert "only 20 pairs" in alone.of(VERDICT).trust.reasons


def test_scores_that_agree_before_any_edit_with_nobody_are_named_within_a_sentence():
    rng = np.random.default_rng(0)
    rows = [(float(g), float(x), float(y)) for g, x, y in rng.random((400, 3))]
    reasons = planted_run(pairs(rows)).of(VERDICT).trust.reasons
    assert any(
        one.startswith("the correlation of model with people's scores is") for one in reasons
    )
