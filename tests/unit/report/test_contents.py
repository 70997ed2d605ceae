"""The list of sections."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import medstress.report
from medstress.report import first_picture, section
from medstress.report.contents import SECTIONS
from medstress.report.page import render_report

ROOM = Path(medstress.report.__file__).parent


def test_no_section_has_the_identifier_of_a_table_or_of_a_control():
    modules = (path for path in ROOM.rglob("*.py") if path.name != "contents.py")
    sources = "".join(path.read_text("utf-8") for path in modules)
    sources += "".join(path.read_text("utf-8") for path in (ROOM / "templates").glob("*.html"))
    named = set(re.findall(r'(?:name=f?|id=|measured\(\s*)"([\w-]+)"', sources))
    ids = [section.id for section in SECTIONS]
    assert len(named) > 20
    assert len(set(ids)) == len(ids)
    assert not named.intersection(ids)


@pytest.mark.release
def test_many_arms_show_those_that_take_most_and_how_many_there_are(samples, monkeypatch):
    monkeypatch.setattr(section, "MOST_ROWS", 10)
    rows = [samples.result(f"group {i}", "near", 0, flipped=i) for i in range(14)]
    source = render_report(samples.summary(results=rows, pooled=[], tests=[]), [], {})
    assert "The first 10 of 14 rows; medstress summary DIR --json has all." in source
    (rates,) = re.findall(r'<table id="rates".*?</table>', source, flags=re.DOTALL)
    groups = [int(found) for found in re.findall(r"group (\d+)", rates)]
    assert groups == list(range(13, 3, -1))
    more = 14 - first_picture.MOST_PANELS
    assert f"Not drawn: {more} more groups; the tables below have more." in source
