"""Every payload in every text field of every page: no element, attribute or script comes of it."""

import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from medstress.analyses.summary import results_of
from medstress.report import page as page_module
from medstress.report.charts import Colours, Drawn, draw
from medstress.report.formats import clean
from medstress.report.html import as_script, html_table
from medstress.report.review.pages import room_page

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

    def shown(self):
        """Without what depends on how long a text is: the words in which two prompts differ, the
        lines of a label, the tooltip of a name that was shortened, panels that stand narrow.
        """
        return [
            (
                tag,
                tuple(name for name in names if name != "title"),
                tuple(value and value.removesuffix(" narrow") for value in values),
            )
            for tag, names, values in self.elements
            if tag not in ("del", "ins", "tspan")
        ]


def check_alike(hostile: str, harmless: str) -> None:
    hostile.encode()
    assert not STEERING.search(hostile)
    found, expected = Page(hostile), Page(harmless)
    assert found.code == expected.code
    for one, other in zip(found.shown(), expected.shown(), strict=True):
        assert one == other


def kinds(page):
    return {(tag, names) for tag, names, _ in page.shown()}


def check_kinds(hostile: str, harmless: str) -> None:
    """Like `check_alike` where longer texts have other pictures and rows: no other elements."""
    hostile.encode()
    assert not STEERING.search(hostile)
    found, expected = Page(hostile), Page(harmless)
    assert found.code == expected.code
    assert kinds(found) <= kinds(expected)


def plain(payloads):
    return [f"harmless {number}" for number in range(len(payloads))]


def test_there_are_at_least_a_hundred_payloads_and_all_differ(payloads):
    assert len(set(payloads)) == len(payloads) >= 100


def test_a_table_holds_nothing_that_a_harmless_one_lacks(pages, payloads):
    def table(texts):
        # Forty texts fill forty columns; so many rows of all would be a page of megabytes.
        parts = [texts[i : i + 40] for i in range(0, len(texts), 40)]
        return "".join(html_table(pages.table_of(part)) for part in parts)

    source = table(payloads)
    check_alike(source, table(plain(payloads)))
    assert source.count("evil.example") > 400  # the texts are there, as texts


def test_tables_of_a_run_hold_nothing_that_harmless_ones_lack(pages, payloads):
    def tables(texts):
        results = results_of(pages.run_of(texts), page=True)
        return "".join(html_table(table) for _, result in results for table in result.tables())

    source = tables(payloads)
    check_alike(source, tables(plain(payloads)))
    assert source.count("evil.example") > 200


def test_a_review_room_holds_nothing_that_a_harmless_one_lacks(payloads):
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

    source = room(payloads)
    assert not STEERING.search(source)
    found, expected = Page(source), Page(room(plain(payloads)))
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
def test_a_page_holds_nothing_that_a_harmless_one_lacks(pages, payloads):
    def page(texts):
        data = as_script({clean(text): [clean(text)] for text in texts})
        cases = page_module.Browser(data=data, n_held=1, n_cases=1)
        return page_module.page([pages.run_of(texts)], cases)

    source = page(payloads)
    check_kinds(source, page(plain(payloads)))
    assert source.count("evil.example") > 400


@pytest.mark.parametrize("kind", ["bars", "lines", "dots", "heat", "words"])
def test_pictures_hold_nothing_that_harmless_ones_lack(pages, payloads, kind):
    def picture(texts):
        chart = pages.chart_of(kind, texts)
        return "".join(panel.body for panel in draw(chart, Colours(texts)).panels)

    # As many as fit in one picture; letters that do not fit are left out of it.
    for i in range(0, len(payloads), 8):
        some = [text for text in payloads[i : i + 8] if text != "constructor"]
        check_kinds(picture(some), picture(plain(some)))
