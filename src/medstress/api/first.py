"""A first experiment from a few values, as `medstress run --data FILE --model NAME` makes it."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any, cast

from medstress.api.given import attack_keys, function_keys
from medstress.attacks.protocol import Attack
from medstress.core.errors import UsageError
from medstress.experiment.file.sources import Source
from medstress.experiment.first.choices import Choices
from medstress.experiment.first.compose import compose, experiment_name

_STANDS_FOR_A_FUNCTION = "mock"
"""A model that is asked as a function is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class First:
    """The arguments of `ms.run` that stand for an experiment; None stands for what fits."""

    data: str | Path | None = None
    model: str | Path | Callable[..., Any] | None = None
    base_url: str | None = None
    api_key_env: str | None = None
    entities: str | Sequence[str] | None = None
    attack: str | Attack | None = None
    budget: int | None = None
    columns: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    answer_base: int | None = None

    def __post_init__(self) -> None:
        whole_number("budget", self.budget)

    @property
    def given(self) -> list[str]:
        """The arguments that are given."""
        return [name for name in self.__slots__ if getattr(self, name) not in (None, {})]

    def experiment(self, overrides: Sequence[str] = ()) -> Source | dict[str, Any]:
        """Compose the experiment: its text, or its tables where an object stands for one.

        Raises:
            UsageError, DataError: a value is missing or does not fit; the message names its flag.
        """
        missing = [name for name in ("data", "model") if getattr(self, name) is None]
        if missing:
            raise UsageError(
                f"run: {' and '.join(missing)} missing; give an experiment, or for example "
                'ms.run(data="questions.csv", model=answer) with a function `answer`'
            )
        for name in ("data", "model"):
            value = getattr(self, name)
            if not isinstance(value, str | PathLike) and not (name == "model" and callable(value)):
                raise UsageError(f"{name}: expected a path or a name, got {value!r}")
        if callable(self.model) and (self.base_url or self.api_key_env):
            raise UsageError("run: base_url and api_key_env are for a server, model is a function")
        attack = attack_keys(self.attack) if isinstance(self.attack, Attack) else None
        if attack is not None and self.budget is not None:
            raise UsageError("run: budget is for the name of an attack: give it to the attack")
        entities = (self.entities,) if isinstance(self.entities, str) else self.entities
        choices = Choices(
            data=str(self.data),
            model=_STANDS_FOR_A_FUNCTION if callable(self.model) else str(self.model),
            base_url=self.base_url,
            api_key_env=self.api_key_env,
            entities=None if entities is None else tuple(entities),
            attack=attack["name"] if attack is not None else cast("str | None", self.attack),
            budget=self.budget,
            columns=self.columns,
            answer_base=self.answer_base,
        )
        function = function_keys(self.model) if callable(self.model) else None
        source = compose(choices, overrides=overrides).source
        if function is None and attack is None:
            return source
        tables = tomllib.loads(source.text)
        if attack is not None:
            tables["attack"] = [attack]
        if function is not None:
            (mock,) = tables["victim"]
            tables["victim"] = [{**mock, **function}]
            tables["experiment"]["name"] = experiment_name(replace(choices, model=function["name"]))
        return tables


def whole_number(name: str, value: Any) -> None:
    """Check an argument that is a whole number or None.

    Raises:
        UsageError: it is something else.
    """
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise UsageError(f"{name}: expected a whole number, got {value!r}")
