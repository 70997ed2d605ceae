"""Read and check an experiment file; every error names the line."""

from __future__ import annotations

import os
import re
import shlex
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from medstress import recipes
from medstress.attacks.protocol import attack_class
from medstress.core import registry
from medstress.core.errors import FIRST_COMMAND, UsageError, did_you_mean
from medstress.datasets.guess import ENDINGS
from medstress.experiment.file.config import AttackTable, Experiment
from medstress.experiment.file.refusing import (
    ARRAYS,
    TABLES_BUILT,
    Where,
    missing_key,
    missing_table,
    refuse,
    unknown,
)
from medstress.files.reading import check_toml, parse_toml, read_text
from medstress.files.writing import DATABASE


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
    path = Path(experiment)
    if str(experiment) in recipes.names() and not path.is_file():
        name = str(experiment)
        return Source(
            text=recipes.text_of(name), name=f"{name}{recipes.SUFFIX}", base=Path.cwd().resolve()
        )
    if not os.path.lexists(path):
        known = [p.name for p in path.parent.glob("*.toml")]
        if path.parent == Path():
            known += recipes.names()
        named = f"{path.name}.toml"
        near = f"; did you mean {named!r}?" if named in known else did_you_mean(path.name, known)
        raise UsageError(f"there is no experiment file {path}{near}").with_command(FIRST_COMMAND)
    if (error := _other_thing(path)) is not None:
        raise error
    text = read_text(path)
    return Source(text=text, name=path.name, base=path.resolve().parent)


def _other_thing(path: Path) -> UsageError | None:
    """Return the error for what newcomers give in place of an experiment file; None for others."""
    if path.suffix.lower() in ENDINGS:
        error = (
            f"{path} holds data; expected an experiment file (TOML), or for a first run "
            f"--data {path} --model NAME"
        )
        return UsageError(error).with_command(shlex.join(["medstress", "check", str(path)]))
    if path.is_dir() and not (path / DATABASE).is_file():
        error = f"{path} is a folder; expected an experiment file (TOML)"
        return UsageError(error).with_command(FIRST_COMMAND)
    if (path / DATABASE).is_file():
        error = f"{path} is the folder of a run; expected an experiment file (TOML)"
        return UsageError(error).with_command(shlex.join(["medstress", "summary", str(path)]))
    return None


_INSTALLED = {"dataset": ("datasets", "name"), "victim": ("backends", "backend")}
"""Table -> the list of installed parts, and the key that names one."""
NEEDS = ("experiment", "dataset", "victim", "attack")
"""The tables that a run needs; attacks that draw names also need `entities`."""


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
        table, key = parts[0], parts[-1]
        name = ".".join(parts[1:-1])
        try:
            value = tomllib.loads(f"value = {value_text.strip()}")["value"]
        except (ValueError, RecursionError):  # not TOML: a text, which is checked below
            value = value_text.strip()
        check_toml({key: value}, f"--set {target}")
        for entry in _entries(raw, table, name, override):
            if not isinstance(entry, dict):
                raise UsageError(f"--set {override!r}: {table} must be a table, got {entry!r}")
            entry[key] = value


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
        # An entry that is switched off may name something that is not built or not installed.
        kept = [dict(row) for row in rows]
        used = [
            i
            for i, row in enumerate(kept)
            if not (table in ARRAYS and row.get("use", True) is False)
        ]
        for i in used:
            _check_built(table, kept[i], where, i)
        where.used[table] = used
        if table in ARRAYS and table != "require" and kept and not used:
            raise UsageError(f"{where.table(table)}: every [[{table}]] entry has use = false")
        cleaned[table] = [kept[i] for i in used] if table in ARRAYS else kept[0]
    require_tables(cleaned, needs, where.file)
    if "role" in cleaned:
        cleaned["role"] = _with_addresses(cleaned["role"], cleaned.get("victim", ()))
    datasets = raw.get("dataset", ())
    datasets = datasets if isinstance(datasets, list) else [datasets]
    for index, victim in enumerate(cleaned.get("victim", ())):
        if reason := _unknown_dataset(victim.get("prompt"), datasets):
            place = where.key("victim", "prompt", where.place_of("victim", index))
            raise UsageError(f"{place}: {reason}")
    from pydantic import ValidationError

    attacks = [_attack_table(row, where, i) for i, row in enumerate(cleaned.get("attack", ()))]
    try:
        return Experiment.model_validate({**cleaned, "attack": attacks} if attacks else cleaned)
    except ValidationError as failure:
        refuse(failure, where)


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
        if not isinstance(role, Mapping) or {"base_url", "target"} & role.keys():
            addressed[name] = role
            continue
        attacker = addressed.get("attacker", {})
        asks = attacker if name == "judge" and "model" not in role else first
        keys = ("backend", "base_url", "api_key_env", *(["model"] if asks is attacker else []))
        own = {key: asks[key] for key in keys if key in asks}
        if role.get("backend", own.get("backend")) == own.get("backend"):
            role = {**own, **role}
        addressed[name] = role
    return {name: addressed[name] for name in roles}


def require_tables(
    raw: Mapping[str, Any], needs: Sequence[str] = NEEDS, file: str = "experiment"
) -> None:
    """Check that an experiment has the tables that it needs.

    Raises:
        UsageError: a table is missing; the message names it.
    """
    for table in needs:
        if table not in raw or (table in ARRAYS and not raw[table]):
            raise UsageError(f"{file}: {missing_table(table)}")


def check_table(table: str, values: Mapping[str, Any]) -> Any:
    """Check one table given from Python and return it as its type from `config`.

    Raises:
        UsageError: one sentence.
    """
    from pydantic import ValidationError

    where = Where(table, "")
    if not isinstance(values, Mapping):
        raise UsageError(f"{table}: expected a dict of the keys of [[{table}]], got {values!r}")
    try:
        return TABLES_BUILT[table].model_validate(values)
    except ValidationError as failure:
        refuse(failure, where, table)


def _check_built(table: str, row: Mapping[str, Any], where: Where, index: int) -> None:
    """Refuse an attack, a data set or a back end that nobody installed."""
    kind, key = _INSTALLED.get(table, ("", ""))
    name = row.get(key)
    if isinstance(name, str) and name and not registry.is_installed(kind, name):
        error = registry.unknown_name(kind, name)
        raise UsageError(f"{where.key(table, key, index)}: {error}") from error


def _attack_table(row: Mapping[str, Any], where: Where, index: int) -> Any:
    """Return the table with its attacks built, so that their errors name the line.

    A malformed table is returned unchanged; the check of the whole experiment refuses it.
    """
    from pydantic import ValidationError

    name = row.get("name")
    index = where.place_of("attack", index)
    if name is None:
        place = where.key("attack", "name", index)
        raise UsageError(f"{place}: {missing_key('attack', 'name', row, AttackTable.model_fields)}")
    if not isinstance(name, str):
        return row
    place = where.key("attack", "name", index)
    try:
        kind = attack_class(name)
    except UsageError as error:
        raise UsageError(f"{place}: {error}") from error
    known = {field.name for field in fields(kind) if field.init}
    for key in row:
        if key not in known and key not in AttackTable.model_fields:
            raise UsageError(
                f"{where.key('attack', key, index)}: {unknown('key', key, known, f' of {name}')}"
            )
    if row.get("n") == []:
        raise UsageError(f"{where.key('attack', 'n', index)}: n = []: expected at least one value")
    try:
        table = AttackTable.model_validate(row)
    except ValidationError:
        return row
    try:
        _ = table.attacks
    except UsageError as error:
        words = re.findall(r"[a-z_]+", str(error))
        key = next((word for word in words if word in known), "")
        raise UsageError(f"{where.key('attack', key, index)}: {error}") from None
    return table


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


def _unknown_dataset(prompt: Any, datasets: Iterable[Mapping[str, Any]]) -> str | None:
    """Return the error if a table of prompts names an unknown data set, or None.

    Args:
        prompt: the key `prompt`, as given.
        datasets: all `[[dataset]]` tables, including those switched off.
    """
    if not isinstance(prompt, Mapping):
        return None
    tables = [(table.get("label"), table.get("name")) for table in datasets]
    known = list(dict.fromkeys(str(name) for names in tables for name in names if name))
    for key in prompt:
        if key != "default" and key not in known:
            hint = did_you_mean(key, [*known, "default"])
            return (
                f"prompt: no [[dataset]] is called {key!r}{hint} (there are: {', '.join(known)}; "
                "default stands for all others)"
            )
    return None
