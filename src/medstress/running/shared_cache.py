"""Copy answers from a run's ledger to the shared cache after a killed process.

Answers are committed to the ledger first; the cache is written only every few seconds.
"""

from __future__ import annotations

from collections import defaultdict

from medstress.core.calls import ModelIdentity
from medstress.engine.requests import VICTIM
from medstress.experiment.plan.plan import Prepared
from medstress.store.run_store import RunStore


def share_again(store: RunStore, prepared: Prepared) -> None:
    """Give the shared cache the computed answers of the run that it lacks; no cache, no work.

    Answers whose model is unknown are left out: those of models under one name in results (folds)
    and, if there are roles, those that no trial has used yet.
    """
    if prepared.shared is None:
        return
    models = _models(prepared)
    unused = None if prepared.roles else VICTIM
    for part in store.computed_keys():
        rows = [part[key] for key in prepared.shared.missing(list(part))]
        for answer in store.computed(rows) if rows else ():
            role = answer.role or unused
            model = models.get(answer.victim if role == VICTIM else f"role.{role}")
            if model is not None:
                prepared.shared.keep(model, {answer.key: answer.answer}, answer.seconds)
    prepared.shared.flush()


def _models(prepared: Prepared) -> dict[str, ModelIdentity]:
    """Return the model behind each name in results, and behind each role."""
    by_name = defaultdict[str, list[ModelIdentity]](list)
    for victim in prepared.victims:
        name = prepared.portion.names.get(victim.label, victim.label)
        by_name[name].append(victim.backend.identity)
    unique = {name: models[0] for name, models in by_name.items() if len(models) == 1}
    return unique | {part.label: part.backend.identity for part in prepared.roles}
