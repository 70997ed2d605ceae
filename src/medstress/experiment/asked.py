"""What attacks asked, query by query, read back for the analyses."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from medstress.items import Question
from medstress.metrics.counts import is_eligible
from medstress.metrics.coverage import Span, Tried
from medstress.metrics.edits import FirstQuery
from medstress.results.load import StoredRun
from medstress.rows import TrialRow
from medstress.text import Edit, edit_distance, edits_of

EDIT_DISTANCE = "edit_distance"
"""The reason for which a name is left out on one span and not on another."""


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
    names: dict[Span, set[str]]
    """All names put in, case ignored, by the span that they replaced."""


def asked_trials(run: StoredRun, rows: Iterable[TrialRow]) -> list[AskedTrial]:
    """Read back what every eligible trial asked; deletions, which probe, put no name in.

    Args:
        run: the run.
        rows: its trials.
    """
    items = run.items()
    by_id = {row.trial_id: row for row in rows if is_eligible(row)}
    known = {
        number: (by_id[trial_id], items[item][1])
        for number, (trial_id, item) in run.trial_numbers().items()
        if trial_id in by_id
    }
    found: dict[int, AskedTrial] = {}
    last: dict[int, list[list[Any]]] = {}
    for trial, query, text in run.attack_edits():
        if trial not in known:
            continue
        # Most queries are neither the first nor the last of a trial: their names are enough.
        edits = orjson.loads(text)
        if not edits or not all(edit[3] for edit in edits):
            continue
        asked = found.get(trial)
        if asked is None:
            row, item = known[trial]
            put_in = edits_of(edits)
            asked = found[trial] = AskedTrial(
                row=row, item=item, first=(query, put_in), last=put_in, names={}
            )
        else:
            last[trial] = edits
        for field, start, end, name in edits:
            asked.names.setdefault((field, start, end), set()).add(name.casefold())
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
            edit_characters=sum(edit_distance(old, new) for old, new in pairs),
            edit_tokens=sum(edit_distance(old.split(), new.split()) for old, new in pairs),
            success=row.first_success == query,
        )


def tried(trials: Iterable[AskedTrial], n_names: Mapping[str, int]) -> Iterator[Tried]:
    """The distinct names of every attack, item and span, seeds together.

    Args:
        trials: what was asked.
        n_names: size of each group's vocabulary.
    """
    for asked in trials:
        row, left_out = asked.row, json.loads(asked.row.n_excluded or "{}")
        # Counted for the span replaced first. Only the distance in characters depends on it, so
        # on the others at least the rest is left out.
        of = {(edit.field, edit.start, edit.end) for edit in asked.first[1]}
        for span, names in asked.names.items():
            known = sum(n for why, n in left_out.items() if span in of or why != EDIT_DISTANCE)
            yield Tried(
                place=(row.dataset, row.group, row.victim),
                attack=row.attack,
                item_id=row.item_id,
                span=span,
                names=frozenset(names),
                n_allowed=max(n_names.get(row.group, 0) - known, 0),
                exact=row.n_excluded is not None and (span in of or EDIT_DISTANCE not in left_out),
            )
