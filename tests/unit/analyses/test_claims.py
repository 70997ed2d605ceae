"""Claims of Xian et al. on runs whose truth is planted: true, false, undecidable, not tested."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from medstress.analyses import claims as module
from medstress.analyses.claims import CLAIMS, Claim, Claims, Finding, above, inside
from medstress.analyses.run import Run
from medstress.core.hashing import digest
from medstress.core.items import Question
from medstress.core.text import Edit
from medstress.core.trials import Trial
from medstress.stats.estimate import Estimate, unknown
from planted_trials import (
    NEAR,
    Draw,
    Outcome,
    arm,
    attacked,
    edit,
    fooled,
    outcomes,
    planted_run,
    questions,
    renamed,
)

BUDGET = 20
N = (-40.0, -20.0, -5.0, 5.0, 20.0, 40.0)
SUPPORTED, CONTRADICTED = Finding.SUPPORTED, Finding.CONTRADICTED
UNDECIDED, NOT_TESTED = Finding.UNDECIDED, Finding.NOT_TESTED


def substitution(sampler: str, n: float | None = None, **more: Any) -> dict[str, Any]:
    params = {"name": "entity_substitution", "sampler": sampler, "n": n, "budget": BUDGET}
    return {**params, "variants": "exclude", **more}


def zoo(m: int = 3, **more: Any) -> dict[str, Any]:
    return {"name": "discrete_zoo", "candidates": m, "budget": BUDGET, **more}


ATTACKS = {
    **{sampler: substitution(sampler) for sampler in ("random", "nearest", "farthest")},
    **{f"n={n:g}": substitution("pdws", n) for n in N},
    "zoo": zoo(),
}


def rank(i: int) -> int:
    """Spread items over 0 to 99 so that no order of items matters."""
    return (37 * i) % 100


def paper(high: Mapping[str, int], *, peaked: bool) -> Outcome:
    """n > 0 is done early, random sampling is slow and goes far, all others flip at once."""

    def outcome(i: int, params: Mapping[str, Any]) -> int | None:
        r, n, sampler = rank(i), params.get("n"), params.get("sampler")
        if sampler is None:
            return 1 if r < 30 else None
        if n is not None:
            method = "near" if n < 0 else "far"
            limit = high[method] + (15 if peaked and abs(n) == 20 else 0)
            return 1 if r < limit else 3 if method == "far" and r < limit + 15 else None
        if r < high[sampler]:
            return 1
        return 4 + r // 10 if sampler == "random" and r < 90 else None

    return outcome


def texts(one: Trial) -> Trial:
    """Give near successes names of their own."""
    if one.first is None:
        return one
    n, i = one.arm.attack.params.get("n"), int(one.item.id[1:])
    name = f"name {i}" if n is not None and n < 0 else f"name {i % 3}"
    first = replace(one.first, edits=(edit(name),))
    return replace(one, first=first, pick=first)


def run_of(outcome: Outcome, attacks: Any = ATTACKS, n: int = 110, **more: Any) -> Run:
    """Names that do not succeed are drawn once each."""
    trials = outcomes(attacks, outcome, n, 5, **more)
    return drawn(trials, lambda item, seed, query: edit(f"{item.id} {query}"))


def drawn(trials: Sequence[Trial], draw: Draw) -> Run:
    """Add what queries that did not succeed put in."""
    edits = {}
    for i, one in enumerate(trials, start=1):
        edits[i] = [
            (q, (draw(one.item, one.arm.seed, q),)) for q in range(1, one.queries.asked + 1)
        ]
        if one.first is not None:
            edits[i][-1] = one.first.query, one.first.edits
    return planted_run(trials, edits=edits)


def claims(run: Run) -> Claims:
    return run.of(CLAIMS)


def findings(result: Claims, number: int) -> list[Finding]:
    return [row.finding for row in result.rows if row.number == number]


def the(result: Claims, number: int, words: str) -> Claim:
    (row,) = [r for r in result.rows if r.number == number and words in r.statement]
    return row


@pytest.fixture(scope="module")
def true():
    high = {"near": 60, "far": 20, "random": 15, "nearest": 60, "farthest": 80}
    return claims(run_of(paper(high, peaked=True), change=texts))


@pytest.fixture(scope="module")
def false():
    high = {"near": 20, "far": 60, "random": 80, "nearest": 60, "farthest": 20}
    return claims(run_of(paper(high, peaked=False), change=texts))


@pytest.mark.parametrize(("number", "n"), [(4, 2), (6, 2), (9, 1), (15, 1)])
def test_a_run_as_the_paper_has_it_supports_its_claims(true, number, n):
    assert findings(true, number) == [SUPPORTED] * n


def test_a_run_that_is_the_other_way_round_contradicts_them(false):
    assert findings(false, 4) == [CONTRADICTED] * 2


def test_close_is_an_equivalence(true):
    assert {r.finding for r in true.rows if r.number == 7 and "farthest" in r.statement} == {
        CONTRADICTED
    }
    same = claims(run_of(lambda i, s: 1 if i % 2 else None))
    assert findings(same, 7) == [SUPPORTED] * 4


def test_differences_by_chance_are_undecided_and_nothing_else_is_said():
    def outcome(i: int, params: Mapping[str, Any]) -> int | None:
        return 1 if (i + (params.get("n") == -20.0) * 3) % 7 < 2 else None

    result = claims(run_of(outcome, n=40))
    assert findings(result, 4) == [UNDECIDED] * 2


@pytest.mark.parametrize(("n", "finding"), [(5, UNDECIDED), (6, SUPPORTED)])
def test_five_against_none_decide_nothing(n, finding):
    """Five items are p = .0625, six p = .031, though the interval of both is clear of 0."""

    def only_near(i: int, params: Mapping[str, Any]) -> int | None:
        n_of = params.get("n")
        return 1 if i < 20 or (i < 20 + n and n_of is not None and n_of < 0) else None

    attacks = {f"n={n:g}": substitution("pdws", n, budget=1) for n in (-5.0, 5.0)}
    row = the(claims(run_of(only_near, attacks, n=60)), 4, "ASR is higher")
    assert row.effect.low > 0
    assert (row.finding, row.p <= 0.05) == (finding, n == 6)


def test_what_cannot_be_tested_names_the_reason():
    result = claims(run_of(lambda i, s: 1 if i % 2 else None, {"n=5": substitution("pdws", 5.0)}))
    row = the(result, 4, "ASR is higher")
    assert (row.finding, row.reason) == (NOT_TESTED, "no PDWS n < 0 in this run")
    assert "medstress explain" in the(result, 16, "n < 0").reason
    assert "two embeddings" in the(result, 14, "DiscreteZOO").reason
    assert all(row.reason for row in result.rows if row.finding is NOT_TESTED)
    (table,) = result.tables()
    assert len(table.rows) == len(result.rows)


def test_an_n_that_few_items_chose_before_the_run_is_said():
    attacks = {f"near n={n:g}": substitution("pdws", n) for n in (-20.0, -5.0)}
    settings = {"share": 0.2, "budget": None, "grid": [-20.0, -5.0]}
    tuning = {"part": "tuning", "settings": settings, "rule": "", "optimistic": False}
    trials = outcomes(attacks, lambda i, s: 1 if i % 2 else None, 9)
    (table,) = claims(planted_run(trials, tuning=tuning)).tables()
    assert sum("n was chosen on 9 questions" in note for note in table.notes) == 1


def bending_at(bends: Mapping[Any, int], key: str) -> Outcome:
    """Items flip one after the other up to about a budget, and then hardly any."""

    def outcome(i: int, params: Mapping[str, Any]) -> int | None:
        at = bends.get(params.get(key), 3)
        late = 2 + (i % 3 == 0) if rank(i) % 9 == 0 else 0
        return 1 + rank(i) * at // 80 + late * at // 4 if rank(i) < 80 else None

    return outcome


def test_n_moves_the_inflection_where_it_is_planted():
    attacks = {f"n={n:g}": substitution("pdws", n) for n in (-40.0, -5.0, 5.0, 40.0)}
    outcome = bending_at({-40.0: 3, -5.0: 9, 5.0: 4, 40.0: 4}, "n")
    result = claims(run_of(outcome, attacks))
    assert the(result, 12, "n < 0").finding is SUPPORTED
    assert the(result, 12, "n < 0").effect.value == pytest.approx(9 / 3)
    assert the(result, 12, "n > 0").finding in (CONTRADICTED, NOT_TESTED)
    alone = claims(run_of(outcome, {"n=5": substitution("pdws", 5.0)}))
    assert "one value of n" in the(alone, 12, "n > 0").reason


@pytest.mark.parametrize(("few", "many", "finding"), [(3, 9, SUPPORTED), (9, 3, CONTRADICTED)])
def test_more_candidates_reach_the_plateau_later_where_it_is_planted(few, many, finding):
    attacks = {"few": zoo(2), "many": zoo(10)}
    result = claims(run_of(bending_at({2: few, 10: many}, "candidates"), attacks))
    assert [row.finding for row in result.rows if row.number == 13] == [finding]
    alone = claims(run_of(bending_at({2: few}, "candidates"), {"few": zoo(2)}))
    assert "one number of candidates" in the(alone, 13, "plateau").reason


def two_embeddings(outcomes_of: Mapping[str, Outcome], attacks: Mapping[str, Any]) -> Claims:
    trials = [
        one
        for group, outcome in outcomes_of.items()
        for one in outcomes(attacks, outcome, 100, group=group)
    ]
    entities = [{"type": "drugs", "embedding": group} for group in outcomes_of]
    config = {"experiment": {"name": "planted"}, "entities": entities, "dataset": [{"name": "x"}]}
    groups: dict[str, dict[str, str]] = {group: {} for group in outcomes_of}
    return claims(planted_run(trials, config=config, groups=groups, datasets={"cases": {}}))


def test_the_effect_of_the_embedding_is_found_where_it_is_planted():
    attacks = {"near": substitution("pdws", -20.0), "zoo": zoo()}
    slow: Outcome = lambda i, params: 9 if rank(i) < 80 else None  # noqa: E731
    fast: Outcome = lambda i, params: 1 if rank(i) < 80 else None  # noqa: E731
    result = two_embeddings({"coder": slow, "gte": fast}, attacks)
    assert the(result, 14, "rise of PDWS").finding is SUPPORTED
    assert the(result, 14, "rise of PDWS").effect.value == pytest.approx(0.8)
    assert the(result, 14, "plateau of DiscreteZOO").finding is CONTRADICTED
    same = two_embeddings({"coder": fast, "gte": fast}, attacks)
    assert the(same, 14, "rise of PDWS").finding is CONTRADICTED


def test_few_items_that_differ_say_nothing_of_an_embedding():
    def found(n: int) -> Outcome:
        return lambda i, params: 1 if i < 20 + n else None

    attacks = {"near": substitution("pdws", -20.0), "zoo": zoo()}
    for n, finding in ((5, UNDECIDED), (6, SUPPORTED)):
        result = two_embeddings({"coder": found(0), "gte": found(n)}, attacks)
        assert the(result, 14, "rise of PDWS").finding is finding
        assert the(result, 14, "plateau of DiscreteZOO").finding is finding


def test_attacks_under_two_embeddings_are_told_apart():
    every: Outcome = lambda i, params: 1  # noqa: E731
    names = {"coder": every, "/data/gte.txt": every}

    def said(attacks: Mapping[str, Any]) -> list[tuple[str, str]]:
        rows = two_embeddings(names, attacks).rows
        return [(r.at.arms, r.quantity) for r in rows if r.number == 14 and r.budget]

    of = "ASR of DiscreteZOO{}, coder minus gte.txt"
    few, many = zoo(2), zoo(10)
    assert said({"few": few, "many": many}) == [
        ("default", of.format(", M = 2")),
        ("default", of.format(", M = 10")),
    ]
    assert said({"few": few, "slow": zoo(2, learning_rate=1.0)}) == [
        ("default", of.format(" (few)")),
        ("default", of.format(" (slow)")),
    ]
    of_rule = {"own": zoo(choices="default"), "paper": zoo(choices="as_published")}
    rules = ["choices = default", "choices = as_published"]
    assert said(of_rule) == [(rule, of.format("")) for rule in rules]


def test_random_sampling_overtakes_on_more_than_a_few_items():
    """Most items flip alike; a few flip under random sampling alone, after the inflection."""

    def overtakes(n: int) -> Outcome:
        def outcome(i: int, params: Mapping[str, Any]) -> int | None:
            late = 4 if params["sampler"] == "random" and i < 80 + n else None
            return 1 + i % 3 if i < 80 else late

        return outcome

    attacks = {"random": substitution("random"), "far": substitution("pdws", 5.0)}
    for n, finding in ((5, UNDECIDED), (6, SUPPORTED)):
        assert findings(claims(run_of(overtakes(n), attacks)), 6) == [finding] * 2


def test_names_of_their_own_are_no_reusable_names():
    def own(one: Trial) -> Trial:
        if one.first is None:
            return one
        first = replace(one.first, edits=(edit(f"name {one.item.id}"),))
        return replace(one, first=first, pick=first)

    attacks = {"far": substitution("pdws", 20.0)}
    row = the(claims(run_of(lambda i, s: 1, attacks, change=own)), 15, "reusable")
    assert (row.finding, row.effect.value) == (CONTRADICTED, -0.5)
    few = the(claims(run_of(lambda i, s: 1 if i < 10 else None, attacks)), 15, "reusable")
    assert few.reason == "needs 10 successes, has 5"


def any_name(item: Question, edits: tuple[Edit, ...]) -> str:
    """Be wrong after a third of the edits, whatever their names."""
    return (
        "AB"[item.key == "A"]
        if edits and digest([item.id, edits[0].replacement])[0] % 3 == 0
        else item.key
    )


@pytest.mark.parametrize(("victim", "finding"), [(fooled, SUPPORTED), (any_name, UNDECIDED)])
def test_few_names_dominate_only_beyond_chance(victim, finding):
    """Of 12 names 2 fool one model; on the other any name succeeds as often."""
    draw = renamed()
    far = substitution("pdws", 20.0, budget=4)
    record = replace(NEAR, label="far", budget=4, params=far)
    trials = [
        replace(one, first=first and replace(first, edits=(draw(one.item, seed, first.query),)))
        for seed in (0, 1)
        for one in attacked(victim, questions(80), arm(record, seed), draw)
        for first in (one.first,)
    ]
    assert the(claims(drawn(trials, draw)), 15, "reusable").finding is finding


@pytest.mark.parametrize(
    ("low", "high", "n", "finding"),
    [(0.1, 0.3, 30, SUPPORTED), (-0.3, -0.1, 30, CONTRADICTED), (-0.1, 0.2, 30, UNDECIDED)],
)
def test_the_top_token_is_judged_beside_chance(monkeypatch, low, high, n, finding):
    excess = Estimate(value=(low + high) / 2, n=n, low=low, high=high, method="planted")
    row = SimpleNamespace(
        kind="success",
        regime="n<0",
        victim="model",
        n=n,
        top_after={"answer": SimpleNamespace(excess=excess)},
    )
    stub = SimpleNamespace(name="explanations", compute=lambda run: SimpleNamespace(rows=[row]))
    monkeypatch.setattr(module, "EXPLANATIONS", stub)
    result = claims(run_of(lambda i, s: 1, {"near": substitution("pdws", -20.0)}))
    assert the(result, 16, "n < 0").finding is finding
    assert the(result, 16, "n > 0").reason == "no success with n > 0 was explained"


def test_open_answers_count_at_their_worst():
    high = {"near": 60, "far": 20, "random": 15, "nearest": 60, "farthest": 80}

    def unread(one: Trial) -> Trial:
        if one.first is None and one.is_eligible:
            return replace(one, queries=one.queries._replace(unreadable=1))
        return one

    result = claims(run_of(paper(high, peaked=True), change=unread))
    assert findings(result, 4) == [UNDECIDED] * 2
    row = the(result, 9, "PDWS at its best")
    assert (row.finding, row.p) == (UNDECIDED, 1.0)


def test_a_model_that_guesses_is_cautioned():
    result = claims(planted_run(outcomes(ATTACKS, lambda i, s: 1, 40, 30)))
    assert all("guessing" in row.at.caution for row in result.rows if row.number == 4)
    (table,) = result.tables()
    assert any("guessing" in note for note in table.notes)


@pytest.mark.parametrize(
    ("low", "high", "finding"),
    [
        (0.1, 0.2, SUPPORTED),
        (-0.2, -0.1, CONTRADICTED),
        (-0.1, 0.1, UNDECIDED),
        (-0.2, -2.4e-18, UNDECIDED),  # 0 but for rounding
        (2.4e-18, 0.2, UNDECIDED),
    ],
)
def test_a_direction_needs_the_whole_interval(low, high, finding):
    effect = Estimate(value=(low + high) / 2, n=50, low=low, high=high, method="made up")
    assert above(effect) == finding
    assert above(replace(effect, worst=(-1.0, 1.0))) == UNDECIDED
    none = unknown("no data")
    assert {above(none), inside(none, -1, 1)} == {NOT_TESTED}
