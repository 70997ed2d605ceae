"""One look at every page in the browser; the other modules here are for before a release."""

from __future__ import annotations

import shutil

import pytest

from medstress.cli.app import medstress_cli
from medstress.report import render_report

pytestmark = pytest.mark.web

OVERFLOW = """() => {
const width = document.documentElement.clientWidth;
const wide = [...document.querySelectorAll('body *')].filter(element =>
  !element.closest('.scroll, pre, .skip, .tip, select, svg *') && element.checkVisibility() &&
  element.getBoundingClientRect().right > width + 1);
return [document.documentElement.scrollWidth - width,
  wide.map(element => element.outerHTML.slice(0, 300))];
}"""
HANDLERS = """[...document.querySelectorAll('*')].flatMap(e => e.getAttributeNames())
  .filter(name => name.startsWith('on'))"""


def drawn(tab):
    """Scroll through the page until every chart has drawn itself; return how many there are."""
    charts = tab.page.locator(".chart")
    for i in range(charts.count()):
        charts.nth(i).scroll_into_view_if_needed()
        charts.nth(i).locator(".live svg").wait_for()
    return charts.count()


def test_a_report_fits_a_phone_and_opens_its_cases(browser, example):
    row = example.flipped[-1]
    case = f"#case-{row['trial_id'].rpartition(':')[2][:12]}"
    tab = browser.open(example.report.as_uri() + case, width=390, height=844)
    sent = tab.page.locator("#case-detail .prompt").first
    sent.wait_for()
    assert row["replaced"] in "".join(sent.locator("del").all_text_contents())
    assert row["replacement"] in "".join(sent.locator("ins").all_text_contents())
    assert drawn(tab) > 0
    assert tab.ask(OVERFLOW) == [0, []]
    # Contrast takes long on so large a page; it is looked at before a release.
    assert tab.faults("color-contrast") == {}
    assert tab.complaints == []
    assert tab.requests == [example.report.as_uri()]


def test_texts_of_a_report_are_text_and_run_nothing(browser, samples, tmp_path):
    page = tmp_path / "report.html"
    page.write_text(render_report(*samples.hostile()), encoding="utf-8")
    tab = browser.open(page)
    drawn(tab)
    assert tab.page.locator("img, iframe, object, embed, form[action], base").count() == 0
    assert tab.ask(HANDLERS) == []
    assert "<script>alert(1)</script>" in tab.page.locator("body").inner_text()
    assert tab.complaints == []
    assert tab.requests == [page.as_uri()]


def test_runs_side_by_side_fit_the_window(browser, example, tmp_path):
    other = shutil.copytree(example.folder, tmp_path / "other")
    page = tmp_path / "report.html"
    assert medstress_cli(["report", str(example.folder), str(other), "--out", str(page)]) == 0
    tab = browser.open(page, width=390)
    assert drawn(tab) > 0
    assert tab.ask(OVERFLOW) == [0, []]
    assert tab.requests == [page.as_uri()]
    assert tab.complaints == []


def test_the_review_room_takes_judgements_and_hides_what_it_must(browser, example, tmp_path):
    folder, page = shutil.copytree(example.folder, tmp_path / "run"), tmp_path / "room.html"
    wish = ["review", str(folder), "--sample", "3", "--controls", "1", "--export", str(page)]
    assert medstress_cli(wish) == 0
    tab = browser.open(page, width=390, height=844)
    tab.page.get_by_label("Your name or initials").fill("Ada")
    tab.page.get_by_role("button", name="Start").click()
    tab.page.locator("#case-title").wait_for()
    source = tab.page.content()
    for row in example.flipped:
        assert row["trial_id"] not in source
        assert row["attack"] not in source
    for key in "yyyn":
        tab.page.keyboard.press(key)
    tab.page.locator("#saved", has_text="Saved").wait_for()
    assert tab.page.locator("[aria-pressed=true]").count() == 4
    assert tab.ask("document.documentElement.scrollWidth - innerWidth") <= 0
    assert tab.faults() == {}
    assert tab.complaints == []
