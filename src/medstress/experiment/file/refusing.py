"""What is wrong with a table of an experiment file, in one sentence with a suggestion."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NoReturn, get_args

from pydantic import BaseModel, ValidationError

from medstress.core.errors import UsageError, did_you_mean
from medstress.experiment.file.config import Experiment
from medstress.experiment.file.model_tables import RolesTable, RoleTable


class Where:
    """Finds the line of a table or key in the file's text, or its --set, for messages."""

    def __init__(self, file: str, text: str, overrides: Sequence[str] = ()) -> None:
        self.file = file
        self._set = {}
        for target in (each.partition("=")[0] for each in overrides):
            parts = [part.strip() for part in target.split(".")]
            self._set[parts[0], parts[-1]] = f"--set {target.strip()}"
        self.used: dict[str, list[int]] = {}
        self._lines = text.splitlines()
        self._headers: dict[str, list[int]] = {}

    def place_of(self, table: str, index: int) -> int:
        """Return the number, counting all entries, of the index-th entry that is switched on."""
        used = self.used.get(table, [])
        return used[index] if index < len(used) else index

    def table(self, table: str) -> str:
        """Return the place of the first header of a table."""
        return self._place(self._header(table, 0))

    def key(self, table: str, key: str, index: int) -> str:
        """Return the place of a key in the index-th entry of a table."""
        if (table, key) in self._set:
            return self._set[table, key]
        header = self._header(table, index)
        if header is None:
            return f"{self.file}, [{table}]"
        for number in range(header + 1, len(self._lines)):
            line = self._lines[number]
            if re.match(r"\s*\[\[?[A-Za-z]", line):
                break
            if re.match(rf"\s*\"?{re.escape(key)}\"?\s*=", line):
                return self._place(number)
        return self._place(header)

    def _header(self, table: str, index: int) -> int | None:
        if table not in self._headers:
            pattern = re.compile(rf"\s*\[\[?\s*{re.escape(table)}\s*[\].]")
            self._headers[table] = [i for i, line in enumerate(self._lines) if pattern.match(line)]
        lines = self._headers[table]
        return lines[index] if index < len(lines) else None

    def _place(self, number: int | None) -> str:
        return self.file if number is None else f"{self.file}, line {number + 1}"


ARRAYS = ("dataset", "entities", "victim", "attack", "require")
_WORDS = {
    "dict_type": "expected a table of keys and values",
    "model_type": "expected a table of keys and values",
    "tuple_type": "expected a list",
    "too_short": "expected at least one value",
    "string_pattern_mismatch": (
        "expected letters, digits, '.', '_' and '-', with a letter or a digit first"
    ),
}
"""Kind of error -> what is said of it, where the words of pydantic speak of Python or patterns. The
one key with a pattern is the name of the experiment."""
_TYPES = ("str", "int", "float", "bool", "tuple", "list", "dict")
"""What pydantic calls the branch of a value that may have several types."""
_LINES = {
    ("experiment", "name"): 'name = "first"',
    ("dataset", "name"): 'name = "sample"',
    ("entities", "type"): 'type = "drugs"',
    ("entities", "vocabulary"): 'vocabulary = "drugs"',
    ("victim", "backend"): 'backend = "mock"',
    ("attack", "name"): 'name = "entity_substitution"',
    ("require", "metric"): 'metric = "asr"',
    ("slices", "by"): 'by = ["subject"]',
}
"""(table, required key) -> a line that a reader may copy."""


def missing_table(table: str) -> str:
    """Return the sentence for a table that a command needs and the file lacks."""
    shown = f"[[{table}]]" if table in ARRAYS else f"[{table}]"
    lines = [line for (owner, _), line in _LINES.items() if owner == table]
    hint = f"; add {shown} and below it {' and '.join(lines)}" if lines else ""
    return f"the table {shown} is missing{hint}"


def unknown(what: str, word: str, known: Collection[str], of: str = "") -> str:
    """Return the sentence for an unknown word, with the nearest known one, else with all.

    >>> unknown("key", "vocabulry", ["type", "vocabulary"])
    "unknown key 'vocabulry'; did you mean 'vocabulary'?"
    >>> unknown("key", "colour", ["type", "vocabulary"], of=" of medfuzz")
    "unknown key 'colour' of medfuzz (known: type, vocabulary)"
    """
    hint = did_you_mean(word, known) or f" (known: {', '.join(sorted(known))})"
    return f"unknown {what} {word!r}{of}{hint}"


def refuse(failure: ValidationError, where: Where, table: str | None = None) -> NoReturn:
    """Raise the first error of a check as one sentence with its place.

    Args:
        failure: what pydantic found.
        where: finds lines.
        table: the table, if the check was of one table alone.

    Raises:
        UsageError: always.
    """
    error = failure.errors()[0]
    own = () if table is None else (table,)
    raise UsageError(_sentence({**error, "loc": (*own, *error["loc"])}, where)) from None


def missing_key(table: str, key: str, row: Mapping[str, Any], fields: Collection[str]) -> str:
    """Return the sentence for a missing key: a key of the row that is near, else a line to copy."""
    strange = [each for each in row if each not in fields]
    if any(did_you_mean(each, [key]) for each in strange):
        return unknown("key", next(each for each in strange if did_you_mean(each, [key])), [key])
    line = _LINES.get((table, key))
    hint = f"; add a line such as {line}" if line else ""
    # An attack may have keys of its own.
    names = "" if table == "attack" else " and ".join(map(repr, strange))
    also = f" ({names} {'is' if len(strange) == 1 else 'are'} unknown)" if names else ""
    return f"the key {key!r} is missing{also}{hint}"


def _sentence(error: Any, where: Where) -> str:
    table, *rest = [str(part) for part in error["loc"]]
    if table == "role" and rest and rest[0] in RolesTable.model_fields:
        table = f"role.{rest.pop(0)}"
    index = where.place_of(table, int(rest.pop(0)) if rest and rest[0].isdigit() else 0)
    key = rest[0] if rest else ""
    fields = _fields(table)
    if error["type"] == "missing" and isinstance(error["input"], Mapping):
        return _missing(error, where, table, index, rest)
    place = where.key(table, key, index)
    if error["type"] == "extra_forbidden" and len(rest) > 1:
        return f"{place}: {key}: {unknown('key', rest[-1], _nested(fields, key) - {rest[-1]})}"
    if error["type"] == "extra_forbidden":
        return f"{place}: {unknown('key', key, fields)}"
    if error["type"] == "missing" and len(rest) > 1:
        return f"{place}: {key}: expected more values, got {error['input']!r}"
    message = _WORDS.get(error["type"]) or str(error["msg"]).removeprefix("Value error, ")
    if not key:  # a check over several keys of the table, or no table at all
        is_table = isinstance(error["input"], Mapping)
        return f"{place}: {message}" if is_table else f"{place}: {message}, got {error['input']!r}"
    said = f"{message[0].lower()}{message[1:]}{_near(error)}"
    return f"{place}: {'.'.join((key, *_keys_within(rest[1:])))} = {error['input']!r}: {said}"


def _keys_within(parts: Sequence[str]) -> list[str]:
    """Return the keys on the way to a value, without numbers and names of types.

    >>> _keys_within(["answer", "str"]), _keys_within(["0", "constrained-str"])
    (['answer'], [])
    """
    return [
        part
        for part in parts
        if part not in _TYPES and not part.isdigit() and not re.search(r"[\[\]]|constrained-", part)
    ]


def _missing(error: Any, where: Where, table: str, index: int, rest: Sequence[str]) -> str:
    key, row = rest[-1], error["input"]
    if len(rest) > 1:
        known = _nested(_fields(table), rest[0])
        place = where.key(table, rest[0], index)
        if not known:
            return f"{place}: {rest[0]}: expected more values, got {row!r}"
        return f"{place}: {rest[0]}: {missing_key(rest[0], key, row, known)}"
    fields = _fields(table)
    near = [each for each in row if each not in fields and did_you_mean(each, [key])]
    place = where.key(table, near[0] if near else key, index)
    return f"{place}: {missing_key(table, key, row, fields)}"


def _near(error: Any) -> str:
    """Return a suggestion where a text is none of a few expected ones."""
    if error["type"] != "literal_error" or not isinstance(error["input"], str):
        return ""
    expected = re.findall(r"'([^']*)'", str(error.get("ctx", {}).get("expected", "")))
    return did_you_mean(error["input"], expected)


def _fields(table: str) -> Mapping[str, Any]:
    if table.startswith("role."):
        return RoleTable.model_fields
    return TABLES_BUILT[table].model_fields


def _nested(fields: Mapping[str, Any], key: str) -> set[str]:
    """Return the keys of the tables that a key takes as its value."""
    if key not in fields:
        return set()
    return {name for model in _models(fields[key].annotation) for name in model.model_fields}


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)


TABLES_BUILT: dict[str, type[BaseModel]] = {
    name: next(_models(field.annotation)) for name, field in Experiment.model_fields.items()
}
"""Table of the experiment file -> its type."""
