"""What attacks asked, query by query, read back for the analyses: names put in, probes."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

import orjson

from medstress.core.items import Question
from medstress.core.rows import TrialRow
from medstress.core.text import Edit, edit_distance, edits_of
from medstress.metrics.counts import is_eligible
from medstress.metrics.coverage import Span, Tried
from medstress.metrics.edits import FirstQuery
from medstress.metrics.name_sets import KnownNames
from medstress.results.load import StoredRun
from medstress.store.probes import Probes as Probes

EDIT_DISTANCE = "edit_distance"
"""Reason for leaving out a name that depends on the span."""


@dataclass(slots=True, kw_only=True)
class TrialSubstitutions:
    """The substitutions that one trial asked about."""

    row: TrialRow
    """The trial."""
    item: Question
    """Its item."""
    first: tuple[int, tuple[Edit, ...]]
    """Number and edits of the first query with a substitution."""
    last: tuple[Edit, ...]
    """Edits of the last one."""
    names: dict[Span, Set[str]]
    """All names put in, case-folded, by the span that they replaced."""


def substitutions(run: StoredRun, rows: Iterable[TrialRow]) -> list[TrialSubstitutions]:
    """Read back the substitutions of every eligible trial.

    Queries that delete text, as probes do, are left out.

    Args:
        run: the run.
        rows: its trials.
    """
    items = run.items()
    by_id = {row.trial_id: row for row in rows if is_eligible(row)}
    eligible = {
        number: (by_id[trial_id], items[item][1])
        for number, (trial_id, item) in run.trial_numbers().items()
        if trial_id in by_id
    }
    found, known = list[TrialSubstitutions](), KnownNames()
    for trial, queries in groupby(run.attack_edits(), key=itemgetter(0)):
        if trial not in eligible:
            continue
        # Most queries are neither the first nor the last of a trial; only their names are kept.
        asked = ((query, orjson.loads(text)) for _, query, text in queries)
        substituted = ((query, edits) for query, edits in asked if _puts_in_names(edits))
        first, last, names = None, None, defaultdict[Span, set[str]](set)
        for query, edits in substituted:
            first, last = first or (query, edits), edits
            for field, start, end, name in edits:
                names[field, start, end].add(name.casefold())
        if first is not None and last is not None:
            row, item = eligible[trial]
            found.append(
                TrialSubstitutions(
                    row=row,
                    item=item,
                    first=(first[0], edits_of(first[1])),
                    last=edits_of(last),
                    names={span: known.set_of(each) for span, each in names.items()},
                )
            )
    return found


def _puts_in_names(edits: list[list[Any]]) -> bool:
    return bool(edits) and all(edit[3] for edit in edits)


def first_queries(trials: Iterable[TrialSubstitutions]) -> Iterator[FirstQuery]:
    """Yield the first substitution of every trial, with the size of its edits."""
    for trial in trials:
        row, (query, edits) = trial.row, trial.first
        olds = [trial.item.text_of(edit.field)[edit.start : edit.end] for edit in edits]
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


def tried_names(
    trials: Iterable[TrialSubstitutions], n_names: Mapping[str, int]
) -> Iterator[Tried]:
    """Yield the distinct names tried by every trial on every span.

    Args:
        trials: the substitutions of trials.
        n_names: size of each group's vocabulary.
    """
    for trial in trials:
        row, excluded = trial.row, json.loads(trial.row.n_excluded or "{}")
        # Exclusions are counted on the span replaced first. The edit distance
        # depends on the span, so on other spans the remaining reasons give a lower bound.
        counted = {(edit.field, edit.start, edit.end) for edit in trial.first[1]}
        for span, names in trial.names.items():
            n_excluded = sum(
                n for why, n in excluded.items() if span in counted or why != EDIT_DISTANCE
            )
            yield Tried(
                place=(row.dataset, row.group, row.victim),
                attack=row.attack,
                item_id=row.item_id,
                span=span,
                names=names,
                n_allowed=max(n_names.get(row.group, 0) - n_excluded, 0),
                exact=row.n_excluded is not None
                and (span in counted or EDIT_DISTANCE not in excluded),
            )
