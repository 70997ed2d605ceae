"""Tables and figure of passages."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any

import pytest

from medstress.report.charts import SERIES, Plot
from medstress.report.passages import (
    gain_table,
    passage_plots,
    short_gain_table,
)
from medstress.results import text
from medstress.results.names import Names

pytestmark = pytest.mark.release


def share(hits: int, n: int) -> dict[str, Any]:
    return {
        "value": hits / n,
        "n": n,
        "low": max(0.0, hits / n - 0.1),
        "high": min(1.0, hits / n + 0.1),
        "method": "Wilson",
    }


def row(victim: str, attack: str, before: int, after: int) -> dict[str, Any]:
    place = {"dataset": "sample", "group": "drugs", "victim": victim, "attack": attack}
    return {**place, "accuracy": share(before, 10), "accuracy_after": share(after, 10)}


ROWS = [
    row("closed <b>", "near", 4, 1),
    row("closed <b>", "far", 4, 3),
    row("open", "near", 8, 7),
    row("open", "far", 8, 8),
]
GAIN = {
    "dataset": "sample",
    "group": "drugs",
    "open": "open",
    "closed": "closed <b>",
    "passages": "deciding",
    "n": 10,
    "accuracy_open": share(8, 10),
    "accuracy_closed": share(4, 10),
    "gain": {"value": 0.4, "n": 10, "low": 0.1, "high": 0.6, "method": "Tango"},
    "p": 0.02,
}


def test_the_table_in_short_leaves_out_what_all_passages_are_worth() -> None:
    assert gain_table(None) is None
    both = {"gains": [GAIN, {**GAIN, "passages": "all"}]}
    full = gain_table(both)
    assert full is not None
    assert len(full.rows) == 2
    (line,) = text.rows(short_gain_table(both))
    assert line == (
        "drugs",
        "deciding",
        "8/10 = .800 [.700, .900]",
        "4/10 = .400 [.300, .500]",
        ".400 [.100, .600]",
    )


def test_the_figure_has_a_panel_for_each_group_and_escapes_labels() -> None:
    (panel,) = passage_plots({"gains": [GAIN], "accuracies": ROWS})
    assert "closed <b>" not in panel.svg
    assert "closed &lt;b&gt;" in panel.svg
    assert "before .800 and .400; far .800 and .300; near .700 and .100" in panel.svg
    assert [line[0] for line in text.rows(panel.data)] == ["before", "far", "near"]


def test_an_arm_that_is_missing_leaves_a_gap(samples: ModuleType) -> None:
    names = Names(attacks={"far": "far names"})
    (panel,) = passage_plots({"gains": [GAIN], "accuracies": ROWS[:-1]}, names)
    left = {line[0]: line[1] for line in text.rows(panel.data)}
    assert left["far names"] == "–"
    assert left["near"].startswith("7/10")
    marks = {(m["place"], m["victim"]): m["value"] for m in samples.marks(panel)}
    assert ("far names", "open") not in marks
    assert marks["far names", "closed <b>"] == 0.3
    assert marks["before", "open"] == 0.8
    assert "far names" in samples.is_drawn(panel)


def test_the_demo_s_table_fits_a_terminal_of_80_columns() -> None:
    worst = {"value": 0.111, "n": 100, "low": 0.111, "high": 0.999, "method": "Wilson"}
    gains = [
        {
            **{"group": "diseases", "passages": "undecided", "gain": {**worst, "low": -0.999}},
            **{"accuracy_open": worst, "accuracy_closed": worst},
        }
    ]
    table = short_gain_table({"gains": gains})
    lines = [text.headings(table), *text.rows(table)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    assert sum(widths) + 2 * len(widths) <= 80


def test_a_victim_keeps_the_colour_that_it_has_already(samples: ModuleType) -> None:
    looks = {"closed <b>": 0, "open": 1}
    (panel,) = passage_plots({"gains": [GAIN], "accuracies": ROWS}, looks=looks)
    (own,) = passage_plots({"gains": [GAIN], "accuracies": ROWS})
    assert _colours(panel) == {"open": SERIES[1], "closed <b>": SERIES[0]}
    assert _colours(own) == {"open": SERIES[0], "closed <b>": SERIES[1]}


def _colours(panel: Plot) -> dict[str, str]:
    point = json.loads(panel.spec)["layer"][-1]["encoding"]["stroke"]["scale"]
    return dict(zip(point["domain"], point["range"], strict=True))
