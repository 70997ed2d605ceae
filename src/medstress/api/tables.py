"""The tables of an experiment file as classes for Python: the same keys, checked when made.

Paths may be `Path` objects, lists may be tuples, and an error is a `UsageError`. The keys of every
table: docs/schema.md.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar, get_type_hints

from medstress.api.checked import checked
from medstress.api.given import Answering, function_keys, plain
from medstress.experiment.file import config
from medstress.experiment.file.config import TomlTable
from medstress.experiment.file.reading import check_experiment, check_table

_ANY = {
    "experiment": {"name": "any"},
    "dataset": [{"name": "sample"}],
    "victim": [{"backend": "mock"}],
}
"""The rest of an experiment, for the check of one attack."""


class _Given(TomlTable):
    """A table that is given from Python."""

    _table: ClassVar[str]

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        """Show the types of the keys without the limits of their values."""
        types, signature = get_type_hints(cls), inspect.signature(cls)
        cls.__signature__ = signature.replace(
            parameters=[
                each.replace(annotation=types.get(name, each.annotation))
                for name, each in signature.parameters.items()
            ]
        )

    def __init__(self, **keys: Any) -> None:
        """Check the keys.

        Raises:
            UsageError: a key is unknown, missing, or has a wrong value.
        """
        given = plain(keys)
        check_table(self._table, given)
        super().__init__(**given)


class Dataset(_Given, config.DatasetTable):
    """`[[dataset]]`: where items come from."""

    _table = "dataset"


class Entities(_Given, config.EntitiesTable):
    """`[[entities]]`: a group of entities that attacks replace."""

    _table = "entities"


class Victim(_Given, config.VictimTable):
    """`[[victim]]`: a model under attack."""

    _table = "victim"

    @classmethod
    @checked
    def of(
        cls, function: Callable[..., Any] | Answering, *, version: str | None = None, **keys: Any
    ) -> Victim:
        """Return a function, class or object as a victim.

        Args:
            function: receives a list of prompts and returns a list of answers (docs: victims).
            version: identifies it instead of its source: change it whenever its answers change.
            keys: other keys of the table, such as `name` and `batch_size`.

        Raises:
            UsageError: a key does not fit, or the function cannot be identified.
        """
        return cls(**function_keys(function, version, **keys))


class Role(_Given, config.RoleTable):
    """`[role.attacker]`, `[role.paraphraser]`, `[role.judge]`: another model that attacks ask."""

    _table = "role"

    def __init__(self, **keys: Any) -> None:
        """Check the keys; see `_Given`."""
        given = plain(keys)
        check_table("role", {"attacker": given})
        TomlTable.__init__(self, **given)


class Attack(_Given, config.AttackTable):
    """`[[attack]]` by name; the attacks of `medstress.attacks` can stand in its place."""

    _table = "attack"

    def __init__(self, **keys: Any) -> None:
        """Check the keys, and the attack's own parameters.

        Raises:
            UsageError: there is no such attack, or it refuses a parameter.
        """
        check_experiment({**_ANY, "attack": [plain(keys)]})
        super().__init__(**keys)


class Tune(_Given, config.TuneTable):
    """`[tune]`: how `medstress tune` chooses n."""

    _table = "tune"


class Train(_Given, config.TrainTable):
    """`[train]`: how `medstress train` trains."""

    _table = "train"


class Analysis(_Given, config.AnalysisTable):
    """`[analysis]`: analyses that ask more queries."""

    _table = "analysis"


class Significance(_Given, config.SignificanceTable):
    """`[test]`: significance tests of successes."""

    _table = "test"


class Require(_Given, config.RequireTable):
    """`[[require]]`: an acceptance criterion."""

    _table = "require"


class Slices(_Given, config.SlicesTable):
    """`[slices]`: parts of the data with rates of their own."""

    _table = "slices"
