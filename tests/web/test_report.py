from __future__ import annotations

import shutil

import pytest

from medstress.cli.app import medstress_cli
from medstress.report import render_report

pytestmark = [pytest.mark.web, pytest.mark.release]

PAGES = ("ordinary", "hostile", "empty")
LOOKS = ((360, "light"), (768, "dark"), (1440, "light"), (1440, "dark"))

OPEN_ALL = "document.querySelectorAll('details').forEach(each => { each.open = true; })"
OVERFLOW = """() => {
const width = document.documentElement.clientWidth;
const wide = [...document.querySelectorAll('body *')].filter(element =>
  !element.closest('.scroll, pre, .skip, .tip, select, svg *') && element.checkVisibility() &&
  element.getBoundingClientRect().right > width + 1);
return [document.documentElement.scrollWidth - width,
  wide.map(element => element.outerHTML.slice(0, 300))];
}"""
COLOURS = """() => {
const style = getComputedStyle(document.body);
return [style.backgroundColor, style.color].map(colour => colour.match(/[0-9.]+/g).map(Number));
}"""
LETTERS = """() => [...document.querySelectorAll('svg text')].filter(text => text.checkVisibility())
  .map(text => {
    const { a, b } = text.getScreenCTM();
    return parseFloat(getComputedStyle(text).fontSize) * Math.hypot(a, b);
  })"""
CUT = """() => [...document.querySelectorAll('svg text')].filter(text => {
  if (!text.checkVisibility()) return false;
  const own = text.getBoundingClientRect(), svg = text.closest('svg').getBoundingClientRect();
  return own.left < svg.left - 1 || own.right > svg.right + 1 || own.top < svg.top - 1 ||
    own.bottom > svg.bottom + 1;
}).map(text => text.textContent)"""
TWICE = """() => {
const ids = [...document.querySelectorAll('[id]')].map(e => e.id);
return ids.filter((id, i) => ids.indexOf(id) !== i);
}"""
CELLS = "rows => rows.map(row => row.cells[%d].innerText)"


def drawn(tab):
    """Scroll through the page until every chart has drawn itself; return how many there are."""
    charts = tab.page.locator(".chart")
    for i in range(charts.count()):
        charts.nth(i).scroll_into_view_if_needed()
        tab.page.locator(".chart").nth(i).locator(".live svg").wait_for()
    return charts.count()


@pytest.mark.parametrize(("width", "mode"), LOOKS)
@pytest.mark.parametrize("name", PAGES)
def test_the_page_never_scrolls_sideways_and_asks_nobody(browser, pages, name, width, mode):
    tab = browser.open(pages[name], width=width, mode=mode)
    assert tab.ask(OVERFLOW) == [0, []]
    tab.ask(OPEN_ALL)
    assert bool(drawn(tab)) == (name != "empty")
    assert tab.ask(OVERFLOW) == [0, []]
    assert tab.requests == [pages[name].as_uri()]
    assert tab.complaints == []


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_axe_finds_nothing_serious_in_either_mode(browser, pages, mode):
    tab = browser.open(pages["ordinary"], mode=mode)
    ground, ink = tab.ask(COLOURS)
    assert (sum(ground) > sum(ink)) == (mode == "light")
    drawn(tab)
    assert tab.faults() == {}


@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing_serious_where_all_is_open(browser, pages, name):
    tab = browser.open(pages[name])
    drawn(tab)
    tab.ask(OPEN_ALL)
    # Contrast takes seconds, and is that of the closed page.
    assert tab.faults("color-contrast") == {}
    assert tab.ask(TWICE) == []


@pytest.mark.parametrize("width", [390, 1440])
def test_no_label_of_a_plot_is_cut_and_its_letters_can_be_read(browser, pages, width):
    tab = browser.open(pages["ordinary"], width=width)
    drawn(tab)
    assert tab.ask(CUT) == []
    heights = tab.ask(LETTERS)
    assert min(heights) >= 8
    assert max(heights) <= 20


def test_hostile_text_is_text_and_runs_nothing(browser, pages, samples):
    tab = browser.open(pages["hostile"])
    drawn(tab)
    assert tab.page.locator("img, iframe, object, embed, form[action], base").count() == 0
    found = "[...document.querySelectorAll('*')].flatMap(e => e.getAttributeNames())"
    assert not [name for name in tab.ask(found) if name.startswith("on")]
    assert "<script>alert(1)</script>" in tab.page.locator("body").inner_text()
    assert tab.complaints == []


def test_columns_sort_by_number_and_text(browser, pages):
    tab = browser.open(pages["ordinary"])
    tab.ask(OPEN_ALL)
    rows = tab.page.locator("#rates tbody tr")
    before = rows.evaluate_all(CELLS % 1)
    head = tab.page.locator("#rates thead button").nth(1)
    head.click()
    rising = rows.evaluate_all(CELLS % 1)
    assert rising == sorted(before)
    head.click()
    assert rows.evaluate_all(CELLS % 1) == rising[::-1]
    assert tab.page.locator("#rates th[aria-sort]").get_attribute("aria-sort") == "descending"


def test_links_of_the_contents_lead_to_their_sections(browser, reported):
    tab = browser.open(reported)
    links = tab.page.locator("nav a")
    for i in range(links.count()):
        links.nth(i).click()
        target = tab.page.locator("h2" + links.nth(i).get_attribute("href"))
        assert target.evaluate("e => Math.abs(e.getBoundingClientRect().top) < innerHeight")
    assert tab.complaints == []


def test_a_mark_tells_its_numbers_and_filters_the_cases(browser, reported, flipped):
    tab = browser.open(reported)
    drawn(tab)
    chart = tab.page.locator("section:has(> #results) .chart").first
    marks = chart.locator(".live svg .role-mark.mark-symbol path")
    # Scrolling hides what is told, and its event comes late.
    marks.first.scroll_into_view_if_needed()
    tab.page.wait_for_timeout(300)
    marks.first.hover()
    tip = tab.page.locator(".tip")
    tip.wait_for()
    assert "interval" in tip.inner_text().lower()
    marks.first.click()
    count = tab.page.locator("#case-count")
    count.filter(has_text=" of ").wait_for()
    assert int(count.inner_text().split()[0]) > 0
    assert tab.complaints == []


def test_without_scripts_the_plots_are_pictures_and_the_page_is_complete(browser, pages):
    tab = browser.open(pages["ordinary"], scripts=False)
    assert tab.count(".live") == 0
    assert tab.count(".chart > svg") == tab.page.locator(".chart").count() > 0
    assert tab.count("thead button") == 0
    assert tab.count("#case-browser") == 0
    assert tab.count(".case-plain") > 0
    assert tab.page.locator("pre code").first.text_content()


def test_on_paper_there_is_dark_ink_and_every_plot(browser, pages):
    tab = browser.open(pages["ordinary"], medium="print", mode="dark")
    ground, ink = tab.ask(COLOURS)
    assert sum(ink[:3]) < 300
    assert len(ground) == 4 or sum(ground) > 600
    assert tab.count(".chart svg") >= tab.page.locator(".chart").count()
    assert tab.page.locator("nav").is_hidden()


def test_every_control_can_be_reached_and_shows_its_focus(browser, pages):
    tab = browser.open(pages["ordinary"])
    tab.page.keyboard.press("Tab")
    assert tab.ask("document.activeElement.className") == "skip"
    assert tab.page.locator(".skip").bounding_box()["y"] >= 0
    rows = "[...document.querySelectorAll('.scroll, pre')].filter(e => e.tabIndex < 0).length"
    assert tab.ask(rows) == 0


@pytest.mark.parametrize(("width", "height"), [(390, 844), (1440, 900)])
def test_the_first_screen_fits_the_window(browser, reported, width, height):
    tab = browser.open(reported, width=width, height=height)
    tab.page.locator("header .chart .live svg").last.wait_for()
    ends = "all => all.map(each => each.getBoundingClientRect().bottom)"
    for shown in (".verdict", ".run", ".print", ".chart"):
        assert max(tab.page.locator(f"header {shown}").evaluate_all(ends)) <= height, shown


def test_a_long_name_of_a_model_wraps(browser, samples, tmp_path):
    name = "averylongname" * 8
    row = samples.result("drugs", "random", 0)
    rows = [row, row | {"victim": "x" * 58}, row | {"victim": name}]
    page = tmp_path / "report.html"
    page.write_text(render_report(samples.summary(results=rows, pooled=[]), [], {}), "utf-8")
    tab = browser.open(page, width=360)
    drawn(tab)
    assert tab.ask(OVERFLOW) == [0, []]


@pytest.mark.parametrize("width", [390, 1440])
def test_runs_side_by_side_fit_the_window(browser, side_by_side, width):
    tab = browser.open(side_by_side, width=width)
    drawn(tab)
    assert tab.ask(OVERFLOW) == [0, []]
    assert tab.faults("color-contrast") == {}
    assert tab.ask(TWICE) == []
    assert tab.requests == [side_by_side.as_uri()]
    assert tab.complaints == []


@pytest.fixture(scope="module")
def side_by_side(example, tmp_path_factory):
    """The example beside itself under another name."""
    folder = tmp_path_factory.mktemp("beside")
    other = shutil.copytree(example.folder, folder / "other")
    page = folder / "report.html"
    wish = ["report", str(example.folder), str(other), "--out", str(page)]
    assert medstress_cli(wish) == 0
    return page
