"""`medstress merge`, and `--shard` and `--ray` of `medstress run`."""

from __future__ import annotations

import argparse
import os
import shlex
from typing import TYPE_CHECKING

from medstress.cli.flags import Parser
from medstress.cli.going_on import raised, run_again

if TYPE_CHECKING:
    from medstress.core.shards import Shard
    from medstress.experiment.plan.plan import Prepared


def add_merge(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add `medstress merge`."""
    merge = commands.add_parser(
        "merge",
        help="join the shards of one experiment to one run",
        description="Join run folders that `medstress run --shard` wrote to a new one, in the "
        "order of the plan. Then `medstress run EXPERIMENT.toml --out DIR` completes it: tests, "
        "analyses, criteria and the root. Shards of other experiments, given twice, missing or "
        "unfinished are refused. Asks no model and changes no shard.",
    )
    merge.add_argument("folders", metavar="DIR", nargs="+", help="the folders of all shards")
    merge.add_argument("--out", required=True, metavar="DIR", help="a new folder")
    merge.add_argument("--quiet", action="store_true", help="no progress display")


def shard_flag(run: argparse.ArgumentParser) -> None:
    """Add --shard."""
    run.add_argument(
        "--shard",
        metavar="K/N",
        help="run the trials of part K of N, for `medstress merge`; auto/N: K is the place in a "
        "job array of Slurm (default of --out: runs/<name>-shards/K)",
    )


def ray_flags(run: argparse.ArgumentParser) -> None:
    """Add --ray and --shards."""
    run.add_argument(
        "--ray",
        metavar="ADDRESS",
        help="run shards on a Ray cluster and merge them: local starts Ray here, auto finds this "
        "machine's cluster; else HOST:PORT",
    )
    run.add_argument("--shards", type=int, metavar="N", help="with --ray: parts of the plan")


def check_ray(args: argparse.Namespace) -> None:
    """Check that --ray goes with the other flags.

    Raises:
        UsageError: it does not.
    """
    from medstress.core.errors import UsageError

    if args.ray is None:
        if args.shards is not None:
            raise UsageError(
                "--shards goes with --ray ADDRESS; for one part of a plan give --shard K/N"
            )
        return
    if args.shard is not None:
        raise UsageError("--ray makes all shards itself; give --shards N in place of --shard")
    if args.shards is None:
        raise UsageError("--ray: expected --shards N, a few for each worker, such as --shards 64")
    if args.fresh:
        raise UsageError(
            "--ray goes on with what is there; in place of --fresh give another --out, or remove "
            "the run and the folder of its shards"
        )


def given_shard(args: argparse.Namespace) -> Shard | None:
    """Return the shard that --shard names; None without it.

    Raises:
        UsageError: it names none, or verdicts are to be written, which a shard has none of.
    """
    if args.shard is None:
        return None
    from medstress.core.errors import UsageError
    from medstress.core.shards import parse_shard

    for flag, file in (("--junit", args.junit), ("--markdown", args.markdown)):
        if file is not None:
            raise UsageError(
                f"{flag}: verdicts are of the merged run, so give it there and not with --shard"
            ).with_flag(flag, None)
    return parse_shard(args.shard, os.environ)


def part_line(prepared: Prepared, shard: Shard | None) -> list[str]:
    """Return a line on how much of the plan a shard is, for --dry-run, which counts the whole."""
    if shard is None:
        return []
    from medstress.experiment.plan.plan import take_shard

    n_planned = prepared.n_trials()
    take_shard(prepared, shard)
    n = prepared.n_trials()
    return [f"all of this is the whole plan; shard {shard}: {n:,} of {n_planned:,} trials"]


def merge_cli(args: argparse.Namespace) -> int:
    """Run `medstress merge`."""
    from medstress.cli.display import display
    from medstress.core.words import command, quoted
    from medstress.experiment.merging import merge_shards

    with display(quiet=args.quiet, stop=args.stop) as watcher:
        merged = merge_shards(args.folders, args.out, note=watcher.note)
    for line in merged.notes:
        print(f"! {line}")
    counts = merged.counts
    print(
        f"merged {merged.n_shards} shards: {merged.n_ended:,} of {merged.n_planned:,} trials, "
        f"{counts.n_answers:,} answers{_failed(merged.n_failed)}"
    )
    if counts.bought_twice:
        otherwise = counts.answered_otherwise
        print(
            f"{counts.bought_twice:,} calls were bought by two shards"
            + (f", {otherwise:,} of them with different answers" if otherwise else "")
        )
    following = command("run", "EXPERIMENT.toml", "--out", merged.folder)
    print(f"run: {quoted(merged.folder)}   next: {following}")
    return 0


def shard_ended(folder: object, shard: Shard) -> int:
    """Print what a shard holds, and return the exit code: 1 if too many of its trials failed."""
    from pathlib import Path

    from medstress.core.words import quoted
    from medstress.store.shards import read_shard

    path = Path(str(folder))
    stored = read_shard(path)
    settings = stored.manifest["config"]["experiment"]
    failed = stored.n_failed
    is_over = failed > settings["max_failed"]
    following = "medstress merge DIR... --out DIR"
    if path.name == str(shard.number):
        parent = shlex.quote(str(path.parent))
        following = f"medstress merge {parent}/* --out {parent}-merged"
    more = "merge it with the others"
    if stored.stopped_by and not stored.is_finished:
        limits = ", ".join(f"{name} = {settings[name]:g}" for name in stored.stopped_by)
        more = f"stopped by its part (1/{shard.of}) of {limits}; a higher one goes on"
        following = run_again(path, *raised(settings, stored.stopped_by))
    elif not stored.is_finished:
        more = "the same command goes on"
    elif is_over:
        more = f"more than max_failed = {settings['max_failed']}; --retry-failed asks them again"
        following = run_again(path, "--retry-failed")
    counts = f"{stored.n_ended:,} of {stored.n_planned:,} trials{_failed(failed)}"
    print(f"shard {shard}: {counts}; {more}")
    print(f"run: {quoted(path)}   next: {following}")
    return int(is_over)


def _failed(n: int) -> str:
    return f", {n:,} of them failed" if n else ""
