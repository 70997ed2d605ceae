"""Runs on sentences, and trainings, killed and resumed: no answer that arrived is asked again."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from medstress.api.run import Run

BATCH = 4
VICTIMS = '''
"""Victims that log every sentence or pair they are given, and take their time."""

import json
import os
import time


def _log(given):
    lines = "".join(json.dumps(each) + "\\n" for each in given)
    descriptor = os.open(os.environ["LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, lines.encode())
    os.close(descriptor)
    time.sleep(float(os.environ.get("DELAY", "0")))


def tags(sentences):
    _log(sentences)
    return [["B-Chemical" if w in ("aspirin", "warfarin") else "O" for w in s] for s in sentences]


def overlap(pairs):
    _log(pairs)
    return [len(set(zip(a, a[1:])) & set(zip(b, b[1:]))) / 20 for a, b in pairs]
'''
NAMES = ("aspirin", "warfarin", "naproxen")
TAGGED = """
[experiment]
name = "broken"
seeds = [0, 1]
controls = true
[[dataset]]
name = "iob"
path = "data.iob"
[[victim]]
backend = "python"
target = "v.py:tags"
batch_size = 4
[[attack]]
name = "swap_noise"
scope = "all"
[[attack]]
name = "keyboard_noise"
label = "search"
scope = "all"
search = "greedy"
budget = 6
"""
PAIRS = """
[experiment]
controls = false
name = "broken"
seeds = [0, 1]
[[dataset]]
name = "pairs"
path = "pairs.tsv"
[[victim]]
backend = "python"
target = "v.py:overlap"
batch_size = 4
[[attack]]
name = "swap_noise"
scope = "all"
[[attack]]
name = "keyboard_noise"
label = "search"
scope = "all"
search = "random"
budget = 6
max_change = 0.1
side = "random"
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "v.py").write_text(VICTIMS, encoding="utf-8")
    (tmp_path / "tagged.toml").write_text(TAGGED, encoding="utf-8")
    (tmp_path / "paired.toml").write_text(PAIRS, encoding="utf-8")
    sentences = (
        f"Patient\tO\nn{n}\tO\nreceived\tO\n{NAMES[n % 3]}\tB-Chemical\nagainst\tO\nfever\tO\n"
        for n in range(20)
    )
    (tmp_path / "data.iob").write_text("\n".join(sentences), encoding="utf-8")
    head = "id\ttext_a\ttext_b\tscore\n"
    pairs = (f"p{n}\tpatient {n} received warfarin\tfever of {n}\t{n % 5}\n" for n in range(12))
    (tmp_path / "pairs.tsv").write_text(head + "".join(pairs), encoding="utf-8")
    return tmp_path


def told(folder: Path) -> tuple[Any, ...]:
    """What a run says, but for what a kill is allowed to change."""
    summary = Run(folder).summary()
    rows = [*summary["results"], *summary["by_seed"]]
    for row in rows:
        row.get("queries", {}).pop("interrupted", None)
    return rows, summary["tests"]


@pytest.mark.parametrize(
    ("file", "n_kills"),
    [
        pytest.param("tagged.toml", 1, marks=pytest.mark.kills("run on sentences")),
        pytest.param("tagged.toml", 2, marks=pytest.mark.kills),
        pytest.param("paired.toml", 2, marks=pytest.mark.kills),
    ],
)
def test_a_run_on_sentences_killed_again_and_again_asks_only_for_what_was_in_flight(
    workbench, folder, file, n_kills
):
    workbench.finished(folder, ["run", file, "--out", "whole"], "whole.log")
    whole = workbench.logged(folder, "whole.log")

    kills = 0
    for number in range(n_kills):
        process = workbench.start(folder, ["run", file, "--out", "broken"], "broken.log", 0.05)
        wanted = (number + 1) * whole.total() // (n_kills + 1)
        while workbench.n_logged(folder / "broken.log") < wanted and process.poll() is None:
            time.sleep(0.01)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.wait(30)
    workbench.finished(folder, ["run", file, "--out", "broken"], "broken.log")
    assert kills == n_kills

    broken = workbench.logged(folder, "broken.log")
    assert broken.keys() == whole.keys()
    interrupted = sum(
        row["queries"]["interrupted"] for row in Run(folder / "broken").summary()["results"]
    )
    assert broken.total() - whole.total() <= kills * BATCH
    assert broken.total() - whole.total() <= interrupted
    assert told(folder / "broken") == told(folder / "whole")
