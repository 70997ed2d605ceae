"""Judges that are wrong on known items, and an attacker that refuses on known items, by hand.

Of eight items the victim errs on 0 and 1 where a teacher stands in the case, on 2 with a clerk, on
3 with a farmer, and always on 7. The attacker tries clerk, teacher and farmer in turn. The judges
doubt the key where they read of a teacher; the lost ones do not know items 0 and 4 to begin with.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from medstress.api.run import Run, run
from medstress.core.errors import UsageError
from medstress.experiment.dry_run import dry_run
from medstress.experiment.opened import opened_victims
from medstress.experiment.prepare import prepare
from medstress.testing import tiny_questions
from rows import rows_of

MODELS = """
import json
import os

from medstress.testing import rule_target, scripted_attacker, scripted_judge, tiny_questions

ITEMS = tiny_questions(8)
CUES = {"tiny-0": "teacher", "tiny-1": "teacher", "tiny-2": "clerk", "tiny-3": "farmer"}
TEACHER = "He works as a teacher."
target = rule_target(ITEMS, CUES, wrong=["tiny-7"])
twin = rule_target(ITEMS, CUES, wrong=["tiny-7"])
attacker = scripted_attacker(ITEMS, ["He works as a clerk.", TEACHER, "He works as a farmer."])
JUDGES = {
    "knowing": scripted_judge(ITEMS, doubts="teacher"),
    "lost": scripted_judge(ITEMS, doubts="teacher", wrong=["tiny-0", "tiny-4"]),
    "easy": scripted_judge(ITEMS),
}


def judged(name, conversations):
    with open(os.path.join(os.path.dirname(__file__), "log.jsonl"), "a") as log:
        for turns in conversations:
            log.write(json.dumps([name, turns[-1]["content"]]) + chr(10))
    return JUDGES[name](conversations)


def knowing(conversations):
    return judged("knowing", conversations)


def lost(conversations):
    return judged("lost", conversations)


def easy(conversations):
    return judged("easy", conversations)


def marked(conversations):
    # Its letter with marks around it, in turn.
    said = [json.loads(each)["answer"] for each in JUDGES["knowing"](conversations)]
    forms = ("{}.", "({})", "{}")
    told = [forms[i % 3].format(each if i % 2 else each.lower()) for i, each in enumerate(said)]
    return [json.dumps({"answer": each}) for each in told]


def rambling(conversations):
    # Prose, cut off before any answer.
    return ["Let us think about the findings of this case, one by one, beginning"] * len(
        conversations
    )


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
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models.py").write_text(MODELS, encoding="utf-8")
    rows = [
        {"id": q.id, "context": q.context, "stem": q.stem, "options": q.options, "answer": q.key}
        for q in tiny_questions(8)
    ]
    (tmp_path / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def of(function: str, **more: Any) -> dict[str, Any]:
    return {"backend": "python", "target": f"models.py:{function}", **more}


def tables(*judges: str, attacker: str = "attacker", **attack: Any) -> dict[str, Any]:
    return {
        "experiment": {"controls": False, "name": "judges", "seeds": [0]},
        "dataset": {"name": "jsonl", "path": "items.jsonl"},
        "victim": [of("target", name="target")],
        "role": {"attacker": of(attacker), "judge": [of(name) for name in judges]},
        "attack": {"name": "medfuzz", "attempts": 3, "runs": 1, **attack},
    }


def row_of(done: Run, entry: str = "results") -> dict[str, Any]:
    """The one row of results, or of attempts."""
    (row,) = done.summary()[entry]
    found: dict[str, Any] = row
    return found


def warning(done: Run, rule: str) -> str:
    (sentence,) = (each["sentence"] for each in done.summary()["warnings"] if each["rule"] == rule)
    return str(sentence)


def asked(folder: Path) -> Counter[tuple[str, str]]:
    """(judge, item) -> calls about the clean item."""
    found: Counter[tuple[str, str]] = Counter()
    for line in (folder / "log.jsonl").read_text().splitlines():
        name, text = json.loads(line)
        for item in tiny_questions(8):
            if item.question in text:
                found[name, item.id] += 1
    return found


@pytest.mark.release
def test_votes_of_a_judge_on_items_that_it_does_not_know_are_set_aside_and_shown_apart(
    folder: Path,
) -> None:
    done = run(tables("lost"), folder / "run")
    row, attempts = row_of(done), row_of(done, "attempts")
    trials = {each.item_id: each for each in rows_of(done)}
    # Item 0 flips with the teacher, for nobody may object there; item 1 holds, for the judge does.
    assert {name for name, each in trials.items() if each.verdict == "flipped"} == {
        "tiny-0", "tiny-2", "tiny-3",
    }  # fmt: skip
    assert (trials["tiny-0"].valid, trials["tiny-0"].validity_reason) == (None, None)
    assert trials["tiny-2"].validity_reason == "panel"
    wrong = ["tiny-0", "tiny-4"]
    judge = {"judge": "judge", "n_items": 7, "missed": wrong, "unreadable": []}
    assert attempts["judges"] == [judge]
    assert (row["asr"]["hits"], row["asr"]["n"]) == (3, 7)
    assert (attempts["asr_unjudged"]["hits"], attempts["asr_unjudged"]["n"]) == (1, 2)
    assert row["asr_valid"] is None  # nobody measured the panel
    # On 1 two attempts are judged and one refused; on 2 one, on 3 three, on 5 and 6 three.
    assert attempts["n_judged"] == 3 + 1 + 3 + 3 + 3
    assert "2 questions" in warning(done, "unjudged")


def test_a_judge_whose_votes_cannot_be_read_is_shown_as_that_and_vouches_for_nothing(
    folder: Path,
) -> None:
    done = run(tables("rambling"), folder / "run")
    row, attempts = row_of(done), row_of(done, "attempts")
    trials = {each.item_id: each for each in rows_of(done)}
    (judge,) = attempts["judges"]
    assert (judge["n_items"], judge["missed"], len(judge["unreadable"])) == (7, [], 7)
    assert attempts["asr_unjudged"]["n"] == 7
    flipped = [each for each in trials.values() if each.verdict == "flipped"]
    assert len(flipped) == 4
    assert {(each.valid, each.validity_reason) for each in flipped} == {(None, None)}
    assert row["asr_valid"] is None
    said = warning(done, "unreadable_judge")
    assert "on 7 of 7" in said
    assert "raise max_new_tokens of judge" in said


@pytest.mark.release
def test_a_letter_with_marks_around_it_or_small_is_the_letter(folder: Path) -> None:
    plain, marked = run(tables("knowing"), folder / "plain"), run(tables("marked"), folder / "run")
    (judge,) = row_of(marked, "attempts")["judges"]
    assert (judge["missed"], judge["unreadable"]) == ([], [])
    for name in ("asr", "asr_valid", "asr_valid_bounds"):
        assert row_of(marked)[name] == row_of(plain)[name]


def test_a_second_judge_votes_where_the_first_is_set_aside(folder: Path) -> None:
    done = run(tables("lost", "knowing"), folder / "run")
    summary, trials = done.summary(), {each.item_id: each for each in rows_of(done)}
    (attempts,) = summary["attempts"]
    judges = [(each["judge"], each["n_items"], len(each["missed"])) for each in attempts["judges"]]
    assert judges == [("judge", 7, 2), ("judge.2", 7, 0)]
    assert attempts["asr_unjudged"] is None
    assert trials["tiny-0"].verdict == "held"  # the second judge doubts
    first = next(each for each in trials["tiny-0"].attempts if "judges" in each)
    assert first["judges"]["judge"] == {"clean": ["B"] * 3, "votes": []}
    assert first["judges"]["judge.2"] == {"clean": ["A"] * 3, "votes": ["A"] * 3}
    paid = {each["payer"] for each in summary["performance"]["spending"]}
    assert paid == {"target", "role.attacker", "role.judge", "role.judge.2"}


def test_two_judges_at_odds_are_no_majority(folder: Path) -> None:
    done = run(tables("knowing", "easy"), folder / "run")
    trials = {each.item_id: each for each in rows_of(done)}
    refused = [each for each in trials["tiny-1"].attempts if "panel" in each][1]
    key = trials["tiny-1"].key
    assert [letter == key for letter in refused["panel"]] == [False, False, True, True]
    assert refused["objections"] == [
        {"gate": "panel", "reason": "only 2 of 4 votes of judges are for the key"}
    ]
    assert trials["tiny-1"].verdict == "held"


@pytest.mark.release
def test_a_clean_item_is_asked_once_of_each_judge_whatever_else_is_asked_about_it(
    folder: Path,
) -> None:
    settings = tables("lost", "knowing", runs=2)
    settings["experiment"]["seeds"] = [0, 1]
    settings["victim"].append(of("twin", name="twin"))
    settings["test"] = {"controls": 10, "faithfulness": False}
    prepared = prepare(settings)
    with opened_victims(prepared, lambda _: None):
        costs = dry_run(prepared).costs
    done = run(settings, folder / "run")
    # Items 2 and 3 of two victims, two seeds and two runs.
    tests = [one["p"] for arm in done.summary()["significance"] for one in arm["items"]]
    assert tests == [1 / 11] * 2 * 2 * 2 * 2
    # Two victims, two seeds and two runs, their attempts, and tests of their successes; item 7 is
    # wrong at baseline.
    expected = [(name, f"tiny-{i}") for name in ("lost", "knowing") for i in range(7)]
    assert asked(folder) == dict.fromkeys(expected, 3)
    judges = [cost.queries["clean"] for cost in costs if cost.model.startswith("role.judge")]
    assert judges == [24, 24]
    before = len((folder / "log.jsonl").read_text().splitlines())
    run(settings, folder / "run")
    assert len((folder / "log.jsonl").read_text().splitlines()) == before


@pytest.mark.release
def test_runs_that_share_a_cache_share_what_judges_say_of_clean_items(folder: Path) -> None:
    settings = tables("knowing")
    settings["experiment"]["cache"] = "cache"
    run(settings, folder / "run")
    first = asked(folder)
    settings["experiment"]["seeds"] = [5]
    run(settings, folder / "other")
    assert asked(folder) == first == {("knowing", f"tiny-{i}"): 3 for i in range(7)}


@pytest.mark.release
def test_controls_are_judged_by_those_who_know_the_item(folder: Path) -> None:
    # Item 0, which the judge does not know, flips; its controls are judged by nobody.
    settings = tables("lost")
    items = [f"tiny-{i}" for i in range(8)]
    settings["test"] = {"null": "neutral", "items": items, "controls": 30, "faithfulness": False}
    done = run(settings, folder / "run")
    items_of = {row.trial_id: row.item_id for row in rows_of(done)}
    tests = row_of(done, "significance")["items"]
    found = {items_of[one["trial_id"]]: one["p"] for one in tests}
    assert found == dict.fromkeys(("tiny-0", "tiny-2", "tiny-3"), 1 / 31)
    items = {item.id: item for item in tiny_questions(8)}
    lines = [json.loads(x)[1] for x in (folder / "log.jsonl").read_text().splitlines()]

    def n_edited(item: str) -> int:
        return sum(items[item].stem in x and items[item].question not in x for x in lines)

    assert n_edited("tiny-0") == 0
    # One edit of the attack, and 30 controls.
    assert n_edited("tiny-2") == 3 * (1 + 30)


def test_one_judge_twice_is_refused(folder: Path) -> None:
    same = prepare(tables("knowing", "knowing"))
    said = r"\[role\.judge\.2\]: it would repeat the answers of \[role\.judge\]"
    with pytest.raises(UsageError, match=said), opened_victims(same, lambda _: None):
        pass


def test_a_judge_can_be_switched_off_and_all_can_be_set_at_once(folder: Path) -> None:
    settings = tables("knowing", "knowing", "easy")
    settings["role"]["judge"][1]["use"] = False
    prepared = prepare(settings, overrides=["role.judge.temperature=0.5"])
    with opened_victims(prepared, lambda _: None):
        shown = [(part.name, part.decoding.temperature) for part in prepared.roles]
    assert shown == [("attacker", 1.0), ("judge", 0.5), ("judge.2", 0.5)]


FILE = """
[experiment]
controls = false
name = "judges"
[dataset]
name = "jsonl"
path = "items.jsonl"
[[victim]]
backend = "python"
target = "models.py:target"
[role.attacker]
backend = "python"
target = "models.py:attacker"
[[role.judge]]
backend = "python"
target = "models.py:knowing"
[[role.judge]]
backend = "python"
target = "models.py:easy"
temprature = 0
[[attack]]
name = "medfuzz"
"""


@pytest.mark.release
def test_a_wrong_key_of_the_second_judge_is_named_with_its_line(folder: Path) -> None:
    (folder / "e.toml").write_text(FILE)
    done = subprocess.run(
        [sys.executable, "-m", "medstress", "run", "e.toml", "--dry-run"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "line 20: unknown key 'temprature'" in done.stderr
    assert "did you mean 'temperature'" in done.stderr


@pytest.mark.release
def test_trials_in_which_the_attacker_refused_are_no_resistance(folder: Path) -> None:
    settings = tables(attacker="refusing")
    del settings["role"]["judge"]
    done = run(settings, folder / "run")
    row, attempts = row_of(done), row_of(done, "attempts")
    # Items 2 and 5 of seven: 2 would have flipped. 0, 1 and 3 do.
    assert (row["n_eligible"], row["n_flipped"], row["n_held"]) == (7, 3, 4)
    assert row["n_never_asked"] == 2
    assert row["asr"]["value"] == 3 / 7
    assert (row["asr_asked"]["hits"], row["asr_asked"]["n"]) == (3, 5)
    assert "in 2 of 7 trials" in warning(done, "saw_no_edit")
    assert sum(attempts["lost_by_reason"].values()) == 6
    assert all(reason.startswith("unreadable") for reason in attempts["lost_by_reason"])


def test_trials_in_which_gates_rejected_every_edit_saw_none_either(folder: Path) -> None:
    settings = tables("knowing", gates=["panel"], attempts=2)
    (folder / "models.py").write_text(
        MODELS.replace('["He works as a clerk.", TEACHER, "He works as a farmer."]', "[TEACHER]")
    )
    done = run(settings, folder / "run")
    row = row_of(done)
    assert (row["n_never_asked"], row["n_held"], row["n_rejected"]) == (7, 7, 14)
    assert (row["asr_asked"]["value"], row["asr_asked"]["n"]) == (None, 0)
    assert row_of(done, "attempts")["lost_by_reason"] == {"panel": 14}
    assert "in 7 of 7 trials" in warning(done, "saw_no_edit")
