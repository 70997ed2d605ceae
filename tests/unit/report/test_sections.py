from __future__ import annotations

from medstress.report import sections
from medstress.report.sentence_scores import score_tables
from medstress.report.tables import score_cell, share_cell, short_labels
from medstress.report.training import training_tables

_TRAINED = (
    *("clean", "trained_clean", "attacked", "trained_attacked", "clean_loss", "gain", "recovered"),
)


def test_rows_of_one_seed_stand_for_themselves_and_others_are_pooled(samples):
    rows = sections.headline_rows(samples.summary())
    assert [(row["group"], row["attack"]) for row in rows] == [
        (group, attack) for group in samples.GROUPS for attack in samples.ATTACKS
    ]
    assert ["seeds" in row for row in rows] == [True, True, False] * 2


def test_without_pooled_rows_every_seed_is_shown(samples):
    summary = samples.summary(pooled=[])
    assert sections.headline_rows(summary) == summary["results"]


def test_pooled_rows_alone_are_shown(samples):
    summary = samples.summary(results=[])
    assert sections.headline_rows(summary) == summary["pooled"]


def test_every_rate_has_value_numerator_denominator_and_interval(samples):
    row = samples.result("drugs", "random", 0, flipped=17)
    cells = sections.rates_table([row]).rows[0]
    assert cells[1].text == ".333"
    assert cells[1].lines[0] == "17/51"
    assert cells[1].lines[1].startswith("[.2")
    assert cells[4].lines[0] == "51/91"
    assert cells[5].lines == ("p < .001",)
    assert [cell.text for cell in cells[7:]] == ["8", "38", "2", "2"]


def test_a_rate_over_nothing_shows_its_empty_fraction(samples):
    cell = share_cell(samples.estimate(0, 0), 0, 0)
    assert (cell.text, cell.lines, cell.sort) == ("–", ("0/0",), None)


def test_counts_that_do_not_give_the_rate_are_not_shown_as_its_fraction(samples):
    weighted = samples.estimate(1, 3) | {"value": 0.4567}
    assert share_cell(weighted, 1, 3).lines[0] == "n = 3"
    whole_by_chance = samples.estimate(50, 100)
    assert share_cell(whole_by_chance, 33, 100).lines[0] == "n = 100"


def test_scores_never_show_hits(samples):
    """ "0/4,797" for an F1 drop of 0, and "50/100" for a Pearson of .5, were no such thing."""
    drop = {"value": 0.0, "n": 4797, "low": -0.01, "high": 0.01, "method": ""}
    assert score_cell(drop).lines == ("n = 4,797", "[−.010, .010]")
    assert score_cell(samples.estimate(50, 100)).lines[0] == "n = 100"
    row = samples.result("drugs", "random", 0) | {"f1": samples.estimate(50, 100), "f1_drop": drop}
    shown = score_tables([row])[0].rows[0][1:]
    assert {line for cell in shown for line in cell.lines if "/" in line} == set()
    f1 = {"metric": "f1", "estimate": samples.estimate(50, 100), "met": False}
    assert sections.requirements_table([f1]).rows[0][4].lines[0] == "n = 100"
    trained = {name: samples.estimate(50, 100) for name in _TRAINED}
    place = {"dataset": "d", "group": "g", "model": "m", "attack": "a", "trained_on": True}
    row = {**place, "measure": "accuracy", **trained}
    (table,) = training_tables({"rows": [row]})
    assert all("/" not in line for cell in table.rows[0][3:] for line in cell.lines)


def test_answers_that_leave_a_rate_open_are_shown_at_their_worst(samples):
    row = samples.result("drugs", "random", 0, flipped=17)
    low, high = row["asr"]["low"], row["asr"]["high"]
    closed, opened = (
        sections.rates_table([row | {"asr_bounds": bounds}]).rows[0][1].lines
        for bounds in ([low, high], [low, 0.9])
    )
    assert len(closed) == 2
    assert opened[:2] == closed
    assert opened[2].startswith("at worst [.2")
    assert opened[2].endswith(".900]")
    judged = {"metric": "asr", "estimate": row["asr"], "bounds": [low, 0.9], "met": False}
    cell = sections.requirements_table([judged]).rows[0][4]
    assert cell.lines == ("17/51", *opened[1:])


def test_the_ledger_shows_all_eight_counts(samples):
    table = sections.queries_table([samples.result("drugs", "random", 0)])
    assert len(table.columns) == len(table.rows[0]) == 11
    assert [cell.text for cell in table.rows[0][1:3]] == ["1,203", "1,001"]


def test_rows_of_other_tasks_show_what_they_measure(samples):
    row = {"attack": "swap_noise", "victim": "tagger", "dataset": "bc5cdr", "n_trials": 5}
    row |= {"f1": samples.estimate(3, 4), "seed": 0}
    assert "F1" in sections.diversity_table([row]).columns
    assert sections.rates_table([row]).rows[0][1].text == "–"


def test_variant_classes_appear_only_where_one_occurs(samples):
    plain = samples.result("drugs", "random", 0)
    assert sections.variants_table([plain]) is None
    classes = plain["asr_by_variant"] | {"synonym": samples.estimate(2, 51)}
    table = sections.variants_table([plain | {"asr_by_variant": classes}])
    assert table is not None
    assert [cell.text for cell in table.rows[0][1:]] == [".000", ".000", ".000", ".039", ".333"]


def test_slices_and_requirements_have_tables(samples):
    row = samples.result("drugs", "random", 0)
    sliced = sections.slices_table([row | {"by": "type", "value": "T121"}])
    assert sliced.rows[0][1].text == "type = T121"
    required = {
        "metric": "asr", "at_budget": 8, "where": {"group": "drugs"}, "bound": {"max_high": 0.2},
        "estimate": samples.estimate(1, 50), "met": True,
    }  # fmt: skip
    assert sections.requirements_table([required]).rows[0][-1].text == "met"


def test_labels_name_only_what_differs():
    rows = [
        {"attack": attack, "group": group, "victim": "v", "dataset": "d", "seed": 0}
        for attack in "ab"
        for group in "xy"
    ]
    assert short_labels(rows) == ["a · x", "a · y", "b · x", "b · y"]
    assert short_labels(rows[:1]) == ["a"]
    assert short_labels([rows[0], rows[0] | {"seed": 1}]) == ["a · seed 0", "a · seed 1"]
