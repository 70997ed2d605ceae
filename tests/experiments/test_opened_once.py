"""A command reads each item of a run once and builds each trial once."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import medstress as ms
from medstress.analyses.run import Run as Read
from medstress.analyses.summary import results_of
from medstress.api.run import Run
from medstress.cli.app import medstress_cli
from medstress.store import reader, trials
from medstress.testing import tiny_questions
from rows import rows_of

MODELS = """
from medstress.testing import rule_target, scripted_attacker, scripted_judge, tiny_questions

ITEMS = tiny_questions(4)
target = rule_target(ITEMS, {"tiny-0": "lighthouse", "tiny-2": "lighthouse"}, admits=True)
SCRIPT = ["He works as a clerk.", "He lives and works in an old lighthouse by the sea."]
attacker = scripted_attacker(ITEMS, SCRIPT)
judge = scripted_judge(ITEMS)

def first(prompts):
    return ["A" for _ in prompts]

def tags(sentences):
    return [["B-Chemical" if w == "aspirin" else "O" for w in s] for s in sentences]
"""
N_ITEMS = 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("once")
    (path / "models.py").write_text(MODELS)
    (path / "data.iob").write_text("aspirin\tB-Chemical\nhelps\tO\n\n" * N_ITEMS)
    known = [
        {"id": q.id, "context": q.context, "stem": q.stem, "options": q.options, "answer": q.key}
        for q in tiny_questions(N_ITEMS)
    ]
    (path / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in known))
    (path / "names.txt").write_text("".join(f"name{n}statin\n" for n in range(6)))
    return path


def of(folder: Path, name: str) -> dict[str, Any]:
    return {"backend": "python", "target": f"{folder / 'models.py'}:{name}"}


@pytest.fixture(scope="module")
def questions(folder: Path) -> Path:
    """Every name asked, so that answers are read again, and what transfers."""
    attack = {"name": "entity_substitution", "sampler": "exhaustive"}
    ms.run(
        {
            "experiment": {"controls": False, "name": "q", "seeds": [0]},
            "dataset": {"name": "sample", "limit": N_ITEMS},
            "entities": {"type": "drugs", "vocabulary": str(folder / "names.txt")},
            "victim": [{"name": name, **of(folder, "first")} for name in ("one", "other")],
            "attack": attack,
            "analysis": {"transfer": True},
        },
        folder / "questions",
    )
    return folder / "questions"


@pytest.fixture(scope="module")
def sentences(folder: Path) -> Path:
    ms.run(
        {
            "experiment": {"controls": False, "name": "s", "seeds": [0]},
            "dataset": {"name": "iob", "path": str(folder / "data.iob")},
            "victim": of(folder, "tags"),
            "attack": {"name": "swap_noise"},
        },
        folder / "sentences",
    )
    return folder / "sentences"


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often a folder was opened, an item decoded, and a trial built."""
    found: Counter[str] = Counter()

    def counted(place: Any, name: str, what: str) -> None:
        real = getattr(place, name)

        def call(*args: Any, **keys: Any) -> Any:
            found[what] += 1
            return real(*args, **keys)

        monkeypatch.setattr(place, name, call)

    counted(reader, "open_for_reading", "opened")
    counted(reader, "decode_item", "items")
    counted(trials, "trial_of", "trials")
    return found


COMMANDS = {
    "summary": (2, 1, 1),
    "summary --json": (2, 1, 1),
    "report --out {to}/page.html": (5, 1, 1),
    "figures --out {to} --format svg": (2, 1, 1),
    "export --table trials --to {to}/t.jsonl": (2, 1, 1),
    "export --table items --to {to}/i.csv": (1, 1, 0),
    "export --table exchanges --to {to}/e.jsonl": (2, 1, 0),
}
"""Command -> how often at most it opens the file, and how often it reads each item and trial.

The file is opened again for what few commands need: names, answers and edits of queries, and cases.
"""


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kind", ["questions", "sentences"])
def test_a_command_reads_the_run_once(
    kind: str, command: str, counts: Counter[str], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    run: Path = request.getfixturevalue(kind)
    n_items, n_trials = len({row.item_id for row in rows_of(Run(run))}), len(rows_of(Run(run)))
    counts.clear()
    name, *rest = command.format(to=tmp_path).split()
    assert medstress_cli([name, str(run), *rest]) == 0
    most, each_item, each_trial = COMMANDS[command]
    assert 1 <= counts["opened"] <= most
    assert counts["items"] == each_item * n_items > 0
    assert counts["trials"] == each_trial * n_trials


def test_what_is_asked_of_one_reading_is_computed_once(
    questions: Path, counts: Counter[str]
) -> None:
    run = Read.open(questions)
    first = dict(results_of(run))
    assert "results" in first
    assert all(result is first[name] for name, result in results_of(run))
    assert counts["trials"] == len(run.trials)
