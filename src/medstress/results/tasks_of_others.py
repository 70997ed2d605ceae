"""Frozen attacks as tasks of other tools: lm-evaluation-harness and inspect_ai.

Each arm is a task: the clean questions, and for every attack and control the questions with the
first edit of their first trial, which no answer to an edit chose. Rows hold the question as
medstress reads it, with `original_id`, so that `medstress import` pairs the logs again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Any

from medstress.core.attack_sets import FIELD
from medstress.core.errors import UsageError
from medstress.core.items import Candidate
from medstress.core.text import Edit
from medstress.datasets.rows import question_from_row
from medstress.files.writing import make_folder, write_text
from medstress.results.freezing import Frozen, frozen_counts, frozen_lines
from medstress.results.load import StoredRun

LM_EVAL, INSPECT = "lm-eval", "inspect"
CLEAN = "clean"
"""The task of the questions without edits."""
Task = tuple[str, list[dict[str, Any]]]
"""Name of a task, and its rows."""


def write_tasks(
    run: StoredRun,
    folder: Path,
    form: str,
    *,
    sample: int | None = None,
    sample_seed: int = 0,
    victim: str | None = None,
) -> tuple[Frozen, list[str]]:
    """Write the attacked items of a run as tasks of another tool.

    Args:
        run: an open run of questions.
        folder: is made; files of the same names are written anew.
        form: `lm-eval` or `inspect`.
        sample: as in `freeze`.
        sample_seed: as in `freeze`.
        victim: as in `freeze`.

    Returns:
        What was frozen, and the names of the tasks.

    Raises:
        UsageError: see `freeze`, or a folder that cannot be written.
    """
    head, rows = frozen_lines(run, sample=sample, sample_seed=sample_seed, victim=victim)
    name = _word(head["source"]["experiment"])
    tasks = list(_tasks(name, head, rows))
    files = _FORMS[form](name, tasks)
    try:
        make_folder(folder)
        for file, text in files.items():
            write_text(folder / file, text)
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {error.strerror}; give another --to") from error
    return frozen_counts(run, head), [task for task, _ in tasks]


def how_to_ask(form: str, folder: Path, tasks: Sequence[str]) -> str:
    """Return the command that asks the tasks in their tool, with the model left to the user."""
    here = quote(str(folder))
    if form == LM_EVAL:
        return (
            f"cd {here} && lm-eval run --model ... --include_path . --tasks {','.join(tasks)} "
            "--output_path logs --log_samples"
        )
    file = f"{_common(tasks)}.py"
    return f"cd {here} && inspect eval {file} --model ... --log-dir logs"


def _common(tasks: Sequence[str]) -> str:
    return tasks[0].removesuffix(f"_{CLEAN}")


def _word(text: str) -> str:
    """Return a text as a name of tasks, files and functions.

    >>> _word("My set (2) / no_op")
    'my_set_2_no_op'
    """
    word = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_") or "set"
    return f"set_{word}" if word[0].isdigit() else word


def _tasks(name: str, head: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> Iterator[Task]:
    yield f"{name}_{CLEAN}", [_row(row, CLEAN, ()) for row in rows]
    used = {f"{name}_{CLEAN}"}
    for arm in head["arms"]:
        task = base = f"{name}_{_word(arm['label'])}"
        n = 2
        while task in used:
            task, n = f"{base}_{n}", n + 1
        used.add(task)
        found = [
            _row(row, arm["label"], edits)
            for row in rows
            if (edits := _first_edits(row, arm["label"])) is not None
        ]
        yield task, found


def _first_edits(row: Mapping[str, Any], label: str) -> tuple[Edit, ...] | None:
    """Return the first edits of the first trial of an arm; None without a trial."""
    own = [entry for entry in row[FIELD] if entry["arm"] == label]
    if not own:
        return None
    first = min(own, key=lambda entry: (entry["seed"] or 0, entry["repeat"]))
    return tuple(Edit(**edit) for edit in first["queries"][0]["edits"])


def _row(row: Mapping[str, Any], label: str, edits: tuple[Edit, ...]) -> dict[str, Any]:
    """Return an edited question as medstress reads it, with what it was made of."""
    plain = {key: value for key, value in row.items() if key not in (FIELD, "item_hash")}
    item = question_from_row(plain)
    made = Candidate(item=item, edits=edits)
    passage = {"passage": made.passage} if item.passage else {}
    return {
        "id": item.id,
        "original_id": item.id,
        "arm": label,
        **passage,
        "context": made.context,
        "stem": made.stem,
        "options": list(made.options),
        "letters": list(item.letters),
        "answer_idx": item.letters.index(item.key),
        "dataset": row["dataset"],
    }


_YAML = """\
# {n} questions, written by medstress freeze --as lm-eval. Run in this folder.
task: {task}
dataset_path: json
dataset_kwargs:
  data_files:
    test: {task}.jsonl
test_split: test
output_type: multiple_choice
doc_to_text: "{text}"
doc_to_choice: letters
doc_to_target: answer_idx
metric_list:
  - metric: acc
    aggregation: mean
    higher_is_better: true
metadata:
  version: 1
"""
_TEXT = (
    r"{% if passage is defined and passage %}{{passage}}\n\n{% endif %}"
    r"{% if context %}{{context}} {% endif %}{{stem}}\n"
    r"{% for letter in letters %}{{letter}}. {{options[loop.index0]}}\n{% endfor %}Answer:"
)


def _of_lm_eval(name: str, tasks: Sequence[Task]) -> dict[str, str]:
    """Return file -> text: a YAML and a JSONL for each task, and a group of all."""
    files = {}
    for task, rows in tasks:
        files[f"{task}.jsonl"] = _jsonl(rows)
        files[f"{task}.yaml"] = _YAML.format(n=len(rows), task=task, text=_TEXT)
    listed = "".join(f"  - {task}\n" for task, _ in tasks)
    return {**files, f"{name}.yaml": f"group: {name}\ntask:\n{listed}"}


_MODULE = '''\
"""Tasks of inspect_ai, written by medstress freeze --as inspect."""

from pathlib import Path

from inspect_ai import Task, task
from inspect_ai.dataset import json_dataset
from inspect_ai.scorer import choice
from inspect_ai.solver import multiple_choice

HERE = Path(__file__).parent


def _task(name):
    dataset = json_dataset(str(HERE / f"{name}.jsonl"))
    return Task(name=name, dataset=dataset, solver=multiple_choice(), scorer=choice())
'''
_FUNCTION = '''

@task
def {task}():
    """{n} questions."""
    return _task("{task}")
'''


def _of_inspect(name: str, tasks: Sequence[Task]) -> dict[str, str]:
    """Return file -> text: a JSONL for each task, and a module with all."""
    files = {f"{task}.jsonl": _jsonl(map(_sample, rows)) for task, rows in tasks}
    functions = "".join(_FUNCTION.format(task=task, n=len(rows)) for task, rows in tasks)
    return {**files, f"{name}.py": _MODULE + functions}


def _sample(row: Mapping[str, Any]) -> dict[str, Any]:
    kept = ("original_id", "arm", "context", "stem", "dataset")
    question = f"{row['context']} {row['stem']}" if row["context"] else row["stem"]
    passage = f"{row['passage']}\n\n" if "passage" in row else ""
    return {
        "id": row["id"],
        "input": f"{passage}{question}",
        "choices": row["options"],
        "target": row["letters"][row["answer_idx"]],
        "metadata": {key: row[key] for key in kept},
    }


def _jsonl(rows: Any) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


_FORMS: Mapping[str, Callable[[str, Sequence[Task]], dict[str, str]]] = {
    LM_EVAL: _of_lm_eval,
    INSPECT: _of_inspect,
}
