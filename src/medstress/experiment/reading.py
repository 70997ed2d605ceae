"""Read an experiment file, with what overrides change, and write one."""

from __future__ import annotations

import copy
import os
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medstress import recipes
from medstress.core.errors import FIRST_COMMAND, UsageError, did_you_mean, setting, unknown
from medstress.core.reading import check_toml, parse_toml, read_text, toml_key, toml_value
from medstress.core.words import command
from medstress.core.writing import DATABASE
from medstress.experiment import config
from medstress.experiment.config import (
    ARRAYS,
    TABLES,
    Experiment,
    given_keys,
    is_used,
    own_name,
    refusing,
)

NEEDS = ("experiment", "dataset", "victim", "attack")
"""The tables that a run needs; attacks that draw names also need `entities`."""
_PLACES = {"dataset": "dataset", "entities": "group", "victim": "victim", "attack": "attack"}
"""Table whose entries have names in results -> the key of `where` that has them."""


class Where:
    """Finds the line of a table or key in the file's text, or its override, for messages."""

    def __init__(
        self,
        file: str,
        text: str = "",
        overrides: Sequence[str] = (),
        raw: Mapping[str, Any] | None = None,
    ) -> None:
        self.file = file
        self._lines, self._set = text.splitlines(), dict[tuple[str, str], str]()
        for target in (override.partition("=")[0] for override in overrides):
            parts = [part.strip() for part in target.split(".")]
            self._set[parts[0], parts[-1]] = setting("set", target.strip())
        entries = {name: own for name, own in (raw or {}).items() if isinstance(own, list)}
        self._used = {
            name: [i for i, entry in enumerate(own) if is_used(entry)]
            for name, own in entries.items()
        }
        """Table -> the places of the entries that are switched on, among all entries."""

    def key(self, table: str, key: str, index: int = 0) -> str:
        """Return the place of a key in the index-th entry of a table that is switched on."""
        if (table, key) in self._set:
            return self._set[table, key]
        used = self._used.get(table, [])
        header = self._header(table or key, used[index] if index < len(used) else index)
        if header is None:
            return f"{self.file}, [{table}]" if table else self.file
        for number, line in enumerate(self._lines[header + 1 :], header + 2):
            if re.match(r"\s*\[\[?[A-Za-z]", line):
                break
            if _is_named(line.lstrip().removeprefix('"'), key, ("=",)):
                return f"{self.file}, line {number}"
        return f"{self.file}, line {header + 1}"

    def _header(self, table: str, index: int) -> int | None:
        headers = [
            i
            for i, line in enumerate(self._lines)
            if line.lstrip()[:1] == "[" and _is_named(line.lstrip(" \t["), table, ("]", "."))
        ]
        return headers[index] if index < len(headers) else None


def _is_named(line: str, name: str, ends: tuple[str, ...]) -> bool:
    """Return whether a line begins with a name and what may follow it.

    Not as a pattern: one for a name of a million characters takes seconds to compile.
    """
    return line.startswith(name) and line[len(name) :].removeprefix('"').lstrip().startswith(ends)


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
    path: str = ""
    """The file or recipe as it was named, for messages; empty for a text that is neither."""


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
        return Source(text=text, name=f"{name}{recipes.SUFFIX}", base=base, path=name)
    expected = "expected an experiment file (TOML)"
    if not os.path.lexists(path):
        files = [p.name for p in path.parent.glob("*.toml")]
        files += recipes.names() if path.parent == Path() else []
        named = f"{path.name}.toml"
        near = f"; did you mean {named!r}?" if named in files else did_you_mean(path.name, files)
        raise UsageError(f"there is no experiment file {path}{near}").with_command(FIRST_COMMAND)
    if path.suffix != ".toml":
        from medstress.datasets.guess import ENDINGS

        if path.suffix.lower() in ENDINGS:
            raise UsageError(
                f"{path} holds data; {expected}, or for a first run {setting('data', str(path))} "
                f"{setting('model', 'NAME')}"
            ).with_command(command("check", path))
    if (path / DATABASE).is_file():
        error = UsageError(f"{path} is the folder of a run; {expected}")
        raise error.with_command(command("summary", path))
    if path.is_dir():
        raise UsageError(f"{path} is a folder; {expected}").with_command(FIRST_COMMAND)
    return Source(text=read_text(path), name=path.name, base=path.resolve().parent, path=name)


def resolve(
    experiment: str | Path | Mapping[str, Any] | Experiment | Source,
    overrides: Sequence[str] = (),
    needs: Sequence[str] = NEEDS,
    complete: Callable[[dict[str, Any]], None] = lambda _: None,
) -> tuple[Experiment, str, Path]:
    """Read, override and check an experiment in any of its forms.

    Args:
        experiment: a TOML file, the name of a shipped recipe, the text of a file as a `Source`, a
            dict of the same shape, or a checked `Experiment`.
        overrides: `table.key=value` or `table.NAME.key=value`, values as in TOML.
        needs: the tables that the command needs.
        complete: fills in what the command decides, before the check.

    Returns:
        The checked experiment; its text, for the manifest; the folder that relative paths start
        from.

    Raises:
        UsageError: one sentence: what was expected, what came, in which line, what to do.
    """
    if isinstance(experiment, str | Path | Source):
        source = find_source(experiment)
        name, text, base = source.name, source.text, source.base
        raw = parse_toml(text, source.path or name)
    elif isinstance(experiment, Mapping | Experiment):
        name, text, base, raw = "experiment", "", Path.cwd(), plain_tables(experiment)
    else:
        raise UsageError(
            f"experiment: expected a TOML file, a dict or an Experiment, got {experiment!r}"
        )
    before = copy.deepcopy(raw)
    apply_overrides(raw, overrides)
    complete(raw)
    checked = check_experiment(raw, Where(name, text, overrides, raw), needs)
    return checked, text or toml_text(before), base


def apply_overrides(raw: dict[str, Any], overrides: Sequence[str]) -> None:
    """Apply `--set` to a parsed file, in place."""
    for override in overrides:
        target, equals, value_text = override.partition("=")
        parts = [part.strip() for part in target.split(".")]
        if not equals or len(parts) < 2:
            raise UsageError(
                f"{setting('set', override)}: expected table.key=value or table.NAME.key=value, "
                "e.g. attack.budget=4"
            )
        table, key, name = parts[0], parts[-1], ".".join(parts[1:-1])
        try:
            value = tomllib.loads(f"value = {value_text.strip()}")["value"]
        except (ValueError, RecursionError):  # not TOML: a text, which is checked below
            value = value_text.strip()
        check_toml({key: value}, setting("set", target))
        for entry in _entries(raw, table, name, override):
            if not isinstance(entry, dict):
                raise UsageError(
                    f"{setting('set', override)}: {table} must be a table, got {entry!r}"
                )
            before = own_name(table, entry) if table in _PLACES else ""
            entry[key] = value
            if table in _PLACES and before != own_name(table, entry):
                _rename(raw, table, before, own_name(table, entry))


def _rename(raw: dict[str, Any], table: str, before: str, now: str) -> None:
    """Let criteria, and prompts by data set, follow an entry that an override renames."""
    for criterion in raw.get("require", ()):
        where, place = criterion.get("where"), _PLACES[table]
        if isinstance(where, dict) and where.get(place) == before:
            where[place] = now
    for victim in raw.get("victim", ()) if table == "dataset" else ():
        prompt = victim.get("prompt") if isinstance(victim, dict) else None
        if isinstance(prompt, dict) and before in prompt:
            victim["prompt"] = {now if name == before else name: p for name, p in prompt.items()}


def _entries(raw: dict[str, Any], table: str, name: str, override: str) -> list[Any]:
    """Return the entries of a table that an override changes."""
    here = setting("set", override)
    if table not in TABLES:
        raise UsageError(f"{here}: {unknown('table', table, TABLES)}")
    value = raw.setdefault(table, [] if table in ARRAYS else {})
    if table == "role" and isinstance(value, dict) and name:
        return [value.setdefault(name, {})]
    entries = value if isinstance(value, list) else [value]
    if not entries:
        raise UsageError(f"{here}: there is no [[{table}]] entry to change; write one in a file")
    if not name or not all(isinstance(entry, dict) for entry in entries):
        return entries

    def called(entry: Mapping[str, Any]) -> str | None:
        own = own_name(table, entry) if table in _PLACES else entry.get("name")
        return entry.get("label") or own

    matching = [one for one in entries if name in (one.get("name"), one.get("label"), called(one))]
    if not matching:
        names = [str(own) for own in map(called, entries) if own is not None]
        raise UsageError(
            f"{here}: no [[{table}]] entry is called {name!r}{did_you_mean(name, names)} "
            f"(there are: {', '.join(names) or 'none with a name'})"
        )
    return matching


def check_experiment(
    raw: Mapping[str, Any], where: Where | None = None, needs: Sequence[str] = NEEDS
) -> Experiment:
    """Check the tables of a file, or of Python, where they may be checked tables already.

    Raises:
        UsageError: see `resolve`.
    """
    where = where or Where("experiment", raw=raw)
    for table in raw:
        if table not in TABLES:
            raise UsageError(f"{where.key('', table)}: {unknown('table', table, TABLES)}")
    for table in needs:
        if table not in raw or (table in ARRAYS and not raw[table]):
            shown = f"[[{table}]]" if table in ARRAYS else f"[{table}]"
            raise UsageError(f"{where.file}: the table {shown} is missing")
    with refusing(Experiment, where.key):
        return Experiment.model_validate(raw)


def plain_tables(tables: Mapping[str, Any] | Experiment) -> dict[str, Any]:
    """Return what Python gives for an experiment as a parsed file would have it."""
    raw = given_keys(tables)
    of_python = {"victim": config.function_keys, "dataset": config.row_keys}
    for table in ARRAYS:
        if table in raw:
            entries = raw[table] if isinstance(raw[table], list) else [raw[table]]
            keys_of = of_python.get(table, given_keys)
            raw[table] = [given_keys(keys_of(one)) for one in entries]
    return dict(raw)


# -- writing ---------------------------------------------------------------------------------------


_PATHS = ("path", "annotations", "cache", "run", "model", "target", "prompt")
"""Keys whose word may be a file or folder; of other keys it is one if it has a dot or a slash."""
_NO_PATHS = ("name", "label", "where")
"""Keys that name entries, even if a name is made of a path."""


def toml_text(tables: Mapping[str, Any]) -> str:
    """Return the tables of an experiment as a file."""
    parts = []
    for table, content in tables.items():
        for row in content if table in ARRAYS else [content]:
            header = f"[[{table}]]" if table in ARRAYS else f"[{table}]"
            named = {f"[{table}.{k}]": keys for k, keys in row.items()} if table == "role" else {}
            for title, keys in (named or {header: row}).items():
                lines = (f"{toml_key(key)} = {toml_value(value)}" for key, value in keys.items())
                parts.append("\n".join([title, *lines]))
    return "\n\n".join(parts) + "\n"


def written(
    experiment: Experiment,
    base: Path,
    to: Path | None = None,
    limit: int | None = None,
    given: Mapping[str, Any] | None = None,
) -> str:
    """Return an experiment as a file that runs to the same fingerprint.

    Args:
        experiment: the experiment.
        base: the folder that its relative paths start from.
        to: the file; in another folder than `base` its paths start from there.
        limit: most items of each data set.
        given: text and overrides that it was made of: a text in which nothing is changed is kept
            with its comments, and entries that are switched off stay so.
    """
    folder = base if to is None else to.parent
    is_here = folder.resolve() == base.resolve()
    tables, off = given_keys(experiment), dict[str, list[Any]]()
    if given is not None:
        if is_here and limit is None and not given["overrides"]:
            return str(given["experiment"])
        raw = parse_toml(given["experiment"], "experiment")
        apply_overrides(raw, given["overrides"])
        off = {
            name: [entry for entry in raw[name] if not is_used(entry)]
            for name in ARRAYS
            if isinstance(raw.get(name), list)
        }
    labels = {
        "dataset": config.labels_of(experiment.dataset),
        "entities": config.labels_of(experiment.entities),
        "victim": config.labels_of(experiment.victim),
    }
    for table in tables["dataset"] if limit is not None else ():
        table["limit"] = min(limit, table.get("limit", limit))
    for name, own in tables.items():
        moved = own if is_here else _moved(own, base, folder)
        for i, label in enumerate(labels.get(name, ())):
            if moved[i] != own[i]:  # a name that is made of a path stays as it is
                moved[i].setdefault("label" if name == "dataset" else "name", label)
        tables[name] = [*moved, *off.get(name, ())] if name in ARRAYS else moved
    return toml_text(tables)


def _moved(value: Any, base: Path, folder: Path, key: str = "") -> Any:
    """Return values in which relative paths that are there start from another folder."""
    if key in _NO_PATHS:
        return value
    if isinstance(value, Mapping):
        return {name: _moved(own, base, folder, name) for name, own in value.items()}
    if isinstance(value, list):
        return [_moved(own, base, folder, key) for own in value]
    may_be = key in _PATHS or (isinstance(value, str) and set("./") & set(value))
    if not isinstance(value, str) or not value or not may_be:
        return value
    head, colon, function = value.rpartition(":") if ".py:" in value else (value, "", "")
    path = Path(head)
    if path.is_absolute() or head.startswith("~") or not (base / path).exists():
        return value
    return os.path.relpath(base / path, folder) + colon + function
