"""Rates over all variants of all items, by hand."""

from collections.abc import Sequence

import pytest

from medstress.analyses.probes import PROBES, Probe, Probes
from medstress.core.arms import Arm, AttackRecord
from medstress.core.outcomes import Verdict
from medstress.core.trials import Answer, Trial
from planted_trials import arm, control, planted_run, question, trial

ORDER = arm(AttackRecord(label="order", name="option_order", params={"name": "option_order"}))
DOUBTS = {"name": "challenge", "variants": ["doubt", "neutral"]}
CHALLENGE = arm(AttackRecord(label="challenge", name="challenge", params=DOUBTS))


def answered(
    number: int, key: str, clean: str | None, letters: Sequence[str | None], at: Arm = ORDER
) -> Trial:
    verdict = Verdict.HELD if clean == key else Verdict.ALREADY_WRONG
    return trial(
        number,
        at,
        item=question(number, key),
        verdict=Verdict.UNREADABLE if clean is None else verdict,
        before=Answer(clean),
        answers=tuple(letters),
    )


def probes(trials: Sequence[Trial]) -> Probes:
    return planted_run(trials).of(PROBES)


def probe(trials: Sequence[Trial], number: int = 0) -> Probe:
    return probes(trials).rows[number]


def test_rates_by_hand():
    row = probe(
        [
            answered(1, "A", "A", ["A", "A"]),  # right and alike throughout
            answered(2, "A", "A", ["B", None]),
            answered(3, "A", "B", ["B", "B"]),  # wrong and alike throughout
            answered(4, "A", "B", ["A", "C"]),
            answered(5, "A", None, ["A", None]),  # unreadable answers are like no other
        ]
    )
    assert (row.n_trials, row.n_answers, row.n_unreadable) == (5, 10, 2)
    by_hand = {
        "accuracy": (row.rates.accuracy, 4 / 10, 10),
        "right to wrong": (row.rates.right_to_wrong, 1 / 4, 4),
        "wrong to right": (row.rates.wrong_to_right, 2 / 6, 6),
        "change": (row.rates.change, 0.0, 10),
        "right on all": (row.accuracy_all, 1 / 5, 5),
        "alike on all": (row.consistency, 2 / 5, 5),
    }
    for name, (estimate, value, n) in by_hand.items():
        assert estimate.value == pytest.approx(value), name
        assert estimate.n == n, name
    assert row.by_variant == {}


def test_a_model_that_always_says_b_is_never_alike_when_options_move_on():
    # Four options, the key at each letter once: whatever stands at B is the answer.
    trials = [answered(i, "ABCD"[i % 4], "B", ["C", "D", "A"]) for i in range(40)]
    row = probe(trials)
    assert (row.accuracy_before.value, row.rates.accuracy.value) == (0.25, 0.25)
    assert (row.consistency.value, row.accuracy_all.value) == (0.0, 0.0)
    assert row.consistency.high < 0.1


def test_trials_that_failed_or_never_asked_a_variant_count_in_no_rate():
    whole = answered(1, "A", "A", ["A", "A"])
    cut = trial(2, ORDER, verdict=Verdict.FAILED, before=Answer("A"), answers=("B",))
    assert probe([whole, cut, trial(3, ORDER, before=Answer("A"))]).n_trials == 1
    assert planted_run([trial(1)]).of(PROBES) is None


def test_variants_with_names_are_rated_apart_where_every_trial_has_them_all():
    both = [
        answered(1, "A", "A", ["B", "A"], CHALLENGE),
        answered(2, "A", "B", ["A", "B"], CHALLENGE),
    ]
    named = probe(both).by_variant
    assert {name: rates.accuracy.value for name, rates in named.items()} == {
        "doubt": 0.5,
        "neutral": 0.5,
    }
    assert named["doubt"].right_to_wrong.value == named["doubt"].wrong_to_right.value == 1
    shown = [table.name for table in probes(both).tables() if table.rows]
    assert shown == ["probes", "probes_by_variant"]
    short = answered(3, "A", "A", ["B"], CHALLENGE)
    assert probe([*both, short]).by_variant == {}


def test_consistency_is_compared_with_the_control_on_the_trials_of_both():
    beside = control(of=ORDER)
    trials = [answered(i, "A", "A", ["B"]) for i in range(6)]
    trials += [answered(i, "A", "B", ["B"]) for i in range(6, 10)]
    trials += [answered(i, "A", "A", ["A"], beside) for i in range(8)]
    trials += [answered(8, "A", "B", ["A"], beside)]
    row, other = probes(trials).rows
    net = row.consistency_net["no_op"]
    # Of the nine that both have, the probe leaves 3 alike, the control 8.
    assert (net.value, net.n) == (pytest.approx((3 - 8) / 9), 9)
    assert net.high < 0.1
    assert (other.control_of, other.consistency_net) == ("order", {})
