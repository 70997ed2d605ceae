"""Loads a model with its tokenizer onto its devices, and computes their identity."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

from medstress.backends.local.batches import is_out_of_memory
from medstress.backends.local.files import Adapter, ModelFiles, find_adapter, find_model
from medstress.backends.options import BackendOptions
from medstress.core.calls import ModelIdentity
from medstress.core.errors import UsageError, did_you_mean
from medstress.core.extras import importing, not_there
from medstress.core.hashing import content_hash
from medstress.core.reading import loading
from medstress.entities.processor import keep_freed_memory, quiet, use_onednn

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
        import torch  # noqa: F401
        import transformers  # noqa: F401
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
    """Read configuration, tokenizer and weights; every failure becomes one clear error."""
    import torch
    from transformers import AutoConfig, AutoTokenizer

    name, arguments = str(options.model), files.load_options()
    by_head = "SequenceClassification" if options.task == "classification" else "MultipleChoice"
    head = _HEADS.get(options.task) or (by_head if options.answer_by == "head" else None)
    number_format = getattr(torch, options.dtype)
    with (
        loading(
            lambda why: f"transformers cannot load the model {name!r}: {why}",
            passes=is_out_of_memory,
        ),
        quiet(warnings=True),
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
    _check_tokenizer(name, tokenizer, model)
    if head is None:
        model.generation_config = _token_settings(model, tokenizer)
    parameters = model.num_parameters()
    if placement.device_map is None and not placement.four_bit:
        model = model.to(placement.device)
    if adapter is not None:
        model = with_adapter(model, adapter)
    use_onednn(model)
    return LoadedModel(
        model=model.eval(),
        tokenizer=tokenizer,
        identity=_identity(name, files, options, adapter),
        encoder_decoder=bool(model.config.is_encoder_decoder),
        max_positions=getattr(model.config.get_text_config(), "max_position_embeddings", None),
        parameters=parameters,
    )


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
            "tokenizer files that came with the weights next to them"
        )


def _kind_of_model(name: str, config: Any, *, head: str | None) -> Any:
    """Return the class that loads a model; refuse a model that cannot do what `head` says."""
    import transformers

    names = list(config.architectures or ())
    named = " and ".join(names) or "not at all"
    if head is None and any(one.endswith("ForMultipleChoice") for one in names):
        raise UsageError(
            f"model {name!r} is a multiple-choice head ({named}), which scores options and "
            'generates no text; use answer_by = "head"'
        )
    if head is not None and not any(one.endswith(f"For{head}") for one in names):
        raise UsageError(
            f"model {name!r}: its config.json names the architecture {named}, expected one such as "
            f"BertFor{head}, which this task needs; fine-tune it, or take another model"
        )
    of_text = "Seq2SeqLM" if config.is_encoder_decoder else "CausalLM"
    return getattr(transformers, f"AutoModelFor{head or of_text}")


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


def with_adapter(model: Any, adapter: Adapter) -> Any:
    """Return the model with the adapter inside its layers, without peft's wrapper.

    It is not merged into the weights, because merging would round it to their number format.

    Raises:
        UsageError: the adapter does not fit this model.
    """
    from peft import PeftModel

    revision: dict[str, Any] = {} if adapter.revision is None else {"revision": adapter.revision}
    problem = f"adapter {adapter.name!r} does not fit the model"
    with (
        loading(lambda why: f"{problem}: {why}; give the model that it was trained on"),
        quiet(warnings=True),
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        wrapped = PeftModel.from_pretrained(model, adapter.location, **revision)
    # peft only warns about this, and the base model would answer instead.
    if any("missing adapter keys" in str(warning.message) for warning in caught):
        raise UsageError(
            f"adapter {adapter.name!r} lacks weights that its adapter_config.json lists; save it "
            "again with save_pretrained"
        )
    return wrapped.get_base_model()


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Devices and number format of the weights."""

    device: Any
    """The single `torch.device`; None if there is a device map."""
    device_map: str | dict[str, Any] | None
    """The device map as the user wrote it."""
    four_bit: bool
    """Whether linear layers are packed by bitsandbytes."""

    @property
    def on_cpu(self) -> bool:
        """Whether everything is computed on the CPU."""
        return self.device is not None and self.device.type == "cpu"

    def load_options(self, dtype: Any) -> dict[str, Any]:
        """Return arguments for `from_pretrained`.

        Args:
            dtype: the `torch.dtype` of the arithmetic.
        """
        if self.device_map is None and not self.four_bit:
            return {}
        chosen = self.device_map if self.device_map is not None else {"": self.device}
        if not self.four_bit:
            return {"device_map": chosen}
        from transformers import BitsAndBytesConfig

        packed = BitsAndBytesConfig(
            load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=dtype
        )
        return {"device_map": chosen, "quantization_config": packed}


def placement_of(options: BackendOptions) -> Placement:
    """Check devices and packages before any file is read.

    Raises:
        UsageError: a device does not exist, two keys contradict, or a package is missing.
    """
    device_map = options.device_map
    if options.load_in_4bit and find_spec("bitsandbytes") is None:
        raise not_there("load_in_4bit", "quantized", "bitsandbytes")
    if (device_map is not None or options.load_in_4bit) and find_spec("accelerate") is None:
        key = "device_map" if device_map else "load_in_4bit"
        raise not_there(key, "transformers", "accelerate")
    if device_map is None:
        device = _device(options.device)
        return Placement(device=device, device_map=None, four_bit=options.load_in_4bit)
    if options.device != "auto":
        raise UsageError(
            f"device = {options.device!r} and device_map both say where the model goes; "
            "leave out one of them"
        )
    spread = device_map if isinstance(device_map, str) else dict(device_map)
    return Placement(device=None, device_map=spread, four_bit=options.load_in_4bit)


def input_device(model: Any) -> Any:
    """Return the `torch.device` for token ids: that of the input embedding.

    Weights that accelerate offloads have no device of their own; accelerate's hook knows where they
    are used.
    """
    embedding = model.get_input_embeddings()
    hook = getattr(embedding, "_hf_hook", None)
    where = getattr(hook, "execution_device", None)
    if where is None:
        return model.device if embedding is None else embedding.weight.device
    import torch

    return torch.device(f"cuda:{where}" if isinstance(where, int) else where)


def _device(name: str) -> Any:
    """Resolve `auto`, and check that the device exists."""
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    kind, _, index = name.partition(":")
    if kind not in {"cpu", "cuda", "mps"} or (index and not index.isdecimal()):
        raise UsageError(f"device {name!r}: expected auto, cpu, cuda, cuda:<number> or mps")
    if kind == "mps" and not torch.backends.mps.is_available():
        raise UsageError(
            f"device {name!r}: torch finds no Apple GPU here; use device = 'auto' or 'cpu'"
        )
    if kind == "cuda" and int(index or 0) >= torch.cuda.device_count():
        raise UsageError(
            f"device {name!r}: this machine shows {torch.cuda.device_count()} CUDA devices to "
            "torch; use device = 'auto' or 'cpu'"
        )
    return torch.device(name)
