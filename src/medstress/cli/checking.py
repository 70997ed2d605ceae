"""`medstress check`: what a data set is understood to be, and what of it can be attacked."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict

from medstress.cli.display import display
from medstress.cli.fitting import Kind, Line, Shape
from medstress.cli.flags import check_limit
from medstress.cli.look import Look, cut, wrapped
from medstress.cli.screen import Screen, screen, titled
from medstress.core.errors import UsageError
from medstress.results.formats import listed, plural, shorten
from medstress.results.table import Column, Format, Table, as_row
from medstress.running.check_data import (
    Attackable,
    DataCheck,
    Reason,
    ShownItem,
    check_data,
)
from medstress.stats.estimates import Estimate

FORMAT = 1
"""Of `--json`."""
_EXAMPLE = 60
"""Characters of an example."""
_SHARE = "attackable"
_MOST_REASONS = 3
"""Reasons that are printed for rows, and for each attack; `--json` has all."""


def check_cli(args: argparse.Namespace) -> int:
    """Run `medstress check`."""
    check_limit(args)
    with display(quiet=args.json, stop=args.stop) as watcher:
        found = check_data(
            args.data,
            limit=args.limit,
            columns=parse_columns(args.columns),
            answer_base=None if args.answer_base is None else int(args.answer_base),
            entities=args.entities and _split(args.entities),
            watcher=watcher,
        )
    following = next_command(found, args.data)
    if args.json:
        print(json.dumps({"format": FORMAT, **asdict(found), "next": following}, indent=1))
    else:
        _show(found, screen())
        print(f"next: {following}")
    return 0


def parse_columns(given: Sequence[str]) -> dict[str, str | list[str]]:
    """Return `columns` from `NAME=COLUMN`; a name given again, or with commas, gets a list.

    Raises:
        UsageError: an entry has no `=`, or nothing on one side.

    >>> parse_columns(["question=stem", "options=A,B,C"])
    {'question': 'stem', 'options': ['A', 'B', 'C']}
    """
    found: dict[str, list[str]] = {}
    for entry in given:
        name, _, column = entry.partition("=")
        if not name.strip() or not column.strip():
            raise UsageError(
                f"--columns: expected NAME=COLUMN, such as question=stem or options=A,B,C,D, got "
                f"{entry!r} (DATA comes before --columns)"
            )
        # Only options are several columns; other columns may have a comma in their name.
        own = _split(column) if name.strip() == "options" else [column]
        found.setdefault(name.strip(), []).extend(own)
    return {name: own[0] if len(own) == 1 else own for name, own in found.items()}


def next_command(found: DataCheck, given: str) -> str:
    """Return the command that runs on the data, with what the check was told and found."""
    words = ["medstress", "run", "--data", shlex.quote(given), "--model", "NAME"]
    named = [each for each in found.attackable if each.attack == "entity_substitution"]
    fitting = [each.group for each in named if each.n]
    if named and not fitting:
        free = next((each for each in found.attackable if each not in named and each.n), None)
        words += ["--attack", free.attack] if free else []
    elif len(fitting) < len(named):
        words += ["--entities", ",".join(fitting)]
    for key in ("columns", "answer_base"):
        if key in found.table:
            words += ["--set", shlex.quote(f"dataset.{key}={_toml(found.table[key])}")]
    if found.n_skipped:
        words += ["--set", "dataset.on_bad_row=skip"]
    return " ".join(words)


def _toml(value: object) -> str:
    if isinstance(value, dict):
        inside = ", ".join(f"{name} = {_toml(each)}" for name, each in value.items())
        return "{" + inside + "}"
    return json.dumps(value, ensure_ascii=False)


def _split(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _show(found: DataCheck, out: Screen) -> None:
    source = found.table["name"]
    out.say(f"understood: {found.understood or f'the documented format of {source}'}")
    out.say(_counted(found))
    for note in found.notes:
        out.say(f"! {note}")
    out.print_lines(_items(found.first, out.look))
    if found.n_skipped:
        out.print_lines([Line(text="", kind=Kind.SAID)])
        out.say(
            f"! {plural(found.n_skipped, 'row')} cannot be read, where a run stops: mend them, or "
            'leave them out with on_bad_row = "skip"'
        )
        for reason in found.skipped[:_MOST_REASONS]:
            out.say(f"! {plural(reason.n, 'row')}: {reason.text}; {reason.example}")
        _say_more(found.skipped, out)
    out.print_lines([Line(text="", kind=Kind.SAID)])
    out.show(_table(found.attackable), Shape(bar=_SHARE))
    out.print_lines(_why_not(found.attackable, out.look))
    out.print_lines([Line(text="", kind=Kind.SAID)])
    for line in _remarks(found):
        out.say(line)


def _counted(found: DataCheck) -> str:
    text = f"{found.n_items:,} {found.kind}"
    if found.classes:
        text += f" ({shorten(', '.join(found.classes), _EXAMPLE)})"
    if found.n_checked < found.n_items:
        text += f"; a random sample of {found.n_checked:,} is checked"
    return text


def _items(first: Iterable[ShownItem], look: Look) -> Iterator[Line]:
    for number, item in enumerate(first, start=1):
        gold = f", key {item.key}" if item.key else ""
        yield Line(text="", kind=Kind.SAID)
        yield Line(text=look.fitted(f"{number}  {item.id}{gold}"), kind=Kind.HEAD)
        width = max(map(len, item.texts), default=0)
        for name, text in item.texts.items():
            mark = "*" if name == item.key and name in item.letters else " "
            names = item.names.get(name, {}) if name in item.letters else {}
            groups = "; ".join(f"{group}: {', '.join(found)}" for group, found in names.items())
            behind = f"  [{cut(look.shown(groups), look.width // 3, look.ellipsis)}]"
            behind = behind if groups else ""
            line = look.shown(f" {mark} {name:<{width}}  {text}")
            line = cut(line, look.width - len(behind), look.ellipsis)
            yield Line(text=f"{line}{behind}", kind=Kind.ROW)


def _table(attackable: Sequence[Attackable]) -> Table:
    return Table(
        name="attackable",
        caption="attackable",
        columns=(
            Column(heading="attack"),
            Column(heading="group"),
            Column(heading=_SHARE, format=Format.SHARE),
            Column(heading="needs"),
        ),
        rows=tuple(
            as_row(each.attack, each.group, _share(each), each.needs) for each in attackable
        ),
    )


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
            yield Line(text=f"  {n_more}: --json has all", kind=Kind.NOTE)


def _say_more(reasons: Sequence[Reason], out: Screen) -> None:
    if len(reasons) > _MOST_REASONS:
        out.say(f"! {plural(len(reasons) - _MOST_REASONS, 'more reason')}: --json has all")


def _remarks(found: DataCheck) -> Iterator[str]:
    if found.n_given:
        yield (
            f"{found.n_given:,} of them bring mentions of their own, which recogniser = "
            '"given" uses; what is said here is of recogniser = "gazetteer"'
        )
    if all(each.n == 0 for each in found.attackable):
        yield (
            "nothing here can be attacked: give other data, or a spaCy pipeline that finds more "
            'names (recogniser = "spacy")'
        )
