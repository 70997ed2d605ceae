"""The cases of a run: listed, searched, linked and read with the keyboard alone."""

from __future__ import annotations

import re

import pytest

pytestmark = [pytest.mark.web, pytest.mark.release]

COUNT = "#case-count"
LINES = "#case-lines .case-line"


def counted(tab):
    return int(tab.page.locator(COUNT).inner_text().split()[0].replace(",", ""))


def chosen(tab):
    return tab.page.locator("#case-lines [aria-current=true]").get_attribute("data-id")


def wait_for_count(tab, found):
    tab.page.wait_for_selector(f"{COUNT}:text-matches('^{found} case')")


@pytest.mark.release
def test_cases_are_filtered_and_searched(browser, reported, flipped):
    tab = browser.open(reported)
    every = counted(tab)
    tab.page.locator("#case-filters").get_by_label("Outcome").select_option("flipped")
    wait_for_count(tab, len(flipped))
    assert len(flipped) < every
    tab.page.locator("#case-filters").get_by_label("Model").select_option("hasty")
    ours = [row for row in flipped if row["victim"] == "hasty"]
    wait_for_count(tab, len(ours))
    word = ours[0]["replacement"]
    tab.page.fill("#case-search", word.upper())
    wait_for_count(tab, sum(word.lower() in str(row).lower() for row in ours))
    assert word in tab.page.locator(LINES).first.inner_text()
    tab.page.fill("#case-search", "no such words")
    wait_for_count(tab, 0)
    tab.page.get_by_role("button", name="Clear").click()
    wait_for_count(tab, every)


def test_cases_are_sorted_both_ways(browser, reported):
    tab = browser.open(reported)
    tab.page.locator("#case-filters").get_by_label("Outcome").select_option("flipped")
    tab.page.select_option("#case-sort", "confidence")
    least = tab.page.locator(LINES).first.inner_text()
    tab.page.get_by_label("descending").check()
    most = tab.page.locator(LINES).first.inner_text()
    confidence = [re.search(r"P\(key\) ([.\d]+)", text)[1] for text in (least, most)]
    assert float(confidence[0]) < float(confidence[1])


def test_the_keyboard_goes_through_the_cases(browser, reported):
    tab = browser.open(reported)
    tab.page.wait_for_selector(LINES)
    ids = tab.page.locator(LINES).evaluate_all("all => all.map(each => each.dataset.id)")
    keys = tab.page.keyboard
    tab.page.wait_for_selector(f"[data-id='{ids[0]}'][aria-current=true]")
    for key, place in (("j", 1), ("j", 2), ("k", 1)):
        keys.press(key)
        tab.page.wait_for_selector(f"[data-id='{ids[place]}'][aria-current=true]")
        assert tab.page.url.endswith(f"#case-{ids[place]}")
    keys.press("Enter")
    assert tab.ask("document.activeElement.id") == "case-detail"
    keys.press("/")
    assert tab.ask("document.activeElement.id") == "case-search"
    keys.type("jk")
    assert tab.page.input_value("#case-search") == "jk"
    assert chosen(tab) in (ids[1], None)


def test_focus_goes_with_the_chosen_case_in_the_list(browser, reported):
    tab = browser.open(reported)
    tab.page.wait_for_selector(LINES)
    ids = tab.page.locator(LINES).evaluate_all("all => all.map(each => each.dataset.id)")
    keys = tab.page.keyboard
    tab.page.wait_for_selector(f"[data-id='{ids[0]}'][aria-current=true]")
    keys.press("j")
    keys.press("Enter")
    keys.press("Escape")
    assert tab.ask("document.activeElement.dataset.id") == ids[1]
    keys.press("j")
    assert tab.ask("document.activeElement.dataset.id") == ids[2]
    keys.press("Enter")
    assert tab.ask("document.activeElement.id") == "case-detail"
    assert chosen(tab) == ids[2]


def test_enter_and_escape_end_a_search(browser, reported, flipped):
    tab = browser.open(reported)
    every = counted(tab)
    keys = tab.page.keyboard
    for words, is_found in ((flipped[0]["replacement"], True), ("no such words", False)):
        keys.press("/")
        keys.type(words)
        keys.press("Enter")
        if is_found:
            first = tab.page.locator(LINES).first
            assert 0 < counted(tab) < every
            assert tab.ask("document.activeElement.dataset.id") == first.get_attribute("data-id")
            assert chosen(tab) == first.get_attribute("data-id")
            keys.press("/")
        else:
            wait_for_count(tab, 0)
        keys.press("Escape")
        wait_for_count(tab, every)
        assert tab.page.input_value("#case-search") == ""
        assert tab.ask("document.activeElement.className") == "case-line"


def test_a_filter_from_a_plot_opens_the_first_of_its_cases(browser, reported):
    tab = browser.open(reported)
    every = counted(tab)
    attack = tab.ask(
        "() => Object.values(JSON.parse(document.getElementById('keys').textContent).attack).at(-1)"
    )
    tab.ask(
        "attack => document.dispatchEvent(new CustomEvent('medstress:filter', {detail: {attack}}))",
        attack,
    )
    tab.page.wait_for_function(
        "n => !document.getElementById('case-count').textContent.startsWith(n + ' ')", arg=every
    )
    first = tab.page.locator(LINES).first.get_attribute("data-id")
    tab.page.wait_for_selector(f"[data-id='{first}'][aria-current=true]")
    assert tab.page.url.endswith(f"#case-{first}")


def test_a_link_opens_its_case_with_what_was_sent(browser, reported, flipped):
    row = flipped[-1]
    identifier = row["trial_id"].rpartition(":")[2][:12]
    tab = browser.open(f"{reported.as_uri()}#case-{identifier}")
    detail = tab.page.locator("#case-detail")
    detail.locator(".prompt").first.wait_for()
    assert row["item_id"] in detail.inner_text()
    sent = detail.locator(".prompt").first
    assert row["replaced"] in "".join(sent.locator("del").all_text_contents())
    assert row["replacement"] in "".join(sent.locator("ins").all_text_contents())
    after = sent.evaluate(
        "box => [...box.childNodes].filter(each => each.nodeName !== 'DEL')"
        ".map(each => each.textContent).join('')"
    )
    assert after == row["prompt_after"]
    assert tab.complaints == []


def test_a_case_that_the_page_lacks_is_said(browser, reported):
    tab = browser.open(f"{reported.as_uri()}#case-nobody")
    said = tab.page.locator("#case-detail .none")
    said.filter(has_text="nobody").wait_for()
    assert "medstress case DIR nobody" in said.inner_text()


def test_a_case_is_copied_as_markdown(browser, reported, flipped):
    row = flipped[0]
    tab = browser.open(f"{reported.as_uri()}#case-{row['trial_id'].rpartition(':')[2][:12]}")
    tab.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    tab.page.get_by_role("button", name=re.compile("Markdown")).click()
    tab.page.get_by_role("button", name="Copied").wait_for()
    text = tab.ask("navigator.clipboard.readText()")
    assert text.startswith("## Case ")
    assert row["prompt_after"] in text
