"""Repeats of a coin: a killed run resumes with the answers it had, and asks none of them again."""

import json
import os
import signal
import subprocess
import sys
from typing import Any

import pytest

import medstress as ms
from rows import rows_of

VICTIM = '''
import os, random, signal
from pathlib import Path

def coin(prompts):
    """The key, but for one answer in twenty; kills its process at call number KILL_AT."""
    out = []
    for prompt in prompts:
        with open("calls.log", "a") as log:
            log.write("call\\n")
        n = len(Path("calls.log").read_text().splitlines())
        if n == int(os.environ.get("KILL_AT", "0")):
            os.kill(os.getpid(), signal.SIGKILL)
        out.append({"answer": "B" if random.Random(n).random() < 0.05 else "A"})
    return out

def steady(prompts):
    return [{"answer": "A"} for _ in prompts]
'''
RUN = """
[experiment]
name = "repeats"
seeds = [0, 1]
[dataset]
name = "table"
path = "items.jsonl"
[[victim]]
name = "v"
backend = "python"
target = "v.py:{victim}"
batch_size = 3
[[attack]]
name = "repeat"
budget = 12
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MEDSTRESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    rows = [
        {"id": f"q{i}", "question": f"Case {i}?", "options": ["a", "b"], "answer_idx": "A"}
        for i in range(15)
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "items.jsonl").write_text(text, encoding="utf-8")
    (tmp_path / "v.py").write_text(VICTIM, encoding="utf-8")
    return tmp_path


def told(run: Any) -> dict[Any, Any]:
    return {
        (row.item_id, row.seed): (row.verdict.value, row.first_success, row.n_asked)
        for row in rows_of(run)
    }


@pytest.mark.kills
def test_a_killed_run_of_repeats_resumes_without_asking_an_answer_again(folder):
    (folder / "e.toml").write_text(RUN.format(victim="coin"), encoding="utf-8")
    command = [sys.executable, "-m", "medstress", "run", "e.toml", "--out", "run"]
    for kill_at in ("60", "120"):
        environment = {**os.environ, "KILL_AT": kill_at}
        ended = subprocess.run(command, env=environment, capture_output=True, check=False)
        assert ended.returncode == -signal.SIGKILL, ended.stderr
    run = ms.run(str(folder / "e.toml"), out="run")
    found = told(run)
    again = told(ms.run(str(folder / "e.toml"), out="run"))  # replays everything
    assert found == again
    assert {verdict for verdict, *_ in found.values()} <= {"held", "flipped", "already_wrong"}
    assert any(verdict == "flipped" for verdict, *_ in found.values())
    asked = run.summary()["results"][0]["queries"]
    assert asked["asked"] == asked["paid"]  # never read back from another query
    assert asked["cached"] == 0
    n_calls = len((folder / "calls.log").read_text().splitlines())
    kept = sum(asked[name] for name in ("paid", "baseline", "ahead")) + len(found)
    assert n_calls <= kept + 40  # flip checks, and what was in flight at the two kills


def test_a_deterministic_victim_always_holds(folder):
    (folder / "e.toml").write_text(RUN.format(victim="steady"), encoding="utf-8")
    row = ms.run(str(folder / "e.toml"), out="run").summary()["results"][0]
    assert (row["n_held"], row["n_eligible"], row["n_never_asked"]) == (30, 30, 0)
    assert row["queries"]["asked"] == row["queries"]["paid"] == 30 * 12
