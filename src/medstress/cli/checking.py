"""`medstress check`: what a data set is understood to be, and what of it can be attacked."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from medstress.analyses.shown import column, table
from medstress.cli.display import display
from medstress.cli.parser import check_limit, columns_of, groups_of
from medstress.cli.screen import Screen, cut, screen
from medstress.cli.streams import one_line
from medstress.core.attacked import NAME
from medstress.core.errors import DataError, UsageError
from medstress.core.words import listed, plural, shorten
from medstress.experiment.check_data import (
    ATTACKER,
    SKIP,
    Attackable,
    DataCheck,
    Reason,
    ShownItem,
    check_data,
    skips_rows,
)
from medstress.experiment.first import Choices
from medstress.report.terminal import print_table
from medstress.stats.estimate import Estimate

GIVEN = "entities.recogniser=given"
"""Of `--set`: the mentions that stand in the rows."""
_OF_DATA = ("dataset.", "entities.")
"""How those of `--set` begin that say how data are read and mentions found."""
_EXAMPLE = 60
"""Characters of an example."""
_SHARE = "attackable"
_MOST_REASONS = 3
"""Reasons that are printed for each attack."""
_MOST_PLACES = 4
"""Further rows that are named for each reason."""


def check_cli(args: argparse.Namespace) -> int:
    """Run `medstress check`."""
    check_limit(args)
    if Path(args.data).suffix.lower() == ".toml":
        raise UsageError(
            f"check: {args.data} is an experiment, and check looks at data; to check it type "
            f"{shlex.join(['medstress', 'run', args.data, '--dry-run'])}"
        )
    choices = Choices(
        data=args.data,
        model="",
        entities=None if args.entities is None else groups_of(args.entities),
        columns=columns_of(args.columns),
        answer_base=args.answer_base,
    )
    limit = [] if args.limit is None else [f"dataset.limit={args.limit}"]
    with display(quiet=False, stop=args.stop) as watcher:
        to = None if args.to is None else Path(args.to)
        found = check_data(choices, [*args.set, *limit], watcher, to)
    _show(found, screen(), is_skipping=skips_rows(args.set))
    if found.written is not None:
        rows, mentions = found.written
        print(f"{plural(rows, 'row')}, {plural(mentions, 'mention')}: {args.to}")
    print(f"next: {next_command(found, args)}")
    if found.n_skipped and not skips_rows(args.set):
        unwritten = "" if args.to is None else " and nothing was written"
        raise DataError(
            f"check: {plural(found.n_skipped, 'row')} of {args.data} cannot be read{unwritten} "
            f"({found.skipped[0].example}); mend the file, or leave them out with --set {SKIP}"
        ).with_flag("--set", SKIP)
    return 0


def next_command(found: DataCheck, args: argparse.Namespace) -> str:
    """Return the command that runs on the data, with what the check was told and found.

    Of attacks, the first that can attack an item, preferably one that needs nothing else; of an
    attacked set, its stored edits.
    """
    if found.table["name"] == NAME and not found.written:
        words = ["medstress", "run", "--data", args.data, "--model", "NAME", "--attack", NAME]
        changes = [each for each in args.set if each.strip().startswith("dataset.")]
        return shlex.join([*words, *(word for each in changes for word in ("--set", each))])
    if not any(each.n for each in found.attackable):
        return "medstress list recognisers"
    words = ["medstress", "run", "--data", args.to if found.written else args.data]
    words += ["--model", "NAME"]
    named = [each for each in found.attackable if each.draws_names]
    groups = [each.group for each in named if each.n]
    if named and not groups:
        ready = [each for each in found.attackable if each.n and each.needs != ATTACKER]
        others = [each.attack for each in sorted(ready, key=lambda each: each.needs)]
        if not others:
            return "medstress list attacks"
        words += ["--attack", others[0]]
    elif len(groups) < len(named) or (named and args.entities):
        words += ["--entities", ",".join(groups)]
    changes = list(args.set)
    if found.written:  # in the format that medstress documents
        changes = [each for each in changes if not each.strip().startswith(_OF_DATA)]
        changes += [GIVEN] if groups else []
    else:
        words += [word for each in args.columns for word in ("--columns", each)]
        words += [] if args.answer_base is None else ["--answer-base", str(args.answer_base)]
        changes += [SKIP] if found.n_skipped and not skips_rows(args.set) else []
    return shlex.join([*words, *(word for each in changes for word in ("--set", each))])


def _show(found: DataCheck, out: Screen, *, is_skipping: bool) -> None:
    out.say(f"understood: {found.understood or 'the format that medstress documents'}")
    counted = plural(found.n_items, found.kind.removesuffix("s"), found.kind)
    if found.classes:
        counted += f" ({shorten(', '.join(found.classes), _EXAMPLE)})"
    if found.n_checked < found.n_items:
        counted += f"; a random sample of {found.n_checked:,} is checked (--limit)"
    out.say(counted)
    for note in found.notes:
        out.say(f"! {note}")
    for number, item in enumerate(found.first, start=1):
        _show_item(number, item, out)
    if found.n_skipped:
        out.row()
        cannot = f"! {plural(found.n_skipped, 'row')} cannot be read, and a run"
        if is_skipping:
            out.say(f'{cannot} leaves them out, as on_bad_row = "skip" is set')
        else:
            out.say(f"{cannot} stops there: mend the file, or leave them out with --set {SKIP}")
        for reason in found.skipped:
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
    print_table(out.console, table("attackable", what, found.attackable, fields, n_labels=2))
    _show_reasons(found.attackable, out)
    out.row()
    for line in _remarks(found):
        out.say(line)


def _show_item(number: int, item: ShownItem, out: Screen) -> None:
    out.row()
    out.row(f"{number}  {item.id}{f', key {item.key}' if item.key else ''}", "bold")
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


def _remarks(found: DataCheck) -> Iterator[str]:
    if found.n_given and found.recogniser not in ("", "given"):
        yield (
            f"{found.n_given:,} of them bring mentions of their own, which recogniser = "
            f'"given" uses; what is said here is of recogniser = "{found.recogniser}"'
        )
    needs: dict[str, list[str]] = {}
    for each in found.attackable:
        if each.needs and each.n:
            needs.setdefault(each.needs, []).append(each.attack)
    for what, attacks in needs.items():
        yield f"{listed(attacks)} {'needs' if len(attacks) == 1 else 'need'} {what}"
    if not any(each.n for each in found.attackable):
        yield (
            "nothing here can be attacked: give other data, or a recogniser that finds more names"
        )
