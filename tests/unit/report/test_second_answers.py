from __future__ import annotations

import json
from xml.etree import ElementTree

from medstress.core.outcomes import Verdict
from medstress.report import render_report
from medstress.report.second_answers import second_answer_plots
from medstress.results.names import Names


def marked(samples, sampler: str, n_unrefuted: int):
    spec = json.dumps({"sampler": sampler, "n": None, "variants": "mark"})
    return [
        samples.trial(
            i, trial_id=f"{sampler}{i}", attack=sampler, attack_spec=spec, item_id=str(i), seed=0,
            group="drugs", verdict=Verdict.FLIPPED if i < 9 else Verdict.HELD,
            valid=None if i < n_unrefuted else False,
        )
        for i in range(12)
    ]  # fmt: skip


def test_the_figure_shows_both_rates_and_says_them(samples):
    trials = marked(samples, "random", 9) + marked(samples, "nearest", 3)
    plot, gaps = second_answer_plots(trials, Names(attacks={"nearest": "nearest names"}))
    root = ElementTree.fromstring(plot.svg)
    assert "nearest names .750, not refuted .250" in root.attrib["aria-label"]
    texts = {"".join(text.itertext()) for text in root.iter("text")}
    assert {"nearest names", "random", "all successes", "not refuted"} <= texts
    cells = {
        row["Attack"]: [text.partition(" [")[0] for text in [*row.values()][1:]]
        for row in samples.shown(plot.data)
    }
    assert cells["random"] == ["9/12 = .750", "9/12 = .750", "–", "–"]
    assert cells["nearest names"] == ["9/12 = .750", "3/12 = .250", ".000", "\u2212.500"]

    found = {(m["attack"], m["series"]): m["value"] for m in samples.marks(plot)}
    assert found == {
        ("random", "all successes"): 0.75, ("random", "not refuted"): 0.75,
        ("nearest", "all successes"): 0.75, ("nearest", "not refuted"): 0.25,
    }  # fmt: skip
    # Random draws have no advantage over themselves: nothing is drawn for them.
    assert {(m["attack"], m["series"]): m["value"] for m in samples.marks(gaps)} == {
        ("nearest", "all successes"): 0.0, ("nearest", "not refuted"): -0.5,
    }  # fmt: skip
    samples.is_drawn(plot)
    samples.is_drawn(gaps)


def test_a_run_that_excludes_variants_has_no_such_section(samples):
    assert list(second_answer_plots(samples.trials())) == []
    page = render_report(samples.summary(), samples.trials(), samples.manifest())
    assert "Second right answers" not in page


def test_the_report_of_a_run_that_marks_them_has_it(samples):
    trials = marked(samples, "random", 9) + marked(samples, "nearest", 3)
    page = render_report(samples.summary(), trials, samples.manifest())
    assert '<h2 id="second">Second right answers</h2>' in page
    assert "second-0-data" in page
