"""F1 and correlations of two models on the same documents or pairs, with planted truths."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from medstress.analyses.compare import Comparison, Side, compare
from medstress.analyses.scores import COPY_FAILED
from medstress.core.arms import AttackRecord
from medstress.core.trials import Trial
from planted_trials import NEAR, arm, paired, planted_run, tagged

COPY = replace(NEAR, label="swap", name="swap_noise", budget=1, draws_names=False, whole_copy=True)
MEASURED = replace(COPY, judged=False)


ONE, NONE = "O B-Drug", "O O"


def texts(n: int, keeps: Callable[[int], bool], attack: Any = COPY) -> list[Trial]:
    """One entity a sentence, two sentences a document; found clean, and under attack if kept."""
    return [
        one
        for i in range(n)
        for one in tagged(
            i, arm(attack), ONE, ONE, ONE if keeps(i) else NONE, document=f"d{i // 2}"
        )
    ]


def on(a: Iterable[Trial], b: Iterable[Trial], **settings: Any) -> Comparison:
    entry = {"model": "m", "model_hash": "1", "task": {}}
    sides = [
        Side(run=planted_run(rows, victims={"model": {**entry, "model_hash": name}}))
        for name, rows in (("A", a), ("B", b))
    ]
    return compare(sides[0], sides[1], **settings)


def test_a_tagger_that_falls_further_is_worse():
    found = on(texts(120, lambda i: i % 10 > 0), texts(120, lambda i: i % 2 > 0))
    (row,) = found.deciding
    assert (found.metric, row.verdict, row.n_items) == ("f1_after", "worse", 120)
    # 2 matches / (found + gold): 108 of 120 found, and 60 of 120.
    assert row.value_a.value == pytest.approx(216 / 228)
    assert row.value_b.value == pytest.approx(120 / 180)
    assert row.difference.high < 0
    assert {row.metric for row in found.rows} == {"f1_after", "f1", "asr"}
    drop = on(
        texts(120, lambda i: i % 10 > 0), texts(120, lambda i: i % 2 > 0), metric="f1_drop"
    ).deciding[0]
    assert drop.verdict == "worse"
    assert drop.difference.value == pytest.approx(216 / 228 - 120 / 180)


def test_equal_taggers_are_equivalent_and_undecided():
    rows = texts(120, lambda i: i % 10 > 0), texts(120, lambda i: i % 10 != 5)
    assert on(*rows).verdict == "undecided"
    assert on(*rows, margin=0.15).verdict == "equivalent within the margin"


def test_a_tagger_that_loses_all_is_worse_than_one_that_loses_nothing():
    """All resamples agree, on the 60 documents of each."""
    found = on(texts(120, lambda _: True), texts(120, lambda _: False))
    (row,) = found.deciding
    assert (row.verdict, found.fails) == ("worse", True)
    assert (row.value_a.value, row.value_b.value) == (1.0, 0.0)
    # 60 pairs of which all differ: Tango's interval.
    assert (row.difference.low, row.difference.high) == pytest.approx((-1.0, -0.8797), abs=1e-4)
    assert row.p < 0.001
    turned = on(texts(120, lambda _: False), texts(120, lambda _: True))
    assert turned.verdict == "better"
    same = texts(120, lambda _: True), texts(120, lambda _: True)
    alike = on(*same)
    assert (alike.verdict, alike.deciding[0].p) == ("undecided", 1.0)
    assert alike.deciding[0].difference.high == pytest.approx(0.0602, abs=1e-4)
    assert on(*same, margin=0.05).verdict == "equivalent within the margin"
    assert on(*same, margin=0.04).fails


def test_copies_that_failed_make_no_model_equivalent():
    whole = texts(120, lambda _: True)
    lost = [replace(t, last=None) if int(t.item.id[1:]) % 5 == 0 else t for t in whole]
    assert on(whole, whole, margin=0.1).verdict == "equivalent within the margin"
    found = on(whole, lost, margin=0.1)
    assert (found.verdict, found.fails) == ("undecided", True)
    assert found.sentence.startswith(f"Undecided, as {COPY_FAILED} in B,")


OUTSIDE = AttackRecord(label="control of swap", name="non_entity_noise", whole_copy=True)


def test_noise_outside_entities_that_takes_more_speaks_for_nothing():
    """B loses 6 of 120 under the attack, and all outside entities."""

    def beside(rows: list[Trial], after: str) -> list[Trial]:
        at = arm(OUTSIDE, control_of="swap")
        both = [
            one for i in range(120) for one in tagged(i, at, ONE, ONE, after, document=f"d{i // 2}")
        ]
        return [*rows, *both]

    sound = beside(texts(120, lambda _: True), ONE)
    broken = beside(texts(120, lambda i: i % 20 > 0), NONE)
    found = on(sound, broken, margin=0.2)
    assert (found.verdict, found.fails) == ("worse", True)
    assert "Noise outside entities takes more than the attack in B." in found.sentence
    assert on(broken, sound, margin=0.2).verdict == "better"
    assert on(broken, broken, margin=0.2).verdict == "undecided"
    # Clean answers are not what noise takes.
    clean = on(broken, broken, margin=0.2, metric="f1")
    assert clean.verdict == "equivalent within the margin"
    unhurt = beside(texts(120, lambda i: i % 20 > 0), ONE)
    assert on(sound, unhurt, margin=0.2).verdict == "worse by less than the margin"


def test_documents_that_one_run_knows_are_the_units_of_both():
    """Of 40 documents B loses four."""

    def of_three(keeps: Callable[[int], bool], known: bool) -> list[Trial]:
        rows = texts(120, keeps)
        return [
            replace(one, cluster=f"d{i // 3}" if known else one.item.id)
            for i, one in enumerate(rows)
        ]

    a, b = (lambda _: True), (lambda i: i >= 12)
    both = on(of_three(a, True), of_three(b, True)).deciding[0]
    assert on(of_three(a, False), of_three(b, False)).deciding[0].difference != both.difference
    for known in (True, False):
        row = on(of_three(a, known), of_three(b, not known)).deciding[0]
        assert row.difference.low == pytest.approx(both.difference.low, abs=0.02)
        assert "40 documents" in row.difference.method


def test_pairs_of_entities_are_of_texts():
    """Two entities in each of 60 texts."""
    two = "B-Drug O B-Drug"
    rows = [one for i in range(60) for one in tagged(i, arm(COPY), two, two, two)]
    assert "; 120 pairs of 60 texts)" in on(rows, rows, metric="asr").sentence


def test_few_documents_decide_nothing():
    found = on(texts(58, lambda _: True), texts(58, lambda i: i > 40))
    assert (found.verdict, found.deciding[0].difference.low) == ("undecided", None)
    assert "too few documents for an interval: 29, and 30 needed" in found.sentence


def test_a_search_has_no_perturbed_copy_so_what_it_takes_decides():
    searched = replace(COPY, whole_copy=False)
    found = on(texts(80, lambda _: True, searched), texts(80, lambda i: i > 40, searched))
    assert (found.metric, found.verdict) == ("asr", "worse")
    assert {row.metric for row in found.rows} == {"f1", "asr"}


def pairs(n: int, noise: float, seed: int) -> list[Trial]:
    """Pairs whose score the model gives as it is clean, and with noise under attack."""
    gold, errors = np.linspace(0, 4, n), np.random.default_rng(seed).normal(0, noise, n)
    scores = [(float(score), float(error)) for score, error in zip(gold, errors, strict=True)]
    return [
        paired(i, arm(MEASURED), score, score, score + error)
        for i, (score, error) in enumerate(scores)
    ]


def test_a_scorer_whose_correlation_falls_further_is_worse():
    found = on(pairs(60, 0.3, 1), pairs(60, 3.0, 2))
    assert (found.metric, found.verdict, found.fails) == ("pearson_after", "worse", True)
    assert found.sentence.startswith("B is worse than A under swap: Pearson after is ")
    other = on(pairs(60, 0.3, 1), pairs(60, 3.0, 2), metric="spearman_after")
    assert (other.metric, other.verdict) == ("spearman_after", "worse")


def test_equal_scorers_and_few_pairs_are_undecided():
    assert on(pairs(60, 0.5, 1), pairs(60, 0.5, 2)).verdict == "undecided"
    few = on(pairs(39, 0.1, 1), pairs(39, 5.0, 2))
    assert (few.verdict, few.deciding[0].difference.low) == ("undecided", None)


def test_scores_that_become_constant_are_worse_than_a_correlation():
    def flat(n: int, clean: float | None = None) -> list[Trial]:
        gold = np.linspace(0, 4, n).tolist()
        return [
            paired(i, arm(MEASURED), score, score if clean is None else clean, 2.0)
            for i, score in enumerate(gold)
        ]

    found = on(pairs(60, 0.3, 1), flat(60))
    (row,) = found.deciding
    assert (row.verdict, found.fails, row.value_b.value) == ("worse", True, None)
    assert row.value_a.value > 0.9
    why = "undefined in B: the model gives every pair the same score, so p tests A against 0, p <"
    assert why in found.sentence
    assert why.startswith(found.tables()[0].rows[0][-1].lines[0])
    # Perfect scores agree in every resample.
    assert on(pairs(60, 0.0, 1), flat(60)).verdict == "worse"
    assert on(pairs(60, 0.3, 1), flat(60, 2.0), metric="pearson").verdict == "worse"
    turned = on(flat(60), pairs(60, 0.3, 1))
    assert (turned.verdict, turned.deciding[0].value_b.value > 0.9) == ("undecided", True)
    assert "undefined in A: the model gives every pair the same score" in turned.sentence
    for none in (
        on(pairs(60, 0.3, 1), flat(60), metric="pearson_drop"),
        on(pairs(60, 300.0, 1), flat(60)),
        on(pairs(39, 0.3, 1), flat(39)),
        on(flat(60), flat(60)),
    ):
        assert (none.verdict, none.deciding[0].value_b.value) == ("undecided", None)
