"""Cases of planted runs of every kind: a case holds what was planted; the server has them all."""

import json
import shutil

import pytest

import medstress as ms
from asked import ask
from medstress.analyses.run import Run
from medstress.analyses.shown import control_words
from medstress.cli.app import medstress_cli
from medstress.core.outcomes import Verdict
from medstress.report.cases import OUTCOMES, Cases
from medstress.report.view import Viewer, protected, routes
from medstress.testing import tiny_questions


@pytest.fixture(scope="module")
def finished(workbench, tmp_path_factory):
    """A finished run of substitutions, with controls and slices."""
    made = workbench.Bench(tmp_path_factory.mktemp("cases"))
    made.tables["experiment"] |= {"controls": ["no_op"], "seeds": [0]}
    made.tables["slices"] = {"by": ["key"]}
    made.tables["attack"] = [made.attack("random"), made.attack("nearest")]
    return made.finished()


def built(folder, fits=lambda trial: True, most_tried=None):
    """(trial, case) of the cases that fit."""
    cases = Cases(Run.open(folder))
    trials = [trial for trial in cases.trials if fits(trial)]
    return list(zip(trials, cases.cases(trials, most_tried=most_tried), strict=True))


def is_lost(trial):
    return trial.verdict is Verdict.FLIPPED


def is_won(trial):
    return is_lost(trial) and not trial.arm.is_control


def sides(marked):
    """A marked text before and after its changes."""
    return tuple(
        "".join(text for change, text in marked if change != other)
        for other in ("added", "removed")
    )


def sent_to(bench):
    return {prompt for _, prompt in bench.received()}


def test_a_success_holds_what_was_sent_tried_and_answered(finished):
    asked = sent_to(finished)
    cases = built(finished.out, is_won)
    assert cases
    for trial, case in cases:
        assert case.is_sent
        before, after = sides(case.text)
        assert {before, after} <= asked
        (swap,) = case.edits
        assert case.line.change == swap
        assert swap.replaced in before
        assert swap.replacement in after
        # Every query before the shown one, each with the name that was put in and its answer.
        assert [one.query for one in case.tried] == list(range(1, trial.pick.query))
        for one in case.tried:
            (tried,) = one.edits
            assert tried.replaced == swap.replaced
            assert after.replace(swap.replacement, tried.replacement) in asked
            assert one.answer in (trial.item.key, None)
        assert case.line.before == case.line.key == trial.item.key != case.line.after
        assert ("key", trial.item.key) in case.facts
        assert case.n_left_out == 0


def test_a_control_says_how_it_ended_on_the_same_item(finished):
    outcomes = {
        (one.arm.control_of, one.item.id): OUTCOMES[one.verdict]
        for one, _ in built(finished.out, lambda one: one.arm.is_control)
    }
    assert outcomes
    for trial, case in built(finished.out, lambda one: not one.arm.is_control):
        outcome = outcomes[trial.arm.attack.label, trial.item.id]
        assert (control_words("no_op"), outcome) in case.facts


MODELS = """
from medstress.testing import rule_target, scripted_attacker, tiny_questions

ITEMS = tiny_questions(9)
target = rule_target(ITEMS, {"tiny-0": "lighthouse"}, admits=True)
SCRIPT = ["He works as a clerk.", "He lives and works in an old lighthouse by the sea."]
attacker = scripted_attacker(ITEMS, SCRIPT)
"""
MOCK = {"backend": "mock"}


def fuzzed(folder, victim, **keys):
    """The folder of a run of MedFuzz; `role` names a function of `MODELS`."""
    (folder / "models.py").write_text(MODELS)
    rows = [
        {"id": q.id, "context": q.context, "stem": q.stem, "options": q.options, "answer": q.key}
        for q in tiny_questions(9)
    ]
    (folder / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def role(name):
        return {"backend": "python", "target": f"{folder / 'models.py'}:{name}"}

    experiment = {
        "experiment": {"name": "fuzzed", "seeds": [0], **keys},
        "dataset": {"name": "table", "path": str(folder / "items.jsonl")},
        "victim": {"name": "rule", **(victim or role("target"))},
        "role": {"attacker": role("attacker")},
        "attack": {"name": "medfuzz", "attempts": 2, "runs": 1, "exemplars": 0},
    }
    ms.run(experiment, folder / "run")
    return folder / "run"


@pytest.mark.parametrize("victim", [{}, MOCK, MOCK | {"answer_by": "letter"}])
def test_a_control_of_medfuzz_speaks_in_turns_too(tmp_path, victim):
    folder = fuzzed(tmp_path, victim)
    asked = built(folder, lambda one: one.arm.is_control and one.queries.asked)
    assert asked
    for _, case in asked:
        assert case.tried == case.continuations == ()
        assert {role for role, _ in case.sent} == {"system", "user", "assistant"}
        assert medstress_cli(["case", str(folder), case.id]) == 0
    assert medstress_cli(["report", str(folder), "--out", str(tmp_path / "page.html")]) == 0


def test_attempts_of_medfuzz_hold_plan_reasoning_and_every_turn(tmp_path):
    folder = fuzzed(tmp_path, {}, controls=False)
    cases = built(folder)
    ((_, case),) = [one for one in cases if is_lost(one[0])]
    assert [one.number for one in case.attempts] == [0, 1, 2]
    assert all(one.reasoning for one in case.attempts)
    assert all(one.plan for one in case.attempts[1:])
    assert case.attempts[2].answer == case.line.after != case.line.key
    assert {role for role, _ in case.sent} == {"system", "user", "assistant"}
    assert "lighthouse" in "".join(sides(text)[1] for _, text in case.sent)
    assert "lighthouse" not in "".join(sides(text)[0] for _, text in case.sent)
    assert case.tried == ()
    held = [case for one, case in cases if one.verdict is Verdict.HELD]
    assert held
    assert all(len(case.attempts) == 3 and case.sent for case in held)


# The local server


class Opened:
    """A viewer over HTTP."""

    def __init__(self, folder, **keys):
        self.viewer = Viewer(folder, **keys)
        self.app = protected(routes(self.viewer), "secret")

    def get(self, path, **how):
        status, text = ask(self.app, f"/secret/{path}", **how)
        assert status == 200, text
        return text if path == "" else json.loads(text)


@pytest.fixture
def opened(finished):
    return Opened(finished.out)


def state_of(folder):
    return {path.name: (path.stat().st_size, path.stat().st_mtime_ns) for path in folder.iterdir()}


def test_the_server_pages_filters_searches_and_sorts_all_cases(opened, finished):
    trials = Run.open(finished.out).trials
    first = opened.get("cases?limit=5")
    assert (first["total"], len(first["cases"])) == (len(trials), 5)
    ids = []
    for offset in range(0, len(trials), 7):
        ids += [one["id"] for one in opened.get(f"cases?limit=7&offset={offset}")["cases"]]
    assert len(set(ids)) == len(trials)
    lost = opened.get("cases?outcome=flipped&sort=item&limit=200")
    assert lost["total"] == sum(map(is_lost, trials)) == len(lost["cases"])
    items = [one["item"] for one in lost["cases"]]
    assert items == sorted(items) != [items[0]] * len(items)
    assert opened.get("cases?search=WHAT%20treats%20case%203")["total"] == sum(
        trial.item.id == "q3" for trial in trials
    )
    odd = opened.get("cases?limit=-1&offset=x&sort=nonsense&limit=99999999999&attack=nobody")
    assert odd["total"] == 0


def test_strangers_get_nothing(opened):
    for path, how, status in (
        ("/secret/", {"host": "evil.example"}, 400),
        ("/secret/cases", {"origin": "http://evil.example"}, 403),
        ("/wrong/", {}, 404),
        ("/", {}, 404),
        ("/cases", {}, 404),
    ):
        assert ask(opened.app, path, **how)[0] == status


@pytest.mark.parametrize("mode", [0o700, 0o500])
def test_viewing_writes_no_file(finished, tmp_path, mode):
    folder = shutil.copytree(finished.out, tmp_path / "run")
    folder.chmod(mode)
    try:
        before = state_of(folder)
        made = Opened(folder)
        made.get("")
        case = made.get("cases?outcome=flipped")["cases"][0]
        made.get(f"case/{case['id']}")
        made.get("state")
        assert state_of(folder) == before
    finally:
        folder.chmod(0o700)
