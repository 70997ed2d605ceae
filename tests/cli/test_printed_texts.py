"""Texts of strangers in what is printed, and in the sheets that a spreadsheet opens."""

import csv
import io
import json
import logging
import re
import sys

import pytest

from medstress.analyses.shown import column, table
from medstress.cli.process import visible, visible_output
from medstress.cli.terminal import screen
from medstress.report.terminal import print_table

STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\rsure \u202egnp.exe"
NAME = "=1+1|x"
GIVEN = "entities.recogniser=given"


def test_whatever_is_printed_steers_no_terminal(capsys):
    with visible_output():
        print(HOSTILE)
        print(HOSTILE, file=sys.stderr)
        print("lone \ud800", file=sys.stderr)
        logging.getLogger("medstress.test").warning(HOSTILE)
        rows = (HOSTILE, "[bold]first\nmedstress: all is well")
        shown = table("t", "", rows, [column("name", lambda text: text)])
        print_table(screen(), shown)
    told = capsys.readouterr()
    assert not STEERING.search(told.out + told.err)
    assert told.out.splitlines()[0] == visible(HOSTILE)
    assert "lone \\ud800" in told.err
    assert "[bold]first medstress: all is well" in told.out


@pytest.fixture(scope="module")
def hostile(small_run_with, workbench):
    """The folder of a run whose data set, attack and questions have texts of a stranger."""

    def change(made):
        rows = workbench.questions(6)
        made.write_items(
            {**row, "id": f"{row['id']} {HOSTILE}", "stem": f"{row['stem']} {HOSTILE}"}
            for row in rows
        )
        made.tables["dataset"][0]["label"] = NAME
        made.tables["attack"][0]["label"] = "@SUM(1) 随机 ж"

    return small_run_with(change).out


def test_names_of_a_stranger_steer_nothing_in_summary_and_json(hostile, medstress):
    told = medstress("summary", hostile)
    assert told.code == 0
    assert "@SUM(1)" in told.out
    wide = medstress("summary", hostile, "--wide")
    assert "=1+1" in wide.out
    assert not STEERING.search(told.out + told.err + wide.out)
    told = medstress("summary", hostile, "--json")
    assert told.out.isascii()
    assert json.loads(told.out)["results"][0]["dataset"] == NAME


@pytest.mark.parametrize("command", ["summary", "check", "run", "verify", "view"])
def test_a_refusal_quotes_a_path_with_characters_that_are_not_seen(medstress, command):
    told = medstress(command, "no\u202e\nsuch/")
    assert (told.code, told.out) == (2, "")
    assert "$'no\\u202e\\nsuch" in told.err
    assert "no\\u202e such" not in told.err
    assert "$" not in medstress(command, "no such").err


def test_no_file_steers_a_terminal_and_exported_names_are_never_computed(
    hostile, medstress, tmp_path
):
    out = tmp_path / "out"
    out.mkdir()
    for arguments in (
        ("report", "{run}", "--out", "{out}/r.html"),
        ("summary", "{run}", "--markdown", "{out}/s.md", "--junit", "{out}/s.xml"),
        ("figures", "{run}", "--out", "{out}/f", "--format", "svg"),
        ("review", "{run}", "--export", "{out}/room.html"),
        ("perturb", "{run}/../experiment.toml", "--to", "{out}/perturbed.jsonl"),
        ("check", "{run}/../items.jsonl", "--set", GIVEN, "--to", "{out}/typed.jsonl"),
        ("export", "{run}", "--table", "exchanges", "--to", "{out}/exchanges.csv"),
        ("export", "{run}", "--table", "trials", "--to", "{out}/trials.csv"),
        ("export", "{run}", "--table", "trials", "--to", "{out}/trials.jsonl"),
    ):
        told = medstress(*(part.format(run=hostile, out=out) for part in arguments))
        assert told.code == 0, told.err
    written = [path for path in out.rglob("*") if path.is_file()]
    assert len(written) > 10
    for path in written:
        assert not STEERING.search(path.read_text("utf-8").replace("\r\n", "\n")), path.name
    # JSON says the same in escapes.
    lines = (out / "trials.jsonl").read_text("utf-8").splitlines()
    assert {json.loads(line)["dataset"] for line in lines} == {NAME}
    rows = list(csv.DictReader(io.StringIO((out / "trials.csv").read_text("utf-8"), newline="")))
    assert rows[0]["dataset"].startswith("'=1+1")
    assert rows[0]["attack"].startswith("'@SUM")
    for path in out.rglob("*.csv"):
        with path.open(encoding="utf-8", newline="") as stream:
            cells = [cell for row in csv.reader(stream) for cell in row]
        assert not [cell for cell in cells if cell[:1] in ("=", "+", "@", "\t", "\r")], path.name
        # Other characters that no sheet shows are replaced.
        assert all(cell.startswith("'=1+1") for cell in cells if "=1+1" in cell[:6])
    # Other scripts stay as they are, but for LaTeX.
    assert "随机" in (out / "f" / "results.csv").read_text("utf-8")
    assert all(path.read_bytes().isascii() for path in out.rglob("*.tex"))
    assert "?? ?" in (out / "f" / "results.tex").read_text("ascii")
