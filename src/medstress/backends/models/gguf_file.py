"""Reads the header of a GGUF file without its weights."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from medstress.core.calls import Message
from medstress.core.errors import PermanentBackendError, TrialError, UsageError
from medstress.files.extras import not_there
from medstress.files.jinja_texts import render
from medstress.files.reading import reading


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufFacts:
    """The fields of the header that the back end uses."""

    template: str | None
    """The chat template."""
    start: str
    """Text of the token that begins a sequence; empty if there is none."""
    end: str
    """Text of the token that ends a sequence; empty if there is none."""
    n_vocabulary: int
    """Number of tokens in the vocabulary."""
    n_context: int | None
    """Longest sequence the model was trained on, in tokens."""
    parameters: int
    """Number of weights in all tensors."""


def read_facts(path: Path) -> GgufFacts:
    """Read the header.

    Raises:
        UsageError: the package gguf is not installed, or the file is damaged.
    """
    if find_spec("gguf") is None:
        raise not_there("reading GGUF files", "llama-cpp", "gguf")
    problem = f"{path} is not a GGUF file of a language model, or is damaged"
    with reading(lambda why: f"{problem} ({why})", also=(TypeError,)):
        return _facts(path)


def _facts(path: Path) -> GgufFacts:
    import gguf

    class Reader(gguf.GGUFReader):  # type: ignore[misc]
        def _get(self, offset: int, dtype: Any, count: int = 1, *others: Any, **named: Any) -> Any:
            # The original returns fewer values at the end of the file and continues, so a header
            # that declares 2**60 values would loop for ever.
            end = int(offset) + int(count) * int(dtype(0).itemsize)
            if not 0 <= offset <= end <= len(self.data):
                raise EOFError(f"it ends at byte {len(self.data):,}, expected byte {end:,}")
            return super()._get(offset, dtype, count, *others, **named)

    reader = Reader(path)
    fields = reader.fields

    def value(key: str, kind: type[Any]) -> Any:
        content = fields[key].contents() if key in fields else None
        if content is not None and (not isinstance(content, kind) or content is True):
            raise ValueError(f"{key}: expected {kind.__name__}, got {type(content).__name__}")
        return content

    tokens = fields["tokenizer.ggml.tokens"]

    def text(key: str) -> str:
        number = value(f"tokenizer.ggml.{key}", int)
        return "" if number is None else str(tokens.contents(number))

    return GgufFacts(
        template=value("tokenizer.chat_template", str),
        start=text("bos_token_id"),
        end=text("eos_token_id"),
        n_vocabulary=len(tokens.data),
        n_context=value(f"{value('general.architecture', str)}.context_length", int),
        parameters=sum(int(tensor.n_elements) for tensor in reader.tensors),
    )


def render_chat(facts: GgufFacts, messages: tuple[Message, ...], name: str) -> str:
    """Render a conversation with the file's template, as transformers would.

    Raises:
        UsageError: the file has no template, or it is not Jinja or does not terminate.
        PermanentBackendError: the template refuses this conversation.
    """
    if not facts.template:
        raise UsageError(
            f"model {name!r} has no chat template, so it cannot be asked in turns; "
            "use a plain prompt (chat = false) or an instruction-tuned model"
        )
    values = {
        "messages": [{"role": one.role, "content": one.content} for one in messages],
        "add_generation_prompt": True,
        "bos_token": facts.start,
        "eos_token": facts.end,
    }
    try:
        return render(facts.template, values, name=f"the chat template of {name!r}", chat=True).text
    except TrialError as error:
        raise PermanentBackendError(f"{error}; it refuses this conversation") from error
