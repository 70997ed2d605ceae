"""Planted controls: cases whose right judgement is known, to measure the raters themselves."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from medstress.core.errors import UsageError
from medstress.core.hashing import digest
from medstress.kinds import kind_of
from medstress.results.load import StoredRun
from medstress.review.blinding import code
from medstress.review.shown import Shown, shown
from medstress.store.reviews import SECOND_ANSWER, UNCHANGED, WRONG_KEY

SHARE, LEAST = 0.1, 2
"""Controls of each sort by default: so many per case, and at least so many."""


def default_number(n_cases: int) -> int:
    """Return how many controls of each sort go with so many cases.

    >>> default_number(5), default_number(50)
    (2, 5)
    """
    return max(LEAST, math.ceil(SHARE * n_cases))


def plant(
    run: StoredRun,
    key: bytes,
    n: int,
    seed: int,
    drawn: Collection[tuple[str, str]],
    classes: tuple[str, ...],
    hidden: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """Choose controls: n unchanged items, and n whose key is wrong or has a second right answer.

    Items that no case is about come first, because a rater who has seen the clean item knows what
    was changed.

    Args:
        run: where the items come from.
        key: secret of the codes.
        n: of each of the two sorts; fewer if there are not enough items.
        seed: of the sample.
        drawn: (data set, item) of its cases.
        classes: see `medstress.review.shown.shown`.
        hidden: what no case of the sample shows, so that controls do not stand out.

    Raises:
        UsageError: n is negative.
    """
    if n < 0:
        raise UsageError(f"--controls {n}: expected a number, at least 0")
    items = sorted(
        run.items().values(),
        key=lambda each: ((each[0], each[1].id) in drawn, digest([seed, each[0], each[1].id])),
    )
    # Sorts take turns, so that few items still give both.
    found: list[dict[str, Any]] = []
    for place, (dataset, unit, case) in enumerate(_units(items, classes)):
        if place == 2 * n:
            break
        sort = UNCHANGED if place % 2 == 0 else _spoilt(case, place // 2)
        wrong = [letter for letter in case.letters if letter != case.key]
        chosen = int.from_bytes(digest([seed, dataset, unit.id, sort])[:4], "big") % len(wrong)
        found.append(
            {
                "id": code(key, "control", sort, dataset, unit.id, unit.unit, seed),
                "trials": [],
                "dataset": dataset,
                "item": unit.id,
                "unit": unit.unit,
                "edits": [],
                "hidden": list(hidden),
                "control": sort,
                "control_of": f"{dataset}/{unit.id}",
                "at": wrong[chosen],
            }
        )
    return found


def _units(
    items: list[tuple[str, Any]], classes: tuple[str, ...]
) -> Iterator[tuple[str, Any, Shown]]:
    for dataset, item in items:
        unit: Any = kind_of(item).units(item)[0]
        case = shown(unit, (), classes)
        if case is not None and len(case.options) > 1:
            yield dataset, unit, case


def _spoilt(case: Shown, place: int) -> str:
    """Return which spoilt key comes next: a second right answer needs a question's own options."""
    is_question = len(case.options) > 2 and case.texts[-1][0] == "Question"
    return SECOND_ANSWER if is_question and place % 2 else WRONG_KEY
