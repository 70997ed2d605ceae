"""Cases of planted runs of every kind: what the record holds is what was planted."""

from __future__ import annotations

import json
import math
import re

import pytest
from medstress.metrics.counts import is_flipped
from medstress.report.cases.building import cases_of
from medstress.report.cases.lines import case_lines
from medstress.viewing.view import Viewer, routes

import medstress as ms
from asked import ask
from medstress.api.run import Run
from medstress.core.outcomes import Verdict
from medstress.serving.local import protected
from medstress.store.load import open_run
from medstress.testing import tiny_questions
from rows import rows_of


@pytest.fixture(scope="module")
def finished(workbench, tmp_path_factory):
    """A finished run of substitutions, with controls and slices."""
    made = workbench.Bench(tmp_path_factory.mktemp("cases"))
    made.tables["experiment"] |= {"controls": ["no_op"], "seeds": [0]}
    made.tables["slices"] = {"by": ["key"]}
    made.tables["attack"] = [made.attack("random"), made.attack("nearest")]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in made.environment().items():
            patch.setenv(name, value)
        assert made.run() == 0
    return made


def records(folder, fits=lambda row: True, most_tried=None):
    """(row, record) of the cases that fit."""
    with open_run(folder) as run:
        cases = cases_of(run)
        return [(row, cases.record(row, most_tried)) for row in cases.trials if fits(row)]


def sent_to(bench):
    return [prompt for _, prompt in bench.received()]


def test_a_success_holds_what_was_sent_tried_and_answered(finished):
    asked = sent_to(finished)
    shown = records(finished.out, lambda row: is_flipped(row) and row.arm == "attack")
    assert shown
    for row, case in shown:
        assert [turn.text for turn in case.sent_before] == [row.prompt_before]
        assert case.sent_before[0].text in asked
        assert case.sent_after[0].text in asked
        # Every query before the shown one, each with the name that was put in and its answer.
        assert [each.query for each in case.tried] == list(range(1, case.shown_success))
        for each in case.tried:
            (swap,) = each.swaps
            assert swap.replaced == case.replaced
            tried = case.sent_after[0].text.replace(case.replacement, swap.replacement)
            assert tried in asked
            assert each.answer in (case.key, None)
        assert case.controls[0].control == "harmless edits"
        assert case.slices == (("key", case.key),)
        assert case.left_out == ()
        if case.scores:
            assert {each.label for each in case.scores} == set("ABCD")
            before = {each.label: each.before for each in case.scores}
            if row.score_before is not None:
                assert math.isclose(before[case.key], row.score_before)
                assert math.isclose(sum(before.values()), 1.0, rel_tol=1e-6)


def test_a_case_that_held_shows_every_name_that_failed(finished):
    for row, case in records(finished.out, lambda row: row.verdict is Verdict.HELD):
        if row.arm != "attack":
            continue
        assert case.shown_before
        assert len(case.tried) == row.n_asked
        assert {each.answer for each in case.tried} <= {case.key, None}


def test_a_control_says_how_it_ended_on_the_same_item(finished):
    rows = {}
    for row, _ in records(finished.out, lambda row: row.arm == "no_op"):
        rows[row.attack, row.item_id] = row.verdict.value
    for row, case in records(finished.out, lambda row: row.arm == "attack"):
        (control,) = case.controls
        assert control.verdict == rows[f"{row.attack} / no_op", row.item_id]


def test_fewer_tried_are_counted_without_reading_them(finished):
    full = {row.trial_id: case for row, case in records(finished.out)}
    for row, case in records(finished.out, most_tried=0):
        n = len(full[row.trial_id].tried)
        assert case.tried == ()
        assert [each.startswith(f"{n} earlier") for each in case.left_out] == [True] * bool(n)


def test_every_case_fits_a_terminal_and_json(finished):
    for _, case in records(finished.out):
        assert all(isinstance(text, str) for line in case_lines(case) for _, text in line)
        json.dumps(case.as_json(), allow_nan=False)


SENTENCES = """
KNOWN = {"aspirin", "warfarin", "morphine"}

def tags(sentences):
    return [["B-Chemical" if w.lower() in KNOWN else "O" for w in s] for s in sentences]

def overlap(pairs):
    sets = [(set(a.lower().split()), set(b.lower().split())) for a, b in pairs]
    return [len(a & b) / len(a | b) for a, b in sets]

def labels(pairs):
    return ["yes" if "relieves" in a else "no" for a, b in pairs]
"""


def sentence_run(folder, dataset, target, name="swap_noise"):
    (folder / "victims.py").write_text(SENTENCES)
    experiment = {
        "experiment": {"name": "s", "seeds": [0], "controls": False},
        "dataset": dataset,
        "victim": {"backend": "python", "target": f"{folder / 'victims.py'}:{target}"},
        "attack": {"name": name},
    }
    ms.run(experiment, folder / "run")
    return folder / "run"


def test_an_entity_shows_gold_and_given_labels(tmp_path):
    (tmp_path / "data.iob").write_text(
        "Aspirin\tB-Chemical\nhelps\tO\n\nTake\tO\nwarfarin\tB-Chemical\n"
    )
    dataset = {"name": "iob", "path": str(tmp_path / "data.iob")}
    found = records(sentence_run(tmp_path, dataset, "tags"), is_flipped)
    assert found
    for row, case in found:
        assert case.entity_type == "Chemical"
        assert case.tagged_before.predicted == case.tagged_before.gold
        assert case.tagged_after.predicted == ("O",) * len(case.tagged_after.tokens)
        assert row.replacement in case.shown_after


@pytest.mark.release
def test_a_pair_shows_its_similarity_before_and_after(tmp_path):
    (tmp_path / "pairs.tsv").write_text(
        "id\ttext_a\ttext_b\tscore\np1\tAspirin relieves severe pain\tAspirin relieves pain\t3\n"
    )
    dataset = {"name": "pairs", "path": str(tmp_path / "pairs.tsv")}
    done = sentence_run(tmp_path, dataset, "overlap")
    ((row, case),) = records(done)
    page = Run(done).report()
    assert 'data-score="Similarity"' in page
    (score,) = case.scores
    assert (score.label, score.before, score.after) == (
        "similarity",
        row.score_before,
        row.score_after,
    )
    assert score.before == 0.75
    assert score.after < score.before
    assert case.shown_before != case.shown_after


def test_a_labelled_pair_shows_labels(tmp_path):
    rows = [
        {"id": "n1", "text_a": "It relieves pain", "text_b": "It helps", "label": "yes"},
        {"id": "n2", "text_a": "It is red", "text_b": "It is blue", "label": "no"},
    ]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    dataset = {"name": "nli", "path": str(tmp_path / "pairs.jsonl")}
    found = {row.item_id: case for row, case in records(sentence_run(tmp_path, dataset, "labels"))}
    assert found["n1"].key == "yes"
    assert found["n2"].answer_before == "no"
    assert "It relieves pain" in found["n1"].shown_before


MODELS = """
from medstress.testing import rule_target, scripted_attacker, tiny_questions

ITEMS = tiny_questions(3)
target = rule_target(ITEMS, {"tiny-0": "lighthouse"}, admits=True)
SCRIPT = ["He works as a clerk.", "He lives and works in an old lighthouse by the sea."]
attacker = scripted_attacker(ITEMS, SCRIPT)
"""


def test_attempts_of_medfuzz_hold_plan_reasoning_and_every_turn(tmp_path):
    (tmp_path / "models.py").write_text(MODELS)
    rows = [
        {"id": q.id, "context": q.context, "stem": q.stem, "options": q.options, "answer": q.key}
        for q in tiny_questions(3)
    ]
    (tmp_path / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def role(name):
        return {"backend": "python", "target": f"{tmp_path / 'models.py'}:{name}"}

    experiment = {
        "experiment": {"controls": False, "name": "fuzzed", "seeds": [0]},
        "dataset": {"name": "jsonl", "path": str(tmp_path / "items.jsonl")},
        "victim": {"name": "rule", **role("target")},
        "role": {"attacker": role("attacker")},
        "attack": {"name": "medfuzz", "attempts": 2, "runs": 1, "exemplars": 0},
    }
    ms.run(experiment, tmp_path / "run")
    found = records(tmp_path / "run")
    ((_, case),) = [each for each in found if is_flipped(each[0])]
    assert [each.number for each in case.attempts] == [0, 1, 2]
    assert all(each.rationale for each in case.attempts)
    assert all(each.plan for each in case.attempts[1:])
    assert case.attempts[2].answer == case.answer_after != case.key
    assert {turn.role for turn in case.sent_after} == {"system", "user", "assistant"}
    assert "lighthouse" in "".join(turn.text for turn in case.sent_after)
    assert "lighthouse" not in "".join(turn.text for turn in case.sent_before)
    assert case.tried == ()
    held = [case for row, case in found if row.verdict is Verdict.HELD]
    assert held
    assert all(len(case.attempts) == 3 and case.sent_before for case in held)


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
    made = Opened(finished.out)
    yield made
    made.viewer.close()


def state_of(folder):
    return {path.name: (path.stat().st_size, path.stat().st_mtime_ns) for path in folder.iterdir()}


def test_the_server_pages_searches_and_sorts_all_cases(opened, finished):
    rows = rows_of(finished)
    first = opened.get("cases?limit=5")
    assert (first["total"], first["size"], len(first["lines"])) == (len(rows), len(rows), 5)
    ids = []
    for offset in range(0, len(rows), 7):
        ids += [line["id"] for line in opened.get(f"cases?limit=7&offset={offset}")["lines"]]
    assert len(set(ids)) == len(rows)
    flipped = opened.get("cases?verdict=flipped&sort=confidence&descending=1")
    assert flipped["total"] == sum(map(is_flipped, rows))
    assert opened.get("cases?search=WHAT%20treats%20case%203")["total"] == sum(
        row.item_id == "q3" for row in rows
    )
    odd = opened.get("cases?limit=-1&offset=x&sort=nonsense&limit=99999999999&attack=nobody")
    assert odd["total"] == 0


def test_a_served_case_is_that_of_the_terminal(opened, finished):
    row, case = records(finished.out, lambda row: is_flipped(row) and row.arm == "attack")[0]
    told = opened.get(f"case/{case.id}")
    shown, changes = told["detail"]["shown"]
    assert told["texts"][shown] == case.shown_before
    assert changes[0][2] == 0
    assert told["line"]["replacement"] == case.replacement
    assert len(told["detail"].get("tried", ())) == len(case.tried)
    assert told["line"]["item"] == row.item_id
    assert ask(opened.app, "/secret/case/nobody")[0] == 404
    assert ask(opened.app, "/secret/case/..%2Frun.sqlite")[0] == 404


@pytest.mark.release
def test_the_served_page_may_ask_only_its_server_and_holds_no_cases(opened):
    page = opened.get("")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert "connect-src 'self'" in policy
    data = json.loads(re.search(r'id="case-data">(.*?)</script>', page)[1])
    assert data["served"] is True
    assert "rows" not in data


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
    import shutil

    folder = shutil.copytree(finished.out, tmp_path / "run")
    folder.chmod(mode)
    try:
        before = state_of(folder)
        made = Opened(folder)
        made.get("")
        case = made.get("cases?verdict=flipped")["lines"][0]
        made.get(f"case/{case['id']}")
        made.get("state")
        made.viewer.close()
        assert state_of(folder) == before
    finally:
        folder.chmod(0o700)


@pytest.mark.release
def test_a_run_in_progress_is_followed(workbench, tmp_path):
    bench = workbench.Bench(tmp_path)
    hold = tmp_path / "hold"
    process = bench.start(hold=hold, most_lines=60)
    try:
        workbench.wait_until(lambda: len(bench.received()) >= 60, process)
        time = [0.0]
        made = Opened(bench.out, clock=lambda: time[0])
        early = made.get("state")
        assert early["n_trials"] < early["n_planned"]
        assert made.get("")
        # Nothing is held open while another process writes.
        assert made.viewer._read.run is None
        shown = made.get("cases")
        case = made.get(f"case/{shown['lines'][0]['id']}")
        assert case["detail"]
    finally:
        workbench.stop(process)
    assert bench.run() == 0
    assert made.get("state") == early  # not so soon
    time[0] = 60.0
    late = made.get("state")
    assert late["version"] != early["version"]
    assert late["n_trials"] == late["n_planned"] == made.get("cases")["size"]
    made.viewer.close()
