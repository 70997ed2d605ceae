"""Run, tune and train from Python; each returns the finished folder as a `Run`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

from medstress.api.checked import checked
from medstress.api.notebook import watching
from medstress.api.one import Rows
from medstress.api.results import Run
from medstress.attacks.protocol import Attack as BuiltAttack
from medstress.core.errors import UsageError
from medstress.core.frames import Frame
from medstress.core.functions import Answering
from medstress.engine.progress import Watcher
from medstress.experiment.config import (
    Attack,
    Dataset,
    Entities,
    Experiment,
    Victim,
)
from medstress.experiment.first import Choices, compose
from medstress.experiment.kept_summary import keep_summary
from medstress.experiment.manifest import Wish
from medstress.experiment.reading import Source
from medstress.experiment.run import perform
from medstress.store.shards import Shard, parse_shard

__all__ = ["Run", "Trained", "Tuned", "merge", "run", "train", "tune"]

Whole: TypeAlias = str | Path | Mapping[Any, Any] | Experiment
"""What an experiment may be given as."""
Model: TypeAlias = str | Path | Callable[..., Any] | Answering | Victim | Mapping[str, Any]
"""What `ms.run` takes as the model."""
OneAttack: TypeAlias = str | BuiltAttack | Attack | Mapping[str, Any]
"""What it takes as an attack."""
Groups: TypeAlias = str | Entities | Sequence[str] | Sequence[Entities]
"""What it takes as groups of entities."""


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
    experiment: Whole | Source | None = None,
    out: str | Path | None = None,
    *,
    data: str | Path | Dataset | Mapping[str, Any] | Rows | Frame | None = None,
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
        experiment: an `ms.Experiment`, a TOML file or the name of a shipped recipe, its text as a
            `Source`, or a dict of the same shape. Without one, `data` and `model` stand for it, as
            in `medstress run --data FILE --model NAME`.
        out: the run folder; default ``runs/<name>``.
        data: a file, a folder, a data set of `medstress list datasets`, or `owner/name` on the hub;
            an `ms.Dataset`; or rows, as a list of dicts or a data frame of polars or pandas.
        model: a function or object that answers, or a name: a folder, a `.gguf` file,
            `file.py:function`, `mock`, the name that the server at `base_url` knows, or a hub id;
            or an `ms.Victim`.
        base_url: the address of a server.
        api_key_env: the environment variable that holds the server's key.
        entities: groups of `drugs`, `diseases`, or of `ms.Entities`; default: both.
        attack: an attack such as ``ms.EntitySubstitution(...)``, the name of one, an `ms.Attack`,
            or a list of them; default: what fits the data.
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
    values = {
        **{"data": data, "model": model, "base_url": base_url, "api_key_env": api_key_env},
        **{"entities": entities, "attack": attack, "budget": budget},
        **{"columns": columns or None, "answer_base": answer_base},
    }
    settings = {name: value for name, value in values.items() if value is not None}
    if experiment is not None and settings:
        raise UsageError(
            f"run: {', '.join(settings)} given with an experiment, which has them in its tables: "
            "give one or the other"
        )
    with watching(watcher, quiet) as watched:
        whole = _first(settings, overrides) if experiment is None else experiment
        wish = Wish(
            fresh=fresh,
            retry_failed=retry_failed,
            shard=parse_shard(shard, os.environ) if isinstance(shard, str) else shard,
        )
        outcome = perform(whole, out, wish, limit=limit, overrides=overrides, watcher=watched)
        if outcome.nothing_asked is not None:
            watched.announce(outcome.nothing_asked)
    keep_summary(outcome.folder)
    return Run(outcome.folder)


def _first(settings: Mapping[str, Any], overrides: Sequence[str]) -> Source:
    """Compose the experiment that data and model stand for.

    Raises:
        UsageError, DataError: a value is missing or does not fit; the message names it.
    """
    if missing := [name for name in ("data", "model") if name not in settings]:
        raise UsageError(
            f"run: {' and '.join(missing)} missing; give an experiment, or for example "
            'ms.run(data="questions.csv", model=answer) with a function `answer`'
        )
    data, model, groups = settings["data"], settings["model"], _listed(settings.get("entities", ()))
    attacks = _listed(settings.get("attack", ()))
    is_name = isinstance(model, str | PathLike)
    for name, value in (("data", data), ("model", model)):
        if isinstance(value, str) and not value.strip():
            raise UsageError(f"{name}: expected a path or a name, got an empty text")
    for name, values in (("attack", attacks), ("entities", groups)):
        if name in settings and not values:
            raise UsageError(f"{name}: expected at least one, got an empty list")
    if not is_name and {"base_url", "api_key_env"} & settings.keys():
        raise UsageError(
            "run: base_url and api_key_env are for a server whose model is given by its name"
        )
    if "budget" in settings and not all(isinstance(one, str) for one in attacks):
        raise UsageError("run: budget is for the name of an attack: give it to the attack")
    settled = {name: settings[name] for name in ("columns", "answer_base") if name in settings}
    if settled and isinstance(data, Dataset | Mapping):
        raise UsageError(f"run: {next(iter(settled))} is a key of the data set: give it there")
    choices = Choices(
        data=str(data) if isinstance(data, str | PathLike) else Dataset.read(data),
        model=str(model) if is_name else Victim.read(model),
        base_url=settings.get("base_url"),
        api_key_env=settings.get("api_key_env"),
        entities=tuple(groups) if "entities" in settings else None,
        attack=tuple(one if isinstance(one, str) else Attack.read(one) for one in attacks) or None,
        budget=settings.get("budget"),
        **settled,
    )
    return compose(choices, overrides)


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


@checked
def merge(folders: Sequence[str | Path], out: str | Path) -> Run:
    """Join the shards of one experiment to a new run folder; `run` on it then completes it.

    Args:
        folders: the folders of all shards.
        out: the new folder.

    Raises:
        UsageError, StoreError: one sentence; nothing is written.
    """
    from medstress.experiment.merging import merge_shards

    return Run(merge_shards(folders, out).folder)


@checked
def tune(
    experiment: Whole,
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

    wish = Wish(fresh=fresh, retry_failed=retry_failed)
    with watching(watcher, quiet) as watched:
        tuned = tune_experiment(
            experiment, out, wish, limit=limit, overrides=overrides, watcher=watched
        )
        if tuned.nothing_asked is not None:
            watched.announce(tuned.nothing_asked)
    for folder in tuned.folders:
        keep_summary(folder)
    report = None if tuned.report is None else Run(tuned.report.folder)
    return Tuned(tuning=Run(tuned.tuning.folder), report=report)


@checked
def train(
    experiment: Whole,
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
        folder = train_experiment(
            experiment, out, limit=limit, overrides=overrides, watcher=watched
        )
    is_complete = keep_summary(folder).is_complete
    return Trained(run=Run(folder), is_complete=is_complete)
