"""Macro F1 of labelled pairs, by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from medstress.analyses.labels import LABELS, NAME
from medstress.analyses.results import scored
from medstress.analyses.scores import Response
from medstress.core.arms import Arm
from medstress.core.outcomes import Verdict
from medstress.core.trials import Answer, Trial
from medstress.kinds.nli.item import LabelledPair
from medstress.testing.planted_trials import SWAP, arm, planted_run

NAMES = ("no", "maybe", "yes")


def pair(number: int, label: str) -> LabelledPair:
    return LabelledPair(
        id=f"l{number}", text_a=f"text {number}", text_b="b", label=label, labels=NAMES
    )


def response(number: int, label: str, answer: str | None) -> Response:
    return Response(pair(number, label), f"c{number}", 0, Answer(answer))


def test_macro_f1_by_hand_where_unreadable_answers_are_wrong() -> None:
    answers = [("yes", "yes"), ("yes", "no"), ("no", "no"), ("no", None)]
    rows = [response(i, *one) for i, one in enumerate(answers)]
    sample = LABELS.sample(rows, [row.cluster for row in rows])
    # yes: 1 right, 1 predicted, 2 gold; no: 1, 2 and 2; maybe never occurs.
    assert sample.value(NAME) == pytest.approx((2 / 3 + 2 / 4) / 2)
    assert sample.n(NAME) == 4
    assert LABELS.sample([], []).value(NAME) is None


def test_a_model_that_says_no_to_every_perturbed_pair_falls() -> None:
    def trial(number: int, at: Arm) -> Trial:
        item = pair(number, NAMES[number % 3])
        return Trial(
            id=item.id,
            number=number,
            arm=at,
            item=item,
            cluster=item.id,
            repeat=0,
            verdict=Verdict.HELD,
            before=Answer(item.label),
            last=Answer("no"),
        )

    run = planted_run([trial(i, arm(SWAP)) for i in range(60)])
    of = scored(run, run.cells[0])
    assert of is not None
    # "no" is right 20 times of 60: F1 of one half, and 0 of both others.
    assert of.main.before.value == 1.0
    assert of.main.after.value == pytest.approx(1 / 6)
    assert not of.main.may_be_chance
    searched = planted_run([trial(i, arm(replace(SWAP, whole_copy=False))) for i in range(60)])
    of = scored(searched, searched.cells[0])
    assert of is not None
    assert (of.main.before.value, of.main.after.value) == (1.0, None)
