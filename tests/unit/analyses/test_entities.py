"""Entities that match: against the CoNLL definition, nervaluate and seqeval."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medstress.analyses.scores import Sample
from medstress.core.text import Edit
from medstress.tasks.scores import ENTITIES
from samples import sentence

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


@settings(max_examples=40)
@given(st.lists(ANY, min_size=1, max_size=4))
def test_f1_is_seqeval_s_in_its_default_mode_and_in_its_strict_one(sentences):
    from seqeval.metrics import f1_score, precision_score, recall_score  # with scikit-learn
    from seqeval.scheme import IOB2

    both = sides(sentences)
    gold, marks = [one for one, _ in both], [one for _, one in both]
    ours = sample(both)
    seqeval = dict(zip(MEASURES, (precision_score, recall_score, f1_score), strict=True))
    for match, mode in (("", {}), ("_seqeval_strict", {"mode": "strict", "scheme": IOB2})):
        for measure, score in seqeval.items():
            expected = score(gold, marks, zero_division=0, **mode)
            assert (ours.value(f"{measure}{match}") or 0) == pytest.approx(expected)


@settings(max_examples=40)
@given(st.lists(ANY, min_size=1, max_size=4))
def test_matches_are_nervaluate_s(sentences):
    from nervaluate.evaluator import Evaluator  # with pandas

    both = sides(sentences)
    gold, marks = [one for one, _ in both], [one for _, one in both]
    theirs = Evaluator(gold, marks, tags=list(TYPES), loader="list").evaluate()["overall"]
    for match, schema in (("", "strict"), ("_relaxed", "ent_type")):
        of = theirs[schema]
        assert counted(sample(both), match) == [of.correct, of.actual, of.possible]


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
