"""Pages look as they were approved: both widths, light and dark.

`pytest tests/web/test_pictures.py --approve-pictures` approves what they show now; look at the
difference of tests/web/approved before you commit it.
"""

from __future__ import annotations

import pytest

from medstress.review.form import QUESTIONS, WORDS
from medstress.review.page import room_page

pytestmark = [pytest.mark.web, pytest.mark.release]

SIZES = {"wide": (1440, 900), "phone": (390, 844)}
ROOM = {
    "room": "a-room",
    "mode": "judge",
    "seed": 0,
    "words": list(WORDS),
    "questions": dict(QUESTIONS),
    "pairs": [],
    "cases": [
        {
            "id": name,
            "texts": [
                {"name": "Question", "parts": [{"marked": False, "text": text}]},
            ],
            "options": ["Allopurinol", "Colchicine", "Naproxen", "Probenecid"],
            "key": "A",
        }
        for name, text in (
            ("abcd", "A man of 54 years takes a drug for gout and has a rash. Which is it?"),
            ("bcde", "Which of these lowers uric acid and may cause a severe rash?"),
        )
    ],
}


@pytest.fixture(params=["light", "dark"])
def mode(request):
    return request.param


@pytest.fixture(params=SIZES)
def size(request):
    return request.param


def seen(browser, address, size, mode):
    width, height = SIZES[size]
    return browser.open(address, width=width, height=height, mode=mode)


def test_the_first_screen_of_a_report_looks_as_approved(
    browser, pages, looks_as_approved, size, mode
):
    tab = seen(browser, pages["ordinary"], size, mode)
    tab.page.locator("header .chart .live svg").first.wait_for()
    looks_as_approved(tab, f"report-{size}-{mode}")


def test_a_case_looks_as_approved(browser, pages, looks_as_approved, size, mode):
    tab = seen(browser, pages["ordinary"], size, mode)
    tab.page.locator("#case-detail .prompt").first.wait_for()
    tab.page.locator("#case-detail").evaluate("e => e.scrollIntoView({block: 'start'})")
    looks_as_approved(tab, f"case-{size}-{mode}")


def test_the_review_room_looks_as_approved(browser, looks_as_approved, tmp_path, size, mode):
    page = tmp_path / "room.html"
    page.write_text(room_page(ROOM, is_served=False), encoding="utf-8")
    tab = seen(browser, page, size, mode)
    tab.page.get_by_label("Your name or initials").fill("Ada")
    tab.page.get_by_role("button", name="Start").click()
    for key in ("y", "n"):
        tab.page.keyboard.press(key)
    looks_as_approved(tab, f"review-{size}-{mode}")


def test_a_page_that_is_one_line_lower_does_not_look_as_approved(
    browser, pages, looks_as_approved, request, tmp_path
):
    if request.config.getoption("--approve-pictures"):
        pytest.skip("this picture is not to be approved")
    lower = tmp_path / "lower.html"
    page = pages["ordinary"].read_text("utf-8")
    lower.write_text(page.replace("<header", "<br><header", 1), encoding="utf-8")
    tab = seen(browser, lower, "phone", "light")
    tab.page.locator("header .chart .live svg").first.wait_for()
    with pytest.raises(pytest.fail.Exception, match="of the pixels of report-phone-light"):
        looks_as_approved(tab, "report-phone-light")
