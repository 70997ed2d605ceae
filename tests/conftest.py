"""Settings of the whole suite."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

# Slow machines are no defect: a time limit on single examples would only make tests flaky.
settings.register_profile("medstress", deadline=None)
settings.load_profile("medstress")

ROOT = Path(__file__).resolve().parents[1]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long tests first: the short ones of tests/unit and src keep all workers busy to the end."""
    items.sort(key=lambda item: "tests/unit/" in item.nodeid or item.nodeid.startswith("src/"))


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
