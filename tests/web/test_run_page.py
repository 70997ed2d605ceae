"""The page of a run in a browser: hostile texts, keyboard, widths, print, no network."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from medstress.analyses import results, summary
from medstress.analyses.run import Run
from medstress.analyses.shown import Chart, Column, Entry, Point, Remark, Shown, Table
from medstress.api.run import run
from medstress.page.cases import Cases
from medstress.page.page import browser, page
from medstress.stats.estimate import Estimate
from medstress.testing.planted import planted_run, trial

pytestmark = pytest.mark.web

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
OVERFLOW = "document.documentElement.scrollWidth - innerWidth"
KINDS = ("bars", "lines", "dots", "heat", "words")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run whose names and texts try to break its page."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "victim.py").write_text(VICTIM, encoding="utf-8")
    (folder / "names.txt").write_text("Abrotine\n", encoding="utf-8")
    rows = [
        {
            "id": f"{text} {i}",
            "context": text,
            "stem": f"{text}?",
            "options": [f"{letter} {text}" for letter in "ABCD"],
            "answer_idx": "A",
            "mentions": [
                {"field": letter, "start": 0, "end": len(text) + 2, "type": "T121"}
                for letter in "ABCD"
            ],
        }
        for i, text in enumerate(BAD)
    ]
    (folder / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    experiment = {
        "experiment": {"name": "hostile", "seeds": [0]},
        "dataset": {"name": "jsonl", "path": str(folder / "items.jsonl"), "label": BAD[0]},
        "entities": {
            "name": BAD[1],
            "type": "drugs",
            "vocabulary": str(folder / "names.txt"),
            "embedding": "ngram",
        },
        "victim": {
            "name": BAD[2],
            "backend": "python",
            "target": f"{folder / 'victim.py'}:answer",
        },
        "attack": {
            "name": "entity_substitution",
            "label": BAD[3],
            "sampler": "random",
            "budget": 1,
        },
    }
    run(experiment, folder / "run")
    return folder / "run"


@pytest.fixture(scope="module")
def written(folder):
    """Its page."""
    file = folder.parent / "page.html"
    runs = [Run.open(folder)]
    file.write_text(page(runs, browser(runs)), encoding="utf-8")
    return file


@pytest.mark.parametrize("width", [1280, 400])
def test_hostile_texts_are_shown_as_text(browser, written, width):
    tab = browser.open(written, width=width)
    case = tab.page.locator("#case-detail")
    case.locator(".prompt").first.wait_for()
    shown = []
    for _ in BAD:
        shown.append(case.inner_text())
        tab.page.keyboard.press("j")
        tab.page.wait_for_timeout(50)
    assert all(any(text in one for one in shown) for text in BAD)
    assert BAD[2] in tab.page.locator(".verdict").inner_text()
    assert tab.page.locator(ACTIVE).count() == 0
    assert tab.complaints == []
    assert tab.requests == [written.as_uri()]
    assert tab.ask(OVERFLOW) <= 0
    assert tab.faults() == {}


def test_one_reads_cases_by_keyboard_and_link(browser, written, folder):
    cases = Cases(Run.open(folder))
    ids = [cases.line(one).id for one in cases.trials]
    tab = browser.open(f"{written.as_uri()}#case-{ids[1]}")
    case, keys = tab.page.locator("#case-detail"), tab.page.keyboard
    lost = tab.page.locator('[aria-current="true"]')
    case.get_by_text(cases.trials[1].id).wait_for()
    keys.press("j")
    case.get_by_text(cases.trials[2].id).wait_for()
    assert tab.page.url.endswith(f"#case-{ids[2]}")
    keys.press("k")
    case.get_by_text(cases.trials[1].id).wait_for()
    keys.press("Escape")
    assert tab.ask("document.activeElement.dataset.id") == ids[1]
    keys.press("/")
    keys.type("onerror=alert(3)> 2")
    tab.page.get_by_text("1 case", exact=True).wait_for()
    tab.page.get_by_role("button", name="Clear").click()
    tab.page.get_by_role("link", name="The cases behind it").click()
    tab.page.get_by_text(f"{len(BAD)} cases").wait_for()
    assert lost.get_attribute("data-id") == ids[0]


def test_a_printed_page_has_numbers_and_no_controls(browser, written):
    tab = browser.open(written, width=760, medium="print")
    assert tab.count(".panel svg") > 0
    assert tab.count("#case-detail .prompt") == 1
    assert tab.count("nav, .cases form, .case-list") == 0
    assert tab.count("table#results") == 1


def test_a_server_shows_all_cases(browser, folder):
    code = (
        "from pathlib import Path; from medstress.page.view import view; import sys; "
        "view(Path(sys.argv[1]), show=False, announce=lambda text: print(text, flush=True))"
    )
    started = subprocess.Popen(
        [sys.executable, "-c", code, folder], stdout=subprocess.PIPE, text=True
    )
    try:
        assert started.stdout is not None
        address = re.search(r"http://\S+", started.stdout.readline())
        assert address is not None
        tab = browser.open(address[0])
        tab.page.locator("#case-detail .prompt").first.wait_for()
        tab.page.get_by_role("searchbox").fill("onload=alert(2)> 1")
        tab.page.get_by_text("1 case", exact=True).wait_for()
        tab.page.locator(".case-line").click()
        assert BAD[1] in tab.page.locator("#case-detail").inner_text()
        assert tab.page.locator(ACTIVE).count() == 0
        assert tab.complaints == []
        assert all(one.startswith(address[0]) for one in tab.requests)
    finally:
        started.terminate()
        started.wait(timeout=20)
        if started.stdout is not None:
            started.stdout.close()


class Made(Shown):
    """A made-up result with every kind of picture."""

    title = f"Made up {BAD[0]}"

    def charts(self):
        share = Estimate(value=0.4, n=10, hits=4, low=0.2, high=0.7, method="made")
        return [
            Chart(
                name=kind,
                title=f"{kind} {BAD[2]}",
                kind=kind,
                x="x",
                y=BAD[4],
                points=tuple(
                    Point(
                        x=x if kind in ("lines", "words") else f"{BAD[3]} {x} {'wide ' * 9}",
                        y=share if x else -0.3 if kind in ("heat", "words") else 0.1,
                        series=f"{BAD[1]} {series}",
                        panel=f"{BAD[0]} {panel}",
                        tip=BAD[4],
                    )
                    for panel in range(2)
                    for series in range(2)
                    for x in range(3)
                ),
            )
            for kind in KINDS
        ]

    def tables(self):
        row = tuple(Entry(value=text, lines=(text,)) for text in BAD)
        columns = tuple(Column(heading=text, tip=text) for text in BAD)
        return [Table(name="made", caption=BAD[0], columns=columns, rows=(row, row))]

    def remarks(self):
        return [Remark(rule="made", sentence=text, where=(text, "b")) for text in BAD]


class MadeOf:
    """Its analysis."""

    name = "made"

    def compute(self, run):
        return Made()


@pytest.mark.parametrize("width", [1280, 400])
def test_every_kind_of_picture_fits(browser, tmp_path, monkeypatch, width):
    monkeypatch.setattr(summary, "ANALYSES", (results.RESULTS, MadeOf()))
    file = tmp_path / "page.html"
    runs = [
        planted_run([trial(i, flipped_at=1 + i % 3) for i in range(8)]),
        planted_run([trial(i) for i in range(8)], complete=False, n_planned=20),
    ]
    file.write_text(page(runs), encoding="utf-8")
    tab = browser.open(file, width=width)
    assert tab.page.locator(".chart").count() == 2 * (1 + len(KINDS) + 1)
    assert tab.page.get_by_text("Not complete: 8 of 20 trials ended.").count() == 1
    assert tab.page.locator(ACTIVE).count() == 0
    assert tab.complaints == []
    assert tab.ask(OVERFLOW) <= 0
    cut = "[...document.querySelectorAll('.panel svg')].filter(s => s.getBBox().x < -1).length"
    assert tab.ask(cut) == 0
    assert tab.faults() == {}
    assert Path(file).stat().st_size < 600_000
