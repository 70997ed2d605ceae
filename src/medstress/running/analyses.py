"""The queries that `[analysis]` and `[test]` add after the trials; resumable like the run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from medstress.analyses.coverage import BINS
from medstress.analyses.run import Run
from medstress.engine.inquiry import Inquiry
from medstress.engine.progress import Progress
from medstress.engine.scheduler import Scheduler
from medstress.entities.prompts import PromptEncoder
from medstress.experiment.plan.plan import Prepared
from medstress.experiment.plan.spending import limits_of
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
    run = Run.open(store.folder)
    # All is read before anything is written.
    prompts = prompts_to_embed(run, encoder) if encoder else []
    inquiries = plan(prepared, run)
    distances = _distances(prepared, run)
    attacked = [trial for trial in run.trials if not trial.arm.is_control]
    if not finish_tests(store, prepared, attacked, listeners):
        return False
    store.write_distances(distances)
    done = _ask(store, prepared, inquiries, note, on_progress)
    if encoder is not None:
        note(f"prompt similarity ({settings.embedder})")
        store_similarities(store, encoder, settings, prompts)
    return done


def _ask(
    store: RunStore,
    prepared: Prepared,
    inquiries: Sequence[Inquiry],
    note: Callable[[str], None],
    on_progress: Callable[[Progress], None],
) -> bool:
    if not inquiries:
        return True
    n_queries = sum(len(inquiry.candidates) for inquiry in inquiries)
    note(f"transfer and universality: {n_queries} queries")
    limits = limits_of(store, prepared)
    scheduler = Scheduler(store, limits=limits, shared=prepared.shared, on_progress=on_progress)
    progress = scheduler.run(inquiries, len(inquiries))
    store.commit()
    return progress.n_done + progress.n_skipped == len(inquiries)


def _distances(prepared: Prepared, run: Run) -> list[tuple[int, list[float]]]:
    """Return the quantiles of h that bound `BINS` bins, for every exhaustive trial.

    The folder holds no vectors, and the distances of all names would be its largest part.
    """
    sweeps = [
        trial
        for trial in run.trials
        if trial.arm.attack.params.get("sampler") == "exhaustive" and trial.is_eligible
    ]
    if not sweeps:
        return []
    lines = run.folder.substitutions
    groups = {group.label: group.resources.perturbations for group in prepared.question_groups}
    indices = {
        label: {name.casefold(): i for i, name in enumerate(perturbations.names)}
        for label, perturbations in groups.items()
    }
    values = []
    for trial in sweeps:
        group = trial.arm.place.group
        h, index = groups[group].distances(trial.item.key_text), indices[group]
        first, end = np.searchsorted(lines.trial, (trial.number, trial.number + 1))
        names = {lines.names[name].casefold() for name in lines.name[first:end]}
        nearest = np.sort([h[index[name]] for name in names if name in index])
        if len(nearest):
            edges = np.linspace(0, len(nearest) - 1, BINS + 1).round().astype(int)
            values.append((trial.number, nearest[edges].tolist()))
    return values
