"""Frozen attacks as tasks of lm-evaluation-harness and inspect_ai, loaded and asked by those.

Both are extras with constraints of their own (constraints-lm-eval.txt, constraints-inspect.txt),
for environments of their own: the variables below name an interpreter that has them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import medstress as ms
from medstress.cli.app import medstress_cli
from medstress.importing.run import import_logs

N = 12
VICTIM = '''
import re


def answer(prompts):
    """Right, also after every edit."""
    return [{"answer": "ABC"[int(re.search(r"case\\s+([0-9]+)", p)[1]) % 3]} for p in prompts]
'''
TOOLS = {"lm_eval": "MEDSTRESS_LM_EVAL_PYTHON", "inspect_ai": "MEDSTRESS_INSPECT_PYTHON"}
MOCK = """
import sys
from inspect_ai import eval
from inspect_ai.model import ModelOutput, ModelUsage, get_model


def one():
    found = ModelOutput.from_content("mockllm/model", "ANSWER: A")
    found.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    return found


model = get_model("mockllm/model", custom_outputs=[one() for _ in range(200)])
for log in eval(sys.argv[1], model=model, log_dir="logs", log_format="json", display="none"):
    assert log.status == "success", log.error
"""


def python_with(tool: str) -> str:
    """An interpreter that has a tool; the test is skipped where there is none."""
    if find_spec(tool) is not None:
        return sys.executable
    name = TOOLS[tool]
    if not os.environ.get(name):
        pytest.skip(f"{tool} is not installed, and {name} names no interpreter that has it")
    return os.environ[name]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "victim.py").write_text(VICTIM, encoding="utf-8")
    rows = []
    for i in range(N):
        row: dict[str, Any] = {"id": f"q{i}", "answer": "ABC"[i % 3]}
        row["question"] = f"He has no fever. What cures case {i}?"
        for letter, kind in zip("abc", ("alpo", "bexi", "cano"), strict=True):
            row |= {f"op{letter}": f"{kind}{i}", f"inject{letter}": f"{kind}{i} cures him."}
        rows.append(row)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "mis.jsonl").write_text(text, encoding="utf-8")
    tables = {
        "experiment": {"name": "My-set", "controls": ["no_op"]},
        "dataset": {"name": "medmisbench", "path": "mis.jsonl"},
        "victim": {"name": "m", "backend": "python", "target": "victim.py:answer"},
        "attack": {"name": "frozen", "attacks": ["type2"]},
    }
    return ms.run(tables, out="run", quiet=True)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def asked(command: list[str], folder: Path) -> None:
    """Run a tool offline in a folder."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    environment |= {
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "HF_HOME": str(folder / "hf"),
    }
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_each_arm_is_a_task_with_the_first_edit_of_each_question(run: Any, capsys: Any) -> None:
    assert medstress_cli(["freeze", "run", "--as", "lm-eval", "--to", "tasks"]) == 0
    told = capsys.readouterr().out
    assert "tasks: my_set_clean, my_set_type2, my_set_type2_no_op" in told
    assert "--include_path . --tasks my_set_clean,my_set_type2" in told
    clean = lines(Path("tasks/my_set_clean.jsonl"))
    edited = lines(Path("tasks/my_set_type2.jsonl"))
    assert len(clean) == len(edited) == N
    assert edited[0]["context"].startswith("Additional Clinical Context:\nalpo0 cures him.")
    assert edited[0]["original_id"] == clean[0]["id"] == "q0"
    assert (clean[4]["answer_idx"], clean[4]["letters"]) == (1, ["A", "B", "C"])
    # What is written is in medstress's own format too.
    again = {"name": "jsonl", "path": "tasks/my_set_type2.jsonl"}
    tables = {
        "experiment": {"name": "again", "controls": False},
        "dataset": again,
        "victim": {"name": "m", "backend": "python", "target": "victim.py:answer"},
        "attack": {"name": "none"},
    }
    (row,) = ms.run(tables, out="again", quiet=True).summary()["pooled"]
    assert (row["n_items"], row["accuracy"]["value"]) == (N, 1)


def test_samples_of_inspect_hold_what_was_asked(run: Any) -> None:
    assert medstress_cli(["freeze", "run", "--as", "inspect", "--to", "tasks"]) == 0
    first = lines(Path("tasks/my_set_type2.jsonl"))[0]
    assert first["choices"] == ["alpo0", "bexi0", "cano0"]
    assert first["target"] == "A"
    assert first["input"].endswith("He has no fever. What cures case 0?")
    compile(Path("tasks/my_set.py").read_text("utf-8"), "my_set.py", "exec")


def test_lm_evaluation_harness_loads_and_asks_the_tasks(run: Any) -> None:
    python = python_with("lm_eval")
    assert medstress_cli(["freeze", "run", "--as", "lm-eval", "--to", "tasks"]) == 0
    command = [python, "-m", "lm_eval", "run", "--model", "dummy", "--tasks", "my_set"]
    command += ["--include_path", ".", "--output_path", "logs", "--log_samples"]
    asked(command, Path("tasks"))
    logs = {p.name.split("_2")[0]: p for p in Path("tasks/logs").rglob("samples_*.jsonl")}
    perturbed = [logs["samples_my_set_type2"]]
    folder, told = import_logs(logs["samples_my_set_clean"], Path("back"), perturbed=perturbed)
    (row,) = ms.Run(folder).summary()["pooled"]
    assert (row["attack"], row["n_items"]) == ("my_set_type2", N)
    # Nothing is left out; what was wrong before the change is told.
    assert all("the log itself is right on" in note for note in told["notes"])
    # The dummy model draws likelihoods; what it got right was asked after the edit.
    assert row["queries"]["asked"] == row["n_eligible"]


def test_inspect_ai_loads_and_asks_the_tasks(run: Any) -> None:
    python = python_with("inspect_ai")
    assert medstress_cli(["freeze", "run", "--as", "inspect", "--to", "tasks"]) == 0
    Path("tasks/mock.py").write_text(MOCK, encoding="utf-8")
    asked([python, "mock.py", "my_set.py"], Path("tasks"))
    logs = {json.loads(p.read_text())["eval"]["task"]: p for p in Path("tasks/logs").glob("*.json")}
    perturbed = [logs["my_set_type2"], logs["my_set_type2_no_op"]]
    folder, _ = import_logs(logs["my_set_clean"], Path("back"), perturbed=perturbed)
    rows = {row["attack"]: row for row in ms.Run(folder).summary()["pooled"]}
    # Our control is the control again.
    assert set(rows) == {"my_set_type2", "my_set_type2 / no_op"}
    assert rows["my_set_type2 / no_op"]["control_of"] == "my_set_type2"
    # The mock always answers A, so a third was right and nothing is lost.
    assert all(row["n_eligible"] == N / 3 and not row["n_flipped"] for row in rows.values())
