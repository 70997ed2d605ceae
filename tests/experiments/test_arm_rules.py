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


def test_a_targeted_success_transfers_only_where_the_target_is_answered(acids):
    """`one` answers the letter after the key, `other` the one after that: wrong, not the goal."""
    acids.victims(one=(r"\w+statin", 1), other=(r"\w+statin", 2))
    acids.tables["attack"] = [
        acids.attack("nearest", label="any", budget=41),
        acids.attack("nearest", label="to B", budget=41, goal="B"),
    ]
    acids.tables["analysis"] = {"transfer": True, "reuse": [1]}
    found = run(acids.write(), acids.out)
    summary = found.summary()
    cells = {
        (row["attack"], row["source"], row["target"]): row for row in summary["transfer"]["rows"]
    }
    assert cells["any", "one", "other"]["transfer"]["value"] == 1
    cell = cells["to B", "one", "other"]
    flipped = [
        r for r in rows_of(found) if (r.attack, r.victim, r.verdict) == ("to B", "one", "flipped")
    ]
    assert {row.key for row in flipped} == {"A"}
    assert (cell["n_asked"], cell["n_wrong"], cell["n_reached"]) == (len(flipped), len(flipped), 0)
    assert cell["transfer"]["value"] == 0
    asked = {(row["attack"], row["victim"]): row for row in summary["reuse"]["asked"]}
    share = asked["to B", "one"]["reuse"]
    # Keys A, C and D are attacked; only with key A is the letter after the key the goal.
    eligible = [
        r for r in rows_of(found) if (r.attack, r.victim) == ("to B", "one") and r.key != "B"
    ]
    eligible = [row for row in eligible if row.verdict in ("flipped", "held")]
    assert share["n"] == len(eligible) == 8
    assert share["value"] == pytest.approx(len(flipped) / len(eligible))
