"""Run cases through the command line in worker processes, each watched by the clock and its memory.

A case is a number of a format: the seed, the format and the number make it, so any one can be made
again. What is wrong with a case is one sentence; a case that nothing is wrong with leaves none.
"""

import contextlib
import faulthandler
import io
import multiprocessing
import os
import resource
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from random import Random
from typing import Any

from . import (
    command_lines,
    data_files,
    gguf_files,
    question_forms,
    run_folders,
    server_replies,
    toml_files,
)
from .case import REFUSED, Case, Rows

SECONDS = 10
"""A case that takes longer hangs."""
GROWTH = 512 * 2**20
"""Bytes that one case may add to the most that its process ever held."""
CHUNK = 25
"""Cases handed to a worker at once."""

Source = Callable[[Random], Iterator[Case]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Some cases of one format, one after the other."""

    format: str
    seed: int
    start: int
    stop: int


def formats() -> dict[str, Callable[[int, int], Case]]:
    """Every format: (seed, number) -> case."""
    return {
        "toml": _numbered("toml", toml_files.cases),
        "jsonl": _numbered("jsonl", data_files.jsonl),
        "csv": _numbered("csv", question_forms.csv),
        "forms": _numbered("forms", question_forms.forms),
        "attacked": _numbered("attacked", data_files.attacked),
        "iob": _numbered("iob", data_files.iob),
        "pubtator": _numbered("pubtator", data_files.pubtator),
        "brat": _numbered("brat", data_files.brat),
        "pairs": _numbered("pairs", data_files.pairs),
        "token_rows": _numbered("token_rows", data_files.token_rows),
        "annotations": _numbered("annotations", data_files.spans),
        "tables": _numbered("tables", data_files.tables),
        "gguf": _numbered("gguf", gguf_files.cases),
        "server": _numbered("server", server_replies.cases),
        "run_folder": _numbered("run_folder", run_folders.cases),
        "command": _numbered("command", command_lines.cases),
    }


def make(format: str, seed: int, number: int) -> Case:  # noqa: A002 - the word for it
    """The case that a seed, a format and a number name."""
    return formats()[format](seed, number)


def _numbered(name: str, source: Source) -> Callable[[int, int], Case]:
    return lambda seed, number: next(source(Random(f"{seed}:{name}:{number}")))


def run_case(case: Case, folder: Path) -> tuple[str | None, int | None]:
    """Run one case in this process.

    Args:
        case: what is run.
        folder: an empty one.

    Returns:
        What is wrong, or None; and the exit code.
    """
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
    said = out.getvalue() + err.getvalue()
    grown = _most_held() - before
    wrong = _complaint(case, code, said, err.getvalue())
    if wrong is None and grown > GROWTH:
        wrong = f"took {grown // 2**20} MiB"
    if wrong is None and case.rows is not None:
        wrong = _lost_rows(case.rows, folder)
    if wrong is None and case.check is not None:
        wrong = case.check(folder)
    return wrong, code


def _complaint(case: Case, code: int, said: str, err: str) -> str | None:
    last = err.strip().splitlines()[-1:] or [""]
    if "Traceback (most recent call last)" in said:
        return f"a traceback: {last[0][:300]}"
    if "bug of medstress" in said:
        return f"called a bug: {last[0][:300]}"
    if code not in case.codes:
        return f"exit code {code}: {last[0][:300]}"
    if code == REFUSED and not last[0].startswith("medstress: "):
        return f"refused without a sentence: {last[0][:300]!r}"
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
    kept = loaded.questions if hasattr(loaded, "questions") else loaded.items
    if len(kept) + len(loaded.skipped) == rows.given:
        return None
    return f"{len(kept)} rows kept, {len(loaded.skipped)} skipped, {rows.given} given"


def _most_held() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def run_chunks(
    chunks: Sequence[Chunk], workers: int, done: Callable[[Chunk, list[dict[str, Any]]], None]
) -> None:
    """Run chunks in workers; `done` is told of each with one row a case."""
    context = multiprocessing.get_context("spawn")
    waiting = list(reversed(chunks))
    running: dict[Connection, _Worker] = {}
    for _ in range(min(workers, len(waiting))):
        worker = _Worker(context)
        worker.give(waiting.pop())
        running[worker.connection] = worker
    while running:
        for connection in wait(list(running)):
            worker = running.pop(connection)  # type: ignore[call-overload]
            if worker.read():
                done(worker.chunk, worker.rows)
                if not waiting:
                    worker.close()
                    continue
                worker.give(waiting.pop())
            running[worker.connection] = worker  # another one where it had to be started again


class _Worker:
    """A process that runs chunks; one that dies is started again after the case that killed it."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self._log = Path(tempfile.mkstemp(prefix="fuzz-", suffix=".log")[1])
        self.rows: list[dict[str, Any]] = []
        self.chunk: Chunk
        self._start()

    def give(self, chunk: Chunk) -> None:
        self.chunk, self.rows = chunk, []
        self.connection.send((chunk.format, chunk.seed, chunk.start, chunk.stop))

    def read(self) -> bool:
        """Take one row; returns whether the chunk is done."""
        try:
            self.rows.append(self.connection.recv())
        except (EOFError, ConnectionError):
            self._restart()
        return self.chunk.start + len(self.rows) >= self.chunk.stop

    def close(self) -> None:
        self.connection.send(None)
        self._process.join()
        self._log.unlink(missing_ok=True)

    def _start(self) -> None:
        self.connection, theirs = self._context.Pipe()
        self._process = self._context.Process(target=_work, args=(theirs, str(self._log)))
        self._process.start()
        theirs.close()

    def _restart(self) -> None:
        self._process.join()
        told = self._log.read_text("utf-8", "replace")
        where = [line.strip() for line in told.splitlines() if line.lstrip().startswith("File ")]
        number = self.chunk.start + len(self.rows)
        wrong = f"hangs over {SECONDS} s" if "Timeout" in told else "the process died"
        wrong += f" (exit {self._process.exitcode}); innermost: {'; '.join(where[:6])}"
        self.rows.append({"number": number, "name": "", "wrong": wrong, "code": None})
        self._log.write_text("", "utf-8")
        self._start()
        left = number + 1
        if left < self.chunk.stop:
            self.connection.send((self.chunk.format, self.chunk.seed, left, self.chunk.stop))


def _work(connection: Connection, log: str) -> None:
    """What a worker does: chunks come in, rows go out."""
    stream = Path(log).open("a", encoding="utf-8")  # noqa: SIM115 - for as long as the process lives
    os.dup2(stream.fileno(), 2)
    os.dup2(stream.fileno(), 1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    root = Path(tempfile.mkdtemp(prefix="medstress-fuzz-"))
    os.environ |= {
        "MEDSTRESS_CACHE": str(root / "cache"),
        "HF_HUB_OFFLINE": "1",
        "TMPDIR": str(root),
        "COLUMNS": "100",
    }
    tempfile.tempdir = str(root)
    _warm_up(root)
    try:
        while (given := connection.recv()) is not None:
            name, seed, start, stop = given
            for number in range(start, stop):
                connection.send(_row(name, seed, number, root))
    except (EOFError, ConnectionError):
        pass
    finally:
        os.chdir("/")
        shutil.rmtree(root, ignore_errors=True)


def _warm_up(root: Path) -> None:
    """Import what the first case would otherwise be timed and weighed with."""
    for name in ("jsonl", "iob", "pairs", "server"):
        folder = root / "warm"
        folder.mkdir()
        case = make(name, 0, 0)
        run_case(case, folder)
        shutil.rmtree(folder, ignore_errors=True)


def _row(name: str, seed: int, number: int, root: Path) -> dict[str, Any]:
    folder = root / "case"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    faulthandler.dump_traceback_later(SECONDS, exit=True)
    try:
        case = make(name, seed, number)
        wrong, code = run_case(case, folder)
    finally:
        faulthandler.cancel_dump_traceback_later()
    sys.stdout.flush()
    return {"number": number, "name": case.name[:200], "wrong": wrong, "code": code}
