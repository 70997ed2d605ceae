"""Run cases through the command line in processes of their own, watched by the clock and by memory.

A seed, a format and a number make a case, so any one can be made again.

    python -m tests.fuzz.runner FORMAT SEED START STOP ROWS

runs some of them and writes a line of JSON for each to the file ROWS.
"""

import contextlib
import faulthandler
import io
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from . import command_lines, files, gguf_files, run_folders, server_replies
from .case import REFUSED, Case, Rows

SECONDS = 10
"""A case that takes longer hangs."""
GROWTH = 512 * 2**20
"""Bytes that one case may add to the most that its process ever held."""
ROOT = Path(__file__).parents[2]
FORMATS: dict[str, Callable[[Random], Case]] = {
    **files.FORMATS,
    "gguf": gguf_files.case,
    "server": server_replies.case,
    "run_folder": run_folders.case,
    "command": command_lines.case,
}


def make(name: str, seed: int, number: int) -> Case:
    """The case that a format, a seed and a number name."""
    return FORMATS[name](Random(f"{seed}:{name}:{number}"))


def run_case(case: Case, folder: Path) -> tuple[str | None, int | None]:
    """Run one case in this process and an empty folder; return what is wrong, and the exit code."""
    from medstress.cli.app import medstress_cli

    os.chdir(folder)
    arguments = list(case.write(folder))
    before = _most_held()
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = medstress_cli(arguments)
        except SystemExit as left:
            code = left.code if isinstance(left.code, int) else 1
        except BaseException as error:  # noqa: BLE001 - whatever escapes is the finding
            return f"{type(error).__name__} escaped: {error}"[:300], None
    grown = _most_held() - before
    wrong = _complaint(case, code, out.getvalue() + err.getvalue(), err.getvalue())
    if wrong is None and grown > GROWTH:
        wrong = f"took {grown // 2**20} MiB"
    if wrong is None and case.rows is not None:
        wrong = _lost_rows(case.rows, folder)
    return wrong, code


def _complaint(case: Case, code: int, printed: str, err: str) -> str | None:
    last = (err.strip().splitlines() or [""])[-1][:300]
    if "Traceback (most recent call last)" in printed:
        return f"a traceback: {last}"
    if "bug of medstress" in printed:
        return f"called a bug: {last}"
    if code not in case.codes:
        return f"exit code {code}: {last}"
    if code == REFUSED and not last.startswith("medstress: "):
        return f"refused without a sentence: {last!r}"
    return None


def _lost_rows(rows: Rows, folder: Path) -> str | None:
    """Hold the loader to rows kept + rows skipped = rows given."""
    from medstress.core import registry
    from medstress.core.errors import DataError
    from medstress.datasets.source import DatasetOptions

    options = DatasetOptions(path=folder / rows.file, on_bad_row="skip")
    try:
        loaded = registry.load("datasets", rows.dataset)(options)
    except DataError:
        return None  # all of them are refused, in one sentence
    kept = loaded.items
    if len(kept) + len(loaded.skipped) == rows.given:
        return None
    return f"{len(kept)} rows kept, {len(loaded.skipped)} skipped, {rows.given} given"


def _most_held() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def run_chunk(name: str, seed: int, start: int, stop: int) -> list[dict[str, Any]]:
    """Run some cases of a format in a process; another one goes on where a case kills it."""
    with tempfile.TemporaryDirectory(prefix="medstress-fuzz-") as folder:
        rows = Path(folder) / "rows"
        rows.touch()
        while (at := start + len(rows.read_text("utf-8").splitlines())) < stop:
            asked = [sys.executable, "-m", __name__, name, *map(str, (seed, at, stop, rows))]
            ended = subprocess.run(
                asked,
                cwd=ROOT,
                env={**os.environ, "TMPDIR": folder},
                capture_output=True,
                text=True,
                check=False,
            )
            died = start + len(rows.read_text("utf-8").splitlines())
            if died < stop:
                where = [line.strip() for line in ended.stderr.splitlines() if "File " in line][:6]
                wrong = f"hangs or dies (exit {ended.returncode}); innermost: {'; '.join(where)}"
                _add(rows, {"number": died, "name": "", "wrong": wrong, "code": None})
        return [json.loads(line) for line in rows.read_text("utf-8").splitlines()]


def _add(rows: Path, row: dict[str, Any]) -> None:
    with rows.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def _work(name: str, seed: int, start: int, stop: int, rows: Path) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    root = Path(tempfile.mkdtemp())
    os.environ |= {"MEDSTRESS_CACHE": str(root / "cache"), "MEDSTRESS_STATE": str(root / "state")}
    os.environ |= {"HF_HUB_OFFLINE": "1", "COLUMNS": "100"}
    for warm in (name, "jsonl", "iob", "pairs"):  # else the first case is blamed for imports
        run_case(make(warm, 0, 0), Path(tempfile.mkdtemp()))
    for number in range(start, stop):
        folder = root / "case"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        case = make(name, seed, number)
        wrong, code = run_case(case, folder)
        faulthandler.cancel_dump_traceback_later()
        _add(rows, {"number": number, "name": case.name[:200], "wrong": wrong, "code": code})
    os.chdir("/")


if __name__ == "__main__":
    asked, of_seed, first, last, to = sys.argv[1:]
    _work(asked, int(of_seed), int(first), int(last), Path(to))
