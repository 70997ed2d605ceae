"""A victim that is asked about one data set with another prompt than about the others."""

import json
from pathlib import Path
from typing import Any

import pytest

import medstress as ms
from medstress.analyses.exported import exchange_rows
from medstress.store.reader import opened

VICTIM = """
import json

def answer(prompts):
    with open({log!r}, "a", encoding="utf-8") as log:
        log.writelines(json.dumps(prompt) + "\\n" for prompt in prompts)
    # The key is always A; whatever name is put in flips it.
    return ["A" if "plain" in prompt else "B" for prompt in prompts]"""
TABLE = {"short": "medmcqa", "default": "qstab"}


@pytest.fixture
def base(tmp_path, monkeypatch):
    """Two data sets of one question each, whose distractor is `plain`."""
    monkeypatch.chdir(tmp_path)
    for name in ("short", "long"):
        row = {
            "id": f"{name}-1",
            "question": f"A {name} case. Which one?",
            "options": {"A": "rest", "B": "plain"},
            "answer_idx": "A",
            "mentions": [{"field": "B", "start": 0, "end": 5, "type": "T121"}],
        }
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    (tmp_path / "names.txt").write_text("aspirin\nheparin\nwarfarin\n", encoding="utf-8")
    (tmp_path / "v.py").write_text(VICTIM.format(log=str(tmp_path / "log")), encoding="utf-8")
    return tmp_path


def experiment(*datasets: str, prompt: Any = TABLE, **more: Any) -> dict[str, Any]:
    victim = {"name": "v", "backend": "python", "target": "v.py:answer"}
    return {
        "experiment": {"controls": False, "name": "x", "seeds": [0]},
        "dataset": [{"name": "table", "path": f"{d}.jsonl", "label": d} for d in datasets],
        "entities": {"type": "drugs", "vocabulary": "names.txt", "embedding": "ngram"},
        "victim": [victim | ({} if prompt is None else {"prompt": prompt})],
        "attack": {"name": "entity_substitution", "sampler": "random", "budget": 1},
        **more,
    }


def both(name: str) -> dict[str, str]:
    """The beginnings of the two prompts of a data set's question."""
    return {
        "medmcqa": f"[Context]: A {name} case. Which one?\nA:",
        "qstab": f"[Context]: A {name} case.\n[Question]: Which one?\nA:",
    }


def test_each_data_set_is_asked_with_its_prompt_and_read_back_with_it(base):
    run = ms.run(experiment("short", "long"), out="run")
    asked = [json.loads(line) for line in (base / "log").read_text("utf-8").splitlines()]
    assert len(asked) == 6  # clean, edited, and the edited one again
    for prompt in asked:
        name, other = ("short", "qstab") if "short" in prompt else ("long", "medmcqa")
        used = "qstab" if other == "medmcqa" else "medmcqa"
        assert both(name)[used] in prompt
        assert both(name)[other] not in prompt
    rows = run.trials().to_dicts()
    shown = {row[key] for row in rows for key in ("prompt_before", "prompt_after")}
    assert shown == set(asked)
    with opened(Path("run")) as reader:
        assert {row["prompt"] for row in exchange_rows(reader)} == set(asked)
