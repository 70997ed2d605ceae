"""Panels of judges driven by hand: who is asked before any edit, and whose votes count."""

from __future__ import annotations

import json

import pytest

from medstress.attacks.medfuzz.judges import CLEAN_SAMPLE, Panel, judges_in, picks_key, said_yes
from medstress.core.calls import Decoding, Generated
from medstress.tasks.prompt_sets import load_prompts
from medstress.tasks.replies import CategoryVote, Unreadable, Vote, read_reply, schema_of
from medstress.testing import tiny_questions

(ITEM, *_) = tiny_questions(1)
WRONG = next(letter for letter in ITEM.letters if letter != ITEM.key)
SET = load_prompts("patient_characteristics")
EDITED = f"{ITEM.question} He is a baker."


def panel(*names, temperature=1.0):
    return Panel(ITEM, SET, dict.fromkeys(names, Decoding(temperature=temperature)))


def driven(flow, votes):
    """Drive to the end: what was asked as (role, number, whether clean, sample), and the result.

    `votes` gives the letters of a role about the clean item and about an edit, over and over.
    """
    asked = []
    try:
        step = next(flow)
        while True:
            is_clean = "baker" not in step.calls[0].prompt[0].content
            asked.append((step.role, len(step.calls), is_clean, step.sample))
            said = votes[step.role][0 if is_clean else 1]
            replies = [said[i % len(said)] for i in range(len(step.calls))]
            step = flow.send(
                tuple(
                    Generated(text="?" if each is None else json.dumps({"answer": each}))
                    for each in replies
                )
            )
    except StopIteration as stop:
        return asked, stop.value


def test_one_judge_has_three_votes_and_is_asked_about_the_clean_item_once():
    one = panel("judge")
    asked, (votes,) = driven(one.votes([EDITED], 7), {"judge": (ITEM.key, WRONG)})
    assert asked == [("judge", 3, True, CLEAN_SAMPLE), ("judge", 3, False, 7)]
    assert votes == {"judge": [WRONG] * 3}
    asked, _ = driven(one.votes([EDITED], 8), {"judge": (ITEM.key, WRONG)})
    assert asked == [("judge", 3, False, 8)]


@pytest.mark.parametrize(
    ("clean", "counts"),
    [
        ([ITEM.key] * 3, True),
        ([ITEM.key, ITEM.key, WRONG], True),
        ([ITEM.key, WRONG, WRONG], False),
        ([ITEM.key, None, None], False),  # what nobody can read is no vote for the key
        ([ITEM.key, ITEM.key, None], True),
    ],
)
def test_a_judge_that_misses_the_key_before_any_edit_does_not_vote(clean, counts):
    asked, (votes,) = driven(panel("judge").votes([EDITED], 7), {"judge": (clean, ITEM.key)})
    assert votes == ({"judge": [ITEM.key] * 3} if counts else {})
    assert len(asked) == 1 + counts


def test_the_votes_of_those_who_know_the_item_are_at_least_three_and_equal_in_number():
    knows, misses = (ITEM.key, ITEM.key), (WRONG, ITEM.key)
    both = panel("judge", "judge.2")
    asked, (votes,) = driven(both.votes([EDITED], 7), {"judge": knows, "judge.2": knows})
    assert [each[:3] for each in asked[2:]] == [("judge", 2, False), ("judge.2", 2, False)]
    # One of two is set aside: the other has three votes, as if it were alone.
    both = panel("judge", "judge.2")
    _, (votes,) = driven(both.votes([EDITED], 7), {"judge": misses, "judge.2": knows})
    assert votes == {"judge.2": [ITEM.key] * 3}
    four = panel("judge", "judge.2", "judge.3", "judge.4")
    _, (votes,) = driven(four.votes([EDITED], 7), dict.fromkeys(four.judges, knows))
    assert [len(each) for each in votes.values()] == [1, 1, 1, 1]


def test_half_of_the_votes_are_no_majority():
    assert picks_key(["A", "A", "B"], "A")
    assert not picks_key(["A", "A", "B", "B"], "A")
    assert not picks_key([], "A")


def test_several_edits_are_voted_on_side_by_side():
    edits = [EDITED, f"{ITEM.question} He was a baker."]
    asked, votes = driven(panel("judge").votes(edits, 7), {"judge": (ITEM.key, WRONG)})
    assert asked[1:] == [("judge", 6, False, 7)]
    assert votes == [{"judge": [WRONG] * 3}] * 2


def test_at_temperature_0_every_vote_begins_at_one_index_so_that_runs_share_it():
    asked, _ = driven(panel("judge", temperature=0).votes([EDITED], 7), {"judge": (ITEM.key,) * 2})
    assert [sample for *_, sample in asked] == [0, 0]


def test_judges_are_the_roles_called_so():
    roles = {name: Decoding() for name in ("attacker", "judge", "judge.2", "embedder")}
    assert list(judges_in(roles)) == ["judge", "judge.2"]


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (["occupation"], "occupation"),
        (["none"], "none"),
        (["occupation", "none"], "none"),  # one of two is no majority
        (["occupation", "none", "occupation"], "occupation"),
        (["none", "none", "occupation"], "none"),
        ([" Occupation"], "occupation"),
        (["age", "habits", "Habits"], "habits"),
    ],
)
def test_a_category_is_what_most_judges_find(told, expected):
    names = ["judge", "judge.2", "judge.3"][: len(told)]
    flow = panel(*names).category(["He is a baker."], SET.categories, 7)
    step, says = next(flow), iter(told)

    def rest():
        while True:
            assert "He is a baker." in step.calls[0].prompt[0].content
            flow.send((Generated(text=json.dumps({"category": next(says)})),))

    with pytest.raises(StopIteration) as ended:
        rest()
    assert ended.value.value == expected


@pytest.mark.parametrize(
    ("told", "said"),
    [("YES", True), ("yes.", True), ("**No**", False), ("(NO)", False), ("maybe", None)],
)
def test_a_yes_or_no_is_read_as_letters_are(told, said):
    assert said_yes(Vote(answer=told)) is said


def test_a_vote_that_cannot_be_read_says_neither():
    assert said_yes(Unreadable(reason="prose")) is None


def test_a_judge_may_reason_before_it_answers_and_need_not():
    thought = json.dumps({"reasoning": "The knee decides.", "answer": "B"})
    assert read_reply(thought, Vote) == Vote(reasoning="The knee decides.", answer="B")
    assert read_reply('{"answer": "B"}', Vote) == Vote(answer="B")
    assert isinstance(read_reply('{"reasoning": "The knee."}', Vote), Unreadable)
    for kind, answer in ((Vote, "answer"), (CategoryVote, "category")):
        # A server that keeps to a schema writes properties in their order: thought comes first.
        assert list(json.loads(schema_of(kind, "AB"))["properties"]) == ["reasoning", answer]


@pytest.mark.parametrize("name", ["patient_characteristics", "misinformation"])
def test_the_shipped_questions_to_judges_let_them_reason(name):
    prompts = load_prompts(name)
    known = {"question": "Q", "options": (("A", "x"),), "before": "A", "after": "B"}
    for piece, values in (
        ("judge_key", {"question": "Q", "options": (("A", "x"),)}),
        ("judge_categories", {"inserted": "x", "categories": prompts.categories}),
        ("judge_mention", {**known, "rationale": "R", "clause": "C"}),
    ):
        assert '{"reasoning": "' in prompts.render(piece, **values)
