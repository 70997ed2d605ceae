"""Loads a model with its tokenizer, and computes their identity."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

from medstress.backends.models.adapters import Adapter, find_adapter, with_adapter
from medstress.backends.models.model_files import ModelFiles, find_model, no_progress_bars
from medstress.backends.models.out_of_memory import is_out_of_memory
from medstress.backends.models.placement import Placement, check_covered, input_device, placement_of
from medstress.backends.options import BackendOptions
from medstress.core.calls import ModelIdentity
from medstress.core.errors import UsageError, did_you_mean
from medstress.core.hashing import content_hash
from medstress.files.extras import importing, not_there
from medstress.files.reading import loading
from medstress.machine.freed_memory import keep_freed_memory
from medstress.machine.onednn_linear import use_onednn

DTYPES = ("float32", "bfloat16", "float16")
_HEADS = {"ner": "TokenClassification", "similarity": "SequenceClassification"}
"""The head that each task except multiple choice needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """A loaded model with its tokenizer, shared by the parts of the transformers back end."""

    model: Any
    """A `PreTrainedModel` in evaluation mode, on its device."""
    tokenizer: Any
    """Its tokenizer."""
    identity: ModelIdentity
    """Covers weights, tokenizer, number format and library versions."""
    encoder_decoder: bool
    """Whether prompts go through an encoder."""
    max_positions: int | None
    """The longest sequence in tokens; None if relative positions set no limit."""

    parameters: int
    """Number of weights, without those of an adapter."""

    @property
    def device(self) -> Any:
        """The `torch.device` for token ids."""
        return input_device(self.model)


def load_model(options: BackendOptions) -> LoadedModel:
    """Load the model in the options.

    Raises:
        UsageError: a package is not installed, or the model cannot be found or read, or does not
            fit into memory.
    """
    if find_spec("torch") is None or find_spec("transformers") is None:
        raise not_there("the transformers back end", "transformers", "torch", "transformers")
    with importing("the transformers back end", "transformers"):
        import torch
        import transformers
    del torch, transformers
    if options.dtype not in DTYPES:
        close = did_you_mean(options.dtype, DTYPES)
        raise UsageError(f"dtype {options.dtype!r}: expected one of {', '.join(DTYPES)}{close}")
    placement = placement_of(options)
    if placement.on_cpu:
        keep_freed_memory()
    adapter = find_adapter(options)
    files = find_model(options)
    try:
        return _loaded(options, files, placement, adapter)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise UsageError(
            f"model {options.model!r} does not fit into memory in {options.dtype}; use dtype = "
            '"bfloat16", load_in_4bit = true, a device_map, or a smaller model'
        ) from error


def _loaded(
    options: BackendOptions, files: ModelFiles, placement: Placement, adapter: Adapter | None
) -> LoadedModel:
    name = str(options.model)
    by_head = "SequenceClassification" if options.task == "classification" else "MultipleChoice"
    head = _HEADS.get(options.task) or (by_head if options.answer_by == "head" else None)
    model, tokenizer = _read(
        name, files, options.dtype, head=head, placement=placement, adapter=adapter
    )
    check_covered(name, model, placement.device_map)
    _check_tokenizer(name, tokenizer, model)
    if head is None:
        model.generation_config = _token_settings(model, tokenizer)
    text_config = model.config.get_text_config()
    parameters = model.num_parameters()
    model = placement.settled(model)
    if adapter is not None:
        model = with_adapter(model, adapter)
    use_onednn(model)
    return LoadedModel(
        model=model.eval(),
        tokenizer=tokenizer,
        identity=_identity(name, files, options, adapter),
        encoder_decoder=bool(model.config.is_encoder_decoder),
        max_positions=getattr(text_config, "max_position_embeddings", None),
        parameters=parameters,
    )


def _read(
    name: str,
    files: ModelFiles,
    dtype: str,
    *,
    head: str | None,
    placement: Placement,
    adapter: Adapter | None,
) -> tuple[Any, Any]:
    """Read configuration, tokenizer and weights; every failure becomes one clear error."""
    import torch
    from transformers import AutoConfig, AutoTokenizer

    arguments = files.load_options()
    number_format = getattr(torch, dtype)
    with (
        loading(
            lambda why: f"transformers cannot load the model {name!r}: {why}",
            passes=is_out_of_memory,
        ),
        no_progress_bars(),
    ):
        config = AutoConfig.from_pretrained(files.location, **arguments)
        kind = _kind_of_model(name, config, head=head)
        tokenizer = AutoTokenizer.from_pretrained(files.location, **arguments)
        model, report = kind.from_pretrained(
            files.location,
            config=config,
            dtype=number_format,
            output_loading_info=True,
            **placement.load_options(number_format),
            **arguments,
        )
    missing = [
        key
        for key in sorted(report["missing_keys"])
        if adapter is None or not adapter.provides(key)
    ]
    if head and missing:
        # transformers would initialise them at random, and the answers would be noise.
        raise UsageError(
            f"model {name!r} lacks weights of its head ({', '.join(missing)})"
            "; save the whole model with save_pretrained"
        )
    return model, tokenizer


def _check_tokenizer(name: str, tokenizer: Any, model: Any) -> None:
    """Refuse a tokenizer that is recognisably another model's.

    Raises:
        UsageError: some of its tokens have no embedding in the model.
    """
    embedding = model.get_input_embeddings()
    special = set(tokenizer.all_special_ids)
    # Special tokens beyond the end (a padding token, often) are never fed to the model.
    largest = max((n for n in tokenizer.get_vocab().values() if n not in special), default=-1)
    if largest >= embedding.num_embeddings:
        raise UsageError(
            f"the tokenizer of model {name!r} is another model's: it makes tokens up to number "
            f"{largest}, but the model has {embedding.num_embeddings} embeddings; put the "
            "tokenizer files that came with the weights beside them"
        )


def _kind_of_model(name: str, config: Any, *, head: str | None) -> Any:
    """Return the class that loads a model; refuse a model that cannot do what `head` says."""
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
            "BertForMultipleChoice; fit one, or answer by letter or text"
            if head
            else f"model {name!r} is a multiple-choice head ({' and '.join(named)}), which scores "
            'options and generates no text; use answer_by = "head"'
        )
    if head:
        return AutoModelForMultipleChoice
    return AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM


def _classifier(name: str, named: list[str], head: str) -> Any:
    """Return the class that loads a model with the head that a task needs."""
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

    Many models set sampling, beams or repetition penalties, but here only calls say how text is
    generated.
    """
    from transformers import GenerationConfig

    original = model.generation_config
    start = original.decoder_start_token_id
    if start is None:
        start = getattr(model.config, "decoder_start_token_id", None)
    ends = original.eos_token_id
    if ends is None:
        ends = tokenizer.eos_token_id
    ends = [] if ends is None else [ends] if isinstance(ends, int) else list(ends)
    return GenerationConfig(
        eos_token_id=ends or None,
        # Padding is masked, so any token will do.
        pad_token_id=ends[0] if ends else 0,
        bos_token_id=original.bos_token_id,
        decoder_start_token_id=start,
        forced_bos_token_id=original.forced_bos_token_id,
    )


def _identity(
    name: str, files: ModelFiles, options: BackendOptions, adapter: Adapter | None
) -> ModelIdentity:
    """Hash everything the answers depend on, but not the path, the device or the batch size."""
    import torch
    import transformers

    torch_version = ".".join(torch.__version__.split(".")[:2])
    parts = [files.content, options.dtype, transformers.__version__, torch_version]
    # Added only when used, so that answers stored without them stay valid.
    if options.load_in_4bit:
        parts.append("4 bit nf4, bitsandbytes " + version("bitsandbytes"))
    if adapter is not None:
        parts.append(f"adapter {adapter.content}, peft {version('peft')}")
        name = f"{name} + {adapter.name}"
    return ModelIdentity(name=name, hash=content_hash(parts))
