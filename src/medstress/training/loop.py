"""The training loop: AdamW, linear warm-up and decay, early stopping, resuming.

Random numbers of a step depend on (seed, step) only, those of an epoch on (seed, epoch), so a
resumed training ends with the weights of an uninterrupted one. A checkpoint is one file: weights,
optimiser and best weights as safetensors, numbers as JSON among its metadata. A new one replaces
the old one when it is complete.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from medstress.core.errors import StoreError
from medstress.core.hashing import digest
from medstress.core.reading import loading
from medstress.core.writing import atomic_path, make_folder
from medstress.entities.processor import in_compute_thread
from medstress.experiment.config import Train
from medstress.store.database import translated
from medstress.training.learners import Example, Learner, batches

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
