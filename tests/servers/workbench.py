"""A small experiment on disk: twelve questions, forty names, a victim that logs what it is asked.

`bench` and `workbench` of tests/conftest.py give it to tests.
"""

import json
import multiprocessing
import os
import pkgutil
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from medstress.api.run import Run
from medstress.cli.app import medstress_cli
from medstress.core.calls import Choose, ModelIdentity, Request
from medstress.engine.trial import FLIP_CHECK_SAMPLE
from medstress.experiment import first
from medstress.store.chain import RUN_CHAIN, link, wrong_rows
from question_rows import write_rows
from rows import rows_of

VICTIM = '''
"""Right for most prompts; wrong or unreadable where a hash of the prompt says so."""

import hashlib
import json
import os
import re
import time


def answer(prompts):
    """Log what was received in one write, then take a while."""
    log = os.environ.get("VICTIM_LOG")
    if log:
        lines = "".join(json.dumps([os.getpid(), prompt]) + "\\n" for prompt in prompts)
        descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(descriptor, lines.encode())
        os.close(descriptor)
    time.sleep(float(os.environ.get("VICTIM_DELAY", "0")))
    while os.path.exists(os.environ.get("VICTIM_HOLD", "")) or _has_enough(log):
        time.sleep(0.01)
    return [_answer(prompt) for prompt in prompts]


def _has_enough(log):
    """Whether the log is so long that nothing more is to be answered."""
    most = int(os.environ.get("VICTIM_MOST_LINES", "0"))
    return most and open(log, "rb").read().count(b"\\n") >= most


def _answer(prompt):
    number = re.search(r"case +([0-9]+)", prompt.replace('\\n', ' '))
    if number is None:  # a prompt with masked words
        return "A"
    key = "ABCD"[int(number[1]) % 4]
    luck = hashlib.sha256(prompt.encode()).digest()[0]
    if luck < 12:
        return "no idea"
    if luck < 40:
        return {"answer": "ABCD"["BCDA".index(key)]}
    if luck < 140:
        return key
    return {"scores": {letter: 0.7 if letter == key else 0.1 for letter in "ABCD"}}
'''

FIRST = ("abi", "bela", "cori", "dana", "evo", "fluda", "gra", "hepi", "ivo", "jura")
LAST = ("mycin", "prazole", "statin", "olol")
NAMES = tuple(a + b for b in LAST for a in FIRST)


def questions(n: int = 12, context: str = "") -> list[dict[str, Any]]:
    """Questions with four drugs; the third mentions none."""
    rows = []
    for i in range(n):
        options = [f"{kind}{i}zumab" for kind in ("tora", "ulo", "vexi", "wara")]
        mentions = [
            {"field": "ABCD"[j], "start": 0, "end": len(text), "type": "T121"}
            for j, text in enumerate(options)
        ]
        rows.append(
            {
                "id": f"q{i}",
                "context": context,
                "stem": f"What treats case {i}?",
                "options": options,
                "answer_idx": "ABCD"[i % 4],
                "mentions": [] if i == 2 else mentions,
            }
        )
    return rows


def toml(tables: Mapping[str, Any]) -> str:
    """Tables as TOML; values are what TOML and JSON write alike."""
    lines: list[str] = []
    for table, value in tables.items():
        for row in value if isinstance(value, list) else [value]:
            lines.append(f"[[{table}]]" if isinstance(value, list) else f"[{table}]")
            lines += [f"{key} = {_value(entry)}" for key, entry in row.items()]
            lines.append("")
    return "\n".join(lines)


def _value(entry: Any) -> str:
    if isinstance(entry, dict):
        return "{" + ", ".join(f"{key} = {_value(value)}" for key, value in entry.items()) + "}"
    return json.dumps(entry)


@dataclass(frozen=True)
class Snapshot:
    """What a run folder held at one moment."""

    dispatched: tuple[bytes, ...]
    interrupted: tuple[bytes, ...]
    answered: frozenset[bytes]


class Bench:
    """One folder with an experiment in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.out = root / "run"
        self.log = root / "log.jsonl"
        self.tables: dict[str, Any] = {
            "experiment": {"controls": False, "name": "bench", "seeds": [0, 1]},
            "dataset": [{"name": "table", "path": "items.jsonl", "label": "cases"}],
            "entities": [{"type": "drugs", "vocabulary": "names.txt", "embedding": "ngram"}],
            "victim": [
                {
                    "name": "careful",
                    "backend": "python",
                    "target": "victim.py:answer",
                    "batch_size": 3,
                }
            ],
            "attack": [
                self.attack("random"),
                self.attack("pdws", n=-5),
                self.attack("nearest"),
                self.attack("farthest"),
            ],
        }
        self.write_items(questions())
        (root / "names.txt").write_text("\n".join(NAMES), encoding="utf-8")
        (root / "victim.py").write_text(VICTIM, encoding="utf-8")

    def embed_words(self) -> None:
        """Give every name and option a vector of its own; n-grams of these names are all alike."""
        words = [*NAMES, *(text for row in questions(60) for text in row["options"])]
        drawn = np.random.default_rng(0).standard_normal((len(words), 6))
        lines = (" ".join([w, *map(str, v)]) for w, v in zip(words, drawn.round(4), strict=True))
        (self.root / "words.vec").write_text("\n".join(lines) + "\n", encoding="utf-8")
        self.tables["entities"][0]["embedding"] = "words.vec"

    @staticmethod
    def attack(sampler: str, **keys: Any) -> dict[str, Any]:
        """One attack table, labelled after its sampler."""
        base = {"name": "entity_substitution", "label": sampler, "sampler": sampler, "budget": 5}
        return {**base, **keys}

    def write_items(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write the data set."""
        write_rows(self.root / "items.jsonl", rows)

    def write(self) -> Path:
        """Write the experiment file."""
        path, text = self.root / "experiment.toml", toml(self.tables)
        # Left alone where it says so already: another process may be reading it.
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, encoding="utf-8")
        return path

    def arguments(self, *extra: str, out: Path | None = None) -> list[str]:
        """The arguments of `medstress` that run the experiment."""
        return ["run", str(self.write()), "--out", str(out or self.out), "--quiet", *extra]

    def run(self, *extra: str, out: Path | None = None) -> int:
        """Run in this process."""
        return medstress_cli(self.arguments(*extra, out=out))

    def enter(self, patch: pytest.MonkeyPatch) -> "Bench":
        """Let runs in this process be logged and instant."""
        patch.setenv("VICTIM_LOG", str(self.log))
        patch.setenv("VICTIM_DELAY", "0")
        return self

    def finished(self) -> "Bench":
        """Run once, to the end."""
        with pytest.MonkeyPatch.context() as patch:
            assert self.enter(patch).run() == 0
        return self

    def environment(self, delay: float = 0.0, log: Path | None = None) -> dict[str, str]:
        """The environment of a run in a process of its own."""
        return {**os.environ, "VICTIM_LOG": str(log or self.log), "VICTIM_DELAY": str(delay)}

    def start(
        self,
        *extra: str,
        out: Path | None = None,
        delay: float = 0.0,
        log: Path | None = None,
        hold: Path | None = None,
        most_lines: int = 0,
    ) -> subprocess.Popen[str]:
        """Run in a process of its own.

        Its victim answers nothing while the file `hold` is, or once its log has `most_lines`.
        """
        stops = {"VICTIM_HOLD": str(hold or ""), "VICTIM_MOST_LINES": str(most_lines)}
        stops |= temporary(self.root)
        return subprocess.Popen(
            [sys.executable, "-m", "medstress", *self.arguments(*extra, out=out)],
            env=self.environment(delay, log) | stops,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def received(self, log: Path | None = None) -> list[tuple[int, str]]:
        """(process, prompt) of everything the victim was asked so far."""
        path = log or self.log
        if not path.exists():
            return []
        return [tuple(json.loads(line)) for line in path.read_text("utf-8").splitlines()]

    def rows(self, out: Path | None = None) -> list[Any]:
        """The trials of a run."""
        return rows_of(out or self.out)

    def summary(self, out: Path | None = None) -> dict[str, Any]:
        """The numbers of a run."""
        return Run(out or self.out).summary()

    def prompts_by_key(self, out: Path, prompts: Iterable[str]) -> dict[bytes, str]:
        """Cache key -> prompt, for first questions and flip checks alike."""
        model = Run(out).manifest()["victims"]["careful"]
        identity = ModelIdentity(name=model["model"], hash=model["model_hash"])
        return {
            Request(Choose(prompt, "ABCD"), sample).key(identity): prompt
            for prompt in prompts
            for sample in (0, FLIP_CHECK_SAMPLE)
        }


def snapshot(folder: Path, scratch: Path) -> Snapshot:
    """Look at a copy of a run folder, so that looking changes nothing."""
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    for path in folder.glob("run.sqlite*"):
        shutil.copy(path, scratch)
    if not (scratch / "run.sqlite").exists():
        return Snapshot((), (), frozenset())
    db = sqlite3.connect(scratch / "run.sqlite")
    try:
        if db.execute("PRAGMA user_version").fetchone()[0] == 0:
            return Snapshot((), (), frozenset())
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)

        def column(query: str) -> list[Any]:
            return [row[0] for row in db.execute(query)]

        return Snapshot(
            tuple(sorted(in_flight(column("SELECT calls FROM dispatched")))),
            tuple(column("SELECT key FROM interrupted ORDER BY rowid")),
            frozenset(column("SELECT key FROM answers")),
        )
    finally:
        db.close()


def in_flight(batches: Iterable[str]) -> Iterator[bytes]:
    """Keys of the calls that a journal holds."""
    for calls in batches:
        for key, _ in json.loads(calls):
            yield bytes.fromhex(key)


def wait_until(true: Any, process: subprocess.Popen[str], seconds: float = 60.0) -> None:
    """Poll until `true()` holds or the process has ended."""
    end = time.monotonic() + seconds
    while not true() and process.poll() is None:
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.01)


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a process that ends by itself."""
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def stop(process: subprocess.Popen[str]) -> None:
    """End a process that a test left behind."""
    if process.poll() is None:
        process.kill()
    process.communicate()


def ledger(summary: Mapping[str, Any]) -> Counter[str]:
    """The query counts of all rows together."""
    total: Counter[str] = Counter()
    for row in summary["results"]:
        total.update(row["queries"])
    return total


def numbers(summary: Mapping[str, Any]) -> dict[str, Any]:
    """A summary without times and without what only an interruption leaves behind."""
    kept = json.loads(json.dumps(dict(summary)))
    kept.pop("performance")
    for name in ("started", "finished"):
        kept["experiment"].pop(name)
    for row in [*kept["results"], *kept["by_seed"]]:
        row["queries"].pop("interrupted")
    return kept


FORKS = multiprocessing.get_context("forkserver")
"""Processes that begin as copies of one which has imported this module: a start is no second."""
FORKS.set_forkserver_preload([__name__])


def die(
    target: str, n: int, when: str, environment: Mapping[str, str], arguments: list[str]
) -> None:
    """Run `medstress`, and kill this process before or after a function's n-th call."""
    os.environ.update(environment)
    tempfile.tempdir = None
    place, _, name = target.rpartition(".")
    module, left = pkgutil.resolve_name(place), n
    ordinary = getattr(module, name)

    def dying(*given: Any, **named: Any) -> Any:
        nonlocal left
        left -= 1
        answer = ordinary(*given, **named) if left or when == "after" else None
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    setattr(module, name, dying)
    if arguments[0] == "demo":
        first.demo = lambda: environment["DEMO"]
    medstress_cli(arguments)


def start(
    folder: Path, arguments: list[str], log: str = "log.txt", delay: float = 0.0
) -> subprocess.Popen[bytes]:
    """Start `medstress` in a folder whose victims log what they are asked, each after a delay."""
    environment = {**os.environ, "LOG": str(folder / log), "DELAY": str(delay)}
    environment |= temporary(folder)
    with (folder / "err.txt").open("a") as errors:
        return subprocess.Popen(
            [sys.executable, "-m", "medstress", *arguments, "--quiet"],
            cwd=folder,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )


def finished(folder: Path, arguments: list[str], log: str = "log.txt") -> None:
    """Run `medstress` in a folder whose victims log, in this process, which has it imported."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("LOG", str(folder / log))
        assert medstress_cli([*arguments, "--quiet"]) == 0


def temporary(folder: Path) -> dict[str, str]:
    """Variables that give a process a temporary folder of its own."""
    (folder / "tmp").mkdir(exist_ok=True)
    return {"TMPDIR": str(folder / "tmp")}


def n_logged(path: Path) -> int:
    """How many lines a log has so far."""
    return path.read_bytes().count(b"\n") if path.is_file() else 0


def logged(folder: Path, log: str) -> Counter[str]:
    """What the victims were asked, and how often."""
    path = folder / log
    return Counter(path.read_text("utf-8").splitlines() if path.is_file() else [])


@contextmanager
def forged(folder: Path) -> Iterator[sqlite3.Connection]:
    """Change a run's database; then its digests and its chain are made again, without a root."""
    with closing(sqlite3.connect(folder / "run.sqlite")) as db, db:
        yield db
        left = db.execute("SELECT id FROM verdicts ORDER BY id").fetchall()
        for at, (row,) in enumerate(left, start=1):  # rows have no gaps
            db.execute("UPDATE verdicts SET id = ? WHERE id = ?", (at, row))
        for one in list(wrong_rows(db)):
            digest = bytes.fromhex(one.found)
            db.execute("UPDATE verdicts SET digest = ? WHERE id = ?", (digest, one.row))
        db.execute("UPDATE manifest SET key = 'forgotten' WHERE key = 'root'")
        db.execute("DELETE FROM commits")
        link(db, RUN_CHAIN)
