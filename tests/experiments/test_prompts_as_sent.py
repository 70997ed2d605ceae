"""Rows show what was sent, listings what changed, and objects are objects where they can be."""

import json
from pathlib import Path
from typing import Any

import pytest

from medstress.api.run import Run, run
from medstress.testing import tiny_questions
from question_rows import write_rows
from rows import rows_of

SPEAKERS = """
from medstress.testing import rule_target, scripted_attacker, tiny_questions

ITEMS = tiny_questions(3)
target = rule_target(ITEMS, {"tiny-0": "teacher", "tiny-2": "clerk"})
attacker = scripted_attacker(ITEMS, ["He works as a clerk.", "He is a farmer or a teacher."])
"""


def substituted(folder: Path, *distances: Any, **victim: Any) -> Run:
    attack = {"name": "entity_substitution", "sampler": "random", "budget": 6}
    return run(
        {
            "experiment": {"controls": False, "name": "x", "seeds": [0]},
            "dataset": {"name": "sample", "limit": 12},
            "entities": {"type": "drugs", "vocabulary": "drugs", "embedding": "ngram"},
            "victim": {"name": "v", "backend": "mock", **victim},
            "attack": [{**attack, "max_edit_distance": each} for each in distances or (0,)],
        },
        folder / "run",
    )


def talked(folder: Path) -> Run:
    (folder / "speakers.py").write_text(SPEAKERS, "utf-8")
    write_rows(folder / "q.jsonl", tiny_questions(3))
    speaker = {"backend": "python"}
    return run(
        {
            "experiment": {"controls": False, "name": "x", "seeds": [0]},
            "dataset": {"name": "table", "path": str(folder / "q.jsonl")},
            "victim": {"name": "v", **speaker, "target": f"{folder}/speakers.py:target"},
            "role": {"attacker": {**speaker, "target": f"{folder}/speakers.py:attacker"}},
            "attack": {"name": "medfuzz", "attempts": 3, "runs": 1},
        },
        folder / "run",
    )


def exported(done: Run, table: str) -> list[dict[str, Any]]:
    to = done.folder / f"{table}.jsonl"
    done.export(table, to)
    return [json.loads(line) for line in to.read_text("utf-8").splitlines()]


def sent(done: Run) -> dict[tuple[str, str, int], list[Any]]:
    """What the victim was sent: trial, purpose and query -> the prompts of its calls."""
    found: dict[tuple[str, str, int], list[Any]] = {}
    for row in exported(done, "exchanges"):
        if row["role"] == "victim":
            place = (row["trial_id"], row["purpose"], row["query"])
            found.setdefault(place, []).append(row["prompt"])
    return found


WAYS = {
    "letter": {"answer_by": "letter"},
    "cloze": {"answer_by": "text", "prompt": "cloze"},
    "prior": {"answer_by": "text", "prompt": "cloze", "text_score": "unconditional"},
    "chat": {"answer_by": "letter", "prompt": "chat.jinja"},
}
CHAT = """{% set system = "Be brief." %}{{ question }}
{% for a, b in options %}{{ a }}: {{ b }}
{% endfor %}"""


@pytest.mark.parametrize("way", list(WAYS))
def test_the_prompts_of_a_success_are_what_the_victim_was_sent(way, tmp_path, monkeypatch):
    (tmp_path / "chat.jinja").write_text(CHAT, "utf-8")
    monkeypatch.chdir(tmp_path)
    done = substituted(tmp_path, **WAYS[way])
    flipped = [row for row in rows_of(done) if row.verdict == "flipped"]
    prompts = sent(done)
    assert flipped
    for row in flipped:
        before = prompts[row.trial_id, "baseline", 0][0]
        after = prompts[row.trial_id, "attack", row.first_success or 0][0]
        if way == "chat":
            before, after = (
                "\n\n".join(turn["content"] for turn in turns) for turns in (before, after)
            )
        assert (row.prompt_before, row.prompt_after) == (before, after)
        assert row.replacement in row.listing_after
        is_listed = way in ("letter", "chat")
        assert (row.prompt_after == row.listing_after) == is_listed
        assert (row.replacement in row.prompt_after) == is_listed


def test_a_victim_asked_in_turns_shows_its_turns(tmp_path):
    done = talked(tmp_path)
    prompts = sent(done)
    flipped = [row for row in exported(done, "trials") if row["verdict"] == "flipped"]
    assert {row["item_id"] for row in flipped} == {"tiny-0", "tiny-2"}
    for row in flipped:
        places = (("baseline", 0), ("attack", row["first_success"]))
        for name, place in zip(("prompt_before", "prompt_after"), places, strict=True):
            assert row[name] == prompts[row["trial_id"], *place][-1]
            assert [turn["role"] for turn in row[name]][-2:] == ["assistant", "user"]
        assert "\n[Answer]:" in row["listing_after"]
