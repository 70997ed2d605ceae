"""A MedFuzz folder of an earlier version goes on with the words that it began with."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

import medstress as ms
from medstress.errors import StoreError
from medstress.experiment.run import Run
from medstress.prompts import load_prompts
from medstress.testing import tiny_questions

MODELS = """
from medstress.testing import rule_target, scripted_attacker, scripted_judge, tiny_questions

ITEMS = tiny_questions(4)
target = rule_target(ITEMS, {"tiny-0": "teacher"})
attacker = scripted_attacker(ITEMS, ["He works as a teacher."])
judge = scripted_judge(ITEMS)
"""
OLD = files("medstress.prompts") / "earlier" / "1" / "patient_characteristics"
NEW_WORDS = "You may reason first"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models.py").write_text(MODELS)
    rows = [
        {"id": q.id, "context": q.context, "stem": q.stem, "options": q.options, "answer": q.key}
        for q in tiny_questions(4)
    ]
    (tmp_path / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def experiment(**attack: Any) -> dict[str, Any]:
    def of(name: str) -> dict[str, str]:
        return {"backend": "python", "target": f"models.py:{name}"}

    return {
        "experiment": {"name": "x", "seeds": [0]},
        "dataset": {"name": "jsonl", "path": "items.jsonl"},
        "victim": of("target"),
        "role": {"attacker": of("attacker"), "judge": of("judge")},
        "attack": {"name": "medfuzz", "attempts": 2, "runs": 1, **attack},
    }


def asked(done: Run, folder: Path) -> list[str]:
    to = folder / "exchanges.jsonl"
    done.export("exchanges", to)
    return [str(json.loads(line)["prompt"]) for line in to.read_text().splitlines()]


def test_every_shipped_set_knows_the_words_of_earlier_versions() -> None:
    for name in ("patient_characteristics", "misinformation"):
        now = load_prompts(name)
        (before,) = now.earlier
        assert before.hash != now.hash
        assert before.name == now.name
        assert before.earlier == ()
        assert "reason first" not in before.render("judge_key", question="Q", options=())


def test_a_folder_that_began_with_earlier_prompts_goes_on_with_them(folder: Path) -> None:
    old = experiment(template=str(OLD))
    old["experiment"]["max_queries"] = 30
    begun = ms.run(old, out=folder / "run")
    assert begun.summary()["experiment"]["complete"] is False
    done = ms.run(experiment(), out=folder / "run")
    assert done.summary()["experiment"]["complete"] is True
    assert len(done.rows()) == 4
    assert not any(NEW_WORDS in text for text in asked(done, folder))
    new = ms.run(experiment(), out=folder / "new")
    assert any(NEW_WORDS in text for text in asked(new, folder))


def test_a_set_of_the_users_own_that_leaves_files_out_goes_on_too(folder: Path) -> None:
    mine, then = folder / "mine", folder / "then" / "mine"
    for place in (mine, then):
        place.mkdir(parents=True)
        (place / "target_system.jinja").write_text("Be brief.")
    for entry in OLD.iterdir():
        if entry.name != "target_system.jinja":
            (then / entry.name).write_text(entry.read_text("utf-8"))
    begun = experiment(template="then/mine")
    begun["experiment"]["max_queries"] = 20
    ms.run(begun, out=folder / "run")
    done = ms.run(experiment(template="mine"), out=folder / "run")
    assert done.summary()["experiment"]["complete"] is True
    assert not any(NEW_WORDS in text for text in asked(done, folder))


def test_words_that_no_version_shipped_are_another_attack_still(folder: Path) -> None:
    (folder / "mine").mkdir()
    (folder / "mine" / "target_system.jinja").write_text("Be brief.")
    ms.run(experiment(template="mine"), out=folder / "run")
    load_prompts.cache_clear()
    (folder / "mine" / "target_system.jinja").write_text("Be long.")
    with pytest.raises(StoreError, match="attack 'medfuzz' is another one"):
        ms.run(experiment(template="mine"), out=folder / "run")
