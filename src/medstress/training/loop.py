"""The training loop: AdamW, linear warm-up and decay, early stopping, resuming.

Random numbers of a step depend on (seed, step) only, those of an epoch on (seed, epoch), so a
resumed training ends with the weights of an uninterrupted one.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from medstress.core.hashing import digest
from medstress.entities.processor import in_compute_thread
from medstress.files.writing import make_folder
from medstress.training.checkpoint import (
    load_checkpoint,
    load_weights,
    save_checkpoint,
    save_weights,
)
from medstress.training.learners import Example, Learner, batches

WEIGHT_DECAY = 0.01
"""As in BLUE; not applied to biases and layer norms."""
MAX_NORM = 1.0
"""Gradients are clipped to this norm."""
CHECKPOINT_SECONDS = 60.0
"""Time between checkpoints, about the most that a kill loses. Weights and optimiser of MiniLM are
270 MB, which take longer to write than a few steps take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """How a model is trained."""

    epochs: int
    """Most epochs."""
    batch_size: int
    """Examples per step."""
    learning_rate: float
    """Peak learning rate."""
    warmup: float
    """Share of the training in which the learning rate rises, in [0, 1)."""
    patience: int
    """Epochs without a better score before training stops; 0: never."""
    seed: int
    """Seed of order and dropout."""
    dtype: str
    """`float32` or `bfloat16`, for forward passes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One epoch on the learning curve."""

    epoch: int
    """From 1."""
    steps: int
    """Steps since the beginning."""
    loss: float
    """Mean loss over the epoch's steps, each computed before its update."""
    score: float | None
    """Score on the dev data; None without dev data."""
    seconds: float
    """Duration of the epoch, scoring included."""


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
    """The finished epochs."""


def fit(
    learner: Learner,
    items_of: Callable[[int], Sequence[Any]],
    dev: Sequence[Any],
    schedule: Schedule,
    folder: Path,
    note: Callable[[str], None],
    *,
    every_seconds: float = CHECKPOINT_SECONDS,
) -> list[Point]:
    """Train, or resume training; the learner's model ends with the weights of the best epoch.

    Args:
        learner: the model and its task.
        items_of: epoch (from 0) -> training items.
        dev: items that select the best epoch; empty: the last epoch counts as best.
        schedule: the hyper-parameters.
        folder: folder of checkpoints.
        note: called with a line about progress.
        every_seconds: time between checkpoints.

    Returns:
        The learning curve.

    Raises:
        StoreError: a checkpoint cannot be written or read.
    """
    make_folder(folder)
    optimiser = _optimiser(learner.model, schedule)
    state = State(**(load_checkpoint(folder, learner.model, optimiser) or {}))
    training = _Training(learner, optimiser, schedule, folder, note, every_seconds)
    examples: list[Example] = []
    encoded: Any = None
    while state.epoch < schedule.epochs:
        if schedule.patience and 0 < state.best_epoch <= state.epoch - schedule.patience:
            break
        items = items_of(state.epoch)
        if items is not encoded:
            encoded, examples = items, learner.encode(items)
        training.epoch(state, examples, dev)
    training.keep_best(state)
    learner.model.eval()
    return [Point(**point) for point in state.curve]


def learning_rate(schedule: Schedule, progress: float) -> float:
    """Return the learning rate at a given progress of the whole training, in (0, 1).

    >>> how = Schedule(epochs=1, batch_size=1, learning_rate=1.0, warmup=0.2, patience=0, seed=0,
    ...                dtype="float32")
    >>> [round(learning_rate(how, at), 3) for at in (0.1, 0.2, 0.6)]
    [0.5, 1.0, 0.5]
    """
    rise = progress / schedule.warmup if progress < schedule.warmup else 1.0
    return schedule.learning_rate * min(rise, (1 - progress) / (1 - schedule.warmup))


@dataclass(slots=True)
class _Training:
    """Runs the epochs of one training."""

    learner: Learner
    optimiser: Any
    schedule: Schedule
    folder: Path
    note: Callable[[str], None]
    every_seconds: float
    saved: float = field(default_factory=time.monotonic)
    """When the last checkpoint was written."""
    best: dict[str, Any] = field(default_factory=dict)
    """The best weights, if not yet written to disk."""

    def epoch(self, state: State, examples: Sequence[Example], dev: Sequence[Any]) -> None:
        """Run an epoch, or the rest of it."""
        how, model = self.schedule, self.learner.model
        order = random.Random(f"{how.seed}/{state.epoch}")
        parts = list(batches(examples, how.batch_size, order))
        started = time.monotonic() - state.seconds
        model.train()
        for batch in parts[state.batch :]:
            progress = (state.epoch + (state.batch + 0.5) / len(parts)) / how.epochs
            state.losses += self._step(batch, state.steps, learning_rate(how, progress))
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

        torch.manual_seed(int.from_bytes(digest([self.schedule.seed, step])[:7], "little"))
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
        point = Point(
            epoch=state.epoch,
            steps=state.steps,
            loss=state.losses / n_batches,
            score=score,
            seconds=time.monotonic() - started,
        )
        state.curve.append(asdict(point))
        state.batch, state.losses, state.seconds = 0, 0.0, 0.0
        if self._is_due():
            self._save(state)

    def keep_best(self, state: State) -> None:
        """Load the weights of the best epoch into the model; without dev data, keep the last."""
        if self.best:
            self.learner.model.load_state_dict(self.best)
        elif state.best_epoch:
            load_weights(self.folder / _best(state.best_epoch), self.learner.model)

    @in_compute_thread
    def _score(self, dev: Sequence[Any]) -> float:
        self.learner.model.eval()
        with self._precision():
            return self.learner.score(dev)

    def _is_due(self) -> bool:
        return time.monotonic() - self.saved >= self.every_seconds

    def _save(self, state: State) -> None:
        """Write a checkpoint and the best weights it refers to."""
        if self.best:
            save_weights(self.folder / _best(state.best_epoch), self.best)
            self.best = {}
        save_checkpoint(self.folder, state.steps, self.learner.model, self.optimiser, asdict(state))
        for path in self.folder.glob("best-*.safetensors"):
            if path.name != _best(state.best_epoch):
                path.unlink()
        self.saved = time.monotonic()

    def _precision(self) -> AbstractContextManager[Any]:
        import torch

        device = self.learner.model.device.type
        return torch.autocast(  # type: ignore[no-any-return]
            device, dtype=torch.bfloat16, enabled=self.schedule.dtype == "bfloat16"
        )


def _optimiser(model: Any, schedule: Schedule) -> Any:
    import torch

    decayed = [p for p in model.parameters() if p.requires_grad and p.dim() > 1]
    others = [p for p in model.parameters() if p.requires_grad and p.dim() <= 1]
    groups = [
        {"params": decayed, "weight_decay": WEIGHT_DECAY},
        {"params": others, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=schedule.learning_rate, fused=True)


def _best(epoch: int) -> str:
    return f"best-{epoch:05d}.safetensors"
