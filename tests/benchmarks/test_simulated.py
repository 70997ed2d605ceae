"""The simulations judge tables as medstress.stats does, and the page says what they found."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from medstress.stats.estimates import wilson_ends
from medstress.stats.loss import abbott, loss_bounds, loss_effect
from medstress.stats.nights import begin, feed
from medstress.stats.paired import pair_effect, paired_difference, unite
from medstress.stats.sequences import ConfidenceSequence
from medstress.stats.shares import design_effect, rate, slice_shares

Script = Callable[[str], ModuleType]
RNG_SEED = 12


def test_design_effects_of_many_runs_are_those_of_one(script: Script) -> None:
    tables = script("simulated_tables")
    rng = np.random.default_rng(RNG_SEED)
    for layout in tables.LAYOUTS:
        for shares in ((0.6, 0.1, 0.2, 0.1), (0.97, 0.0, 0.02, 0.01), (0.0, 0.0, 1.0, 0.0)):
            (drawn,) = tables.clustered(shares, 0.3, layout, 20, rng)
            counts = drawn.sum(0)
            hits = drawn[2] + drawn[3]
            many = (
                tables.share_effect(hits, counts),
                tables.pair_effects(drawn[2], drawn[1], counts),
                tables.loss_effects(drawn, counts),
            )
            one = [
                (
                    design_effect(hits[i], counts[i]),
                    pair_effect(drawn[2, i], drawn[1, i], counts[i]),
                    loss_effect(drawn[:, i]),
                )
                for i in range(20)
            ]
            assert np.transpose(many) == pytest.approx(np.array(one), rel=1e-9)


@pytest.mark.parametrize(
    "shares", [(0.5, 0.1, 0.3, 0.1), (0.9, 0.02, 0.06, 0.02), (0, 0, 0.9, 0.1)]
)
def test_a_truth_is_missed_where_the_interval_leaves_it_out(script: Script, shares) -> None:
    """Truths at random places, so that they lie on either side of the ends."""
    misses_of = script("simulated_coverage").misses_of
    rng = np.random.default_rng(RNG_SEED)
    seen = set()
    for cells in rng.multinomial(60, shares, 40):
        flips = ((False, False), (False, True), (True, False), (True, True))
        items = [flip for n, flip in zip(cells, flips, strict=True) for _ in range(n)]
        pairs = [(f"q{i}", *flip) for i, flip in enumerate(items)]
        net, asr = unite(pairs).estimate, rate((u, a) for u, a, _ in pairs)
        point, bounds = abbott(pairs), loss_bounds(asr, net)
        spread = rng.normal(0, 0.12, 3)
        truth = (
            float(np.clip((net.value or 0) + spread[0], -0.99, 0.99)),
            min((point.value or 0) + float(spread[1]), 0.99),
            float(np.clip((asr.value or 0) + spread[2], 0, 1)),
        )
        table = tuple(np.array([float(n)]) for n in cells)
        found = misses_of(table, None, *truth)
        ends = ((net.low, net.high), (point.low, point.high), tuple(bounds))
        for what, x, (low, high) in zip(("difference", "abbott", "loss"), truth, ends, strict=True):
            above, below = (bool(each[0]) for each in found[what])
            assert above == ((low or 0) > x), (what, cells, x)
            assert below == ((high or 0) < x), (what, cells, x)
            seen.add((what, above, below))
    assert len(seen) >= 7


def test_wilson_misses_where_its_ends_do(script: Script) -> None:
    misses = script("simulated_tables").wilson_misses
    for k, p in ((0.0, 0.02), (3.0, 0.3), (7.5, 0.3), (10.0, 0.6)):
        low, high = wilson_ends(k, 10.0)
        above, below = misses(np.array([k]), np.array([10.0]), p)
        assert (bool(above[0]), bool(below[0])) == (low > p, high < p)


def test_an_exact_interval_of_a_slice_holds_what_lies_between_its_ends(script: Script) -> None:
    """Whole answers and effective ones, none and all of them right, either side of both ends."""
    holds = script("simulated_slices").exact_holds
    rng, missed = np.random.default_rng(RNG_SEED), 1 - 0.95 ** (1 / 3)
    wanted, found = [], []
    for rate_of in (0.0, 0.05, 0.4, 1.0):
        hits = rng.binomial(5, rate_of, (3, 30))
        for counts in (np.full((3, 30), 5), np.ones((3, 30), int)):
            y = np.minimum(hits, counts)
            slices = slice_shares(list(zip(y, counts, strict=True)))
            for each, of, n in zip(slices, y, counts, strict=True):
                effect = design_effect(of, n)
                for end in (each.low, each.high):
                    for p in (end - 1e-4, end + 1e-4):
                        if 0 < p < 1:
                            k, m = np.array([of.sum() / effect]), np.array([n.sum() / effect])
                            found.append(bool(holds(k, m, p, missed)[0]))
                            wanted.append(each.low <= p <= each.high)
    assert found == wanted
    assert len(found) > 40


def test_names_that_two_arms_draw_end_with_the_first_lethal_one(script: Script) -> None:
    """Own lists share no name; the same for both start alike; no trial asks a name twice."""
    simulated = script("simulated_names")
    rng = np.random.default_rng(RNG_SEED)
    for how in simulated.DRAWINGS:
        told, differences = simulated.drawn(how, rng)
        assert len(told) == len(differences) == 200
        assert set(differences) <= {-1, 0, 1}
        for a, b in told:
            assert 1 <= len(set(a)) == len(a) <= how.budget
            if how.shared:
                assert all(x == y for x, y in zip(a, b, strict=False))
            else:
                assert not set(a) & set(b)


def test_the_truths_about_confidence_are_those_that_are_planted(script: Script) -> None:
    """Many answers show the calibration error, the Brier score and the change of P(key)."""
    simulated = script("simulated_confidence")
    rng, n = np.random.default_rng(RNG_SEED), 200_000
    ids = [("q",)] * n
    for victim, gap in simulated.GAPS.items():
        answers = simulated._answers(victim, n, 1, ids, rng)
        _, confidences, right = (np.array(each) for each in zip(*answers, strict=True))
        bins = np.minimum((confidences * 10).astype(int), 9)
        gaps = np.bincount(bins, weights=right - confidences, minlength=10) / n
        assert np.abs(gaps).sum() == pytest.approx(gap, abs=0.005)
        if victim in ("calibrated", "too sure by .20"):
            score = ((confidences - right) ** 2).mean()
            assert score == pytest.approx(simulated._brier(gap), abs=0.003)
    for kind, mean in simulated.CHANGES.items():
        assert simulated._changes(kind, n, rng).mean() == pytest.approx(mean, abs=0.003)


def test_an_exact_size_may_not_exceed_its_level_and_the_answer_says_so(script: Script) -> None:
    """A drawn size may by three standard errors."""
    limits = script("simulated_limits")

    def sizes(exact: bool, size: float) -> list[object]:
        one = {"test": "t", "layout": "once", "exact": exact, "rejected": {"0.05": size}}
        return [each.above for each in limits.sizes_of({"runs": 10_000, "cells": [one]})]

    assert sizes(True, 0.0501) != [[]]
    assert sizes(True, 0.05) == sizes(False, 0.0501) == [[]]
    assert sizes(False, 0.06) != [[]]
    found = dict(script("simulated_page").read())
    assert "equivalent within the margin, at .05: up to .0" in " ".join(
        limits.answer(found).split()
    )
    assert "Yes" not in limits.answer(found)


def test_all_tables_have_the_probability_1(script: Script) -> None:
    tables = script("simulated_tables")
    table, ways = tables.enumerated(12)
    assert len(ways) == 455  # 15 over 3
    assert tables.chances(table, ways, (0.4, 0.1, 0.3, 0.2)).sum() == pytest.approx(1)
    assert tables.chances(table, ways, (0.7, 0.0, 0.3, 0.0)).sum() == pytest.approx(1)


def test_a_mean_is_given_up_when_the_sequence_gives_it_up(script: Script) -> None:
    first_out = script("simulated_sequences").first_out
    values = (np.random.default_rng(RNG_SEED).random((5, 200)) < 0.3).astype(float)
    for m in (0.1, 0.45, 0.7):
        for row, found in zip(values, first_out(values, m, 0.05), strict=True):
            sequence, seen = ConfidenceSequence(), np.inf
            for i, y in enumerate(row, start=1):
                sequence.add(y)
                if not sequence.interval[0] <= m <= sequence.interval[1]:
                    seen = min(seen, i)
            assert found == seen


def test_a_year_ends_with_the_alarm_of_the_gate(script: Script) -> None:
    nights = script("simulated_nights")
    rng = np.random.default_rng(RNG_SEED)
    b, c = rng.integers(0, 30, (2, 60, 40))
    b[:, :20] += 4  # half of the runs are often behind
    found = nights.by_night(40, lambda t: (b[t - 1], c[t - 1]), 60)
    for run in range(40):
        state = begin("base")
        for t in range(60):
            counts = int(b[t, run]), int(c[t, run])
            state = feed(state, *counts, 100, margin=0.0, digest=str(t)).state
        assert found[run] == (state.first_alarm or np.inf)
    assert np.isfinite(found[:20]).any()


def test_the_truths_of_the_planted_victims_lie_between_their_bounds(script: Script) -> None:
    """METHODS 1.5: a - c <= loss <= a; fooled by listed names and two kinds: loss = net."""
    found = {v.name: v for v in script("simulated_victims").victims(8)}
    assert len(found) == 10
    for name, victim in found.items():
        assert sum(victim.cells) == pytest.approx(1)
        net, asr = victim.cells[2] - victim.cells[1], victim.cells[2] + victim.cells[3]
        assert net - 1e-9 <= victim.loss <= asr + 1e-9
        if "listed names" in name:
            assert victim.loss == pytest.approx(net)
        if victim.is_abbotts and victim.cells[0] + victim.cells[2] > 0.001:
            assert net / (victim.cells[0] + victim.cells[2]) == pytest.approx(victim.loss)


def test_every_table_of_paired_differences_is_covered_as_the_intervals_say(script: Script) -> None:
    """All tables of 20 items, through `paired_difference` itself."""
    simulated, tables = script("simulated_coverage"), script("simulated_tables")
    table, ways = tables.enumerated(20)
    shares, held = (0.6, 0.1, 0.3, 0.0), 0.0
    chance = tables.chances(table, ways, shares)
    above, below = simulated.misses_of(table, None, 0.2, None, 0.2)["difference"]
    for i in np.flatnonzero(chance > 1e-9):
        c, b = int(table[1][i]), int(table[2][i])
        ones = np.ones(20)
        found = paired_difference(np.arange(20) < b, np.arange(20) >= 20 - c, ones).estimate
        held += chance[i] * ((found.low or 0) <= 0.2 <= (found.high or 0))
    assert 1 - chance[above | below].sum() == pytest.approx(held, abs=1e-6)


def test_the_page_is_that_of_its_committed_numbers(script: Script) -> None:
    page = script("simulated_page")
    assert page.PAGE.read_text("utf-8") == page.render(), (
        "run: python benchmarks/simulated.py --page-only"
    )


def test_what_was_simulated_keeps_what_is_promised(script: Script) -> None:
    """The committed numbers: nothing falls far below its limit, and the gate holds its level."""
    page = script("simulated_page")
    found = page.read()
    assert set(found) == set(script("simulated").PARTS)
    fewer = script("simulated").FEWER
    assert all(part["runs"] >= fewer.get(name, 10_000) for name, part in found.items())
    cells = page.intervals(found)
    beyond = [cell for cell in cells if page.is_beyond(cell)]
    assert len(beyond) <= len(cells) / 100
    assert min(cell["coverage"] for cell in cells) >= 0.915
    victims = [c for c in found["victims"]["cells"] if c["what"] == "loss"]
    assert min(cell["coverage"] for cell in victims) >= 0.929
    part = found["false_alarms"]
    limit = page.size_limit(0.05, part["runs"])
    assert all(cell["alarms"] <= limit for cell in part["cells"] if cell["must hold"])
    for cell in found["families"]["cells"]:
        assert max(cell["holm"], cell["bh"]) <= page.size_limit(0.05, found["families"]["runs"])


def test_numbers_are_kept_with_six_decimals(script: Script) -> None:
    rounded = script("simulated").rounded
    assert rounded({"a": [1 / 3, 2, "x", None, (True, 0.1)]}) == {
        "a": [0.333333, 2, "x", None, [True, 0.1]]
    }
    assert json.loads(json.dumps(rounded([0.1]))) == [0.1]


@pytest.mark.parametrize(
    "name",
    ["families", "powers", "false_alarms", "delays", "early_stops", "two_way", "slices", "advice"],
)
def test_a_quick_look_runs(script: Script, name: str) -> None:
    assert script("simulated").PARTS[name](10)


def test_the_table_of_estimands_is_that_of_the_tips() -> None:
    from medstress.results.estimands import ESTIMANDS, as_markdown, tip_of

    page = (Path(__file__).parents[2] / "docs" / "results" / "statistics.md").read_text("utf-8")
    assert as_markdown() in page
    assert len({field for each in ESTIMANDS for field in each.fields}) == sum(
        len(each.fields) for each in ESTIMANDS
    )
    assert "right on the clean prompt" in tip_of("asr")
    assert tip_of("n_items") == ""
