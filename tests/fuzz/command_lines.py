"""Command lines with one thing wrong, in a folder with data, an experiment and a finished run."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from random import Random

from .case import FILES, Case, Write, questions
from .mutate import toml_text
from .run_folders import good_folder

CODES = frozenset({0, 1, 2, 3})
FIRST = ("--data", "items.jsonl", "--model", "mock", "--entities", "drugs")
LINES: tuple[tuple[str, ...], ...] = (
    ("check", "items.jsonl", "--limit", "2", "--to", "read.jsonl"),
    ("check", "items.jsonl", "--entities", "drugs", "--columns", "question=question"),
    ("run", *FIRST, "--attack", "none", "--out", "new", "--limit", "1"),
    ("run", *FIRST, "--budget", "2", "--answer-base", "0", "--dry-run", "--to", "to.toml"),
    ("run", "experiment.toml", "--out", "new", "--limit", "1", "--quiet", "--junit", "j.xml"),
    ("run", "experiment.toml", "--out", "new", "--set", "attack.budget=1", "--retry-failed"),
    ("run", "experiment.toml", "--out", "run", "--fresh", "--limit", "1"),
    ("run", "experiment.toml", "--shard", "1/2", "--out", "new"),
    ("run", "araujo2020-table2", "--dry-run", "--limit", "1"),
    ("summary", "run", "--wide"),
    ("summary", "run", "--json"),
    ("summary", "run", "--markdown", "page.md", "--junit", "j.xml"),
    ("report", "run", "--out", "report.html"),
    ("case", "run"),
    ("compare", "run", "run", "--metric", "asr", "--margin", "0.1"),
    ("compare", "run", "run", "--factor", "attack", "--json", "--markdown", "page.md"),
    ("tune", "experiment.toml", "--out", "new", "--dry-run"),
    ("perturb", "experiment.toml", "--to", "out.jsonl", "--limit", "1", "--set", "attack.budget=1"),
    ("test", "run", "--yes"),
    ("explain", "run", "--all", "--experiment", "experiment.toml", "--dry-run"),
    ("export", "run", "--table", "trials", "--to", "rows.csv"),
    ("export", "run", "--table", "attacked", "--to", "rows.jsonl"),
    ("figures", "run", "--out", "pictures", "--paper", "medfuzz2024", "--format", "csv"),
    ("review", "run", "--export", "cases.html", "--sample", "2", "--seed", "1"),
    ("review", "run", "--import", "items.jsonl", "--mode", "judge"),
    ("verify", "run", "--root", "0" * 32),
    ("verify", "run", "--json", "--experiment", "experiment.toml"),
    ("merge", "run", "run", "--out", "new"),
    ("cache", "info"),
    ("cache", "prune"),
    ("list", "attacks"),
)
ODD = (
    *("", " ", "-", "--", "0", "-1", "1.5", "1e999", "nan", "9" * 30, "0/0", "3/2", "true"),
    *("é\u202egnp", "\x1b[31m", "a\nb", "\udcff", "a" * 5_000, "[[[]]]", "{}", "a=b", "=", ".a=1"),
    *("*", "~", "%s", "$(id)", "`id`", "'", '"', "run#mock", "run#", "module:function"),
    *("/dev/null", "/dev/zero", "/proc/self/mem", "nowhere", "nowhere/at/all", ".", "pipe"),
    *("items.jsonl", "run", "experiment.toml", "names.csv", "run/run.sqlite", "victim.py:answer"),
    *("--json", "--out", "--o", "--quiet=1", "--unknown", "-x", "--help", "--version"),
)


def case(rng: Random) -> Case:
    """A command line."""
    words = list(rng.choice(LINES))
    at, odd = rng.randrange(len(words)), rng.choice(ODD)
    match rng.randrange(6):
        case 0:
            del words[at]
        case 1:
            words.insert(at, words[at])
        case 2:
            words.insert(at + 1, odd)
        case 3:
            words[at] = words[at][: rng.randrange(len(words[at]))] + odd[:9]
        case _:
            words[max(at, 1)] = odd
    return Case(name=" ".join(words)[:200], write=_writer(words), codes=CODES)


def _writer(words: Sequence[str]) -> Write:
    def write(folder: Path) -> Sequence[str]:
        shutil.copytree(good_folder(), folder / "run")
        for name, content in FILES.items():
            (folder / name).write_text(content, "utf-8")
        (folder / "experiment.toml").write_text(toml_text(questions()), "utf-8")
        os.mkfifo(folder / "pipe")
        return words

    return write
