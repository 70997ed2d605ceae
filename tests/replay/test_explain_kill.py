"""`medstress explain` killed and resumed: no answer that arrived is bought again."""

import json
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from medstress.api.run import Run

BATCH = 8
VICTIM = '''
"""A, unless one name stands in the prompt; logs every prompt, and takes its time."""

import hashlib
import json
import os
import time


def answer(prompts):
    lines = "".join(json.dumps(prompt) + "\\n" for prompt in prompts)
    descriptor = os.open(os.environ["LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, lines.encode())
    os.close(descriptor)
    time.sleep(float(os.environ.get("DELAY", "0")))
    return [_answer(prompt) for prompt in prompts]


def _answer(prompt):
    if "trapicin" in prompt:
        return "D"
    luck = hashlib.sha256(prompt.encode()).digest()[0] / 1000
    return {"scores": {"A": 0.7, "B": luck, "C": 0.1, "D": 0.1}}
'''
FILE = f"""
[experiment]
controls = false
name = "traps"
seeds = [0]
[[dataset]]
name = "jsonl"
path = "items.jsonl"
[[entities]]
type = "drugs"
vocabulary = "names.txt"
embedding = "ngram"
[[victim]]
backend = "python"
target = "victim.py:answer"
batch_size = {BATCH}
[[attack]]
name = "entity_substitution"
sampler = "random"
budget = 2
"""


@pytest.fixture
def folder(tmp_path):
    options = ["torazumab", "ulozumab", "vexizumab", "warazumab"]
    rows = [
        {
            "id": f"q{i}",
            "context": "",
            "stem": f"What treats case {i}, which came back again and again?",
            "options": options,
            "answer_idx": "A",
            "mentions": [
                {"field": "ABCD"[j], "start": 0, "end": len(text), "type": "T121"}
                for j, text in enumerate(options)
            ],
        }
        for i in range(3)
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "items.jsonl").write_text(text, encoding="utf-8")
    (tmp_path / "names.txt").write_text("trapicin\ncalmol\nsoftine\n", encoding="utf-8")
    (tmp_path / "victim.py").write_text(VICTIM, encoding="utf-8")
    (tmp_path / "e.toml").write_text(FILE, encoding="utf-8")
    return tmp_path


def numbers(folder: Path, out: str) -> tuple[Any, ...]:
    summary = Run(folder / out).summary()
    asked = [{**row["queries"], "interrupted": None} for row in summary["results"]]
    return summary["explanations"], asked


@pytest.mark.parametrize(
    "n_kills",
    [pytest.param(1, marks=pytest.mark.kills("explain")), pytest.param(2, marks=pytest.mark.kills)],
)
def test_an_explanation_killed_between_its_answers_asks_only_for_those_it_was_waiting_for(
    workbench, folder, n_kills
):
    workbench.finished(folder, ["run", "e.toml", "--out", "whole"], "run.log")
    shutil.copytree(folder / "whole", folder / "broken")
    asks = ["--experiment", "e.toml", "--all", "--limit", "1"]
    workbench.finished(folder, ["explain", "whole", *asks], "whole.log")
    whole = workbench.logged(folder, "whole.log")
    assert whole.total() > 60
    assert set(whole.values()) == {1}

    kills = 0
    for number in range(n_kills):
        process = workbench.start(folder, ["explain", "broken", *asks], "broken.log", 0.05)
        wanted = (number + 1) * whole.total() // (n_kills + 2)
        while workbench.n_logged(folder / "broken.log") < wanted and process.poll() is None:
            time.sleep(0.01)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.wait(60)
    workbench.finished(folder, ["explain", "broken", *asks], "broken.log")
    assert kills == n_kills

    assert numbers(folder, "broken") == numbers(folder, "whole")
    broken = workbench.logged(folder, "broken.log")
    assert broken.keys() == whole.keys()
    repeated = broken.total() - whole.total()
    interrupted = sum(
        row["queries"]["interrupted"] for row in Run(folder / "broken").summary()["results"]
    )
    # Only what was in flight when the process died is asked again, and all of it is told.
    assert repeated <= interrupted <= kills * BATCH
