"""A victim that is asked about one data set with another prompt than about the others."""

import json
from pathlib import Path
from typing import Any

import pytest

import medstress as ms
from medstress.analyses.exported import exchange_rows
from medstress.core.errors import StoreError, UsageError
from medstress.core.hashing import content_hash
from medstress.core.items import Mention
from medstress.store.reader import RunReader

VICTIM = """
import json

def answer(prompts):
    with open({log!r}, "a", encoding="utf-8") as log:
        log.writelines(json.dumps(prompt) + "\\n" for prompt in prompts)
    # The key is always A; whatever name is put in flips it.
    return ["A" if "plain" in prompt else "B" for prompt in prompts]

def firm(prompts):
    return ["A"] * len(prompts)
"""
TABLE = {"short": "medmcqa", "default": "qstab"}


@pytest.fixture
def base(tmp_path, monkeypatch):
    """Two data sets of one question each, whose distractor is `plain`."""
    monkeypatch.setenv("MEDSTRESS_CACHE", str(tmp_path / "cache"))
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


def parts(config: dict[str, Any]) -> dict[str, Any]:
    ms.run(config, out="run", fresh=Path("run").exists())
    return manifest()["parts"]


def manifest() -> dict[str, Any]:
    reader = RunReader(Path("run"))
    try:
        return dict(reader.manifest)
    finally:
        reader.close()


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
    reader = RunReader(Path("run"))
    try:
        assert {row["prompt"] for row in exchange_rows(reader)} == set(asked)
    finally:
        reader.close()


def test_the_prompts_in_use_are_in_the_fingerprint_and_one_for_all_changes_none(base):
    plain = parts(experiment("short", "long", prompt="qstab"))
    assert "prompts" not in plain
    assert plain == parts(experiment("short", "long", prompt={"short": "qstab"}))
    assert plain["victims"]["v"] == content_hash(
        {
            "task": manifest()["victims"]["v"]["task"],
            "model": manifest()["victims"]["v"]["model_hash"],
        }
    )
    split = parts(experiment("short", "long"))
    assert split["victims"] == plain["victims"]
    assert set(split["prompts"]["v"]) == {"short"}


def test_a_folder_refuses_another_prompt_for_its_data_sets_and_takes_one_for_new_ones(base):
    ms.run(experiment("long", prompt="qstab"), out="run")
    ms.run(experiment("long", "short"), out="run")
    assert {row["dataset"] for row in ms.Run(Path("run")).trials().to_dicts()} == {"long", "short"}
    with pytest.raises(StoreError) as caught:
        ms.run(experiment("long", "short", prompt="qstab"), out="run")
    said = "the prompt of victim 'v' for dataset 'short' changed"
    assert said in str(caught.value)


def test_transfer_asks_the_other_victim_with_the_prompt_of_the_data_set(base):
    config = experiment("short", analysis={"transfer": True})
    other = {"name": "firm", "backend": "python", "target": "v.py:firm"}
    config["victim"] = [{**other, "prompt": "qstab"}, {**config["victim"][0]}]
    # The first flips on nothing, so the second's success alone is carried over.
    config["victim"][0]["prompt"] = TABLE
    ms.run(config, out="run")
    reader = RunReader(Path("run"))
    try:
        asked = [row for row in exchange_rows(reader) if row["purpose"] == "transfer"]
    finally:
        reader.close()
    assert [both("short")["medmcqa"] in row["prompt"] for row in asked] == [True]


def test_one_question_has_no_data_set(base):
    mention = Mention(field="B", start=0, end=5, type="T121")
    question = ms.Question(
        id="q", stem="Which?", options=("rest", "plain"), key="A", mentions=(mention,)
    )
    with pytest.raises(UsageError, match="expected the name of one prompt or a file"):
        ms.attack_one(
            question,
            {"backend": "mock", "prompt": TABLE},
            ms.EntitySubstitution(sampler="random", budget=1),
            entities={"type": "drugs", "vocabulary": "names.txt", "embedding": "ngram"},
        )
