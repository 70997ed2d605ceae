"""`medstress check`: what a data set is understood to be, and what of it can be attacked."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from rich.cells import cell_len

from medstress.analyses.shown import Table, column, table
from medstress.cli.display import display
from medstress.cli.parser import check_limit, columns_of, groups_of
from medstress.cli.screen import Kind, Line, Look, Screen, cut, screen, titled, wrapped
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
    out.say(_counted(found))
    for note in found.notes:
        out.say(f"! {note}")
    out.print_lines(_items(found.first, out.look))
    if found.n_skipped:
        out.print_lines([Line(text="", kind=Kind.SAID)])
        cannot = f"! {plural(found.n_skipped, 'row')} cannot be read"
        if is_skipping:
            out.say(f'{cannot}, and a run leaves them out, as on_bad_row = "skip" is set')
        else:
            out.say(
                f"{cannot}, and a run stops there: mend the file, or leave them out with "
                f"--set {SKIP}"
            )
        for reason in found.skipped:
            others = ", ".join(reason.places[1 : 1 + _MOST_PLACES])
            n_more = reason.n - 1 - _MOST_PLACES
            also = f"; also {others}" if others else ""
            also += f" and {n_more:,} more" if n_more > 0 else ""
            out.say(f"! {plural(reason.n, 'row')}: {reason.example}{also}")
    out.print_lines([Line(text="", kind=Kind.SAID)])
    print_table(out.console, _table(found.attackable))
    out.print_lines(_why_not(found.attackable, out.look))
    out.print_lines([Line(text="", kind=Kind.SAID)])
    for line in _remarks(found):
        out.say(line)


def _counted(found: DataCheck) -> str:
    text = plural(found.n_items, found.kind.removesuffix("s"), found.kind)
    if found.classes:
        text += f" ({shorten(', '.join(found.classes), _EXAMPLE)})"
    if found.n_checked < found.n_items:
        text += f"; a random sample of {found.n_checked:,} is checked (--limit)"
    return text


def _items(first: Iterable[ShownItem], look: Look) -> Iterator[Line]:
    for number, item in enumerate(first, start=1):
        gold = f", key {item.key}" if item.key else ""
        yield Line(text="", kind=Kind.SAID)
        yield Line(text=look.fitted(f"{number}  {item.id}{gold}"), kind=Kind.HEAD)
        width = max(map(len, item.texts), default=0)
        for name, text in item.texts.items():
            is_option = name in item.letters
            mark = "*" if is_option and name == item.key else " "
            groups = item.names.get(name, {}) if is_option else {}
            found = "; ".join(f"{group}: {', '.join(names)}" for group, names in groups.items())
            found = cut(look.shown(found), look.width // 3, look.ellipsis)
            behind = f"  [{found}]" if found else ""
            line = look.shown(f" {mark} {name:<{width}}  {text}")
            line = cut(line, look.width - cell_len(behind), look.ellipsis)
            yield Line(text=f"{line}{behind}", kind=Kind.ROW)


def _table(attackable: Sequence[Attackable]) -> Table:
    fields = [
        column("Attack", "attack"),
        column("Group", "group"),
        column("Can be attacked", _share, "share"),
    ]
    return table("attackable", "What can be attacked", attackable, fields, n_labels=2)


def _share(of: Attackable) -> Estimate:
    """Return a count as a share; it is of the items themselves, so it has no interval."""
    value = of.n / of.n_items if of.n_items else None
    return Estimate(value=value, n=of.n_items, low=None, high=None, method="counted", hits=of.n)


def _why_not(attackable: Sequence[Attackable], look: Look) -> Iterator[Line]:
    """Yield why items cannot be attacked; attacks with the same reasons share their lines."""
    attacks: dict[tuple[Reason, ...], list[str]] = {}
    for each in attackable:
        label = f"{each.attack} of {each.group}" if each.draws_names else each.attack
        attacks.setdefault(each.reasons, []).append(label)
    attacks.pop((), None)
    for reasons, labels in attacks.items():
        yield from titled(look.fitted(f"not by {listed(labels)}"))
        width = len(f"{reasons[0].n:,}")
        for reason in reasons[:_MOST_REASONS]:
            looks = f" ({shorten(reason.looks, _EXAMPLE)})" if reason.looks else ""
            text = f"{reason.text}; such as {reason.example}{looks}"
            lines = wrapped(look.shown(text), look.width - width - 4)
            for number, part in enumerate(lines):
                n = "" if number else f"{reason.n:,}"
                yield Line(text=f"  {n:>{width}}  {part}", kind=Kind.ROW)
        if len(reasons) > _MOST_REASONS:
            n_more = plural(len(reasons) - _MOST_REASONS, "more reason")
            yield Line(text=f"  {n_more}", kind=Kind.NOTE)


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
