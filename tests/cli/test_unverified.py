"""`--unverified` leaves a warning in every output; a run without a chain says so everywhere."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing

import polars
import pytest

from medstress.cli.app import medstress_cli

DOUBT = "is not as medstress wrote it: table verdicts, row"


@pytest.fixture(scope="module")
def whole(workbench, tmp_path_factory):
    """A complete run, and beside it one in which a success is none."""
    made = workbench.Bench(tmp_path_factory.mktemp("doubted"))
    made.tables["attack"] = made.tables["attack"][:1]
    made.tables["experiment"]["seeds"] = [0]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in made.environment().items():
            patch.setenv(name, value)
        assert made.run() == 0
    shutil.copytree(made.out, made.root / "changed")
    with closing(sqlite3.connect(made.root / "changed" / "run.sqlite")) as db, db:
        db.execute(
            "UPDATE verdicts SET verdict = 'held' WHERE id = ("
            "SELECT MIN(id) FROM verdicts WHERE verdict = 'flipped')"
        )
    return made.out


@pytest.fixture
def told(whole, capsys):
    """Run a command on the changed folder; its stdout in one line."""

    def run(command, *arguments):
        folder = str(whole.parent / "changed")
        assert medstress_cli([command, folder, *map(str, arguments), "--unverified"]) in (0, 3)
        return " ".join(capsys.readouterr().out.split())

    return run


def test_tables_have_a_column(told, whole, tmp_path):
    for ending in ("jsonl", "csv", "parquet"):
        file = tmp_path / f"trials.{ending}"
        told("export", "--table", "trials", "--to", file)
        if ending == "jsonl":
            found = [
                json.loads(line)["unverified"] for line in file.read_text("utf-8").splitlines()
            ]
        else:
            read = polars.read_csv if ending == "csv" else polars.read_parquet
            found = list(read(file)["unverified"])
        assert len(found) == 12
        assert all(DOUBT in each for each in found)
    file = tmp_path / "whole.csv"
    assert medstress_cli(["export", str(whole), "--table", "trials", "--to", str(file)]) == 0
    assert "unverified" not in file.read_text("utf-8").splitlines()[0]


def test_what_is_printed_says_it(told, whole, tmp_path):
    assert DOUBT in told("summary")
    assert "Root: " not in told("summary")
    assert DOUBT in told("summary", "--wide")
    told("export", "--table", "trials", "--to", tmp_path / "trials.jsonl")
    trial = json.loads((tmp_path / "trials.jsonl").read_text("utf-8").splitlines()[0])["trial_id"]
    assert DOUBT in told("case", trial)
    assert DOUBT in json.loads(told("case", trial, "--json"))["unverified"]


def test_comparisons_say_it(told, whole, tmp_path):
    files = ("--junit", tmp_path / "j.xml", "--markdown", tmp_path / "m.md")
    assert DOUBT in told("compare", whole, *files)
    assert all(DOUBT in path.read_text("utf-8") for path in tmp_path.iterdir())
    found = json.loads(told("compare", whole, "--json"))
    assert DOUBT in found["a"]["unverified"]
    assert (found["b"]["unverified"], len(found["b"]["root"])) == (None, 32)


def test_every_file_of_figures_says_it(told, tmp_path):
    told("figures", "--out", tmp_path / "figures", "--format", "svg")
    assert list((tmp_path / "figures").glob("*.svg"))
    for path in (tmp_path / "figures").iterdir():
        assert "nverified" in path.read_text("utf-8"), path.name


def test_the_first_screen_of_the_page_says_it(told, tmp_path):
    page = tmp_path / "page.html"
    told("report", "--out", page)
    assert DOUBT in page.read_text("utf-8").partition("</header>")[0]


def test_only_commands_that_take_the_flag_advise_it(whole, capsys):
    changed = str(whole.parent / "changed")
    assert medstress_cli(["summary", changed]) == 2
    assert "--unverified" in capsys.readouterr().err
    assert medstress_cli(["review", changed, "--agreement"]) == 2
    assert "--unverified" not in capsys.readouterr().err


def test_the_root_ends_the_summary_and_stands_below_tables(whole, capsys, tmp_path):
    root = json.loads((whole / "summary.json").read_text("utf-8"))["root"]
    for flags in ([], ["--wide"]):
        assert medstress_cli(["summary", str(whole), *flags]) == 0
        assert f"Root: {root}" in capsys.readouterr().out.splitlines()[-2:]
    out = tmp_path / "figures"
    assert medstress_cli(["figures", str(whole), "--out", str(out), "--format", "svg"]) == 0
    assert f"Root of the run: {root}." in (out / "results.tex").read_text("utf-8")
