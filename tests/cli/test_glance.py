"""`summary` at 80 columns: every kind of run, on a terminal and in a pipe."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len

import medstress as ms
from goldens import GOLDENS, written_to
from goldens import medstress as run_command
from medstress.api.run import Run
from medstress.cli.app import medstress_cli
from medstress.report.formats import number

pytestmark = pytest.mark.release

STYLE = re.compile("\x1b\\[[0-9;]*m")
PAIRS = "id\ttext_a\ttext_b\tscore\n" + "".join(
    f"p{i}\tAspirin relieves pain {i}\tAspirin relieves pain {i} {'more ' * (i % 3)}\t{i % 5}\n"
    for i in range(8)
)
VICTIMS = """
def overlap(pairs):
    sets = [(set(a.lower().split()), set(b.lower().split())) for a, b in pairs]
    return [len(a & b) / len(a | b) for a, b in sets]
"""
NOISE = [
    {"name": "swap_noise", "scope": "all", "label": "swap"},
    {
        "name": "keyboard_noise",
        "scope": "all",
        "label": "keyboard with a very long label of its own",
    },
]


class Terminal(io.StringIO):
    """A terminal, as far as Python asks."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch):
    """The command line on a terminal: `terminal(*arguments, columns=80)` -> what it shows."""
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")

    def call(*arguments: object, columns: int = 80) -> str:
        monkeypatch.setenv("COLUMNS", str(columns))
        stream = Terminal()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", stream)
            medstress_cli([str(argument) for argument in arguments])
        return stream.getvalue()

    return call


def golden(name: str, root: Path) -> Path:
    with written_to(root, GOLDENS[name]):
        assert run_command("run", "e.toml", "--out", "run", "--quiet")[0] == 0
    return root / "run"


def of_pairs(kind: str, root: Path, monkeypatch) -> Path:
    """A run on pairs with scores."""
    monkeypatch.chdir(root)
    (root / "victims.py").write_text(VICTIMS, encoding="utf-8")
    (root / "pairs.tsv").write_text(PAIRS, encoding="utf-8")
    dataset, target = {"name": "pairs", "path": "pairs.tsv"}, "overlap"
    ms.run(
        {
            "experiment": {"controls": False, "name": kind, "seeds": [0, 1, 2]},
            "dataset": [dataset],
            "victim": [{"backend": "python", "target": f"victims.py:{target}"}],
            "attack": NOISE,
        },
        root / "run",
    )
    return root / "run"


def controlled(bench) -> Path:
    """Questions whose attacks have two controls, and criteria."""
    del bench.tables["experiment"]["controls"]
    bench.tables["experiment"]["controls"] = ["no_op", "same_type"]
    bench.tables["experiment"]["seeds"] = [0, 1, 2]
    bench.tables["attack"] = [bench.attack("random", budget=3), bench.attack("nearest", budget=3)]
    bench.tables["require"] = [
        {"metric": "asr", "max_high": 0.2, "where": {"attack": "nearest"}},
        {"metric": "accuracy", "min_low": 0.1},
    ]
    bench.run()
    return bench.out


def partial(bench) -> Path:
    bench.run("--set", "experiment.max_queries=7")
    return bench.out


KINDS = ("letter", "documents", "medfuzz", "pairs", "controlled", "partial")


@pytest.fixture
def folder_of(bench, tmp_path, monkeypatch):
    """Make a run of a kind."""

    def make(kind: str) -> Path:
        root = tmp_path / "of-kinds"
        root.mkdir()
        if kind == "pairs":
            return of_pairs(kind, root, monkeypatch)
        if kind in ("controlled", "partial"):
            return {"controlled": controlled, "partial": partial}[kind](bench)
        return golden(kind, root)

    return make


def shown_numbers(row: dict) -> list[str]:
    """What the first table has to show of a row: a score, or what was lost."""
    for name in ("pearson", "f1", "macro_f1"):
        if name in row:
            parts = [part for part in (name, f"{name}_after") if part in row]
            return [number(row[part]["value"], "score") for part in parts]
    loss = row["asr"]
    if not loss["n"]:
        return []
    value, low, high = (number(loss[name], "share") for name in ("value", "low", "high"))
    return [value, f"{loss['hits']:,}/{loss['n']:,}", f"[{low}, {high}]"]


def attacks_of(folder: Path) -> list[dict]:
    return [row for row in Run(folder).summary()["results"] if "control_of" not in row]


def too_wide(text: str, columns: int, folder: Path) -> list[str]:
    """Lines that are wider than the terminal; a path or a command is not broken."""
    lines = [line for line in text.splitlines() if cell_len(line) > columns]
    return [line for line in lines if str(folder) not in line and "next: " not in line]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_run_fits_80_columns_and_keeps_its_numbers_whole(
    kind, folder_of, terminal, medstress
):
    folder = folder_of(kind)
    shown = STYLE.sub("", terminal("summary", folder))
    assert not too_wide(shown, 80, folder)
    rows = attacks_of(folder)
    assert rows
    for row in rows:
        assert all(text in shown for text in shown_numbers(row)), row["attack"]
    if len(rows) <= 3:
        assert len(shown.splitlines()) <= 50
    piped = medstress("summary", folder).out
    assert "\x1b" not in piped
    summary = Run(folder).summary()
    assert piped.splitlines()[:3] == summary["verdict"]["lines"]


@pytest.mark.parametrize("columns", [80, 400])
@pytest.mark.parametrize("kind", ["letter", "controlled", "pairs"])
def test_wide_has_every_row_and_number(kind, columns, folder_of, terminal, medstress):
    folder = folder_of(kind)
    shown = STYLE.sub("", terminal("summary", folder, "--wide", columns=columns))
    lines = [line.split() for line in shown.splitlines()]
    for row in attacks_of(folder):
        ledger = [
            f"{row['queries'][name]:,}"
            for name in ("asked", "paid", "cached", "failed", "ahead", "baseline")
        ]
        assert any(" ".join(ledger) in " ".join(line) for line in lines)
        assert all(text in shown for text in shown_numbers(row)), row["attack"]
    told = medstress("summary", folder, "--wide")
    assert (told.code, told.err) == (3 if kind == "controlled" else 0, "")
    assert set(re.findall(r"[\w.]+", told.out)) == set(re.findall(r"[\w.]+", shown))


def test_control_arms_are_columns_of_their_attack(bench, medstress):
    folder = controlled(bench)
    told = medstress("summary", folder)
    assert not [line for line in told.out.splitlines() if line.startswith("nearest / ")]
    flat = medstress("summary", folder, "--wide").out
    assert "Harmless edits (no op)" in flat
    for row in attacks_of(folder):
        for control in row["control"].values():
            assert f"{control['hits']}/{control['n']}" in told.out


def test_many_seeds_have_one_row_an_attack(bench, medstress):
    bench.tables["experiment"]["seeds"] = list(range(12))
    bench.run()
    lines = medstress("summary", bench.out).out.splitlines()
    assert len([line for line in lines if line.startswith("random")]) == 1


def test_a_pipe_gets_whole_sentences_and_a_terminal_wrapped_ones(finished, terminal, medstress):
    piped = medstress("summary", finished.out).out
    sentence = Run(finished.out).summary()["verdict"]["lines"][0]
    assert sentence in piped.splitlines()
    shown = STYLE.sub("", terminal("summary", finished.out, columns=64))
    assert sentence not in shown
    assert sentence in " ".join(shown.split("\n"))
    assert max(map(cell_len, shown.splitlines()[:3])) <= 64


def test_colours_are_for_terminals_that_want_them(finished, terminal, monkeypatch):
    assert re.search("\x1b\\[[0-9;]*3[0-9]m", terminal("summary", finished.out))
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search("\x1b\\[[0-9;]*3[0-9]m", terminal("summary", finished.out))


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_stream_that_cannot_write_all_characters_gets_escapes(folder_of, monkeypatch, encoding):
    folder = folder_of("pairs")
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        assert medstress_cli(["summary", str(folder)]) == 0
        assert medstress_cli(["summary", str(folder), "--wide"]) == 0
    stream.flush()
    lines = [
        line.encode(encoding, "backslashreplace").decode(encoding)
        for line in Run(folder).summary()["verdict"]["lines"]
    ]
    assert raw.getvalue().decode(encoding).splitlines()[:3] == lines


def test_a_dumb_terminal_gets_no_codes(finished, terminal, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b" not in terminal("summary", finished.out)
