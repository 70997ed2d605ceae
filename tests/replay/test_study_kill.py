"""`medstress test` killed and resumed: no answer that arrived is bought again."""

import json
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from medstress.api.run import Run
from medstress.testing import tiny_questions

BATCH = 16
MAX_CALLS = 400
MODELS = '''
"""Scripted models that log every conversation they are given, and take their time."""

import json
import os
import time

from medstress.testing import rule_target, scripted_attacker, tiny_questions

ITEMS = tiny_questions(3)
SPEAKERS = {
    "target": rule_target(ITEMS, {"tiny-0": "lighthouse", "tiny-2": "lighthouse"}),
    "attacker": scripted_attacker(ITEMS, ["He lives and keeps an old lighthouse by the sea."]),
}


def _spoken(role, conversations):
    lines = "".join(json.dumps([role, each]) + "\\n" for each in conversations)
    descriptor = os.open(os.environ["LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, lines.encode())
    os.close(descriptor)
    time.sleep(float(os.environ.get("DELAY", "0")))
    return SPEAKERS[role](conversations)


def target(conversations):
    return _spoken("target", conversations)


def attacker(conversations):
    return _spoken("attacker", conversations)
'''
FILE = f"""
[experiment]
controls = false
name = "fuzz"
seeds = [0]
[[dataset]]
name = "table"
path = "items.jsonl"
[[victim]]
backend = "python"
target = "models.py:target"
batch_size = {BATCH}
[role.attacker]
backend = "python"
target = "models.py:attacker"
[[attack]]
name = "medfuzz"
attempts = 2
runs = 1
exemplars = 0
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "models.py").write_text(MODELS, encoding="utf-8")
    (tmp_path / "e.toml").write_text(FILE, encoding="utf-8")
    rows = [
        {"id": q.id, "context": q.context, "stem": q.stem, "options": q.options, "answer": q.key}
        for q in tiny_questions(3)
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "items.jsonl").write_text(text, encoding="utf-8")
    return tmp_path


def numbers(folder: Path, out: str) -> tuple[Any, ...]:
    summary = Run(folder / out).summary()
    (row,) = summary["results"]
    asked = {name: n for name, n in row["queries"].items() if name != "interrupted"}
    return summary["tests"], summary["significance"], asked


@pytest.mark.parametrize(
    "n_kills",
    [pytest.param(1, marks=pytest.mark.kills("test")), pytest.param(2, marks=pytest.mark.kills)],
)
def test_a_test_killed_between_its_answers_asks_only_for_those_it_was_waiting_for(
    workbench, folder, n_kills
):
    workbench.finished(folder, ["run", "e.toml", "--out", "whole"], "run.log")
    shutil.copytree(folder / "whole", folder / "broken")
    asks = ["--experiment", "e.toml", "--set", f"test.max_calls={MAX_CALLS}"]
    workbench.finished(folder, ["test", "whole", *asks], "whole.log")
    whole = workbench.logged(folder, "whole.log")
    # Two successes: loops go on until no other could be paid to its end.
    assert 2 * MAX_CALLS - 5 * (2 + 20) < whole.total() <= 2 * MAX_CALLS

    kills = 0
    for number in range(n_kills):
        process = workbench.start(folder, ["test", "broken", *asks], "broken.log", 0.02)
        wanted = (number + 1) * whole.total() // (n_kills + 2)
        while workbench.n_logged(folder / "broken.log") < wanted and process.poll() is None:
            time.sleep(0.01)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.wait(30)
    workbench.finished(folder, ["test", "broken", *asks], "broken.log")
    assert kills == n_kills

    assert numbers(folder, "broken") == numbers(folder, "whole")
    broken = workbench.logged(folder, "broken.log")
    assert broken.keys() == whole.keys()
    repeated = broken.total() - whole.total()
    (row,) = Run(folder / "broken").summary()["results"]
    # Only what was in flight when the process died is asked again, and all of it is told.
    assert repeated <= row["queries"]["interrupted"] <= kills * BATCH
