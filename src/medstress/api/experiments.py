"""An experiment built in Python, with the keys of an experiment file."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from medstress.api.given import Answering, entries, plain, tables_of
from medstress.attacks.protocol import Attack as BuiltAttack
from medstress.core.errors import UsageError
from medstress.experiment.file import config
from medstress.experiment.file.config import TomlTable
from medstress.experiment.file.reading import check_experiment, unknown

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
