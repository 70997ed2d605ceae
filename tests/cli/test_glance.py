"""`summary` at 80 columns: every kind of run, on a terminal and in a pipe."""

from __future__ import annotations

import io
import json
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
from medstress.metrics.sentences.surrogates import name_lines
from medstress.report.criteria import verdict
from medstress.report.sections import headline_rows
from medstress.results.formats import count, decimal
from medstress.results.names import warnings_of
from medstress.summary import summary as summaries
from medstress.summary.verdict import sentences_of

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

def same(pairs):
    return ["entailment" if a[:3] == b[:3] else "neutral" for a, b in pairs]
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
    """A run on pairs with scores, or on pairs with labels."""
    monkeypatch.chdir(root)
    (root / "victims.py").write_text(VICTIMS, encoding="utf-8")
    if kind == "pairs":
        (root / "pairs.tsv").write_text(PAIRS, encoding="utf-8")
        dataset, target = {"name": "pairs", "path": "pairs.tsv"}, "overlap"
    else:
        rows = [
            {
                "id": f"n{i}",
                "text_a": f"Aspirin helps {i}",
                "text_b": f"{'Aspirin' if i % 2 else 'Warfarin'} helps {i}",
                "label": "entailment" if i % 2 else "neutral",
            }
            for i in range(8)
        ]
        (root / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        dataset, target = {"name": "nli", "path": "rows.jsonl"}, "same"
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


KINDS = ("letter", "documents", "medfuzz", "pairs", "nli", "controlled", "partial")


@pytest.fixture
def folder_of(bench, tmp_path, monkeypatch):
    """Make a run of a kind."""

    def make(kind: str) -> Path:
        root = tmp_path / "of-kinds"
        root.mkdir()
        if kind in ("pairs", "nli"):
            return of_pairs(kind, root, monkeypatch)
        if kind in ("controlled", "partial"):
            return {"controlled": controlled, "partial": partial}[kind](bench)
        return golden(kind, root)

    return make


def sentences(folder: Path) -> set[str]:
    """What is not wrapped in a pipe."""
    summary = Run(folder).summary()
    found = [*sentences_of(summary), *(f"! {each}" for each in warnings_of(summary))]
    return {*found, *name_lines(summary), verdict(summary) or ""}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_run_fits_80_columns_and_keeps_its_numbers_whole(
    kind, folder_of, terminal, medstress
):
    folder = folder_of(kind)
    shown = STYLE.sub("", terminal("summary", folder))
    wide = [line for line in shown.splitlines() if cell_len(line) > 80]
    # A path or a command may be longer than a line, and is not broken.
    assert not [line for line in wide if str(folder) not in line and "next: " not in line]
    words = set(re.split(r"[\s;\[\],!]+", shown.replace(", ", " ")))
    for row in headline_rows(Run(folder).summary()):
        loss = row["asr"]
        numbers = [decimal(loss[name]) for name in ("value", "low", "high") if loss["n"]]
        numbers.append(count(row["queries"]["asked"]))
        assert set(numbers) <= words, row["attack"]
    piped = medstress("summary", folder).out
    assert "\x1b" not in piped
    tables = set(piped.splitlines()) - sentences(folder)
    wide = [line for line in tables if cell_len(line) > 80]
    assert not [line for line in wide if str(folder) not in line and "next: " not in line]


@pytest.mark.release
@pytest.mark.parametrize("kind", KINDS)
def test_wide_has_every_column_of_every_table(kind, folder_of, medstress):
    folder = folder_of(kind)
    told = medstress("summary", folder, "--wide")
    assert (told.code, told.err) == (3 if kind == "controlled" else 0, "")
    summary = Run(folder).summary()
    assert "Queries asked/paid/cached/failed" in told.out
    for row in summary["results"]:
        ledger = "/".join(
            str(row["queries"][name]) for name in ("asked", "paid", "cached", "failed")
        )
        assert any(row["attack"] in line and ledger in line for line in told.out.splitlines())


@pytest.mark.release
@pytest.mark.parametrize("columns", [80, 140, 400])
@pytest.mark.parametrize("kind", ["letter", "controlled", "pairs"])
def test_wide_breaks_no_word_on_a_narrow_terminal(kind, columns, folder_of, terminal, medstress):
    folder = folder_of(kind)
    shown = STYLE.sub("", terminal("summary", folder, "--wide", columns=columns))
    lines = shown.splitlines()
    assert not [line for line in lines if cell_len(line) > columns and str(folder) not in line]
    words = set(shown.split())
    assert {"asked/paid/cached/failed", "Unreadable"} <= words
    assert ({"before", "after"} <= words) == (kind != "pairs")
    for row in Run(folder).summary()["results"]:
        counts = (str(row["queries"][name]) for name in ("asked", "paid", "cached", "failed"))
        assert "/".join(counts) in words
        loss = row["asr"]
        if loss["n"]:
            assert f"= {decimal(loss['value'])} [{decimal(loss['low'])}, " in shown
    # What a pipe has in a row, a terminal has in parts: no word is lost.
    piped = medstress("summary", folder, "--wide").out
    assert set(re.findall(r"[\w.]+", piped)) <= set(re.findall(r"[\w.]+", shown))


def test_control_arms_have_rows_of_their_own_in_wide_only(bench, medstress):
    folder = controlled(bench)
    lines = medstress("summary", folder).out.splitlines()
    assert not [line for line in lines if line.startswith("nearest / ")]
    assert any("Control (harmless edits)" in line for line in lines) or any(
        "(harmless" in line for line in lines
    )
    wide = medstress("summary", folder, "--wide").out
    assert "nearest / no_op" in wide
    assert "ASR net" in wide


def test_many_seeds_have_one_line_an_attack(bench, medstress):
    bench.tables["experiment"]["seeds"] = list(range(12))
    bench.run()
    lines = medstress("summary", bench.out).out.splitlines()
    assert len([line for line in lines if line.startswith("random")]) == 1


def test_a_pipe_gets_whole_sentences_and_a_terminal_wrapped_ones(finished, terminal, medstress):
    piped = medstress("summary", finished.out).out
    sentence = sentences_of(Run(finished.out).summary())[0]
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
def test_a_stream_without_blocks_gets_hashes(finished, monkeypatch, encoding):
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        assert medstress_cli(["summary", str(finished.out)]) == 0
        assert medstress_cli(["summary", str(finished.out), "--wide"]) == 0
    stream.flush()
    shown = raw.getvalue().decode(encoding)
    assert "#" in shown
    assert "█" not in shown


def test_a_dumb_terminal_gets_hashes(finished, terminal, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    shown = terminal("summary", finished.out)
    assert "##" in shown
    assert "\x1b" not in shown


@pytest.fixture
def planted(finished, monkeypatch):
    """Let a run have another summary."""

    def plant(**changes: object) -> None:
        with Run(finished.out).opened() as stored:
            found = json.loads(json.dumps(summaries.summarise_run(stored)))
        monkeypatch.setattr("medstress.cli.showing.summarise_run", lambda _: {**found, **changes})

    return plant


def rows_of(finished, n: int) -> list[dict]:
    (row, *_) = Run(finished.out).summary()["pooled"]
    rows = []
    for i in range(n):
        value = ((i * 7919) % n) / n
        asr = {
            "value": value,
            "n": 10 * n,
            "low": value / 2,
            "high": (1 + value) / 2,
            "method": "m",
        }
        rows.append({**row, "attack": f"attack {i}", "seeds": [0], "asr": asr})
    return rows


def sliced(n: int) -> list[dict]:
    """The worst slices of two attacks; the last lose most, and all have too few items."""
    found = []
    for i in range(n):
        asr = {"value": i / n, "n": 9 + i, "low": 0.0, "high": 1.0, "method": "m"}
        found.append(
            {
                "attack": f"entity_substitution n={-5 - 15 * (i % 2)}", "victim": "v",
                "dataset": "d", "group": "g", "by": f"property {i // 2}", "value": "skin and nails",
                "asr": asr, "asr_bounds": [0.0, 0.9], "asr_shrunken": i / n, "n_items": 9 + i,
                "accuracy": asr, "differs": True, "n_slices": 3,
            }
        )  # fmt: skip
    return found


def test_the_worst_slices_are_named_with_one_remark_for_all(finished, planted, medstress):
    words = {f"entity_substitution n={n}": f"near names (n {n})" for n in (-5, -20)}
    rows = sliced(30)
    slicing = {"by": [], "label": "l", "cuts": {}, "shrinkage": "s", "worst": rows}
    names = {"attacks": words, "victims": {}, "datasets": {}, "groups": {}}
    planted(slicing=slicing, slices=rows, names=names, headlines=[], warnings=[])
    told = medstress("summary", finished.out).out
    lines = told.partition("The worst slice by each property: v on d, g\n")[2].splitlines()
    assert max(map(cell_len, lines[:-1])) <= 80
    shown = [line for line in lines if line.startswith("property ")]
    places = [
        re.match(r"(property \d+ = skin and nails) +(near names \(n -\d+\)) ", line)
        for line in shown
    ]
    worst = sorted(rows, key=lambda row: -row["asr_shrunken"])[:20]
    assert [found and (found[1], found[2]) for found in places] == [
        (f"{row['by']} = {row['value']}", words[row["attack"]]) for row in worst
    ]
    assert [line for line in lines if line.startswith("! ")] == [
        "! every row: too few items to say anything"
    ]
    assert "and 10 worst slices that lose less: summary --wide has all" in lines


def test_of_two_thousand_rows_the_worst_twenty_are_shown(finished, planted, medstress):
    rows = rows_of(finished, 2_000)
    warnings = [f"warning {i}" for i in range(300)]
    planted(results=rows, pooled=[], warnings=warnings, names={}, headlines=["First."] * 100)
    lines = medstress("summary", finished.out).out.splitlines()
    shown = [line for line in lines if line.startswith("attack ")]
    worst = sorted(rows, key=lambda row: -row["asr"]["value"])[:20]
    assert [line.split("  ")[0] for line in shown] == [row["attack"] for row in worst]
    assert any("1,980 attacks that take less" in line for line in lines)
    assert any("288 more warnings" in line for line in lines)
    assert len(lines) < 80


def test_labels_of_500_characters_are_cut_and_stay_apart(finished, planted, medstress, terminal):
    rows = rows_of(finished, 3)
    for i, row in enumerate(rows):
        row["attack"], row["group"] = "a" * 499 + str(i), "g" * 500
        row["victim"], row["dataset"] = "v" * 500, "d" * 500
    said = {"sentence": "Said.", "others": [], "caveats": []}
    said_first = {"verdict": said, "headlines": [], "warnings": []}
    planted(results=rows, pooled=[], names={}, **said_first)
    shown = medstress("summary", finished.out).out
    assert max(map(cell_len, shown.splitlines()[:-1])) <= 80
    names = [line.split("  ")[0] for line in shown.splitlines() if line.startswith("aaa")]
    assert len(set(names)) == 3


def test_what_training_gains_fits(finished, planted, medstress):
    score = {"value": 0.512, "n": 40, "low": 0.401, "high": 0.623, "method": "m"}
    row = {
        "attack": "random", "dataset": "cases", "group": "drugs", "model": "careful trained",
        "against": "original", "n_seeds": 3, "trained_on": True, "measure": "f1",
        "clean": score, "trained_clean": score, "attacked": score, "trained_attacked": score,
        "clean_loss": score, "gain": {**score, "value": 0.513}, "recovered": None,
    }  # fmt: skip
    rows = [row, {**row, "attack": "nearest", "trained_on": False}]
    planted(training={"rows": rows, "cautions": [], "scores": [], "models": []})
    told = medstress("summary", finished.out)
    assert told.code == 0
    after = told.out.partition("Models trained on perturbed copies")[2].splitlines()
    assert max(map(cell_len, after[:-1])) <= 80
    assert any(".513 [.401, .623]" in line for line in after)
    planted(training={"rows": rows, "cautions": [], "scores": [], "models": []})
    assert "Recovered share" in medstress("summary", finished.out, "--wide").out


def test_a_run_without_a_trial_is_one_sentence(finished, planted, medstress):
    planted(results=[], pooled=[], headlines=[], warnings=[])
    lines = medstress("summary", finished.out).out.splitlines()
    assert "No trial has ended yet, so there is nothing to measure." in lines
