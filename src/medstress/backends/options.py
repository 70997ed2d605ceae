"""The options of a back end; each back end reads the fields it knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ANSWER_SECONDS = 300.0
"""Default time limit of one request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendOptions:
    """The keys of a `[[victim]]` or `[role.*]` table that the back end uses."""

    model: str | None = None
    """A path, a hub id, or an embedded name such as `smollm2`."""
    task: str = "multiple_choice"
    """`multiple_choice`, `ner`, `similarity` or `classification`; follows from the
    data sets."""
    answer_by: str | None = None
    """transformers: `head` loads a multiple-choice head, anything else a language model."""
    dtype: str = "float32"
    """`float32`, `bfloat16` or `float16`."""
    device: str = "auto"
    """`auto` (CUDA if available), `cpu`, `cuda`, `cuda:1`."""
    device_map: str | Mapping[str, str | int] | None = None
    """transformers: spreads a model over devices: `auto`, or part -> device."""
    load_in_4bit: bool = False
    """transformers: linear layers packed by bitsandbytes."""
    adapter: str | None = None
    """transformers: a peft adapter, a folder or a hub id."""
    context_tokens: int | None = None
    """llama_cpp: the longest prompt with its answer; None lets the back end choose."""
    batch_size: int | None = None
    """The most calls given to `answer` at once; None lets the back end choose."""
    target: str | None = None
    """python: `module:function` or `file.py:function`."""
    version: str | None = None
    """python: overrides the hash of the source file in the fingerprint; openai: adds to it."""
    base_url: str | None = None
    """openai: the address of the server."""
    api_key_env: str | None = None
    """openai: the environment variable with the key; None sends no key."""
    max_in_flight: int | None = None
    """openai: the most requests at the same time; None lets the back end choose."""
    requests_per_minute: int | None = None
    """openai: the most requests per minute."""
    tokens_per_minute: int | None = None
    """openai: the most tokens per minute, in and out."""
    timeout_seconds: float = ANSWER_SECONDS
    """openai: time limit of one whole request, in seconds."""
    greets: bool = True
    """openai: whether opening fails if the server is not there."""
    match_model: str | None = None
    """openai: which answering model is taken for the requested one: `exact`, `loose` (None) or
    `any`."""
    structured: bool = True
    """openai: send a call's JSON schema to the server."""
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    """openai: fields added to each request."""
    omit: tuple[str, ...] = ()
    """openai: fields left out of each request."""
    base: Path = field(default_factory=Path.cwd)
    """The folder that relative paths start from."""
