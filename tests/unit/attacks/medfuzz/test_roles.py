"""MedFuzz driven by hand: what roles may answer, what becomes of it, and what they are told."""

import json

import numpy as np
import pytest

from medstress.attacks import MedFuzz
from medstress.attacks.medfuzz.roles import evidence, key_vote, yes_votes
from medstress.core.calls import LENGTH, WITHHELD, Decoding, Generated
from medstress.core.errors import TrialError, UsageError
from medstress.core.outcomes import Outcome, Prediction
from medstress.core.queries import Ask, CleanAnswer, Consult
from medstress.core.resources import Resources
from medstress.tasks.prompt_sets import load_prompts
from medstress.tasks.replies import Unreadable
from medstress.testing import tiny_questions, tiny_resources

# -- attack ----------------------------------------------------------------------------------------
ITEMS = tiny_questions(3)
ITEM = ITEMS[0]
WRONG = next(letter for letter in ITEM.letters if letter != ITEM.key)
CLERK, TEACHER = "He works as a clerk.", "He is a teacher."


def resources(**roles):
    base = tiny_resources()
    return Resources(
        group="all",
        types=frozenset(),
        perturbations=base.perturbations,
        roles={"attacker": Decoding(temperature=1.0), **roles},
    )


def rng():
    return np.random.default_rng(0)


def turns(call):
    return [{"role": m.role, "content": m.content} for m in call.prompt]


def plan(letter=WRONG, words="Insert it."):
    return json.dumps({"post_mortem": None, "target_option": letter, "plan": words})


def insertions(text=CLERK, where="end", category="work"):
    return json.dumps({"insertions": [{"text": text, "where": where, "category": category}]})


def whole(text=CLERK):
    return f"{ITEM.context} {text} {ITEM.stem}"


def held(answer=ITEM.key, **keys):
    values = {"rationale": "Because.", "confidences": (5.0, 1.0, 1.0, 2.0), **keys}
    return Prediction(outcome=Outcome.RIGHT, answer=answer, **values)


class Play:
    """One run of the attack on `ITEM`.

    Args:
        attack: the attack.
        said: what the roles answer in turn: texts, or `Generated`.
        answers: of the target, in turn; the last one again and again.
        roles: beside the attacker.

    Attributes:
        calls: what the attacker is asked, in turn.
        notes: the record of every attempt.
        edited: the contexts that the target was shown.
    """

    def __init__(self, attack, *said, answers=None, **roles):
        self.calls, self.judged, self.notes, self.edited = [], [], [], []
        left, answers = iter(said), list(answers or [held()])
        flow = attack.run(ITEM, rng(), resources(**roles))
        step = next(flow)
        try:
            while True:
                if isinstance(step, Consult):
                    (call,) = step.calls
                    (self.calls if step.role == "attacker" else self.judged).append(call)
                    text = next(left)
                    sent = (text if isinstance(text, Generated) else Generated(text=text),)
                elif isinstance(step, Ask):
                    self.edited.append(step.queries[0].candidate.context)
                    sent = (answers.pop(0) if len(answers) > 1 else answers[0],)
                elif isinstance(step, CleanAnswer):
                    sent = (held(confidences=(4.0, 1.0, 1.0, 1.0)),)
                else:
                    self.notes.append(json.loads(step.text))
                    sent = ()
                step = flow.send(sent)
        except StopIteration:
            assert next(left, None) is None, "not all that was scripted was asked for"

    def told(self, n):
        """Return the last thing that the attacker was told in its n-th call."""
        return self.calls[n].prompt[-1].content


ONE = MedFuzz(attempts=1)


def test_an_attempt_is_a_plan_and_insertions_in_one_conversation():
    play = Play(MedFuzz(attempts=2), plan(), insertions(), plan(), insertions(TEACHER))
    assert [len(call.prompt) for call in play.calls] == [2, 4, 6, 8]
    assert ITEM.question in play.told(0)
    assert f"The right answer is {ITEM.key}: {ITEM.key_text}." in play.told(0)
    # Every attempt edits the original.
    assert play.edited == [f"{ITEM.context} {CLERK}", f"{ITEM.context} {TEACHER}"]
    first, second = play.notes
    assert (first["attempt"], first["plan"], first["objections"]) == (1, "Insert it.", [])
    assert first["added"] == [{"text": CLERK, "where": "end", "category": "work"}]
    assert second["edits"][0][0] == "context"


def test_a_category_that_the_set_does_not_have_is_kept_as_given_and_noted():
    play = Play(MedFuzz(attempts=2), plan(), insertions(category="Weather"),
                plan(), insertions(TEACHER, category="Sex and  gender"))  # fmt: skip
    first, second = play.notes
    assert (first["added"][0]["category"], first["unlisted"]) == ("Weather", ["Weather"])
    assert "unlisted" not in second


# -- forms of a reply --------------------------------------------------------------
THOUGHT = '<think>{"target_option": "Z"} or {"insertions": []}?</think>'


@pytest.mark.parametrize(
    "said",
    [
        (THOUGHT + plan(), THOUGHT + insertions()),
        (f"Sure!\n```json\n{plan()}\n```", f"```\n{insertions()}\n```\nDone."),
        (plan("Z") + " Wait, that is no option. " + plan(), insertions(TEACHER) + insertions()),
        (plan(f"{WRONG}: {ITEM.options[ITEM.letters.index(WRONG)]}"), insertions()),
        (f"I will draw the reader to option {WRONG} by playing on his job.", insertions()),
        (Generated(text=plan() + " and", finish_reason=LENGTH), insertions(where="")),
        (plan(), insertions(CLERK, ITEM.context)),
        (
            f"**Target option:** {WRONG}\n\n**Plan:** I will play on his job as a clerk.",
            insertions(),
        ),
        (plan(), json.dumps({"modified_item": whole()})),
        (plan(), json.dumps({"original_question": ITEM.question, "new_question": whole()})),
        (plan(), json.dumps({"new_question": whole(), "original_question": ITEM.question})),
        (plan(), f"Edited question: {whole(f'[INSERTED: {CLERK}]')}"),
        (plan(), whole(f"<ins>{CLERK}</ins>")),
        (plan(), f"**Case:** {ITEM.context} {CLERK}\n\n**Question:** {ITEM.stem}"),
        (plan(), f"# Edited\n{ITEM.context} {CLERK}\n\n## Question\n{ITEM.stem}"),
        (plan(), json.dumps({"question": whole(f"{CLERK}\n\n[Question]:")})),
        (plan(), f"Here is the edited question:\n\n{whole()}\nA: x\nB: y"),
        (plan(), f'"{whole()}"\n\nI inserted his job.'),
        (plan(), f"Sure, I can do that.\n\nHere is the edited question:\n\n{whole()}\n\nA) x"),
        (plan(), f"Sure! **Modified question:** {whole(f'**{CLERK}**')}"),
        (plan(), f"<notes>Play on his job.</notes>\n{whole()}"),
        (plan(), f'{{"modified_item": {{"question": "{whole()}", "note": "his "job""}}}}'),
        (plan(), json.dumps({"modified_item": {"question": f"{whole()}\nA: x"}})),
        (plan(), json.dumps({"context": f"{ITEM.context} {CLERK}", "stem": ITEM.stem})),
        (
            json.dumps(
                {"question": whole(), "options": dict(zip("ABCD", ITEM.options, strict=True))}
            ),
        ),
        (insertions(),),
    ],
)
def test_replies_are_read_as_models_write_them(said):
    play = Play(ONE, *said)
    assert len(play.calls) == len(said)
    (text,) = play.edited
    assert CLERK in text
    assert text.replace(CLERK, "").split() == ITEM.context.split()
    assert not any("<think>" in turn.content for call in play.calls for turn in call.prompt)


@pytest.mark.parametrize("stem", ['Which drug does "he" need for his "cold"', "He needs:"])
def test_quotes_and_colons_that_are_the_questions_own_stay(monkeypatch, stem):
    item = ITEM.__class__(
        id="q", context="A man coughs.", stem=stem, options=ITEM.options, key=ITEM.key
    )
    monkeypatch.setitem(globals(), "ITEM", item)
    play = Play(ONE, plan(), f"{whole()}\nA: x")
    assert play.edited == [f"A man coughs. {CLERK}"]


LOST_PLANS = [
    ("", "empty"),
    ("I would rather not.", "no JSON"),
    (plan("Z"), "wrong form"),
    (plan(ITEM.key), "wrong form"),
    (plan(""), "wrong form"),
    ('{"plan": "Insert it.", "target_option": %s}' % ("1" * 5_000), "no JSON"),
    (Generated(text="The plan is to", finish_reason=LENGTH), "cut off"),
    (Generated(text="<think>Which option", finish_reason=LENGTH), "cut off"),
    (Generated(text="", finish_reason=WITHHELD), "withheld"),
    (whole().replace(ITEM.context.split()[-1], "nothing."), "not only insertions"),
    (json.dumps({"question": f"{whole()} Or not?"}), "not only insertions"),
    (json.dumps({"plan": f"{whole()} Or not?", "target_option": "Z"}), "wrong form"),
    ('{"question": "A boy of nine has a rash on both arms. Why?"}', "another question"),
]


@pytest.mark.parametrize(("bad", "cause"), LOST_PLANS)
def test_a_plan_that_cannot_be_used_is_asked_for_once_more_and_then_the_attempt_is_lost(bad, cause):
    play = Play(ONE, bad, plan(), insertions())
    assert len(play.edited) == 1
    play = Play(ONE, bad, bad)
    (note,) = play.notes
    assert (note["unreadable"], note["lost"]) == ("the plan", cause)
    assert note["reason"] in play.told(1)
    assert play.edited == []


LOST_EDITS = [
    ("", "empty", "empty"),
    ("No.", "no JSON", "no JSON object"),
    ('{"insertions": []}', "wrong form", "insertions"),
    (insertions(where="no such words"), "no place", "no such words"),
    (insertions(where="Which drug"), "no place", "sentence that asks"),
    (insertions("..."), "nothing inserted", "no word"),
    (f"{ITEM.context} {ITEM.stem}", "nothing inserted", "nothing"),
    (whole().replace(ITEM.context.split()[-1], "nothing."), "not only insertions", "left out"),
    (json.dumps({"text": f"{whole()} Or not?"}), "not only insertions", "Or not"),
    ("A boy of nine has a rash on both arms. Which drug helps him?", "another question", "only"),
    ('{"question": "A boy of nine has a rash on both arms. Why?"}', "another question", "only"),
    (insertions("I'm sorry, but I can't help with that."), "refusal", "refusal"),
    (insertions("I cannot write stereotypes."), "refusal", "refusal"),
    (insertions("He works\u200b as a clerk."), "hidden character", "U+200B"),
    (whole("He works\u202e as a clerk."), "hidden character", "U+202E"),
    (Generated(text='{"insertions": [{"te', finish_reason=LENGTH), "cut off", "max_new_tokens"),
]


@pytest.mark.parametrize(("bad", "cause", "named"), LOST_EDITS)
def test_insertions_that_cannot_be_used_are_asked_for_once_more_with_the_exact_reason(
    bad, cause, named
):
    play = Play(ONE, plan(), bad, insertions())
    assert named in play.told(2)
    assert play.edited == [f"{ITEM.context} {CLERK}"]
    play = Play(ONE, plan(), bad, bad)
    (note,) = play.notes
    assert (note["unreadable"], note["lost"], note["plan"]) == (
        "the insertions",
        cause,
        "Insert it.",
    )
    assert named in note["reason"]
    assert play.edited == []


def test_the_same_edit_again_is_asked_for_anew_and_then_costs_an_attempt():
    again = (plan(), insertions(), insertions(CLERK, ITEM.context))
    play = Play(MedFuzz(attempts=5), plan(), insertions(), *again, *again, *again, *again)
    assert len(play.edited) == 1
    assert [note.get("lost") for note in play.notes] == [None, *["same edit"] * 4]
    assert "the same edit as in attempt 1" in play.told(4)
    play = Play(MedFuzz(attempts=2), whole(), whole(), whole())
    assert [note.get("lost") for note in play.notes] == [None, "same edit"]
    play = Play(MedFuzz(attempts=2), plan(), insertions(), plan(), whole(), insertions(TEACHER))
    assert len(play.edited) == 2


# -- what an attacker is told --------------------------------------------------------------
def test_from_the_second_plan_on_it_sees_every_confidence_so_far():
    answers = (held(), held(confidences=None, rationale="Because of work."), held())
    play = Play(
        MedFuzz(attempts=4),
        *(plan(), insertions()),
        *(plan(), insertions("His blood pressure is 80 mmHg.")),
        *(plan(), insertions(TEACHER)),
        *(plan(), "no", "no"),
        answers=answers,
    )
    assert "confidence" not in play.told(0)
    second, third, fourth = play.told(2), play.told(4), play.told(6)
    assert "original | 4 | 1 | 1 | 1 | A | nothing" in second
    assert f"1 | 5 | 1 | 1 | 2 | A | {CLERK}" in second
    assert "Because." in second
    assert "2 | not shown to the model | His blood pressure is 80 mmHg." in third
    assert "was not shown to the model: " in third
    assert f"1 | 5 | 1 | 1 | 2 | A | {CLERK}" in fourth
    assert f"3 | - | - | - | - | A | {TEACHER}" in fourth
    assert "Because of work." in fourth
    assert f"attempt | {ITEM.key} (right) | B | C | D | answer | inserted" in fourth


def test_a_known_probability_of_the_right_answer_is_in_the_table():
    scores = tuple(map(float, np.log([0.7, 0.1, 0.1, 0.1])))
    play = Play(
        MedFuzz(attempts=2), plan(), insertions(), plan(), "no", "no", answers=[held(scores=scores)]
    )
    assert "A (P(A) = 0.70)" in play.told(2)


def test_a_goal_is_what_the_attacker_aims_at():
    goal = next(letter for letter in "DCB" if letter != ITEM.key)
    attack = MedFuzz(attempts=1, goal=goal)
    other = next(letter for letter in ITEM.letters if letter not in (ITEM.key, goal))
    play = Play(attack, plan(other), plan(goal), insertions())
    assert f"Aim at option {goal}" in play.told(0)
    assert play.notes[0]["target_option"] == goal
    assert "the key" in MedFuzz(goal=ITEM.key).obstacle(ITEM, resources())


# -- gates and the judge --------------------------------------------------------------
def test_what_a_gate_rejects_is_noted_with_its_reason_and_never_asked():
    play = Play(ONE, plan(), insertions(f"He sells {ITEM.key_text}."))
    ((objection,),) = [note["objections"] for note in play.notes]
    assert objection["gate"] == "key_text"
    assert play.edited == []


def test_evidence_is_left_to_a_judge_where_there_is_one():
    fever = insertions("He has a fever.")
    judge = Decoding(temperature=1.0)
    play = Play(ONE, plan(), fever)
    assert play.notes[0]["objections"][0]["gate"] == "evidence"
    assert play.notes[0]["evidence_by"] == "list"
    play = Play(ONE, plan(), fever, '{"evidence": []}', judge=judge)
    assert (len(play.judged), len(play.edited)) == (1, 1)
    assert play.notes[0]["evidence_by"] == "judge"
    play = Play(ONE, plan(), insertions(), '{"evidence": ["clerk"]}', judge=judge)
    assert "'clerk'" in play.notes[0]["objections"][0]["reason"]
    assert play.edited == []
    # A judge that cannot be read leaves the decision to the list.
    play = Play(ONE, plan(), insertions(), "Well.", "Well.", judge=judge)
    assert (play.notes[0]["evidence_by"], len(play.edited)) == ("list", 1)


def test_a_judge_votes_on_the_key_once_the_target_errs_and_on_nothing_that_a_rule_rejects():
    judge, vote = Decoding(temperature=0.0), json.dumps({"answer": ITEM.key})
    erred = Prediction(outcome=Outcome.WRONG, answer=WRONG, is_success=True, reached_goal=True)
    said = (plan(), insertions(), '{"evidence": []}', vote, vote)
    play = Play(ONE, *said, answers=[erred], judge=judge)
    assert play.notes[-1] == {"attempt": 1, "clean_vote": ITEM.key, "key_vote": ITEM.key}
    on_clean, on_edit = (call.prompt[-1].content for call in play.judged[1:])
    assert CLERK in on_edit
    assert CLERK not in on_clean
    assert Play(ONE, plan(), insertions("The answer is B."), judge=judge).judged == []


# -- parameters --------------------------------------------------------------
def test_runs_of_one_item_are_samples_of_one_another_unless_the_attacker_is_greedy():
    def first(seed, **roles):
        flow = MedFuzz().run(ITEM, np.random.default_rng(seed), resources(**roles))
        next(flow)
        return flow.send((held(),))

    assert first(1).calls == first(2).calls
    assert first(1).sample != first(2).sample
    assert first(1, attacker=Decoding(temperature=0)).sample == 0


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"attempts": 0}, "attempts"),
        ({"runs": "3"}, "runs"),
        ({"template": 3}, "template"),
        ({"goal": "Z"}, "goal"),
        ({"goal": "replaced"}, "goal"),
        ({"exemplars_from": 3}, "exemplars_from"),
    ],
)
def test_a_wrong_parameter_is_refused_with_its_name(keys, named):
    with pytest.raises(UsageError, match=f"medfuzz: {named}"):
        MedFuzz(**keys)


def test_without_an_attacker_the_trial_says_which_table_is_missing():
    alone = Resources(group="all", types=frozenset(), perturbations=tiny_resources().perturbations)
    with pytest.raises(TrialError, match=r"role\.attacker"):
        next(MedFuzz().run(ITEM, rng(), alone))


def test_another_set_of_prompts_is_another_attack(tmp_path):
    other = MedFuzz(template="misinformation")
    assert other.spec()["prompts"] != MedFuzz().spec()["prompts"]
    assert "prompts" not in other.label_parameters()
    (tmp_path / "mine").mkdir()
    for name in ("attacker.md", "rules.toml"):
        text = f"{name}: {{lever}}" if name.endswith("md") else RULES
        (tmp_path / "mine" / name).write_text(text, "utf-8")
    mine = MedFuzz(attempts=1, template="mine").with_files(tmp_path)
    play = Play(mine, plan(), insertions("He collects stamps."))
    assert play.calls[0].prompt[0].content == "attacker.md: hearsay"
    assert "one of hobbies" in play.told(1)


RULES = 'lever = "hearsay"\n[[category]]\nname = "hobbies"\ndescription = "pastimes"\n'


# -- judge -----------------------------------------------------------------------------------------
SHIPPED = load_prompts("patient_characteristics").rules
JUDGE = Decoding(max_new_tokens=512, temperature=0.0)
ADDED = ["He works as a clerk.", "He has a “dry” cough."]


def spoken(flow, *replies):
    """Answer the calls of a conversation with the judge in turn; return its result and calls."""
    asked, left = [], iter(replies)
    step = next(flow)
    try:
        while True:
            asked += [(step.calls[0], step.sample)]
            text = next(left)
            step = flow.send((text if isinstance(text, Generated) else Generated(text=text),))
    except StopIteration as stop:
        assert next(left, None) is None, "not all that was scripted was asked for"
        return stop.value, asked


def objected(*replies):
    found, asked = spoken(evidence("judge", JUDGE, ITEM, ADDED, SHIPPED, 0), *replies)
    return (found.reason if isinstance(found, Unreadable) else found.words), asked


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        ('{"evidence": []}', ()),
        ('{"evidence": ["cough"]}', ("cough",)),
        ('<think>A clerk... {"evidence": ["clerk"]}</think>{"evidence": []}', ()),
        ('Sure:\n```json\n{"evidence": ["a dry cough"]}\n```', ("a dry cough",)),
        ('{"evidence": ["clerk"]} No, wait: {"evidence": ["cough"]}', ("cough",)),
        ('{"evidence": "cough"}', ("cough",)),
        ('{"evidence": "none"}', ()),
        ('{"evidence": null}', ()),
        ('["cough"]', ("cough",)),
        ("[]", ()),
        ("None.", ()),
        ("No, none of the added words is clinical evidence.", ()),
        ("Yes.", tuple(ADDED)),
        ('Yes. The words "dry cough" are clinical evidence.', ("dry cough",)),
        ("The words “cough” are clinical evidence.", ("cough",)),
    ],
)
def test_replies_are_read_however_they_come(reply, words):
    found, asked = objected(reply)
    assert (found, len(asked)) == (words, 1)


def test_what_cannot_be_used_is_asked_for_once_more_with_the_exact_reason():
    found, asked = objected('{"evidence": ["tuberculosis"]}', '{"evidence": ["cough"]}')
    assert found == ("cough",)
    reason = "'tuberculosis' is not among the added words; quote them exactly"
    assert reason in asked[1][0].prompt[-1].content
    assert objected("The cough may matter.", "It does.")[0] == "it holds no JSON object"
    cut = Generated(text='{"evidence": ["dry', finish_reason=LENGTH)
    assert "[role.judge] max_new_tokens" in objected(cut, cut)[0]
    cut = Generated(text="No", finish_reason=LENGTH)
    assert "[role.judge] max_new_tokens" in objected(cut, cut)[0]
    assert objected('"Cough" is not evidence.', "It is none.")[0] == "it holds no JSON object"


def test_it_reads_what_was_added_the_question_and_the_list():
    _, [(call, _)] = objected('{"evidence": []}')
    text = call.prompt[-1].content
    for part in (*ADDED, ITEM.question, ITEM.key_text, *(one.name for one in SHIPPED.forbidden)):
        assert part in text


@pytest.mark.parametrize(
    ("reply", "letter"),
    [
        ('{"reasoning": "It fits.", "answer": "B"}', "B"),
        ('{"answer": "(b)"}', "B"),
        ("B", "B"),
        ("The answer is B.", "B"),
        ('<think>A?</think>```{"answer": "B"}```', "B"),
    ],
)
def test_a_vote_on_the_key_is_read_like_an_answer(reply, letter):
    flow = key_vote("judge", JUDGE, ITEM, ITEM.question, 0)
    assert spoken(flow, reply)[0] == letter
    flow = key_vote("judge", JUDGE, ITEM, ITEM.question, 0)
    assert spoken(flow, "Hard to say.", "Still hard.")[0] is None
    cut = Generated(text='{"a', finish_reason=LENGTH)
    flow = key_vote("judge", JUDGE, ITEM, ITEM.question, 0)
    assert spoken(flow, cut, cut)[0] is None


VOTES = {
    '{"reasoning": "It says so.", "answer": "YES"}': True,
    '```json\n{"answer": "No."}\n```': False,
    "YES.": True,
    "**No**": False,
    "No, the reasoning rests on the rash alone.": False,
    "The detail is only repeated. So the answer is no.": False,
    "<think>Yes? It is named.</think>NO": False,
    "No mention at first; then it decides, so yes": None,
    "It may have.": None,
    "Nobody knows.": None,
    "": None,
}


@pytest.mark.parametrize("said", VOTES)
def test_a_vote_is_read_in_json_or_as_the_word_that_opens_or_ends_a_reply(said):
    flow = yes_votes("judge", Decoding(), 0, ["Did it matter?"], "ABCD")
    next(flow)
    with pytest.raises(StopIteration) as end:
        flow.send((Generated(text=said),))
    assert end.value.value == [VOTES[said]]


@pytest.mark.parametrize(("said", "vote"), [("No. Wait, it", None), ('{"answer": "no"} It', False)])
def test_a_vote_that_was_cut_off_is_none_but_for_a_whole_object(said, vote):
    flow = yes_votes("judge", Decoding(), 0, ["Did it matter?"], "ABCD")
    next(flow)
    with pytest.raises(StopIteration) as end:
        flow.send((Generated(text=said, finish_reason=LENGTH),))
    assert end.value.value == [vote]
