"""One look at each page in the browser; the other modules here are for before a release."""

import shutil

import pytest

from medstress.cli.app import medstress_cli

pytestmark = pytest.mark.web

OVERFLOW = "document.documentElement.scrollWidth - innerWidth"
CUT = """() => [...document.querySelectorAll('svg text')].filter(text => {
  if (!text.checkVisibility()) return false;
  const own = text.getBoundingClientRect(), svg = text.closest('svg').getBoundingClientRect();
  return own.left < svg.left - 1 || own.right > svg.right + 1 || own.top < svg.top - 1 ||
    own.bottom > svg.bottom + 1;
}).map(text => text.textContent)"""
BOTTOM = "element => element.getBoundingClientRect().bottom"


@pytest.mark.parametrize(("width", "height"), [(1280, 900), (400, 850)])
def test_verdict_and_picture_fit_the_first_screen_and_a_link_opens_its_case(
    browser, example, width, height
):
    one = example.lost[-1]
    tab = browser.open(example.page, width=width, height=height)
    lines = tab.page.locator("header :is(.verdict, .second, .trust)")
    assert lines.count() == 3
    assert lines.last.evaluate(BOTTOM) < height
    assert tab.page.locator("header .panel").first.evaluate(BOTTOM) < height
    assert tab.ask(OVERFLOW) <= 0
    assert tab.ask(CUT) == []
    tab.page.goto(f"{example.page.as_uri()}#case-{one.id.rpartition(':')[2][:12]}")
    sent = tab.page.locator("#case-detail .prompt").first
    sent.wait_for()
    assert one.item.replaced(one.edits[0]) in "".join(sent.locator("del").all_text_contents())
    assert one.edits[0].replacement in "".join(sent.locator("ins").all_text_contents())
    assert tab.complaints == []
    assert set(tab.requests) == {example.page.as_uri()}


def test_two_runs_have_one_page_side_by_side(browser, example, tmp_path):
    other, page = shutil.copytree(example.folder, tmp_path / "other"), tmp_path / "page.html"
    assert medstress_cli(["report", str(example.folder), str(other), "--out", str(page)]) == 0
    tab = browser.open(page, width=1280)
    assert tab.count("header .run") == tab.count("header .verdict") == 2
    left, right = (run.bounding_box()["x"] for run in tab.page.locator("header .run").all())
    assert left < right
    tab.page.set_viewport_size({"width": 400, "height": 850})
    assert tab.ask(OVERFLOW) <= 0
    assert tab.complaints == []
    assert tab.requests == [page.as_uri()]


def test_the_review_room_takes_judgements_and_hides_what_it_must(browser, example, tmp_path):
    folder, page = shutil.copytree(example.folder, tmp_path / "run"), tmp_path / "room.html"
    wish = ["review", str(folder), "--sample", "3", "--export", str(page)]
    assert medstress_cli(wish) == 0
    tab = browser.open(page, width=390, height=844)
    tab.page.get_by_label("Your name or initials").fill("Ada")
    tab.page.get_by_role("button", name="Start").click()
    tab.page.locator("#case-title").wait_for()
    source = tab.page.content()
    for one in example.lost:
        assert one.id not in source
        assert one.arm.attack.label not in source
    for key in "yyyn":
        tab.page.keyboard.press(key)
    tab.page.locator("#saved", has_text="Saved").wait_for()
    assert tab.page.locator("[aria-pressed=true]").count() == 4
    assert tab.ask(OVERFLOW) <= 0
    assert tab.faults() == {}
    assert tab.complaints == []
