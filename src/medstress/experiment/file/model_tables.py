"""Tables of models: victims, and the other roles that attacks ask."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from medstress.experiment.file.table import Count, NonEmpty, Seed, TomlTable
from medstress.tasks.wrappers import read_wraps

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
    prompt: NonEmpty | dict[str, str] = "qstab"
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

    @field_validator("prompt", mode="before")
    @classmethod
    def _prompt(cls, value: Any) -> Any:
        if reason := wrong_prompt(value):
            raise ValueError(reason)
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


def wrong_prompt(value: Any) -> str | None:
    """Return why a value is not a valid `prompt`; None if it is valid.

    >>> wrong_prompt("qstab"), wrong_prompt({"medmcqa": "medmcqa"})
    (None, None)
    >>> wrong_prompt({"medmcqa": 3})
    "expected a prompt for 'medmcqa': a shipped prompt or a file, got 3"
    """
    if isinstance(value, Mapping) and value:
        wrong = [(name, each) for name, each in value.items() if not _is_name(each)]
        return (
            f"expected a prompt for {wrong[0][0]!r}: a shipped prompt or a file, got "
            f"{wrong[0][1]!r}"
            if wrong
            else None
        )
    if _is_name(value):
        return None
    return (
        "expected a shipped prompt, a file, or a table by data set such as "
        f'{{medmcqa = "medmcqa", default = "qstab"}}, got {value!r}'
    )


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value)
