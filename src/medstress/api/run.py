"""Run, tune and train from Python; each returns the finished folder as a `Run`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medstress.api.checked import checked
from medstress.api.first import First, Groups, Model, OneAttack
from medstress.api.given import tables_of
from medstress.api.progress import watching
from medstress.api.results import Run
from medstress.core.errors import UsageError
from medstress.core.shards import Shard, parse_shard
from medstress.experiment.file.config import DatasetTable, Experiment
from medstress.experiment.file.reading import Source
from medstress.experiment.kept_summary import keep_summary
from medstress.experiment.opening import Wish
from medstress.experiment.prepare import Watcher
from medstress.experiment.run import perform

__all__ = ["Run", "Trained", "Tuned", "merge", "run", "train", "tune"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """The folders of `tune`."""

    tuning: Run
    """The trials that n was chosen from."""
    report: Run | None
    """The report with the chosen n; None if the tuning trials are not complete or too many of them
    failed. The same as `tuning` if n is chosen on the reported items."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """The folder of `train`."""

    run: Run
    """The attacks on all models, before and after training on perturbed copies."""
    is_complete: bool
    """False if a limit of the experiment ended the attacks."""


@checked
def run(
    experiment: str | Path | Mapping[Any, Any] | Experiment | Source | None = None,
    out: str | Path | None = None,
    *,
    data: str | Path | DatasetTable | Mapping[str, Any] | None = None,
    model: Model | None = None,
    base_url: str | None = None,
    api_key_env: str | None = None,
    entities: Groups | None = None,
    attack: OneAttack | Sequence[OneAttack] | None = None,
    budget: int | None = None,
    columns: Mapping[str, str | Sequence[str]] | None = None,
    answer_base: int | None = None,
    fresh: bool = False,
    retry_failed: bool = False,
    limit: int | None = None,
    overrides: Sequence[str] = (),
    quiet: bool | None = None,
    watcher: Watcher | None = None,
    shard: Shard | str | None = None,
) -> Run:
    """Run, resume or extend an experiment, or a shard of it.

    Args:
        experiment: a TOML file or the name of a shipped recipe, its text as a `Source`, a dict of
            the same shape, in which typed tables, attacks and functions may stand, or a checked
            `Experiment`. Without one, `data` and `model` stand for it,
            as in `medstress run --data FILE --model NAME`.
        out: the run folder; default ``runs/<name>``.
        data: a file, a folder, a data set of `medstress list datasets`, or `owner/name` on the hub;
            or an `ms.Dataset`.
        model: a function or object that answers, or a name: a folder, a `.gguf` file,
            `file.py:function`, `mock`, the name that the server at `base_url` knows, or a hub id;
            or an `ms.Victim`.
        base_url: the address of a server.
        api_key_env: the environment variable that holds the server's key.
        entities: groups of `drugs`, `diseases`, or of `ms.Entities`; default: both.
        attack: an attack such as ``ms.attacks.EntitySubstitution(...)``, the name of one, an
            `ms.Attack`, or a list of them; default: what fits the data.
        budget: perturbed queries per item; default: the attack's.
        columns: field -> its column in the data.
        answer_base: the number of the first option where answers are numbers.
        fresh: throw away what the folder holds.
        retry_failed: run failed trials again.
        limit: most items of each data set.
        overrides: as the command line's --set.
        quiet: True for no progress, False for lines on stderr outside notebooks too; by default a
            notebook shows a bar.
        watcher: callbacks for progress, in place of the bar.
        shard: "K/N" runs the trials of part K of N, for `merge`.

    Raises:
        UsageError, DataError, StoreError: one sentence; nothing stored is lost.
        BackendError: a model answered nothing, three batches in a row from the start. Later
            failures end only their trials; `print` of the run says so.
    """
    first = First(
        data=data,
        model=model,
        base_url=base_url,
        api_key_env=api_key_env,
        entities=entities,
        attack=attack,
        budget=budget,
        columns=columns or {},
        answer_base=answer_base,
    )
    if experiment is not None and first.given:
        raise UsageError(
            f"run: {', '.join(first.given)} given beside an experiment, which has them in its "
            "tables: give one or the other"
        )
    with watching(watcher, quiet) as watched:
        outcome = perform(
            first.experiment(overrides) if experiment is None else _given(experiment),
            out,
            Wish(
                fresh=fresh,
                retry_failed=retry_failed,
                shard=parse_shard(shard, os.environ) if isinstance(shard, str) else shard,
            ),
            limit=limit,
            overrides=overrides,
            watcher=watched,
        )
        if outcome.nothing_asked is not None:
            watched.announce(outcome.nothing_asked)
    keep_summary(outcome.folder)
    return Run(outcome.folder)


def _given(experiment: Any) -> Any:
    """Return an experiment whose dict, if it is one, holds what a file may hold."""
    return tables_of(experiment) if isinstance(experiment, Mapping) else experiment


@checked
def merge(
    folders: Sequence[str | Path],
    out: str | Path,
) -> Run:
    """Join the shards of one experiment to a new run folder; `run` on it then completes it.

    Args:
        folders: the folders of all shards.
        out: the new folder.

    Raises:
        UsageError, StoreError: one sentence; nothing is written.
    """
    from medstress.experiment.merging import merge_shards

    merged = merge_shards(folders, out)
    return Run(merged.folder)


@checked
def tune(
    experiment: str | Path | Mapping[Any, Any] | Experiment,
    out: str | Path | None = None,
    *,
    fresh: bool = False,
    retry_failed: bool = False,
    limit: int | None = None,
    overrides: Sequence[str] = (),
    quiet: bool | None = None,
    watcher: Watcher | None = None,
) -> Tuned:
    """Choose n of every `pdws` attack on a tuning split, then report on the rest; or resume.

    Arguments and errors are those of `run`; `out` is ``runs/<name>-tuned`` by default.
    `medstress.experiment.tuning.tune_experiment` describes how n is chosen.
    """
    from medstress.experiment.tuning import tune_experiment

    with watching(watcher, quiet) as watched:
        tuned = tune_experiment(
            _given(experiment),
            out,
            Wish(fresh=fresh, retry_failed=retry_failed),
            limit=limit,
            overrides=overrides,
            watcher=watched,
        )
        if tuned.nothing_asked is not None:
            watched.announce(tuned.nothing_asked)
    for folder in tuned.folders:
        keep_summary(folder)
    report = None if tuned.report is None else Run(tuned.report.folder)
    return Tuned(tuning=Run(tuned.tuning.folder), report=report)


@checked
def train(
    experiment: str | Path | Mapping[Any, Any] | Experiment,
    out: str | Path | None = None,
    *,
    limit: int | None = None,
    overrides: Sequence[str] = (),
    quiet: bool | None = None,
    watcher: Watcher | None = None,
) -> Trained:
    """Fine-tune models, attack them, train adversarial ones, attack those; or resume.

    Arguments and errors are those of `run`; `out` is ``runs/<name>-trained`` by default.
    `medstress.training.train.train_experiment` describes how it resumes.
    """
    from medstress.training.train import train_experiment

    with watching(watcher, quiet) as watched:
        found = train_experiment(
            _given(experiment), out, limit=limit, overrides=overrides, watcher=watched
        )
    keep_summary(found.folder)
    return Trained(run=Run(found.folder), is_complete=found.is_complete)
