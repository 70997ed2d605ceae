"""A victim that gives scores, from end to end: how far an attack moves P(key)."""

import pytest

import medstress as ms

VICTIMS = '''
import hashlib
import re


def _luck(prompt):
    return int(hashlib.sha256(prompt.encode()).hexdigest()[:8], 16) / 16**8


def overconfident(prompts):
    """.97 sure of everything; wrong on a third of the prompts, by a hash."""
    answers = []
    for prompt in prompts:
        key = "ABCD"[int(re.search(r"case ([0-9]+)", prompt)[1]) % 4]
        chosen = key if _luck(prompt) > 1 / 3 else "ABCD"["BCDA".index(key)]
        answers.append({"scores": {x: 0.97 if x == chosen else 0.01 for x in "ABCD"}})
    return answers


def letters(prompts):
    return ["A"] * len(prompts)
'''


@pytest.mark.release
def test_rows_say_how_far_the_keys_probability_moved(tmp_path, monkeypatch, workbench):
    monkeypatch.setenv("MEDSTRESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    workbench.Bench(tmp_path).write_items(workbench.questions(120, context="A man."))
    (tmp_path / "v.py").write_text(VICTIMS, encoding="utf-8")
    experiment = {
        "experiment": {"name": "x", "seeds": [0, 1], "controls": False, "flip_check": False},
        "dataset": {"name": "table", "path": "items.jsonl", "label": "cases"},
        "entities": {"type": "drugs", "vocabulary": "names.txt", "embedding": "ngram"},
        "victim": [
            {"name": name, "backend": "python", "target": f"v.py:{name}"}
            for name in ("overconfident", "letters")
        ],
        "attack": {"name": "entity_substitution", "sampler": "random", "budget": 2},
    }
    run = ms.run(experiment, out="run")
    rows = {row["victim"]: row for row in run.summary()["results"]}
    # Half of the right answers flip; the others do not move.
    sure = rows["overconfident"]
    assert sure["key_probability_change"]["value"] == pytest.approx(
        (0.01 - 0.97) * sure["asr"]["value"], abs=1e-6
    )
    assert rows["letters"]["key_probability_change"]["value"] is None
    assert rows["letters"]["key_probability_change"]["n"] == 0
