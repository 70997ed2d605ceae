"""A folder goes on with the prompts that it began with; tests may show other worked questions."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medstress.api.run import Run, run
from medstress.attacks.medfuzz import attack as medfuzz
from medstress.attacks.medfuzz.attack import MedFuzz
from medstress.core.errors import StoreError, UsageError
from medstress.core.hashing import content_hash
from medstress.prompts import load_prompts
from medstress.results.export import exchange_rows
from medstress.running.prepare import prepare
from medstress.store.reader import RunReader

ROLES = """
import json


def target(conversations):
    return [answer(turns[-1]["content"], turns[1]["content"]) for turns in conversations]


def answer(last, case):
    erred = "immigrant" in case
    if "confident" in last:
        return json.dumps({"confidence": {"A": 1 if erred else 5, "B": 2, "C": 1}})
    if "step by step" in last:
        return "A sore knee needs little."
    return json.dumps({"answer": "B" if erred else "A"})


def attacker(conversations):
    return [edit(turns[-1]["content"]) for turns in conversations]


def edit(last):
    if '"target_option"' in last:
        return json.dumps({"post_mortem": None, "target_option": "B", "plan": "play on it"})
    said = {"category": "country of origin", "text": "He is an immigrant."}
    question = last.split("The original question:\\n")[1].split("\\n\\n")[0]
    context, stem = question.split(" What is")
    if '"after"' in last:
        return json.dumps({"added": [{**said, "after": context}]})
    options = {"A": "Rest", "B": "Walking", "C": "Swimming"}
    item = f"{context} {said['text']} What is{stem}"
    return json.dumps({"added": [said], "modified_item": item, "options": options})


def judge(conversations):
    return [json.dumps({"answer": "A", "category": "none"}) for _ in conversations]
"""
NAMES = ("Abel", "Brook", "Cole", "Dean")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDSTRESS_CACHE", str(tmp_path / "cache"))


def experiment(folder: Path, n: int, **more: Any) -> dict[str, Any]:
    (folder / "roles.py").write_text(ROLES, "utf-8")
    rows = [
        {
            "id": name.lower(),
            "context": f"A man called {name} comes with a sore knee.",
            "stem": "What is the best next step?",
            "options": ["Rest", "Walking", "Swimming"],
            "answer_idx": "A",
        }
        for name in NAMES
    ]
    (folder / "q.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")

    def of(name: str) -> dict[str, str]:
        return {"backend": "python", "target": f"{folder / 'roles.py'}:{name}"}

    attack = {"name": "medfuzz", "attempts": 1, "runs": 1, "exemplars": 1}
    return {
        "experiment": {"controls": False, "name": "x", "seeds": [0]},
        "dataset": {"name": "jsonl", "path": str(folder / "q.jsonl"), "limit": n},
        "victim": [{"name": "v", **of("target")}],
        "role": {"attacker": of("attacker")},
        "attack": [attack | more.pop("attack", {})],
        **more,
    }


def prompts_of(found: Run, role: str) -> list[str]:
    """The last turn of everything a role was asked."""
    reader = RunReader(found.folder)
    try:
        rows = [row for row in exchange_rows(reader) if row["role"] == role]
    finally:
        reader.close()
    return [json.loads(row["prompt"])[-1][1] for row in rows]


# Content hashes of the sets and of the attack with them, as the first edition computed them.
FIRST = {
    "patient_characteristics": (
        "blake2b-128:c0fc52e68ca3bc997a27cbe2168e4611",
        "blake2b-128:9e135cd7343025539f114886b5154e41",
    ),
    "misinformation": (
        "blake2b-128:e5da354e2ff8aef01af8b19d572ee453",
        "blake2b-128:d4d5ef241b0f25cf72a758925caf16ee",
    ),
}


@pytest.mark.parametrize("name", FIRST)
def test_the_first_edition_s_prompts_are_kept_to_the_letter(name: str) -> None:
    before = MedFuzz(template=name).as_it_was
    assert before is not None
    assert (before.prompts.hash, content_hash(before.spec())) == FIRST[name]
    assert MedFuzz(template=name).prompts.hash != before.prompts.hash


def as_first(name: str, base: Path | None = None) -> Any:
    before = load_prompts(name, base).as_it_was
    assert before is not None
    return replace(before, as_it_was=None)


@pytest.mark.parametrize("own", [False, True])
def test_a_folder_of_the_first_edition_resumes_and_grows_with_its_prompts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: bool
) -> None:
    more: dict[str, Any] = {}
    if own:  # a set of the user's, which takes what it lacks from the shipped one
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "target_system.jinja").write_text("Be brief.", "utf-8")
        more = {"attack": {"template": str(tmp_path / "mine")}}
    with monkeypatch.context() as edition:
        edition.setattr(medfuzz, "load_prompts", as_first)
        old = run(experiment(tmp_path, 2, **more), tmp_path / "run")
    fingerprint = old.manifest()["fingerprint"]
    again = run(experiment(tmp_path, 2, **more), tmp_path / "run")
    assert again.manifest()["fingerprint"] == fingerprint
    longer = run(experiment(tmp_path, 4, **more), tmp_path / "run")
    assert len(longer.rows()) == 4
    edits = [text for text in prompts_of(longer, "attacker") if "target_option" not in text]
    assert len(edits) == 4
    assert all('"modified_item"' in text and '"after"' not in text for text in edits)
    new = run(experiment(tmp_path, 4, **more), tmp_path / "new")
    edits = [text for text in prompts_of(new, "attacker") if "target_option" not in text]
    assert all('"after"' in text for text in edits)
    placed = [sorted((row.item_id, row.edits) for row in one.rows()) for one in (new, longer)]
    assert placed[0] == placed[1]


def test_other_prompts_than_the_folder_s_are_refused(tmp_path: Path) -> None:
    run(experiment(tmp_path, 2), tmp_path / "run")
    with pytest.raises(StoreError, match="attack 'medfuzz' changed"):
        run(experiment(tmp_path, 2, attack={"template": "misinformation"}), tmp_path / "run")


def test_tests_may_show_other_worked_questions_than_the_attack_did(tmp_path: Path) -> None:
    row = {"question": "A case of MedQA. Which?", "options": {"A": "Left", "B": "Right"}}
    (tmp_path / "train.jsonl").write_text(json.dumps({**row, "answer_idx": "B"}), "utf-8")
    given = experiment(
        tmp_path,
        1,
        test={
            "significance": False,
            "faithfulness_slope": True,
            "slope_samples": 2,
            "exemplars_from": str(tmp_path / "train.jsonl"),
        },
    )
    given["role"]["judge"] = given["role"]["attacker"] | {
        "target": f"{tmp_path / 'roles.py'}:judge"
    }
    found = run(given, tmp_path / "run")
    asked = [text for text in prompts_of(found, "victim") if "step by step" in text]
    in_tests = [
        text for text in asked if "Example 1, of which option B is right\nA case of" in text
    ]
    assert 0 < len(in_tests) < len(asked)
    # The clean item, the edit and its check were asked as ever.
    assert len(asked) - len(in_tests) == 3


def test_a_file_for_tests_that_cannot_be_used_is_refused_before_the_run(tmp_path: Path) -> None:
    given = experiment(tmp_path, 1, test={"exemplars_from": str(tmp_path / "no.jsonl")})
    with pytest.raises(UsageError, match=r"\[test\]: exemplars_from = .*it cannot be read"):
        prepare(given)
