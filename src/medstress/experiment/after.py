"""After the trials: what `[analysis]` asks, embeds and keeps, resumable like the run itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing

import numpy as np

from medstress.entities.prompts import PromptEncoder
from medstress.experiment.asked import AskedTrial, asked_trials
from medstress.experiment.inquiries import plan
from medstress.experiment.prepared import Prepared
from medstress.experiment.rows import trial_rows
from medstress.experiment.significance.run import Listeners, finish_tests
from medstress.experiment.similarity import prompts_to_embed, store_similarities
from medstress.experiment.spent import limits_of
from medstress.metrics.arms import spec_of
from medstress.metrics.coverage import BINS
from medstress.results.load import StoredRun
from medstress.rows import TrialRow
from medstress.scheduler.progress import Progress
from medstress.scheduler.ready_queue import Scheduler
from medstress.store.run_store import RunStore


def finish(
    store: RunStore,
    prepared: Prepared,
    encoder: PromptEncoder | None,
    note: Callable[[str], None],
    announce: Callable[[str], None],
    on_progress: Callable[[Progress], None],
) -> bool:
    """Do what `[analysis]` asks for; all trials are finished.

    Args:
        store: the run, open for writing.
        prepared: the experiment, victims opened.
        encoder: for prompt similarity; None where it is not asked for.
        note: told what is being done.
        announce: told what has to be read before it is paid for.
        on_progress: told the counts of questions asked.

    Returns:
        Whether everything was asked; False where a limit of the run ended it.
    """
    listeners = Listeners(note=note, announce=announce, progress=on_progress)
    settings = prepared.experiment.analysis
    sweeping = any(part.attack.spec().get("sampler") == "exhaustive" for part in prepared.attacks)
    analysing = settings.transfer or settings.universality or sweeping or encoder
    if not (prepared.experiment.test or analysing):
        return True
    store.commit()
    with closing(StoredRun(store.folder)) as run:
        rows = trial_rows(run)
        asked = asked_trials(run, rows) if analysing else []
        numbers = {name: number for number, (name, _) in run.trial_numbers().items()}
        prompts = prompts_to_embed(run, encoder) if encoder else []
    if not finish_tests(store, prepared, rows, listeners):
        return False
    if not analysing:
        return True
    _keep_distances(store, prepared, asked, numbers)
    done = _ask(store, prepared, rows, asked, note, on_progress)
    if encoder is not None:
        note(f"prompt similarity ({settings.embedder})")
        store_similarities(store, encoder, settings, prompts)
    return done


def _ask(
    store: RunStore,
    prepared: Prepared,
    rows: Sequence[TrialRow],
    asked: list[AskedTrial],
    note: Callable[[str], None],
    on_progress: Callable[[Progress], None],
) -> bool:
    inquiries = plan(prepared, rows, asked)
    if not inquiries:
        return True
    note(f"transfer and universality: {sum(len(one.candidates) for one in inquiries)} questions")
    limits = limits_of(store, prepared)
    scheduler = Scheduler(store, limits=limits, shared=prepared.shared, on_progress=on_progress)
    progress = scheduler.run(inquiries, len(inquiries))
    store.commit()
    return progress.n_done + progress.n_skipped == len(inquiries)


def _keep_distances(
    store: RunStore, prepared: Prepared, asked: list[AskedTrial], numbers: dict[str, int]
) -> None:
    """Keep h at the ends of 20 classes of every item whose whole vocabulary was asked.

    The folder holds no vectors, and all distances of all items would outgrow all else in it.
    """
    groups = {group.label: group.resources.perturbations for group in prepared.question_groups}
    places = {
        label: {name.casefold(): i for i, name in enumerate(found.names)}
        for label, found in groups.items()
    }
    values = []
    for one in asked:
        if spec_of([one.row]).get("sampler") != "exhaustive":
            continue
        known = places[one.row.group]
        h = groups[one.row.group].distances(one.item.key_text)
        names = set[str]().union(*one.names.values())
        found = np.sort([h[known[name]] for name in names if name in known])
        if len(found):
            ends = np.linspace(0, len(found) - 1, BINS + 1).round().astype(int)
            values.append((numbers[one.row.trial_id], found[ends].tolist()))
    store.write_distances(values)
