"""Commands to start with: demo, check, run."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from medstress.cli import flags
from medstress.core.errors import (
    FIRST_COMMAND,
    DataError,
    UsageError,
    install_command,
    missing_extra,
)
from medstress.core.words import command, listed, plural, quoted, shorten

if TYPE_CHECKING:
    from rich.console import Console

    from medstress.analyses.run import Run
    from medstress.experiment.first import Choices, DataCheck, Reason
    from medstress.experiment.reading import Source
    from medstress.store.shards import Shard

_start = partial(flags.app.command, cls=flags.Command, rich_help_panel="Start")
_bare = partial(flags.option, rich_help_panel="An experiment without a file")
_many = partial(flags.option, rich_help_panel="Many machines")
_COLUMNS = "where a field is, as question=stem or options=opa,opb,opc (repeatable)"
_BASE = "whether answers that are numbers count from 0 or from 1"
_GROUPS = "drugs, diseases, or drugs,diseases (the default: both, found by name)"
_MODEL = (
    "a folder, a .gguf file, file.py:function, mock, smollm2, the name that the server at "
    "--base-url knows, or a hub id"
)
_RAY = "run and merge shards on a Ray cluster: local starts one here, auto finds one; or HOST:PORT"


@_start()
def demo(
    out: Annotated[str, flags.option("DIR", "run folder")] = "runs/demo",
    quiet: flags.Quiet = False,
) -> int:
    """Attack the embedded language model on the embedded questions.

    Asks the model the sample questions with a passage and without, attacks it with far, random and
    near names, and writes report.html. Downloads nothing.
    """
    from medstress.cli.terminal import display, show, write_report
    from medstress.experiment import first
    from medstress.experiment.kept_summary import keep_summary
    from medstress.experiment.run import perform

    with display(quiet=quiet) as watcher:
        folder = perform(first.demo(), out, watcher=watcher).folder
    run = keep_summary(folder)
    page = write_report([folder], None)
    code = show(run)
    print(f"All tables and columns: {command('summary', folder, '--wide')}")
    print(f"report: {quoted(page)}")
    return code


@_start()
def check(
    data: flags.Data,
    limit: Annotated[
        int | None, flags.option("N", "a random sample (default: 5,000)", min=1)
    ] = None,
    columns: Annotated[list[str], flags.option("FIELD=COLUMN ...", _COLUMNS)] = [],
    answer_base: Annotated[Literal[0, 1] | None, flags.option("0|1", _BASE)] = None,
    entities: Annotated[str | None, flags.option("GROUPS", _GROUPS)] = None,
    sets: flags.Sets = [],
    to: Annotated[
        str | None, flags.option("FILE.jsonl", "write questions with typed mentions")
    ] = None,
) -> int:
    """How your data are read, what can be attacked, and why the rest cannot.

    Reads data as a run would: the first five items as understood, how many each attack can attack,
    and why not the rest. Asks no model. The last line is the next command to type. Exit code 2 if
    rows cannot be read.
    """
    if Path(data).suffix.lower() == ".toml":
        again = command("run", data, "--dry-run")
        raise UsageError(
            f"check: {data} is an experiment, and check looks at data; to check it type {again}"
        )
    _refuse_missing(data)
    from medstress.cli.terminal import display, screen
    from medstress.experiment.first import Choices, check_data, skips_rows

    choices = Choices(
        data=data,
        model="",
        entities=flags.groups_of(entities),
        columns=flags.columns_of(columns),
        answer_base=answer_base,
    )
    more = [] if limit is None else [f"dataset.limit={limit}"]
    with display(quiet=False) as watcher:
        checked = check_data(choices, [*sets, *more], watcher, None if to is None else Path(to))
    _show(checked, screen(), is_skipping=skips_rows(sets))
    if checked.written is not None:
        rows, mentions = checked.written
        print(f"{plural(rows, 'row')}, {plural(mentions, 'mention')}: {quoted(to)}")
    if checked.n_skipped and not skips_rows(sets):
        unwritten = "" if to is None else " and nothing was written"
        raise DataError(
            f"check: {plural(checked.n_skipped, 'row')} of {data} cannot be read{unwritten} "
            f"({checked.skipped[0].example}); mend the file"
        )
    print(f"next: {_next_command(checked, choices, columns, sets, to)}")
    return 0


@_start()
def run(
    experiment: Annotated[
        str | None, flags.argument("EXPERIMENT.toml", "a file, or a name of `list recipes`")
    ] = None,
    data: Annotated[
        str | None, _bare("DATA", "a file, a folder, a name of `list datasets`, or a hub id")
    ] = None,
    model: Annotated[str | None, _bare("NAME", _MODEL)] = None,
    base_url: Annotated[str | None, _bare("URL", "a server, as http://127.0.0.1:8000/v1")] = None,
    api_key_env: Annotated[str | None, _bare("VARIABLE", "holds the server's key")] = None,
    entities: Annotated[str | None, _bare("GROUPS", _GROUPS)] = None,
    attack: Annotated[
        str | None, _bare("NAME", "a name of `list attacks`; none asks the clean questions alone")
    ] = None,
    budget: Annotated[int | None, _bare("N", "perturbed queries per item")] = None,
    columns: Annotated[list[str], _bare("FIELD=COLUMN ...", _COLUMNS)] = [],
    answer_base: Annotated[Literal[0, 1] | None, _bare("0|1", _BASE)] = None,
    out: Annotated[str | None, flags.option("DIR", "run folder (default: runs/<name>)")] = None,
    limit: flags.Limit = None,
    sets: flags.Sets = [],
    dry_run: flags.DryRun = False,
    to: Annotated[
        str | None, flags.option("FILE.toml", "with --dry-run: write the experiment that would run")
    ] = None,
    fresh: flags.Fresh = False,
    retry_failed: flags.Retry = False,
    quiet: flags.Quiet = False,
    junit: flags.Junit = None,
    shard: Annotated[
        str | None, _many("K/N", "run part K of N, for `merge`; auto/N: the place in Slurm's array")
    ] = None,
    ray: Annotated[str | None, _many("ADDRESS", _RAY)] = None,
    shards: Annotated[int | None, _many("N", "with --ray: parts of the plan", min=1)] = None,
) -> int:
    """Run, resume or extend an experiment, or data and a model without a file.

    In its folder the same experiment is resumed, and one with more items, seeds, models or attacks
    is extended. Other changes are refused.
    """
    wrong = {
        "--to goes with --dry-run, which prints what would run": to and not dry_run,
        "--junit: verdicts are of the merged run; give it there, not with --shard": shard and junit,
        f"--junit {junit}: there is no such folder": junit
        and not Path(junit).absolute().parent.is_dir(),
        "--shards goes with --ray ADDRESS; for one part give --shard K/N": shards and not ray,
        "--ray: expected --shards N, a few for each worker, and no --shard": ray
        and (shard or not shards),
        "--ray goes on with what is there; in place of --fresh give another --out": ray and fresh,
    }
    for sentence, is_so in wrong.items():
        if is_so:
            raise UsageError(sentence)
    part = None
    if shard is not None:
        from medstress.store.shards import parse_shard

        part = parse_shard(shard, os.environ)
    chosen = {
        "data": data,
        "model": model,
        "base_url": base_url,
        "api_key_env": api_key_env,
        "entities": flags.groups_of(entities),
        "attack": attack,
        "budget": budget,
        "columns": flags.columns_of(columns),
        "answer_base": answer_base,
    }
    used = {name: value for name, value in chosen.items() if value not in (None, {})}
    source = _experiment(experiment, used, sets)
    from medstress.experiment.reading import resolve

    resolve(source, sets)  # refuses a wrong experiment before all else is imported
    from medstress.cli.terminal import display
    from medstress.core.extras import BASE, lacking_of
    from medstress.experiment.kept_summary import keep_summary
    from medstress.experiment.manifest import Wish
    from medstress.experiment.run import perform

    common: dict[str, Any] = {"limit": limit, "overrides": sets}
    if dry_run:
        return _dry_run(source, out, part, to, common, quiet=quiet)
    for lack in lacking_of(BASE):
        # An older library may draw other names, or judge otherwise.
        print(f"medstress: {lack}; mend it with: {install_command()}", file=sys.stderr)
    if ray and shards:
        from medstress.experiment.on_ray import run_on_ray

        with display(quiet=quiet) as watcher:
            spread = run_on_ray(
                source, out, ray, shards, retry_failed=retry_failed, watcher=watcher, **common
            )
        if spread.outcome is None:
            print(f"shards: {quoted(spread.shards)}   next: the same command, with a higher limit")
            return 0
        return _ended(keep_summary(spread.folder), junit, spread.outcome.nothing_asked)
    wish = Wish(fresh=fresh, retry_failed=retry_failed, shard=part)
    with display(quiet=quiet) as watcher:
        outcome = perform(source, out, wish, watcher=watcher, **common)
    ended = keep_summary(outcome.folder)
    if part is not None:
        return _shard_ended(outcome.folder, part)
    return _ended(ended, junit, outcome.nothing_asked)


def _refuse_missing(data: str) -> None:
    """Refuse data that are no file and no name before all else is imported."""
    from medstress.datasets.guess import guess_dataset

    if not Path(data).expanduser().exists():
        guess_dataset(data)


# -- run -------------------------------------------------------------------------------------------


def _experiment(experiment: str | None, chosen: Mapping[str, Any], sets: Sequence[str]) -> Source:
    """Return the experiment of `medstress run`: its file, or what the flags stand for.

    Raises:
        UsageError: neither or both, no data, no model, or a value does not fit.
        DataError: a bad row.
    """
    if experiment is not None:
        if chosen:
            flag = f"--{next(iter(chosen)).replace('_', '-')}"
            raise UsageError(
                f"run: give EXPERIMENT.toml or {flag}, not both; to change a key of the file: "
                "--set TABLE.KEY=VALUE"
            ).with_command(command("run", experiment))
        from medstress.experiment.reading import find_source

        return find_source(Path(experiment))
    if not chosen:
        raise UsageError(
            "run: expected EXPERIMENT.toml, or --data FILE --model NAME, for which --dry-run "
            "prints the experiment file"
        ).with_command(FIRST_COMMAND)
    usual = {"data": "questions.csv", "model": "my_model.py:answer"}
    for name, example in usual.items():
        if name not in chosen:
            error = UsageError(f"run: --{name} is missing; give for example --{name} {example}")
            raise error.with_flag(f"--{name}", example)
    from medstress.core.extras import lacking_of

    if "base_url" in chosen and lacking_of("openai"):
        raise missing_extra("the back end for servers (--base-url)", "openai")
    _refuse_missing(chosen["data"])
    from medstress.experiment.first import Choices, compose

    source = compose(Choices(**chosen), sets)
    if source.remark:
        print(source.remark, file=sys.stderr)
    return source


def _dry_run(
    source: Source,
    out: str | None,
    shard: Shard | None,
    to: str | None,
    common: Mapping[str, Any],
    *,
    quiet: bool,
) -> int:
    from medstress.cli.terminal import display, show_dry_run, write_file
    from medstress.experiment.dry_run import dry_run, dry_run_remarks
    from medstress.experiment.plan import take_shard
    from medstress.experiment.prepare import opened_victims, prepare
    from medstress.experiment.reading import written
    from medstress.experiment.run import run_folder

    with display(quiet=quiet) as watcher:
        prepared = prepare(source, watcher=watcher, **common)
        folder = run_folder(prepared, out, shard)
        with opened_victims(prepared, watcher.note):
            costs, notes = dry_run(prepared, folder), list(dry_run_remarks(prepared))
    if shard is not None:
        n_planned = prepared.n_trials()
        take_shard(prepared, shard)
        part = f"{prepared.n_trials():,} of {n_planned:,} trials"
        notes.insert(0, f"all of this is the whole plan; shard {shard}: {part}")
    file = None if to is None else Path(to)
    text = written(prepared.experiment, prepared.base, file, common["limit"], prepared.given)
    if to is not None:
        write_file("--to", to, text, new=True)
    if not source.path:
        print(text)
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
    settings, limits = stored.manifest["config"]["experiment"], stored.stopped_by
    is_over = stored.n_failed > settings["max_failed"]
    parent = path.parent if path.name == str(shard.number) else None
    if not stored.is_finished:
        reached = ", ".join(f"{name} = {settings[name]:g}" for name in limits)
        more = f"stopped by its part (1/{shard.of}) of {reached}" if limits else "to go on"
        following = run_again(path, *raised(settings, limits))
    elif is_over:
        more = f"more than max_failed = {settings['max_failed']}"
        following = run_again(path, "--retry-failed")
    else:
        more = "merge it with the others"
        following = f"medstress merge {quoted(parent)}/* --out {quoted(f'{parent}-merged')}"
        following = following if parent else "medstress merge DIR... --out DIR"
    failed = f", {stored.n_failed:,} of them failed" if stored.n_failed else ""
    print(f"shard {shard}: {stored.n_ended:,} of {stored.n_planned:,} trials{failed}; {more}")
    print(f"run: {quoted(path)}   next: {following}")
    return int(is_over)


# -- check -----------------------------------------------------------------------------------------

_EXAMPLE = 60
"""Characters of an example."""
_MOST_REASONS = 3
"""Reasons that are printed for each attack."""
_MOST_PLACES = 5
"""Rows that are named for each reason."""


def _next_command(
    checked: DataCheck, choices: Choices, columns: list[str], sets: list[str], to: str | None
) -> str:
    """Return the command that runs on the data, with what the check was told and found.

    Of attacks, the first that can attack an item, preferably one that needs nothing else; of an
    attacked set, its stored edits.
    """
    from medstress.core.attacked import NAME
    from medstress.experiment.first import ATTACKER

    written = to if checked.written else None
    words = ["run", "--data", written or choices.data, "--model", "NAME"]
    is_attacked = checked.data.table.name == NAME and not written
    of_data = ("dataset.", "entities.")
    changes = [one for one in sets if not written or not one.strip().startswith(of_data)]
    drawing = [one for one in checked.attackable if one.draws_names]
    groups = [one.group for one in drawing if one.n]
    ready = [one for one in checked.attackable if one.n and one.needs != ATTACKER]
    if is_attacked:
        words += ["--attack", NAME]
        changes = [one for one in changes if one.strip().startswith("dataset.")]
    elif not ready:
        return command("list", "attacks")
    elif drawing and not groups:
        words += ["--attack", min(ready, key=lambda one: one.needs).attack]
    elif len(groups) < len(drawing) or (drawing and choices.entities):
        words += ["--entities", ",".join(groups)]
    if written:  # in the format that medstress documents
        changes += ["entities.recogniser=given"] if groups else []
    elif not is_attacked:
        words += [word for column in columns for word in ("--columns", column)]
        base = choices.answer_base
        words += [] if base is None else ["--answer-base", str(base)]
    return command(*words, *(word for change in changes for word in ("--set", change)))


def _show(checked: DataCheck, out: Console, *, is_skipping: bool) -> None:
    from rich.text import Text

    from medstress.analyses.shown import column, table
    from medstress.cli.process import one_line
    from medstress.report.terminal import print_table, say

    def row(text: str = "", style: str = "") -> None:
        out.print(Text(one_line(text), style), no_wrap=True, overflow="ellipsis")

    part, kind = checked.data.part, checked.data.kind.name
    say(out, f"understood: {part.loaded.understood or 'the format that medstress documents'}")
    counted = plural(len(part.all_items), kind.removesuffix("s"), kind)
    if checked.classes:
        counted += f" ({shorten(', '.join(checked.classes), _EXAMPLE)})"
    if (n := len(part.questions)) < len(part.all_items):
        counted += f"; a random sample of {n:,} is checked (--limit)"
    for line in (counted, *(f"! {note}" for note in part.loaded.notes)):
        say(out, line)
    for number, item in enumerate(checked.first, start=1):
        row()
        row(f"{number}  {item.id}{f', right answer {item.key}' if item.key else ''}", "bold")
        width = max(map(len, item.texts), default=0)
        for name, text in item.texts.items():
            is_option = name in item.letters
            groups = item.names.get(name, {}) if is_option else {}
            names = "; ".join(f"{group}: {', '.join(own)}" for group, own in groups.items())
            # What is attacked in it has to be seen.
            shown = f"{shorten(text, _EXAMPLE // 2)}  [{names}]" if names else text
            row(f" {'*' if is_option and name == item.key else ' '} {name:<{width}}  {shown}")
    row()
    if checked.n_skipped:
        left = 'leaves them out, as on_bad_row = "skip" is set'
        does = left if is_skipping else "stops there: mend the file"
        say(out, f"! {plural(checked.n_skipped, 'row')} cannot be read, and a run {does}")
    for reason in checked.skipped:
        others = ", ".join(reason.places[1:_MOST_PLACES])
        n_more = reason.n - _MOST_PLACES
        also = f"; also {others}" if others else ""
        also += f" and {n_more:,} more" if n_more > 0 else ""
        say(out, f"! {plural(reason.n, 'row')}: {reason.example}{also}")
    if checked.n_skipped:
        row()
    fields = [column("Attack", "attack"), column("Group", "group")]
    fields.append(column("Can be attacked", lambda one: f"{one.n:,} of {one.n_items:,}"))
    what = "What can be attacked"
    attackable = table("attackable", what, checked.attackable, fields, n_labels=2)
    print_table(out, attackable, whole="")
    # Attacks with the same reasons or needs share their lines.
    attacks: dict[tuple[Reason, ...], list[str]] = {}
    needs: dict[str, list[str]] = {}
    for one in checked.attackable:
        label = f"{one.attack} of {one.group}" if one.draws_names else one.attack
        attacks.setdefault(one.reasons, []).append(label)
        if one.needs and one.n:
            needs.setdefault(one.needs, []).append(one.attack)
    attacks.pop((), None)
    for reasons, labels in attacks.items():
        row()
        row(f"not by {listed(labels)}", "bold")
        for reason in reasons[:_MOST_REASONS]:
            looks = f" ({shorten(reason.looks, _EXAMPLE)})" if reason.looks else ""
            what = plural(reason.n, "item")
            say(out, f"{what}: {reason.text}; such as {reason.example}{looks}")
        if len(reasons) > _MOST_REASONS:
            row(f"{plural(len(reasons) - _MOST_REASONS, 'more reason')}", "yellow")
    row()
    if checked.n_with_mentions and checked.recogniser not in ("", "given"):
        say(
            out,
            f"{checked.n_with_mentions:,} of them bring mentions of their own, which recogniser = "
            f'"given" uses; the counts above are those of recogniser = "{checked.recogniser}"',
        )
    for need, labels in needs.items():
        say(out, f"{listed(labels)} {'needs' if len(labels) == 1 else 'need'} {need}")
    if not any(one.n for one in checked.attackable):
        say(out, "nothing here can be attacked: give other data, or another recogniser")
