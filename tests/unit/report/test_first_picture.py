"""The picture of the first screen: what is unknown is no zero, and every attack has its measure."""

from __future__ import annotations

import json
from typing import Any

import pytest

from medstress.report.first_picture import first_picture
from medstress.report.overview import run_line
from medstress.report.section import Source

pytestmark = pytest.mark.release

UNKNOWN = {"value": None, "n": 0, "low": None, "high": None, "method": "a search"}


def drawn(samples: Any, *rows: Any) -> list[tuple[str, dict[tuple[str, str], str]]]:
    """Return the title of each panel, and (line, victim) -> the value beside its mark."""
    picture = first_picture(Source(samples.summary(results=[*rows], pooled=[]), [], {}))
    found = []
    for panel in picture.panels:
        spec = panel.plot.spec if isinstance(panel.plot.spec, dict) else json.loads(panel.plot.spec)
        marks = [m for data in spec["datasets"].values() for m in data if "told" in m]
        found.append((panel.title, {(m["line"], str(m["victim"])): m["told"] for m in marks}))
    return found


def unread(samples: Any) -> Any:
    return samples.result(
        "drugs", "near", 0, flipped=0, victim="mute", n_eligible=0, n_already_wrong=0, n_held=0,
        n_unreadable_at_baseline=90, accuracy=samples.estimate(0, 90),
        accuracy_after=samples.estimate(0, 90),
    )  # fmt: skip


def test_where_no_answer_could_be_read_the_picture_says_unknown_and_not_zero(samples):
    ((_, marks),) = drawn(samples, unread(samples), samples.result("drugs", "near", 0))
    assert marks["before any edit", "mute"] == marks["after near", "mute"] == "unknown"
    assert marks["before any edit", "smollm2"] == "56 %"
    wrong = unread(samples) | {"n_already_wrong": 90, "n_unreadable_at_baseline": 0}
    ((_, marks),) = drawn(samples, wrong)
    assert marks["before any edit", "mute"] == "0 %"


def test_a_victim_whose_calls_failed_leaves_the_line_of_guessing(samples):
    broken = samples.result(
        "drugs", "near", 0, victim="broken", chance=None, accuracy=UNKNOWN, accuracy_after=UNKNOWN
    )
    rows = [broken, samples.result("drugs", "near", 0)]
    picture = first_picture(Source(samples.summary(results=rows, pooled=[]), [], {}))
    assert "Dashed: what guessing reaches." in picture.notes


def tagged(samples: Any, attack: str, name: str, **changes: Any) -> Any:
    known = {"f1": samples.estimate(82, 100), "f1_after": samples.estimate(61, 100)}
    spec = json.dumps({"name": name})
    row = samples.result("all", attack, 0, attack_spec=spec, chance=None)
    return row | known | changes


def test_a_search_on_tagged_texts_is_drawn_by_the_entities_that_are_found(samples):
    rows = [
        tagged(samples, "search", "swap_noise", f1_after=UNKNOWN),
        tagged(samples, "noise", "swap_noise"),
        tagged(samples, "outside", "non_entity_noise"),
    ]
    (title, scores), (counted, entities) = drawn(samples, *rows)
    assert (title, counted) == ("F1", "Entities found")
    lines = [line for line, _ in scores]
    assert lines == ["before any edit", "after outside", "after noise"]
    assert entities["after search", "smollm2"] == "37 %"
    assert "unknown" not in {*scores.values(), *entities.values()}


def test_controls_that_the_file_names_are_counted_apart_from_attacks(samples):
    rows = [
        tagged(samples, "search", "swap_noise"),
        tagged(samples, "noise", "swap_noise"),
        tagged(samples, "outside", "non_entity_noise"),
    ]
    assert "2 attacks and 1 control" in run_line(rows, {"complete": True})


def test_items_of_a_run_in_progress_are_those_so_far(samples):
    rows = [samples.result("drugs", "near", 0, n_items=1)]
    assert "1 item so far of sample" in run_line(rows, {"complete": False})
    assert "1 item of sample" in run_line(rows, {"complete": True})
