"""The list of sections."""

from __future__ import annotations

import re
from pathlib import Path

import medstress.report
from medstress.report.contents import SECTIONS

ROOM = Path(medstress.report.__file__).parent


def test_no_section_has_the_identifier_of_a_table_or_of_a_control():
    modules = (path for path in ROOM.rglob("*.py") if path.name != "contents.py")
    sources = "".join(path.read_text("utf-8") for path in modules)
    sources += "".join(path.read_text("utf-8") for path in (ROOM / "templates").glob("*.html"))
    named = set(re.findall(r'(?:name|id)=f?"([\w-]+)"', sources))
    ids = [section.id for section in SECTIONS]
    assert len(named) > 20
    assert len(set(ids)) == len(ids)
    assert not named.intersection(ids)
