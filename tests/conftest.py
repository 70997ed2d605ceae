"""Settings of the whole suite."""

import atexit
import gc
import os
import re
import shutil
import tempfile
from collections.abc import Generator
from functools import cache, wraps
from importlib import import_module, metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import settings

from medstress.backends.threads import available_cores
from medstress.cli import app
from medstress.experiment import first

# Slow machines are no defect: a time limit on single examples would only make tests flaky.
# Half of the usual number: the same examples come again every day.
settings.register_profile("medstress", deadline=None, max_examples=50)
settings.load_profile("medstress")

ROOT = Path(__file__).resolve().parents[1]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long tests first, those of `TORCH` before all, as one worker runs them one after the other.

    The short ones of tests/unit and src keep all workers busy to the end.

    Tests marked `release`, and of those marked `kills` all but one for each command, run only if
    they are asked for, by `-m` or by name.
    """
    if not config.option.markexpr and not any("::" in each for each in config.args):
        left = [item for item in items if is_left_out(item)]
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in left]
    items.sort(key=lambda item: _place(item.nodeid))


def _place(nodeid: str) -> int:
    return 0 if nodeid.startswith(TORCH) else 2 if nodeid.startswith(("tests/unit/", "src/")) else 1


def is_left_out(item: pytest.Item) -> bool:
    """Whether a test is too long for CI, or kills as another one does that names its command."""
    kills = item.get_closest_marker("kills")
    return item.get_closest_marker("release") is not None or (kills is not None and not kills.args)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One worker more than cores, where tests that wait for processes and browsers leave one idle.

    Those of tests/unit do not, and each worker collects all tests.
    """
    return min(available_cores() + (config.args != ["tests/unit"]), 8)


TORCH = (
    *("tests/local_models/", "tests/training/"),
    *("tests/models/test_minilm.py", "tests/models/test_smollm2.py"),
    "tests/cli/test_damaged_inputs.py",
)
"""Files whose tests import torch and transformers, which takes eight seconds."""


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Where files are shared out, give those of `TORCH` to one worker."""
    from xdist.scheduler import LoadFileScheduling

    class TorchTogether(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return TORCH[0] if nodeid.startswith(TORCH) else super()._split_scope(nodeid)

    return TorchTogether(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path, parent: pytest.Collector
) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for examples only where there are some: looking imports a module, and takes seconds."""
    option = parent.config.option
    asked = option.doctestmodules
    is_python = file_path.suffix == ".py" and not file_path.name.startswith("test_")
    option.doctestmodules = asked and is_python and b">>> " in file_path.read_bytes()
    try:
        return (yield)
    finally:
        option.doctestmodules = asked


def pytest_collection_finish() -> None:
    """Keep what was collected out of every later garbage collection.

    Ten thousand tests are millions of objects, and a full collection of them takes half a second;
    statsmodels asks for one at every correction for multiple testing.
    """
    gc.collect()
    gc.freeze()


def published_folder() -> Path | None:
    """Return the folder of published data: $MEDSTRESS_DATA, else the nearest shared/data above."""
    if given := os.environ.get("MEDSTRESS_DATA"):
        return Path(given) if Path(given).is_dir() else None
    folders = (parent / "shared" / "data" for parent in ROOT.parents)
    return next((folder for folder in folders if folder.is_dir()), None)


@pytest.fixture
def published():
    """Find one published file by its path below the data folder, or skip the test."""
    folder = published_folder()

    def find(name: str) -> Path:
        if folder is None:
            pytest.skip("no published data: set MEDSTRESS_DATA to its folder")
        if not (folder / name).is_file():
            pytest.skip(f"the published data in {folder} lack {name}")
        return folder / name

    return find


@pytest.fixture(scope="session")
def workbench() -> ModuleType:
    """The module tests/servers/workbench.py: most tests need none of it."""
    return import_module("workbench")


@pytest.fixture
def bench(workbench, tmp_path, monkeypatch):
    """An experiment in a folder of its own; runs in this process are logged and instant."""
    return workbench.Bench(tmp_path).enter(monkeypatch)


def pytest_configure() -> None:
    """Collect garbage rarely: with Python's 700 the collector took a thirtieth of the time.

    Read the version of a package once: every run asks for some thirty, a quarter of its time. Make
    the command line once: a process has one, and a worker hundreds. Let no run leave anything in
    the user's own directories; all workers share the vectors of names, which are those of spelling
    unless a test says else: MiniLM takes minutes for all names. So small models as those of tests
    are slowed down by threads.
    """
    for name in ("MEDSTRESS_STATE", "MEDSTRESS_CACHE"):
        if name not in os.environ:
            os.environ[name] = folder = tempfile.mkdtemp(prefix="medstress-tests-")
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["OMP_NUM_THREADS"] = "1"
    gc.set_threshold(50_000)
    patch = pytest.MonkeyPatch()
    patch.setattr(metadata, "version", cache(metadata.version))
    patch.setattr(app, "program", cache(app.program))
    patch.setattr(first, "_lacks_minilm", wraps(first._lacks_minilm)(lambda: True))


NEXT = re.compile(r"(?:; next| Next): (.+)$", re.MULTILINE)
"""The end of a refusal on the command line."""


def parts_of(err: str) -> tuple[str, str]:
    """What a refusal says, and the next command that it ends with; empty if there is none."""
    found = NEXT.search(err)
    return (err, "") if found is None else (NEXT.sub("", err), found[1])


@pytest.fixture(scope="session")
def parted():
    """Part what the command line says on stderr: without the next command, and that command."""
    return parts_of


@pytest.fixture
def said():
    """Fail where a message lacks what it has to name: `said(str(error.value), "'key'")`."""

    def compare(message: str, *words: str) -> None:
        assert isinstance(message, str), f"expected a message, got {message!r}"
        assert message.strip(), "the message is empty"
        for word in words:
            assert word in message, f"{word!r} does not stand in: {message}"

    return compare
