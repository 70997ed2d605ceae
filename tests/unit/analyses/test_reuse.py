"""Reusable names: a lethal name holds on other items, a lucky one does not; lists that agree."""

from collections.abc import Sequence

import pytest

from medstress.analyses.transfer import (
    REUSE,
    Ranked,
    Reuse,
    cross_fitted,
    folds,
    jaccard,
    rank_biased_overlap,
    ranking,
)
from medstress.core.trials import Trial
from medstress.store.reader import StoredInquiry
from planted_trials import arm, inquiry, planted_run, trial


def reuse(
    trials: Sequence[Trial], inquiries: Sequence[StoredInquiry] = (), m: Sequence[int] = (1, 2)
) -> Reuse:
    config = {"experiment": {"name": "t"}, "analysis": {"reuse": list(m)}}
    return planted_run(trials, inquiries=inquiries, config=config).of(REUSE)


def asked(
    item: str, top: Sequence[str], outcomes: Sequence[str], names: Sequence[str] | None = None
) -> StoredInquiry:
    """What a model answered to the top names on one item."""
    return inquiry(
        "reuse",
        arm(),
        item,
        {"top": list(top), "asked": list(top if names is None else names)},
        outcomes=list(outcomes),
        reached=outcomes[-1] == "wrong" if outcomes else None,
    )


def answers(trials: Sequence[Trial], lethal: Sequence[str], m: int = 2) -> list[StoredInquiry]:
    """Ask every item for the names of the other folds; lethal ones make the model err."""
    inquiries = []
    for item, top in cross_fitted(trials, m).items():
        outcomes: list[str] = []
        for name in top:
            outcomes.append("wrong" if name in lethal else "right")
            if name in lethal:
                break
        inquiries.append(asked(item, top, outcomes))
    return inquiries


def won(names: Sequence[str], n_seeds: int = 1) -> list[Trial]:
    """A success on each question with its name."""
    return [
        trial(i, arm(seed=seed), flipped_at=1, name=name)
        for seed in range(n_seeds)
        for i, name in enumerate(names)
    ]


def test_names_are_ranked_by_successes_then_items_then_spelling():
    trials = [
        *(trial(i, flipped_at=1, name="Zinc") for i in range(3)),
        trial(3, flipped_at=1, name="zinc"),
        *(trial(1, arm(seed=s), flipped_at=1, name="beta") for s in range(2)),
        *(trial(i, flipped_at=1, name="alpha") for i in (1, 2)),
        trial(9),
    ]
    assert ranking(trials) == [
        Ranked(name="zinc", n_successes=4, n_items=4),
        Ranked(name="alpha", n_successes=2, n_items=2),
        Ranked(name="beta", n_successes=2, n_items=1),
    ]


def test_no_item_is_asked_a_name_that_its_own_fold_alone_brought_up():
    trials = won([f"name{i}" for i in range(20)])
    fold_of = folds(f"q{i}" for i in range(20))
    for item, top in cross_fitted(trials, 20).items():
        assert len(top) == 16
        assert {fold_of[f"q{name[4:]}"] for name in top} == set(range(5)) - {fold_of[item]}


@pytest.mark.parametrize("n_seeds", [1, 5])
def test_a_lethal_name_flips_what_it_was_not_ranked_on(n_seeds):
    trials = won(["lethal" if i % 2 else f"own {i}" for i in range(20)], n_seeds)
    first, second = reuse(trials, answers(trials, ["lethal"])).asked
    assert (first.reuse.value, first.reuse.n, first.n_items) == (1.0, 20, 20)
    assert (second.m, second.reuse.value) == (2, 1.0)
    assert first.reuse.worst is None


def test_a_lucky_name_flips_nothing_elsewhere():
    """It heads the ranking by chance: read off the same successes, it would look reusable."""
    trials = won(["lucky" if i < 4 else f"own {i}" for i in range(20)])
    result = reuse(trials, answers(trials, []))
    assert result.names[0].names[0] == Ranked(name="lucky", n_successes=4, n_items=4)
    assert [row.reuse.value for row in result.asked] == [0.0, 0.0]
    assert [row.reuse.n for row in result.asked] == [20, 20]


def test_only_what_was_asked_is_in_the_denominator_and_the_rest_is_open():
    """Of ten items three may take no name; one call failed at the second of two names."""
    trials = [*won(["a"] * 10), *(trial(i, arm(seed=1), flipped_at=1, name="b") for i in range(10))]
    top = ("a", "b")
    assert set(cross_fitted(trials, 2).values()) == {top}
    inquiries = [asked(f"q{i}", top, ("right", "wrong")) for i in range(4)]
    inquiries += [asked(f"q{i}", top, ("right", "unreadable")) for i in range(4, 6)]
    inquiries.append(asked("q6", top, ("right",)))
    inquiries += [asked(f"q{i}", top, (), names=()) for i in range(7, 10)]
    result = reuse(trials, inquiries)
    first, second = result.asked
    assert (first.reuse.hits, first.reuse.n, first.reuse.worst) == (0, 7, None)
    assert (second.reuse.hits, second.reuse.n) == (4, 6)
    for row, n_unanswered in ((first, 0), (second, 1)):
        assert (row.n_items, row.n_never_asked, row.n_unanswered) == (10, 3, n_unanswered)
    # The two unreadable answers and the missing one may be successes.
    assert second.reuse.worst[1] == 1.0
    assert [remark.rule for remark in result.remarks()] == ["not_answered"]


def test_answers_to_a_ranking_that_has_changed_are_left_out():
    trials = won(["a"] * 10)
    (row,) = reuse(trials, [asked(f"q{i}", ("z",), ("wrong",)) for i in range(10)], [1]).asked
    assert (row.n_items, row.reuse.n) == (10, 0)


def test_rbo_of_uneven_lists_follows_equation_32_by_hand():
    """S = a, L = a b, p = 1/2: X = 1, 1. (1-p)/p = 1; sum X_d/d p^d = 1/2 + 1/8;
    sum over d = 2 of X_s (d-s)/(s d) p^d = 1/8; tail (0 + 1) p^2 = 1/4. Together 1."""
    assert rank_biased_overlap(["a"], ["a", "b"], 0.5) == pytest.approx(1.0)
    # S = b, L = a b: X = 0, 1, X_s = 0. 0 + 1/2 * 1/4 + ((1 - 0)/2 + 0) / 4 = 1/4.
    assert rank_biased_overlap(["b"], ["a", "b"], 0.5) == pytest.approx(0.25)
    assert rank_biased_overlap([], ["a"]) is jaccard([], []) is None
