"""Success by distance on the page, where a run asked every name."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from medstress.report import render_report
from medstress.report.sweeps import sweep_plots

pytestmark = pytest.mark.release

KEY = {"dataset": "sample", "group": "drugs", "victim": "smollm2", "attack": "all"}


@pytest.fixture
def analysis(samples):
    def row(n_items, distances=True):
        classes = [
            {
                "from": i / 4,
                "to": (i + 1) / 4,
                "distance": [i / 2, (i + 1) / 2] if distances else None,
                "success": samples.estimate(5 * i, 20),
            }
            for i in range(4)
        ]
        counts = {"n_items": n_items, "n_asked": 80, "n_wrong": 30}
        return {**KEY, **counts, "classes": classes, "items": []}

    def made(*rows):
        told = {"statement": "every allowed name was tried on every item", "n_distinct": 80}
        coverage = {**KEY, **told, "n_names": 100, "share_of_vocabulary": 0.8}
        return {"sweeps": [row(*each) for each in rows], "coverage": [coverage]}

    return made


def test_the_picture_says_what_was_asked_and_found(analysis, samples):
    ((plot, said),) = sweep_plots(analysis((4,)))
    label = ElementTree.fromstring(plot.svg).attrib["aria-label"]
    assert label.endswith("nearest class .000, farthest .750.")
    assert "by distance to the key" in label
    shares = [row["Share"].partition(" =")[0] for row in samples.shown(plot.data)]
    assert shares == ["0/20", "5/20", "10/20", "15/20"]
    assert said == (
        "sample · drugs · smollm2 · all: 4 items, 30 of 80 questions answered wrong; every allowed "
        "name was tried on every item, 80 of the 100 of the vocabulary (80.0 %)."
    )


def test_without_distances_the_names_stand_in_their_order(analysis, samples):
    ((plot, _),) = sweep_plots(analysis((1, False)))
    label = ElementTree.fromstring(plot.svg).attrib["aria-label"]
    assert "by names, nearest first (share)" in label
    assert [row["Distance from"] for row in samples.shown(plot.data)] == ["–"] * 4
    marks = samples.marks(plot)
    assert [(m["x"], m["value"]) for m in marks] == [
        (0.125, 0.0), (0.375, 0.25), (0.625, 0.5), (0.875, 0.75),
    ]  # fmt: skip
    # One item estimates nothing: no interval is drawn.
    assert all(m["low"] == m["value"] == m["high"] for m in marks)
    samples.is_drawn(plot)


def test_the_page_has_the_section_only_where_every_name_was_asked(samples, analysis):
    page = render_report(
        {**samples.summary(), "analysis": analysis((4,))}, samples.trials(), samples.manifest()
    )
    assert '<h2 id="distance">Success by distance</h2>' in page
    assert "80 of the 100 of the vocabulary" in page
    page = render_report(samples.summary(), samples.trials(), samples.manifest())
    assert "Success by distance" not in page
