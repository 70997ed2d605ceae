"""A first experiment from a few values, as `medstress run --data FILE --model NAME` makes it."""

from __future__ import annotations

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
from medstress.experiment.first import (
    Choices,
    FirstAttack,
    FirstData,
    compose,
    draws_names,
    find_attack,
    find_victim,
    given_attack,
    read_data,
    read_table,
)

Model: TypeAlias = str | Path | Callable[..., Any] | Answering | VictimTable | Mapping[str, Any]
"""What `ms.run` takes as the model."""
OneAttack: TypeAlias = str | Attack | AttackTable | Mapping[str, Any]
"""What it takes as an attack."""
Groups: TypeAlias = str | EntitiesTable | Sequence[str] | Sequence[EntitiesTable]
"""What it takes as groups of entities."""


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
        values = {name: getattr(self, name) for name in self.__slots__}
        return [name for name, value in values.items() if value is not None and value != {}]

    def experiment(self, overrides: Sequence[str] = ()) -> Source:
        """Compose the experiment.

        Raises:
            UsageError, DataError: a value is missing or does not fit; the message names it.
        """
        attacks = [] if self.attack is None else [plain(one) for one in entries(self.attack)]
        is_file, is_name = (isinstance(one, str | PathLike) for one in (self.data, self.model))
        self._check(attacks, is_file=is_file, is_name=is_name)
        named = dict.fromkeys(
            one if isinstance(one, str) else str(one.get("name", "")) for one in attacks
        )
        table = {} if is_file else plain(self.data)
        title = next(filter(None, map(table.get, ("label", "path", "hub", "name"))), "data")
        groups = None if self.entities is None else tuple(entries(self.entities))
        victim = None if is_name else victim_keys(self.model)
        choices = Choices(
            data=str(self.data if is_file else title),
            model=str(self.model if victim is None else victim.get("name", "model")),
            base_url=self.base_url,
            api_key_env=self.api_key_env,
            entities=None if groups and isinstance(groups[0], EntitiesTable) else groups,
            attack=", ".join(named) or None,
            budget=self.budget,
            columns=self.columns,
            answer_base=self.answer_base,
        )
        data = read_data(choices, overrides) if is_file else read_table(table, overrides)
        if victim is not None:
            if victim.get("backend") == "python":  # asked as fits the data
                like = find_victim(replace(choices, model="mock"), data, scores=False)
                victim = {**like, **victim}
            check_table("victim", victim)
        made = [self._attack(one, choices, data, len(attacks)) for one in attacks or [None]]
        return compose(choices, overrides, data, attacks=made, victim=victim)

    def _check(self, attacks: Sequence[Any], *, is_file: bool, is_name: bool) -> None:
        missing = [name for name in ("data", "model") if getattr(self, name) is None]
        if missing:
            raise UsageError(
                f"run: {' and '.join(missing)} missing; give an experiment, or for example "
                'ms.run(data="questions.csv", model=answer) with a function `answer`'
            )
        for name in ("data", "model"):
            if not str(getattr(self, name)).strip():
                raise UsageError(f"{name}: expected a path or a name, got an empty text")
        if self.attack is not None and not attacks:
            raise UsageError("attack: expected an attack or a list of them, got an empty list")
        if not is_name and (self.base_url or self.api_key_env):
            raise UsageError(
                "run: base_url and api_key_env are for a server whose model is given by its name"
            )
        if not is_file and (self.columns or self.answer_base is not None):
            name = "columns" if self.columns else "answer_base"
            raise UsageError(f"run: {name} is a key of the data set: give it there")
        if self.budget is not None and not all(isinstance(one, str) for one in attacks):
            raise UsageError("run: budget is for the name of an attack: give it to the attack")

    def _attack(self, keys: Any, choices: Choices, data: FirstData, n: int) -> FirstAttack:
        """Return one of `n` attacks, from its name or its keys, with the groups that are given."""
        name = str(keys.get("name")) if isinstance(keys, Mapping) else keys
        if n > 1 and not draws_names(str(name)):
            choices = replace(choices, entities=None)  # they are for another attack
        made = (
            given_attack(keys, choices)
            if isinstance(keys, Mapping)
            else find_attack(replace(choices, attack=keys), data)
        )
        groups = [one for one in entries(self.entities) if isinstance(one, EntitiesTable)]
        if groups and not made.groups and n <= 1:
            raise UsageError(f"entities: {made.table['name']} draws no names; leave entities out")
        return replace(made, groups=tuple(plain(groups))) if groups and made.groups else made
