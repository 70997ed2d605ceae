"""What the training loop asks of a task, and how the model to be trained is opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from medstress.backends.model_files import ModelFiles, find_model, no_progress_bars
from medstress.backends.options import BackendOptions
from medstress.compute_thread import in_compute_thread
from medstress.entities.encoders import minilm_folder
from medstress.errors import UsageError
from medstress.freed_memory import keep_freed_memory
from medstress.input_files import loading
from medstress.kinds import Kind
from medstress.onednn_linear import use_onednn

Columns = Mapping[str, Sequence[int]]
"""What a tokenizer makes of one text: input name -> one number a piece."""


class Learner(Protocol):
    """A model that is being trained for a task."""

    measure: str
    """What `score` is: `f1`, `pearson` or `accuracy`."""
    model: Any
    """The `PreTrainedModel`."""

    def encode(self, items: Sequence[Any]) -> list[Any]:
        """Turn items into examples, in their order."""

    def length(self, example: Any) -> int:
        """Pieces of an example."""

    def loss(self, batch: Sequence[Any]) -> Any:
        """The mean loss of a batch, a tensor without dimensions."""

    def score(self, items: Sequence[Any]) -> float:
        """How good it is on items now; more is better."""

    def save(self, folder: Path) -> None:
        """Write the model so that the victims' back ends read it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Where training starts from."""

    files: ModelFiles
    """Weights and tokenizer."""
    name: str
    """As the user calls it."""
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


def open_learner(kind: Kind, wanted: Wanted) -> Learner:
    """Open a model to be trained for a kind of items."""
    assert kind.learner is not None  # checked by the plan
    module, _, name = kind.learner.partition(":")
    learner: Learner = getattr(import_module(module), name)(wanted)
    return learner


def find_start(model: str, device: str, base: Path) -> Start:
    """Find the model to be fine-tuned.

    Raises:
        UsageError: torch is missing, or there is no such model or device.
    """
    from importlib.util import find_spec

    from medstress.errors import missing_extra

    if find_spec("torch") is None or find_spec("transformers") is None:
        raise missing_extra("training", "transformers")
    import torch

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
    """Load the weights; what they lack, the head, is drawn by the seed.

    Args:
        start: the model.
        kind: the class of transformers that reads it.
        seed: of the head's weights.
        config: keys of the model's configuration.

    Returns:
        The model, on its device, and its tokenizer.

    Raises:
        UsageError: transformers cannot read it.
    """
    import torch
    import transformers
    from transformers.utils import logging

    how = start.files.load_options()
    torch.manual_seed(seed)
    said = f"[train] model = {start.name!r}"
    told = logging.get_verbosity()
    # That a head is new is what is wanted here.
    logging.set_verbosity_error()
    try:
        with loading(lambda why: f"{said}: transformers cannot load it: {why}"), no_progress_bars():
            tokenizer = transformers.AutoTokenizer.from_pretrained(start.files.location, **how)
            model = getattr(transformers, kind).from_pretrained(
                start.files.location, dtype=torch.float32, **config, **how
            )
    finally:
        logging.set_verbosity(told)
    model = model.to(start.device)
    use_onednn(model)  # of use while it is evaluated
    return model, tokenizer


def longest_of(tokenizer: Any, model: Any, wanted: int) -> int:
    """The most pieces read at once: what is wanted, unless the model ends before."""
    positions = getattr(model.config, "max_position_embeddings", None)
    limits = (wanted, tokenizer.model_max_length, positions)
    return int(min(limit for limit in limits if limit is not None))


def padded(rows: Sequence[Columns], pad: int, device: Any) -> dict[str, Any]:
    """Stack inputs of different lengths; tensors of shape `(n_rows, n_pieces)`.

    Padding stands on the right and is masked.
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
