"""The learner protocol of the training loop, and opening the model to be trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from medstress.backends.local.files import ModelFiles, find_model, no_progress_bars
from medstress.backends.options import BackendOptions
from medstress.core.errors import UsageError
from medstress.entities.encoders import minilm_folder
from medstress.entities.processor import in_compute_thread, keep_freed_memory, use_onednn
from medstress.files.extras import importing, not_there
from medstress.files.reading import loading
from medstress.tasks.kinds import CHOICE, SIMILARITY, TAGGING, Kind

Columns = Mapping[str, Sequence[int]]
"""A tokenizer's output for one text: input name -> one number per piece."""


class Learner(Protocol):
    """A model that is being trained for a task."""

    measure: str
    """What `score` computes: `f1`, `pearson` or `accuracy`."""
    model: Any
    """The `PreTrainedModel`."""

    def encode(self, items: Sequence[Any]) -> list[Any]:
        """Turn items into examples, in order."""

    def length(self, example: Any) -> int:
        """Return the number of pieces of an example."""

    def loss(self, batch: Sequence[Any]) -> Any:
        """Return the mean loss of a batch, a tensor without dimensions."""

    def score(self, items: Sequence[Any]) -> float:
        """Return the model's current score on items; higher is better."""

    def save(self, folder: Path) -> None:
        """Write the model so that a victim's back end can load it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The pretrained model that training starts from."""

    files: ModelFiles
    """Weights and tokenizer."""
    name: str
    """The user's name for it."""
    device: Any
    """The `torch.device`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a learner is opened with."""

    start: Start
    """The model."""
    seed: int
    """Of its head."""
    max_length: int
    """Pieces read at once."""
    encoder: str
    """Pairs: `cross_encoder` or `bi_encoder`."""
    prompt: str
    """Questions: how they are asked."""
    classes: tuple[str, ...]
    """What items are sorted into (`Kind.classes`)."""
    base: Path
    """Folder that relative paths start from."""


LEARNERS = {
    CHOICE.name: "medstress.training.choice",
    TAGGING.name: "medstress.training.tagging",
    SIMILARITY.name: "medstress.training.pairs",
}
"""Kind -> the module that trains models for it."""


def open_learner(kind: Kind, wanted: Wanted) -> Learner:
    """Open a model to be trained for a kind of items."""
    learner: Learner = import_module(LEARNERS[kind.name]).open_learner(wanted)
    return learner


def find_start(model: str, device: str, base: Path) -> Start:
    """Find the model to be fine-tuned.

    Raises:
        UsageError: torch, the model or the device is missing.
    """
    from importlib.util import find_spec

    if find_spec("torch") is None or find_spec("transformers") is None:
        raise not_there("training", "transformers", "torch", "transformers")
    with importing("training", "transformers"):
        import torch
        import transformers  # noqa: F401 - needed for the model

    where = str(minilm_folder()) if model == "minilm" else model
    files = find_model(BackendOptions(model=where, base=base))
    chosen = device
    if device == "auto":
        chosen = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        found = torch.device(chosen)
        torch.zeros(1, device=found)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError(f"[train] device = {device!r} cannot be used: {reason}") from error
    if found.type == "cpu":
        keep_freed_memory()
    return Start(files=files, name=model, device=found)


@in_compute_thread
def open_model(start: Start, kind: str, seed: int, **config: Any) -> tuple[Any, Any]:
    """Load a model; the weights of its new head are random.

    Args:
        start: the pretrained model.
        kind: name of the transformers class that loads it.
        seed: seed of the head's weights.
        config: keys of the model's configuration.

    Returns:
        The model, on its device, and its tokenizer.

    Raises:
        UsageError: transformers cannot load the model.
    """
    import torch
    import transformers
    from transformers.utils import logging

    how = start.files.load_options()
    torch.manual_seed(seed)
    key = f"[train] model = {start.name!r}"
    verbosity = logging.get_verbosity()
    # Silences the warning that the head is new, which is intended here.
    logging.set_verbosity_error()
    try:
        with loading(lambda why: f"{key}: transformers cannot load it: {why}"), no_progress_bars():
            tokenizer = transformers.AutoTokenizer.from_pretrained(start.files.location, **how)
            model = getattr(transformers, kind).from_pretrained(
                start.files.location, dtype=torch.float32, **config, **how
            )
    finally:
        logging.set_verbosity(verbosity)
    model = model.to(start.device)
    use_onednn(model)  # speeds up evaluation
    return model, tokenizer


def longest_of(tokenizer: Any, model: Any, wanted: int) -> int:
    """Return the most pieces per input: `wanted`, or the model's limit if that is lower."""
    positions = getattr(model.config, "max_position_embeddings", None)
    limits = (wanted, tokenizer.model_max_length, positions)
    return int(min(limit for limit in limits if limit is not None))


def padded(rows: Sequence[Columns], pad: int, device: Any) -> dict[str, Any]:
    """Stack inputs of different lengths into tensors of shape `(n_rows, n_pieces)`.

    Padding is on the right and masked.
    """
    import torch

    longest = max(len(row["input_ids"]) for row in rows)
    fill = {"input_ids": pad}
    arrays = {
        name: torch.tensor(
            [[*row[name], *([fill.get(name, 0)] * (longest - len(row[name])))] for row in rows],
            device=device,
        )
        for name in rows[0]
    }
    if "attention_mask" not in arrays:
        lengths = [len(row["input_ids"]) for row in rows]
        mask = [[1] * n + [0] * (longest - n) for n in lengths]
        arrays["attention_mask"] = torch.tensor(mask, device=device)
    return arrays


def save_with_tokenizer(model: Any, tokenizer: Any, folder: Path) -> None:
    """Write weights (safetensors), configuration and tokenizer."""
    with no_progress_bars():
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
