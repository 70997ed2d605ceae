"""Commands that make runs: demo, run, tune, train, perturb, merge."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medstress.analyses.run import Run as Read
from medstress.cli.display import display
from medstress.cli.parser import check_limit, columns_of, groups_of
from medstress.cli.showing import raised, run_again, show, show_dry_run, write_file, write_report
from medstress.cli.streams import one_line
from medstress.core.errors import FIRST_COMMAND, UsageError, install_command
from medstress.core.words import command, quoted
from medstress.experiment.file.reading import Source, written
from medstress.experiment.first import Choices, compose
from medstress.experiment.kept_summary import keep_summary
from medstress.experiment.opening import Wish
from medstress.experiment.prepare import opened_victims, prepare
from medstress.experiment.run import perform, run_folder
from medstress.files.extras import BASE, lacking_of
from medstress.report.summary_page import junit_page

if TYPE_CHECKING:
    from medstress.core.shards import Shard
    from medstress.experiment.plan.plan import Prepared


FLAGS = tuple(field.name for field in fields(Choices))
"""The flags that stand for an experiment file, as `argparse` calls them."""


def demo_cli(args: argparse.Namespace) -> int:
    """Run `medstress demo`."""
    from medstress.experiment.demo import DEMO

    with display(quiet=args.quiet, stop=args.stop) as watcher:
        folder = perform(DEMO, args.out, watcher=watcher).folder
    read = keep_summary(folder)
    page = write_report([folder], None)
    code = show(read)
    print(f"All tables and columns: {command('summary', folder, '--wide')}")
    print(f"report: {page}")
    return code


def run_cli(args: argparse.Namespace) -> int:
    """Run `medstress run`."""
    check_limit(args)
    check_ray(args)
    shard = given_shard(args)
    if args.dry_run:
        return _dry_run(args)
    for told in lacking_of(BASE):
        # An older library may draw other names, or judge otherwise.
        print(f"medstress: {told}; mend it with: {install_command()}", file=sys.stderr)
    experiment = given_experiment(args)
    if args.ray is not None:
        return _run_on_ray(args, experiment)
    with display(quiet=args.quiet, stop=args.stop) as watcher:
        outcome = perform(
            experiment,
            args.out,
            Wish(fresh=args.fresh, retry_failed=args.retry_failed, shard=shard),
            limit=args.limit,
            overrides=args.set,
            watcher=watcher,
        )
    folder = outcome.folder
    read = keep_summary(folder)
    if shard is not None:
        return shard_ended(folder, shard)
    return _shown(read, args, outcome.nothing_asked)


def _run_on_ray(args: argparse.Namespace, experiment: Path | Source) -> int:
    from medstress.experiment.on_ray import run_on_ray

    with display(quiet=args.quiet, stop=args.stop) as watcher:
        spread = run_on_ray(
            experiment,
            args.out,
            args.ray,
            args.shards,
            retry_failed=args.retry_failed,
            limit=args.limit,
            overrides=args.set,
            watcher=watcher,
        )
    if spread.outcome is None:
        print(f"shards: {quoted(spread.shards)}   next: the same command, with a higher limit")
        return 0
    return _shown(keep_summary(spread.folder), args, spread.outcome.nothing_asked)


def _shown(read: Read, args: argparse.Namespace, first: str | None = None) -> int:
    """Show a run that has ended, and return the exit code."""
    if first is not None:
        print(first)
    code, folder = show(read), read.folder.path
    if args.junit is not None:
        write_file("--junit", args.junit, junit_page(read, first))
    print(f"run: {quoted(folder)}   next: {command('report', folder)}")
    return code


def tune_cli(args: argparse.Namespace) -> int:
    """Run `medstress tune`."""
    from medstress.experiment.dry_run import dry_run_remarks
    from medstress.experiment.tuning import plan_tuning, tune_experiment, tuning_costs

    check_limit(args)
    with display(quiet=args.quiet, stop=args.stop) as watcher:
        given: dict[str, Any] = {
            "limit": args.limit,
            "overrides": args.set,
            "watcher": watcher,
        }
        if args.dry_run:
            plan = plan_tuning(Path(args.experiment), **given)
            with opened_victims(plan.prepared, watcher.note):
                costs = tuning_costs(plan)
                notes = list(dry_run_remarks(plan.prepared))
        else:
            wish = Wish(fresh=args.fresh, retry_failed=args.retry_failed)
            tuned = tune_experiment(Path(args.experiment), args.out, wish, **given)
    if args.dry_run:
        for i, (what, dry) in enumerate(costs, 1):
            print(f"{what}:")
            show_dry_run(dry, notes if i == len(costs) else ())
        return 0
    for folder in tuned.folders:
        keep_summary(folder)
    if tuned.nothing_asked is not None:
        print(tuned.nothing_asked)
    folder = (tuned.report or tuned.tuning).folder
    code = show(Read.open(folder))
    if tuned.report is None:
        print(f"tuning stopped early and has not chosen n yet; its run: {folder}")
    else:
        print(f"run: {quoted(folder)}   next: {command('report', folder)}")
    return code


def train_cli(args: argparse.Namespace) -> int:
    """Run `medstress train`."""
    from medstress.api.run import train
    from medstress.experiment.dry_run import dry_run_remarks
    from medstress.training.train import (
        RESULT_FILE,
        plan_training,
        training_costs,
        training_lines,
    )

    check_limit(args)
    given: dict[str, Any] = {"limit": args.limit, "overrides": args.set}
    with display(quiet=args.quiet, stop=args.stop) as watcher:
        if args.dry_run:
            plan = plan_training(Path(args.experiment), **given, watcher=watcher)
        else:
            trained = train(Path(args.experiment), args.out, watcher=watcher, **given)
    if args.dry_run:
        for line in training_lines(plan):
            print(one_line(line))
        show_dry_run(training_costs(plan), list(dry_run_remarks(plan.prepared)))
        return 0
    code = show(Read.open(trained.run.folder))
    folder = trained.run.folder
    if trained.is_complete:
        print(f"models: {folder / 'models'}   comparison: {folder / RESULT_FILE}")
    print(f"run: {quoted(folder)}   next: {command('report', folder)}")
    return code


def perturb_cli(args: argparse.Namespace) -> int:
    """Run `medstress perturb`."""
    from medstress.experiment.perturb import perturb

    check_limit(args)
    with display(quiet=args.quiet, stop=args.stop) as watcher:
        result = perturb(
            Path(args.experiment), args.to, limit=args.limit, overrides=args.set, watcher=watcher
        )
    for note in result.notes:
        print(f"! {one_line(note)}")
    print(f"{result.n_rows} rows, {result.n_changed} changed by {result.n_edits} edits: {args.to}")
    return 0


def _dry_run(args: argparse.Namespace) -> int:
    from medstress.experiment.dry_run import dry_run, dry_run_remarks

    experiment = given_experiment(args)
    if isinstance(experiment, Source):
        print(experiment.text)
    with display(quiet=args.quiet, stop=args.stop) as watcher:
        prepared = prepare(experiment, limit=args.limit, overrides=args.set, watcher=watcher)
        shard = given_shard(args)
        folder = run_folder(prepared, args.out, shard)
        with opened_victims(prepared, watcher.note):
            costs = dry_run(prepared, folder)
            notes = [*part_line(prepared, shard), *dry_run_remarks(prepared)]
    if args.to is not None:
        given = prepared.experiment, prepared.base, Path(args.to), args.limit, prepared.given
        write_file("--to", args.to, written(*given))
    show_dry_run(costs, notes)
    return 0


def given_experiment(args: argparse.Namespace) -> Path | Source:
    """Return the experiment of `medstress run`: its file, or what --data and --model stand for.

    Raises:
        UsageError: neither or both are given, or a value does not fit.
        DataError: a bad row.
    """
    used = [
        f"--{name.replace('_', '-')}" for name in FLAGS if getattr(args, name) not in (None, [])
    ]
    if args.experiment is None and not used:
        raise UsageError(
            "run: expected EXPERIMENT.toml, or --data FILE --model NAME, for which --dry-run "
            "prints the experiment file"
        ).with_command(FIRST_COMMAND)
    if args.experiment is None:
        source = compose(choices_of(args), args.set)
        if source.remark:
            print(source.remark, file=sys.stderr)
        return source
    if used:
        raise UsageError(
            f"run: give EXPERIMENT.toml or {used[0]}, not both; to change a key of the file: "
            "--set TABLE.KEY=VALUE"
        ).with_command(shlex.join(["medstress", "run", str(args.experiment)]))
    return Path(args.experiment)


def choices_of(args: argparse.Namespace) -> Choices:
    """Return the values of the flags that stand for an experiment file.

    Raises:
        UsageError: no data or no model.
    """
    missing = [f"--{name}" for name in ("data", "model") if getattr(args, name) is None]
    if missing:
        usual = {"--data": "questions.csv", "--model": "my_model.py:answer"}
        example = " ".join(f"{flag} {usual[flag]}" for flag in missing)
        error = UsageError(f"run: {' and '.join(missing)} missing; give for example {example}")
        if len(missing) > 1:
            raise error.with_command(f"medstress run {example}")
        raise error.with_flag(missing[0], usual[missing[0]])
    values = {name: getattr(args, name) for name in FLAGS}
    groups = None if args.entities is None else groups_of(args.entities)
    return Choices(**{**values, "entities": groups, "columns": columns_of(args.columns)})


def check_ray(args: argparse.Namespace) -> None:
    """Check that --ray goes with the other flags.

    Raises:
        UsageError: it does not.
    """
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
    from medstress.core.shards import parse_shard

    if args.junit is not None:
        raise UsageError(
            "--junit: verdicts are of the merged run, so give it there and not with --shard"
        ).with_flag("--junit", None)
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


def shard_ended(path: Path, shard: Shard) -> int:
    """Print what a shard holds, and return the exit code: 1 if too many of its trials failed."""
    from medstress.store.shards import read_shard

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
