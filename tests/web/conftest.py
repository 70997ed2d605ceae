"""A headless Chromium, and a run to look at with it."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "scripts"))

from chromium import chromium
from medstress.analyses.run import Run
from medstress.api.run import run
from medstress.core.outcomes import Verdict
from medstress.core.trials import Trial
from medstress.report.page import report

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page


HOSTILE = (
    "<script>alert(1)</script>",
    "</script><svg onload=alert(2)>",
    "<img src=x onerror=alert(3)>",
    '" onmouseover="alert(4)" x=\'',
    "{{ 7 * 7 }} ]]> --> &lt;b&gt;",
    "x" * 500,
)
HOSTILE_VICTIM = """
def answer(prompts):
    return ["B" if "Abrotine" in prompt else "A" for prompt in prompts]
"""


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
        faults = self.page.evaluate(
            "rules => axe.run({resultTypes: ['violations'], rules})",
            {rule: {"enabled": False} for rule in without},
        )
        return {
            one["id"]: [node["html"] for node in one["nodes"]]
            for one in faults["violations"]
            if one["impact"] in ("serious", "critical")
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
def tabs():
    if importlib.util.find_spec("playwright") is None:
        without_browser("playwright is not installed (pip install playwright)")
    try:
        with chromium() as started:
            yield Tabs(started)
    except LookupError as error:
        without_browser(str(error))


@pytest.fixture
def browser(tabs):
    yield tabs
    tabs.close()


@dataclass(frozen=True)
class Example:
    """The run of scripts/pictures/example.toml on fewer questions and with fewer attacks."""

    folder: Path
    page: Path
    trials: Sequence[Trial]

    @property
    def lost(self) -> list[Trial]:
        """What the attacks took."""
        return [
            one for one in self.trials if one.verdict is Verdict.FLIPPED and not one.arm.is_control
        ]


@pytest.fixture(scope="session")
def example(tmp_path_factory):
    pictures = Path(__file__).resolve().parents[2] / "scripts" / "pictures"
    experiment = tomllib.loads((pictures / "example.toml").read_text("utf-8"))
    experiment["dataset"][0]["limit"] = 20
    for table in (*experiment["victim"], *experiment["entities"]):
        for key in {"target", "distance"} & set(table):
            table[key] = f"{pictures}/{table[key]}"
    experiment["attack"] = experiment["attack"][:1]
    folder = tmp_path_factory.mktemp("example")
    run(experiment, folder / "run")
    (folder / "page.html").write_text(report([folder / "run"]), encoding="utf-8")
    return Example(folder / "run", folder / "page.html", Run.open(folder / "run").trials)


@dataclass(frozen=True)
class Hostile:
    """A run whose names and texts try to break pages."""

    folder: Path
    page: Path
    texts: Sequence[str] = HOSTILE


@pytest.fixture(scope="session")
def hostile(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "victim.py").write_text(HOSTILE_VICTIM, encoding="utf-8")
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
        for i, text in enumerate(HOSTILE)
    ]
    (folder / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    experiment = {
        "experiment": {"name": "hostile", "seeds": [0]},
        "dataset": {"name": "table", "path": str(folder / "items.jsonl"), "label": HOSTILE[0]},
        "entities": {
            "name": HOSTILE[1],
            "type": "drugs",
            "vocabulary": str(folder / "names.txt"),
            "embedding": "ngram",
        },
        "victim": {
            "name": HOSTILE[2],
            "backend": "python",
            "target": f"{folder / 'victim.py'}:answer",
        },
        "attack": {
            "name": "entity_substitution",
            "label": HOSTILE[3],
            "sampler": "random",
            "budget": 1,
        },
    }
    run(experiment, folder / "run")
    (folder / "page.html").write_text(report([folder / "run"]), encoding="utf-8")
    return Hostile(folder / "run", folder / "page.html")


ROOM = """
import sys
from pathlib import Path
from medstress.analyses.run import Run
from medstress.report.room_pages import routes
from medstress.experiment.room import make_room
from medstress.report.view import serve
from medstress.store.reviews import ReviewStore
folder = Path(sys.argv[1])
with ReviewStore(folder) as store:
    room = make_room(Run.open(folder), store, sample=3)
    serve(routes(room, store), usual=room.id, show=False)
"""


class Served:
    """Commands that serve pages, each in a process of its own."""

    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[str]] = []

    def __call__(self, command: str, folder: Path, *arguments: str) -> str:
        """Start `medstress COMMAND DIR` and return the address that it prints."""
        return self._started("-m", "medstress", command, folder, *arguments)

    def room(self, folder: Path) -> str:
        """Start a review room of three cases."""
        return self._started("-c", ROOM, folder)

    def _started(self, *arguments: str | Path) -> str:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            stdout=subprocess.PIPE, text=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1", "BROWSER": "true"},
        )  # fmt: skip
        self._processes.append(process)
        assert process.stdout is not None
        for line in process.stdout:
            if address := re.search(r"http://\S+", line):
                return address[0]
        pytest.fail(f"{arguments} ended with code {process.wait()} and no address")

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
def served():
    started = Served()
    yield started
    started.end()
