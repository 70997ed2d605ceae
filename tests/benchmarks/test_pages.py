"""Pages of results: what a person wrote stays, what was measured is replaced."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

Script = Callable[[str], ModuleType]
DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = (
    "results/araujo.md",
    "results/passages.md",
    "results/statistics.md",
    "results/xian-medmcqa.md",
    "performance.md",
)

PAGE = (
    "# A\n\nBy hand.\n\n<!-- a -->\nold\n<!-- /a -->\n\nBy hand too.\n\n<!-- b -->\n<!-- /b -->\n"
)


def test_only_what_stands_between_marks_is_written(script: Script) -> None:
    fill = script("pages").fill
    told = fill(PAGE, {"a": r"new \1", "b": "<!-- c -->"})
    assert told == PAGE.replace("old", r"new \1").replace(
        "-->\n<!-- /b", "-->\n<!-- c -->\n<!-- /b"
    )
    assert fill(told, {"a": "old", "b": ""}) == PAGE.replace("b -->\n<", "b -->\n\n<")


@pytest.mark.parametrize("parts", [["a"], ["a", "b", "c"]])
def test_marks_and_parts_that_do_not_meet_are_told(script: Script, parts: list[str]) -> None:
    with pytest.raises(ValueError, match=r"got them for a, b$"):
        script("pages").fill(PAGE, dict.fromkeys(parts, ""))


def test_marks_that_stand_twice_are_told(script: Script) -> None:
    with pytest.raises(ValueError, match=r"got them for a, a, b, b$"):
        script("pages").fill(PAGE * 2, {"a": "", "b": ""})


def test_a_column_without_a_value_is_left_out_only_where_that_is_asked(script: Script) -> None:
    table, rows = script("pages").table, [["a", None, 0], ["b", None, 1.5]]
    assert table(["x", "y", "z"], rows, drop_empty=True).splitlines() == [
        "| x | z |",
        "| --- | ---: |",
        "| a | 0 |",
        "| b | 1.5 |",
    ]
    assert "| a | – | 0 |" in table(["x", "y", "z"], rows)


def test_verdicts_of_all_claims_are_counted(script: Script) -> None:
    found = {"1": ["open: 1 training seed"] * 2 + ["contradicted"], "2": ["not tested"]}
    assert script("pages").verdicts(found).splitlines()[2:] == [
        "| 1 | – | – | 1 | open: 1 training seed (2) |",
        "| 2 | – | – | – | not tested |",
    ]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_begins_with_question_answer_figure_and_what_it_does_not_show(name: str) -> None:
    text = (DOCS / name).read_text("utf-8")
    order = ["**Question.**", "**Answer.**", "\n![", "**What this does not show**", "\n## Setup"]
    places = [text.index(each) for each in order]
    assert places == sorted(places)
    assert len(re.findall(r"(?m)^!\[", text[: places[-1]])) == 1


def test_the_page_on_xian_is_that_of_its_committed_files(script: Script) -> None:
    page = script("xian_page")
    assert page.PAGE.read_text("utf-8") == page.render(), "run: python benchmarks/xian_page.py"


def test_the_page_on_passages_is_that_of_its_committed_numbers(script: Script) -> None:
    page = script("passages_page")
    assert page.PAGE.read_text("utf-8") == page.render(), "run: python benchmarks/passages_page.py"
