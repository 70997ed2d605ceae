"""The experiment file as types; unknown keys and wrong types are refused."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from medstress.tasks.wrapping import read_wraps

NonEmpty = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]


class Table(BaseModel):
    """Base of all tables."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class ExperimentTable(Table):
    """`[experiment]`."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    """Names the default run folder."""
    seeds: Annotated[tuple[Seed, ...], Field(min_length=1)] = (0, 1, 2)
    """One trial an item and seed; deterministic attacks run once."""
    max_failed: Annotated[int, Field(ge=0)] = 0
    """More failed trials than this: exit code 1."""
    max_queries: Count | None = None
    """Stop cleanly after so many computed calls, baseline and work ahead included."""
    max_tokens: Count | None = None
    """Stop cleanly after about so many tokens."""
    max_usd: Annotated[float, Field(gt=0)] | None = None
    """Stop cleanly after about so many US dollars, at `price_in` and `price_out` of the victims."""
    cache: NonEmpty | None = None
    """A folder of answers that runs share, or `default`; default: each run has only its own."""
    flip_check: bool = True
    """Ask every success again, alone."""

    @field_validator("seeds", mode="before")
    @classmethod
    def _seeds(cls, value: Any) -> Any:
        if isinstance(value, list):
            if len(set(map(str, value))) != len(value):
                raise ValueError("seeds repeat")
            return tuple(value)
        return value


class DatasetTable(Table):
    """`[[dataset]]`."""

    name: NonEmpty
    """`sample`, `jsonl`, `parquet`, `medqa`, `medmcqa`, `bc5cdr`, `biosses`, `iob`, `pubtator`,
    `bigbio`, `pairs`, `hub`, or a plug-in's."""
    path: str | None = None
    """The file, where the source needs one; bc5cdr: or a folder with one for each split."""
    hub: NonEmpty | None = None
    """bc5cdr, biosses, hub: `owner/name` on the Hugging Face hub, or `owner/name:file`."""
    annotations: str | None = None
    """medqa, medmcqa: spans of the options."""
    split: str | None = None
    """The published split the file holds."""
    types: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """pubtator, bigbio, bc5cdr: the entity types that become labels; default: all."""
    columns: dict[str, str] | None = None
    """pairs: the file's names of `id`, `text_a`, `text_b`, `score`."""
    scale: tuple[float, float] | None = None
    """pairs: lowest and highest score; default: 0 to 4."""
    on_bad_labels: Literal["error", "repair"] = "error"
    """Tagged texts: stop at an I- that continues nothing, or read it as B- and say so."""
    label: NonEmpty | None = None
    """Name in results; default: the name, and the keys in which entries of one name differ."""
    limit: Count | None = None
    """A sample of so many items; limit 200 contains limit 100."""
    sample_seed: Seed = 0
    """Which sample."""
    on_bad_row: Literal["error", "skip"] = "error"
    """Stop at a bad row, or leave it out and count it."""
    use: bool = True
    """False switches the entry off."""

    @field_validator("types", "scale", mode="before")
    @classmethod
    def _lists(cls, value: Any) -> Any:
        if isinstance(value, list):
            return tuple(float(v) if isinstance(v, int) else v for v in value)
        return value


class EntitiesTable(Table):
    """`[[entities]]`: a group."""

    name: NonEmpty | None = None
    """The group in results; default: the type."""
    type: str | tuple[str, ...]
    """`drugs`, `diseases`, or a list of UMLS semantic type identifiers."""
    recogniser: Literal["given", "gazetteer", "spacy"] = "given"
    """Where mentions of the type come from: the rows, the tables of names, or a spaCy pipeline."""
    model: NonEmpty | None = None
    """spacy: an installed pipeline, or the folder of a saved one."""
    labels: Annotated[dict[str, str], Field(min_length=1)] | None = None
    """spacy: label -> type, such as `{CHEMICAL = "drugs"}`; default: the usual names."""
    linker: Literal["umls"] | None = None
    """spacy: types of the concept that scispaCy's linker finds, instead of labels."""
    vocabulary: NonEmpty
    """`drugs`, `diseases`, or a file."""
    column: Annotated[int, Field(ge=0)] | None = None
    """Column of a table without header, from 0."""
    embedding: NonEmpty = "minilm"
    """`minilm`, `ngram`, word vectors, or a transformers model."""
    pooling: Literal["cls", "mean", "first_token"] | None = None
    """Default: what suits the model."""
    limit: Count | None = None
    """Attackable items of this group, drawn after the data set's limit."""
    distance: NonEmpty = "cosine"
    """h of the samplers: `cosine`, `euclidean`, `mondo`, `mesh`, or a function of the user's."""
    synonyms: NonEmpty = "default"
    """Second right answers to exclude: `default`, `none`, a table, MRCONSO.RRF, or OBO."""
    choices: Literal["default", "as_published", "as_released"] = "default"
    """Which defaults hold: `as_released` pools every model by `first_token`."""
    use: bool = True
    """False switches the entry off."""

    @field_validator("distance")
    @classmethod
    def _distance(cls, value: str) -> str:
        from pydantic_core import PydanticCustomError

        from medstress.entities.distances import wrong_distance

        if reason := wrong_distance(value):
            raise PydanticCustomError("distance", "{reason}", {"reason": reason})
        return value

    @field_validator("type", mode="before")
    @classmethod
    def _type(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    @field_validator("type")
    @classmethod
    def _known_type(cls, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
        from pydantic_core import PydanticCustomError

        from medstress.entities.semantic_types import wrong_type

        if reason := wrong_type(value):
            raise PydanticCustomError("type", "{reason}", {"reason": reason})
        return value

    @model_validator(mode="after")
    def _spacy_keys(self) -> EntitiesTable:
        if self.recogniser == "spacy" and self.model is None:
            raise ValueError("recogniser = 'spacy' needs the key 'model', a pipeline")
        for key in ("model", "labels", "linker"):
            if self.recogniser != "spacy" and getattr(self, key) is not None:
                raise ValueError(f"the key {key!r} is for recogniser = 'spacy'")
        if self.labels is not None and self.linker is not None:
            raise ValueError("give labels or linker: a linker's types take the place of labels")
        return self


_SHIPPED = ("transformers", "llama_cpp", "vllm", "openai", "python", "scripted", "mock")
_READERS = {
    "device_map": ("transformers",),
    "load_in_4bit": ("transformers",),
    "adapter": ("transformers",),
    "context_tokens": ("llama_cpp", "vllm"),
    "target": ("python",),
    "base_url": ("openai",),
    "api_key_env": ("openai",),
    "max_in_flight": ("openai",),
    "requests_per_minute": ("openai",),
    "tokens_per_minute": ("openai",),
}
"""Which back ends read a key."""


class VictimTable(Table):
    """`[[victim]]`."""

    name: NonEmpty | None = None
    """Name in results; default: the model or target."""
    backend: NonEmpty
    """`transformers`, `llama_cpp`, `vllm`, `openai`, `python`, `scripted`, `mock`, or a
    plug-in's."""
    model: str | None = None
    """A path, a hub id, `smollm2`, or the name the server knows."""
    answer_by: Literal["letter", "text", "generate", "head"] | None = None
    """Default `letter`; not for functions, which answer as they like."""
    text_score: Literal["sum", "per_token", "unconditional"] = "sum"
    """text answering: how a likelihood becomes a score."""
    prompt: NonEmpty = "qstab"
    """A shipped template or a Jinja file."""
    parser: Literal["standalone", "exact", "first_four", "single_character"] = "standalone"
    """How a generated text is read."""
    max_new_tokens: Count = 128
    """generate answering."""
    temperature: Annotated[float, Field(ge=0)] = 0.0
    """generate answering; 0 is greedy."""
    parameters: Annotated[float, Field(gt=0)] | None = None
    """Number of parameters, for figures by size."""
    family: str | None = None
    """Model family, for figures by size."""
    group: Literal["generalist", "specialist"] | None = None
    """For figures by size."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Arithmetic of local models."""
    device: NonEmpty = "auto"
    """`auto`, `cpu`, `cuda`, `cuda:1`."""
    device_map: (
        Literal["auto", "balanced", "balanced_low_0", "sequential"] | dict[str, str | int] | None
    ) = None
    """transformers: a model spread over devices; `auto`, or a table of parts and devices."""
    load_in_4bit: bool = False
    """transformers: linear layers packed into 4 bits by bitsandbytes."""
    adapter: NonEmpty | None = None
    """transformers: a peft adapter, a folder or a hub id."""
    context_tokens: Count | None = None
    """llama_cpp, vllm: the longest prompt with its answer; default: the model's, at most 8192."""
    batch_size: Count | None = None
    """Calls handed over at once; default: the back end's."""
    target: str | None = None
    """python: `module:function` or `file.py:function`."""
    labels: Annotated[dict[str, str], Field(min_length=1)] | None = None
    """tagged texts: its types that the data call otherwise, such as `{CHEMICAL = "Chemical"}`."""
    version: str | None = None
    """python: stands for the function's source in the fingerprint; openai: tells apart what the
    model's name does not."""
    base_url: str | None = None
    """openai: the server's address, with `/v1`."""
    api_key_env: NonEmpty | None = None
    """openai: the environment variable that holds the key; default: no key is sent."""
    max_in_flight: Count | None = None
    """openai: requests made at the same time; default 8."""
    requests_per_minute: Count | None = None
    """openai: never exceeded, repeated requests included."""
    tokens_per_minute: Count | None = None
    """openai: never exceeded, in and out together."""
    price_in: Annotated[float, Field(ge=0)] | None = None
    """US dollars per million tokens read."""
    price_out: Annotated[float, Field(ge=0)] | None = None
    """US dollars per million tokens written."""
    structured: bool = True
    """openai: where an attack wants JSON, make the server keep to its schema; false: only the
    prompt asks for it."""
    shots: Annotated[int, Field(ge=0, le=100)] = 0
    """Answered examples before each prompt."""
    shots_from: str | None = None
    """Where they come from: `sample`, a .jsonl or .parquet file of questions, or a data set and
    its file such as `medqa:train.jsonl`."""
    shots_seed: Seed = 0
    """Which of them are drawn; the item itself is never shown."""
    wrap: tuple[dict[str, Any], ...] = ()
    """Defences, each around all that stand before it: `shuffled_options`, `majority`,
    `instructed`, or tables such as `{name = "majority", k = 5}`."""
    use: bool = True
    """False switches the entry off."""

    @model_validator(mode="after")
    def _keys_of_others(self) -> VictimTable:
        """Refuse what a shipped back end would not read; plug-ins may read anything."""
        for key, readers in _READERS.items():
            if self.backend not in readers and self.backend in _SHIPPED and getattr(self, key):
                raise ValueError(
                    f"{key} is for backend = {' or '.join(map(repr, readers))}, not "
                    f"{self.backend!r}"
                )
        return self

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
    """`[role.attacker]` and `[role.judge]`: the keys of a victim that concern its back end."""

    max_new_tokens: Count = 1024
    """Most tokens of a reply."""
    temperature: Annotated[float, Field(ge=0)] = 1.0
    """0 makes runs and votes repeat one another."""

    @model_validator(mode="before")
    @classmethod
    def _only_backends(cls, data: Any) -> Any:
        if isinstance(data, dict):
            for key in _NO_ROLE_KEYS:
                if key in data:
                    raise ValueError(f"the key {key!r} is for victims; a role always writes text")
        return data


_NO_ROLE_KEYS = (
    "name",
    "answer_by",
    "text_score",
    "prompt",
    "parser",
    "parameters",
    "family",
    "group",
    "shots",
    "shots_from",
    "shots_seed",
    "wrap",
    "use",
)


class RolesTable(Table):
    """`[role]`: models that attacks ask beside the victim."""

    attacker: RoleTable | None = None
    """Writes what is asked."""
    judge: RoleTable | None = None
    """Judges what was written."""


class AttackTable(Table):
    """`[[attack]]`; further keys are the attack's own parameters, which it checks itself."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True, allow_inf_nan=False)

    name: NonEmpty
    """`entity_substitution`, `discrete_zoo`, or a plug-in's."""
    label: NonEmpty | None = None
    """Name in results; default: the name, and the keys in which entries of one name differ."""
    use: bool = True
    """False switches the entry off."""

    @property
    def parameters(self) -> dict[str, Any]:
        """The attack's own parameters, as written."""
        return dict(self.model_extra or {})


GRID = (-50.0, -40.0, -30.0, -20.0, -10.0, -5.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0)
"""Step 10 over the paper's range, and its +/-5; 0 is random sampling."""
RELEASED_GRID = (*GRID, 60.0)


class TuneTable(Table):
    """`[tune]`: settings of `medstress tune`."""

    choices: Literal["default", "as_published", "as_released"] = "default"
    """`as_published` sets share = 1, `as_released` also the grid of the released script."""
    share: Annotated[float, Field(gt=0, le=1)] = 0.2
    """Part of the items that n is chosen on; the report is on the rest. 1: both on all items,
    the paper's maximum, which is optimistic and labelled so."""
    sample_seed: Seed = 0
    """Which items n is chosen on."""
    grid: Annotated[tuple[float, ...], Field(min_length=1)] = GRID
    """Values of n that are tried; 0 may be among them and is never chosen."""
    metric: Literal["asr", "asr_valid"] = "asr"
    """What is to be largest; `asr_valid` matters where variants of the key are asked."""
    budget: Count | None = None
    """Budget of the tuning trials; default: the attack's."""
    random: bool = True
    """Random sampling beside the tuned attacks, where the file has none."""

    @model_validator(mode="before")
    @classmethod
    def _choices(cls, data: Any) -> Any:
        """Change the defaults of the other keys; what the file says wins."""
        if not isinstance(data, dict):
            return data
        defaults: dict[str, Any] = {}
        if data.get("choices") in ("as_published", "as_released"):
            defaults["share"] = 1.0
        if data.get("choices") == "as_released":
            defaults["grid"] = RELEASED_GRID
        return {**defaults, **data}

    @field_validator("grid", mode="before")
    @classmethod
    def _grid(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    @field_validator("grid")
    @classmethod
    def _usable(cls, grid: tuple[float, ...]) -> tuple[float, ...]:
        from medstress.attacks.choices import MAX_EXPONENT

        if len(set(grid)) != len(grid):
            raise ValueError("values repeat")
        if any(abs(n) > MAX_EXPONENT for n in grid):
            raise ValueError(f"every n must lie between -{MAX_EXPONENT} and {MAX_EXPONENT}")
        if not any(grid):
            raise ValueError("expected at least one n other than 0")
        return tuple(sorted(grid))


class AnalysisTable(Table):
    """`[analysis]`: what `run` asks after the trials; no part of the fingerprint."""

    transfer: bool = False
    """Ask every success of the other victims too."""
    universality: tuple[Count, ...] = ()
    """Ask the m names that succeed most on other items of every item; a list of m."""
    prompt_similarity: bool = False
    """Embed the prompts of successes before and after; their mean cosine is the result."""
    embedder: NonEmpty = "minilm"
    """prompt_similarity: as `embedding` of a group."""
    pooling: Literal["cls", "mean", "first_token"] | None = None
    """prompt_similarity: default what suits the model."""

    @field_validator("universality", mode="before")
    @classmethod
    def _universality(cls, value: Any) -> Any:
        if isinstance(value, list):
            if len(set(map(str, value))) != len(value):
                raise ValueError("values repeat")
            return tuple(value)
        return value


class SignificanceTable(Table):
    """`[test]`: significance of MedFuzz successes; no part of the fingerprint."""

    null: Literal["matched", "flipped", "neutral", "paraphrase", "scrambled", "best_of_k"] = (
        "matched"
    )
    """What a control is."""
    controls: Literal["adaptive"] | Annotated[int, Field(ge=1, le=9_999)] = "adaptive"
    """Controls a success: a number, or from 30 to 999 as they come out."""
    statistic: Literal["key_probability", "share_correct", "confidence"] = "key_probability"
    """What tells how hard an item is; a victim without it gets the next one."""
    stop_at: Annotated[int, Field(ge=1, le=999)] = 10
    """Adaptive: enough once so many controls are at least as hard."""
    family: Literal["successes", "attacked"] = "successes"
    """What p-values are adjusted over; `attacked` counts trials that held with p = 1."""
    loops: Annotated[int, Field(ge=1, le=1_000)] = 10
    """matched, flipped: how often a control's loop of attempts starts over until it errs."""
    generator: Literal["lexicon", "attacker"] = "lexicon"
    """Who writes neutral insertions."""
    faithfulness: bool = True
    """Ask the role `judge`, where there is one, whether reasonings say an insertion mattered."""


class Experiment(Table):
    """A whole experiment file."""

    experiment: ExperimentTable
    """Name, seeds, limits."""
    dataset: Annotated[tuple[DatasetTable, ...], Field(min_length=1)]
    """Where the questions come from."""
    entities: tuple[EntitiesTable, ...] = ()
    """Entity groups; none where no attack draws names, and for sentences."""
    victim: tuple[VictimTable, ...] = ()
    """Models under attack; what asks none does without (`reading.NEEDS`)."""
    attack: tuple[AttackTable, ...] = ()
    """Attacks; likewise."""
    role: RolesTable | None = None
    """Models that attacks ask beside the victim."""
    tune: TuneTable | None = None
    """Settings of `medstress tune`; other commands do not read them."""
    analysis: AnalysisTable = AnalysisTable()
    """Asked after the trials."""
    test: SignificanceTable | None = None
    """Significance of successes; `run` does it where the table is present."""

    @field_validator("dataset", "entities", "victim", "attack", mode="before")
    @classmethod
    def _array(cls, value: Any) -> Any:
        return (value,) if isinstance(value, dict) else tuple(value)
