"""MedFuzz driven by hand: what it says, to whom, and in which order."""

from __future__ import annotations

import json

import numpy as np
import pytest

from medstress.attacks import MedFuzz
from medstress.core.calls import Decoding, Generated
from medstress.core.errors import UsageError
from medstress.core.outcomes import Outcome, Prediction
from medstress.core.queries import Ask, Consult, Note
from medstress.core.resources import Resources
from medstress.tasks.prompt_sets import load_prompts, shipped_sets
from medstress.testing import check_attack, scripted_attacker, tiny_questions, tiny_resources

ITEMS = tiny_questions(3)
ITEM = ITEMS[0]


def resources(**roles) -> Resources:
    decodings = {"attacker": Decoding(temperature=1.0), **roles}
    base = tiny_resources()
    return Resources(
        group="all", types=frozenset(), perturbations=base.perturbations, roles=decodings
    )


def rng():
    return np.random.default_rng(0)


def turns(call):
    return [{"role": m.role, "content": m.content} for m in call.prompt]


def reply(call):
    speak = scripted_attacker(ITEMS, ["He works as a clerk.", "He is a teacher."])
    return Generated(text=speak([turns(call)])[0])


def held(**more):
    return Prediction(
        outcome=Outcome.RIGHT, answer="A", rationale="Because.", confidences=(5.0, 1.0, 1.0, 2.0)
    )


def advance(flow, step):
    """Go on until the target is asked or the attack ends."""
    steps = []
    while not isinstance(step, Ask):
        steps.append(step)
        told = tuple(map(reply, step.calls)) if isinstance(step, Consult) else ()
        step = flow.send(told)
    return steps, step


def test_it_keeps_the_contract_of_attacks():
    check_attack(MedFuzz(attempts=3), ITEMS, resources(), may_edit=("context",), reply=reply)


def test_the_contract_holds_where_nothing_the_attacker_says_can_be_read():
    flow = MedFuzz(attempts=2).run(ITEM, rng(), resources())
    replies = {Consult: (Generated(text="no"),), Note: ()}
    kinds, step = [], next(flow)
    while step is not None:
        kinds.append(type(step))
        try:
            step = flow.send(replies[type(step)])
        except StopIteration:
            step = None
    # Each attempt: a plan, one turn to repair it, and a note; the target is never asked.
    assert kinds == [Consult, Consult, Note] * 2


def replied(flow, *texts):
    """Send texts to the attacker's questions; the last step, and what was noted."""
    step, noted, given = next(flow), [], iter(texts)
    try:
        while not isinstance(step, Ask):
            if isinstance(step, Note):
                noted.append(json.loads(step.text))
                step = flow.send(())
            else:
                step = flow.send((Generated(text=next(given)),))
    except StopIteration:
        return None, noted
    return step, noted


def plan(letter):
    return json.dumps({"post_mortem": None, "target_option": letter, "plan": "Insert it."})


def edit(text):
    options = dict(zip(ITEM.letters, ITEM.options, strict=True))
    added = [{"category": "occupation", "text": text}]
    modified = f"{ITEM.context} {text} {ITEM.stem}".strip()
    return json.dumps({"added": added, "modified_item": modified, "options": options})


WRONG = next(letter for letter in ITEM.letters if letter != ITEM.key)


@pytest.mark.parametrize("letter", ["Z", ITEM.key, "", WRONG * 2, "the first"])
def test_a_plan_has_to_aim_at_a_distractor(letter):
    good = (plan(WRONG), edit("He works as a clerk."))
    step, _ = replied(MedFuzz(attempts=1).run(ITEM, rng(), resources()), plan(letter), *good)
    assert "clerk" in step.queries[0].candidate.context
    attack = MedFuzz(attempts=1).run(ITEM, rng(), resources())
    step, (noted,) = replied(attack, plan(letter), plan(letter))
    assert step is None
    assert noted["unreadable"] == "the plan"
    assert "expected the letter of a distractor" in noted["reason"]


@pytest.mark.parametrize("hidden", ["\x00", "\x1b", "\u200b", "\u202e"])
def test_an_edit_with_a_character_that_nobody_sees_is_asked_for_again_and_then_lost(hidden):
    bad = edit(f"He works{hidden} as a clerk.")
    attack = MedFuzz(attempts=1).run(ITEM, rng(), resources())
    step, _ = replied(attack, plan(WRONG), bad, edit("He works as a clerk."))
    assert "clerk" in step.queries[0].candidate.context
    attack = MedFuzz(attempts=1).run(ITEM, rng(), resources())
    step, (noted,) = replied(attack, plan(WRONG), bad, bad, bad)
    assert step is None
    assert noted["unreadable"] == "the edited item"
    assert noted["reason"] == f"it holds the character U+{ord(hidden):04X}, which nobody can see"


def test_a_number_of_more_digits_than_python_reads_is_unreadable():
    huge = '{"plan": "Insert it.", "target_option": %s}' % ("1" * 5_000)
    step, (noted,) = replied(MedFuzz(attempts=1).run(ITEM, rng(), resources()), huge, huge)
    assert step is None
    assert noted["unreadable"] == "the plan"


def test_the_second_plan_follows_a_post_mortem_of_all_three_answers_and_edits_the_original():
    flow = MedFuzz(attempts=2).run(ITEM, rng(), resources())
    steps, step = advance(flow, next(flow))
    assert [type(each) for each in steps] == [Consult, Consult, Note]
    (query,) = step.queries
    assert query.attempt == 1
    assert "clerk" in query.candidate.context
    steps, step = advance(flow, flow.send((held(),)))
    plan = turns(steps[0].calls[0])
    # One conversation over all attempts: system, two questions with replies, the next question.
    assert [turn["role"] for turn in plan] == ["system", *["user", "assistant"] * 2, "user"]
    for said in (
        "Because.",
        "A: 5, B: 1, C: 1, D: 2",
        "still answered A",
        "why the attempt failed",
    ):
        assert said in plan[-1]["content"]
    (query,) = step.queries
    assert "teacher" in query.candidate.context
    assert "clerk" not in query.candidate.context


def test_the_first_plan_knows_item_and_key_and_nothing_else():
    flow = MedFuzz().run(ITEM, rng(), resources())
    system, user = turns(next(flow).calls[0])
    assert ITEM.question in user["content"]
    assert f"The key is {ITEM.key}: {ITEM.key_text}." in user["content"]
    assert "Attempt" not in user["content"]
    assert "occupation" in system["content"]


def test_every_attempt_is_noted_with_plan_edits_and_objections():
    flow = MedFuzz(attempts=1).run(ITEM, rng(), resources())
    steps, _ = advance(flow, next(flow))
    noted = json.loads(steps[-1].text)
    assert (noted["attempt"], noted["plan"], noted["objections"]) == (1, "Insert it.", [])
    assert noted["edits"][0][0] == "context"


def test_runs_of_one_item_are_samples_of_one_another_unless_the_attacker_is_greedy():
    first = next(MedFuzz().run(ITEM, np.random.default_rng(1), resources()))
    other = next(MedFuzz().run(ITEM, np.random.default_rng(2), resources()))
    assert first.calls == other.calls
    assert first.sample != other.sample
    greedy = next(MedFuzz().run(ITEM, rng(), resources(attacker=Decoding(temperature=0))))
    assert greedy.sample == 0


def test_the_panel_is_three_samples_of_one_question():
    judges = resources(judge=Decoding(temperature=1.0))
    flow = MedFuzz(attempts=1).run(ITEM, rng(), judges)
    step = next(flow)
    while not (isinstance(step, Consult) and step.role == "judge"):
        step = flow.send(tuple(map(reply, step.calls)))
    assert "clerk" not in step.calls[0].prompt[0].content  # the clean item comes first
    step = flow.send((Generated(text=json.dumps({"answer": ITEM.key})),) * 3)
    assert len(step.calls) == 3
    assert len(set(step.calls)) == 1
    assert "clerk" in step.calls[0].prompt[0].content


@pytest.mark.parametrize(
    ("judges", "said", "objected"),
    [
        ({}, None, []),
        ({"judge": Decoding(temperature=1.0)}, "none", ["categories"]),
        ({"judge": Decoding(temperature=1.0)}, "occupation", []),
    ],
)
def test_the_judge_overrules_the_attackers_own_category(judges, said, objected):
    # No cue of any category; the attacker of the test calls everything it inserts an occupation.
    speak = scripted_attacker(ITEMS, ["He keeps to himself."])

    def answered(step):
        if step.role == "judge":
            return tuple(
                Generated(text=json.dumps({"category": said, "answer": ITEM.key}))
                for _ in step.calls
            )
        return tuple(Generated(text=speak([turns(call)])[0]) for call in step.calls)

    attack = MedFuzz(attempts=1, gates=["categories"])
    flow = attack.run(ITEM, rng(), resources(**judges))
    step, asked = next(flow), []
    while not isinstance(step, Note):
        asked.append(step.role)
        step = flow.send(answered(step))
    noted = json.loads(step.text)
    assert [each["gate"] for each in noted["objections"]] == objected
    assert noted["added"][0]["category"] == "occupation"
    assert ("judge" in asked) == bool(judges)
    assert noted.get("category") == said


def test_exemplars_are_drawn_by_the_generator_given_and_never_hold_the_item():
    attack = MedFuzz(exemplars=3)
    known = attack.prompts.exemplars
    assert len(known) >= 8
    drawn = {attack.draw_exemplars(ITEM, np.random.default_rng(i)) for i in range(5)}
    assert len(drawn) > 1
    item = ITEM.__class__(id="own", stem=known[0].question, options=("x", "y"), key="A")
    few = MedFuzz(exemplars=8)
    for i in range(20):
        assert known[0] not in few.draw_exemplars(item, np.random.default_rng(i))
    right = dict(known[0].options)[known[0].answer]
    item = ITEM.__class__(id="own", stem="Another one?", options=("x", right.upper()), key="B")
    for i in range(20):
        assert known[0] not in few.draw_exemplars(item, np.random.default_rng(i))


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"attempts": 0}, "attempts must be a whole number from 1 to 50, got 0"),
        ({"runs": "3"}, "runs must be a whole number"),
        ({"gates": ["option"]}, "unknown gate 'option'; did you mean 'options'?"),
        ({"gates": "options"}, "gates must be a list of names"),
        ({"gate_mode": "warn"}, "gate_mode"),
        ({"template": ""}, "template must be a name or a folder"),
        ({"goal": "Z"}, "expected 'untargeted', 'replaced' or an option letter"),
        ({"goal": "replaced"}, "goal = 'replaced' is the option that was edited, and medfuzz"),
    ],
)
def test_wrong_parameters_are_refused_in_one_sentence(keys, said):
    with pytest.raises(UsageError) as refused:
        MedFuzz(**keys)
    assert said in str(refused.value)


def test_another_set_of_prompts_is_another_attack_with_gates_of_its_own():
    assert shipped_sets() == ["misinformation", "patient_characteristics"]
    other = MedFuzz(template="misinformation")
    assert "evidence" not in other.gates_on
    assert other.spec()["prompts"] != MedFuzz().spec()["prompts"]
    assert MedFuzz(template="misinformation", gates=["evidence"]).gates_on == ("evidence",)


def test_a_folder_of_the_user_replaces_what_it_holds_and_nothing_else(tmp_path, said):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "target_system.jinja").write_text("Be brief.", encoding="utf-8")
    mine = MedFuzz(template="mine").with_files(tmp_path)
    default = load_prompts("patient_characteristics")
    assert mine.prompts.render("target_system") == "Be brief."
    assert dict(mine.prompts.sources)["repair"] == dict(default.sources)["repair"]
    assert mine.spec()["prompts"] != MedFuzz().spec()["prompts"]
    (folder / "target.jinja").write_text("x", encoding="utf-8")
    load_prompts.cache_clear()
    with pytest.raises(UsageError) as caught:
        MedFuzz(template="mine").with_files(tmp_path)
    said(str(caught.value))


def attempt_with(text, *, gates, category="occupation", letters=None, clean=ITEM.key):
    """One attempt at which the attacker inserts a text: what was noted, and what was asked.

    Args:
        text: the insertion.
        gates: those that are on.
        category: what the attacker says it is.
        letters: votes of the judge; None for no judge.
        clean: its votes on the clean item.
    """
    roles = {"judge": Decoding(temperature=1.0)} if letters is not None else {}
    said = iter([[clean] * 3, letters])
    flow = MedFuzz(attempts=1, gates=gates).run(ITEM, rng(), resources(**roles))
    speak = scripted_attacker(ITEMS, [text], category=category)
    notes, asked, step = [], [], next(flow)
    try:
        while True:
            told = ()
            if isinstance(step, Note):
                notes.append(json.loads(step.text))
            elif isinstance(step, Ask):
                asked += step.queries
                told = (held(),)
            elif step.role == "judge":
                told = tuple(Generated(text=json.dumps({"answer": each})) for each in next(said))
            else:
                told = tuple(Generated(text=speak([turns(call)])[0]) for call in step.calls)
            step = flow.send(told)
    except StopIteration:
        return notes, asked


@pytest.mark.parametrize(
    ("gate", "text", "category"),
    [
        ("options", "!He works as a clerk.", "occupation"),
        ("facts", "!He works as a clerk.", "occupation"),
        ("insertions", "!He works as a clerk.", "occupation"),
        ("categories", "Blue doors stand open.", "weather"),
        ("evidence", "He works as a clerk and has a fever.", "occupation"),
        ("key_text", f"He sells {ITEM.key_text} as a clerk.", "occupation"),
    ],
)
def test_what_a_gate_rejects_is_noted_with_its_reason_and_never_asked(gate, text, category):
    (noted,), asked = attempt_with(text, gates=[gate], category=category)
    (objection,) = noted["objections"]
    assert objection["gate"] == gate
    assert len(objection["reason"]) > len(gate)
    assert asked == []


def test_what_no_gate_rejects_is_asked_and_not_called_valid_without_a_panel():
    (noted,), (query,) = attempt_with("He works as a clerk.", gates=None)
    assert noted["objections"] == []
    assert (query.valid, query.reason) == (None, None)


@pytest.mark.parametrize("n_for_key", [3, 2])
def test_an_edit_on_which_two_of_three_judges_pick_the_key_is_asked_and_valid(n_for_key):
    letters = [ITEM.key] * n_for_key + [WRONG] * (3 - n_for_key)
    (noted,), (query,) = attempt_with("He works as a clerk.", gates=["panel"], letters=letters)
    assert noted["panel"] == letters
    assert (query.valid, query.reason) == (True, "panel")


@pytest.mark.parametrize("n_for_key", [1, 0])
def test_an_edit_on_which_fewer_judges_pick_the_key_is_not_asked(n_for_key):
    letters = [ITEM.key] * n_for_key + [WRONG] * (3 - n_for_key)
    (noted,), asked = attempt_with("He works as a clerk.", gates=["panel"], letters=letters)
    reason = f"only {n_for_key} of 3 votes of judges are for the key"
    assert noted["objections"] == [{"gate": "panel", "reason": reason}]
    assert asked == []


def test_where_no_judge_knows_the_item_its_edits_are_asked_and_of_unknown_validity():
    letters = [ITEM.key] * 3
    (noted,), (query,) = attempt_with(
        "He works as a clerk.", gates=["panel"], letters=letters, clean=WRONG
    )
    assert noted["objections"] == []
    assert "panel" not in noted
    assert noted["judges"] == {"judge": {"clean": [WRONG] * 3, "votes": []}}
    assert (query.valid, query.reason) == (None, None)


BROKEN = "His blood pressure is 80 mmHg, says option B."


def next_request(gate_mode, answer):
    """What the attacker is told after an attempt to which two gates object."""
    attack = MedFuzz(attempts=2, gates=["evidence", "key_text"], gate_mode=gate_mode)
    flow = attack.run(ITEM, rng(), resources())
    speak = scripted_attacker(ITEMS, [BROKEN])
    step, asked = next(flow), 0
    while True:
        if isinstance(step, Ask):
            step = flow.send((answer,))
        elif isinstance(step, Note):
            assert [each["gate"] for each in json.loads(step.text)["objections"]] == [
                "evidence",
                "key_text",
            ]
            step = flow.send(())
        else:
            asked += 1
            if asked == 3:
                return step.calls[0].prompt[-1].content
            step = flow.send((Generated(text=speak([turns(step.calls[0])])[0]),))


def test_every_objection_goes_back_to_the_attacker():
    told = next_request("reject", held())
    assert "was not shown to the reader" in told
    assert "mmHg" in told
    assert "names an option letter" in told


@pytest.mark.parametrize("letter", [ITEM.key, WRONG])
def test_where_gates_mark_the_attacker_hears_of_every_objection_beside_the_answer(letter):
    right = letter == ITEM.key
    answer = Prediction(
        outcome=Outcome.RIGHT if right else Outcome.WRONG,
        answer=letter,
        rationale="Because.",
        is_success=not right,
    )
    told = next_request("mark", answer)
    assert "does not count" in told
    assert "still answered" not in told
    assert f"The reader answered {letter}." in told
    assert "mmHg" in told
    assert "names an option letter" in told
