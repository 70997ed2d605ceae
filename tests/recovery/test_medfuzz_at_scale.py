"""Three hundred fuzzes in flight between instant roles: both are kept busy, nothing is lost."""

import json
import sys
from itertools import pairwise
from typing import Any

import pytest

from medstress.api.run import run
from medstress.testing import tiny_questions

N = 300
BATCH = 150
MODELS = f"""
import time

from medstress.testing import rule_target, scripted_attacker, tiny_questions

ITEMS = tiny_questions({N})
CUES = {{f"tiny-{{i}}": "lighthouse" for i in range(0, {N}, 3)}}
SPEAKERS = {{
    "target": rule_target(ITEMS, CUES, wrong=["tiny-1"]),
    "attacker": scripted_attacker(ITEMS, ["He works as a clerk.", "He keeps a lighthouse."]),
}}
LOG = []


def spoken(role, conversations):
    started = time.monotonic()
    said = SPEAKERS[role](conversations)
    LOG.append((role, started, time.monotonic(), [turns[1]["content"] for turns in conversations]))
    return said


def target(conversations):
    return spoken("target", conversations)


def attacker(conversations):
    return spoken("attacker", conversations)
"""


@pytest.fixture
def scripts(tmp_path, monkeypatch):
    """The scripts as a module, which keeps the log that the run writes."""
    (tmp_path / "fuzz_at_scale.py").write_text(MODELS, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    del sys.modules["fuzz_at_scale"]


def most_live(log: list[tuple[str, float, float, list[str]]], names: list[str]) -> int:
    """The most items between the first turn and the last one about them at any time."""
    first: dict[str, float] = {}
    last: dict[str, float] = {}
    for _, started, ended, texts in log:
        for text in texts:
            name = next(each for each in names if each in text)
            first[name] = min(first.get(name, started), started)
            last[name] = max(last.get(name, ended), ended)
    return max(sum(first[n] <= at <= last[n] for n in names) for at in set(first.values()))


@pytest.mark.release
@pytest.mark.usefixtures("scripts")
def test_hundreds_of_fuzzes_in_flight_keep_both_roles_busy_and_the_ledger_adds_up(tmp_path):
    rows = [
        {"id": q.id, "context": q.context, "stem": q.stem, "options": q.options, "answer": q.key}
        for q in tiny_questions(N)
    ]
    (tmp_path / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def role(name: str) -> dict[str, Any]:
        return {"backend": "python", "target": f"fuzz_at_scale:{name}", "batch_size": BATCH}

    done = run(
        {
            "experiment": {"controls": False, "name": "scale", "seeds": [0]},
            "dataset": {"name": "table", "path": str(tmp_path / "items.jsonl")},
            "victim": {"name": "rule", **role("target")},
            "role": {"attacker": role("attacker")},
            "attack": {"name": "medfuzz", "attempts": 2, "runs": 1, "exemplars": 0},
        },
        tmp_path / "run",
    )
    # Every third item falls at the second attempt; one is wrong from the start.
    n_flipped = len(range(0, N, 3))
    n_held = N - 1 - n_flipped
    summary = done.summary()
    (row,), (attempts,) = summary["results"], summary["attempts"]
    assert (row["n_trials"], row["n_flipped"], row["n_held"]) == (N, n_flipped, n_held)
    assert row["n_already_wrong"] == 1
    assert [each["value"] for each in attempts["curve"]] == [
        (N - 1) / N,
        (N - 1) / N,
        (N - 1 - n_flipped) / N,
    ]
    models = sys.modules["fuzz_at_scale"]
    queries = row["queries"]
    assert queries["asked"] == queries["paid"] + queries["cached"] + queries["failed"]
    assert queries["asked"] == attempts["n_asked"] == attempts["n_made"] == 2 * (N - 1)
    assert (queries["failed"], queries["interrupted"], queries["baseline"]) == (0, 0, N)
    asked = {
        name: sum(len(t) for r, _, _, t in models.LOG if r == name) for name in models.SPEAKERS
    }
    # Three turns about every clean item, edit and flip check; a plan and an edit an attempt.
    assert asked["target"] == 3 * (N + 2 * (N - 1) + n_flipped)
    calls = {paid["payer"]: paid["calls"] for paid in summary["performance"]["spending"]}
    assert asked["attacker"] == calls["role.attacker"] == 2 * 2 * (N - 1)

    names = [q.context for q in tiny_questions(N)]
    assert most_live(models.LOG, names) >= N * 2 // 3
    # Role after role in step would take turns five times; neither waits for the other.
    order = [name for name, *_ in models.LOG]
    assert order.index("attacker") < len(order) / 4
    assert sum(a != b for a, b in pairwise(order)) >= 10
