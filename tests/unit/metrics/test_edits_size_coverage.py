"""Success by edit, by size of the victim, by distance; what was tried; prompt similarity."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from json import dumps
from typing import Any

import numpy as np
import pytest

from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.metrics.coverage import BINS, Swept, Tried, coverage_rows, sweep_rows
from medstress.metrics.curves.size import r_cap, r_cap_rows, size_rows
from medstress.metrics.edits import FirstQuery, distance_rows, word_rows
from medstress.metrics.similarity import prompt_similarity

Make = Callable[..., TrialRow]
PLACE = ("sample", "drugs", "mock")


def first(item: str, success: bool, **given: int) -> FirstQuery:
    sizes = {"words_replaced": 1, "words_inserted": 1, "edit_characters": 7, "edit_tokens": 1}
    return FirstQuery(
        place=PLACE, attack="random", item_id=item, success=success, **(sizes | given)
    )


def test_success_is_split_by_words_replaced_and_inserted() -> None:
    queries = [first(f"q{i}", i < 2, words_inserted=2) for i in range(4)]
    queries += [first(f"p{i}", False, words_replaced=9, words_inserted=8) for i in range(3)]
    short, long = word_rows(queries)
    assert (short["words_replaced"], short["words_inserted"]) == (1, 2)
    assert (short["asr_at_1"]["value"], short["n_items"]) == (0.5, 4)
    assert (long["words_replaced"], long["words_inserted"], long["asr_at_1"]["value"]) == (6, 6, 0)


def test_success_is_split_by_classes_of_edit_distance_that_hold_every_distance() -> None:
    queries = [first(f"q{d}", d > 20, edit_characters=d, edit_tokens=d % 9) for d in range(40)]
    rows = distance_rows(queries)
    characters = [row for row in rows if row["unit"] == "characters"]
    assert [(row["from"], row["to"]) for row in characters] == [
        (0, 4),
        (5, 9),
        (10, 14),
        (15, 19),
        (20, 29),
        (30, None),
    ]
    assert [row["n_items"] for row in characters] == [5, 5, 5, 5, 10, 10]
    assert [row["asr_at_1"]["value"] for row in characters] == [0, 0, 0, 0, 0.9, 1]
    tokens = [row for row in rows if row["unit"] == "tokens"]
    assert (tokens[-1]["from"], tokens[-1]["to"]) == (6, None)
    assert sum(row["n_items"] for row in tokens) == 40


def test_the_relative_change_in_accuracy_is_that_of_the_papers_check(trial: Make) -> None:
    """(0.318 - 0.285) / 0.318 = 10.4 % (Xian et al., v1)."""
    rows = [trial(item_id=str(i), verdict=Verdict.FLIPPED) for i in range(33)]
    rows += [trial(item_id=str(i)) for i in range(33, 318)]
    rows += [trial(item_id=str(i), verdict=Verdict.ALREADY_WRONG) for i in range(318, 1000)]
    found = r_cap(rows)
    assert found.value == pytest.approx((0.318 - 0.285) / 0.318)
    assert found.low < found.value < found.high
    assert r_cap_rows(rows)[0]["r_cap"] == found.as_json()


def test_a_relative_change_of_everything_still_has_a_width(trial: Make) -> None:
    found = r_cap([trial(item_id=str(i), verdict=Verdict.FLIPPED) for i in range(5)])
    assert found.value == 1
    assert found.low < 1


def estimate(value: float | None) -> dict[str, Any]:
    return {"value": value, "n": 10, "low": value, "high": value, "method": "m"}


def test_success_against_size_recovers_a_planted_slope_and_keeps_groups_apart() -> None:
    """ASR = 0.9 - 0.1 log10(parameters)."""
    sizes = {"a": 1e6, "b": 1e7, "c": 1e8, "d": 1e9, "e": None}
    victims = {
        name: {
            "parameters": n,
            "family": "F",
            "group": "specialist" if name == "d" else "generalist",
        }
        for name, n in sizes.items()
    }
    pooled = [
        {
            "dataset": "d",
            "group": "drugs",
            "victim": name,
            "attack": "random",
            "asr": estimate(None if n is None else 0.9 - 0.1 * i),
            "accuracy": estimate(0.5),
            "accuracy_after": estimate(0.4),
        }
        for i, (name, n) in enumerate(sizes.items())
    ]
    (row,) = size_rows(reversed(pooled), victims)
    assert [point["victim"] for point in row["points"]] == ["a", "b", "c", "d"]
    assert row["trend"]["all"]["value"] == pytest.approx(-0.1)
    assert row["trend"]["generalist"]["n"] == 3
    assert row["trend"]["specialist"]["value"] is None


@pytest.mark.parametrize("step", [0.0, 0.1])
def test_victims_on_one_line_have_a_trend_without_an_interval(step: float) -> None:
    """ASR equal across three sizes made scipy's error nan, and `summary --json` crash."""
    victims = {name: {"parameters": 10.0**i, "group": "generalist"} for i, name in enumerate("abc")}
    pooled = [
        {
            **{"dataset": "d", "group": "drugs", "victim": name, "attack": "random"},
            **{"asr": estimate(0.4 + step * i), "accuracy": estimate(0.5)},
            "accuracy_after": estimate(0.4),
        }
        for i, name in enumerate("abc")
    ]
    (row,) = size_rows(pooled, victims)
    for group in ("all", "generalist"):
        found = row["trend"][group]
        assert found["value"] == pytest.approx(step)
        assert (found["low"], found["high"]) == (None, None)
        assert found["method"].endswith("no interval, as the victims lie on one line")
    assert dumps(row, allow_nan=False)


def tried(
    item: str, names: Iterable[str], n_allowed: int = 10, attack: str = "random", start: int = 0
) -> Tried:
    return Tried(
        place=PLACE,
        attack=attack,
        item_id=item,
        span=("B", start, start + 5),
        names=frozenset(names),
        n_allowed=n_allowed,
        exact=True,
    )


def test_coverage_counts_distinct_names_by_item_and_over_all_attacks() -> None:
    rows = coverage_rows(
        [tried("x", "abcd"), tried("y", "ab"), tried("x", "cdefghij", attack="nearest")],
        {"drugs": 20},
    )
    by_attack = {row["attack"]: row for row in rows}
    assert by_attack["random"]["share_of_set"]["value"] == pytest.approx(0.3)
    assert by_attack["random"]["share_of_vocabulary"] == 0.2
    assert by_attack[None]["share_of_set"]["value"] == pytest.approx((1.0 + 0.2) / 2)
    assert by_attack[None]["n_distinct"] == 10
    assert by_attack["nearest"]["share_of_set"]["value"] == 0.8
    assert "3 of 10 allowed names tried an item (30.00%)" in by_attack["random"]["statement"]


def test_a_set_that_was_tried_whole_is_said_to_be() -> None:
    (row, _) = coverage_rows([tried("x", "abcde", 5)], {"drugs": 20})
    assert row["statement"] == "every allowed name was tried on every item"
    assert row["share_of_set"]["low"] < 1


def test_names_count_in_every_span_against_that_spans_own_allowance() -> None:
    """5 spans of 40 names each, 36 tried in each: 180 of 200, not "every allowed name"."""
    names = [f"name {i}" for i in range(36)]
    spans = [tried("x", names, 40, start=10 * i) for i in range(5)]
    (row, together) = coverage_rows(spans, {"drugs": 41})
    assert (row["n_tried"], row["share_of_set"]["value"]) == (180, pytest.approx(0.9))
    assert row["statement"] == (
        "180 of 200 allowed names tried an item, all its spans together (90.00%); what was not "
        "tried may succeed"
    )
    assert together["statement"] == row["statement"]


def test_coverage_does_not_depend_on_the_order_in_which_trials_were_stored() -> None:
    rng = np.random.default_rng(5)
    found = [
        tried(f"q{i}", [f"n{j}" for j in range(int(rng.integers(1, 11)))], 10 + i % 3)
        for i in range(40)
    ]
    shuffled = [found[i] for i in rng.permutation(40)]
    assert coverage_rows(shuffled, {"drugs": 20}) == coverage_rows(found, {"drugs": 20})
    swept = [
        Swept(place=PLACE, attack="all", item_id=f"q{i}", wrong=(True, False) * (10 + i),
              distances=tuple(rng.random(BINS + 1)))
        for i in range(40)
    ]  # fmt: skip
    assert sweep_rows(swept[::-1]) == sweep_rows(swept)


def test_a_sweep_gives_success_by_classes_of_equally_many_names() -> None:
    wrong = tuple(i < 10 for i in range(100))
    distances = tuple(float(i) for i in range(BINS + 1))
    found = [
        Swept(place=PLACE, attack="all", item_id=i, wrong=wrong, distances=distances) for i in "xy"
    ]
    (row,) = sweep_rows(found)
    assert (row["n_items"], row["n_asked"], row["n_wrong"]) == (2, 200, 20)
    assert [c["success"]["value"] for c in row["classes"]] == [1, 1, *[0] * 18]
    assert row["classes"][3]["distance"] == [3.0, 4.0]
    assert (row["classes"][0]["from"], row["classes"][-1]["to"]) == (0, 1)


def test_prompt_similarity_is_the_mean_over_successes_resampled_by_item(trial: Make) -> None:
    rows = [
        trial(item_id=f"q{i}", verdict=Verdict.FLIPPED, prompt_similarity=0.9 + i / 100)
        for i in range(5)
    ]
    found = prompt_similarity([*rows, trial(item_id="held")])
    assert found.value == pytest.approx(0.92)
    assert found.n == 5
    assert 0.9 <= found.low < 0.92 < found.high <= 0.94
    partly = prompt_similarity([*rows, trial(item_id="z", verdict=Verdict.FLIPPED)])
    assert "1 not embedded" in partly.method
