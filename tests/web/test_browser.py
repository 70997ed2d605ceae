"""The eyes of these tests: what they must not miss."""

import pytest

pytestmark = [pytest.mark.web, pytest.mark.release]

PAGE = """<!DOCTYPE html><html lang="en"><head><title>page</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'sha256-x'">
</head><body><h1>Heading</h1><img src="picture.png">
<script>document.title = "ran";</script></body></html>
"""


def test_complaints_requests_and_faults_of_access_are_seen(browser, tmp_path):
    page = tmp_path / "page.html"
    page.write_text(PAGE, encoding="utf-8")
    tab = browser.open(page)
    assert tab.ask("document.title") == "page"
    assert any("script" in complaint for complaint in tab.complaints)
    assert any("picture.png" in complaint for complaint in tab.complaints)
    assert tab.faults() == {"image-alt": ['<img src="picture.png">']}


def test_what_a_page_asks_for_is_seen(browser, tmp_path):
    page = tmp_path / "page.html"
    page.write_text('<link rel="icon" href="data:,"><img src="picture.png">', encoding="utf-8")
    tab = browser.open(page)
    assert tab.requests[-1] == (tmp_path / "picture.png").as_uri()
    assert tab.complaints
