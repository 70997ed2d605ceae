"""Entities that match: against the CoNLL definition, nervaluate and seqeval."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nervaluate.evaluator import Evaluator
from seqeval.metrics import f1_score, precision_score, recall_score
from seqeval.scheme import IOB2

from medstress.analyses.scores import Sample
from medstress.core.text import Edit
from medstress.stats.permutation import swap_p
from medstress.tasks.scores import ENTITIES, counts
from samples import of_counts, sentence

MEASURES = ("precision", "recall", "f1")

TYPES = ("A", "B", "C")
ANY = st.lists(
    st.tuples(*[st.sampled_from(["O", *(f"{p}-{t}" for t in TYPES for p in "BI")])] * 2),
    min_size=1,
    max_size=10,
)
"""(gold, marked) of each token of a sentence, well-formed or not."""


def well_formed(labels: list[str]) -> list[str]:
    kept: list[str] = []
    for label in labels:
        follows = label[0] != "I" or (kept and kept[-1][2:] == label[2:])
        kept.append(label if follows else "O")
    return kept


def sample(sentences: list[tuple[list[str], list[str]]]) -> Sample:
    responses = [sentence(i, gold, marks) for i, (gold, marks) in enumerate(sentences)]
    return Sample(ENTITIES, responses, ["d"])


def counted(of: Sample, match: str) -> list[int]:
    """Matches, marked and gold entities."""
    n = [of.counted[f"{measure}{match}"] for measure in ("precision", "recall")]
    return [round((of.value(f"recall{match}") or 0) * n[1]), *n]


def sides(sentences: list[list[tuple[str, str]]]) -> list[tuple[list[str], list[str]]]:
    return [
        (well_formed([gold for gold, _ in one]), [mark for _, mark in one]) for one in sentences
    ]


@given(st.lists(ANY, min_size=1, max_size=4))
def test_f1_is_seqeval_s_in_its_default_mode_and_in_its_strict_one(sentences):
    both = sides(sentences)
    gold, marks = [one for one, _ in both], [one for _, one in both]
    ours = sample(both)
    seqeval = dict(zip(MEASURES, (precision_score, recall_score, f1_score), strict=True))
    for match, mode in (("", {}), ("_seqeval_strict", {"mode": "strict", "scheme": IOB2})):
        for measure, score in seqeval.items():
            expected = score(gold, marks, zero_division=0, **mode)
            assert (ours.value(f"{measure}{match}") or 0) == pytest.approx(expected)


@given(st.lists(ANY, min_size=1, max_size=4))
def test_matches_are_nervaluate_s(sentences):
    both = sides(sentences)
    gold, marks = [one for one, _ in both], [one for _, one in both]
    theirs = Evaluator(gold, marks, tags=list(TYPES), loader="list").evaluate()["overall"]
    for match, schema in (("", "strict"), ("_relaxed", "ent_type")):
        of = theirs[schema]
        assert counted(sample(both), match) == [of.correct, of.actual, of.possible]


@pytest.mark.parametrize(
    ("gold", "marks", "n"),
    [
        # A mark of another type uses up the entity, so the right one comes too late.
        ("B-A I-A", "B-B B-A", 0),
        ("B-A I-A", "B-A B-B", 1),
        # Of two entities of its type a mark takes the one whose borders are nearer.
        ("B-A B-A I-A", "B-A I-A I-A", 1),
        ("B-A I-A B-B", "B-B I-B B-B", 1),
        ("B-A O B-A", "B-A I-A I-A", 1),
    ],
)
def test_relaxed_matches_of_several_types(gold, marks, n):
    assert counted(sample([(gold.split(), marks.split())]), "_relaxed")[0] == n


@given(ANY)
def test_relaxed_matches_are_never_fewer_than_strict_ones(tokens):
    gold, marks = (" ".join(token[side] for token in tokens) for side in (0, 1))
    strict, n_marked, n_gold, relaxed, *others = counts(gold, marks)
    assert strict <= relaxed <= min(n_marked, n_gold)
    assert others[:2] == [n_marked, n_gold]


def test_gold_entities_of_a_perturbed_copy_are_those_of_its_tokens():
    clean = sentence(1, ["O", "B-Drug"], ["O", "B-Drug", "I-Drug"])
    longer = Edit(field="tokens", start=1, end=2, replacement="acetylsalicylic acid")
    assert counted(Sample(ENTITIES, [clean._replace(edits=(longer,))], ["d"]), "") == [1, 1, 1]


def test_scores_are_sums_over_all_entities():
    made = sample(
        [
            (["B-A", "I-A", "O", "B-B"], ["B-A", "I-A", "O", "B-B"]),
            (["B-A", "O", "O"], ["B-A", "I-A", "O"]),
            (["O", "O", "O"], ["B-A", "O", "O"]),
            (["B-B", "O", "B-A"], ["O", "O", "B-A"]),
        ]
    )
    measured = [(made.value(name), made.counted[name]) for name in MEASURES]
    assert measured == [(3 / 5, 5), (3 / 5, 5), (6 / 10, 10)]
    assert made.value("f1_relaxed") == 8 / 10


def test_resamples_have_about_the_width_of_theory():
    rng = np.random.default_rng(1)
    hits, one = rng.random(800) < 0.7, np.ones(800)
    draws = of_counts(zip(hits, hits, one, strict=True)).draws
    # One entity a cluster and no false alarm: recall is a plain share r of known standard error,
    # and F1 = 2 r / (1 + r), whose slope in r is 2 / (1 + r)^2.
    r = float(hits.mean())
    error = np.sqrt(r * (1 - r) / 800)
    assert draws["recall"].std() == pytest.approx(error, rel=0.08)
    assert draws["f1"].std() == pytest.approx(error * 2 / (1 + r) ** 2, rel=0.08)


def test_the_randomisation_test_keeps_its_level():
    rng = np.random.default_rng(3)
    low = 0
    for _ in range(60):
        gold = rng.integers(1, 4, size=25)
        one, other = (
            of_counts(zip(rng.binomial(gold, 0.6), gold, gold, strict=True)) for _ in range(2)
        )
        fall = (one.value("f1") or 0) - (other.value("f1") or 0)
        p = swap_p(fall, lambda s, a=one, b=other: a.swapped(b, s)["f1"], 25, ENTITIES.seed)
        low += p <= 0.1
    assert low <= 14  # 6 expected; P(more than 14) is below 0.001


def test_no_clusters_have_no_score():
    empty = Sample(ENTITIES, [], [])
    assert (empty.value("f1"), empty.counted["f1"], empty.n_clusters) == (None, 0, 0)
