"""Success by the size of an edit: words replaced and inserted, and edit distance."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from medstress.metrics.arms import Place, place_fields
from medstress.metrics.old_stats.shares import share

CHARACTERS = (0, 5, 10, 15, 20, 30)
"""Lower ends of the classes of edit distance in characters; the last is open."""
MOST_WORDS = 6
"""Largest number of words with a cell of its own; the cell of 6 has 6 or more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstQuery:
    """The first candidate that an attack put to the victim on one eligible item."""

    place: Place
    """Data set, group, victim."""
    attack: str
    """Label of the attack."""
    item_id: str
    """The item."""
    words_replaced: int
    """White-space words of the replaced span."""
    words_inserted: int
    """White-space words of the replacement."""
    edit_characters: int
    """Levenshtein distance of the two in characters."""
    edit_tokens: int
    """The same over white-space words."""
    success: bool
    """True if the victim erred on it."""


def word_rows(queries: Iterable[FirstQuery]) -> list[dict[str, Any]]:
    """Return rows of `analysis.words`: ASR(1) by words replaced x words inserted.

    Only first queries count: later ones are asked only if the earlier failed, so their success
    rates are about ever harder items.
    """
    return [
        {**head, "words_replaced": cell[0], "words_inserted": cell[1], **found}
        for head, cell, found in _cells(
            queries,
            lambda q: (min(q.words_replaced, MOST_WORDS), min(q.words_inserted, MOST_WORDS)),
        )
    ]


def distance_rows(queries: Iterable[FirstQuery]) -> list[dict[str, Any]]:
    """Return rows of `analysis.edit_distance`: ASR(1) by edit distance in characters and words.

    `from` and `to` are the least and the largest distance of a class; `to` is None if it is open.
    """
    queries = list(queries)
    rows = []
    for unit, classify in (
        ("characters", lambda q: max(low for low in CHARACTERS if low <= q.edit_characters)),
        ("tokens", lambda q: min(q.edit_tokens, MOST_WORDS)),
    ):
        for head, low, found in _cells(queries, classify):
            rows.append({**head, "unit": unit, "from": low, "to": _end(unit, low), **found})
    return rows


def _end(unit: str, low: int) -> int | None:
    if unit == "tokens":
        return low if low < MOST_WORDS else None
    above = [start for start in CHARACTERS if start > low]
    return above[0] - 1 if above else None


def _cells(
    queries: Iterable[FirstQuery], classify: Callable[[FirstQuery], Any]
) -> list[tuple[dict[str, str], Any, dict[str, Any]]]:
    """Return ASR(1) of every attack and class, in order."""
    cells: dict[tuple[Place, str, Any], dict[str, list[int]]] = defaultdict(
        lambda: defaultdict(lambda: [0, 0])
    )
    for query in queries:
        tally = cells[query.place, query.attack, classify(query)][query.item_id]
        tally[0] += query.success
        tally[1] += 1
    rows = []
    for (place, attack, cell), by_item in sorted(cells.items()):
        tallies = [by_item[item] for item in sorted(by_item)]
        estimate = share([k for k, _ in tallies], [n for _, n in tallies])
        head = {**place_fields(place), "attack": attack}
        rows.append((head, cell, {"n_items": len(tallies), "asr_at_1": estimate.as_json()}))
    return rows
