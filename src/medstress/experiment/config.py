"""The experiment file as types; unknown keys and wrong types are refused."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

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
    """`sample`, `jsonl`, `parquet`, `medqa`, `medmcqa`, or a plug-in's."""
    path: str | None = None
    """The file, where the source needs one."""
    annotations: str | None = None
    """medqa, medmcqa: spans of the options."""
    split: str | None = None
    """The published split the file holds."""
    label: str | None = None
    """Name in results; default: the name, and the keys in which entries of one name differ."""
    limit: Count | None = None
    """A sample of so many items; limit 200 contains limit 100."""
    sample_seed: Seed = 0
    """Which sample."""
    on_bad_row: Literal["error", "skip"] = "error"
    """Stop at a bad row, or leave it out and count it."""
    use: bool = True
    """False switches the entry off."""


class EntitiesTable(Table):
    """`[[entities]]`: a group."""

    name: str | None = None
    """The group in results; default: the type."""
    type: str | tuple[str, ...]
    """`drugs`, `diseases`, or a list of UMLS semantic type identifiers."""
    recogniser: Literal["given"] = "given"
    """Mentions come with the rows."""
    vocabulary: NonEmpty
    """`drugs`, `diseases`, or a file."""
    column: Annotated[int, Field(ge=0)] | None = None
    """Column of a table without header, from 0."""
    embedding: NonEmpty = "minilm"
    """`minilm`, `ngram`, or a transformers model."""
    pooling: Literal["cls", "mean", "first_token"] | None = None
    """Default: what suits the model."""
    limit: Count | None = None
    """Attackable items of this group, drawn after the data set's limit."""
    distance: Literal["cosine"] = "cosine"
    """h of the samplers."""
    synonyms: NonEmpty = "default"
    """Second right answers to exclude: `default`, `none`, or a table."""
    choices: Literal["default"] = "default"
    """Which defaults hold."""
    use: bool = True
    """False switches the entry off."""

    @field_validator("type", mode="before")
    @classmethod
    def _type(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value


class VictimTable(Table):
    """`[[victim]]`."""

    name: str | None = None
    """Name in results; default: the model or target."""
    backend: NonEmpty
    """`transformers`, `python`, `mock`, or a plug-in's."""
    model: str | None = None
    """A path, a hub id, or `smollm2`."""
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
    batch_size: Count | None = None
    """Calls handed over at once; default: the back end's."""
    target: str | None = None
    """python: `module:function` or `file.py:function`."""
    version: str | None = None
    """python: stands for the function's source in the fingerprint."""
    use: bool = True
    """False switches the entry off."""


class AttackTable(Table):
    """`[[attack]]`; further keys are the attack's own parameters, which it checks itself."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True, allow_inf_nan=False)

    name: NonEmpty
    """`entity_substitution`, or a plug-in's."""
    label: str | None = None
    """Name in results; default: the name, and the keys in which entries of one name differ."""
    use: bool = True
    """False switches the entry off."""

    @property
    def parameters(self) -> dict[str, Any]:
        """The attack's own parameters, as written."""
        return dict(self.model_extra or {})


class Experiment(Table):
    """A whole experiment file."""

    experiment: ExperimentTable
    """Name, seeds, limits."""
    dataset: Annotated[tuple[DatasetTable, ...], Field(min_length=1)]
    """Where the questions come from."""
    entities: Annotated[tuple[EntitiesTable, ...], Field(min_length=1)]
    """Entity groups."""
    victim: Annotated[tuple[VictimTable, ...], Field(min_length=1)]
    """Models under attack."""
    attack: Annotated[tuple[AttackTable, ...], Field(min_length=1)]
    """Attacks."""

    @field_validator("dataset", "entities", "victim", "attack", mode="before")
    @classmethod
    def _array(cls, value: Any) -> Any:
        return (value,) if isinstance(value, dict) else tuple(value)
