"""What of an output is frozen, as plain JSON: no clock, version, machine, path or sentence."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

DIGITS = 12
"""Significant digits of stored numbers; the last ones differ between processors."""
CLOCK = {"started", "finished", "wall_seconds", "seconds", "queries_per_second", "time"}
"""Fields that hold times or durations."""
SENTENCES = {"warnings", "cautions", "error", "notes", "undefined"}
"""Fields that hold messages: that there is one is frozen, what it says is not."""
LONG, LONG_PROMPT = 400, 120
"""Longer texts are stored as their beginning, length and hash."""
KEPT = 30
"""Of a longer table so many rows are stored, evenly spread, and a hash of every exact column."""
_HASH = re.compile(r"(blake2b-128:[0-9a-f]{10})[0-9a-f]{22}")
_NUMBER = re.compile(r"-?\d+\.\d+(e[+-]?\d+)?|-?\d+e[+-]?\d+")


def normal(value: Any, root: Path, key: str = "") -> Any:
    """A value as it is frozen.

    Args:
        value: what JSON, a cell of a table or a field of a row holds.
        root: the folder of the experiment, which is not told.
        key: the field that holds it.
    """
    if value is not None and key in CLOCK:
        return "<time>"
    if key == "versions":
        return "<versions>"
    if isinstance(value, dict):
        return {str(k): normal(v, root, str(k)) for k, v in value.items()}
    if isinstance(value, list | tuple):
        if len(value) > 1 and all(isinstance(each, dict) and len(each) > 1 for each in value):
            return table(value, root, kept=10**6)
        return [normal(each, root, key) for each in value]
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") + 0.0
    if isinstance(value, str):
        return "<sentence>" if key in SENTENCES and value else _text(value, root, key)
    return value


def _text(value: str, root: Path, key: str) -> Any:
    longest = LONG_PROMPT if "prompt" in key else LONG
    if value[:1] in ("[", "{"):
        try:
            inside = json.loads(value)
        except ValueError:
            pass
        else:
            whole = normal(inside, root, key)
            is_short = len(json.dumps(whole, ensure_ascii=False)) <= 10 * LONG_PROMPT
            return {"<as text>": whole if is_short or _has_floats(whole) else _short(value, LONG)}
    if _NUMBER.fullmatch(value):
        return f"{float(value):.{DIGITS}g}"
    return _HASH.sub(r"\1", _short(value.replace(str(root), "<folder>"), longest))


def _short(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    return f"{text[:40]}... <{len(text)} characters, sha256 {_hash(text)}>"


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _has_floats(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_floats, value.values()))
    return isinstance(value, float) or (isinstance(value, list) and any(map(_has_floats, value)))


def table(rows: Sequence[dict[str, Any]], root: Path, kept: int = KEPT) -> dict[str, Any]:
    """Rows as columns.

    A column of one value is stored as `all`, one of few values as a list of them and where each
    stands. Of a table of more than `kept` rows every n-th is stored, and of every column without
    fractions a hash over all rows.
    """
    step = -(-len(rows) // kept) if rows else 1
    names = list(dict.fromkeys(name for row in rows for name in row))
    told: dict[str, Any] = {"<rows>": len(rows), "columns": {}}
    for name in names:
        values = [normal(row.get(name, "<absent>"), root, name) for row in rows]
        told["columns"][name] = _column(values[::step])
        if step > 1 and not _has_floats(values):
            exact = _hash(json.dumps(values, sort_keys=True))
            told.setdefault("hashes over all rows", {})[name] = exact
    return told if step == 1 else told | {"every": step}


def _column(values: list[Any]) -> Any:
    shapes = {tuple(sorted(value)) for value in values if isinstance(value, dict)}
    if (
        len(values) > 1
        and len(shapes) == 1
        and () not in shapes
        and all(isinstance(v, dict | None) for v in values)
    ):
        found = [value for value in values if value is not None]
        (names,) = shapes
        told: dict[str, Any] = {"fields": {k: _column([v[k] for v in found]) for k in names}}
        lacking = [str(i) for i, value in enumerate(values) if value is None]
        return told | ({"null at": " ".join(lacking)} if lacking else {})
    texts = [json.dumps(value, sort_keys=True) for value in values]
    distinct = dict(zip(texts, values, strict=True))
    if len(distinct) == 1:
        return {"all": values[0]}
    place = {text: i for i, text in enumerate(distinct)}
    if sum(map(len, distinct)) + 3 * len(texts) < sum(map(len, texts)):
        return {"of": list(distinct.values()), "at": " ".join(str(place[text]) for text in texts)}
    return values


def opened(stored: dict[str, Any]) -> dict[str, Any]:
    """A stored table with every column as a list of values."""
    n = len(range(0, stored["<rows>"], stored.get("every", 1)))
    columns = {name: _opened(each, n) for name, each in stored["columns"].items()}
    return {**{k: v for k, v in stored.items() if k != "columns"}, **columns}


def _opened(column: Any, n: int) -> list[Any]:
    if isinstance(column, list):
        return column
    if "all" in column:
        return [column["all"]] * n
    if "of" in column:
        return [column["of"][int(i)] for i in column["at"].split()]
    lacking = {int(i) for i in column.get("null at", "").split()}
    parts = {name: _opened(each, n - len(lacking)) for name, each in column["fields"].items()}
    rows = iter(
        dict(zip(parts, values, strict=True)) for values in zip(*parts.values(), strict=True)
    )
    return [None if i in lacking else next(rows) for i in range(n)]


def write(value: Any, indent: int = 0, width: int = 150) -> str:
    """JSON with sorted keys in which what fits a line stands in one."""
    line = json.dumps(value, sort_keys=True, ensure_ascii=False)
    if not isinstance(value, dict | list) or not value or len(line) + indent <= width:
        return line
    pad = " " * (indent + 1)
    if isinstance(value, list) and not any(isinstance(each, dict | list) for each in value):
        return _filled([json.dumps(each, ensure_ascii=False) for each in value], indent, width)
    if isinstance(value, list):
        parts = [write(each, indent + 1, width) for each in value]
        ends = "[]"
    else:
        parts = [f"{json.dumps(k)}: {write(value[k], indent + 1, width)}" for k in sorted(value)]
        ends = "{}"
    inner = ",\n".join(pad + part for part in parts)
    return f"{ends[0]}\n{inner}\n{' ' * indent}{ends[1]}"


def _filled(parts: list[str], indent: int, width: int) -> str:
    pad, lines = " " * (indent + 1), [""]
    for i, part in enumerate(parts):
        text = part + ("," if i < len(parts) - 1 else "")
        if lines[-1] and len(lines[-1]) + len(text) + indent + 2 > width:
            lines.append("")
        lines[-1] += f" {text}" if lines[-1] else text
    inner = "\n".join(pad + line for line in lines)
    return f"[\n{inner}\n{' ' * indent}]"
