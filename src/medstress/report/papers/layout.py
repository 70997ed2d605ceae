"""What a paper's layout is: an ordered list of tables and figures, each made from a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, TypeAlias

from medstress.analyses import tuning
from medstress.analyses.choice import Competitor, competitors
from medstress.analyses.run import Cell, Run
from medstress.analyses.shown import Chart, Table
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


class Entry(NamedTuple):
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
    entries: tuple[Entry, ...]

    def parts(self, run: PaperRun) -> Iterator[tuple[Entry, list[Part] | str]]:
        """Yield every entry with its tables and figures, or why the run cannot fill it."""
        needs = "questions" if self.of_questions else "tagged texts or sentence pairs"
        for entry in self.entries:
            if not run.run.attacks:
                yield entry, "the run has no finished trial of an attack"
            elif run.of_questions != self.of_questions:
                yield entry, f"needs {needs}"
            else:
                try:
                    yield entry, list(entry.make(run))
                except Missing as missing:
                    yield entry, str(missing)


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
        """Return what stands below every table and figure of some attacks."""
        used = list(cells)
        return [
            seeds_note({s for cell in used for s in cell.seeds if s is not None}),
            INTERVALS,
            *tuning.notes_on(self.run, used),
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
        answered = spread([int(cell.answered.sum()) for cell in clean])
        right = spread([int(cell.eligible.sum()) for cell in clean])
        return f"Items: {answered} answered, {right} right at baseline and so attacked."

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
    known = sorted(seeds)
    if not known:
        return "Nothing was drawn at random."
    if len(known) == 1:
        return f"Random draws with seed {known[0]} alone."
    return f"Random draws are pooled over seeds {', '.join(map(str, known))}."


def spread(numbers: Iterable[int]) -> str:
    """Write counts as one number, or from the least to the largest.

    >>> spread([3, 5, 4]), spread([1200])
    ('3 to 5', '1,200')
    """
    known = sorted(numbers)
    if not known:
        return "0"
    return f"{known[0]:,}" if known[0] == known[-1] else f"{known[0]:,} to {known[-1]:,}"


def renamed(part: Table | Chart, name: str, notes: Sequence[str] = ()) -> Table | Chart:
    """Return a table or chart under another name, with further notes."""
    return replace(part, name=name, notes=(*part.notes, *notes))
