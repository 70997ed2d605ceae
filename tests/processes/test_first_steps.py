"""The newcomer's keystrokes: what is typed is timed, and a late walk fails."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import pytest

PATH = list(sys.path)
sys.path.append(str(Path(__file__).resolve().parents[2] / "scripts"))

import first_steps  # noqa: E402
from first_steps import Line, Shell, Typed, Walk  # noqa: E402

sys.path[:] = PATH  # the script adds the folder of the benchmarks, whose names other tests take

KEYS = 1000


def test_typing_and_waiting_are_timed_apart(tmp_path):
    with Shell(tmp_path, keys_per_second=100) as shell:
        slept = shell.type(Line("sleep 0.4"), pause=0.2)
        asked = shell.type(Line("read -p '  data [questions.csv]: ' x", is_answer=True), 0)
        answered = shell.type(Line("mine"), pause=0)
        shell.type(Line('test "$x" = mine'), pause=0)
    assert 0.4 <= slept.waiting_seconds < 5
    assert 0.2 + 9 / 100 <= slept.typing_seconds < 5
    assert (asked.asked, answered.asked) == ("", "data [questions.csv]:")


@pytest.mark.parametrize("line", [Line("false"), Line("true", is_answer=True)])
def test_a_command_that_fails_or_does_not_ask_ends_the_walk(tmp_path, line):
    with Shell(tmp_path, KEYS) as shell, pytest.raises(SystemExit, match=line.text):
        shell.type(line, pause=0)


@pytest.mark.parametrize(("most", "code"), [(60, 0), (0, 1)])
def test_the_script_fails_where_a_walk_is_late(tmp_path, monkeypatch, capsys, most, code):
    walk = Walk(title="Made up", lines=(Line("head -1 questions.csv"),), run="runs/x")
    monkeypatch.setattr(first_steps, "WALKS", (walk,))
    monkeypatch.setattr(first_steps, "MOST_SECONDS", most)
    monkeypatch.setattr(first_steps, "verdict_of", lambda folder: "3 of 4 were lost.")
    page = tmp_path / "page.md"
    given = ["--keys-per-second", str(KEYS), "--pause", "0", "--to", str(page)]
    assert first_steps.main(given) == code
    assert ("more than 0 seconds: Made up" in capsys.readouterr().err) is (code == 1)
    text = page.read_text("utf-8")
    assert "| `head -1 questions.csv` | 22 |" in text
    assert "The verdict: 3 of 4 were lost." in text


def test_the_clock_adds_up():
    text = first_steps.clock([Typed("", "a", 40.0, 20.0), Typed("data [b]:", "", 1.0, 4.5)])
    assert text.splitlines()[2:] == [
        "| `a` | 2 | 40.0 | 20.0 | 1:00 |",
        "| data [b]: (Enter) | 1 | 1.0 | 4.5 | 1:06 |",
    ]


def test_the_csv_is_in_the_commonest_form(tmp_path):
    first_steps.write_csv(tmp_path / "q.csv")
    with (tmp_path / "q.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 200
    assert set(rows[0]) == {"Question", "A", "B", "C", "D", "Answer"}
