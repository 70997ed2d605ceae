"""`--ray` of `run`, `tune` and `train`: flags, and the work on many machines."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medstress.core.errors import UsageError

if TYPE_CHECKING:
    from medstress.api.results import Run
    from medstress.api.run import Trained, Tuned
    from medstress.experiment.file.sources import Source
    from medstress.experiment.plan.plan import Prepared
    from medstress.fleet.leasing import Fleet
    from medstress.fleet.run import Spread
    from medstress.running.prepare import Watcher

_BESIDE = ("shards", "workers", "gpus_per_worker", "store", "ship_every")


def spread_flags(run: argparse.ArgumentParser) -> None:
    """Add --ray and what goes with it."""
    group = run.add_argument_group("many machines")
    group.add_argument(
        "--ray",
        metavar="ADDRESS",
        help="run shards on a Ray cluster and merge them: local starts Ray here, auto finds this "
        "machine's cluster; else HOST:PORT or ray://HOST:PORT",
    )
    group.add_argument("--shards", type=int, metavar="N", help="with --ray: parts of the plan")
    group.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help="with --ray: most workers at once (default: as many as the cluster has room for)",
    )
    group.add_argument(
        "--gpus-per-worker",
        type=float,
        metavar="X",
        help="with --ray: GPUs that each worker gets, such as 1 or 0.5 (default: 0)",
    )
    group.add_argument(
        "--store",
        metavar="PLACE",
        help="with --ray: where ledgers travel to: a folder that all machines see, or a URL that "
        "fsspec knows (default: to this machine)",
    )
    group.add_argument(
        "--ship-every",
        type=int,
        metavar="N",
        help="with --ray: calls of a shard after which its ledger travels (default: 1000)",
    )


def check_spread(args: argparse.Namespace) -> None:
    """Check that the flags of `run`, `tune` or `train` go together.

    Raises:
        UsageError: they do not.
    """
    flags = {name: f"--{name.replace('_', '-')}" for name in _BESIDE}
    if args.ray is None:
        given = [flags[name] for name in _BESIDE if getattr(args, name) is not None]
        if given:
            by_hand = "; for one part of a plan give --shard K/N" if "shard" in args else ""
            raise UsageError(f"{given[0]} goes with --ray ADDRESS{by_hand}")
        return
    if getattr(args, "shard", None) is not None:
        raise UsageError("--ray makes all shards itself; give --shards N in place of --shard")
    if args.shards is None:
        raise UsageError("--ray: expected --shards N, a few for each worker, such as --shards 64")
    if getattr(args, "fresh", False):
        raise UsageError(
            "--ray goes on with what is there; in place of --fresh give another --out, or remove "
            "the run and its folder of shards"
        )
    if getattr(args, "retry_failed", False):
        raise UsageError(
            "--retry-failed works on the merged run: give it without --ray once all shards are done"
        )
    for name, least in (("shards", 1), ("workers", 1), ("gpus_per_worker", 0), ("ship_every", 1)):
        value = getattr(args, name)
        if value is not None and not value >= least:
            raise UsageError(f"{flags[name]}: expected at least {least}, got {value:g}")


def check_reached(args: argparse.Namespace) -> None:
    """Check for --dry-run that the cluster of --ray and the place of --store are there.

    Nothing is started, and nothing written.

    Raises:
        UsageError, StoreError: they are not.
    """
    if args.ray is None:
        return
    from medstress.fleet.ledgers import store_at
    from medstress.fleet.ray_workers import check_cluster

    if args.store is not None:
        store_at(args.store)
    check_cluster(args.ray)


def spread_line(args: argparse.Namespace, prepared: Prepared) -> list[str]:
    """Return for --dry-run how the run would be spread, and what a lost worker costs."""
    if args.ray is None:
        return []
    from medstress.engine.batches import most_held
    from medstress.fleet.leasing import SHIP_EVERY
    from medstress.fleet.outcome import promise_line

    n_held = sum(most_held(backend) for backend in prepared.backends)
    ship_every = args.ship_every or SHIP_EVERY
    return [f"--ray {args.ray}: {promise_line(args.shards, ship_every, _workers(args), n_held)}"]


def models_line(args: argparse.Namespace, n_models: int) -> list[str]:
    """Return for --dry-run of `train` how models would be shared out."""
    if args.ray is None:
        return []
    from medstress.fleet.outcome import model_line

    attacks = f"each phase of attacks is cut into {args.shards} shards"
    return [f"--ray {args.ray}: {model_line(n_models, _workers(args), 0)}; {attacks}"]


def _workers(args: argparse.Namespace) -> str:
    from medstress.core.words import plural

    if args.workers is None:
        return "as many workers as the cluster has room for"
    return f"at most {plural(args.workers, 'worker')}"


def _fleet(args: argparse.Namespace) -> Fleet:
    from medstress.fleet.leasing import SHIP_EVERY, Fleet
    from medstress.fleet.ray_workers import find_ray, ray_workers

    find_ray(args.ray)  # before data are read, and models looked for
    return Fleet(
        open_workers=partial(ray_workers, args.ray, args.workers, args.gpus_per_worker or 0.0),
        n_shards=args.shards,
        store=args.store,
        ship_every=args.ship_every or SHIP_EVERY,
    )


def _say_next(spread: Spread) -> None:
    """Say what to do after a limit."""
    print(f"shards: {spread.shards}   next: the same command, with a higher limit")


def spread_run(args: argparse.Namespace, experiment: Path | Source, watcher: Watcher) -> Run | None:
    """Run an experiment on a cluster.

    Returns:
        The run; None if a limit ended it before its last shard.
    """
    from medstress.api.results import Run
    from medstress.fleet.run import run_on_workers
    from medstress.running.kept_summary import keep_summary

    given: dict[str, Any] = {"limit": args.limit, "overrides": args.set, "watcher": watcher}
    spread = run_on_workers(experiment, args.out, _fleet(args), **given)
    if not spread.is_merged:
        _say_next(spread)
        return None
    keep_summary(spread.folder)
    return Run(spread.folder)


def spread_tune(args: argparse.Namespace, watcher: Watcher) -> Tuned | None:
    """Tune an experiment on a cluster.

    Returns:
        The runs; None if a limit ended one of them before its last shard.
    """
    from medstress.api.results import Run
    from medstress.api.run import Tuned
    from medstress.fleet.tuning import tune_on_workers
    from medstress.running.kept_summary import keep_summary

    given: dict[str, Any] = {"limit": args.limit, "overrides": args.set, "watcher": watcher}
    found, spread = tune_on_workers(args.experiment, args.out, _fleet(args), **given)
    if found is None:
        _say_next(spread)
        return None
    for folder in dict.fromkeys(filter(None, (found.tuning, found.report))):
        keep_summary(folder)
    report = None if found.report is None else Run(found.report)
    return Tuned(tuning=Run(found.tuning), report=report)


def spread_train(args: argparse.Namespace, watcher: Watcher) -> Trained | None:
    """Train and attack models on a cluster.

    Returns:
        The run; None if a limit ended attacks before their last shard.
    """
    from medstress.api.results import Run
    from medstress.api.run import Trained
    from medstress.fleet.training import train_on_workers
    from medstress.running.kept_summary import keep_summary

    given: dict[str, Any] = {"limit": args.limit, "overrides": args.set, "watcher": watcher}
    found, spread = train_on_workers(args.experiment, args.out, _fleet(args), **given)
    if found is None:
        _say_next(spread)
        return None
    keep_summary(found.folder)
    return Trained(run=Run(found.folder), is_complete=found.is_complete)
