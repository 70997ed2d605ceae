"""A run whose texts try to break pages: report, view and review room show them as text."""

from __future__ import annotations

import json

import pytest

from medstress.api.run import run
from medstress.cli.app import medstress_cli

pytestmark = [pytest.mark.web, pytest.mark.release]

BAD = (
    "<script>alert(1)</script>",
    "</script><svg onload=alert(2)>",
    "<img src=x onerror=alert(3)>",
    '" onmouseover="alert(4)" x=\'',
    "{{ 7 * 7 }} ]]> --> &lt;b&gt;",
    "x" * 500,
)
VICTIM = """
def answer(prompts):
    return ["B" if "Abrotine" in prompt else "A" for prompt in prompts]
"""
ACTIVE = "img, iframe, object, embed, base, [action], [onload], [onerror], [onmouseover]"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "victim.py").write_text(VICTIM, encoding="utf-8")
    (folder / "names.txt").write_text("Abrotine\n", encoding="utf-8")
    rows = [
        {
            "id": f"{text} {i}",
            "context": text,
            "stem": f"{text}?",
            "options": [f"A {text}", f"B {text}", f"C {text}", f"D {text}"],
            "answer_idx": "A",
            "mentions": [
                {"field": letter, "start": 0, "end": len(text) + 2, "type": "T121"}
                for letter in "ABCD"
            ],
        }
        for i, text in enumerate(BAD)
    ]
    (folder / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run(
        {
            "experiment": {"name": "hostile", "seeds": [0]},
            "dataset": {
                "name": "jsonl", "path": str(folder / "items.jsonl"), "label": BAD[0],
            },
            "entities": {
                "name": BAD[1], "type": "drugs", "vocabulary": str(folder / "names.txt"),
                "embedding": "ngram",
            },
            "victim": {
                "name": BAD[2], "backend": "python", "target": f"{folder / 'victim.py'}:answer",
            },
            "attack": {
                "name": "entity_substitution", "label": BAD[3], "sampler": "random", "budget": 1,
            },
        },
        folder / "run",
    )  # fmt: skip
    return folder


def test_the_report_shows_it_as_text(browser, folder):
    page = folder / "report.html"
    assert medstress_cli(["report", str(folder / "run"), "--out", str(page)]) == 0
    tab = browser.open(page, width=390)
    case = tab.page.locator("#case-detail")
    case.locator(".prompt").first.wait_for()
    keys = tab.page.keyboard
    shown = []
    for _ in BAD:
        shown.append(case.inner_text())
        keys.press("j")
        tab.page.wait_for_timeout(50)
    assert all(any(text in each for each in shown) for text in BAD)
    body = tab.page.locator("body").inner_text()
    assert all(text in body for text in BAD[:4])
    assert tab.page.locator(ACTIVE).count() == 0
    assert tab.complaints == []
    assert tab.requests == [page.as_uri()]
    assert tab.ask("document.documentElement.scrollWidth - innerWidth") <= 0


@pytest.mark.release
def test_the_server_shows_it_as_text(browser, folder, served):
    tab = browser.open(served("view", folder / "run"))
    tab.page.locator("#case-detail .prompt").first.wait_for()
    assert tab.page.locator(ACTIVE).count() == 0
    assert tab.complaints == []


def test_the_review_room_shows_it_as_text(browser, folder):
    page = folder / "room.html"
    wish = ["review", str(folder / "run"), "--export", str(page)]
    assert medstress_cli(wish) == 0
    tab = browser.open(page, width=390)
    tab.page.get_by_label("Your name or initials").fill(BAD[0])
    tab.page.get_by_role("button", name="Start").click()
    seen = ""
    while tab.page.locator("#judging").is_visible():
        seen += tab.page.locator("#judging").inner_text()
        tab.page.keyboard.press("ArrowRight")
    assert all(text in seen for text in BAD)
    assert tab.page.locator(ACTIVE).count() == 0
    assert tab.complaints == []
    assert tab.ask("document.documentElement.scrollWidth - innerWidth") <= 0
