"""How much of the perturbation set was tried, and success by distance where all of it was."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medstress.metrics.arms import Place, place_fields
from medstress.metrics.resampling import clustered_wilson, ratio

BINS = 20
"""Classes of equally many names, from the nearest to the farthest."""

MOST_ITEMS = 100
"""Items of a sweep that are told one by one; all count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """The distinct names that an attack put to a victim on one item."""

    place: Place
    """Data set, group, victim."""
    attack: str
    """Label of the attack."""
    item_id: str
    """The item."""
    names: frozenset[str]
    """Case ignored."""
    n_allowed: int
    """Names that were allowed on this item; all of the vocabulary where that is not known."""
    exact: bool
    """Whether it is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """Every name of the vocabulary asked on one item, nearest first."""

    place: Place
    """Data set, group, victim."""
    attack: str
    """Label of the attack."""
    item_id: str
    """The item."""
    wrong: tuple[bool, ...]
    """Whether the victim erred, in the order of distance."""
    distances: tuple[float, ...]
    """h at the BINS + 1 ends of the classes; empty where not kept."""


def coverage_rows(tried: Iterable[Tried], vocabularies: Mapping[str, int]) -> list[dict[str, Any]]:
    """Rows of `analysis.coverage`: every attack, and `attack` null for all of a place together.

    Args:
        tried: one an attack and item with at least one query.
        vocabularies: number of names by group.
    """
    arms: dict[tuple[Place, str], dict[str, Tried]] = defaultdict(dict)
    for one in tried:
        arms[one.place, one.attack][one.item_id] = _union(
            arms[one.place, one.attack].get(one.item_id), one
        )
    together: dict[Place, dict[str, Tried]] = defaultdict(dict)
    for (place, _), items in arms.items():
        for item, one in items.items():
            together[place][item] = _union(together[place].get(item), one)
    rows = [
        _coverage(place, attack, list(items.values()), vocabularies)
        for (place, attack), items in sorted(arms.items())
    ]
    return rows + [
        _coverage(place, None, list(items.values()), vocabularies)
        for place, items in sorted(together.items())
    ]


def sweep_rows(swept: Iterable[Swept]) -> list[dict[str, Any]]:
    """Rows of `analysis.sweeps`: success by distance, for `exhaustive` attacks.

    The names of an item, nearest first, fall into 20 classes of equally many; `from` and `to`
    are shares of that order, `distance` the mean h at the ends of the class over items. `items`
    tells the first `MOST_ITEMS` items one by one; a class that has no name is null there.
    """
    arms: dict[tuple[Place, str], list[Swept]] = defaultdict(list)
    for one in swept:
        arms[one.place, one.attack].append(one)
    rows = []
    for (place, attack), items in sorted(arms.items()):
        cells = [np.array_split(np.array(one.wrong, dtype=float), BINS) for one in items]
        kept = [one.distances for one in items if len(one.distances) == BINS + 1]
        ends = np.mean(kept, axis=0).tolist() if kept else None
        classes = []
        for i in range(BINS):
            share = clustered_wilson([c[i].sum() for c in cells], [c[i].size for c in cells])
            where = {"from": i / BINS, "to": (i + 1) / BINS}
            distance = None if ends is None else ends[i : i + 2]
            classes.append({**where, "distance": distance, "success": share.as_json()})
        head = {**place_fields(place), "attack": attack}
        n_asked = sum(len(one.wrong) for one in items)
        n_wrong = sum(sum(one.wrong) for one in items)
        counts = {"n_items": len(items), "n_asked": n_asked, "n_wrong": n_wrong}
        told = sorted(zip(items, cells, strict=True), key=lambda pair: pair[0].item_id)
        each = [_item(one, shares) for one, shares in told[:MOST_ITEMS]]
        rows.append({**head, **counts, "classes": classes, "items": each})
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
        names=known.names | one.names,
        n_allowed=max(known.n_allowed, one.n_allowed),
        exact=known.exact and one.exact,
    )


def _coverage(
    place: Place, attack: str | None, items: Sequence[Tried], vocabularies: Mapping[str, int]
) -> dict[str, Any]:
    # An attack without a vocabulary of its own may put in any text: nothing to be a share of.
    n_names = vocabularies.get(place[1])
    seen = frozenset().union(*(one.names for one in items))
    ones = [1] * len(items)
    shares = [min(len(one.names) / one.n_allowed, 1.0) if one.n_allowed else 0.0 for one in items]
    exact = all(one.exact for one in items)
    share = ratio(shares, ones, "names tried of those allowed, mean over items")
    tried = sum(len(one.names) for one in items)
    of = "allowed names" if exact else "names of the vocabulary (exclusions not known)"
    return {
        **place_fields(place),
        "attack": attack,
        "n_items": len(items),
        "n_tried": tried,
        "n_distinct": len(seen),
        "n_names": n_names,
        "share_of_set": share.as_json(),
        "share_of_vocabulary": len(seen) / n_names if n_names else None,
        "statement": (
            f"{tried / len(items):.4g} of {np.mean([one.n_allowed for one in items]):.6g} {of} "
            f"tried an item ({share.value or 0:.2%}); what was not tried may succeed"
            if share.value is not None and share.value < 1
            else "every allowed name was tried on every item"
        ),
    }
