"""MedFuzz against a rule-based target: every number is computed by hand beforehand.

Of eight items the target errs on 0 and 1 where a teacher stands in the case, on 2 with a clerk, on
3 with a farmer, and always on 7. The attacker tries clerk, teacher and farmer in turn.
"""

import pytest

from conversation_server import ConversationServer
from fault_server import n_tokens
from medstress.api.run import Run, run
from medstress.cli.app import medstress_cli
from medstress.experiment.verify import verify_folder
from medstress.testing import rule_target, scripted_attacker, tiny_questions
from question_rows import write_rows
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
judge = scripted_judge(ITEMS)
knowing = scripted_judge(ITEMS, doubts="teacher", wrong=["tiny-3"])
strict = scripted_judge(ITEMS, objects="teacher")
never = scripted_judge(ITEMS, objects="*")


def vague(conversations):
    known = [ITEMS[i].stem for i in (0, 1)]
    return [
        judge([turns])[0] if any(stem in turns[0]["content"] for stem in known) else "Hard to say."
        for turns in conversations
    ]


def musing(conversations, speak=attacker):
    assert not any("Evidence?" in turn["content"] for turns in conversations for turn in turns)
    said = speak(conversations)
    return [f"~:Evidence? No:~ {'None.' if '[]' in one else one}" for one in said]


def musing_judge(conversations):
    return musing(conversations, strict)


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
    write_rows(tmp_path / "items.jsonl", tiny_questions(8))
    return tmp_path


def of(function):
    own = {"thoughts": ("~:", ":~")} if function.startswith("musing") else {}
    return {"backend": "python", "target": f"models.py:{function}", **own}


def fuzzed(folder, judge=None, attacker="attacker", require=(), **attack):
    """Run the experiment in a folder of its own."""
    tables = {
        "experiment": {"controls": False, "name": "fuzz", "seeds": [0]},
        "dataset": {"name": "table", "path": "items.jsonl"},
        "victim": of("target"),
        "role": {"attacker": of(attacker), **({"judge": of(judge)} if judge else {})},
        "attack": {"name": "medfuzz", "attempts": 3, "runs": 1, **attack},
        "require": list(require),
    }
    return run(tables, folder / f"run {judge} {attacker}")


def row_of(done, entry="results"):
    """The one row of results, or of attempts."""
    (row,) = done.summary()[entry]
    return row


def fuzz(folder, attacker="attacker", **attack):
    done = fuzzed(folder, attacker=attacker, **attack)
    trials = {each.item_id: each for each in rows_of(done)}
    return row_of(done), row_of(done, "attempts"), trials


def accuracy_at(attempts):
    assert [each["attempt"] for each in attempts["curve"]] == [0, 1, 2, 3]
    return [each["value"] for each in attempts["curve"]]


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
    assert [attempts[f"n_{name}"] for name in ("made", "asked")] == [17, 17]
    assert attempts["lost_by_reason"] == {}
    assert row["queries"]["asked"] == 17
    # A plan and an edit an attempt.
    summary = Run(folder / "run None attacker").summary()
    calls = {each["payer"]: each["calls"] for each in summary["performance"]["spending"]}
    assert calls["role.attacker"] == 2 * 17
    assert "No judge" in summary["verdict"]["lines"][2]


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
    assert attempts["lost_by_reason"] == {"the insertions: not only insertions": 7, "evidence": 7}
    (objection,) = won.attempts[2]["objections"]
    assert objection["gate"] == "evidence"


# -- a judge, and an attacker that refuses ---------------------------------------------------
def sentences(done, rule):
    return [one["sentence"] for one in done.summary()["warnings"] if one["rule"] == rule]


def flipped(done):
    return {one.item_id for one in rows_of(done) if one.verdict == "flipped"}


@pytest.mark.parametrize(
    ("judge", "attacker"), [("strict", "attacker"), ("musing_judge", "musing")]
)
def test_what_a_judge_calls_evidence_is_not_asked(folder, judge, attacker):
    """Thoughts in marks of a role's own are not read, nor sent back to it."""
    done = fuzzed(folder, judge, attacker)
    assert verify_folder(done.folder).holds
    assert flipped(done) == {"tiny-2", "tiny-3"}
    # Item 2 flips at once; of six others the second attempt is lost.
    assert row_of(done, "attempts")["lost_by_reason"] == {"evidence, says the judge": 6}
    assert {(one.valid, one.validity_reason) for one in rows_of(done)} == {(None, None)}


def test_votes_on_the_key_are_shown_and_decide_nothing(folder):
    done = fuzzed(folder, "knowing")
    assert flipped(done) == {"tiny-0", "tiny-1", "tiny-2", "tiny-3"}
    # It doubts on 0 and 1, where a teacher stands, and never knows 3.
    votes = row_of(done, "attempts")["key_votes"]
    assert votes == {"n_kept": 1, "n_changed": 2, "n_set_aside": 1}
    assert row_of(done)["asr_valid"] is None
    assert "No judge" not in done.summary()["verdict"]["lines"][2]


def test_a_judge_that_always_objects_is_named_and_nothing_is_judged(folder):
    done = fuzzed(folder, "never", require=[{"metric": "asr", "max_high": 0.9}])
    row, summary = row_of(done), done.summary()
    assert (row["n_never_asked"], row["n_held"], row["n_rejected"]) == (7, 7, 21)
    assert (row["asr_asked"]["value"], row["asr_asked"]["n"]) == (None, 0)
    assert summary["verdict"]["trust"]["level"] == "no"
    (sentence,) = sentences(done, "judge_objects")
    assert "the judge objected to every edit (21 of 21)" in sentence
    assert sentences(done, "saw_no_edit")
    assert summary["requirements"][0]["met"] is not True


def test_a_judge_that_cannot_be_read_leaves_it_to_the_list_and_that_is_said(folder):
    done = fuzzed(folder, "vague")
    assert flipped(done) == {"tiny-0", "tiny-1", "tiny-2", "tiny-3"}
    (sentence,) = sentences(done, "judge_unread")
    # Two attempts each on items 0 and 1 of 17.
    assert (
        "13 of 17 replies of the judge about evidence could not be used: it holds no JSON object."
        in sentence
    )
    assert "a sixth of clinical evidence" in sentence


def test_trials_in_which_the_attacker_refused_are_no_resistance(folder):
    done = fuzzed(folder, attacker="refusing")
    row, attempts = row_of(done), row_of(done, "attempts")
    # Items 2 and 5 of seven: 2 would have flipped. 0, 1 and 3 do.
    assert (row["n_eligible"], row["n_flipped"], row["n_held"]) == (7, 3, 4)
    assert row["n_never_asked"] == 2
    assert (row["asr_asked"]["hits"], row["asr_asked"]["n"]) == (3, 5)
    (sentence,) = sentences(done, "saw_no_edit")
    assert "in 2 of 7 trials" in sentence
    assert sum(attempts["lost_by_reason"].values()) == 6


# -- roles as they really are ----------------------------------------------------------------
ROLES = """
import json
from models import ITEMS, target, attacker


def item_of(turns):
    return next(i for i in ITEMS if any(i.stem in turn["content"] for turn in turns))


def each(speak):
    return lambda conversations: [speak(turns) for turns in conversations]


def prose(turns):
    # Without any JSON.
    (said,) = target([turns])
    if said[0] != "{":
        return said
    found = json.loads(said)
    if "answer" in found:
        return "<think>Is it A? B? C? D?</think>The answer is " + found["answer"] + "."
    return "I am sure of this:\\n" + ", ".join(f"{k}: {v}" for k, v in found["confidence"].items())


def german(turns):
    return "Ich kann das so nicht sagen, die Befunde sind wichtig."


def nothing(turns):
    return ""


def another(turns):
    (said,) = attacker([turns])
    return said if "target_option" in said else "A girl of six has had a cough for days. Why?"


def again(turns):
    (said,) = attacker([turns[:2]])
    plan = said if '"target_option"' in turns[-1]["content"] else None
    reply = {"text": "He works as a clerk.", "where": "end", "category": "work"}
    return plan or json.dumps({"insertions": [reply]})


def thinking(turns):
    (said,) = attacker([turns])
    wrong = '{"post_mortem": null, "target_option": "Z", "plan": "x"} {"insertions": []}'
    return f"<think>{wrong}</think>Of course. {wrong} No, this:\\n{said}"


def whole(turns):
    (said,) = attacker([turns])
    if "target_option" in said:
        return said
    item, text = item_of(turns), json.loads(said.strip("`json\\n"))["insertions"][0]["text"]
    return f"Here is the edited question:\\n\\n{item.context} {text} {item.stem}\\nA: x\\nB: y"


prose, german, nothing, another, again, thinking, whole = map(
    each, (prose, german, nothing, another, again, thinking, whole)
)
"""


@pytest.fixture
def roles(folder, workbench):
    (folder / "roles.py").write_text(ROLES, encoding="utf-8")

    def go(capsys, *, criterion=False, target="target", attacker="attacker"):
        tables = {
            "experiment": {"name": "fuzz", "seeds": [0], "controls": False},
            "dataset": {"name": "table", "path": "items.jsonl"},
            "victim": {"backend": "python", "target": f"roles.py:{target}"},
            "role.attacker": {"backend": "python", "target": f"roles.py:{attacker}"},
            "attack": {"name": "medfuzz", "attempts": 5, "runs": 1},
            **({"require": {"metric": "asr", "max_high": 1.0}} if criterion else {}),
        }
        (folder / "e.toml").write_text(workbench.toml(tables), encoding="utf-8")
        code = medstress_cli(["run", "e.toml", "--out", "run", "--quiet"])
        summary = Run(folder / "run").summary()
        return code, summary, capsys.readouterr()

    return go


PLANTED = [7 / 8, 6 / 8, 4 / 8, 3 / 8, 3 / 8, 3 / 8]


@pytest.mark.parametrize(
    "parts", [{"target": "prose", "attacker": "thinking"}, {"attacker": "whole"}], ids=str
)
def test_roles_that_write_as_models_do_give_the_planted_curve(roles, capsys, parts):
    code, summary, _ = roles(capsys, **parts)
    (attempts,) = summary["attempts"]
    assert code == 0
    assert [one["value"] for one in attempts["curve"]] == PLANTED


@pytest.mark.parametrize(
    ("parts", "lost"),
    [
        ({"attacker": "nothing"}, {"the plan: empty": 35}),
        ({"attacker": "another"}, {"the insertions: another question": 35}),
    ],
    ids=str,
)
def test_where_no_edit_is_shown_nothing_is_judged_and_the_headline_says_so(
    roles, capsys, parts, lost
):
    code, summary, printed = roles(capsys, criterion=True, **parts)
    (attempts,), (requirement,) = summary["attempts"], summary["requirements"]
    assert {why.split(",")[0]: n for why, n in attempts["lost_by_reason"].items()} == lost
    assert code == 3
    assert requirement["met"] is None
    assert "nothing is known" in " ".join(summary["verdict"]["lines"])
    assert "Do not rely on this" in printed.out


def test_the_same_edit_five_times_is_shown_once(roles, capsys):
    code, summary, _ = roles(capsys, attacker="again")
    (attempts,), (row,) = summary["attempts"], summary["results"]
    # The clerk misleads on one of the seven items that are right at first.
    assert (code, row["n_flipped"], attempts["n_asked"]) == (0, 1, 7)
    assert attempts["lost_by_reason"] == {"the insertions: same edit": 6 * 4}


def test_a_target_that_answers_in_another_language_is_unreadable_and_never_robust(roles, capsys):
    code, summary, _ = roles(capsys, target="german")
    (row,) = summary["results"]
    assert (code, row["n_eligible"], row["n_unreadable_at_baseline"]) == (1, 0, 8)


def test_items_wrong_at_baseline_are_attacked_where_asked_for_and_stay_wrong(folder):
    row, attempts, trials = fuzz(folder, attack_all=True)
    assert accuracy_at(attempts) == [7 / 8, 6 / 8, 4 / 8, 3 / 8]
    wrong = trials["tiny-7"]
    assert wrong.verdict.value == "already_wrong"
    assert (wrong.n_asked, wrong.first_success) == (1, None)
    assert row["n_already_wrong"] == 1


# -- through a server ------------------------------------------------------------------------
def both(conversations):
    """One model that plays the target and, where it is told of a lever, the attacker."""
    items = tiny_questions(8)
    target = rule_target(items, {"tiny-0": "teacher"})
    attacker = scripted_attacker(items, ["He works as a teacher."])
    return [
        (attacker if "lever" in turns[0]["content"] else target)([turns])[0]
        for turns in conversations
    ]


KEYS = ("experiment.controls=false", "attack.runs=1", "attack.attempts=2")
FEW = [word for key in KEYS for word in ("--set", key)]


def run_alone(server, *more):
    given = ["--data", "items.jsonl", "--model", "both", "--base-url", server.url]
    return medstress_cli(["run", *given, "--attack", "medfuzz", "--out", "run", "--quiet", *more])


def test_a_model_without_an_attacker_attacks_itself_and_that_is_said_once(folder, capsys):
    with ConversationServer(both, model="both") as server:
        code = run_alone(server, *FEW)
    printed = capsys.readouterr()
    (row,) = Run(folder / "run").summary()["results"]
    assert (code, row["n_flipped"], row["n_items"]) == (0, 1, 8)
    assert (printed.out + printed.err).count("attacks itself") == 1


CUT = """
experiment = {{name = "cut", seeds = [0], controls = false}}
dataset = {{name = "table", path = "items.jsonl"}}
victim = {{backend = "openai", model = "both", base_url = "{url}", answer_by = "generate"}}
role.attacker = {{model = "both", max_new_tokens = 4}}
attack = {{name = "medfuzz", runs = 1}}
require = {{metric = "asr", max_high = 1.0}}
"""


def test_an_attacker_that_is_cut_off_is_said_with_its_key_and_nothing_is_judged(folder, capsys):
    with ConversationServer(both, model="both", cuts=True) as server:
        (folder / "cut.toml").write_text(CUT.format(url=server.url), encoding="utf-8")
        code = medstress_cli(["run", "cut.toml", "--out", "run", "--quiet"])
    summary = Run(folder / "run").summary()
    (attempts,), (requirement,) = summary["attempts"], summary["requirements"]
    assert attempts["lost_by_reason"] == {"the plan: cut off": 8 * 5}
    assert (code, requirement["met"]) == (3, None)
    assert "nothing is known" in " ".join(summary["verdict"]["lines"])
    lost = rows_of(Run(folder / "run"))[0].attempts[1]
    assert "[role.attacker] max_new_tokens" in lost["reason"]


def test_a_conversation_that_outgrows_the_context_fails_its_item_with_the_limit(folder, capsys):
    with ConversationServer(both, model="both") as server:
        assert run_alone(server, *FEW) == 0
        most = max(n_tokens([asked.prompt]) for asked in server.log) - 1
    with ConversationServer(both, model="both", context=most) as server:
        code = run_alone(server, *FEW, "--fresh")
    (row,) = Run(folder / "run").summary()["results"]
    failed = [one for one in rows_of(Run(folder / "run")) if one.error]
    assert (code, row["n_flipped"], row["n_failed"], len(failed)) == (1, 1, 7, 7)
    assert str(most) in failed[0].error
    shown = capsys.readouterr()
    assert "role 'attacker': the prompt is too long" in failed[0].error
    assert "choose a larger context, or fewer attempts" in shown.out + shown.err
    assert "shorter questions" not in shown.out + shown.err


TOO_LONG = """
experiment = {{name = "long", seeds = [0], controls = false}}
dataset = {{name = "table", path = "items.jsonl"}}
victim = {{backend = "openai", model = "both", base_url = "{url}", answer_by = "generate"}}
role.attacker = {{backend = "python", target = "models.py:attacker"}}
attack = {{name = "medfuzz", runs = 1, attempts = 1}}
"""


def test_a_target_whose_conversation_outgrows_its_context_is_told_what_helps_it(folder, capsys):
    with ConversationServer(both, model="both") as server:
        (folder / "long.toml").write_text(TOO_LONG.format(url=server.url), encoding="utf-8")
        assert medstress_cli(["run", "long.toml", "--out", "run", "--quiet"]) == 0
        most = max(n_tokens([asked.prompt]) for asked in server.log) - 1
    capsys.readouterr()
    with ConversationServer(both, model="both", context=most) as server:
        (folder / "long.toml").write_text(TOO_LONG.format(url=server.url), encoding="utf-8")
        assert medstress_cli(["run", "long.toml", "--out", "run", "--quiet", "--fresh"]) == 1
    (row,), shown = Run(folder / "run").summary()["results"], capsys.readouterr()
    assert row["n_failed"] > 0
    assert "choose a larger context, or shorter questions" in shown.out + shown.err
    assert "fewer attempts" not in shown.out + shown.err
