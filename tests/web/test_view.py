"""`medstress view`: the report from a local server, with every case, and of a run in progress."""

from __future__ import annotations

import pytest

from medstress.api.run import run

pytestmark = [pytest.mark.web, pytest.mark.release]

LINES = "#case-lines .case-line"


def counted(tab):
    return int(tab.page.locator("#case-count").inner_text().split()[0].replace(",", ""))


def until_asked(tab):
    """Milliseconds in which the page asks the server for sure; it asks less often under load."""
    seconds = tab.ask("JSON.parse(document.getElementById('case-data').textContent).seconds")
    return 1000 * (2 * seconds + 15)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.release
def test_the_server_pages_through_every_case_and_writes_nothing(browser, example, served):
    before = contents(example.folder)
    address = served("view", example.folder)
    tab = browser.open(address)
    tab.page.wait_for_selector(LINES)
    assert counted(tab) == len(example.rows)
    shown = tab.page.locator(LINES)
    first = shown.first.get_attribute("data-id")
    tab.page.get_by_role("button", name="Later").click()
    tab.page.wait_for_selector(f"{LINES}[data-id='{first}']", state="detached")
    tab.page.locator("#case-filters").get_by_label("Outcome").select_option("flipped")
    n = sum(row["verdict"] == "flipped" for row in example.rows)
    tab.page.wait_for_selector(f"#case-count:text-matches('^{n} case')")
    shown.first.click()
    detail = tab.page.locator("#case-detail")
    detail.locator("del").first.wait_for()
    assert detail.locator("ins").count()
    tab.page.reload()
    detail.locator("del").first.wait_for()
    assert tab.complaints == []
    assert all(url.startswith(address) for url in tab.requests)
    assert tab.faults("color-contrast") == {}
    assert contents(example.folder) == before


@pytest.mark.release
@pytest.mark.kills
def test_a_run_in_progress_is_followed_until_the_server_ends(browser, example, served, tmp_path):
    folder = tmp_path / "run"
    run(example.experiment, folder, limit=30)
    tab = browser.open(served("view", folder))
    tab.page.wait_for_selector(LINES)
    before = counted(tab)
    # Somebody reads a case: the page must not be taken from under their eyes.
    tab.page.locator(LINES).nth(1).click()
    tab.page.locator("#case-detail .prompt").first.wait_for()
    run(example.experiment, folder)
    tab.page.locator("[role=status]", has_text="The run goes on").wait_for(timeout=until_asked(tab))
    tab.page.wait_for_selector(f"#case-count:text-matches('^{len(example.rows)} case')")
    assert before < counted(tab)
    with tab.page.expect_navigation():  # the lines of the old page are there until then
        tab.page.get_by_role("button", name="Show its new numbers").click()
    tab.page.wait_for_selector(LINES)
    assert tab.complaints == []
    served.kill()
    told = tab.page.locator("[role=status]", has_text="start medstress view again")
    told.wait_for(timeout=until_asked(tab))
