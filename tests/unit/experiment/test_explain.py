"""Explanations: which trials, which texts, where fields and edits stand, and planted values."""

from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from medstress.core.arms import Arm
from medstress.core.calls import Message, Score
from medstress.core.errors import UsageError
from medstress.core.items import Question
from medstress.core.outcomes import Outcome, Prediction, Verdict
from medstress.core.text import Edit
from medstress.core.trials import Trial
from medstress.core.validity import REVIEW
from medstress.experiment.explain import (
    Pair,
    Segment,
    Selection,
    choose,
    kind_of,
    masked,
    outputs_of,
    owen_values,
    pieces,
    segments_of,
    with_texts,
    word_cuts,
)
from medstress.tasks.conversation import Conversation
from medstress.tasks.multiple_choice import AnswerBy, MultipleChoice
from medstress.tasks.templates import Template, load_template
from planted_trials import arm, control, trial

# -- which trials ---------------------------------------------------------------------------------


def won(number: int, at: Arm, *, refused: bool = False) -> Trial:
    """Return a success."""
    reviewed = (False, REVIEW) if refused else (None, None)
    return trial(
        number, at, verdict=Verdict.FLIPPED, flipped_at=1, valid=reviewed[0], reason=reviewed[1]
    )


def ids(trials: list[Trial]) -> list[str]:
    return [one.id for one in trials]


def run() -> list[Trial]:
    """Three successes, one of them refused by people, seven failures, and controls that won."""
    probed = trial(10, arm())
    return [
        *(won(i, arm()) for i in range(2)),
        won(2, arm(), refused=True),
        *(trial(i, arm()) for i in range(3, 10)),
        replace(probed, queries=probed.queries._replace(probes=probed.queries.asked)),
        *(won(i, control()) for i in range(5)),
    ]


def test_all_successes_and_as_many_failures_of_their_arm():
    trials = run()
    chosen = choose(trials, Selection())
    lost = [one for one in chosen if one.first is None]
    assert [one.id for one in chosen if one.first is not None] == ids(trials[:2])
    assert len(lost) == 2
    assert set(ids(lost)) <= set(ids(trials[3:10]))
    assert chosen == [one for one in trials if one in chosen]


def test_a_trial_is_named_by_its_id_its_beginning_or_its_item():
    trials = run()
    first = trials[0]
    for name in (first.id, first.item.id):  # controls of the item have succeeded too
        assert choose(trials, Selection(trials=(name,))) == [first]


@pytest.mark.parametrize("name", ["", "zzz", "t"])
def test_a_name_that_fits_none_or_several_is_refused(name, said):
    with pytest.raises(UsageError) as error:
        choose(run(), Selection(trials=(name,)))
    said(str(error.value), "--trial")


# -- masked texts ---------------------------------------------------------------------------------


HARD = st.text(
    st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from(" \t\r\n\u00a0\u2028é💊"))
)


@settings(max_examples=25)
@given(st.lists(HARD, min_size=1, max_size=3), st.lists(st.integers(-5, 60)))
def test_with_everything_shown_the_texts_come_back_byte_for_byte(texts, starts):
    for cuts in (word_cuts, lambda _: starts):
        cut = [pieces(text, cuts) if text else () for text in texts]
        whole = masked(cut, np.ones(sum(map(len, cut)), dtype=bool))
        assert [each.encode() for each in whole] == [each.encode() for each in texts]


@pytest.mark.parametrize(
    ("text", "shown", "expected"),
    [
        ("Take the red pill.", "1001", "Take ... pill."),
        ("Take the red pill.", "0000", "..."),
        ("Take the red pill.", "0110", "... the red ..."),
        ("  A\r\nB\r\n", "01", "  ...\r\nB\r\n"),
        ("  A\r\nB\r\n", "10", "  A\r\n...\r\n"),
        (" \n", "0", " \n"),
    ],
)
def test_a_run_of_masked_words_becomes_one_mask_and_white_space_stays(text, shown, expected):
    mask = np.array([each == "1" for each in shown])
    assert masked([pieces(text, word_cuts)], mask) == (expected,)


SYSTEM, USER = Message("system", "Be brief."), Message("user", "Is it? A. yes")
FIRST = "User: Is it?\n\nAssistant:"


def test_later_turns_repeat_the_masked_turn_and_other_calls_stay():
    later = Score((SYSTEM, USER, Message("assistant", "Hm."), Message("user", "Now?")), ("A",))
    (_, shown, *others) = with_texts(later, (USER.content,), ("...",)).prompt  # type: ignore[union-attr]
    assert shown == Message("user", "...")
    assert others == list(later.prompt[2:])
    flat = Score(FIRST + " Hm.\n\nUser: Now?", ("A",))
    assert with_texts(flat, (FIRST,), ("...",)).prompt == "... Hm.\n\nUser: Now?"  # type: ignore[union-attr]
    alone = Score("Answer:", (" yes",))
    assert with_texts(alone, ("Is it?",), ("...",)) == alone


# -- segments -------------------------------------------------------------------------------------


QUESTION = Question(
    id="q",
    context="He takes B.\r\n A and B are pills. ",
    stem="Which is it?",
    options=("B", "Which is it?", "A. no", "aspirin 5 mg "),
    key="A",
)
EDIT = Edit(field="D", start=0, end=7, replacement="warfarin")


def found(task: object, edits: tuple[Edit, ...] = (EDIT,), item: Any = QUESTION) -> Pair:
    return segments_of(task.flow, item, item.texts, edits)  # type: ignore[attr-defined]


def by_place(segments: tuple[Segment, ...]) -> list[tuple[str, str]]:
    """Texts of neighbours in one place, joined."""
    parts = groupby((each for each in segments if each.text), key=lambda each: each.place)
    return [(place, "".join(each.text for each in group)) for place, group in parts]


@pytest.mark.parametrize("name", ["qstab", "open_book", "medmcqa", "untagged", "chat"])
def test_fields_are_found_where_they_stand_though_their_texts_stand_everywhere(name):
    template = load_template(name)
    task = MultipleChoice(template=template, answer_by=AnswerBy.LETTER)
    pair = found(task)
    for segments, edits in ((pair.before, ()), (pair.after, (EDIT,))):
        prompt = template.render(QUESTION.candidate(edits))
        shown = prompt if isinstance(prompt, str) else prompt[-1].content
        assert "".join(each.text for each in segments) == shown
        places = dict(by_place(segments))
        assert places["A"].endswith("B")
        assert places["B"].endswith("Which is it?")
        assert places["C"].endswith("A. no")
        edited = "".join(each.text for each in segments if each.edited)
        assert edited == ("warfarin" if edits else "aspirin")
    assert [(each.place, each.edited) for each in pair.before] == [
        (each.place, each.edited) for each in pair.after
    ]
    assert [a.text for a in pair.before if not a.edited] == [
        b.text for b in pair.after if not b.edited
    ]


def test_a_prompt_that_does_more_than_place_texts_shows_only_the_difference():
    source = "{{ stem | upper }} {% for l, o in options %}{{ o | upper }};{% endfor %}"
    template = Template(name="own.jinja", source=source, is_jinja=True)
    task = MultipleChoice(template=template, answer_by=AnswerBy.LETTER)
    pair = found(task)
    assert {each.place for each in pair.after} == {"prompt"}
    (edit,) = [each.text for each in pair.after if each.edited]
    assert edit in "WARFARIN"


def test_a_conversation_is_explained_in_the_turn_that_shows_the_question():
    own = MultipleChoice(template=load_template("qstab"), answer_by=AnswerBy.LETTER)
    for in_turns in (True, False):
        pair = found(Conversation(own=own, in_turns=in_turns))
        (edit,) = [each.text for each in pair.after if each.edited]
        assert edit == "warfarin"
        assert {"context", "stem", *"ABCD"} <= {each.place for each in pair.after}


def test_outputs_are_probabilities_or_what_was_answered():
    wrong = Prediction(outcome=Outcome.WRONG, answer="B")
    assert outputs_of(wrong, "ABCD").tolist() == [0, 1, 0, 0]
    scored = replace(wrong, scores=tuple(np.log([0.1, 0.6, 0.2, 0.1])))
    assert outputs_of(scored, "ABCD") == pytest.approx([0.1, 0.6, 0.2, 0.1])
    unread = Prediction(outcome=Outcome.UNREADABLE, answer=None)
    assert outputs_of(unread, "ABCD").tolist() == [0, 0, 0, 0]
    kinds = [kind_of(each) for each in ([wrong], [scored], [wrong, scored])]
    assert kinds == ["answer", "probability", "mixed"]


# -- Owen values ----------------------------------------------------------------------------------


def owen(game, sizes, **settings):
    """Values of a game, and how many masks came in each round."""
    search, rounds = owen_values(sizes, **settings), []
    masks = next(search)
    while True:
        rounds.append(len(masks))
        try:
            masks = search.send(np.array([game(mask) for mask in masks], dtype=np.float64))
        except StopIteration as stop:
            return stop.value, rounds


@pytest.mark.release
def test_one_token_that_decides_has_all_the_value():
    found, _ = owen(lambda shown: [float(shown[5])], [9])
    assert found.values[:, 0].tolist() == pytest.approx([0, 0, 0, 0, 0, 1, 0, 0, 0])
    assert (found.base.tolist(), found.full.tolist()) == ([0.0], [1.0])


def test_additive_games_give_each_token_its_weight_however_the_tree_is():
    weights = np.array([0.5, -0.2, 0.0, 0.3, 0.1, -0.4])
    for sizes in ([6], [1, 2, 3], [1] * 6):
        found, _ = owen(lambda shown: [float(weights @ shown) + 0.25], sizes)
        assert found.values[:, 0] == pytest.approx(weights)
        assert found.base == pytest.approx([0.25])


@pytest.mark.parametrize(
    ("game", "expected"),
    [
        (lambda a, b: a and b, [0.5, 0.5]),
        (lambda a, b: a != b, [0.0, 0.0]),
        (lambda a, b: a or b, [0.5, 0.5]),
        (lambda a, b: a and not b, [0.5, -0.5]),
    ],
)
def test_two_tokens_share_an_interaction_equally_wherever_they_stand(game, expected):
    for first, second in ((0, 1), (0, 6), (3, 4)):
        found, _ = owen(lambda shown, i=first, j=second: [float(game(shown[i], shown[j]))], [4, 3])
        assert found.values[[first, second], 0].tolist() == pytest.approx(expected)
        assert found.gap < 1e-9


@pytest.mark.parametrize("evaluations", [2, 10, 40, 200])
@pytest.mark.parametrize("batch", [1, 10, 64])
def test_values_add_up_for_every_output_however_early_the_search_ends(evaluations, batch):
    rng = np.random.default_rng(1)
    weights = rng.normal(size=(30, 3))

    def game(shown: NDArray[np.bool_]) -> list[float]:
        return np.tanh(shown @ weights).tolist()

    found, rounds = owen(game, [10, 1, 19], evaluations=evaluations, batch=batch)
    assert found.values.shape == (30, 3)
    assert found.gap < 1e-9
    assert found.n_evaluations == sum(rounds) <= max(evaluations, 2) + 1


def test_no_mask_is_asked_twice():
    asked: list[bytes] = []

    def game(shown: NDArray[np.bool_]) -> list[float]:
        asked.append(shown.tobytes())
        return [float(shown.sum() ** 2)]

    owen(game, [16], evaluations=200, batch=64)
    assert len(asked) == len(set(asked))


def test_a_search_is_the_same_every_time_and_leaves_random_numbers_alone():
    def masks() -> list[bytes]:
        asked: list[bytes] = []

        def game(shown: NDArray[np.bool_]) -> list[float]:
            asked.append(shown.tobytes())
            return [float(shown[3])]  # most branches are tied at 0

        owen(game, [40], evaluations=120, batch=16)
        return asked

    np.random.seed(5)
    first = masks()
    after = np.random.rand()
    np.random.seed(5)
    assert np.random.rand() == after
    assert masks() == first
