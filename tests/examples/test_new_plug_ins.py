"""What `medstress new` writes installs without a network, passes its tests and runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

import medstress as ms
from medstress.cli.app import medstress_cli
from medstress.core import registry

ROOT = Path(__file__).resolve().parents[2]
NAMES = {"attack": "far_away", "backend": "overlap", "dataset": "aiken"}
"""One of each; the data set is the one that docs/data.md prints."""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Kind -> the folder that the command wrote."""
    root = tmp_path_factory.mktemp("new")
    for kind, name in NAMES.items():
        assert medstress_cli(["new", kind, name, "--to", str(root / kind)]) == 0
    return {kind: root / kind for kind in NAMES}


def pip_install(target: Path, *folders: Path) -> None:
    """As the printed command, but to a folder, and with no index to look at."""
    told = subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
            *("--no-index", "--no-build-isolation", "--target", str(target)),
            *map(str, folders),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr


def copy(target: Path, folder: Path) -> None:
    """Put there what pip would, in no time."""
    project = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
    ((group, points),) = project["entry-points"].items()
    ((name, value),) = points.items()
    shutil.copy(folder / f"{name}.py", target)
    info = target / f"{project['name'].replace('-', '_')}-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 0.1")
    (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {value}\n")


@pytest.fixture(scope="module")
def installed(written: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pip has put one of them; it takes seconds, and their pyproject.toml is one template."""
    target = tmp_path_factory.mktemp("site")
    pip_install(target, written["dataset"])
    copy(target, written["attack"])
    copy(target, written["backend"])
    return target


def outcome_of(target: Path, folders: dict[str, Path]) -> str:
    """Run the tests of all packages and return what pytest says."""
    path = os.pathsep.join([str(target), *filter(None, [os.environ.get("PYTHONPATH")])])
    told = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "--quiet", "-W", "error", "-p", "no:cacheprovider"),
            *map(str, folders.values()),
        ],
        cwd=folders["attack"].parent,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stdout
    return told.stdout


@pytest.mark.release
def test_they_pass_their_tests_as_written(installed: Path, written: dict[str, Path]) -> None:
    assert "11 passed" in outcome_of(installed, written)


@pytest.mark.release
def test_pip_installs_all_of_them(tmp_path: Path, written: dict[str, Path]) -> None:
    pip_install(tmp_path, *written.values())
    assert "11 passed" in outcome_of(tmp_path, written)


def test_their_experiments_run(
    installed: Path, written: dict[str, Path], workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(installed))
    for kind, name in NAMES.items():
        assert registry.installed(f"{kind}s")[name].summary.startswith("plug-in from medstress-")
        run = ms.run(
            written[kind] / "experiment.toml",
            out=kind,
            limit=4,
            overrides=["experiment.controls=false", "experiment.seeds=[0]"],
        )
        trials = run.trials()
        assert trials.height > 0
        assert trials["error"].drop_nulls().is_empty()
        monkeypatch.delitem(sys.modules, name, raising=False)


def test_written_code_is_linted_and_formatted_like_this_repository(
    written: dict[str, Path],
) -> None:
    for folder in written.values():
        for command in (
            ["check", "--select", "E,F,W,I,UP,B,C4,SIM,RUF,PTH,PT,N,RET,BLE"],
            ["format", "--check"],
        ):
            told = subprocess.run(
                [sys.executable, "-m", "ruff", *command, "--isolated", "--line-length", "100", "."],
                cwd=folder,
                capture_output=True,
                text=True,
                check=False,
            )
            assert told.returncode == 0, told.stdout


def test_the_pages_print_what_the_command_writes(
    written: dict[str, Path], blocks: Callable[[str, str], list[str]], tmp_path: Path
) -> None:
    (module,) = blocks("docs/data.md", "python")
    assert module == (written["dataset"] / "aiken.py").read_text("utf-8")
    attack = tmp_path / "attack"
    assert medstress_cli(["new", "attack", "look_alike", "--to", str(attack)]) == 0
    page = tomllib.loads(blocks("docs/writing-an-attack.md", "toml")[0])
    expected = tomllib.loads((attack / "pyproject.toml").read_text("utf-8"))
    expected["project"]["dependencies"] = ["rapidfuzz"]
    assert page == expected
