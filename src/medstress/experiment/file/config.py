"""The tables of an experiment file; unknown keys and wrong types raise errors."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, field_validator, model_validator

from medstress.attacks.protocol import Attack, make_attack
from medstress.backends.options import ANSWER_SECONDS
from medstress.core.errors import UsageError
from medstress.core.label_schemes import Scheme
from medstress.experiment.file.model_tables import RolesTable, RoleTable, VictimTable
from medstress.experiment.file.study_tables import (
    AnalysisTable,
    RequireTable,
    SignificanceTable,
    SlicesTable,
    TrainTable,
    TuneTable,
)
from medstress.experiment.file.table import Count, NonEmpty, Seconds, Seed, TomlTable, distinct
from medstress.files.writing import Access

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
    group_readable: bool = False
    """Let the owner's group read the run folder; default: only the owner."""

    @property
    def access(self) -> Access:
        """Who may read the run folder."""
        return Access.GROUP if self.group_readable else Access.OWNER

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


_FILES_ONLY = (
    "sample",
    "jsonl",
    "parquet",
    "attacked",
    "medqa",
    "medmcqa",
    "iob",
    "pubtator",
    "brat",
    "pairs",
)
"""Sources that do not read the hub themselves; plug-ins may."""


class DatasetTable(TomlTable):
    """`[[dataset]]`."""

    name: NonEmpty
    """`sample`, `csv`, `tsv`, `xlsx`, `jsonl`, `parquet`, `attacked` (what `export` wrote),
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
    names: Annotated[tuple[NonEmpty, ...], Field(min_length=1)] = ()
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

    @model_validator(mode="after")
    def _read_from_the_hub(self) -> DatasetTable:
        if self.hub is not None and self.name in _FILES_ONLY:
            raise ValueError(f"hub is for name = 'hub', 'bc5cdr' or 'biosses', not {self.name!r}")
        return self

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
