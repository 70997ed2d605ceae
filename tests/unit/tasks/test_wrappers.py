"""Wrapped tasks: what they ask, and how they read what comes back."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medstress.core.calls import Answer, Choose, Chosen, Decoding, Generate, Generated, Scored
from medstress.core.errors import UsageError
from medstress.core.items import Candidate
from medstress.core.outcomes import Outcome, Prediction
from medstress.core.text import Edit
from medstress.tasks.multiple_choice import (
    AnswerBy,
    MultipleChoice,
    Task,
    TextScore,
    break_tie,
    listing,
)
from medstress.tasks.templates import load_template
from medstress.tasks.wrappers import (
    Instructed,
    Majority,
    ShuffledOptions,
    orders,
    read_wraps,
    task_from_spec,
    wrapped,
)
from medstress.testing import check_task, tiny_questions

ITEM = tiny_questions(2)[1]  # the key is B
CLEAN = Candidate(item=ITEM)
SAMPLED = Decoding(temperature=1.0)


def plain(answer_by: AnswerBy = AnswerBy.CHOICE, prompt: str = "qstab", **given: Any) -> Any:
    return MultipleChoice(template=load_template(prompt), answer_by=answer_by, **given)


def sampled() -> MultipleChoice:
    return plain(AnswerBy.GENERATE, decoding=SAMPLED)


def ask(task: Task, answers: list[Answer], candidate: Candidate = CLEAN) -> Prediction:
    """The prediction from one round of answers."""
    flow = task.flow(candidate)
    assert len(next(flow)) == len(answers)
    with pytest.raises(StopIteration) as stop:
        flow.send(tuple(answers))
    return stop.value.value


def letters(text: str) -> list[Answer]:
    """Texts, one a letter; a dot is unreadable."""
    return [Generated(text="" if letter == "." else letter) for letter in text]


def probabilities(prediction: Prediction) -> list[float]:
    assert prediction.scores is not None
    return [round(math.exp(score), 6) for score in prediction.scores]


# -- majority ------------------------------------------------------------------------------------


def test_each_sample_carries_its_own_index():
    (first, second, third) = next(Majority(inner=sampled(), k=3).flow(CLEAN))
    assert [r.sample for r in (first, second, third)] == [0, 1, 2]
    assert first.call == second.call == third.call
    assert isinstance(first.call, Generate)


def test_a_majority_of_majorities_repeats_no_sample_index():
    task = Majority(inner=Majority(inner=sampled(), k=3), k=2)
    assert [request.sample for request in next(task.flow(CLEAN))] == list(range(6))
    assert (task.n_calls(4), task.n_samples) == (6, 6)


@pytest.mark.parametrize(
    ("given", "answer", "outcome", "shares"),
    [
        ("BBA", "B", Outcome.RIGHT, [1 / 3, 2 / 3, 0, 0]),
        ("ABA", "A", Outcome.WRONG, [2 / 3, 1 / 3, 0, 0]),
        (".BB", "B", Outcome.RIGHT, [0, 1, 0, 0]),
        ("..D", "D", Outcome.WRONG, [0, 0, 0, 1]),
    ],
)
def test_the_votes_are_counted(given, answer, outcome, shares):
    prediction = ask(Majority(inner=sampled(), k=3), letters(given))
    assert (prediction.answer, prediction.outcome) == (answer, outcome)
    assert probabilities(prediction) == pytest.approx(shares, abs=1e-5)


def test_tied_votes_go_by_a_hash_and_not_by_their_order():
    found = {given: ask(Majority(inner=sampled(), k=3), letters(given)) for given in ("CBA", "ABC")}
    assert found["CBA"] == found["ABC"]
    assert found["ABC"].is_tied
    assert found["ABC"].answer == break_tie(ITEM, "ABC")


# -- shuffled options ----------------------------------------------------------------------------


def test_every_option_stands_once_in_every_place():
    for n in (2, 4, 10):
        for place in range(n):
            assert sorted(order[place] for order in orders(n)) == list(range(n))


def test_further_orders_are_distinct_and_contain_the_shifts():
    for n in range(2, 25):
        found = orders(4, n)
        assert len(set(found)) == len(found) == n
        assert orders(4, 24)[:n] == found
        assert all(sorted(order) == [0, 1, 2, 3] for order in found)
    assert len(orders(4, 1000)) == 24


def test_each_order_shows_the_edited_options_in_its_places():
    edit = Edit(field="C", start=0, end=len(ITEM.option("C")), replacement="mirozide")
    candidate = Candidate(item=ITEM, edits=(edit,))
    a, b, c, d = candidate.options
    assert c == "mirozide"
    requests = next(ShuffledOptions(inner=plain()).flow(candidate))
    shown = [(a, b, c, d), (b, c, d, a), (c, d, a, b), (d, a, b, c)]
    for request, options in zip(requests, shown, strict=True):
        lines = "".join(f"{x}: {text}\n" for x, text in zip("ABCD", options, strict=True))
        assert isinstance(request.call, Choose)
        assert lines in request.call.prompt
        assert request.call.prompt.count("mirozide") == 1


def test_mean_probabilities_are_of_the_original_options():
    first = Chosen(scores=(0.7, 0.1, 0.1, 0.1))  # A
    second = Chosen(scores=(0.4, 0.3, 0.2, 0.1))  # shown B, C, D, A
    task = ShuffledOptions(inner=plain(), n=2)
    prediction = ask(task, [first, second])
    assert probabilities(prediction) == [0.4, 0.25, 0.2, 0.15]
    assert (prediction.answer, prediction.outcome) == ("A", Outcome.WRONG)


def test_a_victim_that_likes_a_place_has_its_liking_cancelled():
    """P(place) x P(option): the mean over all shifts ranks the options by what is known."""
    known = {ITEM.options[i]: p for i, p in enumerate((0.2, 0.5, 0.2, 0.1))}
    places = (0.7, 0.1, 0.1, 0.1)
    answers: list[Answer] = []
    for order in orders(4):
        raw = [places[i] * known[ITEM.options[o]] for i, o in enumerate(order)]
        answers.append(Chosen(scores=tuple(raw)))
    assert ask(plain(), answers[:1]).answer == "A"
    assert ask(ShuffledOptions(inner=plain()), answers).answer == "B"


def test_votes_are_of_the_original_options():
    task = ShuffledOptions(inner=plain())
    # B is shown as B, A, D, C; the last answer is unreadable.
    prediction = ask(task, [Chosen(answer=x) for x in "BAC"] + [Chosen(text="?")])
    assert (prediction.answer, prediction.outcome) == ("B", Outcome.RIGHT)
    assert probabilities(prediction) == pytest.approx([1 / 3, 2 / 3, 0, 0], abs=1e-5)


def test_votes_can_be_asked_for_where_there_are_scores():
    sure, unsure = (0.94, 0.02, 0.02, 0.02), (0.4, 0.3, 0.2, 0.1)
    answers: list[Answer] = [Chosen(scores=s) for s in (sure, unsure, unsure)]
    by = {a: ShuffledOptions(inner=plain(), n=3, aggregate=a) for a in ("mean", "votes")}
    assert ask(by["mean"], answers).answer == "A"
    assert probabilities(ask(by["votes"], answers)) == pytest.approx([1 / 3] * 3 + [0], abs=1e-5)


def test_means_that_are_equal_go_by_a_hash():
    """Two shifts of a victim that only likes a place."""
    for answer, other in ("CD", "DA", "AB"):
        row = tuple(0.7 if letter == answer else 0.1 for letter in "ABCD")
        prediction = ask(ShuffledOptions(inner=plain(), n=2), [Chosen(scores=row)] * 2)
        assert prediction.is_tied
        assert prediction.answer == break_tie(ITEM, [answer, other])
        found = dict(zip("ABCD", probabilities(prediction), strict=True))
        assert found[answer] == found[other] == 0.4


def test_the_mass_is_the_mean_of_the_masses():
    task = ShuffledOptions(inner=plain(AnswerBy.LETTER), n=2)
    rows = [(0.4, 0.2, 0.1, 0.1), (0.1, 0.1, 0.1, 0.1)]
    answers: list[Answer] = [
        Scored(log_probs=tuple(map(math.log, row)), n_tokens=(1,) * 4) for row in rows
    ]
    assert ask(task, answers).mass == pytest.approx(0.6)


# -- instructed ----------------------------------------------------------------------------------


def test_the_instruction_stands_before_the_prompt_and_in_the_listing():
    task = Instructed(inner=plain(), text="Beware.")
    (request,) = next(task.flow(CLEAN))
    assert request.call.prompt == "Beware.\n\n" + listing(load_template("qstab"), CLEAN)
    assert task.listing(CLEAN) == request.call.prompt


def test_in_a_conversation_it_stands_in_the_system_turn():
    inner = plain(AnswerBy.LETTER, "chat")
    (own,) = next(inner.flow(CLEAN))
    (request,) = next(Instructed(inner=inner, text="Beware.").flow(CLEAN))
    (system, user), (own_system, own_user) = request.call.prompt, own.call.prompt
    assert user == own_user
    assert (system.role, system.content) == ("system", "Beware.\n\n" + own_system.content)


def test_an_option_asked_about_alone_is_not_instructed():
    inner = plain(AnswerBy.TEXT, text_score=TextScore.UNCONDITIONAL)
    requests = next(Instructed(inner=inner, text="Beware.").flow(CLEAN))
    assert [str(r.call.prompt)[:7] for r in requests] == ["Beware.", "Answer:"]


def test_a_function_that_repeats_its_prompt_is_read_behind_it():
    task = Instructed(inner=plain(), text="A or B or C, beware.")
    assert ask(task, [Chosen(text=task.listing(CLEAN) + " B")]).answer == "B"


# -- all of them ---------------------------------------------------------------------------------

EVERY: list[Task] = [
    Majority(inner=sampled(), k=3),
    Majority(inner=plain(), k=2),
    ShuffledOptions(inner=plain(AnswerBy.LETTER)),
    ShuffledOptions(inner=plain(AnswerBy.TEXT, text_score=TextScore.UNCONDITIONAL), n=2),
    ShuffledOptions(inner=plain(AnswerBy.GENERATE), n=4, aggregate="votes"),
    Instructed(inner=plain(AnswerBy.LETTER, "chat"), text="Beware."),
    Instructed(inner=Majority(inner=ShuffledOptions(inner=sampled()), k=2), text="Beware."),
    ShuffledOptions(inner=Majority(inner=Instructed(inner=sampled(), text="x"), k=2)),
]


@pytest.mark.parametrize("task", EVERY)
def test_a_wrapped_task_keeps_the_contract_of_tasks(task):
    check_task(task, tiny_questions(5))


@pytest.mark.parametrize("task", EVERY)
def test_a_wrapped_task_is_rebuilt_from_its_spec_and_asks_as_often_as_it_says(task):
    again = task_from_spec(task.spec(), task.template)
    assert again == task
    requests = next(again.flow(CLEAN))
    assert requests == next(task.flow(CLEAN))
    assert len(requests) == task.n_calls(4)
    assert len({(r.call, r.sample) for r in requests}) == len(requests)


# -- from a file ---------------------------------------------------------------------------------


def test_each_entry_goes_around_all_before_it(tmp_path):
    (tmp_path / "mine.txt").write_text("  Think.\n", "utf-8")
    entries = read_wraps(
        [
            "shuffled_options",
            {"name": "majority", "k": 3},
            {"name": "instructed", "instruction": "mine.txt"},
        ]
    )
    inner = ShuffledOptions(inner=sampled())
    expected = Instructed(inner=Majority(inner=inner, k=3), text="Think.")
    assert wrapped(sampled(), entries, tmp_path, "v") == expected
    assert expected.n_calls(4) == 12


@pytest.mark.parametrize(
    ("task", "entries", "where"),
    [
        (plain(AnswerBy.GENERATE), ["majority"], "model 'v'"),
        (plain(AnswerBy.HEAD, "question"), ["majority"], "model 'v'"),
        (plain(AnswerBy.TEXT, "cloze"), ["shuffled_options"], "model 'v'"),
        (plain(), [{"name": "instructed", "instruction": "no.txt"}], "'no.txt'"),
        (plain(), [{"name": "majority", "k": 5000}, "shuffled_options"], "model 'v'"),
    ],
)
def test_a_wrapper_that_makes_no_sense_is_refused(task, entries, where, said):
    with pytest.raises(UsageError) as caught:
        wrapped(task, read_wraps(entries), Path(), "v")
    said(str(caught.value), where)


@pytest.mark.parametrize(
    ("entries", "where"),
    [
        ("majority", "'shuffled_options'"),
        (3, "'shuffled_options'"),
        ([3], ""),
        ([{"k": 3}], "'name'"),
        (["majorty"], "'majorty'"),
        ([{"name": "majority", "n": 3}], "0.majority.n: "),
        ([{"name": "majority", "k": 1}], "0.majority.k: "),
        ([{"name": "majority", "k": True}], "0.majority.k: "),
        (["majority", {"name": "shuffled_options", "n": 0.5}], "1.shuffled_options.n: "),
        ([{"name": "shuffled_options", "aggregate": "sum"}], "aggregate: "),
        ([{"name": "instructed", "instruction": 3}], "instruction: "),
    ],
)
def test_an_entry_that_cannot_be_read_is_refused(entries, where, said):
    with pytest.raises(ValueError) as caught:
        read_wraps(entries)
    said(str(caught.value), where)


NAMES = replace(ITEM, options=("Vitamin D", "Vitamin C", "Hepatitis B", "Hepatitis A"), key="A")


@pytest.mark.parametrize("answer_by", [AnswerBy.CHOICE, AnswerBy.GENERATE])
@pytest.mark.parametrize("wrap", ["none", "instructed", "majority"])
def test_every_path_of_a_text_reads_it_with_the_options_it_was_shown(answer_by, wrap):
    own: Task = plain(answer_by, decoding=SAMPLED)
    if wrap != "none":
        own = wrapped(own, read_wraps([wrap]), Path(), "v")
    n = len(next(own.flow(Candidate(item=NAMES))))
    said = Chosen(text="Vitamin D") if answer_by is AnswerBy.CHOICE else Generated(text="Vitamin D")
    assert ask(own, [said] * n, Candidate(item=NAMES)).answer == "A"


def test_a_substituted_option_is_read_by_its_new_text():
    edit = Edit(field="B", start=0, end=len("Vitamin C"), replacement="Vitamin K")
    edited = Candidate(item=NAMES, edits=(edit,))
    own = plain(AnswerBy.GENERATE)
    assert ask(own, [Generated(text="Vitamin K")], edited).answer == "B"
    assert ask(own, [Generated(text="Vitamin C")], edited).answer is None
