"""Back end `sentence_transformers`: sentence encoders and cross-encoders for sentence pairs.

It lives here because it joins two parts that do not import each other: the encoders of names and
prompts, and the back ends. transformers reads the model folders; the sentence-transformers library
is not needed.
"""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import Any

from medstress.backends.local.bi_encoder import BiEncoderBackend
from medstress.backends.local.cross_encoder import CrossEncoderBackend
from medstress.backends.models.loaded_model import load_model
from medstress.backends.options import BackendOptions
from medstress.core.calls import ModelIdentity
from medstress.core.errors import UsageError
from medstress.entities.encoders import model_folder
from medstress.entities.prompts import PromptEncoder
from medstress.files.reading import read_json
from medstress.machine.compute_thread import in_compute_thread

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


def open_backend(options: BackendOptions) -> BiEncoderBackend | CrossEncoderBackend:
    """Load the model that options name: `minilm`, a folder or a hub id.

    A model with a head for sequence classification is a cross-encoder. Its output passes through
    the activation that its configuration names, by default a sigmoid, as in the
    sentence-transformers library. Any other model is an encoder of sentences, pooled as its folder
    says, and the score is the cosine of two vectors. Longer texts than the model takes are read in
    windows.

    Raises:
        UsageError: the task is not similarity, or the model is missing or unsuitable.
    """
    if options.task != "similarity":
        raise UsageError(
            "backend 'sentence_transformers' compares two sentences; give it a data set of "
            "sentence pairs"
        )
    if not options.model:
        raise UsageError(
            "backend 'sentence_transformers' needs model = 'minilm', a folder or a hub id"
        )
    config = _config(_folder(options.model, options.base))
    if any(str(name).endswith("SequenceClassification") for name in config["architectures"] or ()):
        return CrossEncoderBackend(
            in_compute_thread(load_model)(options),
            _activation(options.model, config),
            batch_size=options.batch_size,
        )
    encoder = PromptEncoder(options.model, base=options.base)
    identity = ModelIdentity(name=options.model, hash=encoder.identity)
    return BiEncoderBackend(encoder.encode, identity, batch_size=options.batch_size)


def _folder(model: str, base: Path) -> Path:
    """Return the model's folder; a model of the hub is fetched."""
    folder = base / Path(model).expanduser()
    return model_folder(model, base) if _HUB_ID.fullmatch(model) and not folder.exists() else folder


def _config(folder: Path) -> dict[str, Any]:
    """Read the model's configuration; names of shipped models have no file."""
    default: dict[str, Any] = {"architectures": None}
    path = folder / "config.json"
    if not os.path.lexists(path):
        return default
    config = read_json(path)
    if not isinstance(config, dict):
        raise UsageError(f"{path}: expected a JSON object, got {type(config).__name__}")
    return {**default, **config}


def _activation(model: str, config: dict[str, Any]) -> Any:
    """Return the activation of a cross-encoder, as the library's configuration names it."""
    settings = config.get("sentence_transformers") or {}
    name = settings.get("activation_fn") or config.get("sbert_ce_default_activation_function")
    kind = str(name or "torch.nn.Sigmoid").rpartition(".")[2]
    if kind == "Identity":
        return float
    if kind == "Sigmoid":
        return _sigmoid
    raise UsageError(
        f"model {model!r} has the activation {name!r}; expected Identity or Sigmoid. To read its "
        "plain output, set backend = 'transformers'"
    )


def _sigmoid(value: float) -> float:
    """Return 1 / (1 + exp(-value)), without overflow."""
    if value >= 0:
        return 1 / (1 + math.exp(-value))
    return math.exp(value) / (1 + math.exp(value))
