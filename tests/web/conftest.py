"""A headless Chromium, and pages to look at with it."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image

sys.path.append(str(Path(__file__).resolve().parents[2] / "scripts"))

from chromium import chromium
from medstress.api.run import run
from medstress.cli.app import medstress_cli
from medstress.report import render_report

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

SAMPLES = Path(__file__).parents[1] / "unit" / "report" / "samples.py"


APPROVED = Path(__file__).with_name("approved")
SHRINK = 2
"""Pictures are compared at this part of their width and height: letters are grey, boxes stand."""
COLOUR_DISTANCE = 0.15
"""Of pixelmatch, 0 to 1: from where on a pixel counts as different."""
MOST_DIFFERENT = 0.005
"""Share of different pixels from which on two pictures differ."""


def different(one: Image.Image, other: Image.Image) -> float:
    """Share of pixels that differ; 1 for pictures of another size."""
    from pixelmatch.contrib.PIL import pixelmatch

    if one.size != other.size:
        return 1.0
    if one.tobytes() == other.tobytes():
        return 0.0
    return pixelmatch(one, other, threshold=COLOUR_DISTANCE) / (one.width * one.height)


def without_browser(reason: str) -> None:
    """Skip, except in CI, where a missing browser must not look like a passed test."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@dataclass
class Tab:
    """A page that is open, and what came of opening it."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    """What the console of the page holds, errors of its scripts included."""
    requests: list[str] = field(default_factory=list)
    """Every address the page asked for, its own included."""

    def ask(self, script: str, argument: object = None) -> Any:
        """Evaluate an expression or a function of one argument in the page."""
        return self.page.evaluate(script, argument)

    def count(self, selector: str) -> int:
        """How many elements of the page one can see."""
        return self.page.locator(selector).filter(visible=True).count()

    def faults(self, *without: str) -> dict[str, list[str]]:
        """What axe finds serious or critical: elements by rule, without the rules named."""
        from axe_core_python.base import AXE_SCRIPT

        self.page.evaluate(AXE_SCRIPT)
        found = self.page.evaluate(
            "rules => axe.run({resultTypes: ['violations'], rules})",
            {rule: {"enabled": False} for rule in without},
        )
        return {
            each["id"]: [node["html"] for node in each["nodes"]]
            for each in found["violations"]
            if each["impact"] in ("serious", "critical")
        }


class Tabs:
    """Opens pages, each in a profile of its own; one test's pages close together."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._contexts: list[BrowserContext] = []

    def open(
        self,
        address: Path | str,
        *,
        width: int = 1440,
        height: int = 900,
        mode: str = "light",
        scripts: bool = True,
        medium: str = "screen",
    ) -> Tab:
        """Open a file or an address.

        Args:
            address: where the page is.
            width: in CSS pixels, as is the height.
            height: of the window.
            mode: `light` or `dark`.
            scripts: whether scripts run.
            medium: `screen` or `print`.
        """
        context = self._browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=mode,  # type: ignore[arg-type]
            java_script_enabled=scripts,
            reduced_motion="reduce",
            accept_downloads=True,
        )
        self._contexts.append(context)
        context.set_default_timeout(5_000)
        context.set_default_navigation_timeout(60_000)  # a first page is made when it is asked for
        page = context.new_page()
        page.emulate_media(media=medium)  # type: ignore[arg-type]
        tab = Tab(page)
        page.on("console", lambda message: tab.complaints.append(message.text))
        page.on("pageerror", lambda error: tab.complaints.append(str(error)))
        page.on("request", lambda request: tab.requests.append(request.url))
        page.goto(address.as_uri() if isinstance(address, Path) else address)
        return tab

    def close(self) -> None:
        for context in self._contexts:
            context.close()
        self._contexts.clear()


# Not for the session: while Playwright runs, no other test of this process may run an event loop.
@pytest.fixture(scope="module")
def tabs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tabs]:
    if importlib.util.find_spec("playwright") is None:
        without_browser("playwright is not installed (pip install playwright)")
    try:
        with chromium(tmp_path_factory.mktemp("fonts")) as started:
            yield Tabs(started)
    except LookupError as error:
        without_browser(str(error))


@pytest.fixture
def browser(tabs: Tabs) -> Iterator[Tabs]:
    yield tabs
    tabs.close()


@pytest.fixture
def looks_as_approved(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., None]:
    """Compare the window of a tab with its approved picture, or approve what it shows."""

    def check(tab: Tab, name: str) -> None:
        seen = Image.open(BytesIO(tab.page.screenshot())).convert("RGB")
        seen = seen.resize((seen.width // SHRINK, seen.height // SHRINK), Image.Resampling.BOX)
        path = APPROVED / f"{name}.png"
        if request.config.getoption("--approve-pictures"):
            APPROVED.mkdir(exist_ok=True)
            seen.quantize(64).save(path, optimize=True)
            return
        approved = Image.open(path).convert("RGB")
        share = different(approved, seen.quantize(64).convert("RGB"))
        if share > MOST_DIFFERENT:
            seen.save(tmp_path / path.name)
            pytest.fail(
                f"{share:.2%} of the pixels of {path.name} differ, at most {MOST_DIFFERENT:.1%} "
                f"may: look at {tmp_path / path.name}; if it is as it should be, run "
                "pytest tests/web/test_pictures.py --approve-pictures"
            )

    return check


@pytest.fixture(scope="session")
def samples() -> ModuleType:
    spec = importlib.util.spec_from_file_location("report_samples", SAMPLES)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def pages(samples: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Reports on disk: an ordinary one, a hostile one, and one of a run without trials."""
    empty = samples.summary(results=[], pooled=[], tests=[], performance={})
    warnings = ["smollm2 is not above chance: its success rate cannot be told from guessing."]
    verdict = {
        "sentence": "smollm2 lost 29 of 51 right answers (57 %, 43 to 70) after one wrong option "
        "was renamed; not net of any control.",
        "others": [],
        "caveats": ["No validity was measured: nobody checked that the key is still right."],
        "arms": [],
    }
    summary = samples.summary(warnings=warnings, verdict=verdict)
    arguments = {
        "ordinary": (summary, samples.trials(), samples.manifest()),
        "hostile": samples.hostile(),
        "empty": (empty, [], {}),
    }
    folder = tmp_path_factory.mktemp("reports")
    paths = {}
    for name, given in arguments.items():
        paths[name] = folder / f"{name}.html"
        paths[name].write_text(render_report(*given), encoding="utf-8")
    return paths


@dataclass(frozen=True)
class Example:
    """The run of scripts/pictures/example.toml on fewer questions and with fewer attacks."""

    folder: Path
    report: Path
    rows: list[dict[str, Any]]
    """Its trials, as exported."""
    experiment: dict[str, Any]
    """What `run` makes it from."""

    @property
    def flipped(self) -> list[dict[str, Any]]:
        return [row for row in self.rows if row["verdict"] == "flipped" and row["arm"] == "attack"]


@pytest.fixture(scope="session")
def example(tmp_path_factory: pytest.TempPathFactory) -> Example:
    pictures = Path(__file__).resolve().parents[2] / "scripts" / "pictures"
    experiment = tomllib.loads((pictures / "example.toml").read_text("utf-8"))
    experiment["dataset"][0]["limit"] = 40
    for table in (*experiment["victim"], *experiment["entities"]):
        for key in {"target", "distance"} & set(table):
            table[key] = f"{pictures}/{table[key]}"
    random_names, weighted = experiment["attack"]
    experiment["attack"] = [random_names, weighted | {"n": [-20, 20]}]
    folder = tmp_path_factory.mktemp("example")
    done = run(experiment, folder / "run")
    (folder / "report.html").write_text(done.report(), encoding="utf-8")
    rows = list(read_rows(folder / "run", folder))
    return Example(folder / "run", folder / "report.html", rows, experiment)


@pytest.fixture(scope="session")
def reported(example: Example) -> Path:
    """The report of the example."""
    return example.report


@pytest.fixture(scope="session")
def flipped(example: Example) -> list[dict[str, Any]]:
    """The successes of the example, as exported."""
    return example.flipped


def read_rows(run_folder: Path, folder: Path) -> Iterator[dict[str, Any]]:
    to = folder / "trials.jsonl"
    assert medstress_cli(["export", str(run_folder), "--table", "trials", "--to", str(to)]) == 0
    return map(json.loads, to.read_text("utf-8").splitlines())


class Served:
    """Commands that serve pages, each in a process of its own."""

    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[str]] = []

    def __call__(self, command: str, folder: Path, *arguments: str) -> str:
        """Start `medstress COMMAND DIR` and return the address that it prints."""
        process = subprocess.Popen(
            [sys.executable, "-m", "medstress", command, folder, *arguments, "--no-browser"],
            stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
        self._processes.append(process)
        assert process.stdout is not None
        for line in process.stdout:
            if found := re.search(r"http://\S+", line):
                return found[0]
        pytest.fail(f"medstress {command} ended with code {process.wait()} and no address")

    def kill(self) -> None:
        """Kill the last one, as the system would."""
        self._processes[-1].kill()
        self._processes[-1].wait()

    def end(self) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait(timeout=20)
            assert process.stdout is not None
            process.stdout.close()


@pytest.fixture
def served() -> Iterator[Served]:
    started = Served()
    yield started
    started.end()
