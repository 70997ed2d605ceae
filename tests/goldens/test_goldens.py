"""What 0.2 gave is what is given now."""

import json
from pathlib import Path

import pytest

import goldens
import medstress as ms
from medstress.experiment.dry_run import dry_run
from medstress.experiment.prepare import opened_victims, prepare


@pytest.mark.parametrize(
    "name",
    # Kills have their own table (tests/replay).
    [
        pytest.param(name, marks=pytest.mark.release if name == "killed" else ())
        for name in goldens.GOLDENS
    ],
)
def test_nothing_moved_and_no_model_was_asked_more_than_the_dry_run_says(name, tmp_path):
    golden, found = goldens.GOLDENS[name], goldens.compared(name, tmp_path)
    assert not found, "\n".join([f"{len(found)} leaves differ", *found[: goldens.SHOWN]])
    if len(golden.steps) > 1:
        return
    n = goldens.n_asked(tmp_path)
    with goldens.written_to(tmp_path, golden):
        prepared = prepare(Path("e.toml"))
        with opened_victims(prepared, lambda _: None):
            costs = dry_run(prepared, Path("another"))
        performance = ms.open(golden.run).summary()["performance"]
    assert goldens.n_asked(tmp_path) == n, "a dry run asks nothing"
    calls = {row["payer"]: row["calls"] for row in performance["spending"]}
    bounds = {cost.model: cost.calls for cost in costs.costs}
    assert calls.keys() <= bounds.keys()
    assert all(0 < n <= bounds[model] for model, n in calls.items())
    assert costs.total.calls == sum(bounds.values())
    assert all(0 < cost.about_queries <= cost.bound for cost in costs.costs)


def test_every_leaf_that_differs_is_named():
    old = {"a": 1, "b": None, "answers": [["A", 0.5]], "rows": [{"victim": "v", "seed": 0, "p": 1}]}
    new = {"a": 1.0, "answers": [["A", 0.500001]], "rows": [{"victim": "v", "seed": 0, "p": True}]}
    named = [line.partition(": was ")[0] for line in goldens.differences(old, new, "x")]
    assert named == ["x/rows/v,0/p"]
    assert len(list(goldens.differences({"p": 1.0}, {"p": 1.0 + 1e-6}, "x"))) == 1
    assert len(list(goldens.differences([1, 2], [1, 2, 3], "x"))) == 1


def test_a_golden_holds_every_kind_of_verdict_and_answer():
    """A guard that holds nothing would be passed by everything."""
    rows = [
        row
        for name in goldens.GOLDENS
        for row in json.loads((goldens.HERE / f"{name}.json").read_text("utf-8"))["trials"]
    ]
    assert {row["verdict"] for row in rows} >= {
        *("flipped", "held", "measured", "already_wrong", "not_attackable", "unreadable")
    }
    assert sum(row["n_unreadable"] for row in rows) > 50
    assert sum(row["n_asked"] - row["n_paid"] for row in rows) > 1000
    assert {len(row["answers"]) for row in rows} > {0, 1, 2, 3, 4, 5, 6, 8}
