"""What 0.2 gave is what is given now."""

from pathlib import Path

import pytest

import goldens
import medstress as ms
from medstress.experiment.dry_run import dry_run
from medstress.experiment.prepare import opened_victims, prepare


@pytest.mark.parametrize("name", goldens.GOLDENS)
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


@pytest.mark.parametrize(
    ("old", "new", "paths"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 2}, ["x/a"]),
        ({"a": 1}, {"a": 1.0}, []),
        ({"a": 1}, {"a": True}, ["x/a"]),
        ({"a": None}, {}, []),
        ({}, {"a": 0}, ["x/a"]),
        ({"a": 1.0}, {"a": 1.0 + 1e-12}, []),
        ({"a": 1.0}, {"a": 1.0 + 1e-6}, ["x/a"]),
        ({"score_after": 0.5}, {"score_after": 0.500001}, []),
        ({"score_after": 0.5}, {"score_after": 0.5001}, ["x/score_after"]),
        ({"answers": [["A", 0.5]]}, {"answers": [["A", 0.6]]}, ["x/answers/0/1"]),
        ([1, 2], [1, 2, 3], ["x"]),
        ([{"victim": "v", "seed": 0, "p": 1}], [{"victim": "v", "seed": 0, "p": 2}], ["x/v,0/p"]),
    ],
)
def test_every_leaf_that_differs_is_named(old, new, paths):
    found = goldens.differences(old, new, "x")
    assert [line.partition(": was ")[0] for line in found] == paths


def test_a_golden_holds_every_kind_of_verdict_and_answer():
    """A guard that holds nothing would be passed by everything."""
    import json

    rows = [
        row
        for name in goldens.GOLDENS
        for row in json.loads((goldens.HERE / f"{name}.json").read_text("utf-8"))["trials"]
    ]
    verdicts = {row["verdict"] for row in rows}
    assert verdicts >= {
        "flipped",
        "held",
        "measured",
        "already_wrong",
        "not_attackable",
        "unreadable",
    }
    assert sum(row["n_unreadable"] for row in rows) > 50
    assert sum(row["n_asked"] - row["n_paid"] for row in rows) > 1000
    assert {len(row["answers"]) for row in rows} > {0, 1, 2, 3, 4, 5, 6, 8}
