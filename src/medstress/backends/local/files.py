"""Finds and hashes the files of models and peft adapters, and reads and converts GGUF files.

transformers takes about 20 seconds to read a GGUF file, so the result is kept as safetensors in the
user's cache under the hash of the file.
"""

from __future__ import annotations

import json
import logging
import shutil
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from medstress.backends.options import EMBEDDED, BackendOptions
from medstress.core.errors import UsageError
from medstress.core.extras import not_there
from medstress.core.hashing import content_hash, file_hash
from medstress.core.reading import loading, reading
from medstress.core.writing import cache_dir, write_text
from medstress.entities.processor import quiet

log = logging.getLogger(__name__)

_ADAPTER = "adapter_config.json"
_ADAPTER_WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")
_TEXT_SUFFIXES = {".json", ".txt", ".model", ".jinja", ".tiktoken"}
_WEIGHT_PATTERNS = ("*.safetensors", "pytorch_model*.bin")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFiles:
    """The location and the content hash of a model."""

    location: str
    """A folder, or a hub id."""
    revision: str | None
    """The commit of a hub model; None for a folder."""
    content: str
    """The commit, or a hash of the files; never a path."""

    def load_options(self) -> dict[str, Any]:
        """Return arguments for `from_pretrained`; code that comes with a model is never run."""
        if self.revision is None:
            return {"local_files_only": True, "trust_remote_code": False}
        return {"revision": self.revision, "trust_remote_code": False}


def find_model(options: BackendOptions) -> ModelFiles:
    """Locate the model in the options; convert a GGUF file if that was not done before.

    Raises:
        UsageError: the model is not found or incomplete.
    """
    if not options.model:
        raise UsageError("the transformers back end needs model = a folder, a hub id or a name")
    if options.model in EMBEDDED:
        return _gguf_files(_embedded_gguf(options.model), options.dtype)
    path = options.base / Path(options.model).expanduser()
    if path.is_file() and path.suffix == ".gguf":
        return _gguf_files(path, options.dtype)
    if path.is_dir():
        return ModelFiles(location=str(path), revision=None, content=_folder_hash(path))
    if path.exists():
        raise UsageError(f"model {options.model!r}: expected a folder or a .gguf file at {path}")
    name, absent = options.model, f"model {options.model!r} not found: {path} does not exist"
    if name.endswith(".gguf") or name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise UsageError(absent)
    commit, _ = _hub_commit(
        name,
        "config.json",
        f"{absent}, it is not an embedded name ({', '.join(EMBEDDED)})",
        '; for the model of a server give backend = "openai" and its base_url (without a file: '
        "--base-url URL)",
    )
    return ModelFiles(location=name, revision=commit, content=commit)


def find_gguf(options: BackendOptions) -> Path:
    """Locate the GGUF file in the options, without conversion.

    Raises:
        UsageError: the file is not found, or is not a GGUF file.
    """
    if not options.model:
        raise UsageError('the llama_cpp back end needs model = a .gguf file, or "smollm2"')
    if options.model in EMBEDDED:
        return _embedded_gguf(options.model)
    path = options.base / Path(options.model).expanduser()
    if not path.is_file() or path.suffix != ".gguf":
        raise UsageError(
            f"model {options.model!r} not found: {path} is no .gguf file, and it is not an "
            f'embedded name ({", ".join(EMBEDDED)}); backend = "transformers" reads folders'
        )
    return path


def remembered_hash(path: Path) -> str:
    """Return the hash of a file; read it again only if its size or time has changed."""
    memory = cache_dir("models") / "hashes.json"
    status = path.stat()
    key = f"{path.resolve()}|{status.st_size}|{status.st_mtime_ns}"
    hashes = _read_hashes(memory)
    if key not in hashes:
        value = file_hash(path)
        # Another process may write at the same time; a lost entry is only hashed again.
        write_text(memory, json.dumps({**_read_hashes(memory), key: value}, indent=1))
        return value
    return hashes[key]


def converted_folder(gguf: Path, dtype: str) -> Path:
    """Return the folder with a GGUF file as safetensors and tokenizer files; make it if needed.

    The folder is written under another name and renamed, so it is complete or absent. If two
    processes convert at the same time, the second discards its work.

    Args:
        gguf: the file.
        dtype: number format of the weights: `float32`, `bfloat16` or `float16`.
    """
    name = f"{remembered_hash(gguf).rpartition(':')[2]}-{dtype}"
    folder = cache_dir("models") / name
    if folder.is_dir():
        return folder
    log.info("converting %s to %s; this is done once", gguf.name, folder)
    building = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=folder.parent))
    try:
        _convert(gguf, dtype, building)
        try:
            building.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return folder


def _embedded_gguf(name: str) -> Path:
    package, install = EMBEDDED[name]
    # Located, not imported, because its __init__ imports llama.cpp.
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise UsageError(
            f"the embedded model {name!r} is not installed; install it with: {install}"
        )
    files = sorted(Path(spec.origin).parent.glob("*.gguf"))
    if len(files) != 1:
        raise UsageError(
            f"expected one .gguf file in {Path(spec.origin).parent}, found {len(files)}; "
            f"install it again with: {install}"
        )
    return files[0]


def _gguf_files(gguf: Path, dtype: str) -> ModelFiles:
    folder = converted_folder(gguf, dtype)
    return ModelFiles(location=str(folder), revision=None, content=remembered_hash(gguf))


def _folder_hash(folder: Path) -> str:
    """Hash the names and contents of the files that transformers reads from a model folder."""
    if not (folder / "config.json").is_file():
        if (folder / _ADAPTER).is_file():
            raise UsageError(
                f"{folder} is a peft adapter, not a model; give the model it was trained on as "
                "model, and this folder as adapter = ..."
            )
        raise UsageError(f"{folder} has no config.json, so it is not a transformers model")
    weights: list[Path] = []
    for pattern in _WEIGHT_PATTERNS:
        # transformers reads the first kind that exists.
        weights = weights or sorted(folder.glob(pattern))
    if not weights:
        raise UsageError(f"{folder} has no weights ({' or '.join(_WEIGHT_PATTERNS)})")
    texts = sorted(path for path in folder.iterdir() if path.suffix in _TEXT_SUFFIXES)
    return content_hash([[path.name, remembered_hash(path)] for path in weights + texts])


def _hub_commit(name: str, file: str, absent: str, hint: str = "") -> tuple[str, Path]:
    """Return the current commit of a hub id, or the cached one when offline, and one of its files.

    Raises:
        UsageError: `absent`, with the reason and `hint`.
    """
    from huggingface_hub import hf_hub_download

    # The client logs every attempt; our error says how they ended.
    logger = logging.getLogger("huggingface_hub")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with quiet(warnings=True):
            path = Path(hf_hub_download(name, file))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{absent}, and the hub has no such model or cannot be reached "
            f"({type(error).__name__}){hint}"
        ) from error
    finally:
        logger.setLevel(level)
    return path.parent.name, path  # .../snapshots/<commit>/config.json


def _convert(gguf: Path, dtype: str, folder: Path) -> None:
    """Convert a GGUF file to safetensors with its tokenizer, in an empty folder."""
    if find_spec("gguf") is None or find_spec("accelerate") is None:
        raise not_there("reading GGUF files", "transformers", "gguf", "accelerate")
    import torch
    import transformers
    from transformers import modeling_gguf_pytorch_utils as reader

    source = {"gguf_file": gguf.name, "local_files_only": True, "trust_remote_code": False}
    # Later versions of transformers can keep weights packed.
    plain = (
        {"quantization_config": transformers.GgufConfig(dequantize=True)}
        if hasattr(transformers, "GgufConfig")
        else {}
    )
    bar = reader.tqdm  # it ignores transformers' setting
    with loading(lambda why: f"transformers cannot read {gguf}: {why}"), quiet(warnings=True):
        tokenizer = transformers.AutoTokenizer.from_pretrained(str(gguf.parent), **source)
        try:
            reader.tqdm = lambda tensors, **_: tensors
            model = transformers.AutoModelForCausalLM.from_pretrained(
                str(gguf.parent), dtype=getattr(torch, dtype), **source, **plain
            )
        finally:
            reader.tqdm = bar
        # The weights are dequantised now, but save_pretrained refuses while the settings still
        # say otherwise.
        if hasattr(model.config, "quantization_config"):
            del model.config.quantization_config
        model.hf_quantizer = None
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)


def _read_hashes(memory: Path) -> dict[str, str]:
    try:
        hashes = json.loads(memory.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError, RecursionError):
        return {}
    return hashes if isinstance(hashes, dict) else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter(ModelFiles):
    """The location and the content hash of a peft adapter: small changes to a model's weights."""

    name: str
    """The name as the user wrote it."""
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
    name = options.adapter
    if name is None:
        return None
    if find_spec("peft") is None:
        raise not_there("adapter", "adapters", "peft")
    folder = options.base / Path(name).expanduser()
    if not folder.is_dir():
        absent = f"adapter {name!r} not found: {folder} does not exist"
        if name.startswith((".", "/", "~")) or name.count("/") != 1:
            raise UsageError(absent)
        commit, path = _hub_commit(name, _ADAPTER, absent)
        saved = tuple(_adapter_settings(name, path).get("modules_to_save") or ())
        return Adapter(
            name=name, location=name, revision=commit, content=commit, saved_modules=saved
        )
    weights = next((folder / one for one in _ADAPTER_WEIGHTS if (folder / one).is_file()), None)
    if not (folder / _ADAPTER).is_file() or weights is None:
        raise UsageError(
            f"{folder} is not a peft adapter: expected {_ADAPTER} and "
            f"{' or '.join(_ADAPTER_WEIGHTS)} in it"
        )
    settings = _adapter_settings(name, folder / _ADAPTER)
    # The base model's path at training time is not part of the adapter's content.
    hashed = {key: value for key, value in settings.items() if key != "base_model_name_or_path"}
    return Adapter(
        name=name,
        location=str(folder),
        revision=None,
        content=content_hash([hashed, remembered_hash(weights)]),
        saved_modules=tuple(settings.get("modules_to_save") or ()),
    )


def _adapter_settings(name: str, path: Path) -> dict[str, Any]:
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
