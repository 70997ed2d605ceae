"""Files for the tests: small ones written on the spot, and the published ones where present."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]


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


@pytest.fixture
def jsonl(tmp_path: Path) -> Callable[..., Path]:
    """Write rows (objects, or lines of text as they are) to a JSONL file."""

    def write(*rows: Any, name: str = "rows.jsonl") -> Path:
        lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
        path = tmp_path / name
        path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        return path

    return write


@pytest.fixture
def row() -> Callable[..., dict[str, Any]]:
    """Make a good row; a field set to `...` is left out."""

    def make(**fields: Any) -> dict[str, Any]:
        good: dict[str, Any] = {
            "id": "q1",
            "question": "A man has gout. Which drug lowers urate?",
            "options": {"A": "allopurinol", "B": "aspirin", "C": "codeine"},
            "answer_idx": "A",
        }
        return {name: value for name, value in (good | fields).items() if value is not ...}

    return make
