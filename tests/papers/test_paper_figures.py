"""Figures as files: valid, the same every time, and with everything in them."""

from __future__ import annotations

import csv
import io
import json
import re
import struct
import tomllib
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from medstress import recipes
from medstress.experiment.file.config import AttackTable
from medstress.experiment.plan.parts import make_attacks
from medstress.figures.canvas import FORMATS
from medstress.figures.outputs import Made, Skipped, index
from medstress.metrics.curves.plateau import NO_PLATEAU
from medstress.papers import changes, curves, regimes, sizes
from medstress.papers.arms import arms_of
from medstress.papers.layout import make_layout
from medstress.papers.layouts import LAYOUTS
from medstress.papers.plots import sizes as plot_sizes
from medstress.papers.rates import rates_of

pytestmark = pytest.mark.release

SVG = "{http://www.w3.org/2000/svg}"


def make(run, formats=FORMATS, summary=None, paper="xian2025"):
    summary = summary or run.summary
    return list(make_layout(LAYOUTS[paper], summary, run.trials, run.manifest, run.items, formats))


def made(found):
    return {each.name: each for each in found if isinstance(each, Made)}


def skipped(found):
    return {each.name: each.reason for each in found if isinstance(each, Skipped)}


def texts(svg):
    root = ElementTree.fromstring(svg)
    return [" ".join("".join(e.itertext()).split()) for e in root.iter(f"{SVG}text")]


def arms(run):
    return arms_of(run.summary, run.trials, run.manifest)


@pytest.fixture(scope="module")
def of_grid(grid):
    return make(grid)


@pytest.fixture(scope="module")
def of_scaling(scaling):
    return make(scaling)


def test_what_a_run_cannot_fill_is_named_with_the_reason(of_grid):
    assert skipped(of_grid) == {
        "table2": "needs an attack with a budget of 8 or more",
        "figure4": "needs an attack with a budget of 3 or more",
        "figure4-embeddings": "needs one attack under two embeddings, with a budget of 3 or more",
        "appendix-m": "needs DiscreteZOO with two numbers of candidates or more",
        "variants": 'needs PDWS near and random sampling with variants = "mark" '
        '(choices = "as_published")',
        "sweeps": 'needs an attack with sampler = "exhaustive" that finished an item',
        "words": "the run has no table of words replaced and inserted",
        "analysis": "the run has no analyses",
    }


def test_what_it_can_fill_is_made(of_grid, of_scaling):
    assert set(made(of_grid)) == {
        "table1", "table1-as-published", "rcap", "figure2", "figure3", "figure5", "appendix-e",
        "claims",
    }  # fmt: skip
    assert {"table2", "figure4", "figure4-embeddings", "appendix-m"} <= set(made(of_scaling))
    assert "figure2" in skipped(of_scaling)


def test_every_figure_is_a_valid_file_in_every_format(of_grid, of_scaling):
    files = {
        name: data
        for found in (of_grid, of_scaling)
        for each in made(found).values()
        for name, data in each.files.items()
    }
    names = {name.partition(".")[0] for name in files if name.endswith(".png")}
    assert names == {"figure2", "figure3", "figure4", "appendix-m"}
    for name in names:
        assert files[f"{name}.pdf"].startswith(b"%PDF-1.")
        assert files[f"{name}.pdf"].rstrip().endswith(b"%%EOF")
        assert b"CreationDate" not in files[f"{name}.pdf"]
        assert files[f"{name}.png"].startswith(b"\x89PNG\r\n\x1a\n")
        width, height = struct.unpack(">II", files[f"{name}.png"][16:24])
        assert width > 700
        assert height > 500
        assert texts(files[f"{name}.svg"])
        assert list(csv.reader(io.StringIO(files[f"{name}.csv"].decode())))[1:]


def test_the_same_run_gives_the_same_bytes(scaling, of_scaling):
    again = make(scaling)
    assert [each.files for each in made(again).values()] == [
        each.files for each in made(of_scaling).values()
    ]


def test_only_the_formats_asked_for_are_drawn(scaling):
    found = made(make(scaling, ["svg"]))
    assert set(found["figure4"].files) == {"figure4.svg", "figure4.csv"}


def test_a_long_title_is_broken_after_a_dot_and_ends_in_the_figure(made_up):
    attacks = {
        f"{n} {rule}": made_up.substitution("pdws", n, choices=rule)
        for n in (-5.0, 5.0, 20.0)
        for rule in ("default", "as_published")
    }
    run = made_up.MadeUp(attacks, lambda i, spec: 1)
    said = texts(made(make(run, ["svg"]))["figure2"].files["figure2.svg"])
    assert {"(a) mine · sample · ngram ·", "choices = as_published", "choices = default"} <= {*said}


# -- figure 2 -------------------------------------------------------------------------------------


def test_figure_2_has_success_above_diversity_and_a_line_a_group(grid, of_grid):
    (panel,) = regimes.panels_of(arms(grid))
    assert {series.entity for series in panel.series} == {"drugs", "diseases"}
    for series in panel.series:
        # Random sampling stands at n = 0.
        assert [n for n, _ in series.asr] == [-40, -20, -5, 0, 5, 20]
        assert len(series.diversity) == 6
        assert series.similarity == ()
    said = texts(made(of_grid)["figure2"].files["figure2.svg"])
    for text in ("ASR@1 (%)", "diversity η", "n", "drugs", "diseases", "(a) mine · sample"):
        assert text in said
    assert "mean PSS" not in said
    assert any("similarity (PSS) is left out" in n for n in made(of_grid)["figure2"].notes)


def test_prompt_similarity_is_drawn_where_the_run_holds_it(grid):
    similarity = {"value": 0.98, "n": 9, "low": 0.97, "high": 0.99, "method": "bootstrap"}
    pooled = [{**row, "prompt_similarity": similarity} for row in grid.summary["pooled"]]
    found = made(make(grid, ["svg"], {**grid.summary, "pooled": pooled}))["figure2"]
    assert "mean PSS" in texts(found.files["figure2.svg"])
    assert b"similarity" in found.files["figure2.csv"]
    assert not any("left out" in note for note in found.notes)


@pytest.fixture(scope="module")
def eight(made_up):
    """Budget 8, three seeds: n < 0 puts one name in all items of a seed, n > 0 one in each half.

    Successes come at query 1, whose prompts stay .9 alike, or at query 5, which stay .1 alike.
    """
    grid = (-30.0, -20.0, -10.0, 10.0, 20.0, 30.0)
    attacks = {f"n={n:g}": made_up.substitution("pdws", n, budget=8) for n in grid}
    run = made_up.MadeUp(attacks, lambda i, spec: 1 if i % 3 else 5, n_items=60, seeds=(0, 1, 2))
    trials = []
    for row in run.trials:
        if row.first_success is not None:
            near = json.loads(row.attack_spec)["n"] < 0
            name = f"near {row.seed}" if near else f"far {int(row.item_id[1:]) % 2}"
            similarity = 0.9 if row.first_success == 1 else 0.1
            row = replace(row, replacement=name, prompt_similarity=similarity)
        trials.append(row)
    run.trials = trials
    return run


def test_figure_2_is_of_first_queries_within_seeds_in_figure_table_and_claims(eight):
    found = made(make(eight, ["svg"]))
    lines = list(csv.DictReader(io.StringIO(found["figure2"].files["figure2.csv"].decode())))
    value = {(line["quantity"], float(line["exponent"])): float(line["value"]) for line in lines}
    count = {(line["quantity"], float(line["exponent"])): int(line["n"]) for line in lines}
    first = [row for row in eight.trials if row.attack == "n=20" and row.first_success == 1]
    for n in (-30.0, -20.0, -10.0):
        assert value["diversity", n] == value["diversity_unbiased", n] == 0
    half = value["diversity_unbiased", 20.0]
    assert 0.5 < half < 0.52
    for quantity in ("diversity", "diversity_unbiased", "similarity"):
        assert {count[quantity, n] for n in (-20.0, 20.0)} == {len(first)}
        assert {line["budget"] for line in lines if line["quantity"] == quantity} == {"1"}
    assert value["similarity", 20.0] == pytest.approx(0.9)
    claims = csv.DictReader(io.StringIO(found["claims"].files["claims.csv"].decode()))
    (claim,) = (c for c in claims if (c["claim"], c["budget"]) == ("1", "1"))
    assert float(claim["value"]) == pytest.approx(-half)
    assert claim["verdict"] == "contradicted"
    (panel,) = regimes.panels_of(arms(eight))
    drawn = dict(panel.series[0].diversity_unbiased)
    assert drawn[20.0].value == pytest.approx(half)
    assert any("within each seed" in note for note in found["figure2"].notes)


def test_two_values_of_n_are_no_curve(made_up):
    attacks = {"a": made_up.substitution("pdws", -5.0), "b": made_up.substitution("pdws", 5.0)}
    run = made_up.MadeUp(attacks, lambda i, spec: 1)
    assert "figure2" in skipped(make(run, ["svg"]))


# -- figure 3 -------------------------------------------------------------------------------------


def test_figure_3_orders_generalists_then_specialists_by_size(made_up):
    def victim(name, size, group):
        return {"name": name, "backend": "python", "parameters": size, "group": group}

    victims = [
        victim("big", 20e9, "generalist"),
        victim("Palmyra-Med-20B", 20e9, "specialist"),
        victim("small", 135e6, "generalist"),
        victim("med", 7e9, "specialist"),
        {"name": "unknown", "backend": "python"},
    ]
    attacks = {
        "random": made_up.substitution("random"),
        "near": made_up.substitution("pdws", -20.0),
        "far": made_up.substitution("pdws", 20.0),
    }
    run = made_up.MadeUp(
        attacks,
        lambda i, spec: 1 if i % 3 else None,
        victims=victims,
        datasets=["medmcqa", "medqa"],
        groups=[("drugs", "drugs", "ngram"), ("diseases", "diseases", "ngram")],
    )
    panels = sizes.panels_of(rates_of(arms(run), 1))
    assert [panel.label for panel in panels[:2]] == ["medqa · drugs", "medmcqa · diseases"]
    order = ["small", "big", "med", "Palmyra-Med-20B"]
    assert [bar.place.victim.label for bar in panels[0].bars] == order
    assert [line is not None for line in panels[0].published] == [False, False, False, True]
    figure = made(make(run, ["svg"]))["figure3"]
    said = texts(figure.files["figure3.svg"])
    for text in ("generalists", "specialists", "published", "RandS", "PDWS n < 0", "PDWS n > 0"):
        assert text in said
    assert {"135M", "7B"} <= set(said)
    assert any(note.endswith("is not given: unknown.") for note in figure.notes)


def test_a_method_that_was_not_run_leaves_no_gap_among_the_bars(made_up):
    attacks = {"near": made_up.substitution("pdws", -5.0), "far": made_up.substitution("pdws", 5.0)}
    run = made_up.MadeUp(attacks, lambda i, spec: 1)
    (panel,) = sizes.panels_of(rates_of(arms(run), 1))
    offsets = plot_sizes._offsets(panel)
    assert list(offsets) == ["near", "far"]
    assert sum(offsets.values()) == 0


# -- figure 4 -------------------------------------------------------------------------------------


def test_figure_4_crosses_methods_with_embeddings(scaling, of_scaling):
    (search,) = curves.panels_of(arms(scaling), curves.SEARCH)
    (rest,) = curves.panels_of(arms(scaling), curves.DETERMINISTIC)
    labels = [curve.label for curve in search.curves]
    assert labels[:4] == [
        "RandS, minilm", "RandS, ngram", "PDWS n = −20, minilm", "PDWS n = −20, ngram",
    ]  # fmt: skip
    assert {"zoo 3, minilm", "zoo 10, ngram"} <= set(labels)
    assert [c.label for c in rest.curves][:2] == ["B-nearest, minilm", "B-nearest, ngram"]
    for curve in search.curves:
        values = [estimate.value for _, estimate in curve.points]
        assert len(values) == 30
        assert values == sorted(values)
    svg = made(of_scaling)["figure4"].files["figure4.svg"]
    said = texts(svg)
    assert said.count("budget (perturbed queries per item)") == 2
    assert set(labels) <= set(said)
    bands = re.findall(r'id="FillBetweenPolyCollection', svg.decode())
    assert len(bands) == len(search.curves) + len(rest.curves)


def test_inflections_are_marked_where_the_summary_has_them(scaling, of_scaling):
    row = {
        "dataset": "sample", "group": "a", "victim": "mine", "attack": "near",
        "inflection": {"value": 6.0, "n": 9, "low": 4.0, "high": 8.0, "method": "bootstrap"},
    }  # fmt: skip
    rows = [row, {**row, "attack": "zoo 3"}]
    summary = {**scaling.summary, "analysis": {"curves": rows, "words": []}}
    found = made(make(scaling, ["svg"], summary))
    for name in ("figure4", "appendix-m"):
        assert any(note.startswith("Circles:") for note in found[name].notes)
    assert not any(n.startswith("Circles:") for n in made(of_scaling)["figure4"].notes)
    assert set(found["analysis"].files) == {"analysis-curves.csv"}
    line, _ = csv.DictReader(io.StringIO(found["analysis"].files["analysis-curves.csv"].decode()))
    assert (line["inflection"], line["inflection_low"]) == ("6.0", "4.0")


def test_the_caption_counts_the_curves_that_only_rise(scaling):
    none = {"value": None, "n": 9, "low": None, "high": None, "method": NO_PLATEAU}
    row = {"dataset": "sample", "group": "a", "victim": "mine", "attack": "near"}
    rows = [{**row, "inflection": none, "recommended_budget": None}]
    summary = {**scaling.summary, "analysis": {"curves": rows, "words": []}}
    found = made(make(scaling, ["svg"], summary))
    (said,) = (n for n in found["figure4"].notes if n.startswith("No plateau"))
    assert re.fullmatch(r"No plateau within the budget: 1 of \d+ curves\.", said)
    assert not any(note.startswith("Circles:") for note in found["figure4"].notes)
    line, *_ = csv.DictReader(io.StringIO(found["analysis"].files["analysis-curves.csv"].decode()))
    assert (line["inflection"], line["recommended_budget"]) == ("", "")
    assert NO_PLATEAU in line.values()


def test_the_change_of_embedding_is_paired_by_items(made_up):
    """Under the second embedding every success comes two queries earlier."""
    attacks = {"near": made_up.substitution("pdws", -20.0, budget=25)}
    groups = [("a", "diseases", "minilm"), ("b", "diseases", "ngram")]
    slow = made_up.MadeUp(attacks, lambda i, spec: 3 + i % 4, groups=groups[:1])
    fast = made_up.MadeUp(attacks, lambda i, spec: 1 + i % 4, groups=groups[1:])
    (change,) = changes.changes_of([*arms(slow), *arms(fast)])
    assert change.embeddings == ("minilm", "ngram")
    assert changes.rise_budget(change.budget) == 5
    first, other, difference = change.rise
    assert first.value == pytest.approx(sum((3, 2, 1, 0)) / 4 / 5)
    assert other.value == pytest.approx(sum((5, 4, 3, 2)) / 4 / 5)
    assert difference.value == pytest.approx(2 / 5)
    # All items change alike: what is left open is how the items not seen would.
    assert 0 < difference.low < 2 / 5 < difference.high < 1
    assert [e.value for e in change.plateau] == [1, 1, 0]
    assert change.plateau[2].low < 0 < change.plateau[2].high


def test_the_variants_of_discrete_zoo_share_a_panel_with_random_sampling(made_up):
    zoo = {"name": "discrete_zoo", "budget": 8, "candidates": 3, "sampler": None}
    attacks = {
        f"zoo {threshold} {order}": {
            **zoo,
            "similarity_threshold": threshold,
            "word_ranking": order,
        }
        for threshold in ("off", 0.9)
        for order in ("random", "importance")
    }
    attacks["random"] = made_up.substitution("random", budget=8)
    run = made_up.MadeUp(attacks, lambda i, spec: i % 8 + 1)
    (panel,) = curves.panels_of(arms(run), curves.SEARCH)
    assert panel.label == "mine · sample · drugs"
    assert [curve.label for curve in panel.curves] == [
        "RandS", "zoo 0.9 importance", "zoo 0.9 random", "zoo off importance", "zoo off random",
    ]  # fmt: skip


# -- growth with M --------------------------------------------------------------------------------


def test_growth_has_a_curve_for_every_number_of_candidates(scaling, of_scaling):
    panels = curves.growth_panels(arms(scaling))
    assert [panel.label for panel in panels] == [
        "mine · sample · diseases · minilm", "mine · sample · diseases · ngram",
    ]  # fmt: skip
    assert [curve.label for curve in panels[0].curves] == ["M = 3", "M = 10", "RandS"]
    assert {"M = 3", "M = 10"} <= set(texts(made(of_scaling)["appendix-m"].files["appendix-m.svg"]))


# -- variants of the key --------------------------------------------------------------------------


def test_the_advantage_is_told_with_and_without_variants(made_up):
    attacks = {
        "random": made_up.substitution("random", variants="mark"),
        "near": made_up.substitution("pdws", -20.0, variants="mark"),
    }

    def outcome(i, spec):
        return 1 if i % 2 or spec["sampler"] == "pdws" else None

    run = made_up.MadeUp(attacks, outcome, wrong=0, valid=lambda i: i % 4 != 0)
    (advantage,) = changes.advantages_of(arms(run))
    assert [e.value for e in advantage.near] == [1.0, 0.75]
    assert [e.value for e in advantage.random] == [0.5, 0.5]
    assert [e.value for e in advantage.gain] == [0.5, 0.25]
    assert advantage.gain[1].low < 0.25 < advantage.gain[1].high
    figure = made(make(run, ["svg"]))["variants"]
    assert any("50 % of the advantage is left" in note for note in figure.notes)
    shown = {"all successes", "successes that no rule refutes"}
    assert shown <= set(texts(figure.files["variants.svg"]))
    assert "asr_unrefuted" in figure.files["variants.csv"].decode()
    assert "asr_valid" not in figure.files["variants.csv"].decode()


# -- cases ----------------------------------------------------------------------------------------


def test_cases_show_what_was_replaced_and_escape_what_they_show(of_grid):
    files = made(of_grid)["figure5"].files
    page, latex = files["figure5.html"].decode(), files["figure5.tex"].decode()
    assert page.count("<section>") == 2
    assert page.count("<del>aspirin</del>") == page.count("<ins>") == 2
    assert "his &lt;wife&gt;_1." in page
    assert "://" not in page
    assert latex.count(r"\begin{figure}") == latex.count(r"\end{figure}") == 2
    assert latex.count(r"\textcolor{red}{aspirin}") == 2
    assert r"his \ensuremath{<}wife\ensuremath{>}\_1." in latex
    assert latex.count(r"$\checkmark$") == 4
    assert "PDWS n &lt; 0" in page
    assert "PDWS n &gt; 0" in page


def test_the_appendix_has_up_to_three_cases_of_every_method_and_group(of_grid):
    page = made(of_grid)["appendix-e"].files["appendix-e.html"].decode()
    assert page.count("<section>") == 3 * 3 * 2  # random, near, far; drugs, diseases


def test_doubtful_successes_come_last(made_up):
    run = made_up.MadeUp(
        {"near": made_up.substitution("pdws", -5.0)}, lambda i, s: 1, valid=lambda i: i == 20
    )
    page = made(make(run, ["svg"]))["figure5"].files["figure5.html"].decode()
    assert "item q20" in page
    assert "validity unknown" in page
    assert "valid by rule" not in page


def test_a_case_shows_the_edit_of_the_first_success(made_up):
    """As diversity and ASR count it, also where the search went on to a valid one."""
    run = made_up.MadeUp({"near": made_up.substitution("pdws", -5.0, budget=4)}, lambda i, s: 1)
    run.trials = [
        replace(
            row,
            first_success_edits=row.edits.replace(row.replacement, "aspirin sodium"),
            first_success_answer=row.answer_after,
            first_success_score=0.4,
            first_success_replacement="aspirin sodium",
            first_valid_success=3,
            variant_class="key_plus_words",
        )
        for row in run.trials
        if row.first_success is not None
    ]
    page = made(make(run, ["svg"]))["figure5"].files["figure5.html"].decode()
    assert "<ins>aspirin sodium</ins>" in page
    assert "query 1, not valid (key plus words of the key), P(key) .900 → .400" in page


# -- index ----------------------------------------------------------------------------------------


def test_the_index_lists_captions_and_what_was_not_made(of_grid):
    text = index(of_grid, "grid")
    assert text.startswith("# Tables and figures of grid\n")
    for each in of_grid:
        assert each.title in text
    assert "Files: figure2.csv, figure2.pdf, figure2.png, figure2.svg" in text
    assert "## Not made" in text


def test_a_run_without_trials_fills_nothing(made_up):
    run = made_up.MadeUp({}, lambda i, spec: None)
    found = make(run)
    assert not made(found)
    assert set(skipped(found).values()) == {"the run has no finished trial of an attack"}


# -- every name asked, and words ------------------------------------------------------------------


@pytest.fixture(scope="module")
def swept(made_up):
    """Two groups of which one keeps no distances, as after a run that was stopped."""
    attacks = {"all": made_up.substitution("exhaustive")}
    groups = [("drugs", "drugs", "ngram"), ("diseases", "diseases", "ngram")]
    run = made_up.MadeUp(attacks, lambda i, spec: 1, groups=groups)

    def estimate(value):
        return {"value": value, "n": 90, "low": value / 2, "high": (1 + value) / 2, "method": "w"}

    def row(group, n_items, far):
        edges = [i / 20 for i in range(21)]
        classes = [
            {"from": a, "to": a + 0.05, "distance": [2 * a, 2 * a + 0.1] if far else None,
             "success": estimate(a)}
            for a in edges[:-1]
        ]  # fmt: skip
        items = [
            {"item_id": f"q{i}", "distances": [2 * a for a in edges] if far else None,
             "success": [None, *edges[1:-1]]}
            for i in range(n_items)
        ]  # fmt: skip
        head = {"dataset": "sample", "group": group, "victim": "mine", "attack": "all"}
        counts = {"n_items": n_items, "n_asked": 1800, "n_wrong": 900}
        return {**head, **counts, "classes": classes, "items": items}

    def coverage(group):
        head = {"dataset": "sample", "group": group, "victim": "mine", "attack": "all"}
        statement = "every allowed name was tried on every item"
        counts = {"n_distinct": 1800, "n_names": 2000, "share_of_vocabulary": 0.9}
        return {**head, **counts, "statement": statement}

    def cell(group, replaced, inserted, value):
        head = {"dataset": "sample", "group": group, "victim": "mine", "attack": "all"}
        size = {"words_replaced": replaced, "words_inserted": inserted}
        return {**head, **size, "n_items": 90, "asr_at_1": estimate(value)}

    def analysis(*sweeps):
        return {
            "sweeps": list(sweeps),
            "coverage": [coverage("drugs"), coverage("diseases")],
            "words": [
                cell("drugs", 1, 6, 0.4),
                cell("drugs", 2, 1, 0.8),
                cell("diseases", 1, 1, 0),
            ],
        }

    return run, row, lambda *sweeps: {**run.summary, "analysis": analysis(*sweeps)}


def test_a_sweep_has_a_thin_line_an_item_a_colour_a_group_and_its_coverage(swept):
    run, row, summary = swept
    both = summary(row("drugs", 3, True), row("diseases", 2, True))
    found = made(make(run, ["svg"], both))["sweeps"]
    svg = found.files["sweeps.svg"]
    said = texts(svg)
    for text in ("drugs", "diseases", "distance to the key", "names on which it errs (%)"):
        assert text in said
    for colour, n_items in ((b"#0072b2", 3), (b"#c84c00", 2)):
        assert (
            len(
                re.findall(b"stroke: %s; stroke-opacity: 0\\.\\d+; stroke-width: 0.6" % colour, svg)
            )
            == n_items
        )
    assert any(
        "mine · sample · drugs: 3 items, 900 of 1,800 questions answered wrong; every allowed name "
        "was tried on every item, 1,800 of the 2,000 of the vocabulary (90.0 %)." in note
        for note in found.notes
    )
    assert not any("no interval" in note for note in found.notes)
    lines = list(csv.DictReader(io.StringIO(found.files["sweeps.csv"].decode())))
    assert len(lines) == 20 * (1 + 3 + 1 + 2)
    assert (lines[1]["class"], lines[1]["distance_from"], lines[1]["value"]) == ("2", "0.1", "0.05")
    assert (lines[20]["item"], lines[20]["value"], lines[20]["low"]) == ("q0", "", "")


def test_a_sweep_of_one_item_has_no_interval_and_without_distances_it_has_ranks(swept):
    run, row, summary = swept
    found = made(make(run, ["svg"], summary(row("drugs", 1, False))))["sweeps"]
    assert "names, nearest to the key first (share)" in texts(found.files["sweeps.svg"])
    assert any("no interval is drawn" in note for note in found.notes)
    assert any("run has no distances" in note for note in found.notes)


def test_words_are_a_cell_each_with_success_and_count(swept):
    run, _, summary = swept
    found = made(make(run, ["svg"], summary()))["words"]
    said = texts(found.files["words.svg"])
    for text in ("40", "80", "0", "(90)", "6+", "(a) all · drugs", "(b) all · diseases"):
        assert text in said
    lines = list(csv.DictReader(io.StringIO(found.files["words.csv"].decode())))
    assert [(x["words_replaced"], x["words_inserted"], x["value"]) for x in lines] == [
        ("1", "6", "0.4"), ("2", "1", "0.8"), ("1", "1", "0"),
    ]  # fmt: skip
    assert "sweeps" in skipped(make(run, ["svg"], summary()))


def test_the_study_of_m_shows_one_pass_and_going_on_in_panels_of_their_own(made_up):
    tables = tomllib.loads(recipes.text_of("xian2025-appendix-m"))["attack"]
    parts = make_attacks([AttackTable(**table) for table in tables])
    every = {part.label: part.attack.spec() for part in parts}
    run = made_up.MadeUp(every, lambda i, spec: 1 if i % 2 else None)
    found = curves.growth_panels(arms(run))
    assert {panel.label.split(" · ")[3] for panel in found} == {
        "choices = default",
        "choices = as_published",
    }
    expected = ["M = 2", "M = 3", "M = 5", "M = 10", "M = 20", "RandS"]
    assert [[curve.label for curve in panel.curves] for panel in found] == [expected] * 2
