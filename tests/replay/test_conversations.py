"""MedFuzz killed in the middle of conversations: no turn whose answer arrived is asked again."""

import json
import os
import signal
import time
from collections import Counter

import pytest

from medstress.api.run import Run
from medstress.store.reader import RunReader
from medstress.testing import tiny_questions
from rows import rows_of

N_KILLS = 2
BATCH = 2
MODELS = '''
"""Scripted models that log every conversation they are given, and take their time."""

import json
import os
import time

from medstress.testing import rule_target, scripted_attacker, scripted_judge, tiny_questions

ITEMS = tiny_questions(6)
SPEAKERS = {
    "target": rule_target(ITEMS, {"tiny-0": "teacher", "tiny-3": "farmer"}, wrong=["tiny-5"]),
    "attacker": scripted_attacker(
        ITEMS, ["He works as a clerk.", "!Gone.", "He is a farmer or a teacher."]
    ),
    "judge": scripted_judge(ITEMS),
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


def judge(conversations):
    return _spoken("judge", conversations)


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
batch_size = {BATCH}
[role.judge]
backend = "python"
target = "models.py:judge"
batch_size = {BATCH}
[[attack]]
name = "medfuzz"
attempts = 3
runs = 2
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "models.py").write_text(MODELS, encoding="utf-8")
    (tmp_path / "e.toml").write_text(FILE, encoding="utf-8")
    rows = [
        {"id": q.id, "context": q.context, "stem": q.stem, "options": q.options, "answer": q.key}
        for q in tiny_questions(6)
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "items.jsonl").write_text(text, encoding="utf-8")
    return tmp_path


def command(out):
    """The arguments that run it into a folder, and its log."""
    return ["run", "e.toml", "--out", out], f"{out}.jsonl"


def rows(folder, out):
    """Trials without what depends on the folder; order is the plan's."""
    return rows_of(Run(folder / out))


def n_stored(folder, out):
    reader = RunReader(folder / out)
    try:
        computed = sum(one.n_calls for one in reader.spending())
        return sum(1 for _ in reader.exchanges()), computed
    finally:
        reader.close()


@pytest.mark.kills
def test_killed_mid_conversation_it_resumes_and_repeats_no_turn_that_was_answered(
    workbench, folder
):
    workbench.finished(folder, *command("whole"))
    unbroken = workbench.logged(folder, "whole.jsonl")
    n_calls = unbroken.total()
    assert n_calls > 100

    kills = 0
    for number in range(N_KILLS):
        process = workbench.start(folder, *command("broken"), 0.02)
        wanted = (number + 1) * n_calls // (N_KILLS + 2)
        while workbench.n_logged(folder / "broken.jsonl") < wanted and process.poll() is None:
            time.sleep(0.005)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.wait(30)
    workbench.finished(folder, *command("broken"))
    assert kills == N_KILLS

    assert rows(folder, "broken") == rows(folder, "whole")
    assert n_stored(folder, "broken") == n_stored(folder, "whole")
    asked = workbench.logged(folder, "broken.jsonl")
    assert asked.keys() == unbroken.keys()
    repeated = asked.total() - unbroken.total()
    interrupted = sum(
        row["queries"]["interrupted"] for row in Run(folder / "broken").summary()["results"]
    )
    # Only calls that were in flight when the process died are made again, and all are told.
    assert repeated <= interrupted <= kills * 4 * BATCH


def test_every_turn_is_stored_with_its_role_and_can_be_read_back(workbench, folder):
    workbench.finished(folder, *command("whole"))
    reader = RunReader(folder / "whole")
    try:
        stored = [each for each in reader.exchanges() if each.role == "victim"]
    finally:
        reader.close()
    assert all(each.request is not None and each.answer is not None for each in stored)
    turns = Counter(each.call for each in stored)
    assert turns[0] == turns[1] == turns[2] > 0
    (folder / "rows").mkdir()
    n = Run(folder / "whole").export("exchanges", folder / "rows" / "exchanges.jsonl")
    told = [json.loads(x) for x in (folder / "rows" / "exchanges.jsonl").read_text().splitlines()]
    assert len(told) == n
    assert {each["role"] for each in told} == {"victim", "attacker", "judge"}
    assert all(each["prompt"] for each in told)
