"""Answers to all variants of an item: how often they are right, and how often they agree."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.metrics.counts import is_answered, unit_of
from medstress.metrics.old_stats.paired import unite
from medstress.metrics.old_stats.shares import Unit, rate
from medstress.metrics.pairs import pair_trials

_UNFINISHED = (Verdict.FAILED, Verdict.CUT_SHORT)

Answer: TypeAlias = tuple[Unit, str | None, str | None, str]
"""Unit, answer to a variant, answer to the clean item, key; None is unreadable."""


def variant_fields(trials: Sequence[TrialRow]) -> dict[str, Any]:
    """Return the field `variants` of a row; empty unless the attack asks variants of all items.

    Counted are trials whose clean item was answered, rightly or not, and whose variants all were.
    An unreadable answer is neither right nor like another.

    Returns:
        `n_trials`, `n_answers` and `n_unreadable` (of these); over the answers to variants
        `accuracy`, `change` (accuracy minus that of the clean item, paired), `right_to_wrong` and
        `wrong_to_right` (of right and of wrong or unreadable clean answers); over the trials
        `accuracy_all` (right on the clean item and on all variants) and `consistency` (all answers
        are the clean one). Of an attack whose variants have names also `by_variant`: name -> the
        rates over its answers.

    References:
        Cocchieri et al., "ReMedQA", EACL 2026: ReAcc and ReCon.
    """
    asked = [row for row in trials if _is_asked(row)]
    if not any(row.variant_answers for row in trials):
        return {}
    answers = [answer for row in asked for answer in _answers(row)]
    named = _by_variant(asked)
    return {
        "variants": {
            "n_trials": len(asked),
            "n_answers": len(answers),
            "n_unreadable": sum(each[1] is None for each in answers),
            **_rates(answers),
            "accuracy_all": _of_trials(asked, _is_all_right),
            "consistency": _of_trials(asked, is_consistent),
            **({"by_variant": named} if named else {}),
        }
    }


def consistency_net(
    attack: Sequence[TrialRow], controls: Mapping[str, Sequence[TrialRow]]
) -> dict[str, Any]:
    """Return, by control, consistency minus the control's on the trials of both, paired."""
    return {
        name: unite(pair_trials(attack, rows, is_consistent, met=_is_asked)).estimate.as_json()
        for name, rows in controls.items()
    }


def is_consistent(row: TrialRow) -> bool:
    """Return whether every variant was answered readably and as the clean item was."""
    return all(answer is not None and answer == clean for _, answer, clean, _ in _answers(row))


def _is_all_right(row: TrialRow) -> bool:
    return all(answer == key == clean for _, answer, clean, key in _answers(row))


def _is_asked(row: TrialRow) -> bool:
    return is_answered(row) and row.verdict not in _UNFINISHED and row.variant_answers is not None


def _answers(row: TrialRow) -> list[Answer]:
    found = json.loads(row.variant_answers or "[]")
    return [(unit_of(row), answer, row.answer_before, row.key) for answer in found]


def _rates(answers: Sequence[Answer]) -> dict[str, Any]:
    def share(
        holds: Callable[[str | None, str | None, str], bool], among: Iterable[Answer]
    ) -> dict[str, Any]:
        return rate(
            (unit, holds(answer, clean, key)) for unit, answer, clean, key in among
        ).as_json()

    right = [each for each in answers if each[2] == each[3]]
    wrong = [each for each in answers if each[2] != each[3]]
    pairs = [(unit, answer == key, clean == key) for unit, answer, clean, key in answers]
    return {
        "accuracy": share(lambda answer, _, key: answer == key, answers),
        "change": unite(pairs).estimate.as_json(),
        "right_to_wrong": share(lambda answer, _, key: answer not in (None, key), right),
        "wrong_to_right": share(lambda answer, _, key: answer == key, wrong),
    }


def _of_trials(asked: Sequence[TrialRow], holds: Callable[[TrialRow], bool]) -> dict[str, Any]:
    return rate((unit_of(row), holds(row)) for row in asked).as_json()


def _by_variant(asked: Sequence[TrialRow]) -> dict[str, Any]:
    """Return name -> rates, if the variants of every trial are the ones that the attack names."""
    names = json.loads(asked[0].attack_spec).get("variants", ()) if asked else ()
    listed = [_answers(row) for row in asked]
    if not names or any(len(found) != len(names) for found in listed):
        return {}
    return {name: _rates([found[i] for found in listed]) for i, name in enumerate(names)}
