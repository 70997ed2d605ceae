"""The page of a run in a browser: keyboard, links, print, and every kind of picture."""

from pathlib import Path

import pytest

from medstress.analyses import results, summary
from medstress.analyses.run import Run
from medstress.analyses.shown import Chart, Column, Entry, Point, Remark, Shown, Table
from medstress.report.cases import Cases, json_of, shared
from medstress.report.html import as_script
from medstress.report.page import Browser, page
from medstress.stats.estimate import Estimate
from planted_trials import arm, planted_run, trial

pytestmark = pytest.mark.web

OVERFLOW = "document.documentElement.scrollWidth - innerWidth"
KINDS = ("bars", "lines", "dots", "heat", "words")


def test_one_reads_cases_by_keyboard_and_link(browser, hostile):
    cases = Cases(Run.open(hostile.folder))
    ids = [cases.line(one).id for one in cases.trials]
    tab = browser.open(f"{hostile.page.as_uri()}#case-{ids[1]}")
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
    tab.page.get_by_text(f"{len(hostile.texts)} cases").wait_for()
    assert lost.get_attribute("data-id") == ids[0]


def test_lines_of_an_arm_with_several_seeds_say_theirs(browser, tmp_path):
    run = planted_run([trial(0, arm(seed=seed), flipped_at=1) for seed in (0, 1)])
    lines = [Cases(run).line(one) for one in run.trials]
    data = {**shared([run], lines), "served": False, "cases": list(map(json_of, lines))}
    file = tmp_path / "page.html"
    file.write_text(page([run], Browser(data=as_script(data), n_held=2, n_cases=2)), "utf-8")
    places = browser.open(file).page.locator(".case-second")
    assert [text.split(" · ")[-1] for text in places.all_inner_texts()] == ["seed 0", "seed 1"]


def test_a_printed_page_has_numbers_and_no_controls(browser, hostile):
    tab = browser.open(hostile.page, width=760, medium="print")
    assert tab.count(".panel svg") > 0
    assert tab.count("#case-detail .prompt") == 1
    assert tab.count("nav, .cases form, .case-list") == 0
    assert tab.count("table#results") == 1


class Made(Shown):
    """A made-up result with every kind of picture."""

    def __init__(self, texts):
        self.texts = texts
        self.title = f"Made up {texts[0]}"

    def charts(self):
        share = Estimate(value=0.4, n=10, hits=4, low=0.2, high=0.7, method="made")
        return [
            Chart(
                name=kind,
                title=f"{kind} {self.texts[2]}",
                kind=kind,
                x="x",
                y=self.texts[4],
                points=tuple(
                    Point(
                        x=x if kind in ("lines", "words") else f"{self.texts[3]} {x} {'wide ' * 9}",
                        y=share if x else -0.3 if kind in ("heat", "words") else 0.1,
                        series=f"{self.texts[1]} {series}",
                        panel=f"{self.texts[0]} {panel}",
                        tip=self.texts[4],
                    )
                    for panel in range(2)
                    for series in range(2)
                    for x in range(3)
                ),
            )
            for kind in KINDS
        ]

    def tables(self):
        row = tuple(Entry(value=text, lines=(text,)) for text in self.texts)
        columns = tuple(Column(heading=text, tip=text) for text in self.texts)
        return [Table(name="made", caption=self.texts[0], columns=columns, rows=(row, row))]

    def remarks(self):
        return [Remark(rule="made", sentence=text, where=(text, "b")) for text in self.texts]


class MadeOf:
    """Its analysis."""

    name = "made"

    def __init__(self, texts):
        self.texts = texts

    def compute(self, run):
        return Made(self.texts)


@pytest.mark.parametrize("width", [1280, 400])
def test_every_kind_of_picture_fits(browser, hostile, tmp_path, monkeypatch, width):
    monkeypatch.setattr(summary, "ANALYSES", (results.RESULTS, MadeOf(hostile.texts)))
    file = tmp_path / "page.html"
    runs = [
        planted_run([trial(i, flipped_at=1 + i % 3) for i in range(8)]),
        planted_run([trial(i) for i in range(8)], complete=False, n_planned=20),
    ]
    file.write_text(page(runs), encoding="utf-8")
    tab = browser.open(file, width=width)
    assert tab.page.locator(".chart").count() == 2 * (1 + len(KINDS) + 1)
    assert tab.page.get_by_text("Not complete: 8 of 20 trials ended.").count() == 1
    assert tab.complaints == []
    assert tab.ask(OVERFLOW) <= 0
    cut = "[...document.querySelectorAll('.panel svg')].filter(s => s.getBBox().x < -1).length"
    assert tab.ask(cut) == 0
    assert tab.faults() == {}
    assert Path(file).stat().st_size < 600_000
