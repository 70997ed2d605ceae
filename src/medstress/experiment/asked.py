"""What attacks asked, query by query, read back for the analyses."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from rapidfuzz.distance import Levenshtein

from medstress.items import Question
from medstress.metrics.counts import is_eligible
from medstress.metrics.coverage import Tried
from medstress.metrics.edits import FirstQuery
from medstress.rows import TrialRow
from medstress.store.codec import edits_of
from medstress.store.reader import RunReader
from medstress.text import Edit


@dataclass(slots=True, kw_only=True)
class AskedTrial:
    """The substitutions that one trial asked."""

    row: TrialRow
    """The trial."""
    item: Question
    """Its item."""
    first: tuple[int, tuple[Edit, ...]]
    """Number and edits of the first query that put a name in."""
    last: tuple[Edit, ...]
    """Edits of the last."""
    names: set[str]
    """All names put in, case ignored."""


def asked_trials(
    reader: RunReader, rows: Iterable[TrialRow], items: Mapping[int, tuple[str, Any]]
) -> list[AskedTrial]:
    """Read back what every eligible trial asked; deletions, which probe, put no name in.

    Args:
        reader: the run.
        rows: its trials.
        items: its items by row.
    """
    by_id = {row.trial_id: row for row in rows if is_eligible(row)}
    known = {
        number: (by_id[trial_id], items[item][1])
        for number, (trial_id, item) in reader.trial_numbers().items()
        if trial_id in by_id
    }
    found: dict[int, AskedTrial] = {}
    last: dict[int, list[list[Any]]] = {}
    for trial, query, text in reader.asked_edits():
        if trial not in known:
            continue
        # Most queries are neither the first nor the last of a trial: their names are enough.
        edits = orjson.loads(text)
        if not edits or not all(edit[3] for edit in edits):
            continue
        names = {edit[3].casefold() for edit in edits}
        asked = found.get(trial)
        if asked is None:
            row, item = known[trial]
            put_in = edits_of(edits)
            found[trial] = AskedTrial(
                row=row, item=item, first=(query, put_in), last=put_in, names=names
            )
        else:
            last[trial] = edits
            asked.names |= names
    for trial, edits in last.items():
        found[trial].last = edits_of(edits)
    return list(found.values())


def first_queries(trials: Iterable[AskedTrial]) -> Iterator[FirstQuery]:
    """The first substitution of every trial, with the size of its edits."""
    for asked in trials:
        row, (query, edits) = asked.row, asked.first
        olds = [asked.item.text_of(edit.field)[edit.start : edit.end] for edit in edits]
        pairs = list(zip(olds, (edit.replacement for edit in edits), strict=True))
        yield FirstQuery(
            place=(row.dataset, row.group, row.victim),
            attack=row.attack,
            item_id=row.item_id,
            words_replaced=sum(len(old.split()) for old, _ in pairs),
            words_inserted=sum(len(new.split()) for _, new in pairs),
            edit_characters=sum(Levenshtein.distance(old, new) for old, new in pairs),
            edit_tokens=sum(Levenshtein.distance(old.split(), new.split()) for old, new in pairs),
            success=row.first_success == query,
        )


def tried(trials: Iterable[AskedTrial], n_names: Mapping[str, int]) -> Iterator[Tried]:
    """The distinct names of every item and attack, seeds together.

    Args:
        trials: what was asked.
        n_names: size of each group's vocabulary.
    """
    names: dict[tuple[str, str, str, str, str], set[str]] = defaultdict(set)
    excluded: dict[tuple[str, str, str, str, str], int] = {}
    for asked in trials:
        row = asked.row
        place = (row.dataset, row.group, row.victim, row.attack, row.item_id)
        names[place] |= asked.names
        if row.n_excluded is not None:
            # Exclusions may depend on the span that a trial replaced: the fewest are certain.
            n = sum(json.loads(row.n_excluded).values())
            excluded[place] = min(n, excluded.get(place, n))
    for place, found in names.items():
        yield Tried(
            place=place[:3],
            attack=place[3],
            item_id=place[4],
            names=frozenset(found),
            n_allowed=max(n_names.get(place[1], 0) - excluded.get(place, 0), 0),
            exact=place in excluded,
        )
