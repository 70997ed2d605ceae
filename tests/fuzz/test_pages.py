"""Every payload in every text field of every page: no element, attribute or script comes of it."""

from __future__ import annotations

import json
import re
from functools import cache
from html.parser import HTMLParser
from typing import Any

import pytest
from markupsafe import Markup

from medstress.metrics import wilson
from medstress.papers.cases import as_html
from medstress.report import charts, render_report, significance
from medstress.report.cases import embedding
from medstress.report.cases import page as case_page
from medstress.report.labels import FACTORS
from medstress.report.plots.words import MOST_ROWS
from medstress.report.rate_plots import forest
from medstress.review.page import room_page

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


@pytest.fixture
def whole(monkeypatch):
    """Every success is shown. Plots are drawn once, below: hundreds of them would take minutes."""
    monkeypatch.setattr(embedding, "BYTES", 1 << 40)
    monkeypatch.setattr(embedding, "MOST_BYTES", 1 << 40)
    monkeypatch.setattr(case_page, "STATIC", 10_000)

    def drawn(_spec, label):
        return Markup('<svg role="img" aria-label="{}"></svg>').format(label)

    monkeypatch.setattr(charts, "_picture", drawn)
    made = cache(lambda: histogram([1, 2], "p"))
    histogram = significance._histogram
    monkeypatch.setattr(significance, "_histogram", lambda _counts, _title: made())


def check_alike(hostile: str, harmless: str) -> None:
    hostile.encode()
    assert not STEERING.search(hostile)
    found, expected = Page(hostile), Page(harmless)
    assert found.code == expected.code
    for one, other in zip(found.shown(), expected.shown(), strict=True):
        assert one == other


def plain(payloads):
    return [f"harmless {number}" for number in range(len(payloads))]


def test_there_are_at_least_a_hundred_payloads_and_all_differ(payloads):
    assert len(set(payloads)) == len(payloads) >= 100


@pytest.mark.usefixtures("whole")
def test_a_report_holds_nothing_that_a_harmless_one_lacks(template, pages, payloads):
    source = render_report(*pages.report_of(template, payloads))
    check_alike(source, render_report(*pages.report_of(template, plain(payloads))))
    assert source.count("evil.example") > 1_000  # the texts are there, as texts


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
    assert source.count("evil.example") > 100


def test_cases_of_the_figures_hold_nothing_that_harmless_ones_lack(pages, payloads):
    def page(texts):
        return as_html(pages.paper_cases_of(texts), " ".join(texts), texts)

    check_alike(page(payloads), page(plain(payloads)))


@pytest.mark.release
def test_plots_hold_nothing_that_harmless_ones_lack(payloads):
    def plots(texts):
        rows = [{**dict.fromkeys(FACTORS, text), "asr": wilson(1, 2).as_json()} for text in texts]
        groups = (rows[i : i + MOST_ROWS] for i in range(0, len(rows), MOST_ROWS))
        return "".join(plot.svg for group in groups if (plot := forest(group)))

    check_alike(plots(payloads), plots(plain(payloads)))
