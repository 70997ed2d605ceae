"""Type what a newcomer types, with a clock: from a CSV and from a model of one's own to a verdict.

    python scripts/first_steps.py
    python scripts/first_steps.py --keys-per-second 1000 --pause 0 --to page.md    # only what waits

A shell runs in a pseudo-terminal; every character is typed at the pace of a slow typist, after a
pause for reading. Both walks must reach a verdict within five minutes, or the script fails. It
writes docs/results/first-steps.md.
"""

from __future__ import annotations

import argparse
import csv
import fcntl
import json
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))

from bench import machine  # type: ignore[import-not-found]
from pages import blocks, table  # type: ignore[import-not-found]

from medstress.datasets.sample import load
from medstress.datasets.source import DatasetOptions
from medstress.version import __version__

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "results" / "first-steps.md"
MOST_SECONDS = 300
"""From the first key of a walk to its verdict."""
MOST_WAITING = 240
"""Seconds that one line may take before the script gives up."""
LETTERS = "ABCD"
MODEL = '''import re


def answer(prompts):
    """Answer every question with its longest option."""
    return [longest(prompt) for prompt in prompts]


def longest(prompt):
    options = re.findall(r"^([A-J]): (.+)$", prompt, re.M)
    return max(options, key=lambda option: len(option[1]))[0]
'''
"""The model of one's own: it has one weakness, which an attack must find."""
_PROMPT = re.compile(rb"\[(\d+)\]\$ $")
_QUESTION = re.compile(rb"\]: $")
_CONTROL = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|\r")


@dataclass(frozen=True, slots=True)
class Line:
    """One line that is typed."""

    text: str
    """What is typed; empty: only the Enter key."""
    is_answer: bool = False
    """Whether a question of `medstress init` comes next, and not the shell."""


@dataclass(frozen=True, slots=True)
class Walk:
    """One way to a verdict."""

    title: str
    """What there is at the beginning, and what is wanted."""
    lines: tuple[Line, ...]
    """What is typed."""
    run: str
    """The run folder in which the verdict stands."""


@dataclass(frozen=True, slots=True)
class Typed:
    """A line, and its clock."""

    asked: str
    """The question that it answers; empty for a command."""
    text: str
    """What was typed."""
    typing_seconds: float
    """Reading what stands there, and typing."""
    waiting_seconds: float
    """Until the next line could be typed."""


WALKS = (
    Walk(
        title="From a CSV to a verdict, with a file that one can edit",
        lines=(
            Line("medstress check questions.csv"),
            Line("medstress init", is_answer=True),
            Line("", is_answer=True),
            Line("my_model.py:answer", is_answer=True),
            Line("drugs", is_answer=True),
            Line("", is_answer=True),
            Line(""),
            Line("medstress run experiment.toml --dry-run"),
            Line("medstress run experiment.toml"),
            Line("medstress report runs/questions-my_model.py-answer-drugs"),
        ),
        run="runs/questions-my_model.py-answer-drugs",
    ),
    Walk(
        title="From a model of one's own to a verdict, without a file",
        lines=(
            Line("medstress run --data sample --model my_model.py:answer"),
            Line("medstress report runs/sample-my_model.py-answer"),
        ),
        run="runs/sample-my_model.py-answer",
    ),
)


class Shell:
    """A shell in a pseudo-terminal of 80 columns, in which keys are typed one by one."""

    def __init__(self, folder: Path, keys_per_second: float) -> None:
        self._wait = 1 / keys_per_second
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 80, 0, 0))
        environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PS1": "[$?]$ ",
            "TERM": "xterm",
            "COLUMNS": "80",
            "PROMPT_COMMAND": "",
            "INPUTRC": os.devnull,
        }
        self._process = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "-i"],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment,
            cwd=folder,
            start_new_session=True,
        )
        os.close(theirs)
        self.shown = self._until(_PROMPT)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        os.close(self._ours)  # the shell ends with its terminal
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def type(self, line: Line, pause: float) -> Typed:
        """Type one line and wait until the next can be typed.

        Raises:
            SystemExit: the command failed, or took too long.
        """
        asked = "" if _PROMPT.search(self.shown) else _plain(self.shown).splitlines()[-1].strip()
        started = time.monotonic()
        time.sleep(pause)
        for key in line.text:
            os.write(self._ours, key.encode())
            time.sleep(self._wait)
        os.write(self._ours, b"\n")
        entered = time.monotonic()
        self.shown = self._until(_QUESTION if line.is_answer else _PROMPT)
        ended = _PROMPT.search(self.shown)
        if ended and (line.is_answer or ended[1] != b"0"):
            raise SystemExit(f"{line.text!r} failed:\n{_plain(self.shown)}")
        return Typed(asked, line.text, entered - started, time.monotonic() - entered)

    def _until(self, end: re.Pattern[bytes]) -> bytes:
        """Return what the terminal shows until a pattern, or the shell's prompt, stands there."""
        shown, limit = b"", time.monotonic() + MOST_WAITING
        while time.monotonic() < limit:
            if not select.select([self._ours], [], [], 1)[0]:
                continue
            shown += os.read(self._ours, 65536)
            plain = _CONTROL.sub(b"", shown)
            if end.search(plain) or _PROMPT.search(plain):
                return plain
        raise SystemExit(f"nothing after {MOST_WAITING} seconds:\n{_plain(shown)}")


def _plain(shown: bytes) -> str:
    return _CONTROL.sub(b"", shown).decode("utf-8", "replace")


def write_csv(path: Path) -> None:
    """Write sample questions as a spreadsheet program would: no ids, a column for each option."""
    questions = load(DatasetOptions()).questions
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["Question", *LETTERS, "Answer"])
        writer.writerows([item.question, *item.options, item.key] for item in questions)


def walked(walk: Walk, folder: Path, keys_per_second: float, pause: float) -> list[Typed]:
    """Type a walk in a folder that holds a CSV and a model.

    Raises:
        SystemExit: a command fails.
    """
    write_csv(folder / "questions.csv")
    (folder / "my_model.py").write_text(MODEL, encoding="utf-8")
    with Shell(folder, keys_per_second) as shell:
        return [shell.type(line, pause) for line in walk.lines]


def verdict_of(folder: Path) -> str:
    """Return the first sentence of a run.

    Raises:
        SystemExit: it has none.
    """
    told = subprocess.run(
        [sys.executable, "-m", "medstress", "summary", str(folder), "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    sentence = str(json.loads(told.stdout)["verdict"]["sentence"] or "")
    if not sentence:
        raise SystemExit(f"{folder.name}: no verdict")
    return sentence


def seconds_of(typed: Iterable[Typed]) -> float:
    """Return the time from the first key to the last answer."""
    return sum(each.typing_seconds + each.waiting_seconds for each in typed)


def clock(typed: Sequence[Typed]) -> str:
    """Return a walk as a table, with the clock behind every line."""
    rows, at = [], 0.0
    for each in typed:
        at += each.typing_seconds + each.waiting_seconds
        minutes, seconds = divmod(round(at), 60)
        typed_text = f"`{each.text}`" if each.text else "(Enter)"
        what = f"{each.asked} {typed_text}".strip()
        typing, waiting = (f"{s:.1f}" for s in (each.typing_seconds, each.waiting_seconds))
        rows.append([what, len(each.text) + 1, typing, waiting, f"{minutes}:{seconds:02}"])
    heads = ["typed", "keys", "reading and typing, s", "waiting, s", "clock"]
    return str(table(heads, rows))


def page(
    found: Sequence[tuple[Walk, Sequence[Typed], str]], keys_per_second: float, pause: float
) -> str:
    """Return the page."""
    on = machine()
    longest = max(seconds_of(typed) for _, typed, _ in found)
    head = blocks(
        "<!-- Written by scripts/first_steps.py; do not edit. -->",
        "# First steps, with a clock",
        f"**From a CSV, or a model of one's own, to a verdict in {longest:.0f} seconds or less**: "
        f"what a newcomer types, {keys_per_second:g} keys a second (a slow typist), after "
        f"{pause:g} seconds of reading before each line. medstress {__version__} is installed; no "
        "model is loaded before. The script fails where a walk takes more than five minutes.",
        f"Machine: {on['cpu']}, {on['cores']} cores, {on['memory_gb']} GB, {on['os']}, no GPU "
        f"used; {datetime.now(UTC):%Y-%m-%d}. Command: `python scripts/first_steps.py`.",
        "The folder holds `questions.csv` (the 200 sample questions without ids, with the columns "
        "Question, A, B, C, D and Answer) and `my_model.py`, which answers with the longest "
        "option:",
        f"```python\n{MODEL}```",
    )
    parts = [
        blocks(f"## {walk.title}", clock(typed), f"The verdict: {sentence}")
        for walk, typed, sentence in found
    ]
    text = blocks(head, *parts, "[What each step shows](../first-steps.md).")
    return f"{text}\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Time all walks and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--keys-per-second", type=float, default=3.0, help="of the typist (3)")
    parser.add_argument("--pause", type=float, default=5.0, help="seconds before each line (5)")
    parser.add_argument("--to", type=Path, default=PAGE, help=f"default: {PAGE.relative_to(ROOT)}")
    args = parser.parse_args(arguments)
    found = []
    for walk in WALKS:
        folder = Path(tempfile.mkdtemp(prefix="first-steps-"))
        try:
            typed = walked(walk, folder, args.keys_per_second, args.pause)
            found.append((walk, typed, verdict_of(folder / walk.run)))
        finally:
            shutil.rmtree(folder)
        print(
            f"{walk.title}: {seconds_of(typed):.0f} s\n{clock(typed)}\n{found[-1][2]}\n", flush=True
        )
    args.to.write_text(page(found, args.keys_per_second, args.pause), encoding="utf-8")
    print(args.to)
    late = [walk.title for walk, typed, _ in found if seconds_of(typed) > MOST_SECONDS]
    if late:
        print(f"more than {MOST_SECONDS} seconds: {'; '.join(late)}", file=sys.stderr)
    return 1 if late else 0


if __name__ == "__main__":
    raise SystemExit(main())
