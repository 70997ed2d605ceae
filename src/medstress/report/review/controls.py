"""Planted controls: cases whose right judgement is known, to measure the raters themselves.

A second right answer is another name of the right one, never the same text twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from medstress.analyses.run import Run
from medstress.core.errors import UsageError
from medstress.core.hashing import digest
from medstress.entities.names import normalise
from medstress.entities.synonyms import SynonymGroups, load_synonyms
from medstress.report.review.sample import code
from medstress.report.review.shown import Shown, shown
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
    run: Run,
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
        classes: see `medstress.report.review.shown.shown`.
        hidden: what no case of the sample shows, so that controls do not stand out.

    Raises:
        UsageError: n is negative.
    """
    if n < 0:
        raise UsageError(f"--controls {n}: expected a number, at least 0")
    items = sorted(
        run.folder.items.items(),
        key=lambda each: (each[0] in drawn, digest([seed, *each[0]])),
    )
    units = list(_units(items, classes, hidden))
    name = namer(run, {case.options[case.letters.index(case.key)] for _, _, case in units})
    found = []
    for sort, (dataset, unit, case), other in _sorts(units, n, seed, name):
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
                "name": other,
            }
        )
    return found


_Unit: TypeAlias = tuple[str, Any, Shown]


def _sorts(
    units: list[_Unit], n: int, seed: int, name: Namer
) -> Iterator[tuple[str, _Unit, str | None]]:
    """Yield (sort, unit, name of the second answer): each unit once.

    Half of the spoilt keys have a second right answer, if lists have other names of so many.
    """
    second: dict[int, str] = {}
    for at, (_, _, case) in enumerate(units):
        if len(second) == n // 2:
            break
        # The items that come first are needed for the other sorts if there are few.
        if _is_question(case) and len(units) - len(second) > n and (other := name(case, seed)):
            second[at] = other
    for at, other in second.items():
        yield SECOND_ANSWER, units[at], other
    left = [unit for at, unit in enumerate(units) if at not in second]
    # Sorts take turns, so that few items still give both.
    n_wrong = n - len(second)
    turns = [
        sort
        for at in range(n)
        for sort in (UNCHANGED, WRONG_KEY)
        if sort == UNCHANGED or at < n_wrong
    ]
    for sort, unit in zip(turns, left, strict=False):
        yield sort, unit, None


def _units(
    items: Sequence[tuple[tuple[str, str], Any]], classes: tuple[str, ...], hidden: Sequence[str]
) -> Iterator[_Unit]:
    for (dataset, _), item in items:
        unit: Any = item.units()[0]
        case = shown(unit, (), classes, hidden=hidden)
        if case is not None and len(case.options) > 1:
            yield dataset, unit, case


def _is_question(case: Shown) -> bool:
    """Return whether a case has options of its own: others are the labels of the whole data set."""
    return len(case.options) > 2 and case.texts[-1][0] == "Question"


Namer = Callable[[Shown, int], str | None]
"""(case, seed) -> another name of its right answer; None if no list has one."""


def namer(run: Run, keys: Collection[str]) -> Namer:
    """Return what finds other names, in the lists of synonyms of a run's groups.

    The shipped list stands in for one that is no longer there, and for none.

    Args:
        run: the run.
        keys: the right answers that names are looked for.
    """
    base = Path(run.manifest["base"])
    tables = run.manifest["config"].get("entities") or ()
    sources = dict.fromkeys((*(table.get("synonyms", "default") for table in tables), "default"))
    lists = [found for each in sources if (found := _loaded(each, base, keys)) is not None]

    def name(case: Shown, seed: int) -> str | None:
        taken = {normalise(option) for option in case.options}
        key = case.options[case.letters.index(case.key)]
        found = {each for one in lists for each in one.synonyms_of(key)} - taken
        if not found:
            return None
        chosen = min(found, key=lambda each: digest([seed, each]))
        # Lists hold names in small letters, and another look would give the option away.
        return chosen[:1].upper() + chosen[1:] if key[:1].isupper() else chosen

    return name


def _loaded(source: str, base: Path, keys: Collection[str]) -> SynonymGroups | None:
    try:
        return load_synonyms(source, base, keys)
    except UsageError:
        return None
