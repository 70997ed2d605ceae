"""Controls: where their edits stand, that they are distinct, and what they never touch."""

import re
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng

from medstress.attacks.controls.arm import control_arm
from medstress.attacks.controls.harmless import (
    FIRST_SAMPLE,
    NeutralInsertion,
    NoOp,
    OptionShuffle,
    Repeat,
    insertions,
    lexicon,
    order_at,
    places,
    reordered,
    variants,
)
from medstress.attacks.controls.paraphrase import facts_of
from medstress.attacks.entity_substitution import EntitySubstitution
from medstress.attacks.medfuzz.attack import MedFuzz
from medstress.attacks.protocol import most_queries, never_wrong
from medstress.attacks.variants import digits, in_random_order
from medstress.backends.mock import MockBackend
from medstress.core.calls import Chosen
from medstress.core.hashing import rng_for
from medstress.core.items import Candidate, Mention, Question
from medstress.core.outcomes import Outcome, Verdict
from medstress.core.text import Edit
from medstress.engine.trial import FLIP_CHECK_SAMPLE, Trial, conduct
from medstress.tasks.multiple_choice import AnswerBy, MultipleChoice, order_of
from medstress.tasks.templates import load_template
from medstress.tasks.victim import Victim
from medstress.tasks.wrappers import Majority
from medstress.testing import drive, tiny_questions, tiny_resources

# -- no op -----------------------------------------------------------------------------------------
RESOURCES = tiny_resources()
EIGHT = "Which of these drugs treats severe gout best?"


def question(stem, context="", **more):
    options = ("a b c", 'the "d" one')
    return Question(id="q", stem=stem, context=context, options=options, key="A", **more)


def singles(item):
    """Context and stem after every single edit."""
    edits = (edit for place in places(item) for edit in place.edits())
    found = (Candidate(item=item, edits=(edit,)) for edit in edits)
    return [f"{each.context}|{each.stem}" for each in found]


def drawn(item, budget, seed=0):
    """Everything that is asked of a victim that never errs."""
    queries = drive(NoOp(budget=budget), item, RESOURCES, seed=seed).queries
    return [query.candidate for query in queries]


@pytest.mark.parametrize(
    ("stem", "n"), [("Drug of choice is", 63 + 1 + 9 + 27), ("Severe gout of toes", 100)]
)
def test_a_question_of_four_words_has_more_than_four_times_the_default_budget(stem, n):
    item = question(stem)
    assert NoOp().n_variants(item, RESOURCES) == n >= 4 * NoOp().budget
    assert most_queries(NoOp(), item, RESOURCES) == 8
    assert most_queries(NoOp(budget=1000), item, RESOURCES) == n


def test_a_larger_budget_begins_with_the_draws_of_a_smaller_one():
    item = question(EIGHT)
    assert drawn(item, 20)[:8] == drawn(item, 8)
    assert drawn(item, 8) != drawn(item, 8, seed=1)


def test_each_number_of_edits_comes_first_equally_often():
    for text in ("Drug of choice is", f"{EIGHT} {EIGHT}"):
        found = places(question(text))
        sizes = [len(next(variants(found, np.random.default_rng(seed)))) for seed in range(600)]
        for size in (1, 2, 3):
            assert abs(sizes.count(size) - 200) < 4 * 600**0.5 / 2


def test_white_space_comes_between_words_and_not_between_digits():
    gaps = [singles(question("took 10 000 mg of 2.5 or 1,000"))[i::3] for i in range(3)]
    assert gaps[0] == [
        "|took  10 000 mg of 2.5 or 1,000",
        "|took 10 000  mg of 2.5 or 1,000",
        "|took 10 000 mg  of 2.5 or 1,000",
        "|took 10 000 mg of  2.5 or 1,000",
        "|took 10 000 mg of 2.5  or 1,000",
        "|took 10 000 mg of 2.5 or  1,000",
    ]
    assert gaps[1] == [each.replace("  ", "   ") for each in gaps[0]]
    assert gaps[2] == [each.replace("  ", "\n") for each in gaps[0]]


@pytest.mark.parametrize(
    ("stem", "after"),
    [
        ("Which?", "which?"),
        ("which?", "Which?"),
        ("“What?”", "“what?”"),
        ("WHAT?", None),
        ("Heparin?", None),
        ("A?", None),
        ("All-trans?", "all-trans?"),
        ("Whichever?", None),
    ],
)
def test_the_letter_case_of_a_word_that_opens_the_stem_changes(stem, after):
    changed = [
        text[1:] for text in singles(question(stem)) if text[1:].casefold() == stem.casefold()
    ]
    assert changed == ([] if after is None else [after])


@pytest.mark.parametrize(
    ("stem", "after"),
    [
        ("Name it.", "Name it"),
        ("The drug is", "The drug is."),
        ("The drug (oral)", "The drug (oral)."),
        ("Which drug?", None),
        ("The drug is:", None),
        ("The drug is ____", None),
        ("Its pH is 7", None),
        ("Its pH is 7.", None),
        ("Given at 8 a.m.", None),
        ("See the fig.", None),
        ("Which strain of E.", None),
    ],
)
def test_a_full_stop_moves_only_where_it_says_nothing(stem, after):
    texts = [text[1:] for text in singles(question(stem)) if "  " not in text]
    changed = [text for text in texts if not re.search(r"\n|^[a-z]", text)]
    assert changed == ([] if after is None else [after])


def test_quotation_marks_become_typographic_and_back_but_no_apostrophe_and_no_inch():
    item = question("Heparin?", "A \"red\" ('x') Crohn's 5\" cut, “blue”")
    changed = [text.split("|")[0] for text in singles(item) if not re.search("  |\n", text)]
    assert changed == [
        "A “red\" ('x') Crohn's 5\" cut, “blue”",
        "A \"red” ('x') Crohn's 5\" cut, “blue”",
        'A "red" (‘x\') Crohn\'s 5" cut, “blue”',
        'A "red" (\'x’) Crohn\'s 5" cut, “blue”',
        'A "red" (\'x\') Crohn\'s 5" cut, "blue”',
        'A "red" (\'x\') Crohn\'s 5" cut, “blue"',
    ]


@settings(max_examples=100, deadline=None)
@given(
    stem=st.text("ab 12.\"'“”’?().", min_size=1).filter(str.strip),
    context=st.text("ab 12.\"'“”’?\n"),
)
def test_words_and_numbers_options_and_passage_are_never_touched(stem, context):
    item = question(stem, context, passage='A "long" passage.')

    def said(text):
        return re.findall(r"\w+", text.casefold())

    for edits in islice(variants(places(item), np.random.default_rng(0)), 20):
        after = Candidate(item=item, edits=edits)
        assert said(after.stem) == said(stem)
        assert said(after.context) == said(context)
        assert (after.context, after.stem) != (context, stem)
        assert (after.options, after.passage) == (item.options, item.passage)


def test_half_of_a_controls_edits_are_in_the_field_that_the_attack_edits():
    item = tiny_questions(1)[0]
    attack = EntitySubstitution(sampler="random", budget=8)
    arm = control_arm(NoOp(), attack)
    assert arm.fields == {"context", "stem", "options"}
    inside = total = 0
    for seed in range(150):
        rng = rng_for(seed, attack.stream, "d", item.id)
        one = arm.at(item, rng_for(seed, attack.stream, "d", item.id), RESOURCES)
        (edited,) = {q.candidate.edits[0].field for q in never_wrong(attack, item, rng, RESOURCES)}
        queries = never_wrong(one, item, rng_for(seed, "no_op", "d", item.id), RESOURCES)
        for edits in [query.candidate.edits for query in islice(queries, 8)]:
            assert {edit.field for edit in edits} <= {"context", "stem", edited}
            if len(edits) == 1:  # of more some would repeat a place, of which an option has few
                total += 1
                inside += edits[0].field == edited
    assert abs(inside - total / 2) < 4 * total**0.5 / 2


@pytest.mark.parametrize(
    ("option", "texts"),
    [
        ("Aspirin", {"aspirin", "Aspirin."}),
        ("Give it.", {"give it.", "Give it", "Give  it.", "Give   it.", "Give\nit."}),
        ("IgA", {"IgA."}),
        ("Co", {"Co."}),
        ("B-cell", {"B-cell."}),
        ("heparin 5", {"Heparin 5", "heparin  5", "heparin   5", "heparin\n5"}),
    ],
)
def test_in_an_option_gaps_full_stop_and_first_letter_change(option, texts):
    item = Question(id="q", stem="?", options=("zinc", option), key="A")
    made = (Candidate(item=item, edits=(e,)) for place in places(item, "B") for e in place.edits())
    assert {candidate.options[1] for candidate in made} == texts
    twin = Question(id="q", stem="?", options=(f"{option.swapcase()}", option), key="A")
    assert places(twin, "B") == [], "of two such options an edit could make one"


# -- neutral insertion -----------------------------------------------------------------------------
def texts(item, n, seed=0, **keys):
    drawn = NeutralInsertion(**keys).variants(item, default_rng(seed), RESOURCES)
    found = list(islice(drawn, n))
    return [f"{each.context}|{each.stem}" for each in found]


@pytest.mark.parametrize(
    ("context", "stem", "expected"),
    [
        ("", "Why?", ["|X. Why?"]),
        ("He fell.", "Why?", ["He fell. X.|Why?"]),
        ("He fell. He rose.", "Why?", ["He fell. X. He rose.|Why?", "He fell. He rose. X.|Why?"]),
        ("", "He fell. Why?", ["|He fell. X. Why?"]),
        ("See Fig. 2. Then E.", "coli grew. Why?", ["See Fig. 2. X. Then E.|coli grew. Why?",
                                                    "See Fig. 2. Then E.|coli grew. X. Why?"]),
    ],
)  # fmt: skip
def test_sentences_stand_between_two_sentences(context, stem, expected):
    item = question(stem, context)
    made = [
        Candidate(item=item, edits=(replace(edit, replacement=edit.replacement.format("X.")),))
        for edit in insertions(item)
    ]
    assert [f"{each.context}|{each.stem}" for each in made] == expected


def test_an_entity_is_never_split():
    item = question("A. Bcd grew. Why?", "St. Xy", mentions=(
        Mention(field="context", start=0, end=6, type="T1"),
        Mention(field="stem", start=0, end=6, type="T1"),
    ))  # fmt: skip
    assert [(edit.field, edit.start) for edit in insertions(item)] == [("stem", 13)]


def test_variants_are_distinct_and_exhausted_without_repeats():
    item = question("Why?", "He fell.")
    n = NeutralInsertion().n_variants(item, RESOURCES)
    assert n == len(lexicon()) >= 4 * 8
    assert len(set(texts(item, 10_000))) == n
    assert NeutralInsertion(sentences=3).n_variants(item, RESOURCES) == n * (n - 1) * (n - 2)
    assert len(set(texts(item, 3000, sentences=3))) == 3000


def test_the_lexicon_says_nothing_of_people_findings_numbers_or_denials():
    bad = re.compile(
        r"\d|\b(?:no|not|never|without|patient|he|she|man|woman|pain|drug|left|right|day|year)\b",
        re.IGNORECASE,
    )
    assert [text for text in lexicon() if bad.search(text)] == []
    assert [text for text in lexicon() if facts_of(text) != ((), {})] == []
    assert len(set(lexicon())) == len(lexicon()) == 6 * 48


def test_beside_medfuzz_every_variant_is_an_attempt_of_about_thirty_words():
    arm = control_arm(NeutralInsertion(), MedFuzz(attempts=4))
    item = tiny_questions(1)[0]
    asked = drive(arm, item, RESOURCES).queries
    assert [query.attempt for query in asked] == [1, 2, 3, 4]
    words = [len(query.candidate.edits[0].replacement.split()) for query in asked]
    assert 20 <= min(words) <= max(words) <= 45
    assert "attacker" not in arm.needs


def test_every_order_of_a_small_pool_is_drawn_and_a_huge_one_is_no_trouble():
    orders = [tuple(in_random_order(3, default_rng(seed))) for seed in range(1200)]
    counts = [orders.count(order) for order in set(orders)]
    assert len(counts) == 6
    assert max(abs(n - 200) for n in counts) < 60
    huge = list(islice(in_random_order(10**60, default_rng(0)), 500))
    assert len(set(huge)) == 500
    assert max(huge) > 10**59
    assert digits(10**5, [10] * 6) == [0, 0, 0, 0, 0, 1]


# -- repeat ----------------------------------------------------------------------------------------
ITEM = tiny_questions(1)[0]
TASK = MultipleChoice(template=load_template("qstab"), answer_by=AnswerBy.CHOICE)


def trial(seed=0, attack=None, task=TASK):
    return Trial(
        dataset="d",
        group="g",
        item=ITEM,
        victim=Victim(label="v", task=task, backend=MockBackend()),
        attack_label="a",
        attack=attack or Repeat(),
        resources=RESOURCES,
        seed=seed,
    )


def play(one, wrong=None):
    """Answer the key, but for the query with a number."""
    flow, rounds, reply = conduct(one), [], None
    try:
        while True:
            rounds.append(flow.send(reply) if reply else next(flow))
            answer = "B" if rounds[-1].query == wrong else "A"
            reply = tuple(Chosen(answer=answer) for _ in rounds[-1].requests)
    except StopIteration as stop:
        return rounds, stop.value


def test_every_repeat_is_the_clean_prompt_with_a_sample_index_of_its_own():
    rounds, result = play(trial())
    clean, *repeats = (each.requests[0] for each in rounds)
    assert result.verdict is Verdict.HELD
    assert (result.n_asked, result.n_unchanged) == (8, 0)
    assert {each.call for each in repeats} == {clean.call}
    model = MockBackend().identity
    assert len({each.key(model) for each in (clean, *repeats)}) == 9
    assert min(each.sample for each in repeats) >= FIRST_SAMPLE > FLIP_CHECK_SAMPLE


def test_seeds_ask_samples_of_their_own_and_a_larger_budget_asks_the_same_first():
    def samples(seed, budget=8):
        rounds, _ = play(trial(seed, Repeat(budget=budget)))
        return [each.requests[0].sample for each in rounds[1:]]

    assert samples(0, 30)[:8] == samples(0)
    assert not set(samples(0)) & set(samples(1))


def test_a_repeat_that_errs_is_a_success_and_is_asked_again():
    rounds, result = play(trial(), wrong=3)
    assert (result.verdict, result.first_success, result.n_asked) == (Verdict.FLIPPED, 3, 3)
    assert result.repeats is True  # the flip check has number 3 too
    keys = {each.requests[0].key(MockBackend().identity) for each in rounds}
    assert len(keys) == len(rounds) == 5


def test_samples_of_a_majority_never_overlap():
    rounds, _ = play(trial(task=Majority(inner=TASK, k=5)))
    keys = [each.key(MockBackend().identity) for one in rounds for each in one.requests]
    assert len(keys) == len(set(keys)) == 5 * 9


def test_beside_an_attack_it_asks_as_often_as_the_attack_could():
    of = EntitySubstitution(sampler="exhaustive")
    arm = control_arm(Repeat(), of)
    assert arm.fills(ITEM, RESOURCES)
    assert most_queries(arm, ITEM, RESOURCES) == most_queries(of, ITEM, RESOURCES)
    short = replace(of, sampler="random", budget=3)
    rounds, result = play(trial(attack=control_arm(Repeat(), short)))
    assert (len(rounds), result.n_asked) == (4, 3)
    alone, _ = play(trial(attack=Repeat(budget=3)))
    assert [each.requests[0].sample for each in rounds] == [
        each.requests[0].sample for each in alone
    ]


# -- option shuffle --------------------------------------------------------------------------------
MOVED = tiny_questions(2)[1]  # its key is B


def read(task, candidate, answer):
    """Answer every call with a function of its prompt."""
    flow = task.flow(candidate)
    requests = next(flow)
    try:
        while True:
            requests = flow.send(tuple(answer(request.call) for request in requests))
    except StopIteration as stop:
        return stop.value


def letter_of(text):
    """Answer the letter at which a prompt lists a text."""

    def answer(call):
        lines = [line for line in call.prompt.splitlines() if line.endswith(f": {text}")]
        return Chosen(answer=lines[0][0])

    return answer


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_all_other_orders_are_drawn_once(n):
    options = tuple("pqrst"[:n])
    item = Question(id="q", stem="Why?", options=options, key="A")
    drawn = list(OptionShuffle().variants(item, default_rng(0), RESOURCES))
    orders = [each.options for each in drawn]
    assert len(orders) == len(set(orders)) == OptionShuffle().n_variants(item, RESOURCES)
    assert options not in orders
    assert all(sorted(order) == sorted(options) for order in orders)
    assert [tuple(options[i] for i in order_of(each) or ()) for each in drawn] == orders


@pytest.mark.parametrize("number", range(1, 24))
def test_the_answer_is_read_as_the_option_whose_text_was_chosen(number):
    task = MultipleChoice(template=load_template("qstab"), answer_by=AnswerBy.CHOICE)
    candidate = reordered(MOVED, order_at(number, 4))
    right = read(task, candidate, letter_of(MOVED.key_text))
    assert (right.outcome, right.answer) == (Outcome.RIGHT, "B")
    wrong = read(task, candidate, letter_of(MOVED.option("D")))
    assert (wrong.outcome, wrong.answer) == (Outcome.WRONG, "D")
    moved = candidate.options.index(MOVED.key_text) != 1
    same_letter = read(task, candidate, lambda _: Chosen(answer="B"))
    assert (same_letter.outcome is Outcome.WRONG) == moved


def test_other_edits_of_options_are_no_order():
    a, b = MOVED.options[:2]
    whole = Edit(field="A", start=0, end=len(a), replacement=b)
    other = Edit(field="B", start=0, end=len(b), replacement=a)
    assert order_of(Candidate(item=MOVED, edits=(whole, other))) == (1, 0, 2, 3)
    for edits in (
        (),
        (whole,),
        (whole, Edit(field="B", start=0, end=len(b), replacement="another")),
        (whole, Edit(field="C", start=0, end=len(MOVED.options[2]), replacement=a)),
        (whole, Edit(field="B", start=1, end=len(b), replacement=a)),
        (whole, other, Edit(field="stem", start=0, end=0, replacement="x")),
    ):
        assert order_of(Candidate(item=MOVED, edits=edits)) is None
