"""One function per command: it takes the arguments, prints, and returns the exit code."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from medstress import recipes
from medstress.analyses.run import Run as Read
from medstress.cli.display import display
from medstress.cli.flags import check_limit
from medstress.cli.merging import check_ray, given_shard, part_line, shard_ended
from medstress.cli.showing import show, show_dry_run, write_report, write_verdicts
from medstress.cli.starting import given_experiment
from medstress.cli.streams import one_line
from medstress.core.errors import UsageError, install_command
from medstress.core.words import command, quoted
from medstress.experiment.dry_run_remarks import dry_run_remarks
from medstress.experiment.file.reading import Source
from medstress.experiment.kept_summary import keep_summary
from medstress.experiment.opening import Wish
from medstress.experiment.prepare import opened_victims, prepare
from medstress.experiment.run import perform, run_folder
from medstress.files.extras import BASE, lacking_of
from medstress.files.writing import Access, write_text


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
    write_verdicts(read, args, first)
    print(f"run: {quoted(folder)}   next: {command('report', folder)}")
    return code


def tune_cli(args: argparse.Namespace) -> int:
    """Run `medstress tune`."""
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


def recipe_cli(args: argparse.Namespace) -> int:
    """Run `medstress recipe`."""
    text = recipes.text_of(args.name)
    if args.to is None:
        print(text, end="")
        return 0
    path = Path(args.to)
    if path.exists():
        # The user may have edited it: recipes are meant to be changed.
        raise UsageError(f"--to {path}: it exists already; choose another name, or remove it")
    try:
        write_text(path, text, Access.ORDINARY)
    except OSError as error:
        raise UsageError(f"--to {path}: cannot write it: {error.strerror}") from error
    print(f"recipe: {quoted(path)}   next: {command('run', path)}")
    return 0


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


def list_cli(args: argparse.Namespace) -> int:
    """Run `medstress list`."""
    from medstress.cli.listing import listing

    if args.name is not None:
        return _show_prompts(args)
    if args.to is not None:
        raise UsageError(
            "--to needs the name of a prompt, as in: medstress list prompts qstab --to DIR"
        ).with_command("medstress list prompts")
    rows = listing(args.kind)
    width = max(len(name) for name, _ in rows)
    for name, line in rows:
        print(f"{name:<{width}}  {line}")
    return 0


def _show_prompts(args: argparse.Namespace) -> int:
    from medstress.cli.prompt_texts import prompt_texts, write_prompts

    if args.kind != "prompts":
        raise UsageError(f"list {args.kind} {args.name}: only prompts can be shown by name")
    texts = prompt_texts(args.name)
    if args.to is not None:
        write_prompts(texts, Path(args.to))
        print(f"prompts: {args.to}   next: edit them, and give the folder as `template`")
        return 0
    for file, text in texts.items():
        print(f"--- {file}\n{text.rstrip()}\n")
    return 0


def _dry_run(args: argparse.Namespace) -> int:
    from medstress.experiment.dry_run import dry_run

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
    show_dry_run(costs, notes)
    return 0
