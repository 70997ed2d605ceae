"""The summary as a table for people."""

from __future__ import annotations

from collections.abc import Callable

from medstress.metrics import RowKey, summarise, summary_table
from medstress.outcomes import Verdict
from medstress.rows import TrialRow

Make = Callable[..., TrialRow]
Ledgers = Callable[[list[TrialRow]], dict[RowKey, dict[str, int]]]


def cells(trials: list[TrialRow], ledgers: Ledgers) -> list[dict[str, str]]:
    summary = summarise(trials, {}, ledgers(trials), {}, {"random": 4, "nearest": 4})
    table = summary_table(summary)
    return [dict(zip(table.headers, row, strict=True)) for row in table.rows]


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
        "dataset": "sample",
        "group": "drugs",
        "victim": "mock",
        "attack": "random",
        "seed": "0",
        "accuracy": "82/101 = .812 [.725, .876]",
        "chance": "1.000",
        "accuracy_after": "45/101 = .446 [.352, .543]",
        "ASR": "37/82 = .451 [.348, .559]",
        "queries asked/paid/cached/failed": "210/105/105/0",
        "median queries": "1",
        "diversity": ".000 [.000, .179]",
        "not attackable": "3",
        "already wrong": "17",
        "unreadable": "2 (+1 answers)",
        "failed": "3",
    }


def test_a_row_without_eligible_items_shows_zero_of_zero(trial: Make, ledgers: Ledgers) -> None:
    (row,) = cells([trial(verdict=Verdict.NOT_ATTACKABLE, seed=None)], ledgers)
    shown = [row[name] for name in ("accuracy", "chance", "ASR", "median queries", "diversity")]
    assert shown == ["0/0", "-", "0/0", "-", "-"]
    assert row["seed"] == "-"


def test_pooled_rows_follow_where_they_pool_two_seeds_or_more(
    trial: Make, ledgers: Ledgers
) -> None:
    trials = [trial(), trial(seed=1), trial(attack="nearest", seed=None)]
    rows = cells(trials, ledgers)
    assert [(row["attack"], row["seed"]) for row in rows] == [
        ("nearest", "-"),
        ("random", "0"),
        ("random", "1"),
        ("random", "all of 0, 1"),
    ]
