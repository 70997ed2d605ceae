"""Commands that study a model further: tune, train, test, explain, perturb."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from medstress.cli import flags
from medstress.cli.process import one_line
from medstress.core.errors import UsageError
from medstress.core.words import command, plural, quoted

if TYPE_CHECKING:
    from medstress.analyses.run import Run
    from medstress.analyses.shown import Shown
    from medstress.experiment.follow_ups import Asking
    from medstress.experiment.reading import Source

_study = partial(flags.app.command, cls=flags.Command, rich_help_panel="Study")
_TUNED = "folder of the report; the split's run is in DIR/tuning (default: runs/<name>-tuned)"
_TRAINED = "run folder, with the models in DIR/models (default: runs/<name>-trained)"
_TRIALS = "a trial's id or its beginning, or an item; several may follow"
_ALL = "all successes, and as many attacks of the same arms that failed"
_DRAWN = "with --all: draw N successes, and as many that failed"


@_study()
def tune(
    experiment: flags.File,
    out: Annotated[str | None, flags.option("DIR", _TUNED)] = None,
    limit: flags.Limit = None,
    sets: flags.Sets = [],
    dry_run: flags.DryRun = False,
    fresh: flags.Fresh = False,
    quiet: flags.Quiet = False,
) -> int:
    """Choose n on a split, then report on the rest.

    Chooses n of every attack with sampler = pdws, for n < 0 and for n > 0, on a split of the items
    ([tune] in the file), and runs the chosen n on the rest. The same command resumes.
    """
    source = _source(experiment)
    from medstress.analyses.run import Run
    from medstress.cli.terminal import display, show, show_dry_run
    from medstress.experiment.dry_run import dry_run_remarks
    from medstress.experiment.kept_summary import keep_summary
    from medstress.experiment.manifest import Wish
    from medstress.experiment.prepare import opened_victims
    from medstress.experiment.tuning import plan_tuning, tune_experiment, tuning_costs

    with display(quiet=quiet) as watcher:
        common: dict[str, Any] = {"limit": limit, "overrides": sets, "watcher": watcher}
        if dry_run:
            plan = plan_tuning(source, **common)
            with opened_victims(plan.prepared, watcher.note):
                costs, notes = tuning_costs(plan), list(dry_run_remarks(plan.prepared))
        else:
            tuned = tune_experiment(source, out, Wish(fresh=fresh), **common)
    if dry_run:
        for i, (what, dry) in enumerate(costs, 1):
            print(f"{what}:")
            show_dry_run(dry, notes if i == len(costs) else ())
        return 0
    for folder in tuned.folders:
        keep_summary(folder)
    if tuned.nothing_asked is not None:
        print(tuned.nothing_asked)
    folder = (tuned.report or tuned.tuning).folder
    code = show(Run.open(folder))
    if tuned.report is None:
        print(f"tuning stopped early and has not chosen n yet; its run: {folder}")
    else:
        print(f"run: {quoted(folder)}   next: {command('report', folder)}")
    return code


@_study()
def train(
    experiment: flags.File,
    out: Annotated[str | None, flags.option("DIR", _TRAINED)] = None,
    limit: flags.Limit = None,
    sets: flags.Sets = [],
    dry_run: flags.DryRun = False,
    quiet: flags.Quiet = False,
) -> int:
    """Fine-tune, attack, train on perturbed copies, attack again.

    Trains models on the original data, and on the data and a perturbed copy ([train] in the file),
    and attacks both with the same seeds. The same command resumes, even within an epoch.
    """
    source = _source(experiment)
    from medstress.cli.terminal import display, show, show_dry_run
    from medstress.experiment.dry_run import dry_run_remarks
    from medstress.experiment.kept_summary import keep_summary
    from medstress.training import train as training

    with display(quiet=quiet) as watcher:
        common: dict[str, Any] = {"limit": limit, "overrides": sets, "watcher": watcher}
        if dry_run:
            plan = training.plan_training(source, **common)
        else:
            folder = training.train_experiment(source, out, **common)
    if dry_run:
        for line in training.training_lines(plan):
            print(one_line(line))
        show_dry_run(training.training_costs(plan), list(dry_run_remarks(plan.prepared)))
        return 0
    trained = keep_summary(folder)
    code = show(trained)
    if trained.is_complete:
        print(f"models: {folder / 'models'}   comparison: {folder / training.RESULT_FILE}")
    print(f"run: {quoted(folder)}   next: {command('report', folder)}")
    return code


def _source(experiment: str) -> Source:
    """Read the experiment file; one that is missing is refused before all else is imported."""
    from medstress.experiment.reading import find_source

    return find_source(Path(experiment))


def _ask_again(
    asking: Asking,
    experiment: str | None,
    sets: Sequence[str],
    result_of: Callable[[Run], Shown | None],
    *more: str,
    dry_run: bool,
    yes: bool,
    quiet: bool,
) -> int:
    """Ask the models of a run again, after a yes, and print what comes of it; or print the plan."""
    from medstress.cli.terminal import display, screen
    from medstress.experiment.kept_summary import keep_summary
    from medstress.experiment.run import ask
    from medstress.report.terminal import print_table, say

    def confirm(models: Sequence[str]) -> None:
        print("This asks the models of your run again:", file=sys.stderr)
        for line in models:
            print(f"  {one_line(line)}", file=sys.stderr)
        if yes:
            return
        if not sys.stdin.isatty():
            raise UsageError(
                f"{asking.name}: there is no terminal to say yes in; add --yes to ask without it"
            )
        print("Go on? (yes/no) ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().casefold() not in ("y", "yes"):
            raise UsageError(f"{asking.name}: nothing was asked")

    plan = list[str]()
    with display(quiet=quiet) as watcher:
        own = replace(watcher, announce=plan.append) if dry_run else watcher
        stopped = ask(
            asking,
            experiment,
            overrides=sets,
            confirm=confirm,
            dry_run=dry_run,
            watcher=own,
        )
    for line in plan:
        print(one_line(line))
    if dry_run:
        return 0
    result, out = result_of(keep_summary(asking.folder)), screen()
    for table in [one for one in result.tables() if one.rows] if result else ():
        print_table(out, table)
        print()
    remarks = [remark.sentence for remark in result.remarks()] if result else []
    for line in (*remarks, *more, *([stopped] if stopped else [])):
        say(out, line)
    return 0


@_study("test")
def significance(
    folder: flags.Folder,
    experiment: flags.Own = None,
    sets: flags.Sets = [],
    dry_run: flags.DryRun = False,
    yes: flags.Yes = False,
    quiet: flags.Quiet = False,
) -> int:
    """Significance of MedFuzz successes.

    Compares them with neutral insertions: is the model misled by what the attack says, or would
    any added sentence do? Models, keys and settings ([test]) come from your experiment, never from
    the folder. The same command resumes.
    """
    from medstress.analyses.significance import SIGNIFICANCE
    from medstress.experiment.significance import asking

    return _ask_again(
        asking(Path(folder)),
        experiment,
        sets,
        lambda run: run.of(SIGNIFICANCE),
        dry_run=dry_run,
        yes=yes,
        quiet=quiet,
    )


@_study()
def explain(
    folder: flags.Folder,
    trial: Annotated[list[str], flags.option("ID ...", _TRIALS)] = [],
    all_: Annotated[bool, flags.option(None, _ALL, "--all")] = False,
    experiment: flags.Own = None,
    limit: Annotated[int | None, flags.option("N", _DRAWN, min=1)] = None,
    sets: flags.Sets = [],
    dry_run: flags.DryRun = False,
    yes: flags.Yes = False,
    quiet: flags.Quiet = False,
) -> int:
    """Which words carry an answer, before and after an attack.

    Computes token-wise Shapley (Owen) values of prompts before and after an attack, for successes
    and for attacks that failed. Models and keys come from your experiment, never from the folder.
    The same command resumes.
    """
    flags.only_one(trial=trial, all=all_)
    if not trial and not all_:
        raise UsageError("say what to explain: --trial ID, or --all for all successes")
    if limit is not None and trial:
        raise UsageError(f"--limit {limit}: expected --all with it: it draws successes")
    from medstress.analyses.explanations import EXPLANATIONS
    from medstress.experiment.explain import Selection, asking

    selection = Selection(trials=tuple(trial), limit=limit)
    return _ask_again(
        asking(Path(folder), selection),
        experiment,
        sets,
        lambda run: run.of(EXPLANATIONS),
        f"Heat maps: {command('report', folder)}",
        dry_run=dry_run,
        yes=yes,
        quiet=quiet,
    )


@_study()
def perturb(
    experiment: flags.File,
    to: Annotated[str, flags.option("FILE.jsonl", "the data set to write")],
    limit: flags.Limit = None,
    sets: flags.Sets = [],
    quiet: flags.Quiet = False,
) -> int:
    """Write the perturbed data set; no model is asked.

    Writes every item as every attack and seed of an experiment perturbs it, as `medstress run`
    would ask it.
    """
    source = _source(experiment)
    from medstress.cli.terminal import display
    from medstress.experiment.perturb import perturb as perturbed

    with display(quiet=quiet) as watcher:
        made = perturbed(source, to, limit=limit, overrides=sets, watcher=watcher)
    for note in made.notes:
        print(f"! {one_line(note)}")
    rows, edits = plural(made.n_rows, "row"), plural(made.n_edits, "edit")
    print(f"{rows}, {made.n_changed:,} changed by {edits}: {quoted(to)}")
    return 0
