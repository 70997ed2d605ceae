"""Places the weights of a local model on devices, optionally packed into four bits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from medstress.backends.options import BackendOptions
from medstress.core.errors import UsageError, did_you_mean
from medstress.files.extras import not_there

DEVICE_MAPS = ("auto", "balanced", "balanced_low_0", "sequential")
"""The names of accelerate's own ways to spread a model."""


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

    def settled(self, model: Any) -> Any:
        """Move the model to its device; a model that a map has spread stays where it is."""
        if self.device_map is None and not self.four_bit:
            return model.to(self.device)
        return model


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
        return Placement(
            device=_device(options.device), device_map=None, four_bit=options.load_in_4bit
        )
    if options.device != "auto":
        raise UsageError(
            f"device = {options.device!r} and device_map both say where the model goes; "
            "leave out one of them"
        )
    if isinstance(device_map, str) and device_map not in DEVICE_MAPS:
        close = did_you_mean(device_map, DEVICE_MAPS)
        raise UsageError(
            f"device_map {device_map!r}: expected one of {', '.join(DEVICE_MAPS)}, or a table "
            f'such as {{"" = "cpu"}}{close}'
        )
    if isinstance(device_map, Mapping):
        device_map = dict(device_map)
        for where in device_map.values():
            if where != "disk":
                _device(f"cuda:{where}" if isinstance(where, int) else where)
    return Placement(device=None, device_map=device_map, four_bit=options.load_in_4bit)


def check_covered(name: str, model: Any, device_map: object) -> None:
    """Check that a device map names existing parts and covers all weights of a model.

    Raises:
        UsageError: names the first part that is wrong or missing.
    """
    if not isinstance(device_map, dict):
        return
    names = [each for each, _ in model.named_parameters()]
    parts = {"", *(each for each, _ in model.named_modules()), *names}
    for part in device_map:
        if part not in parts:
            close = did_you_mean(part, parts)
            raise UsageError(f"device_map: model {name!r} has no part {part!r}{close}")
    for each in names:
        if not any(part == "" or f"{each}.".startswith(f"{part}.") for part in device_map):
            raise UsageError(
                f'device_map: no place for {each!r} of model {name!r}; add it, or "" for the rest'
            )


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
