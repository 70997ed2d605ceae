"""Tables as LaTeX and CSV: their shape, their numbers, and what stands below them."""

from __future__ import annotations

import csv
import io
import re

import pytest

from medstress.papers.arms import arms_of
from medstress.papers.exponents import tuning_items
from medstress.papers.layout import make_layout
from medstress.papers.layouts import LAYOUTS
from medstress.papers.outputs import CSV_FIELDS
from medstress.papers.rates import rates_of
from medstress.papers.tables.rates import table_1, table_2, table_rcap
from medstress.results.csv import as_csv
from medstress.results.formats import percent
from medstress.results.latex import escape, latex_table

XIAN = LAYOUTS["xian2025"]
XL = {"name": "Flan-T5-xl", "backend": "python", "parameters": 3e9, "group": "generalist"}


def arms(run):
    return arms_of(run.summary, run.trials, run.manifest)


def columns(line):
    """How many columns a line of a tabular fills."""
    cells = re.split(r"(?<!\\)&", line.removesuffix(r"\\"))
    spans = [re.match(r"\s*\\multicolumn\{(\d+)\}", cell) for cell in cells]
    return sum(int(span[1]) if span else 1 for span in spans)


def check_latex(text):
    """Balanced, every line as wide as the tabular says; returns the body's lines."""
    assert text.count(r"\begin{") == text.count(r"\end{")
    bare = re.sub(r"\\[\\{}%$&#_]", "", text)
    assert bare.count("{") == bare.count("}")
    assert text.isascii()
    spec = re.search(r"\\begin\{tabular\}\{([lr]+)\}", text)[1]
    inside = text.split(r"\toprule")[1].split(r"\bottomrule")[0]
    lines = [line for line in inside.splitlines() if line.endswith(r"\\")]
    assert lines
    assert {columns(line) for line in lines} == {len(spec)}
    return lines


def rows(printed):
    return list(csv.DictReader(io.StringIO(as_csv(printed.data, CSV_FIELDS))))


def texts(table, row):
    """The values of a row, without what is said beside them."""
    return [cell.text(column.format) for column, cell in zip(table.columns, row.cells, strict=True)]


def test_table_1_has_a_line_a_victim_and_group(grid):
    table = table_1(rates_of(arms(grid), 1), grid.summary).table
    lines = check_latex(latex_table(table))
    assert len(lines) == 2 + 2
    assert "mine & diseases" in lines[2]
    assert "mine & drugs" in lines[3]
    assert "published" not in latex_table(table)
    assert [column.heading for column in table.columns][2:] == [
        "Acc", "RandS@1 (%)", "PDWS@1 n < 0 (%)", "PDWS@1 n > 0 (%)",
    ]  # fmt: skip


def test_where_n_is_chosen_the_whole_line_is_about_the_other_items(grid):
    (rates, *_) = rates_of(arms(grid), 1)
    assert rates.tuned
    assert rates.n_items == 32
    assert rates.baseline.accuracy.n == 32
    counted = {estimate.n for estimate in rates.asr.values()}
    assert counted == {round(32 * rates.baseline.accuracy.value)}
    notes = table_1(rates_of(arms(grid), 1), grid.summary).table.notes
    assert any("chosen on 20 % of the items" in note for note in notes)
    assert any(note.startswith("Items: sample diseases 32") for note in notes)


def test_as_published_all_items_stay_and_the_table_says_optimistic(grid):
    rates = rates_of(arms(grid), 1, "as_published")
    assert rates[0].n_items == 40
    assert rates[0].choices["near"].value == -40.0
    assert any("optimistic" in note for note in table_1(rates, grid.summary).table.notes)


def test_the_csv_is_tidy_and_unrounded(grid):
    table = table_1(rates_of(arms(grid), 1, "as_published"), grid.summary)
    found = rows(table)
    assert list(found[0]) == list(CSV_FIELDS)
    near = [
        r for r in found if (r["method"], r["quantity"], r["group"]) == ("near", "asr", "drugs")
    ]
    assert len(near) == 1
    assert float(near[0]["value"]) == 22 / 32
    assert float(near[0]["low"]) < 22 / 32 < float(near[0]["high"])
    assert (near[0]["exponent"], near[0]["exponent_rule"]) == ("-40.0", "same items")
    assert near[0]["interval"].startswith("Wilson")


@pytest.mark.parametrize(
    ("dataset", "victim", "shown"),
    [
        ("medmcqa", XL, True),
        ("sample", XL, False),
        ("medmcqa", {**XL, "model": "smollm2"}, False),
        ("medmcqa", {**XL, "backend": "mock"}, False),
    ],
)
def test_published_numbers_appear_only_where_victim_and_questions_match(
    made_up, dataset, victim, shown
):
    attacks = {
        "random": made_up.substitution("random"),
        "near": made_up.substitution("pdws", -20.0),
        "far": made_up.substitution("pdws", 20.0),
    }
    run = made_up.MadeUp(
        attacks, lambda i, spec: 1 if i % 2 else None, victims=[victim], datasets=[dataset]
    )
    for printed in (
        table_1(rates_of(arms(run), 1), run.summary),
        table_rcap(rates_of(arms(run), 1), run.summary, dataset, "rcap"),
    ):
        text = latex_table(printed.table)
        check_latex(text)
        assert ("published" in text) == shown
        published = [row for row in rows(printed) if row["source"].startswith("published")]
        assert bool(published) == shown
        assert all(row["low"] == row["high"] == row["interval"] == "" for row in published)
    if shown:
        table, _ = table_1(rates_of(arms(run), 1), run.summary)
        line = next(line for line in table.rows if line.published)
        assert texts(table, line)[2:] == [".265", "14.3", "19.6", "15.1"]
        assert all(cell.lines == () for cell in line.cells)


def test_an_arm_beyond_1000_queries_is_read_by_budget_and_stands_in_table_2(made_up):
    # Of 32 eligible items 8 flip at query 5, 8 at query 1,500: nothing at 2, a quarter from 5 on.
    attacks = {"all": made_up.substitution("exhaustive", budget=2331)}
    firsts = {0: 5, 1: 1500}
    long = made_up.MadeUp(attacks, lambda i, spec: firsts.get(i % 4))
    (arm,) = arms(long)
    assert arm.budget == 2331
    assert [arm.asr(b).value for b in (1, 2, 4, 5, 8, 1499, 1500, 2331)] == [
        0, 0, 0, 0.25, 0.25, 0.25, 0.5, 0.5,
    ]  # fmt: skip
    assert arm.asr(2332) is None
    assert [arm.asr(b, {"hash-8"}).n for b in (2, 1500)] == [31, 31]
    (rates,) = rates_of(arms(long), 8)
    assert rates.asr["exhaustive"].value == 0.25
    assert "exhaustive" in latex_table(table_2([rates], long.summary).table)


def test_table_2_crosses_methods_with_embeddings(scaling):
    table, _ = table_2(rates_of(arms(scaling), 8), scaling.summary)
    check_latex(latex_table(table))
    methods = ["RandS", "PDWS n < 0", "B-nearest", "zoo 10", "zoo 3"]
    assert table.heads[0] == (("", 2), ("minilm", 5), ("ngram", 5))
    assert [column.heading for column in table.columns][2:] == methods * 2
    (line,) = table.rows
    found = [float(text) for text in texts(table, line)[2:]]
    eligible = range(8, 40)
    within = 100 * sum(i % 3 != 0 and i % 12 < 8 for i in eligible) / len(eligible)
    assert found[0] == pytest.approx(within, abs=0.05)


@pytest.mark.release
@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"prompt": {"name": "qstab"}}, "prompt medmcqa, ours qstab"),
        ({"prompt": {"name": "medmcqa"}}, ""),
        (
            {
                "prompt": {"name": "qstab"},
                "by_dataset": {"medmcqa": {"prompt": {"name": "medmcqa"}}},
            },
            "",
        ),
        ({}, ""),
    ],
)
def test_published_lines_say_that_they_stand_beside_another_prompt(made_up, told, said):
    attacks = {
        "random": made_up.substitution("random"),
        "near": made_up.substitution("pdws", -20.0),
        "far": made_up.substitution("pdws", 20.0),
    }
    run = made_up.MadeUp(
        attacks, lambda i, spec: 1 if i % 2 else None, victims=[XL], datasets=["medmcqa"]
    )
    run.manifest["victims"][XL["name"]] = told
    rates = rates_of(arms(run), 1)
    for printed in (
        table_1(rates, run.summary),
        table_rcap(rates, run.summary, "medmcqa", "rcap"),
    ):
        table = printed.table
        (line,) = [line for line in table.rows if line.published]
        assert line.cells[0].lines == ((f"medmcqa: {said}",) if said else ())
        notes = [note for note in table.notes if "another prompt" in note]
        expected = f"Published beside another prompt than ours: Flan-T5-xl on medmcqa ({said})."
        assert notes == ([expected] if said else [])
        published = [row for row in rows(printed) if row["source"].startswith("published")]
        suffix = f" ({said})" if said else ""
        assert {row["source"].partition(" (")[2] for row in published} == {suffix[2:]}
        check_latex(latex_table(table))
    made = {
        each.name: each
        for each in make_layout(XIAN, run.summary, run.trials, run.manifest, run.items, ["svg"])
    }
    assert [note for note in made["figure3"].notes if "another prompt" in note] == notes


ZOO = {"name": "discrete_zoo", "budget": 8, "candidates": 3, "answers": "soft"}


@pytest.fixture
def searches(made_up):
    """Learning rate 0.1 is the best on the items to choose on, and the worst on the others."""
    eligible = [f"hash-{i}" for i in range(8, 40)]
    split = tuning_items(
        made_up.MadeUp({"random": made_up.substitution("random")}, lambda i, spec: 1).trials
    )

    def outcome(i, spec):
        rate = spec.get("learning_rate")
        if rate is None:
            return 1 if i % 2 else None
        chosen_on = f"hash-{i}" in split
        return 1 if chosen_on == (rate == 0.1) or i % 8 == 0 else None

    attacks = {
        "random": made_up.substitution("random", budget=8),
        "near 20": made_up.substitution("pdws", -20.0, budget=8),
        "near 5": made_up.substitution("pdws", -5.0, budget=8),
        **{f"zoo {rate}": {**ZOO, "learning_rate": rate} for rate in (0.1, 1.0, 10.0)},
    }
    run = made_up.MadeUp(attacks, outcome)
    return run, {item for item in eligible if item not in split}


def test_the_learning_rate_is_chosen_on_the_items_on_which_n_is(searches):
    run, others = searches
    (rates,) = rates_of(arms(run), 8)
    choice = rates.choices["discrete_zoo"]
    assert (choice.key, choice.value, choice.rule) == ("learning_rate", 0.1, "tuned")
    assert choice.tried == (0.1, 1.0, 10.0)
    flipped = sum(int(item.removeprefix("hash-")) % 8 == 0 for item in others)
    assert rates.asr["discrete_zoo"].value == flipped / len(others)
    assert {rates.asr[name].n for name in rates.asr} == {len(others)}
    printed = table_2([rates], run.summary)
    table = printed.table
    assert table.columns[-1].heading == "DiscreteZOO"
    assert table.rows[0].cells[-1].lines == ("λ = 0.1",)
    assert any("λ was chosen on the 20 % of the items on which n is" in n for n in table.notes)
    check_latex(latex_table(table))
    (line, _) = [row for row in rows(printed) if row["method"] == "discrete_zoo"]
    assert (line["learning_rate"], line["learning_rate_rule"]) == ("0.1", "tuned")
    assert line["exponent"] == ""


def test_on_the_same_items_the_learning_rate_is_the_best_of_its_grid(searches):
    run, _ = searches
    (rates,) = rates_of(arms(run), 8, "as_published")
    assert (rates.choices["discrete_zoo"].value, rates.choices["discrete_zoo"].rule) == (
        1.0,
        "same items",
    )
    assert any(
        "is the best of its grid" in note for note in table_2([rates], run.summary).table.notes
    )


@pytest.mark.parametrize(
    ("zoo", "said"),
    [
        ({"learning_rate": 10.0}, "DiscreteZOO's learning rate λ was given, not tuned."),
        ({"learning_rate": 10.0, "answers": "hard"}, None),
    ],
)
def test_a_learning_rate_that_is_not_tuned_is_said_so_where_it_matters(made_up, zoo, said):
    attacks = {"random": made_up.substitution("random", budget=8), "zoo": {**ZOO, **zoo}}
    run = made_up.MadeUp(attacks, lambda i, spec: 1 if i % 2 else None)
    notes = table_2(rates_of(arms(run), 8), run.summary).table.notes
    assert [note for note in notes if "learning rate" in note] == ([said] if said else [])


def test_the_relative_change_equals_the_success_rate(grid):
    rates = rates_of(arms(grid), 1)
    for r in rates:
        for method, asr in r.asr.items():
            before, after = r.baseline.accuracy.value, r.accuracy_after[method].value
            assert (before - after) / before == pytest.approx(asr.value)
    text = latex_table(table_rcap(rates, grid.summary, "sample", "rcap").table)
    assert len(check_latex(text)) == 2 + 1
    assert "drugs questions" in text


def test_a_victim_that_guesses_is_marked_and_named(made_up):
    run = made_up.MadeUp(
        {"random": made_up.substitution("random")}, lambda i, spec: 1, wrong=30, n_items=40
    )
    table, _ = table_1(rates_of(arms(run), 1), run.summary)
    assert texts(table, table.rows[0])[2].endswith("†")
    assert any(note.startswith("† Not above chance: mine on sample drugs") for note in table.notes)


def test_a_run_that_is_not_complete_says_so(made_up):
    run = made_up.MadeUp(
        {"random": made_up.substitution("random")}, lambda i, spec: 1, complete=False
    )
    notes = table_1(rates_of(arms(run), 1), run.summary).table.notes
    assert any("not complete" in note for note in notes)


def test_arms_under_other_rules_stand_on_lines_of_their_own(made_up):
    rules = ({"choices": "default", "variants": "exclude"},
             {"choices": "as_published", "variants": "mark"})  # fmt: skip
    attacks = {
        f"{name} {i}": made_up.substitution(sampler, n, **rule)
        for i, rule in enumerate(rules)
        for name, sampler, n in (("random", "random", None), ("near", "pdws", -20.0))
    }
    run = made_up.MadeUp(attacks, lambda i, spec: 1 if i % 2 else None)
    table, _ = table_1(rates_of(arms(run), 1), run.summary)
    check_latex(latex_table(table))
    labels = [line.cells[2].value for line in table.rows]
    # What follows from `choices` is not told again.
    assert labels == ["choices = default", "choices = as_published"]


@pytest.mark.parametrize("text", ["[drug]", "a & b", "50 %", "x_1", "{}", "$\\x", "~^", "#", "é"])
def test_whatever_a_victim_is_called_the_table_stays_whole(made_up, text):
    victim = {"name": text, "backend": "python"}
    run = made_up.MadeUp(
        {"random": made_up.substitution("random")}, lambda i, spec: 1, victims=[victim]
    )
    latex = latex_table(table_1(rates_of(arms(run), 1), run.summary).table)
    check_latex(latex.replace("é", "e"))
    assert not any(line.startswith("[") for line in latex.splitlines())


def test_latex_is_escaped_and_per_cent_is_rounded_for_people_only():
    assert escape("n < 0, 5 % & $x_1$") == r"n \ensuremath{<} 0, 5 \% \& \$x\_1\$"
    assert percent(0.12345) == "12.3"
    assert percent(None) == "–"
