"""Labels of the rows of the report's tables: attack, data set, group, victim and seeds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from medstress.core.controls import is_control_spec
from medstress.core.rows import TrialRow
from medstress.results.formats import as_text
from medstress.results.measure import Measure
from medstress.results.names import Named, Names, key_of
from medstress.results.table import Format, Table, Value, as_row, columns

Row = Mapping[str, Any]
"""A row of the summary's `results` or `pooled`."""

FACTORS = ("attack", "dataset", "group", "victim")
"""The fields, besides the seed, that identify a row of a summary."""

PLACE = columns(Format.TEXT, "Attack", "Data set", "Group", "Victim")
"""Columns that identify a row, without its seeds."""

LABELS = (*PLACE, *columns(Format.NUMBER, "Seed"))
"""The columns of `labels`."""


_FACTOR_OF = {
    **{name: name for name in FACTORS},
    "control_of": "attack",
    "comparison": "attack",
    "against": "attack",
}
"""Field of a row -> what its value names."""
_WITHOUT_NAMES = frozenset({"asr_at", "asr_by_variant", "names", "verdict"})
"""Fields that hold no name, or keep their keys."""


def in_words(summary: Any, names: Names) -> Any:
    """Return a summary in which the names of attacks, victims, data sets and groups are words.

    Each remembers its key (`Named`). What is no key of the run stays.
    """
    if isinstance(summary, Mapping):
        return {
            name: value if name in _WITHOUT_NAMES else _in_words(name, value, names)
            for name, value in summary.items()
        }
    if isinstance(summary, list | tuple):
        return [in_words(each, names) for each in summary]
    return summary


def _in_words(field: str, value: Any, names: Names) -> Any:
    factor = _FACTOR_OF.get(field)
    if factor is None or not isinstance(value, str):
        return in_words(value, names)
    known = getattr(names, f"{factor}s")
    return names.named(factor, value) if field in FACTORS or value in known else value


def trials_in_words(trials: Sequence[TrialRow], names: Names) -> Sequence[TrialRow]:
    """Return trials with the names that `in_words` gives the rows of a summary."""
    return [
        replace(
            trial,
            attack=names.named("attack", trial.attack),
            victim=names.named("victim", trial.victim),
            dataset=names.named("dataset", trial.dataset),
            group=names.named("group", trial.group),
        )
        for trial in trials
    ]


def place(row: Row) -> tuple[str, ...]:
    """Return the cells of `PLACE`; empty if the row lacks the field."""
    return tuple("" if row.get(name) is None else as_text(row[name]) for name in FACTORS)


def labels(row: Row) -> tuple[Value, ...]:
    """Return the cells of `LABELS`; a deterministic attack has no seed.

    >>> labels({"attack": "a", "dataset": "d", "group": "g", "victim": "v", "seeds": [0, 1]})
    ('a', 'd', 'g', 'v', '0, 1')
    """
    seeds: Sequence[Any] = row["seeds"] if row.get("seeds") else [row.get("seed")]
    known = ", ".join(as_text(seed) for seed in seeds if seed is not None)
    return (*place(row), known or None)


def measured(
    name: str, caption: str, rows: Sequence[Row], shown: Sequence[Measure], *notes: str
) -> Table:
    """Return a table of measures, one line per row."""
    return Table(
        name=name,
        caption=caption,
        columns=(*LABELS, *(each.column for each in shown)),
        rows=tuple(as_row(*labels(row), *(each.read(row) for each in shown)) for row in rows),
        notes=notes,
        n_labels=len(LABELS),
    )


def label_text(place: Iterable[Any]) -> str:
    """Join the parts of a label, such as data set, group and victim, in one line."""
    return " · ".join(map(as_text, place))


def seeds_of(row: Row) -> str:
    """Describe the seeds of a row.

    >>> seeds_of({"seeds": [0, 1]}), seeds_of({"seed": None}), seeds_of({"seed": 3})
    ('seeds 0, 1', 'no seed (deterministic)', 'seed 3')
    """
    seeds: Sequence[Any] = row["seeds"] if row.get("seeds") else [row.get("seed")]
    if all(seed is None for seed in seeds):
        return "no seed (deterministic)"
    return ("seed " if len(seeds) == 1 else "seeds ") + ", ".join(map(as_text, seeds))


def short_labels(rows: Sequence[Row], factors: Iterable[str] = FACTORS) -> list[str]:
    """Label each row by the factors in which the rows differ, or by the attack if in none.

    >>> short_labels([{"attack": "a", "victim": "v"}, {"attack": "b", "victim": "v"}])
    ['a', 'b']
    """
    varying = [name for name in factors if len({as_text(row.get(name)) for row in rows}) > 1]
    used = varying or ["attack"]
    found: list[str] = [_joined(row.get(name) for name in used) for row in rows]
    if len(set(found)) == len(found):
        return found
    return [_joined((label, seeds_of(row))) for label, row in zip(found, rows, strict=True)]


def _joined(parts: Iterable[Any]) -> Named:
    """Join the parts of a label, and their keys."""
    known = list(parts)
    return Named(label_text(known), " · ".join(map(key_of, known)))


def spec_of(row: Row) -> Mapping[str, Any]:
    """Return the parameters of a row's attack; none if it lacks them."""
    spec = row.get("attack_spec")
    found: Mapping[str, Any] = json.loads(spec) if isinstance(spec, str) else spec or {}
    return found


def is_control(row: Row) -> bool:
    """Return whether a row's attack changes nothing of weight, whatever it is called.

    >>> is_control({"attack": "mine", "attack_spec": '{"name": "non_entity_noise"}'})
    True
    """
    return is_control_spec(spec_of(row))


def number(row: Row, name: str) -> int:
    """Return a count of a row; 0 if it is missing."""
    return int(row.get(name) or 0)
