"""A first experiment from a few values, as `medstress run --data FILE --model NAME` makes it."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

from medstress.api.given import Answering, entries, plain, victim_keys
from medstress.attacks.protocol import Attack
from medstress.core.errors import UsageError
from medstress.experiment.file.config import AttackTable, DatasetTable, EntitiesTable, VictimTable
from medstress.experiment.file.reading import Source, check_table
from medstress.experiment.first.attack import FirstAttack, draws_names, find_attack, given_attack
from medstress.experiment.first.compose import compose
from medstress.experiment.first.data import Choices, FirstData, read_data, read_table
from medstress.experiment.first.victim import FirstVictim, find_victim

Model: TypeAlias = str | Path | Callable[..., Any] | Answering | VictimTable | Mapping[str, Any]
"""What `ms.run` takes as the model."""
OneAttack: TypeAlias = str | Attack | AttackTable | Mapping[str, Any]
"""What it takes as an attack."""
Groups: TypeAlias = str | EntitiesTable | Sequence[str] | Sequence[EntitiesTable]
"""What it takes as groups of entities."""
_ASKED_ALIKE = "mock"
"""A model that is asked as a function is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class First:
    """The arguments of `ms.run` that stand for an experiment; None stands for what fits."""

    data: str | Path | DatasetTable | Mapping[str, Any] | None = None
    model: Model | None = None
    base_url: str | None = None
    api_key_env: str | None = None
    entities: Groups | None = None
    attack: OneAttack | Sequence[OneAttack] | None = None
    budget: int | None = None
    columns: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    answer_base: int | None = None

    @property
    def given(self) -> list[str]:
        """The arguments that are given."""
        found = {name: getattr(self, name) for name in self.__slots__}
        return [name for name, value in found.items() if value is not None and value != {}]

    def experiment(self, overrides: Sequence[str] = ()) -> Source | dict[str, Any]:
        """Compose the experiment: its text, or the tables of several attacks.

        Raises:
            UsageError, DataError: a value is missing or does not fit; the message names its flag.
        """
        self._check()
        base = Path.cwd()
        choices = self._choices()
        data = (
            read_data(choices, base, overrides)
            if isinstance(self.data, str | PathLike)
            else read_table(plain(self.data), base, overrides)
        )
        victim = self._victim(choices, base, data)
        made = [
            compose(
                replace(choices, attack=", ".join(self._names) or None),
                overrides,
                data,
                attack=self._attack(each, choices, data),
                victim=victim,
            )
            for each in entries(self.attack)
        ]
        if len(made) == 1:
            return made[0]
        tables = [tomllib.loads(each.text) for each in made]
        # The first that has roles or groups has those of all.
        merged = {key: value for each in reversed(tables) for key, value in each.items()}
        return {**merged, "attack": [entry for each in tables for entry in each["attack"]]}

    def _check(self) -> None:
        missing = [name for name in ("data", "model") if getattr(self, name) is None]
        if missing:
            raise UsageError(
                f"run: {' and '.join(missing)} missing; give an experiment, or for example "
                'ms.run(data="questions.csv", model=answer) with a function `answer`'
            )
        for name in ("data", "model"):
            if not str(getattr(self, name)).strip():
                raise UsageError(f"{name}: expected a path or a name, got an empty text")
        if self.attack is not None and not entries(self.attack):
            raise UsageError("attack: expected an attack or a list of them, got an empty list")
        if not self._has_name and (self.base_url or self.api_key_env):
            raise UsageError(
                "run: base_url and api_key_env are for a server whose model is given by its name"
            )
        if not isinstance(self.data, str | PathLike):
            for name in ("columns", "answer_base"):
                if name in self.given:
                    raise UsageError(f"run: {name} is a key of the data set: give it there")
        if self.budget is not None and not all(isinstance(a, str) for a in self._asked):
            raise UsageError("run: budget is for the name of an attack: give it to the attack")

    @property
    def _has_name(self) -> bool:
        return isinstance(self.model, str | PathLike)

    @property
    def _asked(self) -> list[Any]:
        return [] if self.attack is None else [plain(each) for each in entries(self.attack)]

    @property
    def _names(self) -> list[str]:
        found = (each if isinstance(each, str) else each.get("name", "") for each in self._asked)
        return list(dict.fromkeys(map(str, found)))

    def _choices(self) -> Choices:
        table = {} if isinstance(self.data, str | PathLike) else plain(self.data)
        keys = (table.get(key) for key in ("label", "path", "hub", "name"))
        groups = None if self.entities is None else tuple(entries(self.entities))
        model = self.model if self._has_name else victim_keys(self.model).get("name", "model")
        return Choices(
            data=str(next(filter(None, keys), "data") if table else self.data),
            model=str(model),
            base_url=self.base_url,
            api_key_env=self.api_key_env,
            entities=None if groups and isinstance(groups[0], EntitiesTable) else groups,
            budget=self.budget,
            columns=self.columns,
            answer_base=self.answer_base,
        )

    def _victim(self, choices: Choices, base: Path, data: FirstData) -> FirstVictim | None:
        """Return the victim that has a table, asked as fits the data; None for a name."""
        if self._has_name:
            return None
        keys = victim_keys(self.model)
        if keys.get("backend") == "python":
            asked = find_victim(replace(choices, model=_ASKED_ALIKE), base, data, scores=False)
            keys = {**asked.table, **keys}
        check_table("victim", keys)
        return FirstVictim(table=keys)

    def _attack(self, given: OneAttack | None, choices: Choices, data: FirstData) -> FirstAttack:
        keys = given if given is None or isinstance(given, str) else plain(given)
        name = str(keys.get("name")) if isinstance(keys, Mapping) else keys
        if len(self._asked) > 1 and not draws_names(str(name)):
            choices = replace(choices, entities=None)  # they are for another attack
        found = (
            given_attack(keys, choices)
            if isinstance(keys, Mapping)
            else find_attack(replace(choices, attack=keys), data)
        )
        groups = [each for each in entries(self.entities) if isinstance(each, EntitiesTable)]
        if groups and not found.groups and len(self._asked) <= 1:
            raise UsageError(f"entities: {found.table['name']} draws no names; leave entities out")
        if not groups or not found.groups:
            return found
        return replace(found, groups=tuple(plain(groups)), remarks={})
