"""Texts that try to break pages: page, server and review room show them as text."""

import pytest

from medstress.cli.app import medstress_cli

pytestmark = pytest.mark.web

ACTIVE = "img, iframe, object, embed, base, [action], [onload], [onerror], [onmouseover]"
OVERFLOW = "document.documentElement.scrollWidth - innerWidth"


@pytest.mark.parametrize("width", [1280, 400])
def test_the_page_shows_them_as_text(browser, hostile, width):
    tab = browser.open(hostile.page, width=width)
    case = tab.page.locator("#case-detail")
    case.locator(".prompt").first.wait_for()
    shown = []
    for _ in hostile.texts:
        shown.append(case.inner_text())
        tab.page.keyboard.press("j")
        tab.page.wait_for_timeout(50)
    assert all(any(text in one for one in shown) for text in hostile.texts)
    assert hostile.texts[2] in tab.page.locator(".verdict").inner_text()
    assert tab.page.locator(ACTIVE).count() == 0
    assert tab.complaints == []
    assert tab.requests == [hostile.page.as_uri()]
    assert tab.ask(OVERFLOW) <= 0
    assert tab.faults() == {}


def test_the_server_shows_them_as_text(browser, hostile, served):
    address = served("view", hostile.folder)
    tab = browser.open(address)
    tab.page.locator("#case-detail .prompt").first.wait_for()
    tab.page.get_by_role("searchbox").fill("onload=alert(2)> 1")
    tab.page.get_by_text("1 case", exact=True).wait_for()
    tab.page.locator(".case-line").click()
    assert hostile.texts[1] in tab.page.locator("#case-detail").inner_text()
    assert tab.page.locator(ACTIVE).count() == 0
    assert tab.complaints == []
    assert all(one.startswith(address) for one in tab.requests)


@pytest.mark.release
def test_the_review_room_shows_them_as_text(browser, hostile, tmp_path):
    page = tmp_path / "room.html"
    wish = ["review", str(hostile.folder), "--export", str(page)]
    assert medstress_cli(wish) == 0
    tab = browser.open(page, width=390)
    tab.page.get_by_label("Your name or initials").fill(hostile.texts[0])
    tab.page.get_by_role("button", name="Start").click()
    seen = ""
    while tab.page.locator("#judging").is_visible():
        seen += tab.page.locator("#judging").inner_text()
        tab.page.keyboard.press("ArrowRight")
    assert all(text in seen for text in hostile.texts)
    assert tab.page.locator(ACTIVE).count() == 0
    assert tab.complaints == []
    assert tab.ask(OVERFLOW) <= 0
