"""Every payload in every text field of every page: no element, attribute or script comes of it."""

import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from medstress.report import page as page_module
from medstress.report.charts import Colours, Drawn, draw
from medstress.report.html import as_script
from medstress.report.room_pages import room_page
from medstress.report.text import clean

from .pages import chart_of, run_of
from .payloads import PAYLOADS

pytestmark = pytest.mark.release

STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
ACTIVE = ("href", "src", "srcset", "action", "content", "http-equiv", "class", "type", "name")
"""Attributes whose value matters; each is the same for every text."""


class Page(HTMLParser):
    """Elements with their attributes, in order, and what scripts and styles say."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, tuple[str, ...], tuple[str | None, ...]]] = []
        self.code: list[str] = []
        self.data: list[Any] = []
        """What scripts read, as JSON: it holds the texts, and shows them as text."""
        self._inside = ""
        self.feed(source)
        self.close()

    def handle_starttag(self, tag, attrs):
        values = tuple(value for name, value in attrs if name in ACTIVE)
        self.elements.append((tag, tuple(name for name, _ in attrs), values))
        self._inside = "data" if ("type", "application/json") in attrs else tag

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag):
        self._inside = ""

    def handle_data(self, data):
        if self._inside in ("script", "style"):
            self.code.append(data)
        elif self._inside == "data":
            self.data.append(json.loads(data))


def kinds(page):
    """Elements without what depends on how long a text is: the words in which two prompts differ,
    the lines of a label, the tooltip of a name that was shortened.
    """
    return {
        (tag, tuple(name for name in names if name != "title"))
        for tag, names, _ in page.elements
        if tag not in ("del", "ins", "tspan")
    }


def check_kinds(hostile: str, harmless: str) -> None:
    """Longer texts have other pictures and rows, and no other elements."""
    hostile.encode()
    assert not STEERING.search(hostile)
    found, expected = Page(hostile), Page(harmless)
    assert found.code == expected.code
    assert kinds(found) <= kinds(expected)


def plain(texts):
    return [f"harmless {number}" for number in range(len(texts))]


def test_a_review_room_holds_nothing_that_a_harmless_one_lacks():
    def room(texts):
        cases = [
            {
                "id": f"{number:012x}",
                "texts": [{"name": text, "parts": [{"marked": True, "text": text}]}],
                "options": [text, text],
                "key": "A",
                "notes": [text],
            }
            for number, text in enumerate(texts)
        ]
        public = {"room": "0", "mode": "judge", "seed": 0, "pairs": [], "cases": cases}
        return room_page(public, is_served=False)

    source = room(PAYLOADS)
    assert not STEERING.search(source)
    found, expected = Page(source), Page(room(plain(PAYLOADS)))
    assert found.elements == expected.elements
    assert found.code[-1] == expected.code[-1]
    assert source.count("evil.example") > 50


@pytest.fixture
def undrawn(monkeypatch):
    """Pictures are drawn apart, below: hundreds of them would take minutes."""

    def drawn(chart, colours):
        return Drawn(title=chart.title, legend=(), panels=(), notes=chart.notes)

    monkeypatch.setattr(page_module, "draw", drawn)


@pytest.mark.usefixtures("undrawn")
def test_a_page_holds_nothing_that_a_harmless_one_lacks():
    def page(texts):
        data = as_script({clean(text): [clean(text)] for text in texts})
        cases = page_module.Browser(data=data, n_held=1, n_cases=1)
        return page_module.page([run_of(texts)], cases)

    source = page(PAYLOADS)
    check_kinds(source, page(plain(PAYLOADS)))
    assert source.count("evil.example") > 400


@pytest.mark.parametrize("kind", ["bars", "lines", "dots", "heat", "words"])
def test_pictures_hold_nothing_that_harmless_ones_lack(kind):
    def picture(texts):
        chart = chart_of(kind, texts)
        return "".join(panel.body for panel in draw(chart, Colours(texts)).panels)

    # As many as fit in one picture; letters that do not fit are left out of it.
    for i in range(0, len(PAYLOADS), 8):
        some = [text for text in PAYLOADS[i : i + 8] if text != "constructor"]
        check_kinds(picture(some), picture(plain(some)))
