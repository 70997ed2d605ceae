"""MedFuzz against a rule-based target: every number is computed by hand beforehand."""

from __future__ import annotations

import json

import pytest

from medstress.api.run import Run, run
from medstress.store.reviews import Review, ReviewStore
from medstress.testing import tiny_questions
from rows import rows_of

MODELS = """
from medstress.testing import rule_target, scripted_attacker, scripted_judge, tiny_questions

ITEMS = tiny_questions(8)
CUES = {"tiny-0": "teacher", "tiny-1": "teacher", "tiny-2": "clerk", "tiny-3": "farmer"}
target = rule_target(ITEMS, CUES, wrong=["tiny-7"])
attacker = scripted_attacker(
    ITEMS, ["He works as a clerk.", "He works as a teacher.", "He works as a farmer."]
)
careless = scripted_attacker(
    ITEMS, ["!Gone.", "His blood pressure is 80 mmHg.", "He works as a teacher."]
)
silent = scripted_attacker(ITEMS, ["He works as a teacher."], unreadable=[1])
judge = scripted_judge(ITEMS, doubts="teacher")
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models.py").write_text(MODELS, encoding="utf-8")
    rows = [
        {
            "id": q.id,
            "context": q.context,
            "stem": q.stem,
            "options": list(q.options),
            "answer_idx": q.key,
        }
        for q in tiny_questions(8)
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "items.jsonl").write_text(text, encoding="utf-8")
    return tmp_path


RATES = ("asr", "asr_at", "accuracy_after", "queries_to_success")


def fuzz(folder, attacker="attacker", judge=None, **attack):
    experiment = {
        "experiment": {"controls": False, "name": "fuzz", "seeds": [0]},
        "dataset": {"name": "jsonl", "path": "items.jsonl"},
        "victim": {"backend": "python", "target": "models.py:target"},
        "role": {"attacker": {"backend": "python", "target": f"models.py:{attacker}"}},
        "attack": {"name": "medfuzz", "attempts": 3, "runs": 1, **attack},
    }
    if judge:
        experiment["role"]["judge"] = {"backend": "python", "target": f"models.py:{judge}"}
    done = run(experiment, folder / "run")
    return *numbers(done), {each.item_id: each for each in rows_of(done)}


def numbers(done):
    """The row of results, and that of attempts."""
    summary = done.summary()
    (row,), (attempts,) = summary["results"], summary["attempts"]
    return row, attempts


def accuracy_at(attempts):
    assert [each["attempt"] for each in attempts["curve"]] == [0, 1, 2, 3]
    return [each["value"] for each in attempts["curve"]]


def gate(attempts, name):
    return next(each for each in attempts["gates"] if each["gate"] == name)


def word_of_panel(row):
    """What the panel says of a success: evidence, and no verdict on the right answer."""
    assert (row.valid, row.validity_reason) == (None, "panel")
    (word,) = (each["valid"] for each in row.evidence if each["kind"] == "judges")
    return word


def test_accuracy_after_each_attempt_is_what_the_scripts_make_it(folder):
    row, attempts, trials = fuzz(folder)
    assert accuracy_at(attempts) == [7 / 8, 6 / 8, 4 / 8, 3 / 8]
    assert [each["hits"] for each in attempts["curve"]] == [7, 6, 4, 3]
    assert [each["value"] for each in row["asr_at"]] == [1 / 7, 3 / 7, 4 / 7]
    assert attempts["attempts_to_success"] == {"median": 2.0, "mean": 2.0}
    assert row["asr"]["value"] == 4 / 7
    assert (row["n_already_wrong"], row["n_held"]) == (1, 3)
    assert trials["tiny-0"].first_success_attempt == 2
    assert trials["tiny-7"].attempts is not None
    # 2 + 2 + 1 + 3 attempts of successes, three each of those that held.
    assert [attempts[f"n_{name}"] for name in ("made", "asked", "judged")] == [17, 17, 0]
    assert attempts["lost_by_reason"] == {}
    assert row["queries"]["asked"] == 17
    # A plan and an edit an attempt.
    spending = Run(folder / "run").summary()["performance"]["spending"]
    calls = {each["payer"]: each["calls"] for each in spending}
    assert calls["role.attacker"] == 2 * 17


def test_runs_are_trials_of_their_own_with_other_exemplars_and_equal_weight(folder):
    row, attempts, _ = fuzz(folder, runs=3)
    assert (row["n_items"], row["n_trials"]) == (8, 24)
    assert accuracy_at(attempts) == [7 / 8, 6 / 8, 4 / 8, 3 / 8]
    assert "effective sample size, 8 items" in attempts["curve"][0]["method"]


def test_rejected_attempts_cost_an_attempt_and_no_query(folder):
    row, attempts, trials = fuzz(folder, "careless")
    assert accuracy_at(attempts) == [7 / 8, 7 / 8, 7 / 8, 5 / 8]
    won = trials["tiny-0"]
    assert (won.n_asked, won.first_success, won.first_success_attempt) == (1, 1, 3)
    assert row["n_rejected"] == 14
    assert attempts["lost_by_reason"] == {"options": 7, "evidence": 7}
    assert gate(attempts, "options")["n_objected"] == 7
    evidence = gate(attempts, "evidence")
    assert (evidence["n_objected"], evidence["n_alone"]) == (7, 7)
    assert evidence["asr_without"]["value"] == 1.0
    assert gate(attempts, "panel")["asr_without"]["value"] == 2 / 7
    first, second, *_ = won.attempts[1:]
    assert first["objections"][0] == {"gate": "options", "reason": "option A became 'Changed'"}
    assert [each["gate"] for each in second["objections"]] == ["evidence"]


def test_a_panel_that_no_longer_picks_the_key_keeps_an_edit_from_the_target(folder):
    row, attempts, trials = fuzz(folder, judge="judge")
    # The teacher never reaches the target, so items 0 and 1 hold.
    assert accuracy_at(attempts) == [7 / 8, 6 / 8, 6 / 8, 5 / 8]
    assert word_of_panel(trials["tiny-2"]) is True
    assert gate(attempts, "panel")["n_alone"] == 6
    # Nobody measured the panel on people's labels, so its word gives no rate.
    assert (row["asr_valid"], row["n_labels"]) == (None, 0)


def test_marking_asks_everything_and_shows_the_rate_with_and_without_each_gate(folder):
    row, attempts, trials = fuzz(folder, judge="judge", gate_mode="mark")
    assert row["asr"]["value"] == 4 / 7
    assert (row["asr_valid"], row["n_labels"]) == (None, 0)
    assert {each["asr_without"] for each in attempts["gates"]} == {None}
    # The panel objects to the successes of 0 and 1 alone.
    assert (attempts["panel"]["n_right"], attempts["panel"]["n_wrong"]) == (2, 2)
    assert word_of_panel(trials["tiny-0"]) is False


def review(folder, **said):
    trials = {row.item_id: row.trial_id for row in rows_of(Run(folder / "run"))}
    judged = [
        Review(
            trial_id=trials[item.replace("_", "-")],
            reviewer=f"R{i}",
            answers={"key_right": "yes" if valid else "no"},
            time="2026-01-01T00:00:00Z",
        )
        for item, each in said.items()
        for i, valid in enumerate(each)
    ]
    with ReviewStore(folder / "run") as store:
        store.add(judged)
    return numbers(Run(folder / "run"))


def test_experts_override_gates_in_every_rate_of_valid_successes_and_in_no_raw_one(folder):
    raw, raw_attempts, trials = fuzz(folder, judge="judge", gate_mode="mark")
    # Gates object to the successes of 0 and 1 (teacher, attempt 2) and to none of 2 (clerk,
    # attempt 1) and 3 (farmer, attempt 3).
    # What the panel says, for two of them and against two, narrows nothing: any may be valid.
    assert raw["asr_valid"] is None
    assert raw["asr_valid_bounds"] == [0, 4 / 7]
    row, attempts = review(folder, tiny_0=[True], tiny_2=[False, False], tiny_3=[True, False])
    assert {name: row[name] for name in RATES} == {name: raw[name] for name in RATES}
    for name in ("curve", "attempts_to_success", "lost_by_reason"):
        assert attempts[name] == raw_attempts[name]
    # People picked two successes, so these say nothing of the two others.
    assert (row["asr_valid"], row["n_labels"]) == (None, 0)
    # Experts accept 0 and refuse 2, whose search ended at attempt 1 of 3; on 3 they are at odds,
    # and the panel's word on 1 settles nothing. So all but 0 may have a valid success, or none.
    assert row["asr_valid_bounds"] == [1 / 7, 4 / 7]
    assert word_of_panel(trials["tiny-2"]) is True


def test_an_attacker_that_writes_no_json_loses_the_attempt_and_the_run_goes_on(folder):
    _, attempts, trials = fuzz(folder, "silent")
    assert accuracy_at(attempts) == [7 / 8, 7 / 8, 5 / 8, 5 / 8]
    lost = trials["tiny-0"].attempts[1]
    assert lost["unreadable"] == "the plan"
    assert lost["reason"] == "it holds no JSON object"
    assert attempts["lost_by_reason"] == {"unreadable: the plan": 7}


def test_items_wrong_at_baseline_are_attacked_where_asked_for_and_stay_wrong(folder):
    row, attempts, trials = fuzz(folder, attack_all=True)
    assert accuracy_at(attempts) == [7 / 8, 6 / 8, 4 / 8, 3 / 8]
    wrong = trials["tiny-7"]
    assert wrong.verdict.value == "already_wrong"
    assert (wrong.n_asked, wrong.first_success) == (1, None)
    assert row["n_already_wrong"] == 1
