"""A headless Chromium, and pages to look at with it."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from medstress.report import render_report

SAMPLES = Path(__file__).parents[1] / "unit" / "report" / "samples.py"
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage",
)  # fmt: skip


def without_browser(reason: str) -> None:
    """Skip, except in CI, where a missing browser must not look like a passed test."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


class Browser:
    """What the tests ask of a browser."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver

    def look(self, width: int = 1440, mode: str = "light", scripts: bool = True) -> None:
        """Set the width in CSS pixels, the colour scheme, and whether scripts run."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        feature = {"name": "prefers-color-scheme", "value": mode}
        self._command("Emulation.setDeviceMetricsOverride", size)
        self._command("Emulation.setEmulatedMedia", {"features": [feature]})
        self._command("Emulation.setScriptExecutionDisabled", {"value": not scripts})
        # Without a window in front an element has the focus and does not show it.
        self._command("Emulation.setFocusEmulationEnabled", {"enabled": True})

    def open(self, path: Path) -> None:
        for kind in ("browser", "performance"):
            self._driver.get_log(kind)
        self._driver.get(path.as_uri())

    def ask(self, script: str, *arguments: object) -> Any:
        """Run a function body in the page and return what it returns."""
        return self._driver.execute_script(script, *arguments)

    def complaints(self) -> list[str]:
        """What the console of the page holds."""
        return [entry["message"] for entry in self._driver.get_log("browser")]

    def requests(self) -> list[str]:
        """Every address the page asked for, its own included."""
        messages = [
            json.loads(entry["message"])["message"] for entry in self._driver.get_log("performance")
        ]
        return [
            message["params"]["request"]["url"]
            for message in messages
            if message["method"] == "Network.requestWillBeSent"
        ]

    def _command(self, name: str, arguments: dict[str, Any]) -> None:
        self._driver.execute_cdp_cmd(name, arguments)


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if importlib.util.find_spec("selenium") is None:
        without_browser("selenium is not installed (pip install selenium)")
    chromium, driver_path = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver_path is None:
        without_browser("chromium is missing (apt-get install chromium chromium-driver)")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(driver_path))
    try:
        yield Browser(driver)
    finally:
        driver.quit()


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
    arguments = {
        "ordinary": (samples.summary(warnings=warnings), samples.trials(), samples.manifest()),
        "hostile": samples.hostile(),
        "empty": (empty, [], {}),
    }
    folder = tmp_path_factory.mktemp("reports")
    paths = {}
    for name, given in arguments.items():
        paths[name] = folder / f"{name}.html"
        paths[name].write_text(render_report(*given), encoding="utf-8")
    return paths
