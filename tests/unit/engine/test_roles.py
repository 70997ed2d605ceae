"""Trials that ask other roles: failures, limits, samples, and both roles kept busy."""

from collections import Counter
from dataclasses import replace

import pytest

from medstress.attacks import MedFuzz
from medstress.core.calls import Decoding, Failure, Generate, Generated
from medstress.core.outcomes import Verdict
from medstress.engine.scheduler import Scheduler
from medstress.engine.trial import Trial
from medstress.experiment.models import victim_of
from medstress.store.reader import opened
from medstress.store.run_store import RunStore
from medstress.tasks.multiple_choice import AnswerBy, MultipleChoice
from medstress.tasks.templates import load_template
from medstress.tasks.victim import Victim
from medstress.testing import (
    ScriptedBackend,
    rule_target,
    scripted_attacker,
    scripted_judge,
    tiny_questions,
    tiny_resources,
)

ITEMS = tiny_questions(6)
ATTACK = MedFuzz(attempts=2)


def spoken(speak):
    def reply(call):
        assert isinstance(call, Generate)
        turns = [{"role": turn.role, "content": turn.content} for turn in call.prompt]
        return Generated(text=speak([turns])[0], tokens_in=10, tokens_out=5)

    return reply


TARGET = spoken(rule_target(ITEMS, {"tiny-0": "teacher"}))
ATTACKER = spoken(scripted_attacker(ITEMS, ["He works as a clerk.", "He is a teacher."]))
JUDGE = spoken(scripted_judge(ITEMS))


def trials(target, attack=ATTACK, roles=("attacker", "judge"), repeats=1):
    own = MultipleChoice(template=load_template("qstab"), answer_by=AnswerBy.GENERATE)
    victim = Victim(label="v", task=own, backend=target)
    decodings = {role: Decoding(temperature=1.0) for role in roles}
    resources = replace(tiny_resources(), roles=decodings)
    for item in ITEMS:
        for repeat in range(repeats):
            yield Trial(
                dataset="tiny",
                group="all",
                item=item,
                victim=victim_of(victim, attack, "tiny", item, 0, repeat),
                attack_label="medfuzz",
                attack=attack,
                resources=resources,
                seed=0,
                repeat=repeat,
            )


def drive(folder, planned, limits=None, **roles):
    with RunStore(folder) as store:
        progress = Scheduler(store, roles=roles, limits=limits).run(planned)
    with opened(folder) as reader:
        return progress, list(reader.trials()), list(reader.exchanges())


def test_a_role_s_failed_call_fails_its_trial_by_name_and_no_other(tmp_path):
    def reply(call):
        if "case number 3" in call.prompt[1].content:
            return Failure(error="the attacker is tired")
        return ATTACKER(call)

    target, attacker = ScriptedBackend(TARGET), ScriptedBackend(reply, name="a")
    planned = trials(target, roles=["attacker"])
    _, found, _ = drive(tmp_path, planned, attacker=attacker)
    failed = [trial for trial in found if trial.verdict == Verdict.FAILED]
    assert [trial.result["note"] for trial in failed] == ["role 'attacker': the attacker is tired"]
    assert failed[0].result["at"] == "attack"
    verdicts = [trial.verdict for trial in found if trial.verdict != Verdict.FAILED]
    assert verdicts == ["flipped", "held", "held", "held", "held"]


def test_a_failing_judge_fails_the_trial_and_keeps_what_was_noted_before(tmp_path):
    judge = ScriptedBackend(lambda call: Failure(error="no verdict today"), name="j")
    attacker = ScriptedBackend(ATTACKER, name="a")
    planned = list(trials(ScriptedBackend(TARGET)))[:1]
    _, found, exchanges = drive(tmp_path, planned, attacker=attacker, judge=judge)
    assert found[0].verdict == Verdict.FAILED
    assert found[0].result["records"][0]["attempt"] == 0
    assert {each.error for each in exchanges if each.role == "judge"} == {"no verdict today"}


def test_a_judge_is_asked_about_evidence_and_once_the_target_errs_about_the_key(tmp_path):
    judge, attacker = ScriptedBackend(JUDGE, name="j"), ScriptedBackend(ATTACKER, name="a")
    planned = list(trials(ScriptedBackend(TARGET)))[:2]
    _, found, exchanges = drive(tmp_path, planned, attacker=attacker, judge=judge)
    flipped, held = found
    assert (flipped.verdict, held.verdict) == (Verdict.FLIPPED, Verdict.HELD)
    # Evidence in two edits, then the clean item and the edit that succeeded.
    calls = [one for one in exchanges if one.role == "judge"]
    assert sorted(Counter(one.trial for one in calls).values()) == [2, 4]
    own = [one for one in flipped.result["records"] if "query" not in one and one["attempt"]]
    assert [sorted({"evidence_by", "key_vote"} & one.keys()) for one in own] == [
        ["evidence_by"],
        ["evidence_by"],
        ["key_vote"],
    ]
    assert flipped.result["n_asked"] == 2


def test_attack_all_keeps_the_verdict_and_what_was_found(tmp_path):
    wrong = spoken(rule_target(ITEMS, {}, wrong=["tiny-0"]))
    attack = replace(ATTACK, attack_all=True)
    planned = list(trials(ScriptedBackend(wrong), attack, ["attacker"]))[:1]
    attacker = ScriptedBackend(ATTACKER, name="a")
    _, (found,), _ = drive(tmp_path, planned, attacker=attacker)
    assert found.verdict == Verdict.ALREADY_WRONG
    assert "first_success" not in found.result
    assert [entry["attempt"] for entry in found.result["records"]] == [0, 1, 1]


@pytest.mark.parametrize("roles", [["attacker"], ["attacker", "judge"]])
def test_an_attack_without_its_role_fails_each_trial_by_name(tmp_path, roles):
    planned = list(trials(ScriptedBackend(TARGET), roles=roles[1:]))[:1]
    _, (found,), _ = drive(tmp_path, planned)
    assert found.verdict == Verdict.FAILED
    assert found.result["note"] == "medfuzz asks the role 'attacker': add a [role.attacker] table"
