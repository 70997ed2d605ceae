"""Files for the tests: small ones written on the spot, and the published ones where present."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pytest

from medstress.core import registry
from medstress.datasets.source import DatasetOptions, Loaded


class Read(Protocol):
    """Writes rows, or a text as it is, to a file, and reads it as questions."""

    def __call__(self, given: Any, form: str = "jsonl", name: str = "table", **keys: Any) -> Loaded:
        """Return what was read."""


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def load(given: Any, form: str = "jsonl", name: str = "table", **keys: Any) -> Loaded:
        source = registry.load("datasets", name)
        path = tmp_path / f"rows.{form}"
        write_rows(path, given)
        return source(DatasetOptions(path=path, **keys))  # type: ignore[no-any-return]

    return load


def write_rows(path: Path, given: Any) -> None:
    """Write rows in the format that the ending of a path names, or bytes or text as they are."""
    form = path.suffix.removeprefix(".")
    if isinstance(given, str | bytes):
        path.write_bytes(given if isinstance(given, bytes) else given.encode())
    elif form == "json":
        path.write_text(json.dumps(given, ensure_ascii=False), "utf-8")
    elif form == "jsonl":
        lines = [one if isinstance(one, str) else json.dumps(one) for one in given]
        path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    elif form in ("csv", "tsv"):
        stream = io.StringIO(newline="")
        mark = "," if form == "csv" else "\t"
        writer = csv.DictWriter(stream, list(given[0]), delimiter=mark, lineterminator="\n")
        writer.writeheader()
        writer.writerows(given)
        path.write_text(stream.getvalue(), "utf-8")
    elif form == "xlsx":
        from openpyxl import Workbook

        book = Workbook()
        book.active.append(list(given[0]))
        for one in given:
            book.active.append([one.get(name) for name in given[0]])
        book.save(path)
    else:
        import polars

        polars.DataFrame(given).write_parquet(path)


@pytest.fixture
def write(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[..., Path]:
    """Write a text, or bytes, to a file of a name; `FILE` of the module names the usual one."""

    def to_file(text: str | bytes, name: str = getattr(request.module, "FILE", "rows.tsv")) -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return to_file


@pytest.fixture
def jsonl(tmp_path: Path) -> Callable[..., Path]:
    """Write rows (objects, or lines of text as they are) to a JSONL file."""

    def write(*rows: Any, name: str = "rows.jsonl") -> Path:
        write_rows(tmp_path / "rows.jsonl", list(rows))
        return (tmp_path / "rows.jsonl").rename(tmp_path / name)

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
