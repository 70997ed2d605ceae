"""DiscreteZOO driven by hand: what it asks, in which order, and for how much."""

from __future__ import annotations

from collections.abc import Callable
from math import log, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medstress.attacks import DiscreteZoo
from medstress.attacks.discrete_zoo import (
    estimate_gradient,
    hard_log_probs,
    margin_score,
    most_similar,
)
from medstress.core.errors import TrialError, UsageError
from medstress.core.hashing import rng_for
from medstress.core.items import Candidate, Mention, Question
from medstress.core.outcomes import Outcome, Prediction
from medstress.core.queries import Ask, CleanAnswer, Predict
from medstress.testing import PerturbationTable, tiny_resources

Tell = Callable[[Candidate], Prediction]
FLIPPED = Prediction(outcome=Outcome.WRONG, answer="B", reached_goal=True)
NAMES = tuple(f"name{i:02}" for i in range(60))


def mention(field, start, end, type_="T121"):
    return Mention(field=field, start=start, end=end, type=type_)


ITEM = Question(
    id="q",
    stem="Which?",
    options=("Alpha", "Beta", "some gamma blocker", "Delta"),
    key="A",
    mentions=(
        mention("A", 0, 5),
        mention("B", 0, 4),
        mention("C", 5, 10),
        mention("D", 0, 5, "T047"),
        mention("stem", 0, 5),
    ),
)
ONE_SPAN = Question(
    id="q", stem="Which?", options=("Alpha", "Beta"), key="A", mentions=(mention("B", 0, 4),)
)
TABLE = PerturbationTable(NAMES, lambda anchor, text: 0.5)
RESOURCES = tiny_resources(TABLE)


def believes(key, n_options=4, answer="A"):
    """A right answer whose key has this probability."""
    rest = (1 - key) / (n_options - 1)
    scores = (log(key), *[log(rest)] * (n_options - 1))
    return Prediction(outcome=Outcome.RIGHT, answer=answer, scores=scores)


def held(_):
    return believes(0.7)


def drive(attack, tell=held, item=ITEM, resources=RESOURCES, seed=0):
    """Every query asked, and what the attack returns."""
    asked: list[Predict] = []
    flow = attack.run(item, rng_for(seed, attack.stream, "d", item.id), resources)
    try:
        step = next(flow)
        while True:
            if isinstance(step, CleanAnswer):
                step = flow.send((tell(Candidate(item=item)),))
                continue
            assert isinstance(step, Ask)
            asked.extend(step.queries)
            step = flow.send(tuple(tell(query.candidate) for query in step.queries))
    except StopIteration as stop:
        return asked, stop.value


def edits(queries):
    """(option, replacement in lower case) of every query."""
    found = [query.candidate.edits for query in queries]
    assert all(len(each) == 1 for each in found)
    return [(edit.field, edit.replacement.lower()) for (edit,) in found]


def nearest(text, k, names=NAMES):
    similarity = TABLE.cosines(TABLE.vector(text))
    order = np.argsort(-similarity, kind="stable")
    return [NAMES[i] for i in order if NAMES[i] in names][:k]


def test_a_step_asks_m_names_from_the_nearest_and_then_where_their_scores_point():
    """Score = w.c: the update must be the name nearest to e0 + lambda g, found here by hand."""
    w = np.arange(8.0) - 3.5

    def tell(candidate):
        text = candidate.edits[0].replacement if candidate.edits else "Beta"
        margin = 30 - float(w @ TABLE.vector(text.lower() if candidate.edits else text))
        return Prediction(outcome=Outcome.RIGHT, answer="A", scores=(0.0, -margin))

    asked, _ = drive(DiscreteZoo(budget=4, candidates=3, learning_rate=2.0), tell, ONE_SPAN)
    *drawn, update = [name for _, name in edits(asked)]
    assert set(drawn) < set(nearest("Beta", 15))
    e0 = TABLE.vector("Beta")
    moves = [TABLE.vector(name) - e0 for name in drawn]
    g = sum((w @ move) / (move @ move) * move for move in moves)
    rest = [name for name in NAMES if name not in drawn]
    best = max(rest, key=lambda name: float(TABLE.vector(name) @ (e0 + 2 * g)))
    assert update == best


def test_the_search_goes_on_to_the_next_entity_and_then_to_fresh_names():
    asked, pick = drive(DiscreteZoo(budget=16))
    assert pick is None
    fields = [field for field, _ in edits(asked)]
    assert fields in ([*"BBBBCCCCBBBBCCCC"], [*"CCCCBBBBCCCCBBBB"])


def test_a_success_among_the_candidates_ends_the_search():
    asked, pick = drive(DiscreteZoo(), lambda c: FLIPPED if c.edits else held(c))
    assert len(asked) == 1
    assert pick == asked[0].candidate


def test_where_the_estimate_is_zero_a_fresh_name_of_the_pool_is_asked():
    """The same scores whatever is asked: the documented fall-back."""
    updates = set()
    for seed in range(40):
        asked, _ = drive(DiscreteZoo(budget=4), item=ONE_SPAN, seed=seed, tell=two_options)
        *drawn, update = [name for _, name in edits(asked)]
        assert update in set(nearest("Beta", 15)) - set(drawn)
        updates.add(update)
    assert len(updates) > 10


def two_options(_):
    return believes(0.7, 2)


def test_hard_answers_fall_back_to_the_pool_whatever_the_probabilities():
    def tell(candidate):
        found = sum(map(ord, candidate.edits[0].replacement)) % 7 if candidate.edits else 0
        return believes(0.6 + 0.05 * found, 2)

    for seed in range(10):
        soft, _ = drive(DiscreteZoo(budget=4), tell, ONE_SPAN, seed=seed)
        hard, _ = drive(DiscreteZoo(budget=4, answers="hard"), tell, ONE_SPAN, seed=seed)
        blind, _ = drive(DiscreteZoo(budget=4), two_options, ONE_SPAN, seed=seed)
        assert soft[:3] == hard[:3]
        assert hard == blind


def test_a_victim_without_probabilities_is_refused_before_any_query():
    bare = Prediction(outcome=Outcome.RIGHT, answer="A")
    with pytest.raises(TrialError, match='answers = "hard"'):
        drive(DiscreteZoo(), lambda _: bare)


def test_an_unreadable_answer_is_left_out_of_the_estimate():
    """With one candidate unreadable, the update is the one that the other two point to."""
    lost = edits(drive(DiscreteZoo(budget=3), two_options, ONE_SPAN)[0])[0][1]

    def tell(candidate):
        if not candidate.edits:
            return believes(0.7, 2)
        name = candidate.edits[0].replacement.lower()
        if name == lost:
            return Prediction(outcome=Outcome.UNREADABLE, answer=None)
        return believes(0.6, 2)

    asked, _ = drive(DiscreteZoo(budget=4, learning_rate=100.0), tell, ONE_SPAN)
    *drawn, update = [name for _, name in edits(asked)]
    assert drawn[0] == lost
    e0 = TABLE.vector("Beta")
    moves = [TABLE.vector(name) - e0 for name in drawn[1:]]
    change = log(0.7 / 0.3) - log(0.6 / 0.4)
    target = e0 + 100 * sum(change / (m @ m) * m for m in moves)
    rest = [name for name in NAMES if name not in drawn]
    assert update == max(rest, key=lambda name: float(TABLE.vector(name) @ target))


class TestRankingByImportance:
    @staticmethod
    def tell(candidate):
        """Without its entity, C leaves the key less probable than B does."""
        (edit,) = candidate.edits or (None,)
        if edit is None or edit.replacement:
            return believes(0.9)
        return believes({"B": 0.8, "C": 0.5}[edit.field])

    def test_the_entity_whose_deletion_costs_the_key_most_comes_first(self):
        for seed in range(5):
            asked, _ = drive(DiscreteZoo(budget=6, word_ranking="importance"), self.tell, seed=seed)
            assert [query.probe for query in asked] == [True, True, *[False] * 4]
            assert set(edits(asked[:2])) == {("B", ""), ("C", "")}
            assert {field for field, _ in edits(asked[2:])} == {"C"}

    def test_an_unreadable_probe_puts_its_entity_last(self):
        def tell(candidate):
            if candidate.edits and candidate.edits[0] == probe_of_c:
                return Prediction(outcome=Outcome.UNREADABLE, answer=None)
            return self.tell(candidate)

        attack = DiscreteZoo(word_ranking="importance")
        probes = drive(attack, self.tell)[0][:2]
        (probe_of_c,) = [q.candidate.edits[0] for q in probes if q.candidate.edits[0].field == "C"]
        assert edits(drive(attack, tell)[0])[2][0] == "B"


class TestReplaced:
    """Two places, B and C; every name in C leads to B, and every name in B to D."""

    @staticmethod
    def tell(candidate):
        fields = {edit.field for edit in candidate.edits}
        led = {"B": 3, "C": 1}[min(fields)] if fields else 0
        # What stands in an edited option itself gets a little likelier with every name in C.
        scores = [log(0.6), log(0.1), log(0.2 if "C" in fields else 0.15), log(0.1)]
        if fields:
            scores[led] = log(0.9)
        return Prediction(outcome=Outcome.RIGHT, answer="A", scores=tuple(scores))

    def test_the_score_is_that_of_the_option_under_attack(self):
        attack = DiscreteZoo(goal="replaced")
        entity = attack.entity(ITEM, ITEM.mentions[2], RESOURCES)
        answer = self.tell(entity.candidate(0))
        # log p of C against the best other, which is B.
        assert attack._score(answer, entity) == pytest.approx(log(0.2) - log(0.9))
        beside = attack.entity(ITEM, ITEM.mentions[1], RESOURCES)
        assert attack._score(answer, beside) == 0


class TestThreshold:
    def test_nothing_less_similar_to_the_entity_is_asked(self):
        similarity = dict(zip(NAMES, TABLE.cosines(TABLE.vector("Beta")), strict=True))
        attack = DiscreteZoo(budget=60, similarity_threshold=0.2)
        asked, _ = drive(attack, two_options, ONE_SPAN)
        names = {name for _, name in edits(asked)}
        assert names == {name for name, cos in similarity.items() if cos >= 0.2}

    def test_where_no_name_is_similar_enough_the_item_cannot_be_attacked(self):
        most = max(max(TABLE.cosines(TABLE.vector(text))) for text in ("Beta", "gamma"))
        attack = DiscreteZoo(similarity_threshold=1.0)
        assert drive(attack)[0] == []
        reason = "no name of the vocabulary lies within similarity_threshold"
        assert attack.obstacle(ITEM, RESOURCES) == reason
        # One name that is similar enough to one of the two entities is enough.
        just = DiscreteZoo(similarity_threshold=float(most) - 1e-6)
        assert just.obstacle(ITEM, RESOURCES) is None
        assert len(drive(just)[0]) == 1


class TestExclusions:
    def test_an_excluded_name_is_never_asked_even_where_the_gradient_points_to_it(self):
        class Strict(PerturbationTable):
            def allowed(self, item, variants="exclude"):
                found = super().allowed(item)
                return found if variants == "mark" else found[found % 2 == 0]

        resources = tiny_resources(Strict(NAMES, lambda *_: 0.5))
        rising = {name: 0.9 - 0.01 * i for i, name in enumerate(NAMES)}

        def tell(candidate):
            name = candidate.edits[0].replacement.lower() if candidate.edits else ""
            return believes(rising.get(name, 0.9), 2)

        for variants, expected in (("exclude", set(NAMES[::2])), ("mark", set(NAMES))):
            attack = DiscreteZoo(budget=200, variants=variants)
            asked, _ = drive(attack, tell, ONE_SPAN, resources)
            assert {name for _, name in edits(asked)} == expected

    def test_the_entity_itself_under_another_spelling_is_not_asked(self):
        def vectors(text):
            return TABLE.vector(text.replace("beta-", "Beta"))

        table = PerturbationTable(["beta-", *NAMES[:5]], lambda *_: 0.5, vectors)
        asked, _ = drive(DiscreteZoo(budget=9), two_options, ONE_SPAN, tiny_resources(table))
        assert {name for _, name in edits(asked)} == set(NAMES[:5])


class TestObstacles:
    def test_an_entity_without_a_vector_is_passed_over(self):
        def vectors(text):
            return np.zeros(8) if text in ("Beta", "gone") else TABLE.vector(text)

        resources = tiny_resources(PerturbationTable(NAMES, lambda *_: 0.5, vectors))
        found = DiscreteZoo().obstacle(ONE_SPAN, resources)
        assert found == "no entity of type drugs in a wrong option has a vector"
        assert DiscreteZoo().obstacle(ITEM, resources) is None
        asked, _ = drive(DiscreteZoo(), resources=resources)
        assert {field for field, _ in edits(asked)} == {"C"}


class TestChoices:
    def test_as_published_passes_once_over_the_places_whatever_the_budget(self):
        """Two entities, M names each and one more; no answer of the key tells a direction."""
        attack = DiscreteZoo(choices="as_published", budget=40, candidates=4, variants="exclude")
        asked, _ = drive(attack)
        found = edits(asked)
        assert [field for field, _ in found] in ([*"BBBBB", *"CCCCC"], [*"CCCCC", *"BBBBB"])
        for field, text in (("B", "Beta"), ("C", "gamma")):
            names = {name for at, name in found if at == field}
            assert len(names) == 5
            assert names < set(nearest(text, 20))

    def test_as_released_draws_from_a_neighbourhood_and_never_steps(self):
        """Ten of the fifty nearest of the first entity, then of the next."""
        attack = DiscreteZoo(choices="as_released", budget=13, variants="exclude")
        assert (attack.candidates, attack.learning_rate, attack.update) == (10, 0.1, "none")
        asked, _ = drive(attack)
        found = edits(asked)
        assert [field for field, _ in found] == [*"BBBBBBBBBB", *"CCC"]
        assert {name for field, name in found if field == "B"} < set(nearest("Beta", 50))

    @pytest.mark.parametrize(("given", "n"), [({}, 7), ({"budget": 8}, 8)])
    def test_as_released_the_clean_question_is_one_of_the_default_budget_alone(self, given, n):
        """A written budget counts perturbed queries, as it does of entity_substitution."""
        attack = DiscreteZoo(choices="as_released", variants="exclude", **given)
        assert (attack.budget, len(drive(attack)[0])) == (n, n)


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"budget": 2}, "budget"),
        ({"candidates": 1}, "candidates"),
        ({"multiplier": 0}, "multiplier"),
        ({"learning_rate": float("inf")}, "learning_rate"),
        ({"kappa": -1}, "kappa"),
        ({"similarity_threshold": 1.5}, "similarity_threshold"),
        ({"choices": "as_publishd"}, "'as_publishd'"),
        ({"word_ranking": "importance", "answers": "hard"}, ""),
    ],
)
def test_a_parameter_out_of_range_is_refused_by_name(given, where, said):
    with pytest.raises(UsageError) as caught:
        DiscreteZoo(**given)
    assert str(caught.value).startswith("discrete_zoo: ")
    said(str(caught.value), where)


PARAMETERS = st.fixed_dictionaries(
    {
        "budget": st.integers(3, 40),
        "candidates": st.integers(2, 12),
        "learning_rate": st.sampled_from([1e-3, 0.1, 1.0, 10.0, 1e6]),
        "similarity_threshold": st.sampled_from(["off", -0.5, 0.0, 0.3, 0.9]),
        "word_ranking": st.sampled_from(["random", "importance", "given"]),
        "multiplier": st.integers(1, 6),
        "kappa": st.sampled_from([0.0, 2.0]),
        "aggregate": st.sampled_from(["sum", "mean"]),
        "rounds": st.sampled_from(["until_budget", "one_pass"]),
        "update": st.sampled_from(["gradient", "none"]),
    }
)


def noisy(candidate):
    """A probability that depends on the candidate; sometimes unreadable."""
    text = "".join(candidate.options)
    value = rng_for(0, "noisy", "", text).random()
    if candidate.edits and value < 0.1:
        return Prediction(outcome=Outcome.UNREADABLE, answer=None)
    return believes(0.3 + 0.6 * value)


@settings(deadline=None)
@given(PARAMETERS, st.integers(0, 50), st.integers(1, 40))
def test_the_budget_is_kept_and_nothing_is_asked_twice(parameters, seed, n_names):
    resources = tiny_resources(PerturbationTable(NAMES[:n_names], lambda *_: 0.5))
    attack = DiscreteZoo(**parameters)
    asked, pick = drive(attack, noisy, resources=resources, seed=seed)
    assert pick is None
    budget = parameters["budget"]
    assert len(asked) <= budget
    found = edits(asked)
    assert len(set(found)) == len(found)
    names = {name for query, (_, name) in zip(asked, found, strict=True) if not query.probe}
    assert names <= set(NAMES[:n_names])
    if parameters["rounds"] == "until_budget" and parameters["similarity_threshold"] == "off":
        n_probes = 2 if parameters["word_ranking"] == "importance" else 0  # one a span
        # Probes that leave no query for a name are not asked.
        expected = min(budget, 2 * n_names + n_probes) if budget > n_probes else 0
        assert len(asked) == expected


@settings(deadline=None)
@given(PARAMETERS, st.integers(0, 50), st.integers(3, 40))
def test_a_smaller_budget_asks_a_prefix(parameters, seed, budget):
    """So that success within b queries is read off one run with more."""
    parameters |= {"word_ranking": "random"}
    long, _ = drive(DiscreteZoo(**parameters), noisy, seed=seed)
    short, _ = drive(DiscreteZoo(**{**parameters, "budget": budget}), noisy, seed=seed)
    n = min(len(long), len(short))
    assert long[:n] == short[:n]


# -- the parts that it shares with entity substitution ---------------------------------------------


def test_the_search_goes_on_after_a_success_that_does_not_count():
    invalid = Prediction(outcome=Outcome.WRONG, answer="B", scores=(-1.0,) * 4, is_success=True)
    asked, pick = drive(DiscreteZoo(variants="mark"), lambda c: invalid if c.edits else held(c))
    assert (len(asked), pick) == (8, None)


def test_a_targeted_search_follows_the_probability_of_its_target():
    """Only option D moves with w: the estimate exists for goal D, and is zero for goal C."""
    w = np.arange(8.0) - 3.5

    def tell(candidate):
        text = candidate.edits[0].replacement.lower() if candidate.edits else "Beta"
        d = -30 + float(w @ TABLE.vector(text))
        return Prediction(outcome=Outcome.RIGHT, answer="A", scores=(0.0, -9.0, -9.0, d))

    found = {
        goal: edits(drive(DiscreteZoo(budget=4, goal=goal, word_ranking="given"), tell)[0])
        for goal in ("C", "D")
    }
    assert found["C"][:3] == found["D"][:3]
    assert found["C"][3] != found["D"][3]


# -- the mathematics, against closed forms ---------------------------------------------------------
LOG_PROBS = [log(0.6), log(0.3), log(0.1)]


def points(n, d, seed=0):
    """An origin, and n points in isotropic directions at differing distances from it."""
    rng = np.random.default_rng(seed)
    directions = rng.standard_normal((n, d))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    origin = rng.standard_normal(d)
    return origin, origin + directions * rng.uniform(0.2, 2, (n, 1)), rng.standard_normal(d)


def cosine(a, b):
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def test_the_score_is_minus_the_margin_of_the_key_over_the_best_other_option():
    assert margin_score(LOG_PROBS, 0) == pytest.approx(-log(2))
    assert margin_score(LOG_PROBS, 0, kappa=0.5) == pytest.approx(-log(2) - 0.5)


@pytest.mark.parametrize(("key", "kappa", "score"), [(1, 0.0, 0.0), (1, 1.0, log(2) - 1)])
def test_the_score_stops_growing_kappa_beyond_the_border(key, kappa, score):
    assert margin_score(LOG_PROBS, key, kappa=kappa) == pytest.approx(score)


def test_a_targeted_score_is_minus_what_the_option_aimed_at_lacks():
    assert margin_score(LOG_PROBS, 0, sought=2) == pytest.approx(-log(6))
    assert margin_score(LOG_PROBS, 1, sought=0) == 0


def test_hard_answers_give_two_scores_and_nothing_between():
    scores = [margin_score(hard_log_probs(4, chosen), 2) for chosen in range(4)]
    assert scores == pytest.approx([0, 0, log(1e-8), 0], abs=1e-7)
    assert log(1e-8) == pytest.approx(-18.42, abs=0.01)


def test_equation_5_by_hand():
    origin, at = np.array([1.0, 0.0]), np.array([[1.0, 2.0], [4.0, 4.0]])
    changes = np.array([6.0, 10.0])
    # Displacements (0, 2) and (3, 4): 6/2 * (0, 1) + 10/5 * (.6, .8).
    np.testing.assert_allclose(estimate_gradient(origin, at, changes), [1.2, 4.6])
    np.testing.assert_allclose(estimate_gradient(origin, at, changes, aggregate="mean"), [0.6, 2.3])


@given(st.integers(1, 6), st.integers(1, 5), st.integers(0, 99))
def test_no_change_of_the_score_gives_exactly_zero(n, d, seed):
    origin, at, _ = points(n, d, seed)
    assert not estimate_gradient(origin, at, np.zeros(n)).any()


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30), st.integers(0, 35))
def test_the_most_similar_come_in_descending_order(values, k):
    similarities = np.array(values, dtype=np.float32)
    among = np.arange(0, len(values), 2)
    found = most_similar(similarities, among, k)
    expected = sorted(similarities[among], reverse=True)[:k]
    assert similarities[found].tolist() == expected
    assert len(set(found.tolist())) == len(found)
    assert set(found) <= set(among)


def test_the_expected_cosine_is_that_of_the_closed_form():
    """1/sqrt(1 + (d - 1)/M): .71 at M = d; mean of 200 estimates, standard error below .01."""
    d = 32
    for m in (d, 5 * d):
        found = []
        for seed in range(200):
            origin, at, w = points(m, d, seed)
            found.append(cosine(estimate_gradient(origin, at, at @ w - origin @ w), w))
        assert np.mean(found) == pytest.approx(1 / sqrt(1 + (d - 1) / m), abs=0.02)
