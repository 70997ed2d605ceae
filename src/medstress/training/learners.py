"""Models that are trained, and the loop that trains them.

Models are taggers of words and models of the similarity of two texts. The loop has AdamW, linear
warm-up and decay, early stopping, and resumes: random numbers of a step depend on (seed, step)
only, those of an epoch on (seed, epoch), so a resumed training ends with the weights of an
uninterrupted one. A checkpoint is one file: weights, optimiser and best weights as safetensors,
numbers as JSON among its metadata. A new one replaces the old one when it is complete.
"""

from __future__ import annotations

import json
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeAlias, TypeVar

import numpy as np

from medstress.backends.local.encoders import PieceTokenizer
from medstress.backends.local.files import ModelFiles, find_model
from medstress.backends.local.loading import placement_of
from medstress.backends.options import BackendOptions
from medstress.core.errors import StoreError, UsageError
from medstress.core.extras import importing
from medstress.core.hashing import digest
from medstress.core.reading import loading
from medstress.core.sentences import OUTSIDE, SentencePair, TaggedText, entities_of
from medstress.core.writing import atomic_path, make_folder
from medstress.entities.encoders import minilm_folder
from medstress.entities.processor import (
    in_compute_thread,
    keep_freed_memory,
    lacking,
    quiet,
    use_onednn,
)
from medstress.experiment.config import Train
from medstress.store.database import translated
from medstress.tasks.scores import pearson

T = TypeVar("T", bound=Sized)
Columns: TypeAlias = Mapping[str, Sequence[int]]
"""A tokenizer's output for one text: input name -> one number per piece."""
POOL = 64
"""Batches within which examples are sorted by length, to reduce padding."""
_IGNORED = -100
"""Target of pieces without a label; cross-entropy ignores it."""
_READ_BATCH = 64


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
class Example:
    """The model's inputs for an item, or for a part of it, and what it should say."""

    rows: tuple[Columns, ...]
    """One input, or one for each text of a pair."""
    target: Any
    """Tagger: the label number of each piece, or `_IGNORED`. Pairs: the gold score, 0 to 1."""
    item: int = 0
    """Tagger: index of the text."""
    places: tuple[tuple[int, int], ...] = ()
    """Tagger: (word, piece) of every word labelled in this window, the same as for a victim."""

    def __len__(self) -> int:
        """Number of pieces."""
        return sum(len(row["input_ids"]) for row in self.rows)


class Learner(ABC):
    """A model that is being trained.

    Args:
        start: the pretrained model.
        architecture: name of the transformers class that loads it.
        seed: seed of weights that it lacks, such as those of a head.
        max_length: most pieces of an input.
        config: keys of the model's configuration.
    """

    measure: ClassVar[str]
    """What `score` computes."""

    def __init__(
        self, start: Start, architecture: str, seed: int, max_length: int, **config: Any
    ) -> None:
        self.model, self._tokenizer = open_model(start, architecture, seed, **config)
        positions = getattr(self.model.config, "max_position_embeddings", None)
        limits = (max_length, self._tokenizer.model_max_length, positions)
        self._longest = int(min(limit for limit in limits if limit is not None))

    @abstractmethod
    def encode(self, items: Sequence[Any]) -> list[Example]:
        """Turn items into examples, in order."""

    @abstractmethod
    def loss(self, batch: Sequence[Example]) -> Any:
        """Return the mean loss of a batch, a tensor without dimensions."""

    @abstractmethod
    def score(self, items: Sequence[Any]) -> float:
        """Return the model's current score on items; higher is better."""

    def save(self, folder: Path) -> None:
        """Write weights (safetensors), configuration and tokenizer for a victim's back end."""
        with quiet():
            self.model.save_pretrained(folder)
            self._tokenizer.save_pretrained(folder)

    def _forward(self, rows: Sequence[Columns]) -> tuple[Any, Any]:
        """Return the model's output for rows of different lengths, and the mask of pieces.

        Padding is on the right and masked.
        """
        rows = [{"attention_mask": [1] * len(row["input_ids"]), **row} for row in rows]
        fills = {"input_ids": self._tokenizer.pad_token_id or 0}
        inputs = {
            name: self._padded([r[name] for r in rows], fills.get(name, 0)) for name in rows[0]
        }
        return self.model(**inputs), inputs["attention_mask"]

    def _padded(self, rows: Sequence[Sequence[int]], fill: int) -> Any:
        """Return a tensor of shape `(n_rows, n_pieces)`."""
        import torch

        longest = max(map(len, rows))
        filled = [[*row, *([fill] * (longest - len(row)))] for row in rows]
        return torch.tensor(filled, device=self.model.device)


class Tagger(Learner):
    """A token classifier; the label of a word is learnt at its first piece.

    Loss: cross-entropy, mean over the words of a batch. Longer texts are read in windows.

    Args:
        start: the pretrained model.
        types: entity types, sorted.
        seed: seed of the head's weights.
        max_length: most pieces of a window.
    """

    measure = "f1"

    def __init__(self, start: Start, types: Sequence[str], seed: int, max_length: int) -> None:
        self._names = [OUTSIDE, *(f"{place}-{type_}" for type_ in types for place in "BI")]
        self._numbers = {name: number for number, name in enumerate(self._names)}
        super().__init__(
            start,
            "AutoModelForTokenClassification",
            seed,
            max_length,
            num_labels=len(self._names),
            id2label=dict(enumerate(self._names)),
            label2id=self._numbers,
            ignore_mismatched_sizes=True,  # replaces a head for other labels
        )
        self._pieces = PieceTokenizer(self._tokenizer, start.name, self._longest)

    def encode(self, items: Sequence[TaggedText]) -> list[Example]:
        """Return the windows of all texts, in reading order."""
        examples = []
        all_windows = self._pieces.windows([item.tokens for item in items])
        for number, (item, windows) in enumerate(zip(items, all_windows, strict=True)):
            for window in windows:
                targets = [_IGNORED] * len(window)
                for word, piece in window.places:
                    targets[piece] = self._numbers[item.labels[word]]
                row = dict(zip(window.names, window.rows, strict=True))
                examples.append(
                    Example(rows=(row,), target=targets, item=number, places=window.places)
                )
        return examples

    def loss(self, batch: Sequence[Example]) -> Any:
        """Mean cross-entropy of the words in a batch."""
        import torch

        logits = self._logits(batch)
        targets = self._padded([one.target for one in batch], _IGNORED)
        return torch.nn.functional.cross_entropy(
            logits.flatten(0, 1).float(), targets.flatten(), ignore_index=_IGNORED
        )

    def score(self, items: Sequence[TaggedText]) -> float:
        """Strict F1 of the entities; 0 if there are none and none is marked."""
        import torch

        labels = [[OUTSIDE] * len(item.tokens) for item in items]
        with torch.inference_mode():
            for batch in batches(self.encode(items), _READ_BATCH, random.Random(0)):
                best = self._logits(batch).argmax(-1).tolist()
                for window, row in zip(batch, best, strict=True):
                    for word, piece in window.places:
                        labels[window.item][word] = self._names[row[piece]]
        right = total = 0
        for item, names in zip(items, labels, strict=True):
            marked = entities_of(names)
            right += len({*item.entities} & {*marked})
            total += len(item.entities) + len(marked)
        return 2 * right / total if total else 0.0

    def _logits(self, batch: Sequence[Example]) -> Any:
        return self._forward([one.rows[0] for one in batch])[0].logits


class PairScorer(Learner):
    """A model of the similarity of two texts. Loss: squared error, mean over a batch.

    A cross-encoder reads both texts at once and has one output (BLUE's regression on the first
    token). A bi-encoder reads each alone; the score is the cosine of their vectors, each the mean
    of its pieces' states. Gold scores are rescaled to 0 to 1, which does not change correlations.

    Args:
        start: the pretrained model.
        is_bi: whether it is a bi-encoder.
        seed: seed of weights that the model lacks.
        max_length: most pieces of an input; longer ones are cut.
    """

    measure = "pearson"

    def __init__(self, start: Start, is_bi: bool, seed: int, max_length: int) -> None:
        self._is_bi = is_bi
        if is_bi:
            super().__init__(start, "AutoModel", seed, max_length)
        else:
            super().__init__(
                start,
                "AutoModelForSequenceClassification",
                seed,
                max_length,
                num_labels=1,
                ignore_mismatched_sizes=True,
            )

    def encode(self, items: Sequence[SentencePair]) -> list[Example]:
        """Turn pairs into examples, in order."""
        firsts, seconds = [item.text_a for item in items], [item.text_b for item in items]
        sides = [self._read(firsts, seconds)]
        if self._is_bi:
            sides = [self._read(firsts), self._read(seconds)]
        return [
            Example(rows=row, target=(item.score - item.low) / (item.high - item.low))
            for item, row in zip(items, zip(*sides, strict=True), strict=True)
        ]

    def loss(self, batch: Sequence[Example]) -> Any:
        """Mean squared error of a batch."""
        import torch

        values = self._values(batch)
        targets = torch.tensor([one.target for one in batch], device=values.device)
        return torch.nn.functional.mse_loss(values.float(), targets)

    def score(self, items: Sequence[SentencePair]) -> float:
        """Pearson correlation with the gold scores; 0 if it is undefined."""
        import torch

        examples = self.encode(items)
        values: list[float] = []
        with torch.inference_mode():
            for start in range(0, len(examples), _READ_BATCH):
                values += self._values(examples[start : start + _READ_BATCH]).float().tolist()
        gold = np.array([one.target for one in examples])
        return pearson(gold, np.array(values)) or 0.0

    def save(self, folder: Path) -> None:
        """Write the model; a bi-encoder as a sentence-transformers folder with mean pooling."""
        super().save(folder)
        if not self._is_bi:
            return
        parts = {"Transformer": "", "Pooling": "1_Pooling"}
        listing = [
            {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for i, (kind, path) in enumerate(parts.items())
        ]
        pooling = {
            "word_embedding_dimension": self.model.config.hidden_size,
            "pooling_mode_mean_tokens": True,
        }
        (folder / "1_Pooling").mkdir(exist_ok=True)
        (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling), "utf-8")
        (folder / "modules.json").write_text(json.dumps(listing), "utf-8")

    def _read(self, *texts: list[str]) -> list[Columns]:
        encoded = self._tokenizer(*texts, truncation=True, max_length=self._longest, verbose=False)
        return [dict(zip(encoded, row, strict=True)) for row in zip(*encoded.values(), strict=True)]

    def _values(self, batch: Sequence[Example]) -> Any:
        import torch

        if not self._is_bi:
            return self._forward([one.rows[0] for one in batch])[0].logits[:, 0]
        vectors = []
        for side in (0, 1):
            output, mask = self._forward([one.rows[side] for one in batch])
            mask = mask[..., None]
            vectors.append((output.last_hidden_state * mask).sum(1) / mask.sum(1))
        return torch.nn.functional.cosine_similarity(*vectors)


def find_start(model: str, device: str, base: Path) -> Start:
    """Find the model to be fine-tuned.

    Raises:
        UsageError: torch, the model or the device is missing.
    """
    with importing("training", "transformers"):
        import torch  # noqa: F401
        import transformers  # noqa: F401

    where = str(minilm_folder()) if model == "minilm" else model
    options = BackendOptions(model=where, base=base, device=device)
    placement = placement_of(options)
    if placement.on_cpu:
        keep_freed_memory()
    return Start(files=find_model(options), name=model, device=placement.device)


@in_compute_thread
def open_model(start: Start, architecture: str, seed: int, **config: Any) -> tuple[Any, Any]:
    """Load a model; weights of a head that it lacks are random.

    Args:
        start: the pretrained model.
        architecture: name of the transformers class that loads it.
        seed: seed of the random weights.
        config: keys of the model's configuration.

    Returns:
        The model, on its device, and its tokenizer.

    Raises:
        UsageError: transformers cannot load the model, or it lacks weights below its head.
    """
    import torch
    import transformers

    how = start.files.load_options()
    torch.manual_seed(seed)
    key = f"[train] model = {start.name!r}"
    # Transformers warns that the head is new, which is intended here.
    with loading(lambda why: f"{key}: transformers cannot load it: {why}"), quiet():
        tokenizer = transformers.AutoTokenizer.from_pretrained(start.files.location, **how)
        how |= {"dtype": torch.float32, "output_loading_info": True, **config}
        kind = getattr(transformers, architecture)
        model, report = kind.from_pretrained(start.files.location, **how)
    if names := lacking(model, report):
        raise UsageError(f"{key}: its files lack the weights {names}; fetch or save it again")
    model = model.to(start.device)
    use_onednn(model)  # speeds up evaluation
    return model, tokenizer


def batches(examples: Sequence[T], size: int, order: random.Random) -> Iterator[list[T]]:
    """Yield every example once, in batches of similar length that depend on `order` alone.

    Args:
        examples: training examples; `len` is their length.
        size: examples per batch; the last batches may be smaller.
        order: source of randomness.

    >>> parts = list(batches(["a", "bbb", "cc"], 2, random.Random(0)))
    >>> sorted(text for batch in parts for text in batch)
    ['a', 'bbb', 'cc']
    """
    shuffled = order.sample(examples, len(examples))
    for start in range(0, len(shuffled), size * POOL):
        pool = sorted(shuffled[start : start + size * POOL], key=len)
        parts = [pool[i : i + size] for i in range(0, len(pool), size)]
        yield from order.sample(parts, len(parts))


# -- the loop --------------------------------------------------------------------------------------


WEIGHT_DECAY = 0.01
"""As in BLUE; not applied to biases and layer norms."""
CHECKPOINT = "checkpoint.safetensors"
"""Name of the checkpoint."""
MAX_NORM = 1.0
"""Gradients are clipped to this norm."""
CHECKPOINT_SECONDS = 60.0
"""Time between checkpoints, about the most that a kill loses. Weights and optimiser of MiniLM are
270 MB, which take longer to write than a few steps take."""


@dataclass(slots=True)
class State:
    """Progress of a training, in JSON values."""

    epoch: int = 0
    """Finished epochs."""
    batch: int = 0
    """Finished batches of the current epoch."""
    steps: int = 0
    """Finished steps in total."""
    losses: float = 0.0
    """Sum of the losses of the current epoch's finished batches."""
    seconds: float = 0.0
    """Time spent on the current epoch's finished batches."""
    best: float | None = None
    """The best score on the dev data."""
    best_epoch: int = 0
    """Epoch with the best score, from 1; 0: none yet."""
    curve: list[dict[str, Any]] = field(default_factory=list)
    """The finished epochs: `epoch` from 1, `steps` since the beginning, the mean `loss` over its
    steps, each before its update, the `score` on the dev data (None without any), and `seconds`."""


def fit(
    learner: Learner,
    items_of: Callable[[int], Sequence[Any]],
    dev: Sequence[Any],
    table: Train,
    seed: int,
    folder: Path,
    note: Callable[[str], None],
    *,
    every_seconds: float = CHECKPOINT_SECONDS,
) -> list[dict[str, Any]]:
    """Train, or resume training; the learner's model ends with the weights of the best epoch.

    Args:
        learner: the model and its task.
        items_of: epoch (from 0) -> training items.
        dev: items that select the best epoch; empty: the last epoch counts as best.
        table: `[train]`, the hyper-parameters.
        seed: of order and dropout.
        folder: folder of the checkpoint.
        note: called with a line about progress.
        every_seconds: time between checkpoints.

    Returns:
        The learning curve; see `State.curve`.

    Raises:
        StoreError: a checkpoint cannot be written or read.
    """
    make_folder(folder)
    optimiser = _optimiser(learner.model, table.learning_rate)
    file = folder / CHECKPOINT
    training = _Training(learner, optimiser, table, seed, file, note, every_seconds)
    state = training.resumed()
    examples: list[Example] = []
    encoded: Any = None
    while state.epoch < table.epochs:
        if table.patience and 0 < state.best_epoch <= state.epoch - table.patience:
            break
        items = items_of(state.epoch)
        if items is not encoded:
            encoded, examples = items, learner.encode(items)
        training.epoch(state, examples, dev)
    if training.best:
        learner.model.load_state_dict(training.best)
    learner.model.eval()
    return state.curve


def learning_rate(peak: float, warmup: float, progress: float) -> float:
    """Return the learning rate at a given progress of the whole training, in (0, 1).

    >>> [round(learning_rate(1.0, 0.2, at), 3) for at in (0.1, 0.2, 0.6)]
    [0.5, 1.0, 0.5]
    """
    rise = progress / warmup if progress < warmup else 1.0
    return peak * min(rise, (1 - progress) / (1 - warmup))


@dataclass(slots=True)
class _Training:
    """Runs the epochs of one training."""

    learner: Learner
    optimiser: Any
    table: Train
    seed: int
    file: Path
    """The checkpoint."""
    note: Callable[[str], None]
    every_seconds: float
    saved: float = field(default_factory=time.monotonic)
    """When the last checkpoint was written."""
    best: dict[str, Any] = field(default_factory=dict)
    """The weights of the best epoch; empty without dev data."""

    def epoch(self, state: State, examples: Sequence[Example], dev: Sequence[Any]) -> None:
        """Run an epoch, or the rest of it."""
        how, model = self.table, self.learner.model
        order = random.Random(f"{self.seed}/{state.epoch}")
        parts = list(batches(examples, how.batch_size, order))
        started = time.monotonic() - state.seconds
        model.train()
        for batch in parts[state.batch :]:
            progress = (state.epoch + (state.batch + 0.5) / len(parts)) / how.epochs
            rate = learning_rate(how.learning_rate, how.warmup, progress)
            state.losses += self._step(batch, state.steps, rate)
            state.batch += 1
            state.steps += 1
            self.note(
                f"epoch {state.epoch + 1} of {how.epochs}, step {state.batch} of {len(parts)}, "
                f"loss {state.losses / state.batch:.3f}"
            )
            if self._is_due() and state.batch < len(parts):
                state.seconds = time.monotonic() - started
                self._save(state)
        self._end(state, len(parts), started, dev)

    @in_compute_thread
    def _step(self, batch: Sequence[Example], step: int, rate: float) -> float:
        import torch

        torch.manual_seed(int.from_bytes(digest([self.seed, step])[:7], "little"))
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        with self._precision():
            loss = self.learner.loss(batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.learner.model.parameters(), MAX_NORM)
        self.optimiser.step()
        self.optimiser.zero_grad()
        return float(loss.item())

    def _end(self, state: State, n_batches: int, started: float, dev: Sequence[Any]) -> None:
        """Score the epoch, keep its weights if they are the best, and add it to the curve."""
        model = self.learner.model
        state.epoch += 1
        score = None
        if dev:
            score = self._score(dev)
            if state.best is None or score > state.best:
                state.best, state.best_epoch = score, state.epoch
                self.best = {k: v.detach().clone() for k, v in model.state_dict().items()}
        state.curve.append(
            {
                "epoch": state.epoch,
                "steps": state.steps,
                "loss": state.losses / n_batches,
                "score": score,
                "seconds": time.monotonic() - started,
            }
        )
        state.batch, state.losses, state.seconds = 0, 0.0, 0.0
        if self._is_due():
            self._save(state)

    @in_compute_thread
    def _score(self, dev: Sequence[Any]) -> float:
        self.learner.model.eval()
        with self._precision():
            return self.learner.score(dev)

    def _is_due(self) -> bool:
        return time.monotonic() - self.saved >= self.every_seconds

    def _save(self, state: State) -> None:
        from safetensors.torch import save_file

        states = self.optimiser.state_dict()["state"]
        parts = {
            "model": self.learner.model.state_dict(),
            "best": self.best,
            **{f"optimiser {number}": values for number, values in states.items()},
        }
        # Tied weights share memory, which safetensors refuses; the copies are few and small.
        tensors = {
            f"{part}/{name}": tensor.detach().clone().contiguous()
            for part, values in parts.items()
            for name, tensor in values.items()
        }
        about = {"state": json.dumps(asdict(state), allow_nan=False)}
        with translated(self.file.parent), atomic_path(self.file) as part:
            save_file(tensors, part, metadata=about)
        self.saved = time.monotonic()

    def resumed(self) -> State:
        """Load the checkpoint and return its progress; that of a beginning without one.

        Raises:
            StoreError: the checkpoint is damaged.
        """
        if not self.file.is_file():
            return State()
        from safetensors import safe_open

        parts: dict[str, dict[str, Any]] = {}
        with loading(
            lambda why: (
                f"the checkpoint {self.file} cannot be read ({why}); remove it to train this model "
                "from the beginning"
            ),
            StoreError,
        ):
            with safe_open(self.file, "pt", str(self.learner.model.device)) as tensors:
                state = State(**json.loads(tensors.metadata()["state"]))
                for name in tensors.keys():  # noqa: SIM118 - no dict
                    part, _, key = name.partition("/")
                    parts.setdefault(part, {})[key] = tensors.get_tensor(name)
            self.learner.model.load_state_dict(parts.pop("model"))
            self.best = parts.pop("best", {})
            states = {int(part.split()[1]): values for part, values in parts.items()}
            self.optimiser.load_state_dict({**self.optimiser.state_dict(), "state": states})
        return state

    def _precision(self) -> AbstractContextManager[Any]:
        import torch

        device = self.learner.model.device.type
        return torch.autocast(  # type: ignore[no-any-return]
            device, dtype=torch.bfloat16, enabled=self.table.dtype == "bfloat16"
        )


def _optimiser(model: Any, rate: float) -> Any:
    import torch

    decayed = [p for p in model.parameters() if p.requires_grad and p.dim() > 1]
    others = [p for p in model.parameters() if p.requires_grad and p.dim() <= 1]
    groups = [
        {"params": decayed, "weight_decay": WEIGHT_DECAY},
        {"params": others, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=rate, fused=True)
