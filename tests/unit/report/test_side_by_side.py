"""Several runs on one page."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from medstress.analyses.compare import Side, compare
from medstress.report.side_by_side import Beside, render_side_by_side
from medstress.testing.planted import NEAR, arm, planted_run, trial

pytestmark = pytest.mark.release


def beside(samples, folder: str, against: str | None, **changes) -> Beside:
    verdict = {"sentence": f"{folder} lost some.", "others": [], "caveats": []}
    summary = samples.summary(verdict=verdict | {"arms": []}, **changes)
    return Beside(folder=folder, summary=summary, manifest={}, against_first=against)


def test_each_run_has_its_verdict_and_picture_and_what_the_comparison_said(samples):
    runs = [
        beside(samples, "runs/a", None),
        beside(samples, "runs/b", "the <seeds> of A and B differ"),
        beside(samples, "runs/c", "A and C have no pair", results=[], pooled=[], tests=[]),
    ]
    source = render_side_by_side(runs)
    assert re.findall(r"<h2 id=\"run-\d\">(\w): ", source) == ["A", "B", "C"]
    for run in runs:
        assert run.summary["verdict"]["sentence"] in source
    names = re.findall(
        r"<p class=\"criteria\">(\w) \((.*?)\) against A \((.*?)\): (.*?)</p>", source
    )
    assert [name[0] for name in names] == ["B", "C"]
    assert [name[1].endswith(run.folder) for name, run in zip(names, runs[1:], strict=True)] == [
        True,
        True,
    ]
    assert names[0][3] == "no comparison: the &lt;seeds&gt; of A and B differ."
    assert names[1][3] == "no comparison: A and C have no pair."
    assert source.count('<figure class="picture">') == 2


def test_runs_without_anything_to_draw_need_no_library(samples):
    empty = [
        beside(samples, x, "no" * i, results=[], pooled=[], tests=[]) for i, x in enumerate("ab")
    ]
    assert "vegaEmbed" not in render_side_by_side(empty)


def test_a_comparison_names_the_run_by_its_letter_and_shows_its_tables(samples):
    rows = [trial(i, arm(replace(NEAR, draws_names=False))) for i in range(30)]
    lost = [trial(i, arm(replace(NEAR, draws_names=False)), flipped_at=1) for i in range(30)]
    victims = {"model": {"model": "m", "model_hash": "1", "task": {}}}
    sides = [
        Side(name=name, run=planted_run(known, victims=victims))
        for name, known in (("A", rows), ("C", lost))
    ]
    runs = [
        beside(samples, "runs/a", None),
        beside(samples, "runs/b", "no"),
        beside(samples, "runs/c", compare(*sides)),
    ]
    source = render_side_by_side(runs)
    assert "against A" in source
    assert "C is worse than A under near names" in source
    assert source.count("<details") == 2
