"""Read and check an experiment file; every error names the line, in one sentence."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NoReturn, get_args

from pydantic import BaseModel, ValidationError

from medstress import recipes
from medstress.attacks.protocol import attack_class
from medstress.core import registry
from medstress.core.errors import FIRST_COMMAND, UsageError, did_you_mean
from medstress.core.words import command
from medstress.datasets.guess import ENDINGS
from medstress.experiment.file.config import AttackTable, Experiment, RolesTable, RoleTable
from medstress.files.reading import check_toml, parse_toml, read_text
from medstress.files.writing import DATABASE

ARRAYS = ("dataset", "entities", "victim", "attack", "require")
NEEDS = ("experiment", "dataset", "victim", "attack")
"""The tables that a run needs; attacks that draw names also need `entities`."""
_INSTALLED = {"dataset": ("datasets", "name"), "victim": ("backends", "backend")}
"""Table -> the list of installed parts, and the key that names one."""
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
_NO_KEY = re.compile(r"str|int|float|bool|tuple|list|dict|\d+|.*[\[\]].*|.*constrained-.*")
"""What pydantic calls a place in a list, or the branch of a value that may have several types."""


# -- where, and what is wrong ----------------------------------------------------------------------


class Where:
    """Finds the line of a table or key in the file's text, or its --set, for messages."""

    def __init__(self, file: str, text: str, overrides: Sequence[str] = ()) -> None:
        self.file = file
        self.used: dict[str, list[int]] = {}
        """Table -> the places of the entries that are switched on, among all entries."""
        self._lines, self._set = text.splitlines(), dict[tuple[str, str], str]()
        for target in (override.partition("=")[0] for override in overrides):
            parts = [part.strip() for part in target.split(".")]
            self._set[parts[0], parts[-1]] = f"--set {target.strip()}"

    def table(self, table: str) -> str:
        """Return the place of the first header of a table."""
        header = self._header(table, 0)
        return self.file if header is None else f"{self.file}, line {header + 1}"

    def key(self, table: str, key: str, index: int) -> str:
        """Return the place of a key in the index-th entry of a table that is switched on."""
        if (table, key) in self._set:
            return self._set[table, key]
        used = self.used.get(table, [])
        header = self._header(table, used[index] if index < len(used) else index)
        if header is None:
            return f"{self.file}, [{table}]"
        for number, line in enumerate(self._lines[header + 1 :], header + 2):
            if re.match(r"\s*\[\[?[A-Za-z]", line):
                break
            if re.match(rf"\s*\"?{re.escape(key)}\"?\s*=", line):
                return f"{self.file}, line {number}"
        return f"{self.file}, line {header + 1}"

    def _header(self, table: str, index: int) -> int | None:
        pattern = re.compile(rf"\s*\[\[?\s*{re.escape(table)}\s*[\].]")
        headers = [i for i, line in enumerate(self._lines) if pattern.match(line)]
        return headers[index] if index < len(headers) else None


def unknown(what: str, word: str, known: Collection[str], of: str = "") -> str:
    """Return the sentence for an unknown word, with the nearest known one, else with all.

    >>> unknown("key", "vocabulry", ["type", "vocabulary"])
    "unknown key 'vocabulry'; did you mean 'vocabulary'?"
    >>> unknown("key", "colour", ["type", "vocabulary"], of=" of medfuzz")
    "unknown key 'colour' of medfuzz (known: type, vocabulary)"
    """
    hint = did_you_mean(word, known) or f" (known: {', '.join(sorted(known))})"
    return f"unknown {what} {word!r}{of}{hint}"


def missing_key(table: str, key: str, row: Mapping[str, Any], known: Collection[str]) -> str:
    """Return the sentence for a missing key: a key of the row that is near, else a line to copy."""
    # An attack may have keys of its own.
    strange = [] if table == "attack" else [name for name in row if name not in known]
    for name in (name for name in row if name not in known and did_you_mean(name, [key])):
        return unknown("key", name, [key])
    also = f" ({' and '.join(map(repr, strange))} unknown)" if strange else ""
    line = _LINES.get((table, key))
    return f"the key {key!r} is missing{also}{f'; add a line such as {line}' if line else ''}"


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
    table, *rest = map(str, (*(() if table is None else (table,)), *error["loc"]))
    if table == "role" and rest and rest[0] in RolesTable.model_fields:
        table = f"role.{rest.pop(0)}"
    index = int(rest.pop(0)) if rest and rest[0].isdigit() else 0
    kind, given, key = error["type"], error["input"], rest[0] if rest else ""
    of_table = RoleTable if table.startswith("role.") else TABLES_BUILT[table]
    known, inner = set(of_table.model_fields), ""
    if len(rest) > 1:
        of_key = of_table.model_fields.get(key)
        nested = [] if of_key is None else _models(of_key.annotation)
        known, inner = {name for model in nested for name in model.model_fields}, f"{key}: "
    if kind == "extra_forbidden":
        sentence = unknown("key", rest[-1], known - {rest[-1]})
    elif kind == "missing" and known and isinstance(given, Mapping):
        sentence = missing_key(key if inner else table, rest[-1], given, known)
        near = [name for name in given if name not in known and did_you_mean(name, [rest[-1]])]
        key = near[0] if near and not inner else key
    elif kind == "missing":
        sentence = f"expected more values, got {given!r}"
    else:
        message = _WORDS.get(kind) or str(error["msg"]).removeprefix("Value error, ")
        if key:
            words = re.findall(r"'([^']*)'", str(error.get("ctx", {}).get("expected", "")))
            is_word = kind == "literal_error" and isinstance(given, str)
            hint = did_you_mean(given, words) if is_word else ""
            path = ".".join([key, *(part for part in rest[1:] if not _NO_KEY.fullmatch(part))])
            message = f"{path} = {given!r}: {message[0].lower()}{message[1:]}{hint}"
        elif not isinstance(given, Mapping):  # no table at all
            message = f"{message}, got {given!r}"
        sentence, inner = message, ""
    raise UsageError(f"{where.key(table, key, index)}: {inner}{sentence}") from None


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)


TABLES_BUILT: dict[str, type[BaseModel]] = {
    name: next(_models(field.annotation)) for name, field in Experiment.model_fields.items()
}
"""Table of the experiment file -> its type."""


# -- reading ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The text of an experiment and its base folder."""

    text: str
    """TOML."""
    name: str
    """Its name in messages."""
    base: Path
    """Folder that relative paths start from; for a recipe the current folder."""
    remark: str = ""
    """What is said of it before it runs; empty for nothing."""


def find_source(experiment: str | Path | Source) -> Source:
    """Read an experiment file, or the recipe of that name; a text that is no file stays as it is.

    A file that exists wins over a recipe of its name; a folder does not.

    Raises:
        UsageError: neither a file nor a recipe, or the file cannot be read.
    """
    if isinstance(experiment, Source):
        return experiment
    path, name = Path(experiment), str(experiment)
    if name in recipes.names() and not path.is_file():
        text, base = recipes.text_of(name), Path.cwd().resolve()
        return Source(text=text, name=f"{name}{recipes.SUFFIX}", base=base)
    expected = "expected an experiment file (TOML)"
    if not os.path.lexists(path):
        known = [p.name for p in path.parent.glob("*.toml")]
        known += recipes.names() if path.parent == Path() else []
        named = f"{path.name}.toml"
        near = f"; did you mean {named!r}?" if named in known else did_you_mean(path.name, known)
        raise UsageError(f"there is no experiment file {path}{near}").with_command(FIRST_COMMAND)
    if path.suffix.lower() in ENDINGS:
        raise UsageError(
            f"{path} holds data; {expected}, or for a first run --data {path} --model NAME"
        ).with_command(command("check", path))
    if (path / DATABASE).is_file():
        error = UsageError(f"{path} is the folder of a run; {expected}")
        raise error.with_command(command("summary", path))
    if path.is_dir():
        raise UsageError(f"{path} is a folder; {expected}").with_command(FIRST_COMMAND)
    return Source(text=read_text(path), name=path.name, base=path.resolve().parent)


def read_experiment(
    path: Path | Source,
    overrides: Sequence[str] = (),
    needs: Sequence[str] = NEEDS,
    complete: Callable[[dict[str, Any]], None] = lambda _: None,
) -> Experiment:
    """Read, override and check an experiment file.

    Args:
        path: the TOML file, the name of a shipped recipe, or a text that is no file.
        overrides: `table.key=value` or `table.NAME.key=value`, values as in TOML.
        needs: the tables that are required.
        complete: fills in what the command decides, before the check.

    Raises:
        UsageError: one sentence: what was expected, what came, in which line, what to do.
    """
    source = find_source(path)
    raw = parse_toml(source.text, source.name if isinstance(path, Source) else str(path))
    apply_overrides(raw, overrides)
    complete(raw)
    return check_experiment(raw, Where(source.name, source.text, overrides), needs)


def apply_overrides(raw: dict[str, Any], overrides: Sequence[str]) -> None:
    """Apply `--set` to a parsed file, in place."""
    for override in overrides:
        target, equals, value_text = override.partition("=")
        parts = [part.strip() for part in target.split(".")]
        if not equals or len(parts) < 2:
            raise UsageError(
                f"--set {override!r}: expected table.key=value or table.NAME.key=value, "
                "e.g. attack.budget=4"
            )
        table, key, name = parts[0], parts[-1], ".".join(parts[1:-1])
        try:
            value = tomllib.loads(f"value = {value_text.strip()}")["value"]
        except (ValueError, RecursionError):  # not TOML: a text, which is checked below
            value = value_text.strip()
        check_toml({key: value}, f"--set {target}")
        for entry in _entries(raw, table, name, override):
            if not isinstance(entry, dict):
                raise UsageError(f"--set {override!r}: {table} must be a table, got {entry!r}")
            entry[key] = value


def _entries(raw: dict[str, Any], table: str, name: str, override: str) -> list[dict[str, Any]]:
    if table not in Experiment.model_fields:
        raise UsageError(f"--set {override!r}: {unknown('table', table, Experiment.model_fields)}")
    value = raw.setdefault(table, [] if table in ARRAYS else {})
    if table == "role" and isinstance(value, dict) and name:
        return [value.setdefault(name, {})]
    entries = value if isinstance(value, list) else [value]
    if not name or not all(isinstance(entry, dict) for entry in entries):
        return entries
    matching = [entry for entry in entries if name in (entry.get("name"), entry.get("label"))]
    if not matching:
        names = [str(entry.get("label") or entry.get("name")) for entry in entries]
        raise UsageError(
            f"--set {override!r}: no [[{table}]] entry is called {name!r}"
            f"{did_you_mean(name, names)} (there are: {', '.join(names)})"
        )
    return matching


def check_experiment(
    raw: Mapping[str, Any], where: Where | None = None, needs: Sequence[str] = NEEDS
) -> Experiment:
    """Check a parsed file (or a dict of the same shape).

    Raises:
        UsageError: see `read_experiment`.
    """
    where = where or Where("experiment", "")
    cleaned: dict[str, Any] = {}
    for table, value in raw.items():
        if table not in Experiment.model_fields:
            place = where.table(table)
            raise UsageError(f"{place}: {unknown('table', table, Experiment.model_fields)}")
        rows = value if isinstance(value, list) else [value]
        if table not in ARRAYS and len(rows) != 1:
            raise UsageError(f"{where.table(table)}: expected one [{table}], got {len(rows)}")
        if not all(isinstance(row, dict) for row in rows):
            raise UsageError(f"{where.table(table)}: {table} must be a table, got {value!r}")
        if table not in ARRAYS:
            cleaned[table] = dict(rows[0])
            continue
        # An entry that is switched off may name something that is not built or not installed.
        where.used[table] = [i for i, row in enumerate(rows) if row.get("use", True) is not False]
        cleaned[table] = [dict(rows[i]) for i in where.used[table]]
        kind, key = _INSTALLED.get(table, ("", ""))
        for i, row in enumerate(cleaned[table]):
            name = row.get(key)
            if isinstance(name, str) and name and not registry.is_installed(kind, name):
                error = registry.unknown_name(kind, name)
                raise UsageError(f"{where.key(table, key, i)}: {error}") from error
        if table != "require" and rows and not cleaned[table]:
            raise UsageError(f"{where.table(table)}: every [[{table}]] entry has use = false")
    require_tables(cleaned, needs, where.file)
    if "role" in cleaned:
        cleaned["role"] = _with_addresses(cleaned["role"], cleaned.get("victim", ()))
    _check_prompts(raw.get("dataset", ()), cleaned.get("victim", ()), where)
    attacks = [_attack_table(row, where, i) for i, row in enumerate(cleaned.get("attack", ()))]
    try:
        return Experiment.model_validate({**cleaned, "attack": attacks} if attacks else cleaned)
    except ValidationError as failure:
        refuse(failure, where)


def require_tables(
    raw: Mapping[str, Any], needs: Sequence[str] = NEEDS, file: str = "experiment"
) -> None:
    """Check that an experiment has the tables that it needs.

    Raises:
        UsageError: a table is missing; the message names it.
    """
    for table in needs:
        if table not in raw or (table in ARRAYS and not raw[table]):
            shown = f"[[{table}]]" if table in ARRAYS else f"[{table}]"
            lines = [line for (owner, _), line in _LINES.items() if owner == table]
            hint = f"; add {shown} and below it {' and '.join(lines)}" if lines else ""
            raise UsageError(f"{file}: the table {shown} is missing{hint}")


def check_table(table: str, values: Mapping[str, Any]) -> Any:
    """Check one table given from Python and return it as its type from `config`.

    Raises:
        UsageError: one sentence.
    """
    if not isinstance(values, Mapping):
        raise UsageError(f"{table}: expected a dict of the keys of [[{table}]], got {values!r}")
    try:
        return TABLES_BUILT[table].model_validate(values)
    except ValidationError as failure:
        refuse(failure, Where(table, ""), table)


def _with_addresses(roles: Mapping[str, Any], victims: Sequence[Any]) -> dict[str, Any]:
    """Return roles that ask the first victim's server where they name none.

    A judge that names no model is the attacker's. An address and its key go together: a key is
    never sent to another server than the one that it was given for.
    """
    first = dict(victims[0]) if victims else {}
    first.setdefault("backend", "openai" if "base_url" in first else "transformers")
    addressed: dict[str, Any] = {}
    for name in sorted(roles, key=lambda name: name == "judge"):
        role = roles[name]
        if isinstance(role, Mapping) and not {"base_url", "target"} & role.keys():
            attacker = addressed.get("attacker", {})
            asks = attacker if name == "judge" and "model" not in role else first
            keys = ("backend", "base_url", "api_key_env", *(["model"] if asks is attacker else []))
            own = {key: asks[key] for key in keys if key in asks}
            if role.get("backend", own.get("backend")) == own.get("backend"):
                role = {**own, **role}
        addressed[name] = role
    return {name: addressed[name] for name in roles}


def _check_prompts(datasets: Any, victims: Sequence[Mapping[str, Any]], where: Where) -> None:
    """Refuse a table of prompts that names an unknown data set; those switched off are known."""
    tables = datasets if isinstance(datasets, list) else [datasets]
    names = [table.get(key) for table in tables for key in ("label", "name")] if datasets else []
    known = list(dict.fromkeys(str(name) for name in names if name))
    for index, victim in enumerate(victims):
        prompt = victim.get("prompt")
        for key in prompt if isinstance(prompt, Mapping) else ():
            if key != "default" and key not in known:
                raise UsageError(
                    f"{where.key('victim', 'prompt', index)}: prompt: no [[dataset]] is called "
                    f"{key!r}{did_you_mean(key, [*known, 'default'])} (there are: "
                    f"{', '.join(known)}; default stands for all others)"
                )


def _attack_table(row: Mapping[str, Any], where: Where, index: int) -> Any:
    """Return the table with its attacks built, so that their errors name the line.

    A malformed table is returned unchanged; the check of the whole experiment refuses it.
    """
    name = row.get("name")
    if not isinstance(name, str):
        if name is not None:
            return row
        sentence = missing_key("attack", "name", row, AttackTable.model_fields)
        raise UsageError(f"{where.key('attack', 'name', index)}: {sentence}")
    try:
        kind = attack_class(name)
    except UsageError as error:
        raise UsageError(f"{where.key('attack', 'name', index)}: {error}") from error
    known = {field.name for field in fields(kind) if field.init}
    for key in row:
        if key not in known and key not in AttackTable.model_fields:
            sentence = unknown("key", key, known, f" of {name}")
            raise UsageError(f"{where.key('attack', key, index)}: {sentence}")
    if row.get("n") == []:
        raise UsageError(f"{where.key('attack', 'n', index)}: n = []: expected at least one value")
    try:
        table = AttackTable.model_validate(row)
        _ = table.attacks
    except ValidationError:
        return row
    except UsageError as error:
        words = re.findall(r"[a-z_]+", str(error))
        key = next((word for word in words if word in known), "")
        raise UsageError(f"{where.key('attack', key, index)}: {error}") from None
    return table
