"""`medstress compare --sequential` from the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from medstress.comparison.gate_file import locked, spent_digest
from medstress.stats.nights import replay

VICTIM = r"""
import re

def build(prompts):
    cases = [int(re.search(r"case\s+(\d+)", prompt)[1]) for prompt in prompts]
    return [{"answer": "ABCD"[(case + %d) %% 4]} for case in cases]
"""


@pytest.fixture
def builds(tmp_path, monkeypatch, medstress):
    """Two runs of builds that answer the first 20 items right, and one that errs on all."""
    monkeypatch.setenv("MEDSTRESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    rows = [
        {
            "id": f"q{i}",
            "question": f"What cures case {i} in this clinic, if anything does?",
            "options": [f"{kind}umab" for kind in ("tora", "ulo", "vexi", "wara")],
            "answer_idx": "ABCD"[i % 4],
        }
        for i in range(20)
    ]
    Path("items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    for name, shift in (("base", 0), ("same", 0), ("worse", 1)):
        Path(f"{name}.py").write_text(VICTIM % shift, "utf-8")
        Path(f"{name}.toml").write_text(
            f'[experiment]\nname = "nightly"\nseeds = [0]\n'
            f'[[dataset]]\nname = "jsonl"\npath = "items.jsonl"\n'
            f'[[victim]]\nname = "m"\nbackend = "python"\ntarget = "{name}.py:build"\n'
            f'[[attack]]\nname = "no_op"\nbudget = 2\n',
            "utf-8",
        )
        told = medstress("run", f"{name}.toml", "--out", name, "--quiet")
        assert told.code == 0, told.err
    return tmp_path


def test_a_night_is_fed_and_told(builds, medstress):
    told = medstress("compare", "base", "same", "--sequential", "state.json")
    assert (told.code, told.err) == (0, "")
    assert told.out.startswith("no alarm: night 1, E = 1")
    told = medstress("compare", "base", "worse", "--sequential", "state.json", "--json")
    found = json.loads(told.out)
    assert (told.code, found["night"], found["n_items"], found["n_spent"]) == (0, 2, 0, 20)
    assert json.loads(Path("state.json").read_text("utf-8"))["state"]["first_alarm"] is None


def test_an_alarm_is_exit_code_3_tonight_and_ever_after(builds, medstress):
    base = medstress("compare", "base", "worse", "--sequential", "state.json", "--json")
    assert json.loads(base.out)["x"] == 1
    found = json.loads(Path("state.json").read_text("utf-8"))
    # As on the last of many nights before the alarm, each with other items.
    n = next(n for n in range(1, 99) if replay([1] * (n + 1))[2])
    fortunes, values, _ = replay([1] * n)
    found["state"] |= {
        "fortunes": fortunes,
        "nights": [f"n{t}" for t in range(n)],
        "spent": [],
    }
    found["log"] = [
        {"night": t, "x": 1, "e": e, "spent": spent_digest(())} for t, e in enumerate(values, 1)
    ]
    Path("state.json").write_text(json.dumps(found), "utf-8")
    told = medstress(
        "compare", "base", "worse", "--sequential", "state.json", "--junit", "junit.xml"
    )
    assert told.code == 3
    assert told.out.startswith("alarm tonight")
    assert "<failure" in Path("junit.xml").read_text("utf-8")
    after = medstress("compare", "base", "same", "--sequential", "state.json")
    assert (after.code, f"alarm since night {n + 1}" in after.out) == (3, True)


def test_a_state_that_does_not_follow_from_its_log_is_refused(builds, medstress, said):
    assert medstress("compare", "base", "worse", "--sequential", "state.json").code == 0
    found = json.loads(Path("state.json").read_text("utf-8"))
    found["state"]["fortunes"] = [60.0] * 5
    Path("state.json").write_text(json.dumps(found), "utf-8")
    told = medstress("compare", "base", "same", "--sequential", "state.json")
    assert told.code == 2
    said(told.err, "fortunes do not follow")


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("base", "worse", "--sequential", "state.json", "--margin", "1"), "--margin 1"),
        (("base", "--sequential", "state.json"), "two runs"),
        (("base", "base", "--sequential", "state.json"), "given twice"),
        (("base", "same", "--sequential", "no/state.json"), "no folder"),
        (("base", "same", "--sequential", "items.jsonl"), "no JSON"),
        (("base", "same", "--sequential", "state.json", "--adjust", "bh"), "--adjust"),
        (("base", "same", "--afresh"), "--sequential"),
        (
            ("base", "same", "--sequential", "state.json", "--on-undecided", "pass"),
            "--on-undecided",
        ),
        (("base", "none", "--sequential", "state.json"), "no run in none"),
    ],
)
def test_what_cannot_be_fed_is_exit_code_2_and_leaves_no_state(
    builds, medstress, said, arguments, word
):
    told = medstress("compare", *arguments)
    assert told.code == 2
    said(told.err, word)
    assert not Path("state.json").exists()


def test_a_run_fed_twice_and_a_locked_series_are_refused(builds, medstress, said):
    assert medstress("compare", "base", "worse", "--sequential", "state.json").code == 0
    before = Path("state.json").read_bytes()
    again = medstress("compare", "base", "worse", "--sequential", "state.json")
    assert again.code == 2
    said(again.err, "night 1")
    with locked(Path("state.json")):
        told = medstress("compare", "base", "same", "--sequential", "state.json")
    assert told.code == 2
    said(told.err, "another medstress process")
    assert Path("state.json").read_bytes() == before


def test_killed_while_it_writes_the_series_stays_whole(builds):
    """Nights of different lengths are written without end until the process is killed."""
    code = (
        "from pathlib import Path\n"
        "from medstress.comparison.gate_file import Series, write_series\n"
        "from medstress.stats.nights import begin\n"
        "n = 0\n"
        "while True:\n"
        "    n = n % 3000 + 1\n"
        "    series = Series(state=begin('b'), about='x' * n, baseline_runs=(), log=())\n"
        "    write_series(Path('state.json'), series)\n"
    )
    from medstress.comparison.gate_file import read_series

    for wait in (0.05, 0.1, 0.2):
        Path("state.json").unlink(missing_ok=True)
        process = subprocess.Popen([sys.executable, "-c", code], env=dict(os.environ))
        while not Path("state.json").exists():
            assert process.poll() is None
            time.sleep(0.01)
        time.sleep(wait)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert read_series(Path("state.json")) is not None
