from __future__ import annotations

from medstress.report import sections
from medstress.report.labels import short_labels

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
    (cells,) = samples.shown(sections.rates_table([row]))
    assert cells["ASR"].startswith("17/51 = .333 [.2")
    assert cells["Accuracy before"].startswith("51/91 = ")
    assert cells["Chance"].endswith("; p < .001")
    left_out = ("Not attackable", "Already wrong", "Unreadable", "Failed")
    assert [cells[name].partition(";")[0] for name in left_out] == ["8", "38", "2", "2"]


def test_answers_that_leave_a_rate_open_are_shown_at_their_worst(samples):
    row = samples.result("drugs", "random", 0, flipped=17)
    low, high = row["asr"]["low"], row["asr"]["high"]
    closed, opened = (
        samples.shown(sections.rates_table([row | {"asr_bounds": bounds}]))[0]["ASR"]
        for bounds in ([low, high], [low, 0.9])
    )
    assert "worst" not in closed
    assert opened.startswith(f"{closed}; at worst [.2")
    assert opened.endswith(".900]")


def test_the_ledger_shows_all_eight_counts(samples):
    table = sections.queries_table([samples.result("drugs", "random", 0)])
    (cells,) = samples.shown(table)
    names = ("Asked", "Paid", "Cached", "Failed", "Ahead", "Baseline", "Other", "Interrupted")
    assert set(names) < set(cells)
    assert [cells[name] for name in names[:2]] == ["1,203", "1,001"]


def test_rows_of_other_tasks_show_what_they_measure(samples):
    row = {"attack": "swap_noise", "victim": "tagger", "dataset": "bc5cdr", "n_trials": 5}
    row |= {"f1": samples.estimate(3, 4), "seed": 0}
    assert samples.shown(sections.diversity_table([row]))[0]["F1"].startswith(".750")
    assert samples.shown(sections.rates_table([row]))[0]["ASR"] == "–"


def test_variant_classes_appear_only_where_one_occurs(samples):
    plain = samples.result("drugs", "random", 0)
    assert sections.variants_table([plain]) is None
    classes = plain["asr_by_variant"] | {"synonym": samples.estimate(2, 51)}
    table = sections.variants_table([plain | {"asr_by_variant": classes}])
    assert table is not None
    found = [cell.value.value for cell in table.rows[0].cells[table.n_labels :]]
    assert [round(value, 3) for value in found] == [0, 0, 0, 0.039, 0.333]


def test_labels_name_only_what_differs():
    rows = [
        {"attack": attack, "group": group, "victim": "v", "dataset": "d", "seed": 0}
        for attack in "ab"
        for group in "xy"
    ]
    assert short_labels(rows) == ["a · x", "a · y", "b · x", "b · y"]
    assert short_labels(rows[:1]) == ["a"]
    assert short_labels([rows[0], rows[0] | {"seed": 1}]) == ["a · seed 0", "a · seed 1"]
