"""What ASR owes to items, seeds, names and templates, and what to buy next: planted by hand."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.metrics.variance import variance_rows

Make = Callable[..., TrialRow]
Flips = Callable[[int, int], float]


def trials_of(
    trial: Make, flips: Flips, items: Iterable[int], seeds: Iterable[int | None], **more: Any
) -> list[TrialRow]:
    """Trials that flip with the probability of (item, seed)."""
    rng = np.random.default_rng(1)
    seeds = list(seeds)
    return [
        trial(
            item_id=f"q{i}",
            seed=s,
            verdict=Verdict.FLIPPED if rng.random() < flips(i, s or 0) else Verdict.HELD,
            **more,
        )
        for i in items
        for s in seeds
    ]


def test_where_only_items_differ_more_items_are_the_advice(trial: Make) -> None:
    trials = trials_of(trial, lambda i, _: 0.95 if i % 2 else 0.05, range(100), range(6))
    (row,) = variance_rows(trials, {})
    assert row["components"]["items"] > 5 * row["components"]["rest"] / 6
    assert row["components"]["seeds"] < 0.005
    assert row["half_width"]["twice_items"] < row["half_width"]["twice_seeds"]
    assert row["advice"].startswith("Items buy more per query than seeds")
    assert "uncertain" not in row["advice"]
    assert "names" not in row["advice"]
    assert row["levels"] == {"items": 100, "seeds": 6, "names": None, "templates": None}


def test_where_only_seeds_differ_more_seeds_are_the_advice(trial: Make) -> None:
    trials = trials_of(trial, lambda _, s: 0.9 if s % 2 else 0.1, range(100), range(6))
    (row,) = variance_rows(trials, {})
    assert row["components"]["seeds"] > 0.1
    assert row["components"]["items"] < 0.01
    assert row["advice"].startswith("Seeds buy more per query than items")


def test_where_all_is_chance_both_buy_alike_unless_names_are_known(trial: Make) -> None:
    trials = trials_of(trial, lambda *_: 0.5, range(300), range(6))
    (row,) = variance_rows(trials, {})
    assert row["components"]["rest"] == pytest.approx(0.25, abs=0.02)
    assert row["reasons"] == {
        "names": "not every trial put in exactly one name",
        "templates": "one format",
    }


def test_names_are_a_component_where_every_trial_put_in_one(trial: Make) -> None:
    rng = np.random.default_rng(3)
    drawn = rng.integers(0, 20, (150, 6))
    trials = trials_of(trial, lambda i, s: 0.9 if drawn[i, s] < 10 else 0.1, range(150), range(6))
    names = {row.trial_id: f"n{drawn[int(row.item_id[1:]), row.seed or 0]}" for row in trials}
    (row,) = variance_rows(trials, names)
    assert row["components"]["names"] == pytest.approx(0.16, abs=0.03)
    assert row["components"]["items"] < 0.02
    assert "of the variance are the names', more than items and seeds give" in row["advice"]
    (alone,) = variance_rows(trials, {row.trial_id: row.trial_id for row in trials})
    assert alone["reasons"]["names"] == "every trial put in a name of its own"


def test_templates_are_a_component_of_a_model_over_items_eligible_in_all_formats(
    trial: Make,
) -> None:
    models = {"m / qstab": "m", "m / chat": "m"}
    rows: list[TrialRow] = []
    for victim, p in zip(models, (0.9, 0.1), strict=True):
        rows += trials_of(trial, lambda *_, p=p: p, range(80), range(4), victim=victim)
    rows += [trial(item_id="odd", victim="m / chat", seed=s) for s in range(4)]
    found = {row["victim"]: row for row in variance_rows(rows, {}, models)}
    assert list(found) == ["m / chat", "m / qstab", "m"]
    assert found["m"]["n"] == 2 * 80 * 4
    assert found["m"]["components"]["templates"] == pytest.approx(0.32, abs=0.05)
    assert found["m / chat"]["components"]["templates"] is None


def test_a_deterministic_attack_has_one_trial_an_item_and_only_items_to_buy(trial: Make) -> None:
    trials = trials_of(trial, lambda *_: 0.5, range(50), [None], attack="nearest")
    (row,) = variance_rows(trials, {})
    assert set(row["components"].values()) == {None}
    assert row["reasons"]["seeds"] == "the attack is deterministic: it has no seeds"
    assert row["half_width"]["twice_items"] == pytest.approx(row["half_width"]["now"] / 2**0.5)
    assert row["half_width"]["twice_seeds"] is None
    assert "seeds change nothing" in row["advice"]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"items": range(1), "seeds": range(3)}, "one item"),
        ({"items": range(9), "seeds": range(3), "p": 1.0}, "all flips are alike"),
    ],
)
def test_where_nothing_can_be_predicted_it_says_why(
    trial: Make, given: dict[str, Any], why: str
) -> None:
    p = given.pop("p", 0.5)
    (row,) = variance_rows(trials_of(trial, lambda *_: p, **given), {})
    assert row["half_width"] is None
    assert row["advice"] == f"Nothing can be predicted: {why}."


def test_few_seeds_make_the_advice_uncertain_and_controls_and_others_have_no_row(
    trial: Make,
) -> None:
    trials = trials_of(trial, lambda i, _: i % 2, range(40), range(3))
    more = [
        trial(attack="random / no_op", arm="no_op"),
        trial(item_id="wrong", verdict=Verdict.ALREADY_WRONG),
    ]
    (row,) = variance_rows([*trials, *more], {})
    assert row["n"] == 120
    assert row["advice"].endswith("; uncertain, with 40 items and 3 seeds.")
