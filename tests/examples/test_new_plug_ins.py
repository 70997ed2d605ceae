"""What `medstress new` writes installs without a network, passes its tests and runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import medstress as ms
from medstress.cli.app import medstress_cli
from medstress.core import registry

NAMES = {"attack": "far_away", "backend": "overlap", "dataset": "aiken"}
"""One of each; the data set is the one that docs/data.md prints."""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Kind -> the folder that the command wrote."""
    root = tmp_path_factory.mktemp("new")
    for kind, name in NAMES.items():
        assert medstress_cli(["new", kind, name, "--to", str(root / kind)]) == 0
    return {kind: root / kind for kind in NAMES}


@pytest.fixture(scope="module")
def installed(
    written: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, Path]]:
    """Where pip has put all three, with no index to look at."""
    target = tmp_path_factory.mktemp("site")
    told = subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
            *("--no-index", "--no-build-isolation", "--target", str(target)),
            *map(str, written.values()),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    return target, written


def test_they_pass_their_tests_as_written(installed: tuple[Path, dict[str, Path]]) -> None:
    target, folders = installed
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
    assert "11 passed" in told.stdout


def test_their_experiments_run(
    installed: tuple[Path, dict[str, Path]], workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, folders = installed
    monkeypatch.syspath_prepend(str(target))
    for kind, name in NAMES.items():
        assert registry.installed(f"{kind}s")[name].summary.startswith("plug-in from medstress-")
        run = ms.run(
            folders[kind] / "experiment.toml",
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
