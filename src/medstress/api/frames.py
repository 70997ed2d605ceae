"""Rows of a run as data frames of polars."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars

_TEXT = ("attack_spec",)
"""Objects that are one column of JSON text."""


def result_frame(rows: Sequence[Mapping[str, Any]]) -> polars.DataFrame:
    """Return pooled rows of a summary as a data frame.

    A column without any value has its type nevertheless; without rows there are the columns that
    every run has.
    """
    from medstress.files.frames import frame_of

    types, opened = _result_types(), result_rows(rows)
    names = opened[0] if opened else types
    return frame_of(opened, {name: types.get(name) or _type_of(name) for name in names})


def _result_types() -> dict[str, Any]:
    """Return the columns that the results of every run have."""
    from medstress.analyses.run import LEDGER
    from medstress.analyses.success import Counts

    places = ("dataset", "group", "victim", "attack", "attack_spec")
    rates = ("accuracy", "accuracy_after", "asr")
    ends = ("", "_n", "_hits", "_low", "_high", "_method")
    return {
        **dict.fromkeys(places, str),
        **dict.fromkeys((field.name for field in fields(Counts)), int),
        **{(name := rate + end): _type_of(name) for rate in rates for end in ends},
        **{f"queries_{field}": int for field in LEDGER},
        "seeds": str,
    }


def _type_of(name: str) -> type:
    """Return the type of a measure, or of a part of it, by its name.

    >>> _type_of("asr_valid"), _type_of("asr_valid_n"), _type_of("asr_valid_method")
    (<class 'float'>, <class 'int'>, <class 'str'>)
    """
    ends = {"_n": int, "_hits": int, "_method": str, "_bounds": str, "evidence": str, "seed": int}
    return next((kind for end, kind in ends.items() if name.endswith(end)), float)


def result_rows(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return rows of a summary with one value in each column.

    >>> result_rows([{"asr": {"value": 0.5, "n": 2, "low": 0.1, "high": 0.9, "method": "wilson"},
    ...              "control": {}}])[0]["asr_low"]
    0.1
    """
    return flatten([_opened(row) for row in rows])


def _opened(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row whose tables of estimates and numbers, such as `queries`, are columns each."""
    opened: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, Mapping) and "value" not in value and key not in _TEXT:
            opened |= {f"{key}_{name}": each for name, each in value.items()}
        else:
            opened[key] = value
    return opened


def flatten(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Flatten rows of JSON values for CSV: estimates become columns, lists become JSON.

    >>> flatten([{"a": {"value": 0.5, "n": 2}}, {"b": [1]}])
    [{'a': 0.5, 'a_n': 2, 'b': None}, {'a': None, 'a_n': None, 'b': '[1]'}]
    """
    lines: list[dict[str, Any]] = []
    for row in rows:
        line: dict[str, Any] = {}
        for key, value in row.items():
            if isinstance(value, Mapping) and "value" in value:
                line |= {
                    key if part == "value" else f"{key}_{part}": each
                    for part, each in value.items()
                }
            elif isinstance(value, Mapping | list | tuple):
                line[key] = json.dumps(value, ensure_ascii=False)
            else:
                line[key] = value
        lines.append(line)
    names = dict.fromkeys(name for line in lines for name in line)
    return [{name: line.get(name) for name in names} for line in lines]
