"""The summary as a table for people."""

from __future__ import annotations

from collections.abc import Callable

from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.metrics import RowKey, summarise
from medstress.report.sections import by_seed_and_pooled, summary_table
from medstress.results import text

Make = Callable[..., TrialRow]
Ledgers = Callable[[list[TrialRow]], dict[RowKey, dict[str, int]]]


def cells(trials: list[TrialRow], ledgers: Ledgers) -> list[dict[str, str]]:
    summary = summarise(trials, {}, ledgers(trials), {}, {"random": 4, "nearest": 4})
    table = summary_table(by_seed_and_pooled(summary))
    return [dict(zip(text.headings(table), row, strict=True)) for row in text.rows(table)]


def test_every_share_shows_what_it_was_counted_from(trial: Make, ledgers: Ledgers) -> None:
    trials = [
        trial(item_id=str(i), n_asked=2, n_paid=1, n_cached=1, verdict=verdict, at=at)
        for i, (verdict, at) in enumerate(
            [(Verdict.FLIPPED, None)] * 37
            + [(Verdict.HELD, None)] * 44
            + [(Verdict.FAILED, "attack")]
            + [(Verdict.FAILED, "baseline")] * 2
            + [(Verdict.ALREADY_WRONG, None)] * 16
            + [(Verdict.UNREADABLE, None)] * 2
            + [(Verdict.NOT_ATTACKABLE, None)] * 3
        )
    ]
    trials.append(trial(item_id="last", verdict=Verdict.ALREADY_WRONG, n_unreadable=1))
    (row,) = cells(trials, ledgers)
    assert row == {
        "Data set": "sample",
        "Group": "drugs",
        "Victim": "mock",
        "Attack": "random",
        "Seed": "0",
        "Accuracy before": "82/101 = .812 [.725, .876]",
        "Chance": "1.000",
        "Accuracy after": "45/101 = .446 [.352, .543]",
        "ASR": "37/82 = .451 [.348, .559]",
        "Queries asked/paid/cached/failed": "210/105/105/0",
        "To success, median": "1",
        "Diversity, plain": ".000 [.000, .179]",
        "Not attackable": "3",
        "Already wrong": "17",
        "Unreadable": "2; +1 answers",
        "Failed": "3",
    }


def test_a_row_without_eligible_items_shows_zero_of_zero(trial: Make, ledgers: Ledgers) -> None:
    (row,) = cells([trial(verdict=Verdict.NOT_ATTACKABLE, seed=None)], ledgers)
    shown = [
        row[name]
        for name in ("Accuracy before", "Chance", "ASR", "To success, median", "Diversity, plain")
    ]
    assert shown == ["0/0", "–", "0/0", "–", "–"]
    assert row["Seed"] == "–"


def test_pooled_rows_follow_where_they_pool_two_seeds_or_more(
    trial: Make, ledgers: Ledgers
) -> None:
    trials = [trial(), trial(seed=1), trial(attack="nearest", seed=None)]
    rows = cells(trials, ledgers)
    assert [(row["Attack"], row["Seed"]) for row in rows] == [
        ("nearest", "–"),
        ("random", "0"),
        ("random", "1"),
        ("random", "0, 1"),
    ]
