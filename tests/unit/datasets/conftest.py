"""Files for the tests: small ones written on the spot, and the published ones where present."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


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
