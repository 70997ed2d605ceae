"""Settings of the whole suite."""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import re
import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import settings

from medstress.machine.cores import available_cores

# Slow machines are no defect: a time limit on single examples would only make tests flaky.
settings.register_profile("medstress", deadline=None)
settings.load_profile("medstress")

ROOT = Path(__file__).resolve().parents[1]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long tests first: the short ones of tests/unit and src keep all workers busy to the end.

    Tests marked `release` run only if they are asked for, by `-m` or by name.
    """
    if not config.option.markexpr and not any("::" in each for each in config.args):
        left = [item for item in items if item.get_closest_marker("release")]
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in left]
    items.sort(key=lambda item: "tests/unit/" in item.nodeid or item.nodeid.startswith("src/"))


def pytest_xdist_auto_num_workers() -> int:
    """One worker more than cores: tests that wait for processes and browsers leave a core idle."""
    return min(available_cores() + 1, 8)


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
def published() -> Callable[[str], Path]:
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
    """The module tests/replay/workbench.py."""
    name = "replay_workbench"
    if name not in sys.modules:
        path = Path(__file__).parent / "replay" / "workbench.py"
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # dataclasses look their module up
        spec.loader.exec_module(module)
    return sys.modules[name]


STORE = Path(__file__).with_name("sentences.json")
"""What messages say, by test; `pytest --write-sentences FILES` stores it anew."""
TOLD = pytest.StashKey[dict[str, list[str]]]()
"""By test that ran with --write-sentences: what it was told."""
FAILED = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --write-sentences and --approve-pictures."""
    parser.addoption(
        "--write-sentences", action="store_true", help="store the messages that the tests get"
    )
    parser.addoption(
        "--approve-pictures", action="store_true", help="store how the pages look in tests/web"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Collect garbage rarely; refuse to write from several processes: each knows its own tests."""
    gc.set_threshold(50_000)  # with Python's 700 the collector took a thirtieth of the time
    if config.getoption("--write-sentences"):
        if config.getoption("numprocesses", None) or hasattr(config, "workerinput"):
            raise pytest.UsageError("--write-sentences writes from one process: leave out -n")
        config.stash[TOLD] = {}


def stored() -> dict[str, list[str]]:
    """All sentences, by the id of their test."""
    if not STORE.exists():
        return {}
    found: dict[str, list[str]] = json.loads(STORE.read_text("utf-8"))
    return found


def normal(text: str, temporary: Path) -> str:
    """Put marks in place of temporary folders, this repository and ports that a system gave."""
    text = re.sub(rf"{re.escape(str(temporary))}/[\w.-]+", "<tmp>", text)
    text = parts_of(text.replace(str(ROOT), "<root>"))[0]
    return re.sub(r"(127\.0\.0\.1|localhost):\d{5}\b", r"\1:<port>", text)


NEXT = re.compile(r"(?:; (?:next|once mended)| (?:Next|Once mended)): (.+)$", re.MULTILINE)
"""The end of a refusal on the command line."""


def parts_of(err: str) -> tuple[str, str]:
    """What a refusal says, and the next command that it ends with; empty if there is none."""
    found = NEXT.search(err)
    return (err, "") if found is None else (NEXT.sub("", err), found[1])


@pytest.fixture(scope="session")
def parted() -> Callable[[str], tuple[str, str]]:
    """Part what the command line says on stderr: without the next command, and that command."""
    return parts_of


def stands(text: str, words: Iterable[str]) -> None:
    """Fail where a word does not stand in a message."""
    for word in words:
        assert word in text, f"{word!r} does not stand in: {text}"


def expected(node: str, sentences: dict[str, list[str]], number: int) -> str:
    """The sentence that is stored; fails with what to do where there is none."""
    mine = sentences.get(node, [])
    if number >= len(mine) or not mine[number]:
        pytest.fail(
            f"no sentence {number + 1} of this test is stored; read what it got, then run "
            f"pytest --write-sentences {node.split('::')[0]}"
        )
    return mine[number]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Remember whether the test itself passed."""
    report = yield
    if report.when == "call":
        item.stash[FAILED] = not report.passed
    return report


@pytest.fixture(scope="session")
def stored_sentences() -> dict[str, list[str]]:
    """What is stored, read once."""
    return stored()


@pytest.fixture
def said(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    stored_sentences: dict[str, list[str]],
) -> Iterator[Callable[..., None]]:
    """Compare a message with the stored one: `said(str(error.value), "'key'")`.

    `words` have to stand in the message, however it is worded: the key and the place it names.
    """
    node = request.node.nodeid
    told: list[str] = []

    def compare(message: str, *words: str) -> None:
        assert isinstance(message, str), f"expected a message, got {message!r}"
        assert message.strip(), "the message is empty"
        text = normal(message, tmp_path_factory.getbasetemp())
        stands(text, words)
        if not writes:
            assert text == expected(node, stored_sentences, len(told))
        told.append(text)

    writes = request.config.getoption("--write-sentences")
    yield compare
    if request.node.stash.get(FAILED, True):
        return
    if writes:
        request.config.stash[TOLD][node] = told
    elif len(told) < len(stored_sentences.get(node, [])):
        pytest.fail("more sentences are stored than this test got; run pytest --write-sentences")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write what was told, sorted by test; other entries stay."""
    if not session.config.getoption("--write-sentences"):
        return
    told = session.config.stash[TOLD]
    ran = {node: sentences for node, sentences in told.items() if sentences}
    kept = {node: each for node, each in stored().items() if node not in told}
    text = json.dumps(dict(sorted((kept | ran).items())), ensure_ascii=False, indent=1)
    STORE.write_text(text + "\n", encoding="utf-8")
