"""Charts of names, regimes, transfer, slices, tuning, training, cost and failures.

Their data hold the planted numbers, each beside the keys of its arm; the unknown is not drawn.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from medstress.core.outcomes import Verdict
from medstress.metrics.slices import worst_slices
from medstress.report.plots.costs import cost_plot, failure_plot
from medstress.report.plots.regimes import regime_plots
from medstress.report.plots.reusable import reusable_plots
from medstress.report.plots.sliced import slice_plots
from medstress.report.plots.trained import training_plots
from medstress.report.plots.transfers import transfer_plots
from medstress.report.plots.tuned import tuning_plots
from medstress.report.significance import significance_plots
from medstress.report.training import learning_plots

pytestmark = pytest.mark.release

PLACE = {"dataset": "sample", "group": "drugs", "victim": "org/llama-3"}
NAMES = {
    "attacks": {"n=-20": "near names", "n=20": "far names"},
    "victims": {"org/llama-3": "llama-3", "org/qwen": "qwen"},
}
UNKNOWN = {"value": None, "n": 0, "low": None, "high": None, "method": "nobody asked"}


@pytest.fixture
def exponents(samples):
    """ASR of 30, 10 and 20 of 50 at n = -20, random and n = 20; unknown at n = 50."""

    def point(attack, k):
        return {"attack": attack, "asr": samples.estimate(k, 50)}

    points = [
        {"n": -20.0, **point("n=-20", 30)},
        {"n": 20.0, **point("n=20", 20)},
        {"n": 50.0, "attack": "n=50", "asr": UNKNOWN},
    ]
    series = {
        **PLACE,
        "spec": {"budget": 8},
        "points": points,
        "random": point("random", 10),
        "peaks": {"near": {"n": {"value": -20.0}, "inside_share": 0.25}},
    }
    rows = [
        samples.result("drugs", attack, 0, victim="org/llama-3")
        | {"control": {"no_op": samples.estimate(k, 50)}}
        for attack, k in (("n=-20", 1), ("random", 2), ("n=20", 3))
    ]
    return samples.summary(
        results=rows, pooled=[], analysis={"exponents": [series]}, names=NAMES
    )  # fmt: skip


def test_the_two_regimes_stand_on_either_side_of_random_names(exponents, samples):
    (plot,) = regime_plots(exponents)
    found = {(m["attack"], m["x"]): m["numerator"] for m in samples.marks(plot)}
    assert found == {
        ("n=-20", -20.0): "30",
        ("random", 0.0): "10",
        ("n=20", 20.0): "20",
        ("n=-20 / no_op", -20.0): "1",
        ("random / no_op", 0.0): "2",
        ("n=20 / no_op", 20.0): "3",
    }
    assert {"drugs", "drugs, harmless edits"} <= set(samples.is_drawn(plot))
    assert "sample · llama-3, within 8 queries" in plot.svg
    assert "25 % of resamples" in plot.data.notes[1]


def test_charts_of_two_victims_have_one_scale(exponents, samples):
    (series,) = exponents["analysis"]["exponents"]
    points = [point | {"asr": samples.estimate(1, 50)} for point in series["points"][:2]]
    low = {**series, "victim": "other", "points": points, "random": points[0] | {"n": 0.0}}
    low["random"]["attack"] = "random"
    both = exponents | {"analysis": {"exponents": [series, low]}}
    domains = [
        layer["encoding"]["y"]["scale"]["domain"]
        for plot in regime_plots(both)
        for layer in json.loads(plot.spec)["layer"]
    ]
    assert len(domains) >= 4
    assert all(domain == domains[0] for domain in domains)


def test_two_values_of_n_make_no_curve(exponents):
    exponents["analysis"]["exponents"][0]["random"] = None
    assert list(regime_plots(exponents)) == []
    assert list(regime_plots({"results": [], "pooled": []})) == []


def transfer(samples, source, target, hits, n, **changes) -> dict[str, Any]:
    share = samples.estimate(hits, n) if n else UNKNOWN
    counts = {"n_successes": 9, "n_right": n, "n_items": n, "n_asked": n, "n_reached": hits}
    more = {"n_wrong": hits, "n_unreadable": 0, "transfer": share}
    head = {"dataset": "sample", "group": "drugs", "attack": "n=-20"}
    return {**head, "from": source, "to": target, **counts, **more, **changes}


def test_a_cell_of_transfer_that_is_unknown_stays_blank_and_a_zero_does_not(samples):
    rows = [
        transfer(samples, "org/llama-3", "org/llama-3", 4, 4),
        transfer(samples, "org/llama-3", "org/qwen", 0, 7),
        transfer(samples, "org/llama-3", "phi", 0, 0),
    ]
    (plot,) = transfer_plots({"analysis": {"transfer": rows}, "names": NAMES})
    cells = json.loads(plot.spec)["datasets"].values()
    filled = min(cells, key=len)
    assert {(c["to_victim"], c["counted"], c["share"]) for c in filled} == {
        ("llama-3", "4/4", 1.0),
        ("qwen", "0/7", 0.0),
    }
    assert all((c["attack"], c["victim"]) == ("n=-20", "org/llama-3") for c in filled)
    framed = max(cells, key=len)
    assert len(framed) == 9
    assert {c["said"] for c in framed if c["share"] is None} == {"unknown"}
    texts = samples.is_drawn(plot)
    assert {"4/4", "0/7", "llama-3", "qwen", "phi"} <= set(texts)
    assert "0/0" not in texts
    assert "A blank cell is unknown" in " ".join(texts)
    assert "to phi unknown" in plot.svg


def test_successes_asked_of_nobody_else_have_no_matrix(samples):
    rows = [transfer(samples, "a", "a", 4, 4), transfer(samples, "a", "b", 0, 0)]
    assert list(transfer_plots({"analysis": {"transfer": rows}})) == []


def sliced(samples, by, value, hits, n) -> dict[str, Any]:
    return {
        **PLACE, "attack": "n=-20", "by": by, "value": value, "n_items": n,
        "accuracy": samples.estimate(n, n), "asr": samples.estimate(hits, n),
        "asr_shrunken": hits / n if n else None,
    }  # fmt: skip


def test_the_worst_slice_is_marked(samples):
    rows = [
        sliced(samples, "subject", "surgery", 10, 80),
        sliced(samples, "subject", "cardiology", 60, 80),
        sliced(samples, "subject", "dermatology", 1, 3),
        sliced(samples, "subject", "radiology", 0, 0),
        sliced(samples, "key", "A", 20, 80),
        sliced(samples, "key", "B", 20, 80),
    ]
    summary = {"slices": rows, "slicing": {"worst": worst_slices(rows)}, "names": NAMES}
    (plot,) = slice_plots(summary)
    found = {m["slice"]: (m["numerator"], m["series"]) for m in samples.marks(plot)}
    assert found == {
        "cardiology": ("60", "worst by its property"),
        "surgery": ("10", "other slices"),
        "dermatology": ("1", "too few items"),
        "A": ("20", "other slices"),  # neither key differs from the other
        "B": ("20", "other slices"),
    }
    assert samples.marks(plot)[0]["slice"] == "cardiology"
    assert "subject · cardiology" in samples.is_drawn(plot)
    assert "worst by its property: subject = cardiology .750" in plot.svg
    (unjudged,) = slice_plots({"slices": rows})
    assert {m["series"] for m in samples.marks(unjudged)} == {"other slices", "too few items"}


def test_a_worst_slice_of_few_items_is_not_marked(samples):
    rows = [sliced(samples, "subject", "rare", 2, 2), sliced(samples, "subject", "surgery", 0, 80)]
    worst = worst_slices(rows)
    assert [(row["value"], row["differs"]) for row in worst] == [("rare", True)]
    (plot,) = slice_plots({"slices": rows, "slicing": {"worst": worst}})
    found = {m["slice"]: m["series"] for m in samples.marks(plot)}
    assert found == {"rare": "too few items", "surgery": "other slices"}


def test_of_many_slices_the_worst_are_drawn(samples):
    rows = [sliced(samples, "subject", f"s{i}", i % 60, 80) for i in range(600)]
    (plot,) = slice_plots({"slices": rows, "slicing": {"worst": worst_slices(rows)}})
    assert len(samples.marks(plot)) == 40
    assert "40 of 600 slices shown" in " ".join(samples.is_drawn(plot))
    assert len(plot.data.rows) == 600


def test_only_names_that_flip_several_items_are_drawn(samples):
    names = [
        {"name": "insulin <b>", "n_successes": 9, "n_items": 5},
        {"name": "aspirin", "n_successes": 3, "n_items": 2},
        {"name": "zinc", "n_successes": 3, "n_items": 1},
    ]
    row = {**PLACE, "attack": "n=-20", "n_successes": 15, "n_names": 30, "n_items": 11}
    single = {**row, "attack": "n=20", "names": names[2:]}
    sentences = {**row, "attack": "fuzz", "names": names}
    fuzz = samples.result("drugs", "fuzz", 0, attack_spec='{"name": "medfuzz"}')
    rows = [row | {"names": names}, single, sentences]
    (plot,) = reusable_plots({"analysis": {"reusable": rows}, "names": NAMES, "pooled": [fuzz]})
    marks = samples.marks(plot)
    assert [(m["name"], m["value"], m["denominator"]) for m in marks] == [
        ("insulin <b>", 5, "11"), ("aspirin", 2, "11"),
    ]  # fmt: skip
    assert {m["attack"] for m in marks} == {"n=-20"}
    assert "insulin <b>" in samples.is_drawn(plot)
    assert len(plot.data.rows) == 3
    assert "27 names with fewer successes" in plot.data.notes[0]


@pytest.fixture
def tuning(samples):
    place = {**PLACE, "template": {"name": "entity_substitution", "budget": 8}}
    points = [
        {"n": n, "attack": f"n={n:g}", "estimate": samples.estimate(k, 40)}
        for n, k in ((-20.0, 22), (-5.0, 30), (5.0, 10), (20.0, 14))
    ]
    points.append({"n": 50.0, "attack": "n=50", "estimate": UNKNOWN})
    grid = {**place, "attack": "pdws", "n_items": 50, "n_eligible": 40, "points": points}
    told = {"n_items": 50, "n_eligible": 40, "estimate": samples.estimate(30, 40)}
    choice = {
        **place, "attack": "n=-5", "regime": "n < 0", "n": -5.0, "tuned_on": told,
        "reported_on": {"n_items": 90, "n_eligible": 60, "estimate": samples.estimate(33, 60)},
    }  # fmt: skip
    return {
        "settings": {"metric": "asr", "share": 0.2, "budget": None},
        "rule": "largest asr over the grid, within each regime; ties: the smaller |n|",
        "optimistic": False,
        "grids": [grid],
        "choices": [choice],
    }


def test_the_chosen_n_is_marked_and_its_rule_stands_above(tuning, samples):
    (plot,) = tuning_plots({"tuning": tuning, "names": NAMES})
    found = {(m["series"], m["x"]): m["numerator"] for m in samples.marks(plot)}
    assert found == {
        ("tried", -20.0): "22", ("tried", -5.0): "30", ("tried", 5.0): "10", ("tried", 20.0): "14",
        ("chosen", -5.0): "30", ("chosen n, on the other items", -5.0): "33",
    }  # fmt: skip
    text = " ".join(samples.is_drawn(plot))
    assert "Chosen: n = −5 (n &lt; 0)." in plot.svg
    assert "Rule: largest ASR over the grid, within each regime" in text
    assert [line["Chosen"] for line in samples.shown(plot.data)] == ["", "best n < 0", "", "", ""]
    assert samples.shown(plot.data)[4]["ASR"] == "–"
    assert list(tuning_plots({})) == []


def test_nothing_is_marked_before_n_is_chosen(tuning, samples):
    (plot,) = tuning_plots({"tuning": tuning | {"choices": []}})
    assert {m["series"] for m in samples.marks(plot)} == {"tried"}
    assert "Nothing is chosen yet." in plot.svg


def scored(model, attack, clean, attacked) -> dict[str, Any]:
    def f1(value):
        ends = (None, None) if value is None else (value - 0.1, value + 0.1)
        return {"value": value, "n": 30, "low": ends[0], "high": ends[1], "method": "bootstrap"}

    head = {"dataset": "bc5cdr", "group": "all", "attack": attack, "model": model, "n_seeds": 3}
    return {**head, "measure": "f1", "clean": f1(clean), "attacked": f1(attacked)}


def test_scores_by_attack_stand_before_and_after_training(samples):
    rows = [
        scored("original", "swap_noise", 0.8, 0.4),
        scored("swap_noise", "swap_noise", 0.7, 0.6),
        scored("original", "ocr_noise", 0.8, None),
        scored("swap_noise", "ocr_noise", 0.7, 0.5),
    ]
    (plot,) = training_plots({"training": {"scores": rows}})
    marks = samples.marks(plot)
    found = {(m["place"], m["model"]): m["value"] for m in marks}
    assert found == {
        ("no attack", "original"): 0.8,
        ("no attack", "swap_noise"): 0.7,
        ("swap_noise", "original"): 0.4,
        ("swap_noise", "swap_noise"): 0.6,
        ("ocr_noise", "swap_noise"): 0.5,
    }
    assert {m.get("attack") for m in marks} == {None, "swap_noise", "ocr_noise"}
    samples.is_drawn(plot)
    assert list(training_plots({})) == []


def test_learning_curves_have_a_chart_of_their_own_for_loss_and_score(samples):
    curve = [{"epoch": 1, "loss": 2.0, "score": None}, {"epoch": 2, "loss": 1.0, "score": None}]
    model = {"victim": "original-0", "measure": "f1", "curve": curve}
    (loss,) = learning_plots({"training": {"models": [model]}})
    assert [(m["x"], m["value"]) for m in samples.marks(loss)] == [(1, 2.0), (2, 1.0)]
    scored = [point | {"score": 0.5} for point in curve]
    _, score = learning_plots({"training": {"models": [model | {"curve": scored}]}})
    assert [(m["x"], m["value"]) for m in samples.marks(score)] == [(1, 0.5), (2, 0.5)]
    samples.is_drawn(score)


def test_p_values_are_counted_in_bars(samples):
    one = {"null": "matched", "n_tested": 9, "histogram": [5, 4, *[0] * 18]}
    (plot,) = significance_plots({"significance": [one, one | {"n_tested": 0}]})
    marks = samples.marks(plot)
    assert [m["value"] for m in marks] == one["histogram"]
    assert [m["series"] for m in marks[:2]] == ["up to .05", "above .05"]
    assert "5 up to .05." in plot.svg
    samples.is_drawn(plot)


def test_queries_are_counted_by_victim_and_by_what_became_of_them(samples):
    queries = {"paid": 70, "cached": 20, "failed": 1, "baseline": 5, "ahead": 2, "other": 1}
    rows = [
        samples.result("drugs", "n=-20", seed, victim=victim, queries=queries)
        for victim in ("org/llama-3", "org/qwen")
        for seed in (0, 1)
    ]
    plot = cost_plot({"results": rows, "names": NAMES})
    found = {(m["victim"], m["series"].partition(" ")[0]): m["value"] for m in samples.marks(plot)}
    planted = {"paid": 140, "cached": 40, "failed": 2, "other": 16}
    assert found == {
        (victim, kind): n for victim in ("org/llama-3", "org/qwen") for kind, n in planted.items()
    }
    assert "llama-3 · paid 140" in samples.is_drawn(plot)
    assert samples.shown(plot.data)[1] == {
        "Victim": "qwen", "Paid": "140", "Cached": "40", "Failed": "2", "Other": "16",
    }  # fmt: skip
    assert cost_plot({"results": []}) is None


def test_failures_are_counted_by_reason_whatever_its_numbers(samples):
    failed = [
        samples.trial(i, verdict=Verdict.FAILED, at="attack", error=f"timeout after {i} s")
        for i in range(5)
    ]
    hostile = samples.hostile()[1]
    plot = failure_plot([*failed, *samples.trials(), *hostile])
    found = {m["reason"]: m["value"] for m in samples.marks(plot)}
    assert found["timeout after N s"] == 5
    assert sum(m["value"] for m in samples.marks(plot)) == 5 + 2 + len(samples.HOSTILE)
    assert "<script" not in plot.svg
    samples.is_drawn(plot)
    assert failure_plot([samples.trial()]) is None


@pytest.mark.release
def test_payloads_as_names_of_everything_stay_text(exponents, tuning, samples):
    hostile = samples.HOSTILE
    names = {
        "attacks": {"n=-20": hostile[0], "n=20": hostile[1]},
        "victims": {"org/llama-3": hostile[8][:60], "org/qwen": hostile[6]},
        "datasets": {"sample": hostile[3]},
        "groups": {"drugs": hostile[4]},
    }
    rows = [sliced(samples, text, text, 5, 20) for text in hostile]
    transfers = [transfer(samples, a, b, 1, 3) for a in hostile for b in hostile]
    summary = exponents | {"names": names, "tuning": tuning, "slices": rows}
    summary["analysis"] = summary["analysis"] | {"transfer": transfers}
    for make in (regime_plots, slice_plots, tuning_plots, transfer_plots):
        for plot in make(summary):
            samples.is_drawn(plot)
            assert "<script" not in plot.svg
