"""peft adapters: small trained changes to a model's weights."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from medstress.backends.models.model_files import no_progress_bars, quiet_retries, remembered_hash
from medstress.backends.options import BackendOptions
from medstress.core.errors import UsageError
from medstress.core.hashing import content_hash
from medstress.files.extras import not_there
from medstress.files.reading import loading, reading

CONFIG = "adapter_config.json"
_WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """The location and the content hash of an adapter."""

    name: str
    """The name as the user wrote it."""
    location: str
    """A folder, or a hub id."""
    revision: str | None
    """The commit of a hub adapter; None for a folder."""
    content: str
    """The commit, or a hash of configuration and weights; never a path."""
    saved_modules: tuple[str, ...]
    """Complete modules that the adapter contains, such as a head."""

    def provides(self, key: str) -> bool:
        """Return whether the adapter contains the weight `key`, which the base model lacks."""
        return any(module in key.split(".") for module in self.saved_modules)


def find_adapter(options: BackendOptions) -> Adapter | None:
    """Locate the adapter in the options; None if they name none.

    Raises:
        UsageError: peft is not installed, the adapter is not found, or it changes no weights.
    """
    if options.adapter is None:
        return None
    if find_spec("peft") is None:
        raise not_there("adapter", "adapters", "peft")
    folder = options.base / Path(options.adapter).expanduser()
    if folder.is_dir():
        return _of_folder(options.adapter, folder)
    return _of_hub(options.adapter, folder)


def with_adapter(model: Any, adapter: Adapter) -> Any:
    """Return the model with the adapter inside its layers.

    It is not merged into the weights, because merging would round it to their number format.
    Returns the base model without peft's wrapper, so that callers use it like any other.

    Raises:
        UsageError: the adapter does not fit this model.
    """
    from peft import PeftModel

    revision: dict[str, Any] = {} if adapter.revision is None else {"revision": adapter.revision}
    problem = f"adapter {adapter.name!r} does not fit the model"
    with (
        loading(lambda why: f"{problem}: {why}; give the model that it was trained on"),
        no_progress_bars(),
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        wrapped = PeftModel.from_pretrained(model, adapter.location, **revision)
    # peft only warns about this, and the base model would answer instead.
    if any("missing adapter keys" in str(each.message) for each in caught):
        raise UsageError(
            f"adapter {adapter.name!r} lacks weights that its {CONFIG} lists; save it again "
            "with save_pretrained"
        )
    return wrapped.get_base_model()


def _of_folder(name: str, folder: Path) -> Adapter:
    weights = next((folder / each for each in _WEIGHTS if (folder / each).is_file()), None)
    if not (folder / CONFIG).is_file() or weights is None:
        raise UsageError(
            f"{folder} is not a peft adapter: expected {CONFIG} and {' or '.join(_WEIGHTS)} in it"
        )
    settings = _settings(name, folder / CONFIG)
    # The base model's path at training time is not part of the adapter's content.
    hashed = {key: value for key, value in settings.items() if key != "base_model_name_or_path"}
    return Adapter(
        name=name,
        location=str(folder),
        revision=None,
        content=content_hash([hashed, remembered_hash(weights)]),
        saved_modules=_saved(settings),
    )


def _of_hub(name: str, folder: Path) -> Adapter:
    from huggingface_hub import hf_hub_download

    absent = f"adapter {name!r} not found: {folder} does not exist"
    if name.startswith((".", "/", "~")) or name.count("/") != 1:
        raise UsageError(absent)
    try:
        with no_progress_bars(), quiet_retries():
            config = Path(hf_hub_download(name, CONFIG))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{absent}, and the hub has no such adapter or cannot be reached "
            f"({type(error).__name__})"
        ) from error
    commit = config.parent.name  # .../snapshots/<commit>/adapter_config.json
    return Adapter(
        name=name,
        location=name,
        revision=commit,
        content=commit,
        saved_modules=_saved(_settings(name, config)),
    )


def _settings(name: str, path: Path) -> dict[str, Any]:
    with reading(lambda why: f"adapter {name!r}: {path} is not JSON ({why})"):
        settings = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(settings, dict) or "peft_type" not in settings:
        raise UsageError(f"adapter {name!r}: {path} has no peft_type, so it is not a peft adapter")
    if settings.get("num_virtual_tokens") is not None:
        raise UsageError(
            f"adapter {name!r} ({settings['peft_type']}) puts trained tokens before the prompt, "
            "which is not supported; use one that changes weights, such as LoRA"
        )
    return settings


def _saved(settings: dict[str, Any]) -> tuple[str, ...]:
    modules: Iterable[str] = settings.get("modules_to_save") or ()
    return tuple(modules)
