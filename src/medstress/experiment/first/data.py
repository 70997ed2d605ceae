"""What a first experiment is made of, and its data: the table, and what the rows hold."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from medstress.core.errors import DataError, UsageError
from medstress.datasets.guess import ENDINGS, guess_dataset
from medstress.experiment.file.reading import apply_overrides, check_experiment
from medstress.experiment.plan.dataset_parts import DatasetPart, load_datasets
from medstress.experiment.plan.parts import kind_of_datasets
from medstress.kinds import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """The values of a first experiment; a value of None stands for what fits."""

    data: str
    """A file, a folder, a data set of `medstress list datasets`, or `owner/name` on the hub."""
    model: str
    """A folder, a `.gguf` file, `file.py:function`, `mock`, `smollm2`, the name that the server at
    `base_url` knows, or a hub id."""
    base_url: str | None = None
    """The address of a server."""
    api_key_env: str | None = None
    """The environment variable that holds the server's key."""
    entities: tuple[str, ...] | None = None
    """Groups: of `drugs`, `diseases`; default both."""
    attack: str | None = None
    """Name of an attack; default: what fits the data."""
    budget: int | None = None
    """Perturbed queries per item; default: the attack's."""
    columns: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    """Field -> its column in the data."""
    answer_base: int | None = None
    """The number of the first option where answers are numbers."""


_PATHS = ("path", "perturbed", "annotations")
_SETTLING = ("answer_base", "columns", "encoding", "sheet", "split", "scheme", "names")
"""Keys of `[[dataset]]` that the message about unclear rows names."""
_LACKS = re.compile(r"^dataset '\w+' needs the key '(\w+)'")
"""A named data set of which the user has the file."""
_SEVERAL = "expected one file of"
"""In the message about a folder with several tables."""
_MOST_FILES = 3
"""Tables of a folder that the message names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstData:
    """The data, read once to see what fits them."""

    table: dict[str, Any]
    """The keys of `[[dataset]]`; paths are relative to the experiment file."""
    part: DatasetPart
    """The items."""
    kind: Kind
    """Their kind."""

    @property
    def has_passages(self) -> bool:
        """Whether questions come with a text to read."""
        return self.kind.draws_names and any(item.passage for item in self.part.all_items)

    @property
    def sentence(self) -> str:
        """How many items there are, and how their rows were read."""
        counted = f"{len(self.part.all_items):,} {self.kind.name}"
        return self.part.loaded.understood or counted


def read_data(choices: Choices, base: Path, overrides: Sequence[str] = ()) -> FirstData:
    """Read the data that the user named.

    Args:
        choices: what the user gave; only the data, columns and answer base are read.
        base: the folder of the experiment file.
        overrides: as --set; those of `[[dataset]]` go into its table.

    Raises:
        UsageError: there is no such data, or its rows are not clear; the message says which flag
            settles it.
        DataError: a bad row.
    """
    table = dict(guess_dataset(choices.data))
    if choices.columns:
        table["columns"] = dict(choices.columns)
    if choices.answer_base is not None:
        table["answer_base"] = choices.answer_base
    for key in _PATHS:
        if key in table:
            table[key] = from_base(str(table[key]), base)
    return read_table(table, base, overrides)


def read_table(table: Mapping[str, Any], base: Path, overrides: Sequence[str] = ()) -> FirstData:
    """Read the data of a `[[dataset]]` table.

    Args:
        table: its keys.
        base: the folder that its paths start from.
        overrides: as --set; those of `[[dataset]]` go into the table.

    Raises:
        UsageError, DataError: see `read_data`.
    """
    raw: dict[str, Any] = {"experiment": {"name": "data"}, "dataset": [dict(table)]}
    mine = [each for each in overrides if each.partition(".")[0].strip() == "dataset"]
    apply_overrides(raw, mine)
    tables = check_experiment(raw, needs=("experiment", "dataset")).dataset
    try:
        parts = load_datasets(tables, base, None)
    except (UsageError, DataError) as error:
        is_hub = table["name"] == "hub"
        if is_hub and _SEVERAL in str(error) and (files := _tables(_given(table, base))):
            here = " or ".join(f"--data {each}" for each in files[:_MOST_FILES])
            raise UsageError(f"{error} (here: {here})").with_flag("--data", files[0]) from error
        told = type(error)(f"{error}{_settled_by(str(error), table)}")
        if lacking := _LACKS.search(str(error)):
            told.with_flag("--set", f"dataset.{lacking[1]}=FILE")
        raise told from error
    return FirstData(table=raw["dataset"][0], part=parts[0], kind=kind_of_datasets(parts))


def from_base(given: str, base: Path) -> str:
    """Return a path as it is written in a file in the folder `base`.

    >>> from_base("/data/q.csv", Path("/work"))
    '/data/q.csv'
    """
    path = Path(given).expanduser()
    if path.is_absolute() or base.resolve() == Path.cwd().resolve():
        return given
    return Path(os.path.relpath(path.absolute(), base.resolve())).as_posix()


def _given(table: Mapping[str, Any], base: Path) -> Path:
    """Return the path of a table as one types it in the working folder."""
    path = base.resolve() / Path(str(table.get("path", ""))).expanduser()
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _tables(folder: Path) -> list[str]:
    """Return the files with data that lie in a folder itself."""
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    return [str(each) for each in found if each.is_file() and each.suffix.lower() in ENDINGS]


def _settled_by(message: str, given: Mapping[str, Any]) -> str:
    """Return how to give the key that a message names, on a command line without a file."""
    flags = {"columns": "--columns FIELD=COLUMN", "answer_base": "--answer-base 0 or 1"}
    settling = [key for key in _SETTLING if key not in given]
    named = [key for key in settling if re.search(rf"\b{key} = ", message)]
    found = [flags.get(key, f"--set dataset.{key}=VALUE") for key in named]
    found = [flag for flag in found if flag.partition(" ")[0] not in message]
    return f" (here: {' or '.join(found)})" if found else ""
