"""A whole review in the browser: two raters, by mouse and by keyboard, export and import."""

import json
import shutil

import pytest

from medstress.analyses.run import Run
from medstress.cli.app import medstress_cli
from medstress.report.review.pages import export_room
from medstress.report.review.room import make_room
from medstress.store.reviews import ReviewStore

pytestmark = [pytest.mark.web, pytest.mark.release]

QUESTIONS = ("key_right", "misleading", "plausible", "harmful")
N_CASES = 7
"""Three of the sample, and two planted of each of two sorts."""
ANSWERS = "all => all.map(one => [one.dataset.judgement, one.dataset.value])"


@pytest.fixture
def folder(example, tmp_path):
    return shutil.copytree(example.folder, tmp_path / "run")


@pytest.fixture
def alone(folder, tmp_path):
    """The room in one file."""
    page = tmp_path / "room.html"
    with ReviewStore(folder) as store:
        export_room(make_room(Run.open(folder), store, sample=3), page)
    return page


def enter(browser, address, rater, **look):
    tab = browser.open(address, **look)
    tab.page.get_by_label("Your name or initials").fill(rater)
    tab.page.get_by_role("button", name="Start").click()
    tab.page.locator("#case-title").wait_for()
    return tab


def texts(tab):
    return tab.page.locator("#texts").inner_text() + tab.page.locator("#options").inner_text()


def judge_by_mouse(tab, say):
    """Judge all cases; `say` returns the answers to a text in the order of `QUESTIONS`."""
    for _ in range(N_CASES):
        for name, word in zip(QUESTIONS, say(texts(tab)), strict=True):
            tab.page.locator(f"[data-judgement={name}][data-value='{word}']").click()
        tab.page.locator("#saved", has_text="Saved").wait_for()
        tab.page.get_by_role("button", name="Next").click()


def judge_by_keyboard(tab, say):
    for _ in range(N_CASES):
        for word in say(texts(tab)):
            tab.page.keyboard.press({"yes": "y", "no": "n", "cannot say": "u"}[word])
        tab.page.locator("#saved", has_text="Saved").wait_for()
        tab.page.keyboard.press("ArrowRight")


def agreeing(_):
    return "yes", "yes", "yes", "no"


def thanked(tab):
    return tab.page.locator("#done-title").inner_text() == "All done, thank you"


def validity(example, folder):
    """Whether each success of the attacks is valid now, in order."""
    lost = {one.id for one in example.lost}
    return [one.pick.validity.valid for one in Run.open(folder).trials if one.id in lost]


def test_two_raters_judge_and_what_they_say_becomes_validity(
    browser, example, folder, served, capsys
):
    address = served.room(folder)
    first = enter(browser, address, "Ada")
    disputed = texts(first)

    def other(text):
        return ("no" if text == disputed else "yes"), "yes", "yes", "no"

    judge_by_mouse(first, agreeing)
    second = enter(browser, address, "Ben", width=390, height=844, mode="dark")
    judge_by_keyboard(second, other)
    assert thanked(first)
    assert thanked(second)
    for tab in (first, second):
        assert tab.complaints == []
        assert all(url.startswith(address) for url in tab.requests)
    judged = [valid for valid in validity(example, folder) if valid is not None]
    # All three of the sample, or two if the disputed case is one of them.
    assert len(judged) in (2, 3)
    assert all(judged)
    capsys.readouterr()
    assert medstress_cli(["summary", str(folder), "--wide"]) == 0
    assert "Krippendorff" in capsys.readouterr().out


@pytest.mark.kills
def test_what_was_said_is_there_after_the_server_was_killed(browser, folder, served):
    tab = enter(browser, served.room(folder), "Ada")
    tab.page.keyboard.press("y")
    tab.page.locator("#saved", has_text="Saved").wait_for()
    before = texts(tab)
    served.kill()
    tab = enter(browser, served.room(folder), "ada")
    while texts(tab) != before:
        tab.page.keyboard.press("ArrowRight")
    pressed = tab.page.locator("[aria-pressed=true]")
    assert pressed.get_attribute("data-judgement") == "key_right"
    assert pressed.get_attribute("data-value") == "yes"


def test_one_goes_back_and_forward_and_changes_an_answer(browser, alone):
    tab = enter(browser, alone, "Ada")
    first = texts(tab)
    assert tab.page.get_by_role("button", name="Back").is_disabled()
    for key in ("y", "n", "3", "u", "ArrowRight"):
        tab.page.keyboard.press(key)
    assert texts(tab) != first
    tab.page.keyboard.press("ArrowLeft")
    assert texts(tab) == first
    pressed = tab.page.locator("[aria-pressed=true]")
    assert pressed.evaluate_all(ANSWERS) == [
        ["key_right", "yes"], ["misleading", "no"], ["plausible", "cannot say"],
    ]  # fmt: skip
    tab.page.keyboard.press("1")
    tab.page.keyboard.press("n")
    assert pressed.first.get_attribute("data-value") == "no"


def test_the_file_alone_is_judged_downloaded_and_imported(
    browser, example, folder, alone, tmp_path
):
    tab = enter(browser, alone, "Ada")
    judge_by_keyboard(tab, agreeing)
    assert thanked(tab)
    with tab.page.expect_download() as started:
        tab.page.get_by_role("button", name="Download my answers").click()
    given = tmp_path / "ada.json"
    started.value.save_as(given)
    assert len(json.loads(given.read_text("utf-8"))["verdicts"]) == N_CASES
    assert tab.complaints == []
    assert {url.split(":")[0] for url in tab.requests} <= {"file", "blob", "data"}
    assert medstress_cli(["review", str(folder), "--import", str(given)]) == 0
    assert validity(example, folder).count(True) == 3


def test_people_answer_questions_without_knowing_which_were_changed(browser, folder, tmp_path):
    page = tmp_path / "room.html"
    wish = ("review", str(folder), "--sample", "3", "--mode", "answer", "--export", str(page))
    assert medstress_cli(list(wish)) == 0
    tab = enter(browser, page, "Ada")
    assert tab.page.locator("#case-title").inner_text() == "Question 1"
    assert tab.page.locator(".key").count() == 0
    tab.page.keyboard.press("b")
    tab.page.locator("#saved", has_text="Saved").wait_for()
    pressed = tab.page.locator("[aria-pressed=true]")
    assert pressed.get_attribute("data-answer") == "B"
    assert tab.faults() == {}


@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_the_room_fits_its_window_and_has_no_serious_fault(browser, alone, width, mode):
    tab = enter(browser, alone, "Ada", width=width, height=900, mode=mode)
    assert tab.ask("document.documentElement.scrollWidth - innerWidth") <= 0
    assert tab.faults() == {}
    tab.page.keyboard.press("y")
    assert tab.faults() == {}
    assert tab.complaints == []


def test_models_and_attacks_are_not_on_the_page(browser, example, alone):
    tab = enter(browser, alone, "Ada")
    source = tab.page.content()
    for one in example.lost:
        assert one.id not in source
        assert one.arm.attack.label not in source
    assert "hasty" not in source


def saved(tab):
    tab.page.locator("#saved", has_text="Saved").wait_for()


def test_a_note_is_saved_while_it_is_written(browser, folder, served):
    address = served.room(folder)
    tab = enter(browser, address, "Ada")
    tab.page.get_by_label("Note").press_sequentially("odd")
    saved(tab)
    other = enter(browser, address, "ada")
    assert other.page.get_by_label("Note").input_value() == "odd"


def test_two_tabs_of_one_rater_do_not_erase_each_other(browser, folder, served):
    address = served.room(folder)
    tabs = [enter(browser, address, "Ada") for _ in range(2)]
    assert texts(tabs[0]) == texts(tabs[1])
    for tab, name in zip(tabs, QUESTIONS, strict=False):
        tab.page.locator(f"[data-judgement={name}][data-value='yes']").click()
        saved(tab)
    pressed = tabs[1].page.locator("[aria-pressed=true]")
    assert [name for name, _ in pressed.evaluate_all(ANSWERS)] == list(QUESTIONS[:2])
    third = enter(browser, address, "Ada")
    assert third.page.locator("[aria-pressed=true]").count() == 2


@pytest.mark.kills
def test_what_could_not_be_saved_is_sent_when_the_room_is_open_again(browser, folder, served):
    address = served.room(folder)
    tab = enter(browser, address, "Ada")
    tab.page.keyboard.press("y")
    saved(tab)
    served.kill()
    tab.page.keyboard.press("n")
    problem = tab.page.locator("#problem", has_text="kept in this browser")
    problem.wait_for()
    port = address.split(":")[2].split("/")[0]
    assert f"--port {port}" in problem.inner_text()
    again = served.room(folder, port)
    # The page that is still open asks an address that is gone.
    tab.page.keyboard.press("n")
    problem.wait_for()
    tab.page.goto(again)
    tab.page.get_by_label("Your name or initials").fill("Ada")
    tab.page.get_by_role("button", name="Start").click()
    saved(tab)
    elsewhere = enter(browser, again, "Ada")
    assert elsewhere.page.locator("[aria-pressed=true]").evaluate_all(ANSWERS)[:2] == [
        ["key_right", "yes"], ["misleading", "no"],
    ]  # fmt: skip


def test_the_last_page_lists_what_is_open_and_goes_there(browser, alone):
    tab = enter(browser, alone, "Ada")
    judge_by_keyboard(tab, agreeing)
    tab.page.keyboard.press("ArrowLeft")
    assert tab.page.locator("#case-title").inner_text() == f"Case {N_CASES}"
    other = enter(browser, alone, "Ben")
    for number in range(N_CASES):
        if number not in (1, 3):
            for _ in QUESTIONS:
                other.page.keyboard.press("y")
        other.page.keyboard.press("ArrowRight")
    assert other.page.locator("#open button").all_inner_texts() == ["Case 2", "Case 4"]
    assert other.faults() == {}
    other.page.get_by_role("button", name="Case 4").click()
    assert other.page.locator("#case-title").inner_text() == "Case 4"
    other.page.go_back()
    other.page.get_by_role("button", name="first that is open").click()
    assert other.page.locator("#case-title").inner_text() == "Case 2"


def test_the_browsers_back_goes_to_the_case_before(browser, alone):
    tab = enter(browser, alone, "Ada")
    title = tab.page.locator("#case-title")
    tab.page.keyboard.press("ArrowRight")
    tab.page.keyboard.press("ArrowRight")
    assert title.inner_text() == "Case 3"
    tab.page.go_back()
    assert title.inner_text() == "Case 2"
    tab.page.go_back()
    tab.page.go_back()
    assert tab.page.get_by_label("Your name or initials").is_visible()
    tab.page.go_forward()
    assert title.inner_text() == "Case 1"
    assert tab.complaints == []
