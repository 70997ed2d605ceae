from __future__ import annotations

import re
from xml.etree import ElementTree

import matplotlib
import pytest

from medstress.report.figures import BudgetCurve, budget_curves, forest_plot
from medstress.stats.estimates import Estimate

ESTIMATE = Estimate(value=0.4, n=10, low=0.3, high=0.5, method="", hits=4)


def curve(label: str = "random", budgets: tuple[int, ...] = (1, 2, 4)) -> BudgetCurve:
    return BudgetCurve(label=label, points=tuple((budget, ESTIMATE) for budget in budgets))


def texts(svg: str) -> list[str]:
    return ["".join(text.itertext()) for text in ElementTree.fromstring(svg).iter("text")]


def test_figures_say_what_they_show_and_keep_their_text():
    svg = forest_plot([("random", ESTIMATE)], "f")
    root = ElementTree.fromstring(svg)
    assert root.attrib["role"] == "img"
    assert "random .400 (4/10)" in root.attrib["aria-label"]
    assert "random" in texts(svg)


def test_colours_come_from_the_page():
    svg = budget_curves([curve(str(i)) for i in range(12)], "sample · drugs", "c")
    assert not re.search("#[0-9a-fA-F]{6}", svg)
    assert all(f"var(--series-{i})" in svg for i in range(1, 9))
    assert "currentColor" in svg


def test_nothing_in_a_figure_reaches_the_rest_of_the_page():
    one, other = (budget_curves([curve()], "t", name) for name in ("one", "other"))
    assert "<style" not in one
    assert "font-family" not in one
    assert "DejaVu" not in one
    ids = [set(re.findall(' id="([^"]+)"', svg)) for svg in (one, other)]
    assert not ids[0] & ids[1]
    targets = re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', one)
    assert targets
    assert {a or b for a, b in targets} <= ids[0]


@pytest.mark.parametrize(("largest", "log"), [(19, False), (20, True), (100, True)])
def test_the_axis_is_logarithmic_from_twenty_queries(largest, log):
    svg = budget_curves([curve(budgets=(1, largest))], "t", "c")
    assert ("2" in texts(svg) and "5" in texts(svg) and "10" in texts(svg)) == log


@pytest.mark.parametrize("budgets", [(1,), (8,), (50,)])
def test_a_curve_of_one_point_is_drawn(budgets):
    assert "<svg" in budget_curves([curve(budgets=budgets)], "t", "c")


def test_hostile_labels_stay_text(samples):
    lines = [(text, ESTIMATE) for text in samples.HOSTILE]
    for svg in (
        forest_plot(lines, "f"),
        budget_curves([curve(text) for text in samples.HOSTILE], samples.HOSTILE[6], "c"),
    ):
        tags = {element.tag for element in ElementTree.fromstring(svg).iter()}
        assert tags <= {"svg", "g", "defs", "path", "use", "text", "tspan", "clipPath", "rect"}
        assert max(map(len, texts(svg))) <= 60
        svg.encode()


def test_the_users_matplotlibrc_changes_nothing():
    plain = budget_curves([curve()], "t", "c")
    with matplotlib.rc_context({"font.size": 30, "svg.fonttype": "path", "axes.grid": True}):
        assert budget_curves([curve()], "t", "c") == plain
        assert matplotlib.rcParams["font.size"] == 30
