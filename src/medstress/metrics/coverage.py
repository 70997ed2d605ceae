"""How much of the perturbation set was tried, and success by distance if all of it was."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from medstress.metrics.arms import Place, place_fields
from medstress.metrics.item_means import item_mean
from medstress.metrics.old_stats.shares import share

BINS = 20
"""Number of equally large classes of names, from the nearest to the farthest."""

Spans: TypeAlias = dict[tuple[str, "Span"], "Tried"]
"""What was tried, by item and span."""

MOST_ITEMS = 100
"""How many items of a sweep are listed one by one; all count in the shares."""


Span: TypeAlias = tuple[str, int, int]
"""(field, start, end) of the text that a name replaces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """The distinct names that an attack put in one place of one item."""

    place: Place
    """Data set, group, victim."""
    attack: str
    """Label of the attack."""
    item_id: str
    """The item."""
    span: Span
    """The text they replaced."""
    names: Set[str]
    """The names, case ignored."""
    n_allowed: int
    """Number of names allowed there; the whole vocabulary if that is unknown."""
    exact: bool
    """True if the number of allowed names is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """The answers to one item with every name of the vocabulary, nearest first."""

    place: Place
    """Data set, group, victim."""
    attack: str
    """Label of the attack."""
    item_id: str
    """The item."""
    wrong: tuple[bool, ...]
    """Whether the victim erred, in the order of distance."""
    distances: tuple[float, ...]
    """Distance h at the BINS + 1 ends of the classes; empty if not stored."""


def coverage_rows(tried: Iterable[Tried], vocabularies: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return rows of `analysis.coverage`: one per attack, and one per place with `attack` None.

    Names count once per span, tried and allowed alike: two spans of an item with 40 allowed names
    each make 80 to try.

    Args:
        tried: one or more for each attack, item and span with at least one query.
        vocabularies: number of names by group.
    """
    arms: dict[tuple[Place, str], Spans] = defaultdict(dict)
    together: dict[Place, Spans] = defaultdict(dict)
    for one in tried:
        for spans in (arms[one.place, one.attack], together[one.place]):
            where = one.item_id, one.span
            spans[where] = _union(spans.get(where), one)
    rows = [
        _coverage(place, attack, spans, vocabularies)
        for (place, attack), spans in sorted(arms.items())
    ]
    return rows + [
        _coverage(place, None, spans, vocabularies) for place, spans in sorted(together.items())
    ]


def sweep_rows(swept: Iterable[Swept]) -> list[dict[str, Any]]:
    """Return rows of `analysis.sweeps`: success by distance, for `exhaustive` attacks.

    The names of an item, nearest first, form 20 classes of equal size; `from` and `to` are shares
    of that order, `distance` the mean h at the ends of the class over items. `items` lists the
    first `MOST_ITEMS` items one by one; a class without names is None there.
    """
    arms: dict[tuple[Place, str], list[Swept]] = defaultdict(list)
    for one in swept:
        arms[one.place, one.attack].append(one)
    rows = []
    for (place, attack), found in sorted(arms.items()):
        # Sorted, so that sums of an extended run equal those of a fresh one.
        items = sorted(found, key=lambda one: one.item_id)
        cells = [np.array_split(np.array(one.wrong, dtype=float), BINS) for one in items]
        kept = [one.distances for one in items if len(one.distances) == BINS + 1]
        ends = np.mean(kept, axis=0).tolist() if kept else None
        classes = []
        for i in range(BINS):
            success = share([c[i].sum() for c in cells], [c[i].size for c in cells])
            where = {"from": i / BINS, "to": (i + 1) / BINS}
            distance = None if ends is None else ends[i : i + 2]
            classes.append({**where, "distance": distance, "success": success.as_json()})
        head = {**place_fields(place), "attack": attack}
        n_asked = sum(len(one.wrong) for one in items)
        n_wrong = sum(sum(one.wrong) for one in items)
        counts = {"n_items": len(items), "n_asked": n_asked, "n_wrong": n_wrong}
        listed = [_item(*pair) for pair in list(zip(items, cells, strict=True))[:MOST_ITEMS]]
        rows.append({**head, **counts, "classes": classes, "items": listed})
    return rows


def _item(one: Swept, cells: Sequence[NDArray[np.float64]]) -> dict[str, Any]:
    distances = list(one.distances) if len(one.distances) == BINS + 1 else None
    success = [float(cell.mean()) if cell.size else None for cell in cells]
    return {"item_id": one.item_id, "distances": distances, "success": success}


def _union(known: Tried | None, one: Tried) -> Tried:
    if known is None:
        return one
    return Tried(
        place=one.place,
        attack=one.attack,
        item_id=one.item_id,
        span=one.span,
        names=known.names | one.names,
        n_allowed=max(known.n_allowed, one.n_allowed),
        exact=known.exact and one.exact,
    )


def _coverage(
    place: Place, attack: str | None, spans: Spans, vocabularies: Mapping[str, int]
) -> dict[str, Any]:
    # An attack without a vocabulary may insert any text, so there is no share of a vocabulary.
    n_names = vocabularies.get(place[1])
    seen = set[str]().union(*(one.names for one in spans.values()))
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for (item, _), one in spans.items():
        sums[item][0] += len(one.names)
        sums[item][1] += one.n_allowed
    n_tried, n_allowed = (sum(pair[i] for pair in sums.values()) for i in (0, 1))
    exact = all(one.exact for one in spans.values())
    tried = item_mean([n / of if of else 0.0 for n, of in sums.values()], 0.0)
    of = "allowed names" if exact else "names of the vocabulary (exclusions not known)"
    where = "" if len(spans) == len(sums) else ", all its spans together"
    return {
        **place_fields(place),
        "attack": attack,
        "n_items": len(sums),
        "n_tried": n_tried,
        "n_distinct": len(seen),
        "n_names": n_names,
        "share_of_set": tried.as_json(),
        "share_of_vocabulary": len(seen) / n_names if n_names else None,
        "statement": (
            "every allowed name was tried on every item"
            if exact and 0 < n_allowed <= n_tried
            else f"{n_tried / len(sums):.4g} of {n_allowed / len(sums):.6g} {of} tried an item"
            f"{where} ({tried.value or 0:.2%}); what was not tried may succeed"
        ),
    }
