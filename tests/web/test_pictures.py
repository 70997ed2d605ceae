"""Pages look as they were approved: both widths, light and dark.

`pytest tests/web/test_pictures.py --approve-pictures` approves what they show now; look at the
difference of tests/web/approved before you commit it.
"""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.web

SIZES = {"wide": (1440, 900), "phone": (390, 844)}


@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_the_first_screen_of_a_report_looks_as_approved(
    browser, pages, looks_as_approved, size, mode
):
    width, height = SIZES[size]
    tab = browser.open(pages["ordinary"], width=width, height=height, mode=mode, pinned=True)
    looks_as_approved(tab, f"report-{size}-{mode}")


def test_a_page_that_is_three_pixels_lower_does_not_look_as_approved(
    browser, pages, looks_as_approved, request
):
    if request.config.getoption("--approve-pictures"):
        pytest.skip("this picture is not to be approved")
    tab = browser.open(pages["ordinary"], width=390, height=844, pinned=True)
    tab.page.add_style_tag(content="body{padding-top:3px}")
    with pytest.raises(pytest.fail.Exception, match="of the pixels of report-phone-light"):
        looks_as_approved(tab, "report-phone-light")
