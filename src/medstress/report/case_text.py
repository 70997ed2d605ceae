"""Cases on the terminal: the list, and one case in lines of 80 columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from rich.console import Console
from rich.text import Text

from medstress.analyses.shown import Column, Entry, Table, attack_names, spaced
from medstress.core.words import command
from medstress.report.cases import OUTCOMES, Case, Cases, Line, Marked, Swap, arrow
from medstress.report.formats import clean, number, one_line
from medstress.report.terminal import MOST_ROWS, print_table

_WIDTH = 16
"""Of the names of facts."""
Style: TypeAlias = Literal["", "bold", "red strike", "green", "dim"]
Span: TypeAlias = tuple[Style, str]
_SIGNS: dict[str, tuple[Style, str, str]] = {
    "same": ("", "", ""),
    "removed": ("red strike", "[-", "-]"),
    "added": ("green", "{+", "+}"),
}
"""Changes have signs as well, so that no colour is needed."""


def print_cases(console: Console, cases: Cases) -> None:
    """Print the list of cases, the headline's arm first."""
    names = attack_names(cell.attack for cell in cases.run.cells)
    left = len(cases.trials) - MOST_ROWS
    headings = ("Case", "Outcome", "Change", "Answer", "Item", "Attack on model")
    folder = cases.run.folder.path
    shown = Table(
        name="cases",
        caption=f"{len(cases.trials):,} cases; {command('case', folder, 'ID')} shows one",
        columns=tuple(Column(heading=name) for name in headings),
        rows=tuple(_row(cases.line(trial), names) for trial in cases.trials[:MOST_ROWS]),
        notes=(f"{left:,} more cases: {command('view', folder)} has all.",) if left > 0 else (),
    )
    print_table(console, shown)


def _row(line: Line, names: Mapping[str, str]) -> tuple[Entry, ...]:
    values: tuple[str | None, ...] = (
        line.id,
        OUTCOMES[line.outcome],
        _swap_words(line.change),
        arrow(line.before, line.after),
        line.item,
        f"{names[line.attack]} on {spaced(line.model)}",
    )
    return tuple(Entry(value=value) for value in values)


def print_case(console: Console, case: Case) -> None:
    """Print one case; what is not plain is marked by signs and colours."""
    plain = console.no_color
    for line in case_lines(case):
        spans = [
            (clean(text), "" if plain and style in ("red strike", "green", "dim") else style)
            for style, text in line
        ]
        console.print(Text.assemble(*spans), overflow="fold")


def case_lines(case: Case) -> Iterator[Sequence[Span]]:
    """Yield the lines of a case; long ones are for the terminal to wrap."""
    line = case.line
    yield [("bold", f"Case {line.id}: {OUTCOMES[line.outcome]}")]
    place = f"item {line.item} of {line.dataset}, {line.group}; asked of {line.model}"
    yield [("", f"{line.attack}; {place}")]
    yield []
    if len(case.edits) == 1:
        yield [("", f"{'change':<{_WIDTH}}"), *_swap(case.edits[0])]
    for name, value in case.facts:
        yield [("", f"{name:<{_WIDTH - 1}} {one_line(value)}")]
    if case.text:
        yield from _titled("Text, [-before-] and {+after+}")
        yield _marked(case.text)
    if case.text and case.is_sent:
        yield [("dim", "this text was sent to the model exactly as shown")]
    for role, marked in case.sent:
        yield from _titled(f"Sent to the model ({role})")
        yield _marked(marked)
    if case.continuations:
        yield from _titled("Continuations scored after it")
        for text in case.continuations:
            yield [("", text)]
    if case.scores:
        yield from _titled("Scores")
        for name, *values in case.scores:
            yield [("", f"{name:<{_WIDTH}}{' → '.join(number(v, 'score') for v in values)}")]
    for name, tokens, gold, labels in case.labels:
        yield from _titled(f"Labels {name}: word, right label, label that was given")
        for token, right, label in zip(tokens, gold, labels, strict=False):
            if right != "O" or label != right:
                yield [("", f"{one_line(token):<{_WIDTH}}{right:<{_WIDTH}}{label}")]
    if case.tried:
        yield from _titled("Tried before")
    for one in case.tried:
        spans: list[Span] = [("", f"{one.query:>4}. ")]
        for i, swap in enumerate(one.edits):
            spans += [("", "; " if i else ""), *_swap(swap)]
        score = "" if one.score is None else f", {number(one.score, 'score')}"
        refuted = ", a success that was refuted" if one.is_refuted else ""
        yield [*spans, ("dim", f"  answer {one.answer or 'none'}{score}{refuted}")]
    for attempt in case.attempts:
        title = f"Attempt {attempt.number}" if attempt.number else "Clean item, asked in turns"
        yield from _titled(title)
        yield [("", f"answer {attempt.answer or 'none'}")]
        if attempt.confidences:
            yield [("", f"stated confidences {', '.join(f'{v:g}' for v in attempt.confidences)}")]
        for reason in attempt.objections:
            yield [("", f"objection: {reason}")]
        for name, words in (("plan", attempt.plan), ("reasoning", attempt.reasoning)):
            if words:
                yield [("dim", f"{name}: "), ("", words)]


def _swap_words(swap: Swap | None) -> str | None:
    if swap is None:
        return None
    if not swap.replaced:
        return f"+ {swap.replacement}"
    return f"{swap.replaced} → {swap.replacement}"


def _swap(swap: Swap) -> list[Span]:
    removed: list[Span] = [("red strike", f"[-{swap.replaced}-]"), ("", " ")]
    return [*(removed if swap.replaced else ()), ("green", f"{{+{swap.replacement}+}}")]


def _marked(parts: Marked) -> list[Span]:
    return [
        (style, f"{start}{text}{end}")
        for change, text in parts
        for style, start, end in [_SIGNS[change]]
    ]


def _titled(title: str) -> Iterator[Sequence[Span]]:
    yield []
    yield [("bold", title)]
