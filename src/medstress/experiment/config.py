"""The tables of an experiment: one class each, for its file and for Python alike."""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from functools import cached_property
from inspect import Signature, signature
from numbers import Integral, Real
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar, get_args, get_type_hints

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from medstress.attacks import protocol
from medstress.backends.options import ANSWER_SECONDS, BackendKeys, Count, NonEmpty
from medstress.core import registry
from medstress.core.errors import UsageError, did_you_mean, fault_of, unknown
from medstress.core.frames import file_of_rows, is_rows
from medstress.core.functions import identified, is_answering, name_of
from medstress.core.sentences import Scheme

# -- what all tables share -------------------------------------------------------------------------


T = TypeVar("T")


def _distinct(values: tuple[T, ...]) -> tuple[T, ...]:
    if len(set(values)) != len(values):
        raise ValueError("values repeat")
    return values


def _entries(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _shown(value: str) -> str:
    if not value.isprintable():
        raise ValueError("expected a name whose characters can all be seen")
    return value


Label = Annotated[NonEmpty, AfterValidator(_shown)]
Seconds = Annotated[float, Field(gt=0, le=1e8)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Distinct = Annotated[tuple[T, ...], AfterValidator(_distinct)]


class Table(BaseModel):
    """A table of an experiment; what is wrong with one is a `UsageError` that names its key."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    def __init__(self, **keys: Any) -> None:
        """Check the keys.

        Raises:
            UsageError: a key is unknown, is missing or has a wrong value.
        """
        with refusing(type(self)):
            super().__init__(**keys)

    # Tables in a table are checked with it, so that an error knows the place of each.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @classmethod
    def read(cls, given: Any, place: str = "") -> Self:
        """Return the table of what is given: its keys, itself, or what may stand for it.

        Args:
            given: of a data set also rows, of a victim a function, of an attack the attack.
            place: what messages begin with; default: the class, as Python writes it.

        Raises:
            UsageError: as above.
        """
        with refusing(cls, (lambda *_: place) if place else None):
            return cls.model_validate(given)

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        cls.__signature__ = _Arguments(vars(cls)["__signature__"])  # type: ignore[assignment]

    @property
    def called(self) -> str:
        """What an entry is called in results, before others of its name are told apart."""
        return own_name(_ARRAY_OF[type(self)], vars(self))

    @model_validator(mode="before")
    @classmethod
    def _as_in_a_file(cls, keys: Any) -> Any:
        return as_toml(keys) if isinstance(keys, Mapping) else keys


class _Arguments:
    """The keys of a table as Python shows them, read when somebody looks: a table's own first, with
    types that do not tell the limits of their values; of an experiment those of its first table."""

    def __init__(self, plain: Any) -> None:
        self._plain = plain

    def __get__(self, _: Any, of: type[Table]) -> Signature:
        plain: Signature = self._plain.__get__(None, of)
        types = get_type_hints(of)
        keys = sorted(plain.parameters.values(), key=lambda one: one.name not in of.__annotations__)
        shown = [one.replace(annotation=types.get(one.name, Any)) for one in keys]
        if of is Experiment:
            flat = signature(Settings).parameters.values()
            shown = [*flat, *(one for one in shown if one.name != "experiment")]
        return plain.replace(parameters=shown)


def as_toml(value: Any) -> Any:
    """Return what Python gives as TOML would give it; keys that are None are left out.

    >>> as_toml({"path": Path("q.csv"), "limit": None, "scale": [0, 4]})
    {'path': 'q.csv', 'scale': (0, 4)}
    """
    if isinstance(value, Mapping):
        return {str(key): as_toml(part) for key, part in value.items() if part is not None}
    if isinstance(value, list | tuple):
        return tuple(map(as_toml, value))
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if type(value) in (bool, int, float) or not isinstance(value, Real):
        return value
    return int(value) if isinstance(value, Integral) else float(value)  # a number of numpy


def given_keys(value: Any) -> Any:
    """Return the keys that were given for a table, and those of the tables in it, as plain values.

    Defaults are left out: they do not all go together with every key.
    """
    if isinstance(value, protocol.Attack):
        return given_keys(attack_keys(value))
    if isinstance(value, Table):
        keys = {name: getattr(value, name) for name in type(value).model_fields}
        given = {name: own for name, own in keys.items() if name in value.model_fields_set}
        return given_keys({**given, **(value.model_extra or {})})
    if isinstance(value, Mapping):
        return {str(name): given_keys(own) for name, own in value.items() if own is not None}
    return [given_keys(own) for own in value] if isinstance(value, list | tuple) else value


# -- errors ----------------------------------------------------------------------------------------


_NO_KEY = re.compile(r"str|int|float|bool|tuple|list|dict|\d+|.*[\[\]].*|.*constrained-.*")
"""What pydantic calls a place in a list, or the branch of a value that may have several types."""


def wrong(sentence: str, *place: str | int, cause: Exception | None = None) -> PydanticCustomError:
    """Return the error of a validator about a place in its table, such as a key."""
    return PydanticCustomError(
        "wrong", "{sentence}", {"sentence": sentence, "place": place, "cause": cause}
    )


_TYPES = ("bool_type", "int_type", "float_type", "string_type", "tuple_type")


@contextmanager
def refusing(
    of: type[Table], place_of: Callable[[str, str, int], str] | None = None
) -> Iterator[None]:
    """Turn the first error of a check into one sentence with its place.

    Args:
        of: the table that is checked.
        place_of: gives the place of (table, key, number of the entry) in a file; default: the
            class, as Python writes it.

    Raises:
        UsageError: the check failed.
    """
    try:
        yield
    except ValidationError as failure:
        # An unknown key may be the missing one, misspelt; a value fits one type of several.
        ranks, errors = {"extra_forbidden": 0, "value_error": 1}, failure.errors()
        error = min(errors, key=lambda one: ranks.get(one["type"], 2))
        if error["type"] in _TYPES:
            others = (one for one in errors if one is not error and one["type"] in _TYPES)
            also = (one["msg"] for one in others if one["input"] is error["input"])
            error["msg"] += "".join(text.replace("Input should be", " or") for text in also)
        raise _refused(error, of, place_of) from error.get("ctx", {}).get("cause")


def _refused(error: Any, of: type[Table], place_of: Any) -> UsageError:
    kind, given, context = error["type"], error["input"], error.get("ctx", {})
    rest = [*error["loc"], *context.get("place", ())]
    path = [str(part) for part in rest if not _NO_KEY.fullmatch(str(part))]
    holder: type[Table] = of
    for name in path[:-1]:
        if name in holder.model_fields:
            holder = next(_models(holder.model_fields[name].annotation), holder)
    table, index = "", 0
    if of is Experiment and path and path[0] in TABLES:
        index = next((part for part in rest[1:2] if isinstance(part, int)), 0)
        n = 2 if path[0] == "role" and path[1:2] and path[1] in Roles.model_fields else 1
        table, path = ".".join(path[:n]), path[n:]
    if kind == "missing" and table and not path:  # the whole table; the first has a name
        path = ["name"] if table == "experiment" else [table]
    inner, key = "", path[0] if path else ""
    if kind == "extra_forbidden":
        what, words = "key", list(holder.model_fields)
        if holder is Experiment:
            what, words = "table", [*words, *Settings.model_fields]
        inner = f"{key}: " if len(path) > 1 else ""
        sentence = unknown(what, path[-1], [name for name in words if name != "experiment"])
    elif kind == "missing" and path and isinstance(given, Mapping):
        inner = f"{key}: " if len(path) > 1 else ""
        sentence = f"the key {path[-1]!r} is missing"
    elif kind == "missing":
        sentence = f"expected more values, got {given!r}"
    elif kind == "wrong":
        sentence = error["msg"]
    else:
        sentence = fault_of(error, ".".join(path))
        if not path and not isinstance(given, Mapping):  # no table at all
            sentence = f"{sentence}, got {given!r}"
    if place_of is not None:
        place = place_of(table, key, index)
    else:
        place = f"ms.{of.__name__}" + (f", {table}" if table not in ("", "experiment") else "")
    return UsageError(f"{place}: {inner}{sentence}")


def _models(annotation: Any) -> Iterator[type[Table]]:
    if isinstance(annotation, type) and issubclass(annotation, Table):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)


# -- models ----------------------------------------------------------------------------------------


_SHIPPED = ("transformers", "llama_cpp", "openai", "python", "scripted", "mock")
_READ_BY = {
    "transformers": ("device_map", "load_in_4bit", "adapter"),
    "llama_cpp": ("context_tokens",),
    "python": ("target",),
    "openai": (
        *("base_url", "api_key_env", "max_in_flight", "requests_per_minute", "tokens_per_minute"),
        *("match_model", "extra_body", "omit"),
    ),
}
"""Keys that one back end alone reads of those that come with medstress."""


class Model(Table, BackendKeys):
    """The keys of a back end, and of how it writes and what it costs."""

    backend: NonEmpty = "transformers"
    """`transformers`, `llama_cpp`, `openai`, `python`, `scripted`, `mock`, or a plug-in's; default:
    `openai` with a `base_url`, else `transformers`."""
    max_new_tokens: Count = 256
    """Most tokens of a written answer: of generate answering, and of confidences and answer in a
    conversation. Of a longer answer, which is cut off, only a statement counts, so a model that
    reasons before it answers needs more."""
    temperature: Annotated[float, Field(ge=0)] = 0.0
    """generate answering; 0 is greedy."""
    thoughts: tuple[NonEmpty, NonEmpty] | None = None
    """Opening and closing mark of its reasoning, which is not the answer, such as
    `["<notes>", "</notes>"]`; usual ones are known."""
    labels: Annotated[dict[str, str], Field(min_length=1)] | None = None
    """tagged texts: the model's type -> the data's type where they differ, such as
    `{CHEMICAL = "Chemical"}`."""
    price_in: Annotated[float, Field(ge=0)] | None = None
    """US dollars per million tokens read."""
    price_out: Annotated[float, Field(ge=0)] | None = None
    """US dollars per million tokens written."""
    use: bool = True
    """False switches the entry off."""

    @model_validator(mode="before")
    @classmethod
    def _of_python(cls, keys: Any) -> Any:
        """Take a function, class or object that answers, alone or as the target."""
        keys = function_keys(keys)
        if not isinstance(keys, Mapping):
            return keys
        if "base_url" in keys and "backend" not in keys:
            keys = {"backend": "openai", **keys}
        _check_installed("backends", keys, "backend")
        return keys

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        """Refuse keys that a shipped back end does not read; plug-ins may read any key."""
        for reader, keys in _READ_BY.items():
            for key in keys if self.backend in _SHIPPED and self.backend != reader else ():
                if getattr(self, key):
                    raise ValueError(f"{key} is for backend = {reader!r}, not {self.backend!r}")
        if (self.price_in is None) != (self.price_out is None):
            raise ValueError("price_in and price_out go together (US dollars per million tokens)")
        return self


class Victim(Model):
    """`[[victim]]`."""

    name: Label | None = None
    """Name in results; default: the model or target."""
    answer_by: Literal["letter", "text", "generate", "head"] | None = None
    """How a model answers, default `letter`; not for functions."""
    text_score: Literal["sum", "per_token", "unconditional"] = "sum"
    """text answering: how a likelihood becomes a score."""
    prompt: NonEmpty | Annotated[dict[str, NonEmpty], Field(min_length=1)] = "qstab"
    """A shipped prompt or a file; or a table of them by data set (label, else name), as in
    `{medmcqa = "medmcqa", default = "qstab"}`, where `default` is for all others."""
    parser: Literal["final_statement", "exact", "first_four", "single_character"] = (
        "final_statement"
    )
    """How an answer is read from text."""
    reasoning_tokens: Count | None = None
    """Most tokens of the reasoning turn in a conversation; default: the attack's
    `reasoning_tokens`."""
    parameters: Annotated[float, Field(gt=0)] | None = None
    """Number of parameters, for figures by size."""
    family: str | None = None
    """Model family, for figures by size."""
    group: Literal["generalist", "specialist"] | None = None
    """For figures by size."""
    shots: Annotated[int, Field(ge=0, le=100)] = 0
    """Number of answered examples before each prompt."""
    shots_from: str | None = None
    """Source of the examples: `sample`, a .jsonl or .parquet file of questions, or a data set and
    its file such as `medqa:train.jsonl`."""
    shots_seed: Seed = 0
    """Seed that draws the examples; the item itself is never shown."""
    wrap: tuple[dict[str, Any], ...] = ()
    """Defences, the first one innermost: `shuffled_options`, `majority`, `instructed`, or tables
    such as `{name = "majority", k = 5}`."""

    @field_validator("wrap", mode="before")
    @classmethod
    def _wrap(cls, value: Any) -> Any:
        from medstress.tasks.wrappers import read_wraps

        return read_wraps(value)


def function_keys(value: Any) -> Any:
    """Return the keys of a victim for a function, class or object, alone or as its target.

    Anything else is returned as it is.

    Raises:
        UsageError: it cannot be found again by a name, or identified.
    """
    keys = {"target": value} if is_answering(value) else value
    if not isinstance(keys, Mapping) or not is_answering(keys.get("target")):
        return value
    target, version = identified(keys["target"], keys.get("version"))  # type: ignore[arg-type]
    own = {"backend": "python", "target": target, "version": version}
    return {"name": target.rpartition(":")[2], **keys, **own}


def _check_installed(kind: str, keys: Mapping[str, Any], key: str) -> None:
    name = keys.get(key)
    if isinstance(name, str) and name and not registry.is_installed(kind, name):
        error = registry.unknown_name(kind, name)
        raise wrong(str(error), key, cause=error)


class Role(Model):
    """`[role.attacker]`, `[role.paraphraser]`, `[role.judge]`: another model, which writes text."""

    max_new_tokens: Count = 1024
    """Most tokens of a reply."""
    temperature: Annotated[float, Field(ge=0)] = 1.0
    """With 0, all runs and votes are the same."""


class Judge(Role):
    """`[role.judge]`."""

    max_new_tokens: Count = 512


class Roles(Table):
    """`[role]`: other models that attacks ask."""

    attacker: Role | None = None
    """Writes the edits."""
    paraphraser: Role | None = None
    """Writes the variants of the control `paraphrase`."""
    judge: Judge | None = None
    """Says what it calls evidence in an edit, and whether reasonings mention it."""


# -- studies and decisions -------------------------------------------------------------------------


GRID = (-50.0, -40.0, -30.0, -20.0, -10.0, -5.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0)
"""The paper's range in steps of 10, with -5 and 5; 0 would be random sampling."""
RELEASED_GRID = (*GRID, 60.0)


class Tune(Table):
    """`[tune]`: settings of `medstress tune`."""

    choices: Literal["default", "as_published", "as_released"] = "default"
    """`as_published` sets share = 1, `as_released` also the grid of the released script."""
    share: Annotated[float, Field(gt=0, le=1)] = 0.2
    """Share of the items that choose n; the report uses the rest. With 1, both use all items: the
    paper's maximum, which is optimistic and labelled so."""
    sample_seed: Seed = 0
    """Seed that draws the items that choose n."""
    grid: Annotated[Distinct[float], Field(min_length=1)] = GRID
    """Values of n to try; 0 is allowed but never chosen."""
    budget: Count | None = None
    """Budget of the tuning trials; default: the attack's."""
    random: bool = True
    """Add random sampling for comparison, unless the file has it."""

    @model_validator(mode="before")
    @classmethod
    def _choices(cls, keys: Any) -> Any:
        """Change the defaults of the other keys; keys in the file win."""
        if not isinstance(keys, Mapping):
            return keys
        choices = keys.get("choices", "default")
        return {
            **({"share": 1.0} if choices in ("as_published", "as_released") else {}),
            **({"grid": RELEASED_GRID} if choices == "as_released" else {}),
            **keys,
        }

    @field_validator("grid")
    @classmethod
    def _usable(cls, grid: tuple[float, ...]) -> tuple[float, ...]:
        from medstress.attacks.names import MAX_EXPONENT

        if any(abs(n) > MAX_EXPONENT for n in grid):
            raise ValueError(f"every n must lie between -{MAX_EXPONENT} and {MAX_EXPONENT}")
        if not any(grid):
            raise ValueError("expected at least one n other than 0")
        return tuple(sorted(grid))


class Analysis(Table):
    """`[analysis]`: analyses that `run` does after the trials; no part of the fingerprint."""

    transfer: bool = False
    """Ask the other victims about every success."""
    reuse: Distinct[Count] = ()
    """Try on every item the m names that succeed most on other items; a list of m."""
    prompt_similarity: bool = False
    """Embed the prompts of successes before and after the edit and report their mean cosine."""
    embedder: NonEmpty = "minilm"
    """prompt_similarity: the embedding, as `embedding` of a group."""
    pooling: Literal["cls", "mean", "first_token"] | None = None
    """prompt_similarity: how token vectors are pooled; default: depends on the model."""


class Significance(Table):
    """`[test]`: significance of MedFuzz successes; no part of the fingerprint."""

    null: Literal["matched", "neutral"] = "matched"
    """The kind of control: the attack's own loop with neutral insertions, over all attacked items;
    or one neutral insertion, for successes on the `items`."""
    items: Distinct[NonEmpty] = ()
    """The items of the family, named before the first query; neutral needs them."""
    controls: Annotated[int, Field(ge=1, le=9_999)] = 30
    """Neutral insertions for each success; the loops of `matched` grow until `max_calls`."""
    generator: Literal["lexicon", "attacker"] = "lexicon"
    """The writer of neutral insertions."""
    max_calls: Annotated[int, Field(ge=1)] = 2_000
    """Calls for each success, on average: the family spends them together."""
    adjust: Literal["bh", "holm", "none"] = "bh"
    """Adjustment of p-values: Benjamini and Hochberg, Holm, or none."""
    faithfulness: bool = True
    """If there is a role `judge`, ask it whether reasonings mention that an insertion mattered."""


ORIGINAL = "original"
"""The model trained on the original data."""
ORIGINAL_TWICE = "original twice"
"""The model trained on two plain copies, with as many steps as models of a perturbed copy."""
UNTRAINED = "untrained"
"""The model before training."""
PUBLISHED_EPOCHS = 30
TRAIN_SPLIT = {"split": "train"}


class Adversarial(Table):
    """An entry of `adversarial`: one more model for each seed."""

    attack: Annotated[tuple[NonEmpty, ...], Field(min_length=1), BeforeValidator(_entries)]
    """A label of `[[attack]]`, or a list; each item is then perturbed by a random one of them."""
    redraw: Literal["once", "epoch"] = "once"
    """Perturb the training data once, or again for every epoch."""
    held_out_names: bool = False
    """Synonyms: keep the names that the attack puts into the test data out of training; training
    items that mention such a name are left out."""
    label: Label | None = None
    """Name in results; default: the labels of its attacks."""

    @property
    def name(self) -> str:
        """Name in results."""
        redrawn = ", redrawn" if self.redraw == "epoch" else ""
        held_out = ", held-out names" if self.held_out_names else ""
        return self.label or "+".join(self.attack) + redrawn + held_out


class Train(Table):
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
    folds. Each seed splits the data again, so that three seeds are three repeats."""
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
    seeds: Annotated[Distinct[Seed], Field(min_length=1)] = (0,)
    """One model of each kind for every seed."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Number type of the forward passes; weights stay float32."""
    device: NonEmpty = "auto"
    """`auto` (CUDA if available), `cpu`, `cuda`, `cuda:1`."""
    encoder: Literal["cross_encoder", "bi_encoder"] = "cross_encoder"
    """Pairs: one output for both texts together, or the cosine of two sentence vectors."""
    twice: bool = False
    """Also train models on two plain copies (`original twice`), with as many steps as adversarial
    ones, to separate the effect of more training from that of perturbed copies. No training then
    stops early: patience is 0."""
    adversarial: Annotated[tuple[Adversarial, ...], BeforeValidator(_entries)] = ()
    """Models that are also trained on perturbed copies: tables such as
    `{attack = "swap_noise"}`."""

    @model_validator(mode="before")
    @classmethod
    def _choices(cls, keys: Any) -> Any:
        """Change the defaults of other keys; keys in the file win."""
        if not isinstance(keys, Mapping):
            return keys
        is_published = keys.get("choices") in ("as_published", "as_released")
        return {
            **({"epochs": PUBLISHED_EPOCHS, "dev": 0.0} if is_published else {}),
            **({"patience": 0} if keys.get("twice") is True else {}),
            **keys,
        }

    @model_validator(mode="after")
    def _goes_together(self) -> Train:
        if self.twice and self.patience:
            raise ValueError(
                "twice = true compares models with equal numbers of steps, so patience must be 0, "
                f"and it is {self.patience}"
            )
        if self.folds and isinstance(self.dev, dict):
            raise ValueError(
                "with folds the dev data are a share of the training data, such as dev = 0.2, or 0"
            )
        if self.folds and self.data not in ({}, TRAIN_SPLIT):
            raise ValueError("with folds the attacked data are the training data; leave out 'data'")
        names = [entry.name for entry in self.adversarial]
        for name in names:
            if name in (ORIGINAL, ORIGINAL_TWICE, UNTRAINED) or names.count(name) > 1:
                raise ValueError(f"two models would be called {name!r}; give one of them a label")
        return self


Place = Literal["dataset", "group", "victim", "attack"]
PLACES = get_args(Place)
"""The keys of `where`."""
OF_CONTROLS = ("control", "asr_net")
"""Metrics that a row has once for each of its controls."""
AT_BUDGETS = ("asr", "asr_net", "control")
"""Metrics that have a value at every budget."""
OF_SLICES = ("accuracy", "asr", "asr_net")
"""Metrics that a slice has."""
COMPARED = ("accuracy", "accuracy_after", "asr")
"""Metrics that can be compared with a baseline run, pair by pair."""

Limit = Annotated[float, Field(ge=-1, le=1)]


class SliceOf(Table):
    """`slice` of `[[require]]`."""

    by: NonEmpty
    """One of `[slices] by`; every slice must meet the criterion."""
    value: NonEmpty | None = None
    """Only this slice must meet it."""


class Against(Table):
    """`against` of `[[require]]`."""

    run: NonEmpty
    """Folder of the baseline run, complete; relative to the experiment file."""


class Require(Table):
    """`[[require]]`: an acceptance criterion, fixed before the first query."""

    metric: NonEmpty
    """`accuracy`, `accuracy_after`, `asr`, `asr_valid`, `asr_net`, `control`, or a score of tagged
    texts or pairs, such as `f1_after` and `pearson_drop`."""
    control: NonEmpty | None = None
    """asr_net, control: which control; default: the only one."""
    slice: SliceOf | None = None
    """accuracy, asr, asr_net: every slice by this property must meet the limit."""
    against: Against | None = None
    """accuracy, accuracy_after, asr: the limit is on the difference to a baseline run (this minus
    that), trial by trial."""
    at_budget: Count | None = None
    """asr, asr_net, control: within so many perturbed queries; default: the attack's budget."""
    where: dict[Place, str] = {}
    """Labels of `dataset`, `group`, `victim` or `attack` that limit which rows are judged; default:
    all rows but those of controls. All of them must meet the limit."""
    max_high: Limit | None = None
    """The interval's upper end is at most this."""
    min_low: Limit | None = None
    """The interval's lower end is at least this."""
    use: bool = True
    """False switches the entry off."""

    @field_validator("metric")
    @classmethod
    def _known(cls, metric: str) -> str:
        known = {*COMPARED, *OF_CONTROLS, "asr_valid"}
        if metric not in known and not registry.installed("kinds"):  # a plug-in's has its own
            from medstress.tasks.kinds import KINDS

            known.update(*(kind.scores.columns(has_copy=True) for kind in KINDS if kind.scores))
            if metric not in known:
                raise ValueError(unknown("metric", metric, known))
        return metric

    @model_validator(mode="after")
    def _possible(self) -> Require:
        if (self.max_high is None) == (self.min_low is None):
            raise ValueError(
                "expected one limit, max_high or min_low; for two limits write two entries"
            )
        if self.metric == "asr_net" and self.max_high is not None:
            raise ValueError(
                "noise lowers what is net of a control: set max_high on asr, and min_low on asr_net"
            )
        only: tuple[tuple[str, tuple[str, ...]], ...] = (
            ("control", OF_CONTROLS),
            ("at_budget", AT_BUDGETS),
            ("slice", OF_SLICES),
            ("against", COMPARED),
        )
        for key, metrics in only:
            if getattr(self, key) is not None and self.metric not in metrics:
                raise ValueError(f"{key} is for {', '.join(metrics)}, not for {self.metric!r}")
        if self.slice is not None and (self.against is not None or self.at_budget is not None):
            raise ValueError("a slice has no at_budget and no against: leave one of them out")
        limit = self.min_low if self.max_high is None else self.max_high
        if self.against is None and not self.metric.startswith(_SIGNED) and (limit or 0) < 0:
            raise ValueError(f"{self.metric} is never below 0, so its limit cannot be either")
        return self

    def as_json(self) -> dict[str, Any]:
        """Return the criterion as it is stored and hashed."""
        return self.model_dump(mode="json", exclude_none=True, exclude={"use"})


_SIGNED = ("asr_net", "pearson", "spearman", "f1", "precision", "recall")
"""Beginnings of metrics that may be negative: differences and correlations."""

COMPUTED = (
    "type",
    "semantic_group",
    "key",
    "option_length",
    "question_length",
)
"""Slices that are computed from items; any other is a column of their metadata."""


class Slices(Table):
    """`[slices]`: rates of parts of the data; no part of the fingerprint."""

    by: Annotated[Distinct[NonEmpty], Field(min_length=1)]
    """Properties that divide the items: a metadata column such as `subject`, `type` (of the
    entities that an attack may replace), `semantic_group` (of these types), `key` (letter),
    `option_length` and `question_length` (thirds)."""


# -- data, attacks, and the whole experiment ------------------------------------------------------


LIMITS = ("max_queries", "max_tokens", "max_usd", "max_seconds")
"""Keys that stop a run before it is complete."""


class Settings(Table):
    """`[experiment]`."""

    name: str
    """Name of the experiment and of its default run folder."""
    seeds: Annotated[Distinct[Seed], Field(min_length=1)] = (0, 1, 2)
    """One trial for each item and seed; deterministic attacks run once."""
    max_failed: Annotated[int, Field(ge=0)] = 0
    """With more failed trials than this, the exit code is 1."""
    max_queries: Count | None = None
    """Stop cleanly after this number of computed calls, including baseline and work ahead."""
    max_tokens: Count | None = None
    """Stop cleanly after about this number of tokens."""
    max_usd: Annotated[float, Field(gt=0)] | None = None
    """Stop cleanly after about this many US dollars, at the victims' `price_in` and `price_out`."""
    max_seconds: Seconds | None = None
    """Stop cleanly after this many seconds of asking, summed over all processes of the run."""
    trial_seconds: Annotated[float, Field(ge=0, le=1e8)] | None = None
    """A trial that takes longer than this after its first call ends as `cut_short`; 0: none."""
    timeout_seconds: Seconds = ANSWER_SECONDS
    """openai: time limit of one whole request, in seconds; default 300."""
    cache: NonEmpty | None = None
    """Folder of answers that runs share, or `default`; default: each run keeps its own."""
    controls: bool | Annotated[Distinct[NonEmpty], Field(min_length=1)] | None = None
    """Control arms of every attack. Questions: a list such as `["no_op", "paraphrase"]`, true
    for all that fit, false for none; default `["no_op"]` (MedFuzz: `["neutral_insertion"]`).
    Tagged texts: true adds to every perturbed copy an arm with as much noise outside entities;
    default false."""
    flip_check: bool = True
    """Ask every success again, alone."""

    @field_validator("name")
    @classmethod
    def _name(cls, value: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", value):
            raise ValueError(
                "expected letters, digits, '.', '_' and '-', with a letter or a digit first"
            )
        return value

    @field_validator("controls", mode="before")
    @classmethod
    def _controls(cls, value: Any) -> Any:
        if value == ():
            raise ValueError("the list is empty: write false for no controls")
        return value


class Dataset(Table):
    """`[[dataset]]`."""

    name: NonEmpty
    """`sample`, `table` (csv, tsv, xlsx, json, jsonl, parquet), `attacked` (what `export` wrote),
    `medqa`, `medmcqa`, `bc5cdr`, `biosses`, `iob`, `pubtator`, `brat`, `pairs`, `nli`,
    `hub`, another that `medstress list datasets` shows, or a plug-in's."""
    path: str | None = None
    """The file, if the source needs one; bc5cdr: or a folder with a file for each split; brat,
    pubtator: or a folder; hub: a folder that `datasets` saved, or with the files of a data set."""
    sample: Literal["questions", "vignettes"] = "questions"
    """sample: 200 short questions, or 24 vignettes of a patient each."""
    hub: NonEmpty | None = None
    """bc5cdr, biosses, hub: `owner/name` on the Hugging Face hub, or `owner/name:file`."""
    annotations: str | None = None
    """medqa, medmcqa: spans of the options."""
    split: str | None = None
    """The published split; bc5cdr: several splits of a folder are joined by `+`, as
    `train+devel`."""
    types: (
        Annotated[tuple[str, ...], Field(min_length=1)]
        | Annotated[dict[str, str], Field(min_length=1)]
        | None
    ) = None
    """Tagged texts: a list of the entity types to keep, or a table of new names such as
    `{Chemical = "Drug"}` (types with the same new name are merged, `"O"` drops a type); default:
    all."""
    scheme: Scheme | None = None
    """iob, bc5cdr, hub: label scheme, `iob2` (default), `iobes` or `io`."""
    tag: NonEmpty | None = None
    """iob, bc5cdr, hub: the type of labels without one (B, I); default: `Entity`."""
    names: tuple[NonEmpty, ...] = ()
    """iob, hub: the labels that whole numbers stand for, as in `["O", "B-Drug", "I-Drug"]`."""
    columns: dict[str, str | tuple[str, ...]] | None = None
    """Questions, pairs, nli: the file's names for the fields, as in `{question = "stem", options =
    ["A", "B", "C"], answer = "key"}` or `{text_a = "premise"}`."""
    answer_base: Literal[0, 1] | None = None
    """Questions: the number of the first option where answers are numbers; default: what the file
    shows, and an error where it shows neither."""
    encoding: NonEmpty | None = None
    """Questions, nli: the encoding of a text file, such as `cp1252`; default: UTF-8, or what a byte
    order mark says."""
    sheet: NonEmpty | None = None
    """xlsx: the sheet to read; default: the only one with content."""
    scale: tuple[float, float] | None = None
    """pairs: lowest and highest score; default: 0 to 4."""
    documents: NonEmpty | None = None
    """iob, hub, pairs: the column of rows that names the document of each; intervals then resample
    whole documents."""
    on_bad_labels: Literal["error", "repair"] = "error"
    """Tagged texts: if a label continues no entity, stop, or begin an entity and report it."""
    label: Label | None = None
    """Name in results; default: the name, with the keys that tell entries of one name apart."""
    limit: Count | None = None
    """Size of a random sample of items; a sample of 200 contains the sample of 100."""
    limit_documents: Count | None = None
    """Size of a random sample of whole documents, drawn before `limit`; an item without a document
    counts as one."""
    sample_seed: Seed = 0
    """Seed of these samples, and of `limit` in `[[entities]]`."""
    on_bad_row: Literal["error", "skip"] = "error"
    """Stop at a bad row, or leave it out and count it."""
    use: bool = True
    """False switches the entry off."""

    @model_validator(mode="before")
    @classmethod
    def _of_python(cls, keys: Any) -> Any:
        """Take rows as the path, or alone: a list of dicts, or a data frame."""
        keys = row_keys(keys)
        if isinstance(keys, Mapping):
            _check_installed("datasets", keys, "name")
        return keys

    @model_validator(mode="after")
    def _fields(self) -> Dataset:
        if self.columns and self.name in ("table", "pairs"):
            from medstress.datasets import layouts, sentences

            fields = layouts.NAMED if self.name == "table" else sentences.FIELDS
            if other := [field for field in self.columns if field not in fields]:
                raise wrong(f"columns: {unknown('field', other[0], fields)}")
        return self


def row_keys(value: Any) -> Any:
    """Return the keys of a data set for rows, alone or as its path; anything else as it is."""
    keys = {"path": value} if is_rows(value) else value
    if not isinstance(keys, Mapping) or not is_rows(keys.get("path")):
        return value
    from medstress.datasets.guess import guess_dataset

    path = str(file_of_rows(keys["path"]))
    return {**guess_dataset(path), "label": "data", **keys, "path": path}


class Entities(Table):
    """`[[entities]]`: a group."""

    name: Label | None = None
    """The group in results; default: the type."""
    type: str | tuple[str, ...]
    """`drugs`, `diseases`, or a list of UMLS semantic type identifiers."""
    recogniser: Literal["given", "gazetteer", "spacy"] | None = None
    """Source of mentions of the type: the rows, the tables of names, or a spaCy pipeline; default:
    the rows where they carry mentions, else the tables."""
    model: NonEmpty | None = None
    """spacy: an installed pipeline, or the folder of a saved one."""
    labels: Annotated[dict[str, str], Field(min_length=1)] | None = None
    """spacy: label -> type, such as `{CHEMICAL = "drugs"}`; default: the usual names."""
    linker: Literal["umls"] | None = None
    """spacy: take types from the concept that scispaCy's linker finds, instead of from labels."""
    vocabulary: NonEmpty
    """`drugs`, `diseases`, or a file."""
    column: Annotated[int, Field(ge=0)] | None = None
    """Column of a table without a header, counted from 0."""
    embedding: NonEmpty = "minilm"
    """`minilm`, `ngram`, word vectors, or a transformers model."""
    pooling: Literal["cls", "mean", "first_token"] | None = None
    """How token vectors are pooled; default: depends on the model."""
    limit: Count | None = None
    """Size of a random sample of this group's attackable items, drawn after the data set's
    limit."""
    distance: NonEmpty = "cosine"
    """h of the samplers: `cosine`, `euclidean`, `mondo`, `mesh`, or your own function."""
    synonyms: NonEmpty = "default"
    """Second right answers to exclude: `default`, `none`, a table, MRCONSO.RRF, or OBO."""
    choices: Literal["default", "as_published", "as_released"] = "default"
    """Set of defaults; `as_released` pools every model by `first_token`."""
    use: bool = True
    """False switches the entry off."""

    @property
    def types(self) -> str:
        """Its types as one word."""
        return self.type if isinstance(self.type, str) else "+".join(self.type)

    @field_validator("distance", "type")
    @classmethod
    def _known(cls, value: Any, info: ValidationInfo) -> Any:
        from medstress.entities.distances import wrong_distance
        from medstress.entities.groups import wrong_type

        reason = wrong_type(value) if info.field_name == "type" else wrong_distance(value)
        if reason:
            raise ValueError(reason)
        return value

    @model_validator(mode="after")
    def _spacy_keys(self) -> Entities:
        if self.recogniser == "spacy" and self.model is None:
            raise ValueError("recogniser = 'spacy' needs the key 'model', a spaCy pipeline")
        for key in ("model", "labels", "linker"):
            if self.recogniser != "spacy" and getattr(self, key) is not None:
                raise ValueError(f"the key {key!r} is for recogniser = 'spacy'")
        if self.labels is not None and self.linker is not None:
            raise ValueError("give labels or linker, not both: a linker's types replace labels")
        return self


class Attack(Table):
    """`[[attack]]`; other keys are the attack's own parameters, which it checks itself."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True, allow_inf_nan=False)

    name: NonEmpty
    """A name of `medstress list attacks`; its parameters are keys of the same table."""
    label: Label | None = None
    """Name in results; default: the name, with the keys that tell entries of one name apart."""
    use: bool = True
    """False switches the entry off."""

    @property
    def parameters(self) -> dict[str, Any]:
        """The attack's own parameters, as given."""
        return dict(self.model_extra or {})

    @property
    def exponents(self) -> Sequence[Any]:
        """The values of `n`, one attack for each; (None,) if `n` is not given."""
        n = self.parameters.get("n")
        return n if isinstance(n, tuple) and n else (n,)

    @cached_property
    def attacks(self) -> tuple[protocol.Attack, ...]:
        """The attacks, one for each of `exponents`; built once.

        Raises:
            UsageError: an attack has invalid parameters or is not installed.
        """
        given = self.parameters
        return tuple(
            protocol.make_attack(self.name, given if n is None else {**given, "n": n})
            for n in self.exponents
        )

    @model_validator(mode="before")
    @classmethod
    def _of_python(cls, keys: Any) -> Any:
        return attack_keys(keys) if isinstance(keys, protocol.Attack) else keys

    @model_validator(mode="after")
    def _built(self) -> Attack:
        """Build the attacks: their classes check the parameters."""
        try:
            _ = self.attacks
        except UsageError as error:
            named = (word for word in re.findall(r"[a-z_]+", str(error)) if word in self.parameters)
            raise wrong(str(error), next(named, "name"), cause=error) from None
        return self


def attack_keys(attack: protocol.Attack) -> dict[str, Any]:
    """Return the keys of an `[[attack]]` table that make an attack again.

    An attack of a class that is not installed is known by its name for the rest of the session.

    Raises:
        UsageError: it is no attack, or its class cannot be found again or has the name of another.
    """
    if fault := protocol.attack_fault(attack):
        raise UsageError(f"attack {attack!r} {fault}")
    kind: type[Any] = type(attack)
    name = str(attack.spec()["name"])
    if name not in registry.installed("attacks"):
        target = name_of(kind)
        if target is None:
            raise UsageError(
                f"attack {name!r}: {kind.__qualname__} is made inside a function, so it cannot be "
                "found again; move the class to the top of its module or cell"
            )
        registry.ATTACKS[name] = registry.Entry(target, "an attack of this session")
    namesake = protocol.attack_class(name)
    if (namesake.__module__, namesake.__qualname__) != (kind.__module__, kind.__qualname__):
        raise UsageError(
            f"attack {name!r}: {namesake.__module__}.{namesake.__qualname__} is installed under "
            f"this name already; give {kind.__qualname__} another `name` in its spec"
        )
    own = {field: getattr(attack, field.name) for field in fields(kind) if field.init}
    return {"name": name, **{f.name: value for f, value in own.items() if value != f.default}}


OF_FILES = (*("table", "attacked", "pairs", "iob", "brat", "pubtator", "hub"),)
"""Data sets that read any file of their format, and are called after it."""
ARRAYS = ("dataset", "entities", "victim", "attack", "require")
"""Tables of which a file may have several."""


class Experiment(Table):
    """An experiment, as `ms.run` takes it; the keys of `[experiment]` are arguments of their own.

    Relative paths start from the file, in Python from the working folder. An attack such as
    `ms.EntitySubstitution(...)` may stand for its table, and a function for a victim.
    """

    experiment: Settings
    """Name, seeds, limits."""
    dataset: Annotated[tuple[Dataset, ...], Field(min_length=1)]
    """Sources of items."""
    entities: tuple[Entities, ...] = ()
    """Entity groups; empty for sentences or if no attack draws names."""
    victim: tuple[Victim, ...] = ()
    """Models under attack; optional for commands that ask none (`reading.NEEDS`)."""
    attack: tuple[Attack, ...] = ()
    """Attacks; optional for commands that run none."""
    role: Roles | None = None
    """Other models that attacks ask."""
    tune: Tune | None = None
    """Settings of `medstress tune`; other commands do not read them."""
    train: Train | None = None
    """Settings of `medstress train`; other commands do not read them."""
    analysis: Analysis = Analysis()
    """Analyses that ask more queries after the trials."""
    test: Significance | None = None
    """Significance tests of successes; `run` does them if the table is present."""
    require: tuple[Require, ...] = ()
    """Acceptance criteria, judged when the run is complete."""
    slices: Slices | None = None
    """Parts of the data with rates of their own."""

    @model_validator(mode="before")
    @classmethod
    def _whole(cls, tables: Any) -> Any:
        """Gather the keys of `[experiment]`, and leave out what is switched off."""
        if not isinstance(tables, Mapping):
            return tables
        tables = as_toml(tables)
        if own := {key: tables.pop(key) for key in Settings.model_fields if key in tables}:
            tables["experiment"] = {**given_keys(tables.get("experiment", {})), **own}
        _check_prompts(_entries(tables.get("dataset", ())), _entries(tables.get("victim", ())))
        for name in ARRAYS:
            if name in tables:
                every = _entries(tables[name])
                tables[name] = tuple(entry for entry in every if is_used(entry))
                if every and not tables[name] and name != "require":
                    raise wrong(f"every [[{name}]] entry has use = false", name)
        if isinstance(tables.get("role"), Mapping):
            tables["role"] = _with_addresses(tables["role"], tables.get("victim", ()))
        return tables


TABLES: dict[str, type[Table]] = {
    name: next(_models(field.annotation)) for name, field in Experiment.model_fields.items()
}
"""Table of the file -> its class."""


def is_used(entry: Any) -> bool:
    """Return whether an entry of an array is switched on; one that is off is not even checked."""
    return _key(entry, "use") is not False


def _key(entry: Any, key: str) -> Any:
    """Return a key of an entry that is a table already, or is not checked yet."""
    keys = given_keys(entry)
    return keys.get(key) if isinstance(keys, Mapping) else None


def _with_addresses(roles: Mapping[str, Any], victims: Sequence[Any]) -> dict[str, Any]:
    """Return roles that ask the first victim's server where they name none.

    A judge that names no model is the attacker's, or its function. An address and its key go
    together: a key is never sent to another server than the one that it was given for.
    """
    first = given_keys(victims[0]) if victims and not is_answering(victims[0]) else {}
    first.setdefault("backend", "openai" if "base_url" in first else "transformers")
    addressed: dict[str, Any] = {}
    for name in sorted(roles, key=lambda name: name == "judge"):
        role = given_keys(roles[name])
        if isinstance(role, Mapping) and not {"base_url", "target"} & role.keys():
            attacker = addressed.get("attacker", {})
            asks = attacker if name == "judge" and "model" not in role else first
            more = ("model", "target", "version") if asks is attacker else ()
            keys = ("backend", "base_url", "api_key_env", *more)
            own = {key: asks[key] for key in keys if key in asks}
            if role.get("backend", own.get("backend")) == own.get("backend"):
                role = {**own, **role}
        addressed[name] = role
    return {name: addressed[name] for name in roles}


def _check_prompts(datasets: Sequence[Any], victims: Sequence[Any]) -> None:
    """Refuse a table of prompts that names an unknown data set; those switched off may be named."""
    keys = [one for one in map(given_keys, datasets) if isinstance(one, Mapping)]
    names = [name for one in keys for name in (own_name("dataset", one), str(one.get("name")))]
    names = list(dict.fromkeys(names))
    for index, victim in enumerate(filter(is_used, victims)):
        prompt = _key(victim, "prompt")
        for key in prompt if isinstance(prompt, Mapping) else ():
            if key != "default" and key not in names:
                raise wrong(
                    f"prompt: no [[dataset]] is called {key!r}"
                    f"{did_you_mean(key, [*names, 'default'])} (there are: {', '.join(names)}; "
                    "default means all others)",
                    *("victim", index, "prompt"),
                )


# -- names in results ------------------------------------------------------------------------------


def unique_labels(
    table: str, entries: Sequence[tuple[str | None, str, Mapping[str, Any]]]
) -> list[str]:
    """Give every entry of one array of tables a label.

    Args:
        table: the table's name, for messages.
        entries: (the user's label, name, parameters) of each entry.

    Raises:
        UsageError: two entries end with the same label.

    >>> unique_labels("attack", [(None, "swap", {"n": 1}), (None, "swap", {"n": 2})])
    ['swap n=1', 'swap n=2']
    """
    by_name: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for _, name, parameters in entries:
        by_name[name].append(parameters)
    differing = {
        name: {key for key in set().union(*rows) if len({repr(row.get(key)) for row in rows}) > 1}
        for name, rows in by_name.items()
    }
    labels = []
    for label, name, parameters in entries:
        parts = [name]
        for key, value in parameters.items() if label is None else ():
            if value is not None and key in differing[name]:
                parts.append(f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}")
        labels.append(label or " ".join(parts))
    for label, n in Counter(labels).items():
        if n > 1:
            raise UsageError(
                f"two [[{table}]] entries are both called {label!r}: remove one, or give them "
                f"different {'names' if table in ('victim', 'entities') else 'labels'}"
            )
    return labels


def own_name(table: str, keys: Mapping[str, Any]) -> str:
    """Return what an entry is called, before entries of one name are told apart by other keys.

    >>> own_name("dataset", {"name": "table", "path": "data/q.jsonl"}), own_name("victim", {})
    ('q', 'transformers')
    """
    if table == "victim":
        names = [keys.get(key) for key in ("name", "model", "target")]
        return str(next(filter(None, names), None) or keys.get("backend") or "transformers")
    if table == "entities":
        types = keys.get("type", "")
        return str(keys.get("name") or (types if isinstance(types, str) else "+".join(types)))
    name = str(keys.get("name"))
    if table == "dataset" and name in OF_FILES:
        file = Path(keys.get("path") or str(keys.get("hub") or "").partition(":")[0])
        name = file.stem or file.name or name
    return str(keys.get("label") or name)


def labels_of(tables: Sequence[Dataset] | Sequence[Entities] | Sequence[Victim]) -> list[str]:
    """Return what each entry of one array of tables is called in results.

    Raises:
        UsageError: two have the same label.
    """
    entries = []
    for one in tables:
        keys = one.model_dump(exclude={"name", "label", "use"})
        if isinstance(one, Victim):
            keys["wrap"] = "+".join(entry["name"] for entry in one.wrap) or None
            if isinstance(one.prompt, dict):
                keys["prompt"] = ", ".join(f"{name}: {own}" for name, own in one.prompt.items())
        label = one.label if isinstance(one, Dataset) else one.name
        entries.append((label, one.called, keys))
    return unique_labels(_ARRAY_OF[type(tables[0])] if tables else "", entries)


_ARRAY_OF: dict[type[Table], str] = {Dataset: "dataset", Entities: "entities", Victim: "victim"}
