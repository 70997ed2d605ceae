from __future__ import annotations

import pytest

pytestmark = pytest.mark.web

PAGES = ("ordinary", "hostile", "empty")

OPEN_ALL = "for (const each of document.querySelectorAll('details')) each.open = true;"
OVERFLOW = """
const width = document.documentElement.clientWidth;
const wide = [...document.querySelectorAll('body *')].filter(element =>
  !element.closest('.scroll, pre, .skip, select') &&
  element.getBoundingClientRect().right > width + 1);
return [document.documentElement.scrollWidth - width, wide.map(element => element.outerHTML)];
"""
COLOURS = """
const style = getComputedStyle(document.body);
return [style.backgroundColor, style.color].map(colour => colour.match(/[0-9.]+/g).map(Number));
"""
VISIBLE = """
return [...document.querySelectorAll('.example')].filter(e => e.checkVisibility()).length;
"""
FIRST_COLUMN = """
return [...document.querySelectorAll('#rates tbody tr')].map(row => row.cells[1].innerText);
"""
CONTRAST = """
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
"""


@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 768, 1440])
@pytest.mark.parametrize("name", PAGES)
def test_the_page_never_scrolls_sideways_and_asks_nobody(browser, pages, name, width, mode):
    browser.look(width=width, mode=mode)
    browser.open(pages[name])
    assert browser.requests() == [pages[name].as_uri()]
    assert browser.complaints() == []
    assert browser.ask(OVERFLOW) == [0, []]
    browser.ask(OPEN_ALL)
    assert browser.ask(OVERFLOW) == [0, []]


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_text_stands_out_from_its_ground_in_both_modes(browser, pages, mode):
    browser.look(mode=mode)
    browser.open(pages["ordinary"])
    ground, ink = browser.ask(COLOURS)
    assert (sum(ground) > sum(ink)) == (mode == "light")
    browser.ask(OPEN_ALL)
    assert browser.ask(CONTRAST) == []


def test_hostile_text_runs_nothing(browser, pages):
    browser.look()
    browser.open(pages["hostile"])
    assert browser.ask("return document.querySelectorAll('script, img').length") == 1
    found = "return [...document.querySelectorAll('*')].flatMap(e => e.getAttributeNames())"
    assert not [name for name in browser.ask(found) if name.startswith("on")]
    assert browser.complaints() == []


def test_columns_sort_by_number_and_text(browser, pages):
    browser.look()
    browser.open(pages["ordinary"])
    before = browser.ask(FIRST_COLUMN)
    click = "document.querySelectorAll('#rates thead button')[arguments[0]].click();"
    browser.ask(click, 1)
    rising = browser.ask(FIRST_COLUMN)
    assert rising == sorted(before)
    assert rising != before
    browser.ask(click, 1)
    assert browser.ask(FIRST_COLUMN) == rising[::-1]
    state = "return document.querySelector('#rates th[aria-sort]').getAttribute('aria-sort')"
    assert browser.ask(state) == "descending"


def test_successes_are_filtered_by_attack_group_and_text(browser, pages):
    browser.look()
    browser.open(pages["ordinary"])
    choose = """
    const field = document.getElementById('filter-' + arguments[0]);
    field.value = arguments[1];
    field.dispatchEvent(new Event(field.tagName === 'SELECT' ? 'change' : 'input'));
    """
    assert browser.ask(VISIBLE) == 24
    browser.ask(choose, "attack", "random")
    assert browser.ask(VISIBLE) == 8
    browser.ask(choose, "group", "drugs")
    assert browser.ask(VISIBLE) == 4
    browser.ask(choose, "text", "RASBURICASE")
    assert 0 < browser.ask(VISIBLE) < 4
    browser.ask(choose, "text", "no such words")
    assert browser.ask(VISIBLE) == 0
    said = browser.ask("return document.getElementById('filter-count').textContent")
    assert said == "0 of 24 shown"


def test_the_prompt_is_shown_before_and_after(browser, pages):
    browser.look()
    browser.open(pages["ordinary"])
    shown = """
    document.getElementById(arguments[0]).click();
    return document.querySelector('.example[open] .prompt').innerText;
    """
    before, after = browser.ask(shown, "view-before"), browser.ask(shown, "view-after")
    assert "D: Epiglottitis\n" in before
    assert "Epiglottitis" not in after


def test_without_scripts_the_page_is_complete(browser, pages):
    browser.look(scripts=False)
    browser.open(pages["ordinary"])
    assert browser.ask(VISIBLE) == 24
    assert not browser.ask("return document.getElementById('filter').checkVisibility()")
    assert not browser.ask("return document.querySelectorAll('thead button').length")
    assert browser.ask("return document.querySelector('pre code').textContent")
    browser.look(scripts=True)


def test_every_control_can_be_reached_and_shows_its_focus(browser, pages):
    browser.look()
    browser.open(pages["ordinary"])
    browser.ask("document.querySelector('.skip').focus()")
    top = "return document.querySelector('.skip').getBoundingClientRect().top"
    assert browser.ask(top) >= 0
    rows = """
    return [...document.querySelectorAll('.scroll, pre')].filter(e => e.tabIndex < 0).length;
    """
    assert browser.ask(rows) == 0


def test_the_data_of_a_plot_is_in_its_table(browser, pages):
    browser.look()
    browser.open(pages["ordinary"])
    cells = "return [...document.querySelectorAll('#forest-data tbody th')].map(e => e.textContent)"
    labels = """
    return [...document.querySelectorAll('svg')][0].textContent;
    """
    drawn = browser.ask(labels)
    assert all(label.strip() in drawn for label in browser.ask(cells))
