"""What a back end is opened with; each reads the fields it knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ANSWER_SECONDS = 300.0
"""For one request, where nobody says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendOptions:
    """The keys of a `[[victim]]` or `[role.*]` table that concern the back end."""

    model: str | None = None
    """A path, a hub id, or an embedded name such as `smollm2`."""
    task: str = "multiple_choice"
    """What is asked: `multiple_choice`, `ner`, `similarity` or `classification`; follows from the
    data sets."""
    answer_by: str | None = None
    """transformers: `head` reads a multiple-choice head; all else a language model."""
    dtype: str = "float32"
    """`float32`, `bfloat16` or `float16`."""
    device: str = "auto"
    """`auto` (CUDA where there is one), `cpu`, `cuda`, `cuda:1`."""
    device_map: str | Mapping[str, str | int] | None = None
    """transformers: spreads a model over devices: `auto`, or part -> device."""
    load_in_4bit: bool = False
    """transformers: linear layers packed by bitsandbytes."""
    adapter: str | None = None
    """transformers: a peft adapter, a folder or a hub id."""
    context_tokens: int | None = None
    """llama_cpp, vllm: the longest prompt with its answer; None lets the back end choose."""
    batch_size: int | None = None
    """Calls handed over at once; None lets the back end choose."""
    kv_bytes: int | None = None
    """Memory for keys and values of prompts read before; None lets the back end choose."""
    target: str | None = None
    """python: `module:function` or `file.py:function`."""
    version: str | None = None
    """python: overrides the hash of the source file in the fingerprint; openai: adds to it."""
    base_url: str | None = None
    """openai: the address of the server."""
    api_key_env: str | None = None
    """openai: the environment variable that holds the key; None sends none."""
    max_in_flight: int | None = None
    """openai: requests made at the same time; None lets the back end choose."""
    requests_per_minute: int | None = None
    """openai: the most requests a minute."""
    tokens_per_minute: int | None = None
    """openai: the most tokens a minute, in and out."""
    timeout_seconds: float = ANSWER_SECONDS
    """openai: seconds of one request in all."""
    structured: bool = True
    """openai: ask for JSON of a schema where a call has one."""
    base: Path = field(default_factory=Path.cwd)
    """Relative paths are relative to this folder."""
