"""What a layout of a paper is: tables and figures in order, and the numbers that papers print."""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib.resources import files
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

from medstress.analyses.choice import Competitor, Setting, competitors, notes_on
from medstress.analyses.run import Cell, Run
from medstress.analyses.shown import Chart, Column, Entry, Table
from medstress.analyses.success import knowledge
from medstress.core.items import Question
from medstress.core.words import listed

INTERVALS = "Intervals: 95 %, Wilson; at the effective sample size where seeds repeat the items."


class Missing(Exception):
    """Raised where a run lacks what a table or figure needs; the message says what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tex:
    """Something that only LaTeX sets, such as cases."""

    name: str
    caption: str
    body: str
    notes: tuple[str, ...] = ()


Part: TypeAlias = Table | Chart | Tex


class Figure(NamedTuple):
    """A table or figure of a paper."""

    name: str
    """Stem of its file names."""
    title: str
    make: Callable[[PaperRun], Iterable[Part]]
    """Raises `Missing`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What a paper shows."""

    name: str
    """As in `--paper`."""
    of_questions: bool
    """Whether it is about questions; else about tagged texts and pairs."""
    entries: tuple[Figure, ...]

    def parts(self, run: PaperRun) -> Iterator[tuple[str, str, list[Part] | str]]:
        """Yield name and title of every entry, and its tables and figures or why it has none."""
        needs = "questions" if self.of_questions else "tagged texts or sentence pairs"
        for entry in self.entries:
            parts: list[Part] | str
            try:
                if not run.run.attacks:
                    raise Missing("the run has no finished trial of an attack")
                if run.of_questions != self.of_questions:
                    raise Missing(f"needs {needs}")
                parts = list(entry.make(run))
            except Missing as missing:
                parts = str(missing)
            yield entry.name, entry.title, parts


class PaperRun:
    """What makers of tables and figures read."""

    def __init__(self, run: Run) -> None:
        self.run = run

    @property
    def of_questions(self) -> bool:
        """Whether the run is about questions."""
        return bool(self.run.attacks[0].trials[0].item.kind == Question.kind)

    @cached_property
    def attacks(self) -> Sequence[Competitor]:
        """The judged attacks."""
        return competitors(self.run)

    def notes(self, cells: Iterable[Cell]) -> list[str]:
        """Return the note below every table and figure of some attacks."""
        used = list(cells)
        return [
            seeds_note({s for cell in used for s in cell.seeds if s is not None}),
            INTERVALS,
            *notes_on(self.run, used),
            *self.chance_notes(used),
        ]

    def chance_notes(self, cells: Iterable[Cell]) -> list[str]:
        """Name the models whose clean answers cannot be told from guesses."""
        guessing = {}
        for cell in cells:
            knows = knowledge(cell)
            if knows.is_near_chance and cell.place not in guessing:
                chance = f"{knows.chance or 0:.3f}".removeprefix("0")
                where = f"{cell.place.victim} on {cell.place.dataset}/{cell.place.group}"
                guessing[cell.place] = f"{where} (chance {chance})"
        if not guessing:
            return []
        names = listed([*guessing.values()])
        return [f"Not above chance: {names}. There success cannot be told from guessing."]

    def item_note(self, cells: Iterable[Cell]) -> str:
        """Say how many items were answered and how many were attacked."""
        clean = [cell.one_per_item() for cell in cells]
        right = spread([int(cell.eligible.sum()) for cell in clean])
        unseen = [int((cell.eligible & cell.unseen).sum()) for cell in clean]
        shown = f", of which {spread(unseen)} were shown no edit" if any(unseen) else ""
        known = f"{right} right at baseline and so attacked{shown}"
        return f"Items: {answered(clean)} answered, {known}."

    def state(self) -> list[str]:
        """Return what is set below everything: the state, and the root."""
        folder, sentences = self.run.folder, []
        if not self.run.is_complete:
            sentences.append("The run is not complete: accuracy is biased low until it is.")
        elif folder.root:
            sentences.append(f"Root of the run: {folder.root}.")
        return sentences


def seeds_note(seeds: Iterable[int]) -> str:
    """Name the seeds that random draws are pooled over.

    >>> seeds_note([0, 1]), seeds_note([])
    ('Random draws are pooled over seeds 0, 1.', 'Nothing was drawn at random.')
    """
    ordered = sorted(seeds)
    if not ordered:
        return "Nothing was drawn at random."
    if len(ordered) == 1:
        return f"Random draws with seed {ordered[0]} alone."
    return f"Random draws are pooled over seeds {', '.join(map(str, ordered))}."


def spread(numbers: Iterable[int]) -> str:
    """Write counts as one number, or from the least to the largest.

    >>> spread([3, 5, 4]), spread([1200])
    ('3 to 5', '1,200')
    """
    ordered = sorted(numbers)
    if not ordered:
        return "0"
    return f"{ordered[0]:,}" if ordered[0] == ordered[-1] else f"{ordered[0]:,} to {ordered[-1]:,}"


def answered(clean: Sequence[Cell]) -> str:
    """Write how many items were answered, and of how many where some were not.

    Args:
        clean: cells with one trial an item.
    """
    n = spread([int(cell.answered.sum()) for cell in clean])
    given = spread([len(cell.trials) for cell in clean])
    return n if n == given else f"{n} of {given}"


def renamed(part: Table | Chart, name: str, notes: Sequence[str] = ()) -> Table | Chart:
    """Return a table or chart under another name, with further notes."""
    return replace(part, name=name, notes=(*part.notes, *notes))


def block_table(
    name: str,
    caption: str,
    labels: Sequence[Column],
    blocks: Mapping[str, Sequence[Column]],
    rows: Iterable[tuple[Entry, ...]],
    notes: Iterable[str],
    **marks: frozenset[int],
) -> Table:
    """Return a table whose columns stand in blocks, each under its heading.

    Args:
        name: of the table.
        caption: of the table.
        labels: the columns that name a row.
        blocks: heading -> columns.
        rows: entries of the labels, then of every block.
        notes: below the table.
        marks: `rules` and `published`, as of `Table`.
    """
    return Table(
        name=name,
        caption=caption,
        columns=(*labels, *chain.from_iterable(blocks.values())),
        rows=tuple(rows),
        notes=tuple(notes),
        heads=((("", len(labels)), *((at, len(own)) for at, own in blocks.items())),),
        n_labels=len(labels),
        **marks,
    )


MAIN = ("random", "near", "far")
"""Methods of the published tables."""
NOT_OURS = (
    "Lines and marks labelled published are from {source}, which prints no intervals, seeds or "
    "numbers of items; its items, prompts and decoding may differ from ours."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a published table."""

    accuracy: float
    asr: Mapping[str, float]
    """Success of one query by method; R-CAP in the first version."""
    accuracy_after: Mapping[str, float]
    """Accuracy under attack by method; only the first version prints it."""


def line_of(source: str, setting: Setting) -> Line | None:
    """Return the published line of the same model, data set and type of names; None without one.

    Models are matched by the name of the model, so that a stand-in that only has the name of a
    published one does not match.

    Args:
        source: `xian2025` or `xian2024`.
        setting: where an attack was run.
    """
    if not setting.model or setting.backend == "mock":
        return None
    names, last = _names(), setting.model.rstrip("/").rpartition("/")[2]
    model = names.get(_bare(setting.model)) or names.get(_bare(last), "")
    return _lines().get((source, model, setting.source, setting.types))


def other_prompt(setting: Setting) -> str:
    """Return both prompts where the papers' differs from ours; else an empty text."""
    printed = _victims()["prompt"].get(setting.source)
    if not printed or not setting.prompt or setting.prompt == printed:
        return ""
    return f"prompt {printed}, ours {setting.prompt}"


def not_ours(source: str) -> str:
    """Say what published lines are of a source."""
    return NOT_OURS.format(source=_victims()["source"][source])


@cache
def rows_of(name: str) -> tuple[dict[str, str], ...]:
    """Return the rows of a shipped table of published numbers."""
    lines = (line for line in _read(name).splitlines() if not line.startswith("#"))
    return tuple(csv.DictReader(lines))


def _read(name: str) -> str:
    return (files("medstress.report.papers") / "data" / name).read_text("utf-8")


def _bare(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))


@cache
def _victims() -> dict[str, Any]:
    return tomllib.loads(_read("published_victims.toml"))


@cache
def _names() -> dict[str, str]:
    return {
        _bare(name): victim["name"]
        for victim in _victims()["victim"]
        for name in (victim["name"], *victim["models"])
    }


@cache
def _lines() -> dict[tuple[str, str, str, str], Line]:
    lines = {}
    for row in rows_of("published_rates.csv"):
        accuracy = float(row["accuracy"])
        after, asr = (
            {name: float(row[f"{part}_{name}"]) for name in MAIN if row[f"{part}_{name}"]}
            for part in ("after", "asr")
        )
        lines[row["source"], row["victim"], row["dataset"], row["entity"]] = Line(
            accuracy=accuracy,
            # The first version prints accuracies; R-CAP = (before - after) / before.
            asr=asr or {name: (accuracy - value) / accuracy for name, value in after.items()},
            accuracy_after=after,
        )
    return lines
