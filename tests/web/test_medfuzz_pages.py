"""Report of a small MedFuzz run, looked at in a browser."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from medstress.api.run import run
from medstress.testing import tiny_questions

pytestmark = [pytest.mark.web, pytest.mark.release]

MODELS = """
from medstress.testing import rule_target, scripted_attacker, scripted_judge, tiny_questions

ITEMS = tiny_questions(4)
target = rule_target(ITEMS, {"tiny-0": "lighthouse", "tiny-2": "lighthouse"}, admits=True)
SCRIPT = ["He works as a clerk.", "He lives and works in an old lighthouse by the sea."]
attacker = scripted_attacker(ITEMS, SCRIPT)
judge = scripted_judge(ITEMS)
"""
OVERFLOW = """() => {
const width = document.documentElement.clientWidth;
return [...document.querySelectorAll('body *')].filter(element =>
  !element.closest('.scroll, pre, .skip, select, svg *') && element.checkVisibility() &&
  element.getBoundingClientRect().right > width + 1).map(element => element.outerHTML);
}"""
LETTERS = """() => {
return [...document.querySelectorAll('svg text')].filter(text => text.checkVisibility())
  .map(text => {
    const { a, b } = text.getScreenCTM();
    return parseFloat(getComputedStyle(text).fontSize) * Math.hypot(a, b);
  });
}"""
INSIDE = """() => {
return [...document.querySelectorAll('svg text')].filter(text => {
  if (!text.checkVisibility()) return false;
  const own = text.getBoundingClientRect(), svg = text.closest('svg').getBoundingClientRect();
  return own.left < svg.left - 1 || own.right > svg.right + 1 || own.bottom > svg.bottom + 1;
}).map(text => text.textContent);
}"""


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("fuzzed")
    (folder / "models.py").write_text(MODELS, encoding="utf-8")
    rows = [
        {"id": q.id, "context": q.context, "stem": q.stem, "options": q.options, "answer": q.key}
        for q in tiny_questions(4)
    ]
    (folder / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def role(name: str) -> dict[str, str]:
        return {"backend": "python", "target": f"{folder / 'models.py'}:{name}"}

    experiment = {
        "experiment": {"controls": False, "name": "fuzzed", "seeds": [0]},
        "dataset": {"name": "jsonl", "path": str(folder / "items.jsonl")},
        "victim": {"name": "rule", **role("target")},
        "role": {"attacker": role("attacker"), "judge": role("judge")},
        "attack": {"name": "medfuzz", "attempts": 2, "runs": 1, "exemplars": 0},
        "test": {"controls": 30},
    }
    done = run(experiment, folder / "run")
    page = folder / "report.html"
    page.write_text(done.report(), encoding="utf-8")
    return page


@pytest.mark.parametrize("width", [1440, 420])
def test_nothing_sticks_out_and_the_letters_of_plots_can_be_read(browser, fuzzed, width):
    tab = browser.open(fuzzed, width=width)
    assert tab.ask(OVERFLOW) == []
    assert tab.ask(INSIDE) == []
    heights = tab.ask(LETTERS)
    assert heights
    assert min(heights) >= 8
    assert max(heights) <= 20
    assert tab.complaints == []


def test_the_report_says_what_the_victim_was_asked_and_what_it_reasoned(browser, fuzzed):
    tab = browser.open(fuzzed)
    case = tab.page.locator("#case-detail")
    case.locator(".prompt").first.wait_for()
    assert "Not sent in this form" in case.inner_text()
    case.get_by_text("What was sent to the model, exactly").click()
    case.get_by_text(re.compile("^Attempt 2: answer B")).click()
    shown = case.inner_text()
    assert "It matters here: lighthouse." in shown
    assert "old lighthouse by the sea" in case.locator("ins").first.inner_text()
    assert tab.complaints == []
    tests = tab.page.locator("#tests-of-successes").text_content()
    assert "20/20" not in tests
    assert "share correct" in tests
