"""Commands to start with: demo, check, run."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from medstress.cli.options import (
    AnswerBase,
    Columns,
    Command,
    Data,
    DryRun,
    Entities,
    Fresh,
    Junit,
    Limit,
    Quiet,
    Retry,
    Sets,
    app,
    columns_of,
    groups_of,
)
from medstress.core.errors import (
    FIRST_COMMAND,
    DataError,
    UsageError,
    install_command,
    missing_extra,
)
from medstress.core.words import command, listed, plural, quoted, shorten

if TYPE_CHECKING:
    from medstress.analyses.run import Run
    from medstress.cli.terminal import Screen
    from medstress.core.shards import Shard
    from medstress.experiment.check_data import Attackable, DataCheck, Reason, ShownItem
    from medstress.experiment.file.reading import Source
    from medstress.experiment.first import Choices
    from medstress.stats.estimate import Estimate

_start = partial(app.command, cls=Command, rich_help_panel="Start")
_BARE = partial(typer.Option, rich_help_panel="An experiment without a file")
_MANY = partial(typer.Option, rich_help_panel="Many machines")


@_start()
def demo(
    out: Annotated[str, typer.Option(metavar="DIR", help="run folder")] = "runs/demo",
    quiet: Quiet = False,
) -> int:
    """Attack the embedded language model on the embedded questions.

    Asks the model the sample questions with a passage and without, attacks it with far, random and
    near names, and writes report.html. Downloads nothing.
    """
    from medstress.cli.terminal import display, show, write_report
    from medstress.experiment.demo import DEMO
    from medstress.experiment.kept_summary import keep_summary
    from medstress.experiment.run import perform

    with display(quiet=quiet) as watcher:
        folder = perform(DEMO, out, watcher=watcher).folder
    run = keep_summary(folder)
    page = write_report([folder], None)
    code = show(run)
    print(f"All tables and columns: {command('summary', folder, '--wide')}")
    print(f"report: {page}")
    return code


@_start()
def check(
    data: Data,
    limit: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="check a random sample of N items (default: 5,000)"),
    ] = None,
    columns: Columns = [],
    answer_base: AnswerBase = None,
    entities: Entities = None,
    sets: Sets = [],
    to: Annotated[
        str | None,
        typer.Option(metavar="FILE.jsonl", help="write the questions with typed mentions"),
    ] = None,
) -> int:
    """How your data are read, what can be attacked, and why the rest cannot.

    Reads data as a run would: the first five items as understood, how many each attack can attack,
    and why not the rest. Asks no model. The last line is the next command to type. Exit code 2 if
    rows cannot be read.
    """
    if Path(data).suffix.lower() == ".toml":
        raise UsageError(
            f"check: {data} is an experiment, and check looks at data; to check it type "
            f"{shlex.join(['medstress', 'run', data, '--dry-run'])}"
        )
    from medstress.cli.terminal import display, screen
    from medstress.experiment.check_data import SKIP, check_data, skips_rows
    from medstress.experiment.first import Choices

    choices = Choices(
        data=data,
        model="",
        entities=groups_of(entities),
        columns=columns_of(columns),
        answer_base=answer_base,
    )
    more = [] if limit is None else [f"dataset.limit={limit}"]
    with display(quiet=False) as watcher:
        checked = check_data(choices, [*sets, *more], watcher, None if to is None else Path(to))
    _show(checked, screen(), is_skipping=skips_rows(sets))
    if checked.written is not None:
        rows, mentions = checked.written
        print(f"{plural(rows, 'row')}, {plural(mentions, 'mention')}: {to}")
    print(f"next: {_next_command(checked, choices, columns, sets, to)}")
    if checked.n_skipped and not skips_rows(sets):
        unwritten = "" if to is None else " and nothing was written"
        raise DataError(
            f"check: {plural(checked.n_skipped, 'row')} of {data} cannot be read{unwritten} "
            f"({checked.skipped[0].example}); mend the file, or leave them out with --set {SKIP}"
        ).with_flag("--set", SKIP)
    return 0


@_start()
def run(
    experiment: Annotated[
        str | None,
        typer.Argument(metavar="EXPERIMENT.toml", help="a file, or a name of `list recipes`"),
    ] = None,
    data: Annotated[
        str | None,
        _BARE(metavar="DATA", help="a file, a folder, a name of `list datasets`, or a hub id"),
    ] = None,
    model: Annotated[
        str | None,
        _BARE(
            metavar="NAME",
            help="a folder, a .gguf file, file.py:function, mock, smollm2, the name that the "
            "server at --base-url knows, or a hub id",
        ),
    ] = None,
    base_url: Annotated[
        str | None, _BARE(metavar="URL", help="a server, e.g. http://127.0.0.1:8000/v1")
    ] = None,
    api_key_env: Annotated[
        str | None, _BARE(metavar="VARIABLE", help="environment variable with the server's key")
    ] = None,
    entities: Annotated[
        str | None, _BARE(metavar="GROUPS", help="drugs, diseases, or drugs,diseases (the default)")
    ] = None,
    attack: Annotated[
        str | None,
        _BARE(metavar="NAME", help="a name of `list attacks`; none asks the clean questions alone"),
    ] = None,
    budget: Annotated[
        int | None, _BARE(metavar="N", help="perturbed queries per item (default: the attack's)")
    ] = None,
    columns: Annotated[
        list[str],
        _BARE(metavar="FIELD=COLUMN ...", help="as question=stem or options=opa,opb,opc"),
    ] = [],
    answer_base: Annotated[
        Literal[0, 1] | None,
        _BARE(metavar="0|1", help="from where answers that are numbers count"),
    ] = None,
    out: Annotated[
        str | None, typer.Option(metavar="DIR", help="run folder (default: runs/<name>)")
    ] = None,
    limit: Limit = None,
    sets: Sets = [],
    dry_run: DryRun = False,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.toml", help="with --dry-run: write the experiment that would run"
        ),
    ] = None,
    fresh: Fresh = False,
    retry_failed: Retry = False,
    quiet: Quiet = False,
    junit: Junit = None,
    shard: Annotated[
        str | None,
        _MANY(
            metavar="K/N",
            help="run part K of N, for `medstress merge`; auto/N: the place in Slurm's job array",
        ),
    ] = None,
    ray: Annotated[
        str | None,
        _MANY(
            metavar="ADDRESS",
            help="run and merge shards on a Ray cluster: local starts one here, auto finds this "
            "machine's; else HOST:PORT",
        ),
    ] = None,
    shards: Annotated[
        int | None, _MANY(metavar="N", min=1, help="with --ray: parts of the plan")
    ] = None,
) -> int:
    """Run, resume or extend an experiment, or data and a model without a file.

    The same experiment is resumed in its folder; fewer items, seeds, models or attacks are
    extended; other settings are refused.
    """
    _check_ray(ray, shards, shard, fresh=fresh)
    part = _shard_of(shard, junit)
    if to is not None and not dry_run:
        raise UsageError("--to goes with --dry-run, which prints what would run")
    flags = {
        "data": data,
        "model": model,
        "base_url": base_url,
        "api_key_env": api_key_env,
        "entities": groups_of(entities),
        "attack": attack,
        "budget": budget,
        "columns": columns_of(columns),
        "answer_base": answer_base,
    }
    used = {name: value for name, value in flags.items() if value not in (None, {})}
    source = _experiment(experiment, used, sets)
    if dry_run:
        return _dry_run(source, out, part, to, limit=limit, sets=sets, quiet=quiet)
    from medstress.cli.terminal import display
    from medstress.experiment.kept_summary import keep_summary
    from medstress.experiment.opening import Wish
    from medstress.experiment.run import perform
    from medstress.files.extras import BASE, lacking_of

    for lack in lacking_of(BASE):
        # An older library may draw other names, or judge otherwise.
        print(f"medstress: {lack}; mend it with: {install_command()}", file=sys.stderr)
    if ray is not None and shards is not None:
        from medstress.experiment.on_ray import run_on_ray

        with display(quiet=quiet) as watcher:
            spread = run_on_ray(
                source,
                out,
                ray,
                shards,
                retry_failed=retry_failed,
                limit=limit,
                overrides=sets,
                watcher=watcher,
            )
        if spread.outcome is None:
            print(f"shards: {quoted(spread.shards)}   next: the same command, with a higher limit")
            return 0
        return _ended(keep_summary(spread.folder), junit, spread.outcome.nothing_asked)
    with display(quiet=quiet) as watcher:
        outcome = perform(
            source,
            out,
            Wish(fresh=fresh, retry_failed=retry_failed, shard=part),
            limit=limit,
            overrides=sets,
            watcher=watcher,
        )
    ended = keep_summary(outcome.folder)
    if part is not None:
        return _shard_ended(outcome.folder, part)
    return _ended(ended, junit, outcome.nothing_asked)


# -- run -------------------------------------------------------------------------------------------


def _check_ray(ray: str | None, shards: int | None, shard: str | None, *, fresh: bool) -> None:
    """Check that --ray goes with the other flags.

    Raises:
        UsageError: it does not.
    """
    if ray is None:
        if shards is not None:
            raise UsageError("--shards goes with --ray ADDRESS; for one part give --shard K/N")
    elif shard is not None:
        raise UsageError("--ray makes all shards itself; give --shards N in place of --shard")
    elif shards is None:
        raise UsageError("--ray: expected --shards N, a few for each worker, such as --shards 64")
    elif fresh:
        raise UsageError(
            "--ray goes on with what is there; in place of --fresh give another --out, or remove "
            "the run and the folder of its shards"
        )


def _shard_of(shard: str | None, junit: str | None) -> Shard | None:
    """Return the shard that --shard names; None without it.

    Raises:
        UsageError: it names none, or verdicts are to be written, which a shard has none of.
    """
    if shard is None:
        return None
    from medstress.core.shards import parse_shard

    if junit is not None:
        raise UsageError(
            "--junit: verdicts are of the merged run, so give it there and not with --shard"
        ).with_flag("--junit", None)
    return parse_shard(shard, os.environ)


def _experiment(
    experiment: str | None, flags: Mapping[str, Any], sets: Sequence[str]
) -> Path | Source:
    """Return the experiment of `medstress run`: its file, or what the flags stand for.

    Raises:
        UsageError: neither or both, no data, no model, or a value does not fit.
        DataError: a bad row.
    """
    if experiment is not None:
        if flags:
            flag = f"--{next(iter(flags)).replace('_', '-')}"
            raise UsageError(
                f"run: give EXPERIMENT.toml or {flag}, not both; to change a key of the file: "
                "--set TABLE.KEY=VALUE"
            ).with_command(shlex.join(["medstress", "run", experiment]))
        return Path(experiment)
    if not flags:
        raise UsageError(
            "run: expected EXPERIMENT.toml, or --data FILE --model NAME, for which --dry-run "
            "prints the experiment file"
        ).with_command(FIRST_COMMAND)
    usual = {"data": "questions.csv", "model": "my_model.py:answer"}
    if missing := [name for name in usual if name not in flags]:
        example = " ".join(f"--{name} {usual[name]}" for name in missing)
        lacking = " and ".join(f"--{name}" for name in missing)
        error = UsageError(f"run: {lacking} missing; give for example {example}")
        if len(missing) > 1:
            raise error.with_command(f"medstress run {example}")
        raise error.with_flag(f"--{missing[0]}", usual[missing[0]])
    from medstress.files.extras import lacking_of

    if "base_url" in flags and lacking_of("openai"):
        raise missing_extra("the back end for servers (--base-url)", "openai")
    from medstress.experiment.first import Choices, compose

    source = compose(Choices(**flags), sets)
    if source.remark:
        print(source.remark, file=sys.stderr)
    return source


def _dry_run(
    source: Path | Source,
    out: str | None,
    shard: Shard | None,
    to: str | None,
    *,
    limit: int | None,
    sets: list[str],
    quiet: bool,
) -> int:
    from medstress.cli.terminal import display, show_dry_run, write_file
    from medstress.experiment.dry_run import dry_run, dry_run_remarks
    from medstress.experiment.file.reading import Source, written
    from medstress.experiment.plan.plan import take_shard
    from medstress.experiment.prepare import opened_victims, prepare
    from medstress.experiment.run import run_folder

    if isinstance(source, Source):
        print(source.text)
    with display(quiet=quiet) as watcher:
        prepared = prepare(source, limit=limit, overrides=sets, watcher=watcher)
        folder = run_folder(prepared, out, shard)
        with opened_victims(prepared, watcher.note):
            costs, notes = dry_run(prepared, folder), []
            if shard is not None:
                n_planned = prepared.n_trials()
                take_shard(prepared, shard)
                part = f"{prepared.n_trials():,} of {n_planned:,} trials"
                notes.append(f"all of this is the whole plan; shard {shard}: {part}")
            notes += dry_run_remarks(prepared)
    if to is not None:
        text = written(prepared.experiment, prepared.base, Path(to), limit)
        write_file("--to", to, text, new=True)
    show_dry_run(costs, notes)
    if to is not None:
        print(f"experiment: {quoted(to)}   next: {command('run', to)}")
    return 0


def _ended(ended: Run, junit: str | None, first: str | None) -> int:
    """Show a run that has ended, and return the exit code."""
    from medstress.cli.terminal import show, write_file
    from medstress.report.summary_page import junit_page

    if first is not None:
        print(first)
    code, folder = show(ended), ended.folder.path
    if junit is not None:
        write_file("--junit", junit, junit_page(ended, first))
    print(f"run: {quoted(folder)}   next: {command('report', folder)}")
    return code


def _shard_ended(path: Path, shard: Shard) -> int:
    """Print what a shard holds, and return the exit code: 1 if too many of its trials failed."""
    from medstress.cli.terminal import raised, run_again
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
    lost = f", {failed:,} of them failed" if failed else ""
    print(f"shard {shard}: {stored.n_ended:,} of {stored.n_planned:,} trials{lost}; {more}")
    print(f"run: {quoted(path)}   next: {following}")
    return int(is_over)


# -- check -----------------------------------------------------------------------------------------

_EXAMPLE = 60
"""Characters of an example."""
_MOST_REASONS = 3
"""Reasons that are printed for each attack."""
_MOST_PLACES = 4
"""Further rows that are named for each reason."""


def _next_command(
    checked: DataCheck, choices: Choices, columns: list[str], sets: list[str], to: str | None
) -> str:
    """Return the command that runs on the data, with what the check was told and found.

    Of attacks, the first that can attack an item, preferably one that needs nothing else; of an
    attacked set, its stored edits.
    """
    from medstress.core.attacked import NAME
    from medstress.experiment.check_data import ATTACKER, SKIP, skips_rows

    words = ["run", "--data", to if to and checked.written else choices.data, "--model", "NAME"]
    changes = list(sets)
    if checked.table["name"] == NAME and not checked.written:
        words += ["--attack", NAME]
        changes = [change for change in changes if change.strip().startswith("dataset.")]
        return command(*words, *(word for change in changes for word in ("--set", change)))
    if not any(one.n for one in checked.attackable):
        return command("list", "recognisers")
    drawing = [one for one in checked.attackable if one.draws_names]
    groups = [one.group for one in drawing if one.n]
    if drawing and not groups:
        ready = [one for one in checked.attackable if one.n and one.needs != ATTACKER]
        if not ready:
            return command("list", "attacks")
        words += ["--attack", min(ready, key=lambda one: one.needs).attack]
    elif len(groups) < len(drawing) or (drawing and choices.entities):
        words += ["--entities", ",".join(groups)]
    if checked.written:  # in the format that medstress documents
        of_data = ("dataset.", "entities.")
        changes = [change for change in changes if not change.strip().startswith(of_data)]
        changes += ["entities.recogniser=given"] if groups else []
    else:
        words += [word for column in columns for word in ("--columns", column)]
        if choices.answer_base is not None:
            words += ["--answer-base", str(choices.answer_base)]
        changes += [SKIP] if checked.n_skipped and not skips_rows(sets) else []
    return command(*words, *(word for change in changes for word in ("--set", change)))


def _show(checked: DataCheck, out: Screen, *, is_skipping: bool) -> None:
    from medstress.analyses.shown import column, table
    from medstress.experiment.check_data import SKIP
    from medstress.report.terminal import print_table

    out.say(f"understood: {checked.understood or 'the format that medstress documents'}")
    counted = plural(checked.n_items, checked.kind.removesuffix("s"), checked.kind)
    if checked.classes:
        counted += f" ({shorten(', '.join(checked.classes), _EXAMPLE)})"
    if checked.n_checked < checked.n_items:
        counted += f"; a random sample of {checked.n_checked:,} is checked (--limit)"
    out.say(counted)
    for note in checked.notes:
        out.say(f"! {note}")
    for number, item in enumerate(checked.first, start=1):
        _show_item(number, item, out)
    if checked.n_skipped:
        out.row()
        cannot = f"! {plural(checked.n_skipped, 'row')} cannot be read, and a run"
        if is_skipping:
            out.say(f'{cannot} leaves them out, as on_bad_row = "skip" is set')
        else:
            out.say(f"{cannot} stops there: mend the file, or leave them out with --set {SKIP}")
        for reason in checked.skipped:
            others = ", ".join(reason.places[1 : 1 + _MOST_PLACES])
            n_more = reason.n - 1 - _MOST_PLACES
            also = f"; also {others}" if others else ""
            also += f" and {n_more:,} more" if n_more > 0 else ""
            out.say(f"! {plural(reason.n, 'row')}: {reason.example}{also}")
    out.row()
    fields = [
        column("Attack", "attack"),
        column("Group", "group"),
        column("Can be attacked", _share, "share"),
    ]
    what = "What can be attacked"
    print_table(out.console, table("attackable", what, checked.attackable, fields, n_labels=2))
    _show_reasons(checked.attackable, out)
    out.row()
    for line in _remarks(checked):
        out.say(line)


def _show_item(number: int, item: ShownItem, out: Screen) -> None:
    from medstress.cli.process import one_line
    from medstress.cli.terminal import cut

    out.row()
    key = f", right answer {item.key}" if item.key else ""
    out.row(f"{number}  {item.id}{key}", "bold")
    width = max(map(len, item.texts), default=0)
    for name, text in item.texts.items():
        is_option = name in item.letters
        mark = "*" if is_option and name == item.key else " "
        groups = item.names.get(name, {}) if is_option else {}
        names = "; ".join(f"{group}: {', '.join(own)}" for group, own in groups.items())
        behind = f"  [{cut(one_line(names), out.width // 3)}]" if names else ""
        out.row(f" {mark} {name:<{width}}  {text}", behind=behind)


def _share(of: Attackable) -> Estimate:
    """Return a count as a share; it is of the items themselves, so it has no interval."""
    from medstress.stats.estimate import Estimate

    value = of.n / of.n_items if of.n_items else None
    return Estimate(value=value, n=of.n_items, low=None, high=None, method="counted", hits=of.n)


def _show_reasons(attackable: Sequence[Attackable], out: Screen) -> None:
    """Print why items cannot be attacked; attacks with the same reasons share their lines."""
    attacks: dict[tuple[Reason, ...], list[str]] = {}
    for one in attackable:
        label = f"{one.attack} of {one.group}" if one.draws_names else one.attack
        attacks.setdefault(one.reasons, []).append(label)
    attacks.pop((), None)
    for reasons, labels in attacks.items():
        out.row()
        out.row(f"not by {listed(labels)}", "bold")
        for reason in reasons[:_MOST_REASONS]:
            looks = f" ({shorten(reason.looks, _EXAMPLE)})" if reason.looks else ""
            out.say(f"  {reason.n:,}  {reason.text}; such as {reason.example}{looks}")
        if len(reasons) > _MOST_REASONS:
            out.row(f"  {plural(len(reasons) - _MOST_REASONS, 'more reason')}", "yellow")


def _remarks(checked: DataCheck) -> Iterator[str]:
    if checked.n_given and checked.recogniser not in ("", "given"):
        yield (
            f"{checked.n_given:,} of them bring mentions of their own, which recogniser = "
            f'"given" uses; the counts above are those of recogniser = "{checked.recogniser}"'
        )
    needs: dict[str, list[str]] = {}
    for one in checked.attackable:
        if one.needs and one.n:
            needs.setdefault(one.needs, []).append(one.attack)
    for what, attacks in needs.items():
        yield f"{listed(attacks)} {'needs' if len(attacks) == 1 else 'need'} {what}"
    if not any(one.n for one in checked.attackable):
        yield (
            "nothing here can be attacked: give other data, or a recogniser that finds more names"
        )
