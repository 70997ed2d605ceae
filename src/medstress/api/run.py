"""Run, tune and train from Python; each returns the finished folder as a `Run`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medstress.api.results import Run
from medstress.experiment.file.config import Experiment
from medstress.experiment.file.sources import Source
from medstress.running.prepare import Watcher
from medstress.running.run import run_experiment

__all__ = ["Run", "Trained", "Tuned", "run", "train", "tune"]


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


def run(
    experiment: str | Path | Mapping[str, Any] | Experiment | Source,
    out: str | Path | None = None,
    *,
    fresh: bool = False,
    retry_failed: bool = False,
    limit: int | None = None,
    overrides: Sequence[str] = (),
    watcher: Watcher | None = None,
) -> Run:
    """Run, resume or extend an experiment.

    Args:
        experiment: a TOML file or the name of a shipped recipe, its text as a `Source`, a dict of
            the same shape, or a checked `Experiment`.
        out: the run folder; default ``runs/<name>``.
        fresh: throw away what the folder holds.
        retry_failed: run failed trials again.
        limit: most items of each data set.
        overrides: as the command line's --set.
        watcher: callbacks for progress.

    Raises:
        UsageError, DataError, StoreError, BackendError: one sentence; nothing stored is lost.
    """
    folder = run_experiment(
        experiment,
        out,
        fresh=fresh,
        retry_failed=retry_failed,
        limit=limit,
        overrides=overrides,
        watcher=watcher,
    )
    return Run(folder)


def tune(
    experiment: str | Path | Mapping[str, Any] | Experiment,
    out: str | Path | None = None,
    *,
    fresh: bool = False,
    retry_failed: bool = False,
    limit: int | None = None,
    overrides: Sequence[str] = (),
    watcher: Watcher | None = None,
) -> Tuned:
    """Choose n of every `pdws` attack on a tuning split, then report on the rest; or resume.

    Arguments and errors are those of `run`; `out` is ``runs/<name>-tuned`` by default.
    `medstress.tuning.tune.tune_experiment` describes how n is chosen.
    """
    from medstress.tuning.tune import tune_experiment

    found = tune_experiment(
        experiment,
        out,
        fresh=fresh,
        retry_failed=retry_failed,
        limit=limit,
        overrides=overrides,
        watcher=watcher,
    )
    report = None if found.report is None else Run(found.report)
    return Tuned(tuning=Run(found.tuning), report=report)


def train(
    experiment: str | Path | Mapping[str, Any] | Experiment,
    out: str | Path | None = None,
    *,
    limit: int | None = None,
    overrides: Sequence[str] = (),
    watcher: Watcher | None = None,
) -> Trained:
    """Fine-tune models, attack them, train adversarial ones, attack those; or resume.

    Arguments and errors are those of `run`; `out` is ``runs/<name>-trained`` by default.
    `medstress.training.train.train_experiment` describes how it resumes.
    """
    from medstress.training.train import train_experiment

    found = train_experiment(experiment, out, limit=limit, overrides=overrides, watcher=watcher)
    return Trained(run=Run(found.folder), is_complete=found.is_complete)
