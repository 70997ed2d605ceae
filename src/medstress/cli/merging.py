"""`medstress merge`, and `medstress run --shard`."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from medstress.cli.flags import Parser

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
    merge.add_argument(
        "--partial",
        action="store_true",
        help="shards may be missing or unfinished; `medstress run` asks the rest",
    )
    merge.add_argument(
        "--exchanges",
        choices=("parquet", "sqlite"),
        help="where exchanges and answers stand: in one Parquet file per shard, or in the ledger "
        "(default: Parquet above 10 million)",
    )
    merge.add_argument("--quiet", action="store_true", help="no progress display")


def shard_flag(run: argparse.ArgumentParser) -> None:
    """Add --shard."""
    run.add_argument(
        "--shard",
        metavar="K/N",
        help="run the trials of part K of N, for `medstress merge`; auto/N: K is the place in a "
        "job array of Slurm (default of --out: runs/<name>-shards/K)",
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
    from medstress.experiment.plan.sharding import take_shard

    n_planned = prepared.n_trials(len(prepared.victims))
    take_shard(prepared, shard)
    n = prepared.n_trials(len(prepared.victims))
    return [f"all of this is the whole plan; shard {shard}: {n:,} of {n_planned:,} trials"]


def merge_cli(args: argparse.Namespace) -> int:
    """Run `medstress merge`."""
    from medstress.cli.display import display
    from medstress.running.merging import merge_shards

    with display(quiet=args.quiet, stop=args.stop) as watcher:
        merged = merge_shards(
            args.folders,
            args.out,
            partial=args.partial,
            exchanges=args.exchanges,
            note=watcher.note,
        )
    for line in (*merged.notes, *merged.left):
        print(f"! {line}")
    counts = merged.counts
    print(
        f"merged {merged.n_shards} shards: {counts.n_trials:,} of {merged.n_planned:,} trials, "
        f"{counts.n_answers:,} answers"
    )
    if counts.bought_twice:
        otherwise = counts.answered_otherwise
        print(
            f"{counts.bought_twice:,} calls were bought by two shards"
            + (f", {otherwise:,} of them with different answers" if otherwise else "")
        )
    print(f"run: {merged.folder}   next: medstress run EXPERIMENT.toml --out {merged.folder}")
    return 0


def told_shard(folder: object, shard: Shard) -> int:
    """Print what a shard holds, and return the exit code."""
    from pathlib import Path

    from medstress.store.shards import opened_shard

    with opened_shard(Path(str(folder))) as stored:
        n, planned = stored.n_ended, stored.n_planned
    more = "merge it with the others" if n == planned else "the same command goes on"
    print(f"shard {shard}: {n:,} of {planned:,} trials; {more}")
    print(f"run: {folder}   next: medstress merge DIR... --out DIR")
    return 0
