"""Write tidy rows as CSV: one unrounded number per line, its interval in separate columns."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

from medstress.files.spreadsheets import Writer


def as_csv(rows: Sequence[Mapping[str, Any]], fields: Sequence[str]) -> str:
    """Write rows as CSV, one header line; None is empty."""
    stream = io.StringIO()
    writer = Writer(stream, fields, line_end="\n")
    for row in rows:
        writer.write(row)
    return stream.getvalue()


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
