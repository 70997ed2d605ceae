"""Forest plot and curves of success rates: the numbers are drawn, and only what is known."""

from __future__ import annotations

import json

import pytest

from medstress.report.rate_plots import curves, forest
from medstress.results.names import Names

pytestmark = pytest.mark.release

NAMES = Names(attacks={"pdws n=-20": "near names"}, victims={"org/llama-3": "llama-3"})
UNKNOWN = {"value": None, "n": 0, "low": None, "high": None, "method": "nobody asked"}


@pytest.fixture
def row(samples):
    """An attack that flips 17 of 51 within 32 queries, and its control, which flips 3."""

    def made(attack="pdws n=-20", flipped=17, theirs=3, **changes):
        found = samples.result("drugs", attack, 0, flipped=flipped, victim="org/llama-3")
        found["control"] = {"no_op": samples.estimate(theirs, 51)}
        found["asr_at"] = [
            {**point, "control": {"no_op": samples.estimate(theirs * (i > 2), 51)}}
            for i, point in enumerate(found["asr_at"])
        ]
        return found | changes

    return made


def test_the_forest_shows_each_rate_beside_its_control(row, samples):
    plot = forest([row(), row("random", 8, 4)], NAMES)
    marks = samples.marks(plot)
    found = {(m["attack"], m["series"]): (m["numerator"], m["denominator"]) for m in marks}
    assert found == {
        ("pdws n=-20", "attack"): ("17", "51"),
        ("pdws n=-20 / no_op", "harmless edits"): ("3", "51"),
        ("random", "attack"): ("8", "51"),
        ("random / no_op", "harmless edits"): ("4", "51"),
    }
    near = next(m for m in marks if m["attack"] == "pdws n=-20")
    assert near["value"] == 17 / 51
    assert (near["low"], near["high"]) == pytest.approx((0.2197, 0.4705), abs=1e-3)
    assert (near["victim"], near["dataset"], near["group"]) == ("org/llama-3", "sample", "drugs")
    assert (near["said"], near["method"]) == ("33.3 %", "wilson")
    texts = samples.is_drawn(plot)
    assert {"near names", "random", "attack", "harmless edits"} <= set(texts)
    assert 'aria-label="Forest plot' in plot.svg
    assert "near names .333 (17/51)" in plot.svg
    shown = samples.shown(plot.data)
    assert [line["harmless edits"].partition(" =")[0] for line in shown] == ["3/51", "4/51"]


def test_what_is_unknown_is_not_drawn(row, samples):
    known, unknown = row(), row("random", asr=UNKNOWN, control={"no_op": UNKNOWN})
    marks = samples.marks(forest([known, unknown], NAMES))
    assert {m["attack"] for m in marks} == {"pdws n=-20", "pdws n=-20 / no_op"}
    assert forest([unknown], NAMES) is None
    assert list(curves([{**unknown, "asr_at": [{"budget": 8, **UNKNOWN}]}], NAMES)) == []


def test_a_control_is_the_dashed_line_in_the_colour_of_its_attack(row, samples):
    (plot,) = curves([row(), row("random", 8, 4)], NAMES)
    marks = samples.marks(plot)
    near = {m["x"]: m["numerator"] for m in marks if m["attack"] == "pdws n=-20"}
    assert near == {1: "3", 2: "6", 4: "8", 8: "11", 16: "14", 32: "17"}
    beside = {m["x"]: m["numerator"] for m in marks if m["attack"] == "pdws n=-20 / no_op"}
    assert beside == {1: "0", 2: "0", 4: "0", 8: "3", 16: "3", 32: "3"}
    line = next(
        layer for layer in json.loads(plot.spec)["layer"] if "strokeDash" in layer["encoding"]
    )
    dashes, strokes = (line["encoding"][name]["scale"] for name in ("strokeDash", "stroke"))
    assert dashes["domain"] == [
        *("near names", "random", "near names / harmless edits", "random / harmless edits"),
    ]
    assert dashes["range"] == [[1, 0], [1, 0], [5, 3], [5, 3]]
    assert strokes["range"] == [f"var(--series-{i})" for i in (1, 2, 1, 2)]
    assert {"near names", "random / harmless edits"} <= set(samples.is_drawn(plot))


def test_a_control_that_all_attacks_share_is_drawn_once(row, samples):
    (plot,) = curves([row(), row("random", 8)], NAMES)
    control = [m for m in samples.marks(plot) if m["series"] == "harmless edits"]
    assert [m["x"] for m in control] == [1, 2, 4, 8, 16, 32]
    assert all("attack" not in m and m["victim"] == "org/llama-3" for m in control)


@pytest.mark.parametrize(("largest", "is_log"), [(19, False), (20, True), (1000, True)])
def test_the_axis_is_logarithmic_from_twenty_queries(samples, largest, is_log):
    row = samples.result("drugs", "random", 0)
    row["asr_at"] = [
        {"budget": budget, **samples.estimate(budget * 51 // largest, 51)}
        for budget in range(1, largest + 1)
    ]
    (plot,) = curves([row])
    kinds = {
        layer["encoding"]["x"]["scale"].get("type") for layer in json.loads(plot.spec)["layer"]
    }
    assert kinds == ({"log"} if is_log else {None})
    budgets = [m["x"] for m in samples.marks(plot)]
    assert (budgets[0], budgets[-1]) == (1, largest)
    assert len(budgets) <= 40
    assert len(plot.data.rows) == largest


@pytest.mark.release
def test_of_thousands_the_most_harmful_are_drawn_and_the_rest_is_counted(samples):
    rows = [
        samples.result(f"group {i}", "random", 0, flipped=40 if i == 1234 else i % 9)
        for i in range(2000)
    ]
    plot = forest(rows)
    assert len(samples.marks(plot)) == 40
    assert "group 1234" in {m["group"] for m in samples.marks(plot)}
    assert "40 of 2,000 shown; all are in the table." in samples.is_drawn(plot)
    assert len(plot.data.rows) == 2000
    panels = list(curves(rows))
    assert len(panels) == 8
    assert any("sample · group 1234" in panel.svg for panel in panels)
    assert "8 of 2,000 such charts are drawn" in panels[0].svg


@pytest.mark.release
def test_hostile_labels_stay_text_and_fit(samples):
    rows = samples.hostile()[0]["results"]
    for plot in (forest(rows), *curves(rows)):
        assert max(map(len, samples.is_drawn(plot))) <= 100
        assert "<script" not in plot.svg
    keys = {m["attack"] for m in samples.marks(forest(rows))}
    assert "x" * 5000 in keys


def test_a_control_that_the_file_names_as_an_attack_looks_like_a_control(row, samples):
    outside = row("outside", 2, attack_spec=json.dumps({"name": "non_entity_noise"}))
    marks = samples.marks(forest([row(), outside], NAMES))
    series = {(m["attack"], m["series"]) for m in marks}
    assert ("outside", "control") in series
    assert ("outside", "attack") not in series
    (panel,) = curves([row(), outside], NAMES)
    line = next(
        layer for layer in json.loads(panel.spec)["layer"] if "strokeDash" in layer["encoding"]
    )
    dashes = line["encoding"]["strokeDash"]["scale"]
    assert dict(zip(dashes["domain"], dashes["range"], strict=True))["outside"] == [5, 3]
