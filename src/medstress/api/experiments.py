"""An experiment built in Python, with the keys of an experiment file."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from medstress.api.checked import checked
from medstress.api.given import MAIN, Answering, entries, plain, tables_of
from medstress.api.rebasing import from_folder
from medstress.attacks.protocol import Attack as BuiltAttack
from medstress.core.errors import UsageError
from medstress.experiment.file import config
from medstress.experiment.file.reading import check_experiment
from medstress.experiment.file.refusing import unknown
from medstress.experiment.file.table import TomlTable
from medstress.experiment.first.compose import Key, Section, written
from medstress.files.writing import write_text

T = TypeVar("T")
Keys: TypeAlias = Mapping[str, Any]
"""A table as a dict."""
Several: TypeAlias = T | Keys | Sequence[T | Keys]
"""One entry of an array of tables, or a list of them."""
_NEEDS = ("experiment", "dataset")
"""Tables without which no command does anything."""


class Experiment(config.Experiment):
    """A checked experiment, as `ms.run` takes it.

    The keys of `[experiment]` are arguments of their own; every other argument is a table, or a
    list of tables where a file may have several. Relative paths start from the working folder.
    """

    if not TYPE_CHECKING:  # type checkers and editors see the arguments of `__init__`

        def __new__(cls, *given: Any, **keys: Any) -> Any:
            """Refuse unknown arguments with a suggestion."""
            known = list(inspect.signature(cls.__init__).parameters)[1:]
            for key in keys:
                if key not in known:
                    raise UsageError(f"Experiment: {unknown('argument', key, known)}")
            return super().__new__(cls)

    def __init__(
        self,
        *,
        dataset: Several[config.DatasetTable] = (),
        name: str | None = None,
        entities: Several[config.EntitiesTable] = (),
        victim: Several[config.VictimTable | Callable[..., Any] | Answering] = (),
        attack: Several[config.AttackTable | BuiltAttack] = (),
        role: config.RolesTable | Mapping[str, config.RoleTable | Any] | None = None,
        require: Several[config.RequireTable] = (),
        slices: config.SlicesTable | Keys | None = None,
        analysis: config.AnalysisTable | Keys | None = None,
        test: config.SignificanceTable | Keys | None = None,
        tune: config.TuneTable | Keys | None = None,
        train: config.TrainTable | Keys | None = None,
        seeds: Sequence[int] | None = None,
        max_failed: int | None = None,
        max_queries: int | None = None,
        max_tokens: int | None = None,
        max_usd: float | None = None,
        max_seconds: float | None = None,
        trial_seconds: float | None = None,
        timeout_seconds: float | None = None,
        cache: str | None = None,
        controls: bool | Sequence[str] | None = None,
        flip_check: bool | None = None,
        group_readable: bool | None = None,
        experiment: config.ExperimentTable | Keys | None = None,
    ) -> None:
        """Check the experiment.

        Args:
            dataset: where items come from (`ms.Dataset`).
            name: of the experiment and of its default run folder.
            entities: groups of entities that attacks replace (`ms.Entities`).
            victim: models under attack (`ms.Victim`), or functions and objects that answer.
            attack: `ms.Attack`, or an attack such as ``ms.attacks.EntitySubstitution(...)``.
            role: `attacker`, `paraphraser` and `judge`, each an `ms.Role`.
            require: acceptance criteria (`ms.Require`).
            slices: parts of the data (`ms.Slices`).
            analysis: further analyses (`ms.Analysis`).
            test: significance tests (`ms.Significance`).
            tune: settings of `ms.tune` (`ms.Tune`).
            train: settings of `ms.train` (`ms.Train`).
            seeds: one trial for each item and seed.
            max_failed: failed trials that are allowed.
            max_queries: stop cleanly after so many computed calls.
            max_tokens: stop cleanly after about so many tokens.
            max_usd: stop cleanly after about so many US dollars.
            max_seconds: stop cleanly after so many seconds of asking.
            trial_seconds: most seconds of a trial.
            timeout_seconds: most seconds of a request.
            cache: folder of answers that runs share, or `default`.
            controls: control arms beside every attack.
            flip_check: ask every success again, alone.
            group_readable: let the owner's group read the run folder.
            experiment: the keys of `[experiment]` as one table, in place of arguments.

        Raises:
            UsageError: one sentence, as for a file.
        """
        settings = {
            **({"name": name, "seeds": seeds, "max_failed": max_failed}),
            **({"max_queries": max_queries, "max_tokens": max_tokens, "max_usd": max_usd}),
            **({"max_seconds": max_seconds, "cache": cache}),
            **({"trial_seconds": trial_seconds, "timeout_seconds": timeout_seconds}),
            **({"controls": controls, "flip_check": flip_check}),
            **({"group_readable": group_readable}),
        }
        tables = {
            "experiment": {**plain(experiment or {}), **plain(settings)},
            "dataset": entries(dataset),
            "entities": entries(entities),
            "victim": entries(victim),
            "attack": entries(attack),
            "require": entries(require),
            **{"role": role, "slices": slices, "analysis": analysis},
            **{"test": test, "tune": tune, "train": train},
        }
        given = {key: value for key, value in tables_of(tables).items() if value != []}
        checked = check_experiment(given, needs=_NEEDS)
        TomlTable.__init__(self, **{key: getattr(checked, key) for key in checked.model_fields_set})

    @checked
    def to_toml(self, to: str | Path | None = None) -> str:
        """Return the experiment as the text of a file with the keys that were given.

        Relative paths of a file start from its folder, so `to` in another folder changes them. A
        function of a notebook or script cannot be found from a file: a comment says so; put it
        into a module first.

        Args:
            to: a file to write it into as well; one that holds something else is left as it is.

        Raises:
            UsageError: the file exists with another text, or cannot be written.
        """
        tables = plain(self)
        if to is not None:
            tables = from_folder(tables, Path(to).expanduser().parent)
        text = written(f"The experiment {self.experiment.name}.", list(_sections(tables)))
        if to is not None:
            _write(Path(to).expanduser(), text)
        return text


def _sections(tables: Mapping[str, Any]) -> Iterator[Section]:
    """Yield the tables in the order of the docs."""
    for table in config.Experiment.model_fields:
        found = tables.get(table)
        if table == "role" and found is not None:
            for name, role in found.items():
                several = role if isinstance(role, list) else None
                for each in several or [role]:
                    yield _section(f"role.{name}", each, is_array=several is not None)
        elif isinstance(found, list):
            yield from (_section(table, each, is_array=True) for each in found)
        elif found is not None:  # an empty table, of defaults alone, means something too
            yield _section(table, found, is_array=False)


def _section(name: str, keys: Mapping[str, Any], *, is_array: bool) -> Section:
    header = f"[[{name}]]" if is_array else f"[{name}]"
    found = [Key(name=key, value=each, remark=_remark(key, each)) for key, each in keys.items()]
    return Section(header=header, keys=found)


def _remark(key: str, value: Any) -> str:
    """Say of a function of this session that a file cannot name it."""
    if key == "target" and str(value).startswith(f"{MAIN}:"):
        return "of a notebook or script: put it into a module, and name it as file.py:function"
    return ""


def _write(path: Path, text: str) -> None:
    try:
        if path.exists() and path.read_bytes() != text.encode():
            raise UsageError(f"{path} exists with another text; give another name, or remove it")
        write_text(path, text)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}; give another file") from error
