"""What a comparison shows on planted tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm
from statsmodels.stats.contingency_tables import mcnemar

from medstress.comparison.tables import cases_of, lines_of
from medstress.core.errors import UsageError
from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.results.junit import Outcome
from medstress.stats.estimates import Estimate
from medstress.stats.power import detectable

Make = Callable[..., TrialRow]
HELD, FLIPPED, WRONG = Verdict.HELD, Verdict.FLIPPED, Verdict.ALREADY_WRONG
FAILED = Verdict.FAILED
NEW_MODEL = {"victims.mock.model": "new", "victims.mock.model_hash": "2"}
NEW_ATTACK = {"attacks.random.budget": 8}


@pytest.fixture
def side(trial: Make) -> Callable[..., list[TrialRow]]:
    """Trials with these verdicts, each on an item of its own, for each seed."""

    def make(verdicts: Sequence[Verdict], seeds: Sequence[Any] = (0,), **given: Any) -> list[Any]:
        return [
            trial(
                item_id=f"q{i}",
                item_hash=f"h{i}",
                verdict=verdict,
                seed=seed,
                trial_id=f"{i}/{seed}",
                **given,
            )
            for seed in seeds
            for i, verdict in enumerate(verdicts)
        ]

    return make


def row_of(found: Any, metric: str) -> Any:
    (row,) = [row for row in found.rows if row.metric == metric]
    return row


def test_a_truly_worse_victim_is_worse(side: Any, compared: Any) -> None:
    found = compared(
        side([HELD] * 90 + [FLIPPED] * 10), side([HELD] * 60 + [FLIPPED] * 40), NEW_MODEL
    )
    (row,) = found.deciding_rows
    assert (found.factor, row.metric, found.verdict, found.fails) == (
        "victim",
        "accuracy_after",
        "worse",
        True,
    )
    assert (row.only_a, row.only_b, row.difference.value) == (30, 0, -0.3)
    assert row.sentence.startswith("B is worse than A: accuracy after the attack .600 in B, .900")
    turned = compared(
        side([HELD] * 60 + [FLIPPED] * 40), side([HELD] * 90 + [FLIPPED] * 10), NEW_MODEL
    )
    assert (turned.verdict, turned.fails) == ("better", False)


def test_more_attack_is_worse_for_the_victim(side: Any, compared: Any) -> None:
    """Only the attack differs: the loss on items right in both decides, and more of it worse."""
    a = [HELD] * 90 + [FLIPPED] * 10 + [WRONG] * 50
    b = [HELD] * 60 + [FLIPPED] * 40 + [WRONG] * 50
    found = compared(side(a), side(b), NEW_ATTACK)
    (row,) = found.rows
    assert (row.metric, row.decides, row.verdict) == ("asr", True, "worse")
    assert (row.difference.n, row.difference.value) == (100, pytest.approx(0.3))
    assert 0 < row.difference.low < 0.3 < row.difference.high
    assert row.sentence.startswith("the victim is worse under B than under A: ASR")


@pytest.mark.release
def test_equal_builds_are_undecided_until_there_are_enough(side: Any, compared: Any) -> None:
    """Nothing differs: the factor is time. Ten pairs disagree either way."""

    def verdict(n: int, **settings: Any) -> Any:
        a = [HELD] * 10 + [FLIPPED] * 10 + [HELD] * (n - 20)
        b = [FLIPPED] * 10 + [HELD] * 10 + [HELD] * (n - 20)
        return compared(side(a), side(b), **settings)

    few = verdict(100)
    assert (few.factor, few.verdict, few.fails) == ("time", "undecided", False)
    assert "The smallest difference that this many find with 80 % power is" in few.rows[0].sentence
    assert verdict(100, margin=0.02).fails
    assert not verdict(100, margin=0.02, on_undecided="pass").fails
    many = verdict(2_000, margin=0.02)
    assert (many.verdict, many.fails) == ("equivalent within the margin", False)


@pytest.mark.release
def test_a_small_difference_within_the_margin_is_let_through(side: Any, compared: Any) -> None:
    a, b = [HELD] * 2_000, [HELD] * 1_980 + [FLIPPED] * 20
    found = compared(side(a), side(b), NEW_MODEL, margin=0.05)
    assert (found.verdict, found.fails) == ("different but within it", False)
    assert "B is worse than A, but by less than the margin of .050" in found.rows[0].sentence
    assert compared(side(a), side(b), NEW_MODEL).verdict == "worse"


def test_conditioning_reverses_the_order_and_does_not_decide(side: Any, compared: Any) -> None:
    """B knows 300 items that A does not, and loses more of those that A knows as well."""
    a = [HELD] * 80 + [FLIPPED] * 20 + [WRONG] * 300
    b = [HELD] * 60 + [FLIPPED] * 40 + [HELD] * 200 + [FLIPPED] * 100
    found = compared(side(a), side(b), NEW_MODEL)
    assert (found.verdict, row_of(found, "accuracy_after").values[1].value) == ("better", 0.65)
    loss = row_of(found, "asr")
    assert (loss.decides, loss.verdict, loss.difference.value) == (False, "worse", 0.2)
    assert "a victim that is better on all items may lose more" in found.why


def test_unreadable_answers_count_against_the_victim(side: Any, compared: Any) -> None:
    a = [HELD] * 100
    unreadable = side([HELD] * 60) + [
        row for row in side([HELD] * 100, n_unreadable=1) if int(row.item_id[1:]) >= 60
    ]
    found = compared(side(a), unreadable, NEW_MODEL)
    assert (found.verdict, found.rows[0].difference.value) == ("worse", -0.4)
    assert any("40 trials" in note for note in found.notes)


def test_failed_answers_decide_nothing(side: Any, compared: Any) -> None:
    """A's calls failed on 40 items: as read B is better, but A might have been right there."""
    a = side([HELD] * 60) + [
        row for row in side([FAILED] * 100, at="baseline") if int(row.item_id[1:]) >= 60
    ]
    found = compared(a, side([HELD] * 100), NEW_MODEL)
    assert found.rows[0].p < 0.001
    assert (found.verdict, found.rows[0].n_lost) == ("undecided", 40)
    assert any("40 pairs" in note for note in found.notes)
    # The other way round: B may be as good as A, which is not shown.
    gate = compared(side([HELD] * 100), a, NEW_MODEL, margin=0.05)
    assert (gate.verdict, gate.fails) == ("undecided", True)


def test_a_build_that_never_answers_cannot_be_compared(side: Any, compared: Any, said: Any) -> None:
    dead = side([FAILED] * 100, at="baseline")
    with pytest.raises(UsageError) as error:
        compared(side([HELD] * 100), dead, NEW_MODEL)
    said(str(error.value), "every answer of B failed")
    # It answered before the attack alone: nothing of what decides is known.
    under_attack = side([FAILED] * 100, at="attack")
    with pytest.raises(UsageError) as error:
        compared(side([HELD] * 100), under_attack, NEW_ATTACK)
    assert "every answer of B failed" in str(error.value)
    with pytest.raises(UsageError) as error:
        compared(
            side([FAILED] * 50 + [HELD] * 50, at="attack"),
            side([HELD] * 50 + [FAILED] * 50, at="attack"),
            NEW_ATTACK,
        )
    said(str(error.value), "100 pairs")
    # No answer can be read: no item is right in both, so that nothing shows the loss.
    with pytest.raises(UsageError) as error:
        compared(side([HELD] * 9), side([WRONG] * 9), NEW_ATTACK)
    said(str(error.value), "no common item")


def test_a_row_that_is_mostly_open_is_an_error_in_junit(side: Any, compared: Any) -> None:
    for n_failed, outcome in ((51, Outcome.ERROR), (50, Outcome.OK)):
        rows = side([HELD] * (100 - n_failed)) + [
            row
            for row in side([FAILED] * 100, at="baseline")
            if int(row.item_id[1:]) >= 100 - n_failed
        ]
        found = compared(side([HELD] * 100), rows, NEW_MODEL)
        (case,) = cases_of(found)
        assert case.outcome is outcome
        assert "p < .001 as read, but failed answers leave it open" in case.message


def test_seeds_of_one_item_are_one_unit(side: Any, compared: Any) -> None:
    """Twenty seeds that agree say no more than one."""
    a, b = [HELD] * 40, [HELD] * 34 + [FLIPPED] * 6
    once = compared(side(a), side(b), NEW_MODEL).rows[0]
    often = compared(side(a, range(20)), side(b, range(20)), NEW_MODEL).rows[0]
    assert often.difference.n == 20 * once.difference.n
    assert often.difference.low == pytest.approx(once.difference.low, abs=0.01)
    assert often.p == pytest.approx(once.p, rel=0.2)


def test_documents_are_one_unit(side: Any, compared: Any) -> None:
    a = side([HELD] * 40)
    b = side([HELD] * 30 + [FLIPPED] * 10)
    assert compared(a, b, NEW_MODEL).verdict == "worse"

    def grouped(rows: Any) -> list[Any]:
        from dataclasses import replace

        return [replace(r, cluster=f"d{int(r.item_id[1:]) // 10}") for r in rows]

    assert compared(grouped(a), grouped(b), NEW_MODEL).verdict == "undecided"


def test_a_deterministic_attack_stands_against_every_seed(side: Any, compared: Any) -> None:
    found = compared(side([HELD] * 5, (None,)), side([FLIPPED] * 5, (0, 1, 2)), NEW_ATTACK)
    assert found.rows[0].difference.n == 15


def test_items_are_paired_by_content_and_not_by_name(trial: Make, compared: Any) -> None:
    a = [trial(item_id=f"q{i}", item_hash=f"h{i}") for i in range(4)]
    b = [trial(item_id=f"other{i}", item_hash=f"h{i}") for i in range(2, 6)]
    found = compared(a, b)
    assert found.rows[0].n_items == 2
    assert any("no counterpart" in note for note in found.notes)
    twins = [trial(item_id=name, item_hash="same") for name in ("a", "b")]
    assert compared(twins, twins).rows[0].n_items == 2


def test_runs_without_a_common_item_are_refused(
    side: Any, trial: Make, compared: Any, said: Any
) -> None:
    with pytest.raises(UsageError) as error:
        compared(side([HELD] * 3), [trial(item_id="x", item_hash="y")])
    said(str(error.value), "A holds 3 items", "B holds 1 item")


def test_trials_that_are_only_measured_are_refused(side: Any, compared: Any, said: Any) -> None:
    with pytest.raises(UsageError) as error:
        compared(side([Verdict.MEASURED] * 3), side([Verdict.MEASURED] * 3))
    said(str(error.value), "measurement")


@pytest.mark.parametrize("margin", [0, -0.1, 1, 2.0, float("nan")])
def test_a_margin_out_of_range_is_refused(
    margin: float, side: Any, compared: Any, said: Any
) -> None:
    with pytest.raises(UsageError) as error:
        compared(side([HELD]), side([HELD]), margin=margin)
    said(str(error.value), "margin")


def arms(side: Any, verdicts: dict[str, list[Verdict]]) -> list[TrialRow]:
    return [row for attack, each in verdicts.items() for row in side(each, attack=attack)]


@pytest.mark.release
def test_several_arms_are_one_family(side: Any, compared: Any) -> None:
    """p = .025 is worse alone, and undecided among four: Holm, then Benjamini and Hochberg."""
    names = ("random", "pdws", "nearest", "farthest")
    attacks = {"attacks": {name: {"name": name, "budget": 4} for name in names}}
    same = {name: [HELD] * 45 for name in names}
    other = {**same, "random": [HELD] * 40 + [FLIPPED] * 5}
    alone = compared(side([HELD] * 45), side([HELD] * 40 + [FLIPPED] * 5), NEW_MODEL)
    assert (alone.verdict, alone.families()[0]["size"]) == ("worse", 1)
    for adjust, times in (("holm", 4), ("bh", 4)):
        found = compared(
            arms(side, same), arms(side, other), {**NEW_MODEL, **attacks}, attacks, adjust=adjust
        )
        row = next(row for row in found.deciding_rows if row.a.attack == "random")
        assert row.p_adjusted == pytest.approx(times * row.p)
        assert (row.verdict, found.families()[0]) == (
            "undecided",
            {"name": "deciding", "size": 4, "without_pairs": 0, "adjust": adjust},
        )


def test_an_arm_that_is_the_same_in_both_is_left_out(side: Any, compared: Any) -> None:
    rows = arms(side, {"random": [HELD] * 9, "pdws": [HELD] * 9})
    attacks = {name: {"name": name, "budget": 4} for name in ("random", "pdws")}
    changed = {**attacks, "pdws": {"name": "pdws", "budget": 8}}
    found = compared(rows, rows, {"attacks": changed}, {"attacks": attacks})
    assert [row.a.attack for row in found.rows] == ["pdws"]
    assert any("mock, random: the same in both" in note for note in found.notes)


def with_control(side: Any, attack: list[Verdict], control: list[Verdict]) -> list[TrialRow]:
    """An arm and its control on the same items."""
    return side(attack) + side(control, attack="random / no_op", arm="no_op")


def test_net_of_the_control_decides_where_it_is_asked_for(side: Any, compared: Any) -> None:
    """Both lose 40 of 100 to the attack; of A's, 30 are lost to a harmless change as well."""
    a = with_control(side, [FLIPPED] * 40 + [HELD] * 60, [FLIPPED] * 30 + [HELD] * 70)
    b = with_control(side, [FLIPPED] * 40 + [HELD] * 60, [HELD] * 100)
    found = compared(a, b, NEW_MODEL)
    net = row_of(found, "asr_net")
    assert (net.decides, net.control, found.verdict) == (False, "no_op", "undecided")
    assert [each.value for each in net.values] == pytest.approx([0.1, 0.4])
    assert (net.difference.value, net.verdict) == (pytest.approx(0.3), "worse")
    asked = compared(a, b, NEW_MODEL, metric="asr_net")
    assert (asked.verdict, asked.metric, asked.fails) == ("worse", "asr_net", True)
    assert [row.metric for row in asked.deciding_rows] == ["asr_net"]
    assert {row.metric for row in asked.rows} == {row.metric for row in found.rows}


def test_equal_builds_are_equivalent_net_of_a_control(side: Any, compared: Any) -> None:
    """No pair of nets differs; there is an interval all the same."""
    rows = with_control(side, [FLIPPED] * 40 + [HELD] * 160, [FLIPPED] * 10 + [HELD] * 190)
    found = compared(rows, rows, NEW_MODEL, metric="asr_net", margin=0.05)
    (row,) = found.deciding_rows
    assert (row.verdict, row.p, found.fails) == ("equivalent within the margin", 1, False)
    assert row.difference.low == pytest.approx(-0.0188, abs=1e-4)
    assert "So few items" not in row.sentence
    assert "at a mean squared difference of .150, assumed" in row.sentence


@pytest.mark.parametrize(
    ("n_flipped", "told"),
    [
        (2, "at a discordance of .150, assumed as in the dry run: .010 was seen"),
        (30, "at the discordance that was seen, .300"),
    ],
)
def test_the_smallest_difference_says_what_it_rests_on(
    side: Any, compared: Any, n_flipped: int, told: str
) -> None:
    half = n_flipped // 2
    a = [FLIPPED] * half + [HELD] * (200 - half)
    b = [HELD] * half + [FLIPPED] * (n_flipped - half) + [HELD] * (200 - n_flipped)
    if n_flipped == 30:
        a, b = a[:100], b[:100]
    (row,) = compared(side(a), side(b), NEW_MODEL).deciding_rows
    assert told in row.sentence
    n = len(a)
    assert row.smallest_effect == pytest.approx(detectable(n, max(n_flipped / n, 0.15)))


def test_failed_calls_of_a_control_decide_nothing(side: Any, compared: Any) -> None:
    """As read B is worse; had A's control held where its calls failed, nothing would differ."""
    a = side([FLIPPED] * 40 + [HELD] * 60) + side(
        [FAILED] * 40 + [HELD] * 60, at="attack", attack="random / no_op", arm="no_op"
    )
    b = with_control(side, [FLIPPED] * 40 + [HELD] * 60, [HELD] * 100)
    net = row_of(compared(a, b, NEW_MODEL), "asr_net")
    assert (net.difference.value, net.n_lost, net.verdict) == (0.4, 40, "undecided")


def test_a_measure_that_one_run_lacks_is_refused(side: Any, compared: Any, said: Any) -> None:
    b = with_control(side, [HELD], [HELD])
    with pytest.raises(UsageError) as error:
        compared(side([HELD]), b, metric="asr_net")
    said(str(error.value), "asr_net", "control")


def test_an_unknown_measure_is_refused(side: Any, compared: Any, said: Any) -> None:
    with pytest.raises(UsageError) as error:
        compared(side([HELD]), side([HELD]), metric="acuracy")
    said(str(error.value), "'acuracy'", "did you mean 'accuracy'")


@pytest.mark.parametrize("changes", [NEW_MODEL, NEW_ATTACK])
def test_the_measure_that_is_asked_for_decides(side: Any, compared: Any, changes: Any) -> None:
    """B knows 300 items that A does not, and loses more of those that A knows as well."""
    a = [HELD] * 80 + [FLIPPED] * 20 + [WRONG] * 300
    b = [HELD] * 60 + [FLIPPED] * 40 + [HELD] * 200 + [FLIPPED] * 100
    verdicts = {"accuracy_after": "better", "accuracy": "better", "asr": "worse"}
    for metric, verdict in verdicts.items():
        found = compared(side(a), side(b), changes, metric=metric)
        assert (found.verdict, found.fails) == (verdict, verdict == "worse")
        assert {row.metric for row in found.deciding_rows} == {metric}


def test_incomplete_runs_are_compared_and_said_to_be(side: Any, compared: Any) -> None:
    found = compared(side([HELD] * 3), side([HELD] * 2), {"complete": False})
    assert any(note.startswith("the run of B is not complete") for note in found.notes)


def test_a_run_that_is_not_complete_decides_nothing(side: Any, compared: Any) -> None:
    a, b = side([HELD] * 100), side([FLIPPED] * 60 + [HELD] * 40)
    found = compared(a, b, {**NEW_MODEL, "complete": False})
    (row,) = found.deciding_rows
    assert (found.verdict, found.fails, row.difference.value) == ("undecided", False, -0.6)
    assert row.sentence.startswith("undecided: the run of B is not complete: accuracy after")
    assert compared(a, b, {**NEW_MODEL, "complete": False}, margin=0.1).fails


class Read:
    """An interval over names, as read."""

    def __init__(self, low: float, high: float) -> None:
        self.found = Estimate(value=0.3, n=100, low=low, high=high, method="two-way")

    def like_these(self, row: Any, contrast: Any) -> tuple[Estimate | None, str | None]:
        return self.found, None


@pytest.mark.parametrize(
    ("ends", "verdict", "told"),
    [
        (
            (-0.1, 0.7),
            "undecided",
            "with these names, for names like these undecided (the interval",
        ),
        ((0.1, 0.5), "worse", "with these names, and worse for names like these (the interval"),
    ],
)
def test_where_the_names_differ_the_interval_over_names_decides_about_lists(
    side: Any, compared: Any, ends: tuple[float, float], verdict: str, told: str
) -> None:
    other = {"parts.groups.drugs": "h", "groups.drugs.vocabulary": "others"}
    a, b = side([HELD] * 90 + [FLIPPED] * 10), side([HELD] * 60 + [FLIPPED] * 40)
    found = compared(a, b, other, names=Read(*ends))
    (row,) = found.deciding_rows
    assert (found.factor, found.verdict, found.fails) == ("names", "worse", True)
    assert row.as_json()["for_names_like_these_verdict"] == verdict
    assert row.sentence.startswith(f"the victim is worse under B than under A {told}")
    # Another factor speaks of the same names in both.
    assert "names" not in compared(a, b, NEW_ATTACK, names=Read(*ends)).deciding_rows[0].sentence


def test_no_number_is_minus_zero(side: Any, compared: Any) -> None:
    rows = with_control(side, [HELD] * 9, [HELD] * 9)
    for changes in (NEW_MODEL, NEW_ATTACK, {}):
        assert "-0.0," not in json.dumps(compared(rows, rows, changes).as_json()).replace("]", ",")


def test_rows_without_a_pair_are_counted_beside_the_tests(side: Any, compared: Any) -> None:
    found = compared(side([HELD] * 9), side([WRONG] * 9), NEW_MODEL)
    assert found.families()[1] == {
        "name": "others",
        "size": 1,
        "without_pairs": 1,
        "adjust": "holm",
    }
    assert any("1 row without a pair" in line for line in lines_of(found))


@pytest.mark.parametrize("seed", range(20))
def test_p_and_interval_are_those_of_published_tools(seed: int, side: Any, compared: Any) -> None:
    """Each item once: p is McNemar's without correction, the ends those of Tango's statistic."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(40, 400))
    right = rng.random((2, n)) < rng.uniform(0.2, 0.95, size=(2, 1))
    found = compared(*(side([HELD if x else FLIPPED for x in each]) for each in right), NEW_MODEL)
    row = found.rows[0]
    table = [
        [int(np.sum((right[0] == i) & (right[1] == j))) for j in (True, False)]
        for i in (True, False)
    ]
    assert row.p == pytest.approx(mcnemar(table, exact=False, correction=False).pvalue)
    assert (row.only_a, row.only_b) == (table[0][1], table[1][0])
    assert (row.p < 0.05) == (not row.difference.low <= 0 <= row.difference.high)
    for end in (row.difference.low, row.difference.high):
        assert abs(tango(table[1][0], table[0][1], n, end)) == pytest.approx(
            norm.ppf(0.975), abs=1e-6
        )


def tango(b: int, c: int, n: int, x: float) -> float:
    """Tango's statistic at a difference x, with the nuisance by maximum likelihood on a grid."""
    from scipy.optimize import minimize_scalar

    def loss(q: float) -> float:
        p = np.array([q + x, q, 1 - 2 * q - x])
        counts = np.array([b, c, n - b - c])
        return -float((counts[counts > 0] * np.log(p[counts > 0])).sum())

    low = max(0.0, -x)
    bounds = (low + 1e-12, (1 - x) / 2 - 1e-12)
    q = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-13}).x
    return (b - c - n * x) / np.sqrt(n * (2 * q + x * (1 - x)))
