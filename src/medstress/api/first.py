"""A first experiment from a few values, as `medstress run --data FILE --model NAME` makes it."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from medstress.api.given import function_keys
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
    attack: str | None = None
    budget: int | None = None
    columns: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    answer_base: int | None = None

    @property
    def given(self) -> list[str]:
        """The arguments that are given."""
        return [name for name in self.__slots__ if getattr(self, name) not in (None, {})]

    def experiment(self, overrides: Sequence[str] = ()) -> Source | dict[str, Any]:
        """Compose the experiment: its text, or for a function its tables.

        Raises:
            UsageError, DataError: a value is missing or does not fit; the message names its flag.
        """
        missing = [name for name in ("data", "model") if getattr(self, name) is None]
        if missing:
            raise UsageError(
                f"run: {' and '.join(missing)} missing; give an experiment, or for example "
                'ms.run(data="questions.csv", model=answer) with a function `answer`'
            )
        entities = (self.entities,) if isinstance(self.entities, str) else self.entities
        choices = Choices(
            data=str(self.data),
            model=_STANDS_FOR_A_FUNCTION if callable(self.model) else str(self.model),
            base_url=self.base_url,
            api_key_env=self.api_key_env,
            entities=None if entities is None else tuple(entities),
            attack=self.attack,
            budget=self.budget,
            columns=self.columns,
            answer_base=self.answer_base,
        )
        if not callable(self.model):
            return compose(choices, overrides=overrides).source
        if self.base_url is not None or self.api_key_env is not None:
            raise UsageError("run: base_url and api_key_env are for a server, model is a function")
        keys = function_keys(self.model)
        tables = tomllib.loads(compose(choices, overrides=overrides).source.text)
        (mock,) = tables["victim"]
        tables["victim"] = [{**mock, **keys}]
        tables["experiment"]["name"] = experiment_name(replace(choices, model=keys["name"]))
        return tables
