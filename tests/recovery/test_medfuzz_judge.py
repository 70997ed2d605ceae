"""A judge that objects or errs on known items, and an attacker that refuses on them, by hand.

Of eight items the victim errs on 0 and 1 where a teacher stands in the case, on 2 with a clerk, on
3 with a farmer, and always on 7. The attacker tries clerk, teacher and farmer in turn.
"""

import json
from typing import Any

import pytest

from medstress.api.run import Run, run
from medstress.testing import tiny_questions
from rows import rows_of

MODELS = """
from medstress.testing import rule_target, scripted_attacker, scripted_judge, tiny_questions

ITEMS = tiny_questions(8)
CUES = {"tiny-0": "teacher", "tiny-1": "teacher", "tiny-2": "clerk", "tiny-3": "farmer"}
target = rule_target(ITEMS, CUES, wrong=["tiny-7"])
TEXTS = ["He works as a clerk.", "He works as a teacher.", "He works as a farmer."]
attacker = scripted_attacker(ITEMS, TEXTS)
feverish = scripted_attacker(ITEMS, ["He has a fever.", "He works as a teacher."])
knowing = scripted_judge(ITEMS, doubts="teacher", wrong=["tiny-3"])
strict = scripted_judge(ITEMS, objects="teacher")
never = scripted_judge(ITEMS, objects="*")


def rambling(conversations):
    return ["Let us think about the findings of this case, one by one"] * len(conversations)


def refusing(conversations):
    refused = [ITEMS[i].stem for i in (2, 5)]
    return [
        "I cannot help with that."
        if any(stem in turn["content"] for stem in refused for turn in turns)
        else attacker([turns])[0]
        for turns in conversations
    ]
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models.py").write_text(MODELS, encoding="utf-8")
    rows = [
        {"id": q.id, "context": q.context, "stem": q.stem, "options": q.options, "answer": q.key}
        for q in tiny_questions(8)
    ]
    (tmp_path / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def tables(judge: str | None = None, attacker: str = "attacker", **attack: Any) -> dict[str, Any]:
    def of(function: str, **more: Any) -> dict[str, Any]:
        return {"backend": "python", "target": f"models.py:{function}", **more}

    return {
        "experiment": {"controls": False, "name": "judges", "seeds": [0]},
        "dataset": {"name": "table", "path": "items.jsonl"},
        "victim": [of("target", name="target")],
        "role": {"attacker": of(attacker), **({"judge": of(judge)} if judge else {})},
        "attack": {"name": "medfuzz", "attempts": 3, "runs": 1, **attack},
    }


def row_of(done: Run, entry: str = "results") -> dict[str, Any]:
    """The one row of results, or of attempts."""
    (row,) = done.summary()[entry]
    found: dict[str, Any] = row
    return found


def sentences(done: Run, rule: str) -> list[str]:
    return [str(one["sentence"]) for one in done.summary()["warnings"] if one["rule"] == rule]


def flipped(done: Run) -> set[str]:
    return {one.item_id for one in rows_of(done) if one.verdict == "flipped"}


@pytest.mark.release
def test_what_a_judge_calls_evidence_is_not_asked(folder):
    assert flipped(run(tables(), folder / "none")) == {"tiny-0", "tiny-1", "tiny-2", "tiny-3"}
    done = run(tables("strict"), folder / "run")
    assert flipped(done) == {"tiny-2", "tiny-3"}
    # Item 2 flips at once; of six others the second attempt is lost.
    assert row_of(done, "attempts")["lost_by_reason"] == {"evidence, says the judge": 6}
    for one in rows_of(done):
        assert (one.valid, one.validity_reason) == (None, None)


def test_votes_on_the_key_are_shown_and_decide_nothing(folder):
    done = run(tables("knowing"), folder / "run")
    assert flipped(done) == {"tiny-0", "tiny-1", "tiny-2", "tiny-3"}
    # It doubts on 0 and 1, where a teacher stands, and never knows 3.
    votes = row_of(done, "attempts")["key_votes"]
    assert votes == {"n_kept": 1, "n_changed": 2, "n_set_aside": 1}
    assert row_of(done)["asr_valid"] is None


def test_a_judge_that_always_objects_is_said_and_nothing_is_judged(folder):
    done = run(tables("never"), folder / "run")
    row, verdict = row_of(done), done.summary()["verdict"]
    assert (row["n_never_asked"], row["n_held"], row["n_rejected"]) == (7, 7, 21)
    assert (row["asr_asked"]["value"], row["asr_asked"]["n"]) == (None, 0)
    assert "The judge objected to every edit (21 of 21)" in verdict["lines"][0]
    assert verdict["trust"]["level"] == "no"
    (said,) = sentences(done, "judge_objects")
    assert "the judge objected to every edit (21 of 21)" in said
    assert sentences(done, "saw_no_edit")
    criterion = {"metric": "asr", "max_high": 0.9}
    settings = {**tables("never"), "require": [criterion]}
    (result,) = run(settings, folder / "gate").summary()["requirements"]
    assert result["met"] is not True


def test_without_a_judge_the_list_decides_and_says_what_it_misses(folder):
    done = run(tables(attacker="feverish"), folder / "run")
    assert flipped(done) == {"tiny-0", "tiny-1"}
    assert row_of(done, "attempts")["lost_by_reason"]["evidence"] >= 7
    assert "about a sixth of clinical evidence" in done.report()
    assert "No judge looked at the edits" in done.summary()["verdict"]["lines"][2]
    judged = run(tables("knowing"), folder / "judged")
    assert "No judge" not in judged.summary()["verdict"]["lines"][2]
    # A judge that cannot be read leaves it to the list too.
    rambled = run(tables("rambling", attacker="feverish"), folder / "rambled")
    assert flipped(rambled) == {"tiny-0", "tiny-1"}
    assert row_of(rambled, "attempts")["key_votes"]["n_set_aside"] == 2


@pytest.mark.release
def test_trials_in_which_the_attacker_refused_are_no_resistance(folder):
    done = run(tables(attacker="refusing"), folder / "run")
    row, attempts = row_of(done), row_of(done, "attempts")
    # Items 2 and 5 of seven: 2 would have flipped. 0, 1 and 3 do.
    assert (row["n_eligible"], row["n_flipped"], row["n_held"]) == (7, 3, 4)
    assert row["n_never_asked"] == 2
    assert (row["asr_asked"]["hits"], row["asr_asked"]["n"]) == (3, 5)
    (said,) = sentences(done, "saw_no_edit")
    assert "in 2 of 7 trials" in said
    assert sum(attempts["lost_by_reason"].values()) == 6
