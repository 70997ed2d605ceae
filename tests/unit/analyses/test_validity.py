"""Valid successes: people vouch, rules refute."""

from collections.abc import Sequence
from dataclasses import replace
from math import hypot

import pytest

from medstress.analyses.run import Cell
from medstress.analyses.shown import as_json
from medstress.analyses.validity import Validity, remarks, validity
from medstress.analyses.verdict import VERDICT
from medstress.core.trials import Trial
from medstress.core.trials import Validity as Word
from medstress.core.validity import Evidence
from medstress.stats.estimate import wilson, wilson_ends
from planted_trials import arm, control, planted_run, trial

PEOPLE_SAY = {valid: Word(valid, "review") for valid in (True, False)}
UNKNOWN = Word(None, "rule")
REFUTED = Word(False, "synonym", (Evidence(kind="synonym", source="rules", valid=False),))
DISPUTED = Word(None, "review", (Evidence(kind="people", source="review"),))


def success(
    number: int, word: Word = UNKNOWN, sampled: bool | None = None, **more: object
) -> Trial:
    one = trial(number, flipped_at=1, **more)  # type: ignore[arg-type]
    assert one.pick is not None
    judged = replace(one.pick, validity=word)
    return replace(one, first=judged, pick=judged, sampled=sampled)


def of(trials: Sequence[Trial]) -> Validity:
    computed = validity(Cell.of(trials))
    assert computed is not None
    return computed


def held(n: int) -> list[Trial]:
    return [trial(1000 + i) for i in range(n)]


def words(*counts: tuple[int, Word, bool]) -> list[Trial]:
    """So many successes of each kind, each about a question of its own."""
    flat = [(word, sampled) for n, word, sampled in counts for _ in range(n)]
    return [success(i, word, sampled) for i, (word, sampled) in enumerate(flat)]


def product(p: tuple[int, int], v: tuple[int, int]) -> tuple[float, float, float]:
    (a, n), (b, m) = p, v
    x, y = a / n, b / m
    (x_low, x_high), (y_low, y_high) = wilson_ends(a, n), wilson_ends(b, m)
    low = x * y - hypot((x - x_low) * y, (y - y_low) * x)
    return x * y, low, x * y + hypot((x_high - x) * y, (y_high - y) * x)


def test_rules_vouch_for_nothing_so_there_are_bounds_alone():
    known = of([*words((30, UNKNOWN, False), (10, REFUTED, False)), *held(60)])
    assert known.asr_valid is None
    assert known.n_labels == 0
    # A refuted success ended its search with 7 queries left: a valid one might have come.
    assert known.asr_valid_bounds == (0.0, 0.4)
    assert as_json(known) == {"asr_valid": None, "asr_valid_bounds": [0.0, 0.4], "n_labels": 0}


def test_a_labelled_sample_speaks_for_all_successes():
    labels = words((15, PEOPLE_SAY[True], True), (5, PEOPLE_SAY[False], True), (20, UNKNOWN, False))
    known = of([*labels, *held(60)])
    value, low, high = product((40, 100), (15, 20))
    assert known.n_labels == 20
    assert known.asr_valid.value == pytest.approx(value)
    assert known.asr_valid.low == pytest.approx(low)
    assert known.asr_valid.high == pytest.approx(high)
    assert known.asr_valid.worst is None
    assert known.asr_valid_bounds == (0.15, 0.4)


def test_what_a_rule_refutes_is_a_stratum_of_its_own():
    labels = words((12, PEOPLE_SAY[True], True), (8, UNKNOWN, False), (20, REFUTED, False))
    known = of([*labels, *held(60)])
    assert known.asr_valid.value == pytest.approx(0.2)
    by_people = Word(
        True, "review", (*REFUTED.evidence, Evidence(kind="people", source="review", valid=True))
    )
    labels = words(
        (12, PEOPLE_SAY[True], True),
        (8, UNKNOWN, False),
        (5, by_people, True),
        (15, REFUTED, False),
    )
    known = of([*labels, *held(60)])
    assert known.asr_valid.value == pytest.approx(0.2 + 0.2)


def test_labels_outside_a_random_sample_or_few_give_no_rate():
    few = of([*words((9, PEOPLE_SAY[True], True), (5, UNKNOWN, False)), *held(20)])
    assert few.asr_valid is None
    assert few.why == "9 labels of a random sample, and a rate needs 10"
    picked = of([*words((12, PEOPLE_SAY[True], False), (5, UNKNOWN, False)), *held(20)])
    assert picked.asr_valid is None
    assert picked.n_labels == 0


@pytest.mark.parametrize("n", [1, 4, 6])
def test_where_people_judged_every_success_the_rate_is_a_plain_share(n):
    known = of([*words((n, PEOPLE_SAY[True], True), (1, PEOPLE_SAY[False], True)), *held(n)])
    plain = wilson(n, 2 * n + 1)
    assert (known.asr_valid.value, known.asr_valid.low) == (plain.value, plain.low)
    assert known.n_labels == n + 1


def test_silent_and_disputed_successes_count_at_their_worst():
    labels = words(
        (8, PEOPLE_SAY[True], True),
        (2, PEOPLE_SAY[False], True),
        (5, DISPUTED, True),
        (5, UNKNOWN, True),
    )
    known = of([*labels, *held(80)])
    assert known.n_open == 10
    low, high = known.asr_valid.ends
    assert low == pytest.approx(product((20, 100), (8, 20))[1])
    assert high == pytest.approx(product((20, 100), (18, 20))[2])
    assert "labels_open" in {one.rule for one in remarks(Cell.of(labels), known)}


def test_unreadable_answers_may_hide_valid_successes():
    labels = words((10, PEOPLE_SAY[True], True), (10, UNKNOWN, False))
    mute = [trial(500 + i, asked=8, unreadable=8) for i in range(20)]
    known = of([*labels, *mute, *held(60)])
    assert known.asr_valid_bounds == (0.1, 0.4)
    reach = wilson_ends(20, 100)[1] - 0.2
    assert known.asr_valid.ends[1] == pytest.approx(0.4 + hypot(reach, reach))
    assert known.asr_valid.high == pytest.approx(0.2 + reach)


def test_seeds_and_documents_are_no_further_labels():
    def width(documents: bool) -> float:
        trials = [
            replace(one, arm=arm(seed=seed), cluster=f"d{i // 5}" if documents else one.cluster)
            for seed in (0, 1, 2)
            for i, one in enumerate(
                [*words((10, PEOPLE_SAY[True], True), (10, PEOPLE_SAY[False], True)), *held(20)]
            )
        ]
        trials.append(success(9000, UNKNOWN, False))
        estimate = of(trials).asr_valid
        return estimate.high - estimate.low

    one_seed = of(
        [
            *words((10, PEOPLE_SAY[True], True), (10, PEOPLE_SAY[False], True)),
            *held(20),
            success(9000),
        ]
    ).asr_valid
    assert width(False) == pytest.approx(one_seed.high - one_seed.low, abs=0.02)  # type: ignore[operator]
    assert width(True) > 1.3 * width(False)


@pytest.mark.parametrize(("n_refuted", "doubts"), [(0, False), (2, False), (24, True)])
def test_a_verdict_does_not_rest_on_successes_that_people_refute(n_refuted, doubts):
    labels = words((30 - n_refuted, PEOPLE_SAY[True], True), (n_refuted, PEOPLE_SAY[False], True))
    harmless = [trial(i, control()) for i in (*range(30), *range(1000, 1020))]
    reasons = planted_run([*labels, *held(20), *harmless]).of(VERDICT).trust.reasons
    said = "of the 30 lost, people find 6 where the right answer is still right"
    assert (said in reasons) is doubts
