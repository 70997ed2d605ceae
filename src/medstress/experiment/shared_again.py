"""What a run's ledger holds and the shared cache lacks, since the process was killed in between.

Answers are committed to the ledger first; the cache is written every few seconds.
"""

from __future__ import annotations

from collections import defaultdict

from medstress.calls import ModelIdentity
from medstress.experiment.prepared import Prepared
from medstress.scheduler.need import VICTIM
from medstress.store.run_store import RunStore


def share_again(store: RunStore, prepared: Prepared) -> None:
    """Give the shared cache, where there is one, the computed answers of the run that it lacks.

    Left out are answers of which it is not known which model gave them: of models under one name in
    results (folds), and where there are roles those that no trial has consumed yet.
    """
    if prepared.shared is None:
        return
    models = _models(prepared)
    unconsumed = None if prepared.roles else VICTIM
    for part in store.computed_keys():
        rows = [part[key] for key in prepared.shared.missing(list(part))]
        for found in store.computed(rows) if rows else ():
            role = found.role or unconsumed
            model = models.get(found.victim if role == VICTIM else f"role.{role}")
            if model is not None:
                prepared.shared.keep(model, {found.key: found.answer}, found.seconds)
    prepared.shared.flush()


def _models(prepared: Prepared) -> dict[str, ModelIdentity]:
    """The model behind each name in results, and behind each role."""
    named = defaultdict[str, list[ModelIdentity]](list)
    for victim in prepared.victims:
        name = prepared.portion.names.get(victim.label, victim.label)
        named[name].append(victim.backend.identity)
    known = {name: models[0] for name, models in named.items() if len(models) == 1}
    return known | {part.label: part.backend.identity for part in prepared.roles}
