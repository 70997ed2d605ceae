"""`medstress run --ray`: flags, and the run on many machines."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medstress.core.errors import UsageError

if TYPE_CHECKING:
    from medstress.api.results import Run
    from medstress.experiment.file.sources import Source
    from medstress.experiment.plan.plan import Prepared
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


class _Refused(argparse.Action):
    """A flag of `run` that a command of several phases does not take."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        name = parser.prog.rpartition(" ")[2]
        after = {
            "tune": "run `medstress tune` on one machine, write the chosen n (tune.json) into "
            "[[attack]], leave [tune] out, and give --ray to `medstress run`",
            "train": "run `medstress train` on one machine; models that are trained can be victims "
            "of `medstress run --ray`",
        }
        raise UsageError(
            f"--ray: what {name} asks depends on what it has found before, and is not shared out: "
            f"{after[name]}"
        ).with_flag("--ray", None)


def refuse_spread(command: argparse.ArgumentParser) -> None:
    """Let a command say why it takes no --ray."""
    command.add_argument("--ray", nargs="?", action=_Refused, help=argparse.SUPPRESS)


def check_spread(args: argparse.Namespace) -> None:
    """Check that the flags of `medstress run` go together.

    Raises:
        UsageError: they do not.
    """
    flags = {name: f"--{name.replace('_', '-')}" for name in (*_BESIDE, "shard")}
    if args.ray is None:
        given = [flags[name] for name in _BESIDE if getattr(args, name) is not None]
        if given:
            raise UsageError(
                f"{given[0]} goes with --ray ADDRESS; for one part of a plan give --shard K/N"
            )
        return
    if args.shard is not None:
        raise UsageError("--ray makes all shards itself; give --shards N in place of --shard")
    if args.shards is None:
        raise UsageError("--ray: expected --shards N, a few for each worker, such as --shards 64")
    if args.fresh:
        raise UsageError(
            "--ray goes on with what is there; in place of --fresh give another --out, or remove "
            "the run and its folder of shards"
        )
    if args.retry_failed:
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
    from medstress.fleet.driver import promise_line
    from medstress.fleet.leasing import SHIP_EVERY
    from medstress.results.formats import plural

    n_held = sum(most_held(backend) for backend in prepared.backends)
    room = "as many workers as the cluster has room for"
    workers = room if args.workers is None else f"at most {plural(args.workers, 'worker')}"
    ship_every = args.ship_every or SHIP_EVERY
    return [f"--ray {args.ray}: {promise_line(args.shards, ship_every, workers, n_held)}"]


def spread_run(args: argparse.Namespace, experiment: Path | Source, watcher: Watcher) -> Run | None:
    """Run an experiment on a cluster.

    Returns:
        The run; None if a limit ended it before its last shard.
    """
    from medstress.api.results import Run
    from medstress.fleet.leasing import SHIP_EVERY, Fleet
    from medstress.fleet.ray_workers import ray_workers
    from medstress.fleet.run import run_on_workers
    from medstress.summary.kept import keep_summary

    fleet = Fleet(
        open_workers=partial(ray_workers, args.ray, args.workers, args.gpus_per_worker or 0.0),
        n_shards=args.shards,
        store=args.store,
        ship_every=args.ship_every or SHIP_EVERY,
    )
    spread = run_on_workers(
        experiment, args.out, fleet, limit=args.limit, overrides=args.set, watcher=watcher
    )
    if not spread.is_merged:
        print(f"shards: {spread.shards}   next: the same command, with a higher limit")
        return None
    keep_summary(spread.folder)
    return Run(spread.folder)
