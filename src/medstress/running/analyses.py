"""The queries that `[analysis]` and `[test]` add after the trials; resumable like the run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing

import numpy as np

from medstress.core.rows import TrialRow
from medstress.engine.progress import Progress
from medstress.engine.scheduler import Scheduler
from medstress.entities.prompts import PromptEncoder
from medstress.experiment.plan.plan import Prepared
from medstress.experiment.plan.spending import limits_of
from medstress.metrics.arms import spec_of
from medstress.metrics.controls import attacks_only
from medstress.metrics.coverage import BINS
from medstress.results.load import StoredRun
from medstress.results.queries import TrialSubstitutions, substitutions
from medstress.results.rows import trial_rows
from medstress.running.prompt_similarity import prompts_to_embed, store_similarities
from medstress.significance.run import Listeners, finish_tests
from medstress.store.run_store import RunStore
from medstress.transfer.inquiries import plan


def finish(
    store: RunStore,
    prepared: Prepared,
    encoder: PromptEncoder | None,
    note: Callable[[str], None],
    announce: Callable[[str], None],
    on_progress: Callable[[Progress], None],
) -> bool:
    """Run the tests and analyses that need finished trials.

    Args:
        store: the run, open for writing.
        prepared: the experiment, with its victims open.
        encoder: for prompt similarity; None if it is off.
        note: receives what is being done.
        announce: receives what the user should read before it costs money.
        on_progress: receives the counts of queries asked.

    Returns:
        True if everything was asked; False if a limit of the run ended it early.
    """
    listeners = Listeners(note=note, announce=announce, progress=on_progress)
    settings = prepared.experiment.analysis
    sweeping = any(part.attack.spec().get("sampler") == "exhaustive" for part in prepared.attacks)
    analysing = settings.transfer or settings.universality or sweeping or encoder
    if not (prepared.experiment.test or analysing):
        return True
    store.commit()
    with closing(StoredRun(store.folder)) as run:
        rows = attacks_only(trial_rows(run))
        substituted = substitutions(run, rows) if analysing else []
        numbers = {name: number for number, (name, _) in run.trial_numbers().items()}
        prompts = prompts_to_embed(run, encoder) if encoder else []
    if not finish_tests(store, prepared, rows, listeners):
        return False
    if not analysing:
        return True
    _store_distances(store, prepared, substituted, numbers)
    done = _ask(store, prepared, rows, substituted, note, on_progress)
    if encoder is not None:
        note(f"prompt similarity ({settings.embedder})")
        store_similarities(store, encoder, settings, prompts)
    return done


def _ask(
    store: RunStore,
    prepared: Prepared,
    rows: Sequence[TrialRow],
    substituted: list[TrialSubstitutions],
    note: Callable[[str], None],
    on_progress: Callable[[Progress], None],
) -> bool:
    inquiries = plan(prepared, rows, substituted)
    if not inquiries:
        return True
    n_queries = sum(len(inquiry.candidates) for inquiry in inquiries)
    note(f"transfer and universality: {n_queries} queries")
    limits = limits_of(store, prepared)
    scheduler = Scheduler(store, limits=limits, shared=prepared.shared, on_progress=on_progress)
    progress = scheduler.run(inquiries, len(inquiries))
    store.commit()
    return progress.n_done + progress.n_skipped == len(inquiries)


def _store_distances(
    store: RunStore,
    prepared: Prepared,
    substituted: list[TrialSubstitutions],
    numbers: dict[str, int],
) -> None:
    """Store the quantiles of h that bound `BINS` bins, for every exhaustive trial.

    The folder holds no vectors, and the distances of all names would be its largest part.
    """
    groups = {group.label: group.resources.perturbations for group in prepared.question_groups}
    indices = {
        label: {name.casefold(): i for i, name in enumerate(perturbations.names)}
        for label, perturbations in groups.items()
    }
    values = []
    for trial in substituted:
        if spec_of([trial.row]).get("sampler") != "exhaustive":
            continue
        index = indices[trial.row.group]
        h = groups[trial.row.group].distances(trial.item.key_text)
        names = set[str]().union(*trial.names.values())
        distances = np.sort([h[index[name]] for name in names if name in index])
        if len(distances):
            edges = np.linspace(0, len(distances) - 1, BINS + 1).round().astype(int)
            values.append((numbers[trial.row.trial_id], distances[edges].tolist()))
    store.write_distances(values)
