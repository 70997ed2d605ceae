"""A worker's part of a training: one model after the other, each under a lease of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medstress.core.hashing import content_hash
from medstress.engine.progress import Progress
from medstress.fleet.allowance import used_of
from medstress.fleet.leased import Leased
from medstress.fleet.leases import StaleLeaseError, State
from medstress.fleet.models import packed
from medstress.fleet.order import Order
from medstress.fleet.phases import training_of
from medstress.running.prepare import Watcher
from medstress.training.learner import Start, find_start
from medstress.training.plan import ModelPlan, TrainingPlan
from medstress.training.train import trained


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """The models of one phase of a training."""

    plan_: TrainingPlan
    start: Start
    """What all are made from."""
    models: tuple[ModelPlan, ...]
    """In the order of their shards."""

    @classmethod
    def of(cls, order: Order, watcher: Watcher) -> Models:
        """Load data and find the pretrained model.

        Raises:
            UsageError, DataError: one sentence.
        """
        plan = training_of(order, watcher)
        wanted = order.phase["models"]
        return cls(
            plan_=plan,
            start=find_start(plan.table.model, plan.table.device, plan.prepared.base),
            models=tuple(model for model in plan.models if model.label in wanted),
        )

    def plan(self) -> dict[str, str]:
        """Return digests of what determines the models' weights."""
        return training_digests(self.plan_, self.models, self.start)


def training_digests(
    plan: TrainingPlan, models: tuple[ModelPlan, ...], start: Start
) -> dict[str, str]:
    """Return digests of what determines the weights of models, but libraries and hardware."""
    hashes = {model.label: plan.hash_of(model, start) for model in models}
    return {"training data, settings or pretrained model": content_hash(hashes)}


class LeasedModel(Leased):
    """One model, trained under one lease; its checkpoints stay with the worker."""

    suffix = ".zip"

    def run(self, models: Models, folder: Path) -> None:
        """Train the model to its end, the driver's word or the loss of the lease."""
        model = models.models[self._lease["shard"] - 1]
        self._note, self._is_done = "", False
        try:
            with self._renewing():
                try:
                    trained(models.plan_, model, models.start, folder, self._watch)
                except KeyboardInterrupt:
                    return  # the driver ends this worker
                self._is_done = True
                self._send(packed(folder), State.DONE, 0)
        except StaleLeaseError:
            pass  # another worker has the model

    def _watch(self, line: str) -> None:
        """Called between steps."""
        self._note = line
        self._check_lease()

    def _report(self) -> dict[str, Any]:
        return {
            "used": used_of(Progress()),
            "reported": {"n_done": int(self._is_done), "stored": 0},
            "note": self._note,
        }
