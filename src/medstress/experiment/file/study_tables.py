"""Tables beside data, models and attacks: tune, train, analysis, test, require, slices."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from medstress.analyses.families import MAX_CALLS
from medstress.experiment.file.table import Count, NonEmpty, Seed, TomlTable, distinct

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
    where: dict[str, str] = {}  # noqa: RUF012 - pydantic copies it
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
