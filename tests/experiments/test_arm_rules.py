"""What is asked after an arm follows the arm: its goal, its exclusions, its first successes."""

import json

import pytest

from medstress.api.run import run
from rows import rows_of

VICTIM = '''
"""Right, but where an option is a weak name: then the letter STEP places after the key."""

import os
import re


def answer(prompts):
    return [_answer(prompt) for prompt in prompts]


def _answer(prompt):
    place = int(re.search(r"case ([0-9]+)", prompt)[1]) % 4
    weak = any(re.search(r"^[A-D]\\W+(" + WEAK + ")$", line) for line in prompt.splitlines())
    return {"answer": "ABCD"[(place + STEP * weak) % 4]}
'''


@pytest.fixture
def acids(bench, workbench):
    """Keys of the form `tora1 acid`, so that `acid` could be a second right answer."""
    rows = json.loads(json.dumps(workbench.questions()).replace("zumab", " acid"))
    for row in rows:
        for mention in row["mentions"]:
            mention["end"] = len(row["options"]["ABCD".index(mention["field"])])
    bench.write_items(rows)
    (bench.root / "names.txt").write_text("\n".join([*workbench.NAMES, "acid"]), "utf-8")
    bench.tables["attack"] = [bench.attack("nearest", budget=41, choices="as_published")]

    def victims(**kinds):
        for name, (weak, step) in kinds.items():
            text = f"WEAK = {weak!r}\nSTEP = {step}\n{VICTIM}"
            (bench.root / f"{name}.py").write_text(text, "utf-8")
        bench.tables["victim"] = [
            {"name": name, "backend": "python", "target": f"{name}.py:answer"} for name in kinds
        ]

    bench.victims = victims
    return bench


def test_what_is_carried_ranked_and_embedded_is_the_first_success(acids):
    """The first success is `acid`, which the default rule leaves out; later a statin succeeds."""
    acids.victims(one=(r"acid|\w+statin", 1), other=(r"\w+statin", 1))
    acids.tables["analysis"] = {
        "transfer": True, "reuse": [1], "prompt_similarity": True, "embedder": "ngram",
    }  # fmt: skip
    found = run(acids.write(), acids.out)
    rows = [row for row in rows_of(found) if row.victim == "one" and row.verdict == "flipped"]
    assert len(rows) == 11
    trials = {trial.id: trial for trial in found.read().trials}
    for row in rows:
        trial = trials[row.trial_id]
        assert trial.first.name == "acid"
        assert trial.first.repeats is True
        assert 0 < trial.first.similarity < 1
        assert trial.first.query == row.first_success < trial.pick.query
        assert trial.pick.name.endswith("statin")
        assert row.replacement.endswith("statin")
        assert "statin" in row.prompt_after
    summary = acids.summary()
    (reusable,) = (each for each in summary["reuse"]["names"] if each["victim"] == "one")
    assert [entry["name"] for entry in reusable["names"]] == ["acid"]
    row = next(row for row in summary["results"] if row["victim"] == "one")
    assert row["diversity"]["value"] == 0
    cells = {(row["source"], row["target"]): row for row in summary["transfer"]["rows"]}
    cell = cells["one", "other"]
    assert (cell["transfer"]["value"], cell["transfer"]["n"], cell["n_wrong"]) == (0, 11, 0)
    assert cells["one", "one"]["transfer"]["value"] == 1
    # A name that the arm may ask is asked, also where the default rule would leave it out.
    (reused,) = (each for each in summary["reuse"]["asked"] if each["victim"] == "one")
    assert (reused["reuse"]["hits"], reused["reuse"]["n"], reused["n_never_asked"]) == (11, 11, 0)
