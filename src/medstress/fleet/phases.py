"""Phases of a command: what each of them opens and runs, for its driver and its workers alike.

`run` has one phase. `tune` has the run that n is chosen from, then the report; `train` has models,
the attacks on them, more models, and the attacks on all. Between two phases everything is merged
on the driver's machine, and what the next one needs travels as JSON in its order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from medstress.analyses.tuning import Chosen
from medstress.experiment.plan.plan import Prepared
from medstress.fleet.order import ATTACK, REPORT, TUNING, Order
from medstress.running.prepare import Watcher, prepare
from medstress.training.plan import TrainingPlan, plan_training
from medstress.tuning.plan import TuningPlan
from medstress.tuning.tune import plan_tuning, report_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """Trials of one phase, with everything loaded but the models."""

    whole: Prepared
    """Whose victims are opened."""
    part: Callable[[], Prepared]
    """Returns what the phase runs; called anew once the victims are open."""
    models: Mapping[Path, str] = field(default_factory=dict)
    """Folders of trained models that are victims -> digest of what is in them."""


def phase_of(order: Order, watcher: Watcher) -> Phase:
    """Read the experiment of a phase of trials and load everything but the models.

    Raises:
        UsageError, DataError: one sentence.
    """
    match order.phase["name"]:
        case "tuning" | "report":
            return tuning_phase(order, tuning_of(order, watcher))
        case "attack":
            return attack_phase(order, training_of(order, watcher))
    prepared = prepare(order.source, limit=order.limit, overrides=order.overrides, watcher=watcher)
    return Phase(whole=prepared, part=lambda: prepared)


def tuning_of(order: Order, watcher: Watcher) -> TuningPlan:
    """Return the plan of a tuning."""
    return plan_tuning(order.source, limit=order.limit, overrides=order.overrides, watcher=watcher)


def training_of(order: Order, watcher: Watcher) -> TrainingPlan:
    """Return the plan of a training."""
    return plan_training(
        order.source, limit=order.limit, overrides=order.overrides, watcher=watcher
    )


def tuning_phase(order: Order, plan: TuningPlan) -> Phase:
    """Return the run that n is chosen from, or the report with the n of the order."""
    if order.phase["name"] == TUNING:
        return Phase(whole=plan.prepared, part=plan.tuning)
    assert order.phase["name"] == REPORT
    best = Chosen.read(order.phase["tuning"])
    return Phase(whole=plan.prepared, part=lambda: report_of(plan, best))


def attack_phase(order: Order, plan: TrainingPlan) -> Phase:
    """Return the attacks on the models of the order."""
    assert order.phase["name"] == ATTACK
    folder, digests = Path(order.phase["folder"]), order.phase["models"]
    models = [model for model in plan.models if model.label in digests]
    prepared = plan.stage(models, folder, order.phase["results"])
    return Phase(
        whole=prepared,
        part=lambda: prepared,
        models={folder / model.folder: digests[model.label] for model in models},
    )
