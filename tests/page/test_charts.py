"""Pictures: what is drawn, in which colours, and what is left to tables."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from medstress.analyses.shown import Chart, Point
from medstress.report.charts import MOST_PANELS, MOST_SERIES, TITLE, Colours, draw, narrowed, write
from medstress.report.figures import chart_csv
from medstress.stats.estimate import Estimate

SHARE = Estimate(value=0.4, n=10, hits=4, low=0.2, high=0.7, method="made")
SHOWN = ".400 [.200, .700]"
STARTS = {"svg": b"<svg", "png": b"\x89PNG", "pdf": b"%PDF"}


def chart(*points: Point, kind: str = "bars", **rest: object) -> Chart:
    fields = {"name": "c", "title": "Lost", "x": "attack", "y": "share", **rest}
    return Chart(kind=kind, points=points, **fields)  # type: ignore[arg-type]


def texts(body: str) -> list[str]:
    return [node.text or "" for node in ElementTree.fromstring(body).iter("text")]


def fills(body: str) -> set[str | None]:
    return {node.get("fill") for node in ElementTree.fromstring(body).iter("path")}


def body_of(made: Chart) -> str:
    (panel,) = draw(made, Colours(())).panels
    return panel.body


def test_every_mark_has_its_count_and_its_interval_and_both_are_explained():
    points = (Point(x="near", y=SHARE), Point(x="far", y=0.25))
    drawn = draw(chart(*points, counts="trials", notes=("More.",)), Colours(()))
    assert drawn.notes == [
        "Marks are the share; lines are 95 % intervals.",
        "Counts are of trials.",
        "More.",
    ]
    assert draw(chart(points[1]), Colours(())).notes == []
    # Of five lines no shade could be seen through: each mark has its interval.
    many = [Point(x=x, y=SHARE, series=f"s{i}") for i in range(5) for x in (1.0, 2.0)]
    curves = draw(chart(*many, kind="lines"), Colours(()))
    assert curves.notes[0].endswith("shades and upright lines are 95 % intervals.")
    (panel,) = curves.panels
    rules = [
        node
        for node in ElementTree.fromstring(panel.body).iter("g")
        if "mark-rule" in (node.get("class") or "") and "role-mark" in (node.get("class") or "")
    ]
    assert sum(len(node.findall("line")) for node in rules) == 10
    (panel,) = drawn.panels
    assert {"near", "far", "4/10", ".250"} <= set(texts(panel.body))
    titles = [node.text for node in ElementTree.fromstring(panel.body).iter("title")]
    assert "near, .400 [.200, .700] (4/10)" in titles


def test_what_cannot_be_read_is_drawn_at_its_worst():
    mute = replace(SHARE, value=0.0, hits=0, low=0.0, high=0.28, worst=(0.0, 1.0))
    one = chart(Point(x="near", y=mute))
    (panel,) = draw(one, Colours(())).panels
    titles = [node.text for node in ElementTree.fromstring(panel.body).iter("title")]
    assert "near, .000 [.000, .280] at worst [.000, 1.000] (0/10)" in titles
    assert one.all_notes[0].endswith(", with unreadable and missing answers at their worst.")
    whole = chart(Point(x="near", y=replace(mute, high=1.0, worst=None)))
    drawn = [re.sub(r" at worst \[[^]]*\]|\.280|1\.000", "", body_of(c)) for c in (one, whole)]
    assert drawn[0] == drawn[1]
    assert chart_csv(one).splitlines()[1].endswith("made,0.0,1.0")


def test_a_model_has_one_colour_in_every_chart():
    colours = Colours(["model_a", "model_b"])
    alone = chart(Point(x="near", y=SHARE, series="model_b"), kind="dots", by_model=True)
    assert colours.of(alone) == {"model_b": 1}
    assert "var(--series-2)" in fills(draw(alone, colours).panels[0].body)
    others = chart(Point(x="near", y=SHARE, series="attack"))
    assert colours.of(others) == {"attack": 0}


def test_a_correlation_is_not_cut_at_zero():
    below = Estimate(value=-0.3, n=9, hits=None, low=-0.6, high=0.1, method="made")
    (panel,) = draw(chart(Point(x="near", y=below), kind="dots", unit=False), Colours(())).panels
    assert "−0.6" in texts(panel.body)
    assert "1.0" not in texts(panel.body)


def test_what_is_too_much_for_a_picture_is_said():
    many = tuple(
        Point(x=x, y=0.1 * (series % 10), series=f"s{series}", panel=f"p{panel}")
        for panel in range(MOST_PANELS + 1)
        for series in range(MOST_SERIES + 2)
        for x in (1, 2)
    )
    drawn = draw(chart(*many, kind="lines"), Colours(()))
    assert len(drawn.panels) == MOST_PANELS
    assert any(f"{MOST_PANELS} of {MOST_PANELS + 1}" in note for note in drawn.notes)
    assert any(f"{MOST_SERIES} of {MOST_SERIES + 2}" in note for note in drawn.notes)


def test_the_first_screen_has_the_headline_first():
    points = [
        Point(x=x, y=SHARE, series=series, panel=panel)
        for panel in ("a", "b")
        for x in ("near", "far", "middle")
        for series in ("attack", "no op")
    ]
    part = narrowed(chart(*points), ["b"], ["middle", "far"], 1, 2)
    assert [(p.panel, p.x, p.series) for p in part.points] == [
        ("b", x, series) for x in ("middle", "far") for series in ("attack", "no op")
    ]


@pytest.mark.parametrize("form", ["svg", "png", "pdf"])
@pytest.mark.parametrize("kind", ["bars", "lines", "dots", "heat"])
def test_every_kind_is_written_to_files(kind, form):
    points = [
        Point(x=x if kind == "lines" else f"x{x}", y=SHARE, series=name, panel="p")
        for x in (1, 2)
        for name in ("one", "two")
    ]
    made = write(chart(*points, kind=kind), form, Colours(()))
    assert made.startswith(STARTS[form])
    assert b"var(--" not in made
    if form == "svg" and kind != "heat":
        tips = [n.get("aria-label") or "" for n in ElementTree.fromstring(made).iter()]
        assert sum(SHOWN in tip for tip in tips) == len(points), "every mark is drawn"


@pytest.mark.parametrize("kind", ["lines", "dots", "heat"])
def test_a_long_title_of_an_axis_is_written_in_lines(kind):
    long = "n (near names below 0, random names at 0, far names above)"
    points = [Point(x=float(n), y=SHARE, series="model") for n in (-20, 0, 20)]
    (panel,) = draw(chart(*points, kind=kind, x=long, y=f"share {long}"), Colours(())).panels
    lines = [text for text in texts(panel.body) if text]
    spans = [n.text or "" for n in ElementTree.fromstring(panel.body).iter("tspan")]
    shown = [*lines, *spans]
    assert max(map(len, shown)) <= TITLE
    # Layers share one title.
    assert shown.count("n (near names below 0,") == 1
