"""Pages made of payloads alone, opened in a browser: nothing runs and nothing is asked for."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
from markupsafe import Markup

from medstress.metrics import wilson
from medstress.papers.cases import as_html
from medstress.report import charts, render_report
from medstress.report.labels import FACTORS
from medstress.report.plots.words import MOST_ROWS
from medstress.report.rate_plots import forest

pytestmark = [pytest.mark.web, pytest.mark.release]

FUZZ = Path(__file__).parents[1] / "fuzz"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"web_{name}", FUZZ / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def drawn(_spec, label):
    return Markup('<svg role="img" aria-label="{}"></svg>').format(label)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    texts, pages = load("payloads").PAYLOADS, load("pages")
    folder = tmp_path_factory.mktemp("payloads")
    given = pages.template(folder)
    with pytest.MonkeyPatch.context() as patch:
        # Hundreds of plots would take minutes; one with every label is drawn below.
        patch.setattr(charts, "_picture", drawn)
        # Every third text: a report of 199 arms takes long, and tests/fuzz parses one of all.
        report = render_report(*pages.report_of(given, texts[::3]))
    estimate = wilson(1, 2)
    rows = [{**dict.fromkeys(FACTORS, text), "asr": estimate.as_json()} for text in texts]
    groups = (rows[i : i + MOST_ROWS] for i in range(0, len(rows), MOST_ROWS))
    plots = "".join(plot.svg for group in groups if (plot := forest(group)))
    sources = {
        "report": report,
        "cases": as_html(pages.paper_cases_of(texts), " ".join(texts), texts),
        "plot": f"<!doctype html><link rel=icon href=data:,>{plots}",
    }
    for name, source in sources.items():
        (folder / f"{name}.html").write_text(source, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in sources}


@pytest.mark.parametrize("name", ["report", "cases", "plot"])
def test_payloads_run_nothing_and_ask_for_nothing(browser, hostile, name):
    tab = browser.open(hostile[name])
    assert tab.ask("document.readyState") == "complete"
    assert tab.complaints == []
    assert set(tab.requests) <= {hostile[name].as_uri(), "data:,"}
    active = "img, iframe, object, embed, base, [action], link[rel=stylesheet], [href^=javascript]"
    assert tab.page.locator(active).count() == 0
    ours = tab.page.locator("script:not([type='application/json'])")
    assert ours.count() == (named_by_policy(tab) if name == "report" else 0)


def named_by_policy(tab):
    """How many scripts the page's policy lets run."""
    policy = tab.page.locator("meta[http-equiv=Content-Security-Policy]").get_attribute("content")
    return policy.partition("script-src")[2].partition(";")[0].count("'sha256-")
