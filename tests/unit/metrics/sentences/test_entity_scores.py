"""Entity scores against the CoNLL definition, correlations against scipy, intervals and tests."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nervaluate.evaluator import Evaluator
from scipy.stats import pearsonr, spearmanr
from seqeval.metrics import f1_score, precision_score, recall_score
from seqeval.scheme import IOB2

from medstress.core.sentences import Entity
from medstress.metrics.sentences.correlations import change, correlation, permutation_p
from medstress.metrics.sentences.entity_scores import (
    Reading,
    difference,
    matches,
    measures,
    randomisation_p,
    sums_of,
    types_in,
)
from medstress.tasks.entity_tagging import begun_entities, marked_entities

LABELS = st.lists(st.sampled_from(["O", "B-A", "I-A", "B-B", "I-B"]), min_size=1, max_size=12)


def conll(gold: list[str], found: list[str]) -> tuple[int, int, int]:
    """CoNLL-2003, from its words: a chunk is right if it is exactly one of the key's chunks."""

    def chunks(labels: list[str]) -> set[tuple[str, int, int]]:
        ends = [*labels, "O"]
        starts = [
            i
            for i, label in enumerate(labels)
            if label != "O" and (label[0] == "B" or i == 0 or labels[i - 1][2:] != label[2:])
        ]
        spans = set()
        for start in starts:
            end = start + 1
            while ends[end] == f"I-{labels[start][2:]}":
                end += 1
            spans.add((labels[start][2:], start, end))
        return spans

    key, response = chunks(gold), chunks(found)
    return len(key & response), len(response), len(key)


@given(st.lists(st.tuples(LABELS, LABELS), min_size=1, max_size=6))
def test_strict_counts_are_those_of_the_conll_definition(
    sentences: list[tuple[list[str], list[str]]],
) -> None:
    for gold, found in sentences:
        size = min(len(gold), len(found))
        gold, found = gold[:size], found[:size]
        counted = matches(marked_entities(gold), marked_entities(found), "strict")
        assert counted == conll(gold, found)


THREE = ("A", "B", "C")
ANY = st.lists(
    st.tuples(*[st.sampled_from(["O", *(f"{p}-{t}" for t in THREE for p in "BI")])] * 2),
    min_size=1,
    max_size=10,
)
"""(gold, found) of each token of a sentence, well-formed or not."""


def read_as(tokens: list[tuple[str, str]]) -> Reading:
    gold, found = ([pair[side] for pair in tokens] for side in (0, 1))
    return Reading(
        cluster="1",
        gold=marked_entities(gold),
        found=marked_entities(found),
        begun=begun_entities(found),
    )


@given(st.lists(ANY, min_size=1, max_size=4))
def test_counts_of_several_types_are_nervaluate_s_of_the_whole_data_set(
    sentences: list[list[tuple[str, str]]],
) -> None:
    gold, found = ([[pair[side] for pair in each] for each in sentences] for side in (0, 1))
    theirs = Evaluator(gold, found, tags=list(THREE), loader="list").evaluate()
    readings = [read_as(each) for each in sentences]
    for match, schema in (("strict", "strict"), ("relaxed", "ent_type")):
        of_all = theirs["overall"][schema]
        assert sums_of(readings, ["1"], match).tolist() == [
            [of_all.correct, of_all.actual, of_all.possible]
        ]
        ours = measures(sums_of(readings, ["1"], match))
        for measure in ("precision", "recall", "f1"):
            assert (ours[measure].value or 0) == pytest.approx(getattr(of_all, measure))
        for type_, schemas in theirs["entities"].items():
            of_one = schemas[schema]
            assert sums_of(readings, ["1"], match, type_).tolist() == [
                [of_one.correct, of_one.actual, of_one.possible]
            ]


@pytest.mark.parametrize(
    ("gold", "found", "relaxed", "by_type"),
    [
        # A mark of another type uses up the entity, so the right one comes too late.
        ("B-A I-A", "B-B B-A", 0, {"A": 1, "B": 0}),
        ("B-A I-A", "B-A B-B", 1, {"A": 1, "B": 0}),
        # Of two entities of its type a mark takes the one whose borders are nearer.
        ("B-A B-A I-A", "B-A I-A I-A", 1, {"A": 1}),
        ("B-A I-A B-B", "B-B I-B B-B", 1, {"A": 0, "B": 1}),
        ("B-A O B-A", "B-A I-A I-A", 1, {"A": 1}),
    ],
)
def test_relaxed_matches_of_several_types_are_those_of_the_hand_made_table(
    gold: str, found: str, relaxed: int, by_type: dict[str, int]
) -> None:
    one = [reading("1", gold, found)]
    assert sums_of(one, ["1"], "relaxed")[0, 0] == relaxed
    assert {t: sums_of(one, ["1"], "relaxed", t)[0, 0] for t in by_type} == by_type


@given(st.lists(ANY, min_size=1, max_size=4))
def test_f1_is_seqeval_s_in_its_default_mode_and_in_its_strict_one(
    sentences: list[list[tuple[str, str]]],
) -> None:
    gold, found = ([[pair[side] for pair in each] for each in sentences] for side in (0, 1))
    # What is right is well-formed in every data set: the others' labels are read as O.
    gold = [well_formed(labels) for labels in gold]
    readings = [
        read_as(list(zip(labels, marks, strict=True)))
        for labels, marks in zip(gold, found, strict=True)
    ]
    theirs = (precision_score, recall_score, f1_score)
    for match, mode in (
        ("strict", {}),
        ("seqeval_strict", {"mode": "strict", "scheme": IOB2}),
    ):
        ours = measures(sums_of(readings, ["1"], match))
        for measure, score in zip(("precision", "recall", "f1"), theirs, strict=True):
            expected = score(gold, found, zero_division=0, **mode)
            assert (ours[measure].value or 0) == pytest.approx(expected)


def well_formed(labels: list[str]) -> list[str]:
    kept: list[str] = []
    for label in labels:
        follows = label[0] != "I" or (kept and kept[-1][2:] == label[2:])
        kept.append(label if follows else "O")
    return kept


def test_an_entity_without_a_beginning_counts_but_for_seqeval_s_strict_mode() -> None:
    found = ["I-A", "I-A", "O", "B-B", "I-B", "I-A"]
    one = Reading(
        cluster="1",
        gold=marked_entities(["B-A", "I-A", "O", "B-B", "I-B", "O"]),
        found=marked_entities(found),
        begun=begun_entities(found),
    )
    assert sums_of([one], ["1"]).tolist() == [[2, 3, 2]]
    assert sums_of([one], ["1"], "seqeval_strict").tolist() == [[1, 1, 2]]
    assert sums_of([one], ["1"], "seqeval_strict", "A").tolist() == [[0, 0, 1]]


@given(LABELS, LABELS)
def test_relaxed_matches_are_never_fewer_than_strict_ones(
    gold: list[str], found: list[str]
) -> None:
    size = min(len(gold), len(found))
    a, b = marked_entities(gold[:size]), marked_entities(found[:size])
    strict, relaxed = matches(a, b, "strict"), matches(a, b, "relaxed")
    assert strict[0] <= relaxed[0] <= min(len(a), len(b))
    assert strict[1:] == relaxed[1:]


def reading(cluster: str, gold: str, found: str) -> Reading:
    return Reading(
        cluster=cluster, gold=marked_entities(gold.split()), found=marked_entities(found.split())
    )


READINGS = [
    reading("1", "B-A I-A O B-B", "B-A I-A O B-B"),
    reading("1", "B-A O O", "B-A I-A O"),
    reading("2", "O O O", "B-A O O"),
    reading("3", "B-B O B-A", "O O B-A"),
]


def test_precision_recall_and_f1_are_sums_over_all_entities() -> None:
    clusters = ["1", "2", "3"]
    found = measures(sums_of(READINGS, clusters))
    assert [(found[name].value, found[name].n) for name in ("precision", "recall", "f1")] == [
        (3 / 5, 5),
        (3 / 5, 5),
        (6 / 10, 10),
    ]
    relaxed = measures(sums_of(READINGS, clusters, "relaxed"))
    assert relaxed["f1"].value == 8 / 10
    types = {each: measures(sums_of(READINGS, clusters, type_=each)) for each in types_in(READINGS)}
    assert list(types) == ["A", "B"]
    assert types["A"]["precision"].value == 2 / 4
    assert types["B"]["recall"].value == 1 / 2
    for estimate in (*found.values(), *relaxed.values()):
        assert estimate.low is not None
        assert estimate.high is not None
        assert estimate.low <= (estimate.value or 0) <= estimate.high


def test_nothing_to_divide_by_is_unknown_and_never_nan() -> None:
    nothing = measures(sums_of([reading("1", "O", "O")], ["1"]))
    assert [estimate.value for estimate in nothing.values()] == [None, None, None]
    assert measures(sums_of([], []))["f1"].value is None
    assert randomisation_p(np.zeros((2, 3)), np.zeros((2, 3))) is None


def test_the_bootstrap_interval_of_f1_has_about_the_width_of_theory() -> None:
    rng = np.random.default_rng(1)
    hits = rng.random(800) < 0.7
    one = Entity(start=0, end=1, type="A")
    readings = [
        Reading(cluster=str(i), gold=(one,), found=(one,) if hit else ())
        for i, hit in enumerate(hits)
    ]
    found = measures(sums_of(readings, [str(i) for i in range(800)]))
    # One entity a cluster, none found elsewhere: recall is a plain share r of known standard error,
    # and F1 = 2 r / (1 + r), whose slope in r is 2 / (1 + r)^2.
    r = float(hits.mean())
    error = np.sqrt(r * (1 - r) / 800)
    for name, value, width in (
        ("recall", r, error),
        ("f1", 2 * r / (1 + r), error * 2 / (1 + r) ** 2),
    ):
        assert found[name].value == pytest.approx(value)
        ends = (found[name].low, found[name].high)
        assert None not in ends
        # 2,000 resamples: the width has a standard error of about 2.2 %.
        assert ends[1] - ends[0] == pytest.approx(2 * 1.96 * width, rel=0.08)
        assert ends[0] < value < ends[1]


def test_a_drop_is_told_from_chance_only_where_there_is_one() -> None:
    rng = np.random.default_rng(2)
    gold = rng.integers(1, 4, size=60)

    def arm(share: float) -> np.ndarray:
        correct = rng.binomial(gold, share)
        return np.stack([correct, gold, gold], axis=1).astype(float)

    before, alike, worse = arm(0.8), arm(0.8), arm(0.5)
    real, none = difference(before, worse), difference(before, alike)
    assert real.low is not None
    assert real.low > 0
    assert none.low is not None
    assert none.high is not None
    assert none.low < 0 < none.high
    assert (randomisation_p(before, worse) or 1) < 0.01
    assert (randomisation_p(before, alike) or 0) > 0.05
    assert randomisation_p(before, before) == 1.0


def test_the_randomisation_test_keeps_its_level() -> None:
    rng = np.random.default_rng(3)
    low = 0
    for _ in range(60):
        gold = rng.integers(1, 4, size=25)
        one, other = (
            np.stack([rng.binomial(gold, 0.6), gold, gold], axis=1).astype(float) for _ in range(2)
        )
        low += (randomisation_p(one, other) or 1) <= 0.1
    assert low <= 14  # 6 expected; P(more than 14) is below 0.001


GOLD = np.array([0.0, 1.0, 1.5, 2.0, 3.0, 3.5, 4.0, 2.5])
SCORES = np.array(
    [[0.1, 0.3, 0.2, 0.6, 0.7, 0.6, 0.9, 0.5], [0.0, 0.2, 0.3, 0.5, 0.6, 0.9, 0.8, 0.1]]
)


def test_correlations_are_scipy_s_averaged_over_seeds() -> None:
    for name, theirs in (("pearson", pearsonr), ("spearman", spearmanr)):
        expected = np.mean([theirs(GOLD, row).statistic for row in SCORES])
        found = correlation(GOLD, SCORES, name)
        assert found.value == pytest.approx(expected)
        assert found.n == 8
        assert found.low is not None
        assert found.high is not None
        assert -1 <= found.low <= found.value <= found.high <= 1


def test_a_correlation_without_variation_or_pairs_is_unknown() -> None:
    assert correlation(GOLD, np.full((1, 8), 0.5), "pearson").value is None
    assert correlation(GOLD[:2], SCORES[:, :2], "pearson").value is None
    assert change(GOLD, SCORES, np.full((2, 8), 0.5), "spearman").value is None
    assert permutation_p(GOLD, SCORES, np.full((2, 8), 0.5), "pearson") is None


def test_a_fall_of_the_correlation_is_found_and_none_is_not() -> None:
    rng = np.random.default_rng(4)
    gold = rng.random(80)
    before = (gold + rng.normal(0, 0.1, 80))[None]
    alike = (gold + rng.normal(0, 0.1, 80))[None]
    noise = (gold + rng.normal(0, 0.8, 80))[None]
    fall = change(gold, before, noise, "pearson")
    assert fall.low is not None
    assert fall.low > 0
    assert (permutation_p(gold, before, noise, "pearson") or 1) < 0.01
    assert (permutation_p(gold, before, alike, "pearson") or 0) > 0.05
    assert permutation_p(gold, before, before, "spearman") == 1.0
