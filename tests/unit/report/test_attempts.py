"""The report's section on attempts: our curve, the published points, gates and roles."""

from __future__ import annotations

import pytest

from medstress.report.attempts import attempt_plots, attempt_tables, published

pytestmark = pytest.mark.release


def estimate(value: float) -> dict[str, object]:
    return {"value": value, "n": 10, "low": value / 2, "high": (1 + value) / 2, "method": "x"}


def row(**more):
    gate = {"n_objected": 3, "n_alone": 2}
    return {
        "dataset": "sample",
        "group": "all",
        "victim": "m",
        "attack": "medfuzz",
        "seed": 0,
        "accuracy_at": [{"k": k, **estimate(value)} for k, value in enumerate((0.8, 0.6, 0.5))],
        "attempts": dict.fromkeys(
            ("made", "unreadable", "rejected", "asked", "unanswered", "judged"), 4
        ),
        "attempts_to_success": {"median": 1.0, "mean": 1.5},
        "asr_gated": estimate(0.3),
        "gates": {"facts": {**gate, "asr_without_at_most": estimate(0.4)}},
        "roles": {"attacker": {"calls": 8, "tokens_in": 900, "tokens_out": 70}},
        **more,
    }


def texts(table):
    """The values of cells, without what is said beside them."""
    return [
        [cell.text(column.format) for column, cell in zip(table.columns, row.cells, strict=True)]
        for row in table.rows
    ]


def test_the_curve_stands_beside_the_published_points_of_the_chart(samples):
    assert published() == {
        "GPT-3.5": (0.641, 0.486, 0.412, 0.368, 0.33),
        "GPT-4": (0.874, 0.774, 0.726, 0.69, 0.663),
    }
    (plot,) = attempt_plots([row()])
    data = plot.data
    for label in ("medfuzz", "GPT-3.5, published (MedQA)", "GPT-4, published (MedQA)"):
        assert label in plot.svg
    assert texts(data)[0] == ["medfuzz", ".800", ".600", ".500", "–", "–"]
    assert texts(data)[1] == ["GPT-3.5, published", ".641", ".486", ".412", ".368", ".330"]
    assert "error about .003" in data.notes[0]
    marks = samples.marks(plot)
    ours = {m["x"]: (m["value"], m["low"]) for m in marks if m.get("attack") == "medfuzz"}
    assert ours == {0: (0.8, 0.4), 1: (0.6, 0.3), 2: (0.5, 0.25)}
    theirs = [m for m in marks if "attack" not in m]
    assert sorted(m["value"] for m in theirs) == sorted(sum(published().values(), ()))
    assert {m["arm"] for m in theirs} == {"published"}
    samples.is_drawn(plot)


def test_other_attacks_have_no_such_section():
    other = {name: value for name, value in row().items() if name != "accuracy_at"}
    assert list(attempt_plots([other])) == []
    assert attempt_tables([other]) == []


def test_gates_that_reject_bound_the_rate_without_them_and_gates_that_mark_know_it():
    outcomes, gates, roles = attempt_tables([row()])
    assert texts(gates) == [["facts", "medfuzz · m", "3", "2", ".300", "at most .400", "–"]]
    assert texts(roles) == [["attacker", "medfuzz · m", "8", "900", "70"]]
    assert texts(outcomes)[0][5:11] == ["4"] * 6
    counts = {"n_objected": 1, "n_alone": 1}
    counts |= {"asr_without": estimate(0.4), "asr_alone": estimate(0.2)}
    (_, marked, _) = attempt_tables([row(gates={"facts": counts})])
    assert texts(marked)[0][-2:] == [".400", ".200"]


def test_a_curve_of_nothing_is_not_drawn():
    empty = [{"k": 0, "value": None, "n": 0, "low": None, "high": None, "method": "x"}]
    assert list(attempt_plots([row(accuracy_at=empty)])) == []
