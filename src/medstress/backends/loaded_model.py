"""A model and its tokenizer in memory, with their identity."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from medstress.backends.freed_memory import keep_freed_memory
from medstress.backends.model_files import ModelFiles, find_model, no_progress_bars
from medstress.backends.options import BackendOptions
from medstress.calls import ModelIdentity
from medstress.errors import UsageError, did_you_mean, missing_extra
from medstress.hashing import content_hash

DTYPES = ("float32", "bfloat16", "float16")
_HEADS = {"ner": "TokenClassification", "similarity": "SequenceClassification"}
"""The architecture that each task but multiple choice is done with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """What the parts of the transformers back end work with."""

    model: Any
    """A `PreTrainedModel` in evaluation mode, on its device."""
    tokenizer: Any
    """Its tokenizer."""
    identity: ModelIdentity
    """Of weights, tokenizer, number format and library versions."""
    encoder_decoder: bool
    """Whether prompts go through an encoder."""
    max_positions: int | None
    """The longest sequence in tokens; None where positions are relative and have no end."""

    @property
    def device(self) -> Any:
        """The `torch.device` the weights are on."""
        return self.model.device


def load_model(options: BackendOptions) -> LoadedModel:
    """Load the model that options name.

    Raises:
        UsageError: torch or transformers is absent, or the model cannot be found or read.
    """
    if find_spec("torch") is None or find_spec("transformers") is None:
        raise missing_extra("the transformers back end", "transformers")
    if options.dtype not in DTYPES:
        close = did_you_mean(options.dtype, DTYPES)
        raise UsageError(f"dtype {options.dtype!r}: expected one of {', '.join(DTYPES)}{close}")
    device = _device(options.device)
    if device.type == "cpu":
        keep_freed_memory()
    files = find_model(options)
    head = _HEADS.get(options.task) or ("MultipleChoice" if options.answer_by == "head" else None)
    model, tokenizer = _read(str(options.model), files, options.dtype, head=head)
    if head is None:
        model.generation_config = _token_settings(model, tokenizer)
    text_config = model.config.get_text_config()
    return LoadedModel(
        model=model.to(device).eval(),
        tokenizer=tokenizer,
        identity=_identity(str(options.model), files, options.dtype),
        encoder_decoder=bool(model.config.is_encoder_decoder),
        max_positions=getattr(text_config, "max_position_embeddings", None),
    )


def _device(name: str) -> Any:
    """Resolve `auto`, and check that the device is there."""
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    kind, _, index = name.partition(":")
    if kind not in {"cpu", "cuda"} or (index and not index.isdecimal()):
        raise UsageError(f"device {name!r}: expected auto, cpu, cuda or cuda:<number>")
    if kind == "cuda" and int(index or 0) >= torch.cuda.device_count():
        raise UsageError(
            f"device {name!r}: this machine shows {torch.cuda.device_count()} CUDA devices to "
            "torch; use device = 'auto' or 'cpu'"
        )
    return torch.device(name)


def _read(name: str, files: ModelFiles, dtype: str, *, head: str | None) -> tuple[Any, Any]:
    """Read configuration, tokenizer and weights; every way this fails is one sentence."""
    import torch
    from transformers import AutoConfig, AutoTokenizer

    how = files.load_options()
    try:
        with no_progress_bars():
            config = AutoConfig.from_pretrained(files.location, **how)
            kind = _kind_of_model(name, config, head=head)
            tokenizer = AutoTokenizer.from_pretrained(files.location, **how)
            model, found = kind.from_pretrained(
                files.location,
                config=config,
                dtype=getattr(torch, dtype),
                output_loading_info=True,
                **how,
            )
    except (OSError, ValueError, KeyError, ImportError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UsageError(f"transformers cannot load the model {name!r}: {reason}") from error
    if head and found["missing_keys"]:
        # transformers fills them with random numbers, and the answers would be noise.
        raise UsageError(
            f"model {name!r} lacks weights of its head ({', '.join(sorted(found['missing_keys']))})"
            "; save the whole model with save_pretrained"
        )
    return model, tokenizer


def _kind_of_model(name: str, config: Any, *, head: str | None) -> Any:
    """Return the class that reads a model; refuses one that cannot answer as asked."""
    from transformers import (
        AutoModelForCausalLM,
        AutoModelForMultipleChoice,
        AutoModelForSeq2SeqLM,
    )

    named = list(config.architectures or ())
    if head is not None and head in _HEADS.values():
        return _classifier(name, named, head)
    if bool(head) != any(one.endswith("ForMultipleChoice") for one in named):
        raise UsageError(
            f"model {name!r} has no multiple-choice head: its config.json names the architecture "
            f'{" and ".join(named) or "not at all"}, and answer_by = "head" needs one such as '
            "BertForMultipleChoice; fit one (scripts/fit_head.py) or answer by letter or text"
            if head
            else f"model {name!r} is a multiple-choice head ({' and '.join(named)}), which values "
            'options and writes nothing; use answer_by = "head"'
        )
    if head:
        return AutoModelForMultipleChoice
    return AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM


def _classifier(name: str, named: list[str], head: str) -> Any:
    """Return the class that reads a model with the head that a task needs."""
    import transformers

    if not any(one.endswith(f"For{head}") for one in named):
        what = "labels for tokens" if head == "TokenClassification" else "one score for two texts"
        raise UsageError(
            f"model {name!r} does not give {what}: its config.json names the architecture "
            f"{' and '.join(named) or 'not at all'}, expected one such as BertFor{head}; fine-tune "
            "it for the task"
            + (
                ""
                if head == "TokenClassification"
                else ", or compare sentence vectors with backend = 'sentence_transformers'"
            )
        )
    return getattr(transformers, f"AutoModelFor{head}")


def _token_settings(model: Any, tokenizer: Any) -> Any:
    """Keep the special tokens of a model's generation settings and drop the rest.

    Many models ask for sampling, beams or repetition penalties; here calls alone say how text is
    generated.
    """
    from transformers import GenerationConfig

    theirs = model.generation_config
    start = theirs.decoder_start_token_id
    if start is None:
        start = getattr(model.config, "decoder_start_token_id", None)
    ends = theirs.eos_token_id
    if ends is None:
        ends = tokenizer.eos_token_id
    ends = [] if ends is None else [ends] if isinstance(ends, int) else list(ends)
    return GenerationConfig(
        eos_token_id=ends or None,
        # What fills up short rows is masked, so any token will do.
        pad_token_id=ends[0] if ends else 0,
        bos_token_id=theirs.bos_token_id,
        decoder_start_token_id=start,
        forced_bos_token_id=theirs.forced_bos_token_id,
    )


def _identity(name: str, files: ModelFiles, dtype: str) -> ModelIdentity:
    """Hash what the answers depend on: not the path, the device or the batch size."""
    import torch
    import transformers

    torch_version = ".".join(torch.__version__.split(".")[:2])
    parts = [files.content, dtype, transformers.__version__, torch_version]
    return ModelIdentity(name=name, hash=content_hash(parts))
