"""A whole review in the browser: two raters, by mouse and by keyboard, export and import."""

import json
import shutil

import pytest

from medstress.analyses.run import Run
from medstress.cli.app import medstress_cli
from medstress.experiment.room import make_room
from medstress.report.room_pages import export_room
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


def saved(tab):
    tab.page.locator("#saved", has_text="Saved").wait_for()


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
    again = served.room(folder)
    assert again.split("/")[2] == address.split("/")[2], "what a browser keeps is of one port"
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
