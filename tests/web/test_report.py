from __future__ import annotations

import pytest

pytestmark = pytest.mark.web

PAGES = ("ordinary", "hostile", "empty")

OPEN_ALL = "document.querySelectorAll('details').forEach(each => { each.open = true; })"
OVERFLOW = """() => {
const width = document.documentElement.clientWidth;
const wide = [...document.querySelectorAll('body *')].filter(element =>
  !element.closest('.scroll, pre, .skip, select') &&
  element.getBoundingClientRect().right > width + 1);
return [document.documentElement.scrollWidth - width, wide.map(element => element.outerHTML)];
}"""
COLOURS = """() => {
const style = getComputedStyle(document.body);
return [style.backgroundColor, style.color].map(colour => colour.match(/[0-9.]+/g).map(Number));
}"""
FIRST_COLUMN = """() => {
return [...document.querySelectorAll('#rates tbody tr')].map(row => row.cells[1].innerText);
}"""
CONTRAST = """() => {
const light = ([r, g, b]) => [r, g, b].map(c => c / 255)
  .map(c => c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4)
  .reduce((sum, c, i) => sum + c * [.2126, .7152, .0722][i], 0);
const rgb = colour => colour.match(/[0-9.]+/g).map(Number);
const ground = element => {
  for (let e = element; e; e = e.parentElement) {
    const [r, g, b, a] = rgb(getComputedStyle(e).backgroundColor);
    if (a !== 0) return [r, g, b];
  }
};
const texts = [...document.querySelectorAll(
  'p, a, th, td, small, summary, dt, dd, code, label, button, del, ins, text')];
return texts.filter(e => e.checkVisibility()).map(e => {
  const style = getComputedStyle(e);
  const colour = e.tagName === 'text' ? style.fill : style.color;
  const [a, b] = [light(rgb(colour)), light(ground(e))].sort((x, y) => y - x);
  return [(a + .05) / (b + .05), e.tagName + ' ' + e.textContent.slice(0, 40)];
}).filter(([ratio]) => ratio < 4.5);
}"""


@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 768, 1440])
@pytest.mark.parametrize("name", PAGES)
def test_the_page_never_scrolls_sideways_and_asks_nobody(browser, pages, name, width, mode):
    tab = browser.open(pages[name], width=width, mode=mode)
    assert tab.requests == [pages[name].as_uri()]
    assert tab.ask(OVERFLOW) == [0, []]
    tab.ask(OPEN_ALL)
    assert tab.ask(OVERFLOW) == [0, []]
    assert tab.complaints == []


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_text_stands_out_from_its_ground_in_both_modes(browser, pages, mode):
    tab = browser.open(pages["ordinary"], mode=mode)
    ground, ink = tab.ask(COLOURS)
    assert (sum(ground) > sum(ink)) == (mode == "light")
    tab.ask(OPEN_ALL)
    assert tab.ask(CONTRAST) == []


def test_hostile_text_runs_nothing(browser, pages):
    tab = browser.open(pages["hostile"])
    assert tab.ask("document.querySelectorAll('script, img').length") == 1
    found = "[...document.querySelectorAll('*')].flatMap(e => e.getAttributeNames())"
    assert not [name for name in tab.ask(found) if name.startswith("on")]
    assert tab.complaints == []


def test_columns_sort_by_number_and_text(browser, pages):
    tab = browser.open(pages["ordinary"])
    before = tab.ask(FIRST_COLUMN)
    head = tab.page.locator("#rates thead button").nth(1)
    head.click()
    rising = tab.ask(FIRST_COLUMN)
    assert rising == sorted(before)
    assert rising != before
    head.click()
    assert tab.ask(FIRST_COLUMN) == rising[::-1]
    assert tab.page.locator("#rates th[aria-sort]").get_attribute("aria-sort") == "descending"


def test_successes_are_filtered_by_attack_group_and_text(browser, pages):
    tab = browser.open(pages["ordinary"])
    assert tab.count(".example") == 24
    tab.page.select_option("#filter-attack", "random")
    assert tab.count(".example") == 8
    tab.page.select_option("#filter-group", "drugs")
    assert tab.count(".example") == 4
    tab.page.fill("#filter-text", "RASBURICASE")
    assert 0 < tab.count(".example") < 4
    tab.page.fill("#filter-text", "no such words")
    assert tab.count(".example") == 0
    assert tab.page.locator("#filter-count").inner_text() == "0 of 24 shown"


def test_the_prompt_is_shown_before_and_after(browser, pages):
    tab = browser.open(pages["ordinary"])
    prompt = tab.page.locator(".example[open] .prompt").first
    tab.page.check("#view-before")
    assert "D: Epiglottitis\n" in prompt.inner_text()
    tab.page.check("#view-after")
    assert "Epiglottitis" not in prompt.inner_text()


def test_without_scripts_the_page_is_complete(browser, pages):
    tab = browser.open(pages["ordinary"], scripts=False)
    assert tab.count(".example") == 24
    assert tab.count("#filter") == 0
    assert tab.count("thead button") == 0
    assert tab.page.locator("pre code").first.text_content()


def test_every_control_can_be_reached_and_shows_its_focus(browser, pages):
    tab = browser.open(pages["ordinary"])
    tab.page.locator(".skip").focus()
    assert tab.page.locator(".skip").bounding_box()["y"] >= 0
    rows = "[...document.querySelectorAll('.scroll, pre')].filter(e => e.tabIndex < 0).length"
    assert tab.ask(rows) == 0


def test_the_data_of_a_plot_is_in_its_table(browser, pages):
    tab = browser.open(pages["ordinary"])
    drawn = tab.page.locator("svg").first.text_content()
    cells = tab.page.locator("#forest-data tbody th").all_text_contents()
    assert cells
    assert all(label.strip() in drawn for label in cells)
