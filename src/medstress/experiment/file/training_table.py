"""`[train]`: the models and data of `medstress train`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_core import PydanticCustomError

from medstress.experiment.file.lists import distinct
from medstress.experiment.file.table import Count, NonEmpty, Seed, TomlTable

ORIGINAL = "original"
"""The model trained on the original data."""
ORIGINAL_TWICE = "original twice"
"""The model trained on two plain copies, with as many steps as models of a perturbed copy."""
UNTRAINED = "untrained"
"""The model before training."""
PUBLISHED_EPOCHS = 30
TRAIN_SPLIT = {"split": "train"}


class AdversarialTable(TomlTable):
    """An entry of `adversarial`: one more model for each seed."""

    attack: Annotated[tuple[NonEmpty, ...], Field(min_length=1)]
    """A label of `[[attack]]`, or a list; each item is then perturbed by a random one of them."""
    redraw: Literal["once", "epoch"] = "once"
    """Perturb the training data once, or anew for every epoch."""
    held_out_names: bool = False
    """Synonyms: keep the names that the attack puts into the test data out of training; training
    items that mention such a name are left out."""
    label: NonEmpty | None = None
    """Name in results; default: the labels of its attacks."""

    @field_validator("attack", mode="before")
    @classmethod
    def _attack(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else (value,)

    @property
    def name(self) -> str:
        """Name in results."""
        redrawn = ", redrawn" if self.redraw == "epoch" else ""
        held_out = ", held-out names" if self.held_out_names else ""
        return self.label or "+".join(self.attack) + redrawn + held_out


class TrainTable(TomlTable):
    """`[train]`."""

    choices: Literal["default", "as_published", "as_released"] = "default"
    """`as_published` and `as_released` set epochs = 30 and dev = 0, as in the paper. The training
    data stay the default: the originals and one perturbed copy."""
    model: NonEmpty
    """The model to fine-tune: a folder, a hub id, or `minilm`."""
    data: dict[str, Any] = TRAIN_SPLIT
    """Keys of `[[dataset]]` in which the training data differ from the attacked data."""
    dev: Annotated[float, Field(ge=0, lt=1)] | dict[str, Any] = 0.1
    """Data that decide which epoch is kept: a share of the training data (whole documents), or
    keys of `[[dataset]]` as in data. With 0 there are none, and the last epoch is kept."""
    folds: Annotated[int, Field(ge=2)] | None = None
    """Cross-validate the attacked data: every document is tested by a model trained on the other
    folds. Each seed splits the data anew, so that three seeds are three repeats."""
    untrained: bool = False
    """Pairs, with `bi_encoder`: also attack the model before training."""
    epochs: Count = 4
    """Passes over the training data."""
    batch_size: Count = 32
    """Items in a step; for long sentences, windows."""
    learning_rate: Annotated[float, Field(gt=0, lt=1)] = 5e-5
    """The highest learning rate; it rises and falls linearly."""
    warmup: Annotated[float, Field(ge=0, lt=1)] = 0.1
    """Share of the training in which the learning rate rises."""
    max_length: Annotated[int, Field(ge=8)] = 128
    """Most word pieces of one input; longer sentences are read in windows, longer pairs are cut."""
    patience: Annotated[int, Field(ge=0)] = 2
    """Stop after this many epochs without a better score on the dev data; 0: never, the default
    with twice = true."""
    seeds: Annotated[tuple[Seed, ...], Field(min_length=1)] = (0,)
    """One model of each kind for every seed."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Number type of the forward passes; weights stay float32."""
    device: NonEmpty = "auto"
    """`auto` (CUDA if available), `cpu`, `cuda`, `cuda:1`."""
    encoder: Literal["cross_encoder", "bi_encoder"] = "cross_encoder"
    """Pairs: one output for both texts together, or the cosine of two sentence vectors."""
    prompt: NonEmpty = "question"
    """Questions: the template before each option; it must not list the options."""
    twice: bool = False
    """Also train models on two plain copies (`original twice`), with as many steps as adversarial
    ones, to separate the effect of more training from that of perturbed copies. No training then
    stops early: patience is 0."""
    adversarial: tuple[AdversarialTable, ...] = ()
    """Models that are also trained on perturbed copies: tables such as
    `{attack = "swap_noise"}`."""

    @model_validator(mode="before")
    @classmethod
    def _choices(cls, data: Any) -> Any:
        """Change the defaults of other keys; keys in the file win."""
        if not isinstance(data, dict):
            return data
        is_published = data.get("choices") in ("as_published", "as_released")
        return {
            **({"epochs": PUBLISHED_EPOCHS, "dev": 0.0} if is_published else {}),
            **({"patience": 0} if data.get("twice") is True else {}),
            **data,
        }

    @model_validator(mode="after")
    def _of_equal_steps(self) -> TrainTable:
        if self.twice and self.patience:
            raise PydanticCustomError(
                "patience",
                "twice = true compares models with equal numbers of steps, but with patience = "
                "{patience} each may stop early; set patience to 0 or leave it out, or leave out "
                "twice",
                {"patience": self.patience},
            )
        return self

    @model_validator(mode="after")
    def _folded(self) -> TrainTable:
        if self.folds and isinstance(self.dev, dict):
            raise PydanticCustomError(
                "folds",
                "with folds the dev data are a share of the training data, such as dev = 0.2, or 0",
            )
        if self.folds and self.data not in ({}, TRAIN_SPLIT):
            raise PydanticCustomError(
                "folds", "with folds the attacked data are the training data; leave out 'data'"
            )
        return self

    @field_validator("seeds", mode="before")
    @classmethod
    def _seeds(cls, value: Any) -> Any:
        return distinct(value, "seeds")

    @field_validator("adversarial", mode="before")
    @classmethod
    def _adversarial(cls, value: Any) -> Any:
        if isinstance(value, tuple):
            return value
        entries = value if isinstance(value, list) else [value]
        found = tuple(map(_entry, entries))
        names = [entry.name for entry in found]
        for name in names:
            if name in (ORIGINAL, ORIGINAL_TWICE, UNTRAINED) or names.count(name) > 1:
                raise PydanticCustomError(
                    "adversarial",
                    "two models would be called {name}; give one of them a label",
                    {"name": repr(name)},
                )
        return found


def _entry(value: Any) -> AdversarialTable:
    if not isinstance(value, dict):
        raise PydanticCustomError("adversarial", 'expected tables such as {attack = "swap_noise"}')
    try:
        return AdversarialTable.model_validate(value)
    except ValidationError as failure:
        error = failure.errors()[0]
        key = ".".join(map(str, error["loc"]))
        known = ", ".join(AdversarialTable.model_fields)
        raise PydanticCustomError(
            "adversarial",
            "key {key}: {reason} (keys: {known})",
            {"key": repr(key), "reason": error["msg"].lower(), "known": known},
        ) from None
