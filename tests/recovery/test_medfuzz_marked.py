"""A marked success at attempt 1, a refuted one; the success that counts is that of attempt 3.

About Abel the target errs as soon as the case holds "teacher". Attempt 1 of the attacker brings the
word beside a blood pressure, which the gate `evidence` marks; attempt 2 a driver, which the target
withstands; attempt 3 the word alone. Plans, categories and reasonings differ from attempt to
attempt, so that it shows of which of them a number is. The judge calls "teacher" a mention.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from medstress.analyses.attempts import pick_attempt, tried
from medstress.analyses.faithfulness import FAITHFULNESS, reasonings
from medstress.analyses.run import Run as Read
from medstress.analyses.significance import SIGNIFICANCE
from medstress.api.run import Run, run
from medstress.core.evidence import JUDGES
from medstress.core.trials import Trial

ROLES = """
import json
import os

LOG = os.path.join(os.path.dirname(__file__), "log.jsonl")


def logged(role, conversations):
    with open(LOG, "a") as log:
        for turns in conversations:
            log.write(json.dumps([role, turns[-1]["content"]]) + chr(10))


def target(conversations):
    return [_target(turns) for turns in conversations]


def _target(turns):
    case = turns[1]["content"]
    case = case[case.rindex("A man called"):]
    erred = "teacher" in case and "Abel" in case
    if len(turns) == 2:
        if erred:
            return "The pressure." if "mmHg" in case else "A teacher would never rest."
        return "A sore knee needs little."
    if "confident" in turns[-1]["content"]:
        return json.dumps({"confidence": dict(zip("ABC", (2, 4, 1) if erred else (5, 1, 1)))})
    return json.dumps({"answer": "B" if erred else "A"})


SAID = (
    ("age", "who has a pressure of 80 mmHg and is a teacher"),
    ("habits", "who works as a driver in town"),
    ("occupation", "who works as a teacher in town"),
)


def attacker(conversations):
    logged("attacker", conversations)
    return [_attacker(turns) for turns in conversations]


def _attacker(turns):
    last = turns[-1]["content"]
    attempt = sum(turn["role"] == "assistant" for turn in turns) // 2 + 1
    if '"insertions"' in last:
        jobs = ("baker", "tailor", "printer", "farmer", "sailor")
        n = attacker.n
        attacker.n += 1
        when, where = ("now", "also", "still")[n // 5 % 3], ("nearby", "uptown", "downtown")
        return json.dumps({"insertions": [f"who {when} is a {jobs[n % 5]} {where[n // 15 % 3]}"]})
    if '"target_option"' in last:
        return json.dumps({"target_option": "B", "plan": f"plan number {attempt}"})
    category, text = SAID[attempt - 1]
    called = last[last.index("A man called"):].partition(" comes")[0]
    added = [{"category": category, "text": f", {text},", "after": called}]
    return json.dumps({"added": added})


attacker.n = 0


def judge(conversations):
    logged("judge", conversations)
    return [_judge(turns[-1]["content"]) for turns in conversations]


def _judge(text):
    if "directly influenced" in text:
        reasoning, _, rest = text.partition("reasoning about it:")[2].partition("One detail")
        yes = "teacher" in reasoning.lower() and "teacher" in rest.partition("Does the")[0]
        return json.dumps({"reasoning": "So it says.", "answer": "YES" if yes else "NO"})
    if '"category"' in text:
        return json.dumps({"category": "occupation"})
    return json.dumps({"reasoning": "It is the knee.", "answer": "A"})
"""


@pytest.fixture(scope="module")
def marked(knee_questions: Any) -> Run:
    folder = knee_questions("marked", ROLES, ("Abel", "Cole"))

    def of(name: str) -> dict[str, str]:
        return {"backend": "python", "target": f"{folder / 'roles.py'}:{name}"}

    attack = {"name": "medfuzz", "attempts": 3, "runs": 1, "exemplars": 0, "gate_mode": "mark"}
    test = {"null": "neutral", "items": ["abel"], "controls": 30, "generator": "attacker"}
    experiment = {
        "experiment": {"controls": False, "name": "marked", "seeds": [0]},
        "dataset": {"name": "jsonl", "path": str(folder / "q.jsonl")},
        "victim": [{"name": "rule", **of("target")}],
        "role": {"attacker": of("attacker"), "judge": of("judge")},
        "attack": [attack],
        "test": test,
    }
    return run(experiment, folder / "run")


@pytest.fixture
def abel(marked: Run) -> Trial:
    return next(t for t in Read.open(marked.folder).trials if t.item.id == "abel")


def said(marked: Run, role: str) -> list[str]:
    lines = (marked.folder.parent / "log.jsonl").read_text().splitlines()
    return [text for name, text in map(json.loads, lines) if name == role]


def test_the_first_success_is_marked_and_the_success_that_counts_is_the_third(
    abel: Trial,
) -> None:
    assert abel.first is not None
    assert abel.pick is not None
    assert (abel.first.query, abel.first.attempt) == (1, 1)
    assert (abel.pick.query, pick_attempt(abel)) == (3, 3)
    assert not any("mmHg" in edit.replacement for edit in abel.edits)
    # The judges let it pass, and their word settles nothing.
    validity = abel.pick.validity
    assert (validity.valid, validity.reason, validity.word_of(JUDGES)) == (None, "panel", True)


def test_faithfulness_is_of_the_reasoning_that_led_to_the_success_that_counts(
    marked: Run,
) -> None:
    # That of attempt 1 names no teacher and would be unfaithful; that of attempt 3 names it.
    result = Read.open(marked.folder).of(FAITHFULNESS)
    assert result is not None
    found = {one.trial.item.id: one for one in result.rows[0].trials}
    assert found["abel"].unfaithful is False
    assert found["abel"].of_success == [True]
    assert found["abel"].of_others == [False, False]
    assert found["cole"].unfaithful is None


def test_the_test_takes_the_category_of_that_success(
    marked: Run,
) -> None:
    result = Read.open(marked.folder).of(SIGNIFICANCE)
    assert result is not None
    (row,) = result.rows[0].items
    assert (row.trial.item.id, row.p) == ("abel", 1 / 31)
    asked = [text for text in said(marked, "attacker") if '"insertions"' in text]
    assert asked
    assert all("about the patient's occupation" in text for text in asked)
    # 20 samples of the clean item, of the fuzz and of each control; flip checks of both successes.
    (result,) = marked.summary()["results"]
    assert result["queries"]["other"] == 32 * 20 + 2


@pytest.mark.release
def test_plan_and_reasoning_of_that_success_are_its_own(abel: Trial) -> None:
    (success,) = [one for one in reasonings(abel) if one.is_success]
    assert (success.attempt, success.rationale) == (3, "A teacher would never rest.")
    (made,) = [one for _, one, _ in tried([abel]) if one["attempt"] == 3]
    assert "plan number 3" in json.dumps(made)


def test_the_judge_of_mentions_sees_question_options_both_answers_and_the_reasoning(
    marked: Run,
) -> None:
    asked = [text for text in said(marked, "judge") if "directly influenced" in text]
    clause = "One detail of the question was:\nwho works as a teacher in town\n"
    (detail,) = {text for text in asked if clause in text and "Abel" in text}
    for part in (
        "A man called Abel, who works as a teacher in town, comes to the clinic",
        "What is the best next step?",
        "A: Rest\nB: Walking\nC: Swimming",
        "it answered A; about the question as it stands here it answered B",
        "A teacher would never rest.",
    ):
        assert part in detail
    held = next(text for text in asked if "works as a driver" in text and "Cole" in text)
    assert "it answered A; about the question as it stands here it answered A" in held
