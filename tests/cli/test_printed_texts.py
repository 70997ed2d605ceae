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


@pytest.fixture
def hostile_run(bench, medstress):
    """A run whose data set and attack have names of a stranger."""
    name = f"=1+1|{HOSTILE}"
    bench.tables["dataset"][0]["label"] = name
    bench.tables["attack"][0]["label"] = f"@SUM(1) {HOSTILE}"
    assert medstress("run", bench.write(), "--out", bench.out, "--quiet").code == 0
    return bench, name


def test_names_of_a_stranger_steer_nothing_in_summary_and_json(hostile_run, medstress):
    bench, name = hostile_run
    told = medstress("summary", bench.out)
    assert told.code == 0
    assert "@SUM(1)" in told.out
    wide = medstress("summary", bench.out, "--wide")
    assert "=1+1" in wide.out
    assert not STEERING.search(told.out + told.err + wide.out)
    told = medstress("summary", bench.out, "--json")
    assert told.out.isascii()
    assert json.loads(told.out)["results"][0]["dataset"] == name


def test_no_file_steers_a_terminal(hostile_run, medstress, tmp_path):
    bench, name = hostile_run
    out = tmp_path / "out"
    out.mkdir()
    for arguments in (
        ("report", "{run}", "--out", "{out}/r.html"),
        ("summary", "{run}", "--markdown", "{out}/s.md", "--junit", "{out}/s.xml"),
        ("figures", "{run}", "--out", "{out}/f", "--format", "svg"),
        ("review", "{run}", "--export", "{out}/room.html"),
        ("export", "{run}", "--table", "exchanges", "--to", "{out}/exchanges.csv"),
        ("export", "{run}", "--table", "trials", "--to", "{out}/trials.jsonl"),
    ):
        told = medstress(*(part.format(run=bench.out, out=out) for part in arguments))
        assert told.code == 0, told.err
    written = [path for path in out.rglob("*") if path.is_file()]
    assert len(written) > 10
    for path in written:
        assert not STEERING.search(path.read_text("utf-8").replace("\r\n", "\n")), path.name
    # JSON says the same in escapes.
    lines = (out / "trials.jsonl").read_text("utf-8").splitlines()
    assert {json.loads(line)["dataset"] for line in lines} == {name}


def test_exported_names_are_never_computed(hostile_run, medstress, tmp_path):
    bench, _ = hostile_run
    sheet = tmp_path / "trials.csv"
    assert medstress("export", bench.out, "--table", "trials", "--to", sheet).code == 0
    rows = list(csv.DictReader(io.StringIO(sheet.read_text("utf-8"), newline="")))
    assert rows[0]["dataset"].startswith("'=1+1")
    assert rows[0]["attack"].startswith("'@SUM")
    cells = [cell for row in rows for cell in row.values()]
    assert not [cell for cell in cells if cell[:1] in ("=", "+", "@", "\t", "\r")]
    out = tmp_path / "figures"
    assert medstress("figures", bench.out, "--format", "svg", "--out", out).code == 0
    for path in out.glob("*.csv"):
        with path.open(encoding="utf-8", newline="") as stream:
            cells = [cell for row in csv.reader(stream) for cell in row]
        assert not [cell for cell in cells if cell[:1] in ("=", "+", "@", "\t", "\r")]
        # Other characters that no sheet shows are replaced.
        assert all(cell.startswith("'=1+1") for cell in cells if "=1+1" in cell[:6])
    assert not STEERING.search((out / "index.md").read_text("utf-8").replace("\n", ""))
