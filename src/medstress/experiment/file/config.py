"""The tables of an experiment file; unknown keys and wrong types raise errors."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from medstress.analyses.families import MAX_CALLS
from medstress.attacks.protocol import Attack, make_attack
from medstress.backends.options import ANSWER_SECONDS
from medstress.core.errors import UsageError
from medstress.core.label_schemes import Scheme
from medstress.tasks.wrappers import read_wraps

# -- common types ----------------------------------------------------------------------------------


NonEmpty = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0, le=1e8)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]


class TomlTable(BaseModel):
    """A table of the experiment file; unknown keys raise errors."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


def distinct(value: Any, what: str = "values") -> Any:
    """Return a list as a tuple, for a validator that runs before a field's own.

    Raises:
        ValueError: a value stands there twice.
    """
    if not isinstance(value, list):
        return value
    if len(set(map(str, value))) != len(value):
        raise ValueError(f"{what} repeat")
    return tuple(value)


# -- models ----------------------------------------------------------------------------------------


_SHIPPED = ("transformers", "llama_cpp", "openai", "python", "scripted", "mock")
_READERS = {
    "device_map": ("transformers",),
    "load_in_4bit": ("transformers",),
    "adapter": ("transformers",),
    "context_tokens": ("llama_cpp",),
    "target": ("python",),
    "base_url": ("openai",),
    "api_key_env": ("openai",),
    "max_in_flight": ("openai",),
    "requests_per_minute": ("openai",),
    "tokens_per_minute": ("openai",),
    "match_model": ("openai",),
    "extra_body": ("openai",),
    "omit": ("openai",),
}
"""Which back ends read a key."""
_TAKEN = {
    *("model", "messages", "prompt", "max_tokens", "max_completion_tokens", "temperature", "seed"),
    *("response_format", "logprobs", "top_logprobs", "echo", "n", "stream"),
}
"""Fields of a request that extra_body may not hold."""
Left = Literal["max_tokens", "response_format", "seed", "temperature"]
"""Fields of a request that `omit` may leave out."""


class VictimTable(TomlTable):
    """`[[victim]]`."""

    name: NonEmpty | None = None
    """Name in results; default: the model or target."""
    backend: NonEmpty = "transformers"
    """`transformers`, `llama_cpp`, `openai`, `python`, `scripted`, `mock`, or a plug-in's; default:
    `openai` with a `base_url`, else `transformers`."""
    model: str | None = None
    """A path, a hub id, `smollm2`, or the server's name for the model."""
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
    thoughts: Annotated[tuple[NonEmpty, NonEmpty], Field(strict=False)] | None = None
    """Opening and closing mark of its reasoning, which is not the answer, such as
    `["<notes>", "</notes>"]`; usual ones are known."""
    max_new_tokens: Count = 128
    """Most tokens of a written answer: of generate answering, and of confidences and answer in a
    conversation. Of a longer answer, which is cut off, only a statement counts, so a model that
    reasons before it answers needs more."""
    reasoning_tokens: Count | None = None
    """Most tokens of the reasoning turn in a conversation; default: the attack's
    `reasoning_tokens`."""
    temperature: Annotated[float, Field(ge=0)] = 0.0
    """generate answering; 0 is greedy."""
    parameters: Annotated[float, Field(gt=0)] | None = None
    """Number of parameters, for figures by size."""
    family: str | None = None
    """Model family, for figures by size."""
    group: Literal["generalist", "specialist"] | None = None
    """For figures by size."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Number type of local models."""
    device: NonEmpty = "auto"
    """`auto`, `cpu`, `cuda`, `cuda:1`."""
    device_map: (
        Literal["auto", "balanced", "balanced_low_0", "sequential"] | dict[str, str | int] | None
    ) = None
    """transformers: spread the model over devices: `auto`, or a table of parts and devices."""
    load_in_4bit: bool = False
    """transformers: quantise linear layers to 4 bits with bitsandbytes."""
    adapter: NonEmpty | None = None
    """transformers: a peft adapter, a folder or a hub id."""
    context_tokens: Count | None = None
    """llama_cpp: most tokens of prompt and answer together; default: the model's, at most 8192."""
    batch_size: Count | None = None
    """Calls in one batch; default: the back end's."""
    target: str | None = None
    """python: `module:function` or `file.py:function`; it can import modules of the same
    folder."""
    labels: Annotated[dict[str, str], Field(min_length=1)] | None = None
    """tagged texts: the model's type -> the data's type where they differ, such as
    `{CHEMICAL = "Chemical"}`."""
    version: str | None = None
    """python: identifies the function, instead of its source and imports; openai: tells models of
    one name apart."""
    base_url: str | None = None
    """openai: the server's address, with `/v1`."""
    api_key_env: NonEmpty | None = None
    """openai: the environment variable that holds the key; default: no key is sent."""
    max_in_flight: Count | None = None
    """openai: requests made at the same time; default 8."""
    requests_per_minute: Count | None = None
    """openai: limit on requests, repeated ones included."""
    tokens_per_minute: Count | None = None
    """openai: limit on tokens read and written together."""
    match_model: Literal["exact", "loose", "any"] | None = None
    """openai: the names under which the model may be listed and answer: `exact`, its own; `loose`
    (default), also with a path, a suffix such as `:latest` or a quantisation, or a date; `any`,
    whatever the server calls it."""
    price_in: Annotated[float, Field(ge=0)] | None = None
    """US dollars per million tokens read."""
    price_out: Annotated[float, Field(ge=0)] | None = None
    """US dollars per million tokens written."""
    structured: bool = True
    """openai: if an attack wants JSON, make the server follow its schema; false: only the prompt
    asks for JSON."""
    extra_body: dict[str, Any] = Field(default_factory=dict)
    """openai: fields added to every request, such as `{reasoning_effort = "low"}`."""
    omit: Annotated[tuple[Left, ...], Field(strict=False)] = ()
    """openai: fields left out of every request, for servers that do not know them."""
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
    use: bool = True
    """False switches the entry off."""

    @model_validator(mode="before")
    @classmethod
    def _served(cls, data: Any) -> Any:
        is_served = isinstance(data, Mapping) and "base_url" in data and "backend" not in data
        return {"backend": "openai", **data} if is_served else data

    @model_validator(mode="after")
    def _keys_of_others(self) -> VictimTable:
        """Refuse keys that a shipped back end does not read; plug-ins may read any key."""
        for key, readers in _READERS.items():
            if self.backend not in readers and self.backend in _SHIPPED and getattr(self, key):
                raise ValueError(
                    f"{key} is for backend = {' or '.join(map(repr, readers))}, not "
                    f"{self.backend!r}"
                )
        return self

    @field_validator("extra_body")
    @classmethod
    def _extra_body(cls, value: dict[str, Any]) -> dict[str, Any]:
        if taken := _TAKEN & value.keys():
            raise ValueError(f"{min(taken)} is a field that medstress sets itself")
        return value

    @field_validator("wrap", mode="before")
    @classmethod
    def _wrap(cls, value: Any) -> Any:
        return read_wraps(value)

    @model_validator(mode="after")
    def _both_prices(self) -> VictimTable:
        if (self.price_in is None) != (self.price_out is None):
            raise ValueError("price_in and price_out go together (US dollars per million tokens)")
        return self


class RoleTable(VictimTable):
    """`[role.attacker]`, `[role.paraphraser]`, `[role.judge]`: the keys of a victim's back end."""

    max_new_tokens: Count = 1024
    """Most tokens of a reply."""
    temperature: Annotated[float, Field(ge=0)] = 1.0
    """With 0, all runs and votes are the same."""

    @model_validator(mode="before")
    @classmethod
    def _only_backends(cls, data: Any) -> Any:
        if isinstance(data, dict):
            for key in _NO_ROLE_KEYS:
                if key in data:
                    raise ValueError(f"the key {key!r} is for victims; a role always writes text")
        return data


class JudgeTable(RoleTable):
    """`[role.judge]`."""

    max_new_tokens: Count = 512


_NO_ROLE_KEYS = (
    "name",
    "answer_by",
    "text_score",
    "prompt",
    "parser",
    "thoughts",
    "reasoning_tokens",
    "parameters",
    "family",
    "group",
    "shots",
    "shots_from",
    "shots_seed",
    "wrap",
)


class RolesTable(TomlTable):
    """`[role]`: other models that attacks ask."""

    attacker: RoleTable | None = None
    """Writes the edits."""
    paraphraser: RoleTable | None = None
    """Writes the variants of the control `paraphrase`."""
    judge: JudgeTable | None = None
    """Says what it calls evidence in an edit, and whether reasonings mention it."""


# -- studies and decisions -------------------------------------------------------------------------


GRID = (-50.0, -40.0, -30.0, -20.0, -10.0, -5.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0)
"""The paper's range in steps of 10, with -5 and 5; 0 would be random sampling."""
RELEASED_GRID = (*GRID, 60.0)


class TuneTable(TomlTable):
    """`[tune]`: settings of `medstress tune`."""

    choices: Literal["default", "as_published", "as_released"] = "default"
    """`as_published` sets share = 1, `as_released` also the grid of the released script."""
    share: Annotated[float, Field(gt=0, le=1)] = 0.2
    """Share of the items that choose n; the report uses the rest. With 1, both use all items: the
    paper's maximum, which is optimistic and labelled so."""
    sample_seed: Seed = 0
    """Seed that draws the items that choose n."""
    grid: Annotated[tuple[float, ...], Field(min_length=1, strict=False)] = GRID
    """Values of n to try; 0 is allowed but never chosen."""
    budget: Count | None = None
    """Budget of the tuning trials; default: the attack's."""
    random: bool = True
    """Add random sampling for comparison, unless the file has it."""

    @model_validator(mode="before")
    @classmethod
    def _choices(cls, data: Any) -> Any:
        """Change the defaults of the other keys; keys in the file win."""
        if not isinstance(data, dict):
            return data
        defaults: dict[str, Any] = {}
        if data.get("choices") in ("as_published", "as_released"):
            defaults["share"] = 1.0
        if data.get("choices") == "as_released":
            defaults["grid"] = RELEASED_GRID
        return {**defaults, **data}

    @field_validator("grid")
    @classmethod
    def _usable(cls, grid: tuple[float, ...]) -> tuple[float, ...]:
        from medstress.attacks.names import MAX_EXPONENT

        if len(set(grid)) != len(grid):
            raise ValueError("values repeat")
        if any(abs(n) > MAX_EXPONENT for n in grid):
            raise ValueError(f"every n must lie between -{MAX_EXPONENT} and {MAX_EXPONENT}")
        if not any(grid):
            raise ValueError("expected at least one n other than 0")
        return tuple(sorted(grid))


class AnalysisTable(TomlTable):
    """`[analysis]`: analyses that `run` does after the trials; no part of the fingerprint."""

    transfer: bool = False
    """Ask the other victims about every success."""
    reuse: tuple[Count, ...] = ()
    """Try on every item the m names that succeed most on other items; a list of m."""
    prompt_similarity: bool = False
    """Embed the prompts of successes before and after the edit and report their mean cosine."""
    embedder: NonEmpty = "minilm"
    """prompt_similarity: the embedding, as `embedding` of a group."""
    pooling: Literal["cls", "mean", "first_token"] | None = None
    """prompt_similarity: how token vectors are pooled; default: depends on the model."""

    @field_validator("reuse", mode="before")
    @classmethod
    def _reuse(cls, value: Any) -> Any:
        return distinct(value)


class SignificanceTable(TomlTable):
    """`[test]`: significance of MedFuzz successes; no part of the fingerprint."""

    null: Literal["matched", "neutral"] = "matched"
    """The kind of control: the attack's own loop with neutral insertions, over all attacked items;
    or one neutral insertion, for successes on the `items`."""
    items: tuple[NonEmpty, ...] = ()
    """The items of the family, named before the first query; neutral needs them."""
    controls: Annotated[int, Field(ge=1, le=9_999)] = 30
    """Neutral insertions for each success; the loops of `matched` grow until `max_calls`."""
    generator: Literal["lexicon", "attacker"] = "lexicon"
    """The writer of neutral insertions."""
    max_calls: Annotated[int, Field(ge=1)] = MAX_CALLS
    """Calls for each success, on average: the family spends them together."""
    adjust: Literal["bh", "holm", "none"] = "bh"
    """Adjustment of p-values: Benjamini and Hochberg, Holm, or none."""
    faithfulness: bool = True
    """If there is a role `judge`, ask it whether reasonings mention that an insertion mattered."""

    @field_validator("items", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        if value == []:
            raise ValueError("expected at least one name; leave the key out for all")
        return distinct(value)


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
            raise ValueError(
                "twice = true compares models with equal numbers of steps, but with patience = "
                f"{self.patience} each may stop early; set patience to 0 or leave it out, or leave "
                "out twice"
            )
        return self

    @model_validator(mode="after")
    def _folded(self) -> TrainTable:
        if self.folds and isinstance(self.dev, dict):
            raise ValueError(
                "with folds the dev data are a share of the training data, such as dev = 0.2, or 0",
            )
        if self.folds and self.data not in ({}, TRAIN_SPLIT):
            raise ValueError("with folds the attacked data are the training data; leave out 'data'")
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
                raise ValueError(f"two models would be called {name!r}; give one of them a label")
        return found


def _entry(value: Any) -> AdversarialTable:
    if not isinstance(value, dict):
        raise ValueError('expected tables such as {attack = "swap_noise"}')
    try:
        return AdversarialTable.model_validate(value)
    except ValidationError as failure:
        error = failure.errors()[0]
        key = ".".join(map(str, error["loc"]))
        known = ", ".join(AdversarialTable.model_fields)
        raise ValueError(f"key {key!r}: {error['msg'].lower()} (keys: {known})") from None


PLACES = ("dataset", "group", "victim", "attack")
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


class SliceOf(TomlTable):
    """`slice` of `[[require]]`."""

    by: NonEmpty
    """One of `[slices] by`; every slice must meet the criterion."""
    value: NonEmpty | None = None
    """Only this slice must meet it."""


class Against(TomlTable):
    """`against` of `[[require]]`."""

    run: NonEmpty
    """Folder of the baseline run, complete; relative to the experiment file."""


class RequireTable(TomlTable):
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
    where: dict[str, str] = {}
    """Labels of `dataset`, `group`, `victim` or `attack` that limit which rows are judged; default:
    all rows but those of controls. All of them must meet the limit."""
    max_high: Limit | None = None
    """The interval's upper end is at most this."""
    min_low: Limit | None = None
    """The interval's lower end is at least this."""
    use: bool = True
    """False switches the entry off."""

    @field_validator("where")
    @classmethod
    def _known_places(cls, value: dict[str, str]) -> dict[str, str]:
        if unknown := [key for key in value if key not in PLACES]:
            raise ValueError(f"expected the keys {', '.join(PLACES)}, got {unknown[0]!r}")
        return value

    @model_validator(mode="after")
    def _possible(self) -> RequireTable:
        if (self.max_high is None) == (self.min_low is None):
            raise ValueError(
                "expected one limit, max_high or min_low; for two limits write two entries"
            )
        if self.metric == "asr_net" and self.max_high is not None:
            raise ValueError(
                "max_high on asr_net: noise lowers what is net of a control, so a noisy victim "
                "would meet any upper limit; set max_high on asr, and min_low on asr_net"
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
        if self.against is None and not self.metric.startswith(_SIGNED) and self._limit < 0:
            raise ValueError(f"{self.metric} is never below 0, so its limit cannot be either")
        return self

    @property
    def _limit(self) -> float:
        limit = self.min_low if self.max_high is None else self.max_high
        return 0.0 if limit is None else limit

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


class SlicesTable(TomlTable):
    """`[slices]`: rates of parts of the data; no part of the fingerprint."""

    by: Annotated[tuple[NonEmpty, ...], Field(min_length=1)]
    """Properties that divide the items: a metadata column such as `subject`, `type` (of the
    entities that an attack may replace), `semantic_group` (of these types), `key` (letter),
    `option_length` and `question_length` (thirds)."""

    @field_validator("by", mode="before")
    @classmethod
    def _list(cls, value: Any) -> Any:
        return distinct(value)


# -- data, attacks, and the whole file -------------------------------------------------------------


__all__ = [
    "AnalysisTable",
    "AttackTable",
    "DatasetTable",
    "EntitiesTable",
    "Experiment",
    "ExperimentTable",
    "RequireTable",
    "RoleTable",
    "RolesTable",
    "SignificanceTable",
    "SlicesTable",
    "TrainTable",
    "TuneTable",
    "VictimTable",
]


LIMITS = ("max_queries", "max_tokens", "max_usd", "max_seconds")
"""Keys that stop a run before it is complete."""


class ExperimentTable(TomlTable):
    """`[experiment]`."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    """Name of the experiment and of its default run folder."""
    seeds: Annotated[tuple[Seed, ...], Field(min_length=1)] = (0, 1, 2)
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
    """openai: time limit of one whole request, in seconds."""
    cache: NonEmpty | None = None
    """Folder of answers that runs share, or `default`; default: each run keeps its own."""
    controls: bool | Annotated[tuple[NonEmpty, ...], Field(min_length=1)] | None = None
    """Control arms beside every attack. Questions: a list such as `["no_op", "paraphrase"]`, true
    for all that fit, false for none; default `["no_op"]` (MedFuzz: `["neutral_insertion"]`).
    Tagged texts: true adds to every perturbed copy an arm with as much noise outside entities;
    default false."""
    flip_check: bool = True
    """Ask every success again, alone."""

    @field_validator("controls", mode="before")
    @classmethod
    def _controls(cls, value: Any) -> Any:
        if value == []:
            raise ValueError("the list is empty: write false for no controls")
        return distinct(value, "controls")

    @field_validator("seeds", mode="before")
    @classmethod
    def _seeds(cls, value: Any) -> Any:
        return distinct(value, "seeds")


class DatasetTable(TomlTable):
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
    label: NonEmpty | None = None
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

    @field_validator("columns", mode="before")
    @classmethod
    def _lists_of_columns(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {key: tuple(own) if isinstance(own, list) else own for key, own in value.items()}

    @field_validator("types", "scale", "names", mode="before")
    @classmethod
    def _lists(cls, value: Any) -> Any:
        if isinstance(value, list):
            return tuple(float(v) if isinstance(v, int) else v for v in value)
        return value


class EntitiesTable(TomlTable):
    """`[[entities]]`: a group."""

    name: NonEmpty | None = None
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

    @field_validator("distance")
    @classmethod
    def _distance(cls, value: str) -> str:
        from medstress.entities.distances import wrong_distance

        if reason := wrong_distance(value):
            raise ValueError(reason)
        return value

    @field_validator("type", mode="before")
    @classmethod
    def _type(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    @field_validator("type")
    @classmethod
    def _known_type(cls, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
        from medstress.entities.groups import wrong_type

        if reason := wrong_type(value):
            raise ValueError(reason)
        return value

    @model_validator(mode="after")
    def _spacy_keys(self) -> EntitiesTable:
        if self.recogniser == "spacy" and self.model is None:
            raise ValueError("recogniser = 'spacy' needs the key 'model', a spaCy pipeline")
        for key in ("model", "labels", "linker"):
            if self.recogniser != "spacy" and getattr(self, key) is not None:
                raise ValueError(f"the key {key!r} is for recogniser = 'spacy'")
        if self.labels is not None and self.linker is not None:
            raise ValueError("give labels or linker, not both: a linker's types replace labels")
        return self


class AttackTable(TomlTable):
    """`[[attack]]`; other keys are the attack's own parameters, which it checks itself."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True, allow_inf_nan=False)

    name: NonEmpty
    """`entity_substitution`, `discrete_zoo`, or a plug-in's."""
    label: NonEmpty | None = None
    """Name in results; default: the name, with the keys that tell entries of one name apart."""
    use: bool = True
    """False switches the entry off."""

    @property
    def parameters(self) -> dict[str, Any]:
        """The attack's own parameters, as given."""
        return dict(self.model_extra or {})

    @property
    def exponents(self) -> list[Any]:
        """The values of `n`, one attack for each; [None] if `n` is not given."""
        n = self.parameters.get("n")
        return n if isinstance(n, list) else [n]

    @cached_property
    def attacks(self) -> tuple[Attack, ...]:
        """The attacks, one for each of `exponents`; built once.

        Raises:
            UsageError: an attack has invalid parameters or is not installed.
        """
        given = self.parameters
        return tuple(
            make_attack(self.name, given if n is None else {**given, "n": n})
            for n in self.exponents
        )


class Experiment(TomlTable):
    """A whole experiment file."""

    experiment: ExperimentTable
    """Name, seeds, limits."""
    dataset: Annotated[tuple[DatasetTable, ...], Field(min_length=1)]
    """Sources of items."""
    entities: tuple[EntitiesTable, ...] = ()
    """Entity groups; empty for sentences or if no attack draws names."""
    victim: tuple[VictimTable, ...] = ()
    """Models under attack; optional for commands that ask none (`reading.NEEDS`)."""
    attack: tuple[AttackTable, ...] = ()
    """Attacks; optional for commands that run none."""
    role: RolesTable | None = None
    """Other models that attacks ask."""
    tune: TuneTable | None = None
    """Settings of `medstress tune`; other commands do not read them."""
    train: TrainTable | None = None
    """Settings of `medstress train`; other commands do not read them."""
    analysis: AnalysisTable = AnalysisTable()
    """Analyses that ask more queries after the trials."""
    test: SignificanceTable | None = None
    """Significance tests of successes; `run` does them if the table is present."""
    require: tuple[RequireTable, ...] = ()
    """Acceptance criteria, judged when the run is complete."""
    slices: SlicesTable | None = None
    """Parts of the data with rates of their own."""

    @field_validator("dataset", "entities", "victim", "attack", "require", mode="before")
    @classmethod
    def _array(cls, value: Any) -> Any:
        return (value,) if isinstance(value, dict) else tuple(value)


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
    differing = {name: _differing(rows) for name, rows in by_name.items()}
    labels = []
    for label, name, parameters in entries:
        keys = differing[name] if label is None else []
        parts = [f"{key}={_shown(parameters.get(key))}" for key in keys]
        shown = [
            part for part, key in zip(parts, keys, strict=True) if parameters.get(key) is not None
        ]
        labels.append(label or " ".join([name, *shown]))
    for label, n in Counter(labels).items():
        if n > 1:
            raise UsageError(
                f"two [[{table}]] entries are both called {label!r}: remove one, or give them "
                f"different {'names' if table in ('victim', 'entities') else 'labels'}"
            )
    return labels


def victim_labels(tables: Sequence[VictimTable]) -> list[str]:
    """Return the name of each victim in results.

    Raises:
        UsageError: two victims have the same name.
    """
    entries = []
    for table in tables:
        own = {
            "wrap": "+".join(entry["name"] for entry in table.wrap) or None,
            "prompt": shown_prompt(table.prompt),
        }
        keys = {**table.model_dump(exclude={"use", "wrap"}), **own}
        entries.append((table.name, victim_name(table), keys))
    return unique_labels("victim", entries)


def victim_name(table: VictimTable) -> str:
    """Return the default name of a victim."""
    return table.model or table.target or table.backend


def _differing(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    keys = {key: None for row in rows for key in row}
    return [key for key in keys if len({repr(row.get(key)) for row in rows}) > 1]


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def group_labels(tables: Sequence[EntitiesTable]) -> list[str]:
    """Return the name of each entity group in results."""
    return unique_labels(
        "entities", [(t.name, type_label(t), t.model_dump(exclude={"use"})) for t in tables]
    )


def type_label(table: EntitiesTable) -> str:
    """Return the types of an entity group as one word."""
    return table.type if isinstance(table.type, str) else "+".join(table.type)


def shown_prompt(prompt: str | Mapping[str, str]) -> str:
    """Return the key `prompt` as labels show it.

    >>> shown_prompt({"medmcqa": "medmcqa", "default": "qstab"})
    'medmcqa: medmcqa, default: qstab'
    """
    if isinstance(prompt, str):
        return prompt
    return ", ".join(f"{name}: {each}" for name, each in prompt.items())
