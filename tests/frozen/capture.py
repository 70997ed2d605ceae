"""Run a frozen experiment and read everything back through the command line."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .normal import normal, table

TABLES = ("trials", "items", "exchanges", "reviews")
ASKED = "asked.jsonl"
"""Where victims note what they are asked."""
PAPERS = ("xian2025", "araujo2020")
"""Whose layouts are drawn; no file of the one has a name of the other's."""

Step = Sequence[str] | Callable[[Path], None]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One small experiment."""

    name: str
    """Of its snapshot."""
    files: dict[str, str]
    """What it reads, by path."""
    steps: Sequence[Step]
    """Command lines, and what a person does between them."""
    runs: Sequence[str] = ("run",)
    """The run folders that they leave behind."""
    outputs: Sequence[str] = ()
    """Further JSON, JSONL, CSV and text files that they leave behind."""
    figures: bool = True
    """Whether figures are drawn, which takes a second or two."""


def medstress(*arguments: str) -> tuple[int, str, str]:
    """The command line in this process: exit code, standard output, standard error."""
    from medstress.__main__ import main

    out, err, before = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["medstress", *arguments]
    try:
        with redirect_stdout(out), redirect_stderr(err):
            main()
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else int(left.code is not None)
    else:
        code = 0
    finally:
        sys.argv = before
    return code, out.getvalue(), err.getvalue()


@contextmanager
def working_in(root: Path) -> Iterator[None]:
    """Work in a folder, with a cache of its own and a log of what victims are asked."""
    kept = {name: os.environ.get(name) for name in ("MEDSTRESS_CACHE", "ASKED")}
    before = Path.cwd()
    os.environ |= {"MEDSTRESS_CACHE": str(root / "cache"), "ASKED": str(root / ASKED)}
    os.chdir(root)
    try:
        yield
    finally:
        os.chdir(before)
        for name, value in kept.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def write_files(case: Case, root: Path) -> None:
    """Write what the experiment reads."""
    for name, text in case.files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")


def n_asked(root: Path) -> int:
    """How many questions victims and roles were asked."""
    log = root / ASKED
    return log.read_text("utf-8").count("\n") if log.is_file() else 0


def made(case: Case, root: Path) -> dict[str, Any]:
    """Write, run and read an experiment; `root` is an empty folder."""
    write_files(case, root)
    with working_in(root):
        codes = {}
        for step in case.steps:
            if callable(step):
                step(root)
            else:
                codes[" ".join(step)] = medstress(*step)[0]
        asked = n_asked(root)
        return {"exit_codes": codes, "asked": asked, **read(case, root)}


def read(case: Case, root: Path) -> dict[str, Any]:
    """What the run folders and outputs of an experiment say; the current folder is `root`."""
    found: dict[str, Any] = {"runs": {}, "outputs": {}}
    for name in case.runs:
        files = sorted(
            str(path.relative_to(root / name))
            for path in (root / name).rglob("*")
            if path.is_file()
        )
        found["runs"][name] = {"files": files, **_run(root, name, case.figures)}
    for name in case.outputs:
        found["outputs"][name] = _output(root / name, root)
    return found


def _run(root: Path, name: str, has_figures: bool) -> dict[str, Any]:
    code, out, err = medstress("summary", name, "--json")
    assert code == 0, err
    told: dict[str, Any] = {"summary": normal(json.loads(out), root), "export": {}}
    for each in TABLES:
        told["export"][each] = _exported(root, name, each)
    if has_figures:
        told["figures"] = _figures(root, name)
    return told


def _exported(root: Path, run: str, name: str) -> dict[str, Any]:
    """The rows of one table: all of JSONL, and of the other formats what they have otherwise."""
    import polars

    to = root / "exported"
    to.mkdir(exist_ok=True)
    paths = {form: to / f"{name}.{form}" for form in ("jsonl", "csv", "parquet")}
    for path in paths.values():
        code, _, err = medstress("export", run, "--table", name, "--to", str(path))
        assert code == 0, err
    rows = [json.loads(line) for line in paths["jsonl"].read_text("utf-8").splitlines()]
    told: dict[str, Any] = {"jsonl": table(rows, root), "columns": list(rows[0]) if rows else []}
    with paths["csv"].open(encoding="utf-8", newline="") as stream:
        cells = list(csv.reader(stream))
    head, body = (cells[0], cells[1:]) if cells else ([], [])
    kept = [{k: "" if v is None else str(v) for k, v in row.items()} for row in rows]
    told["csv"] = {
        **({"header": head} if head != told["columns"] else {}),
        "rows": len(body),
        "cells that are not the JSONL's": _others(
            kept, [dict(zip(head, row, strict=True)) for row in body], root
        ),
    }
    frame = polars.read_parquet(paths["parquet"])
    told["parquet"] = {
        "types": {column: str(kind) for column, kind in frame.schema.items()},
        "rows": frame.height,
        "cells that are not the JSONL's": _others(rows, frame.to_dicts(), root),
    }
    return told


def _others(
    rows: Sequence[dict[str, Any]], others: Sequence[dict[str, Any]], root: Path
) -> dict[str, Any]:
    """`row/column` -> the cell, where two tables differ."""
    return {
        f"{i}/{name}": normal(other.get(name), root, name)
        for i, (row, other) in enumerate(zip(rows, others, strict=True))
        for name in row
        if name not in other or other[name] != row[name]
    }


def _figures(root: Path, run: str) -> dict[str, Any]:
    to = root / "figures" / run
    for paper in PAPERS:
        asked = ("figures", run, "--out", str(to), "--format", "svg", "--paper", paper)
        code, _, err = medstress(*asked)
        assert code == 0, err
    files = sorted(
        str(path.relative_to(to))
        for path in to.rglob("*")
        if path.is_file() and path.suffix != ".txt" and path.name != "figures.tex"
    )
    told = {name: _output(to / name, root) for name in files if name.endswith(".csv")}
    return {"files": files, "csv": told}


def _output(path: Path, root: Path) -> Any:
    """What a file says; None where it is not there."""
    if not path.is_file():
        return None
    text = path.read_text("utf-8")
    match path.suffix:
        case ".json":
            return normal(json.loads(text), root)
        case ".jsonl":
            return table([json.loads(line) for line in text.splitlines()], root)
        case ".csv":
            return table(list(csv.DictReader(io.StringIO(text, newline=""))), root)
        case _:
            return [normal(line, root) for line in text.splitlines()]
