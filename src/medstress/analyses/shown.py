"""What results hand to renderers: tables, charts and remarks, as plain data.

No renderer knows a measure, and no result knows a renderer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Generic, Literal, Protocol, TypeAlias, TypeVar

from medstress.core.arms import Place
from medstress.stats.estimate import Estimate

R = TypeVar("R")
Outcome: TypeAlias = Literal["ok", "failed", "error"]
R_contra = TypeVar("R_contra", contravariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """A name as people read it, and the key that files and commands use."""

    words: str
    key: str


def spaced(key: str) -> str:
    """Return a key as people read it: underscores become spaces, but in names of files.

    >>> spaced("closed_book"), spaced("my_model.py:answer")
    ('closed book', 'my_model.py:answer')
    """
    return key if ":" in key or key.endswith(".gguf") else key.replace("_", " ")


def label(key: str) -> Label:
    """Return a label from a key."""
    return Label(words=spaced(key), key=key)


Value: TypeAlias = Estimate | Label | int | float | str | None
Form: TypeAlias = Literal["text", "count", "number", "share", "score", "percent", "p"]
"""How the values of a column are written: a share with its counts, a score with its n."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A value in a table, with remarks in smaller type."""

    value: Value
    lines: tuple[str, ...] = ()
    mark: str = ""
    """Stands right behind the value, such as an asterisk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of a table."""

    heading: str
    form: Form = "text"
    tip: str = ""
    """What the column means, in a few words."""
    key: str = ""
    """Its name in CSV; default: the heading."""
    wide: bool = False
    """Left out of a terminal of 80 columns, in everything else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table for every renderer."""

    name: str
    """For anchors, files and labels."""
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Entry, ...], ...]
    notes: tuple[str, ...] = ()
    heads: tuple[tuple[tuple[str, int], ...], ...] = ()
    """Lines above the headings: (text, columns that it spans)."""
    rules: frozenset[int] = frozenset()
    """Rows with a line above them."""
    published: frozenset[int] = frozenset()
    """Rows that repeat a paper's numbers."""
    n_labels: int = 1
    """The first columns that name a row."""

    def __post_init__(self) -> None:
        width = len(self.columns)
        wrong_row = any(len(row) != width for row in self.rows)
        if wrong_row or any(sum(span for _, span in head) != width for head in self.heads):
            raise ValueError(f"table {self.name!r}: expected {width} columns in every line")


@dataclass(frozen=True, slots=True, kw_only=True)
class Field(Generic[R_contra]):
    """A column, and how it is read from a row of results."""

    column: Column
    read: Callable[[R_contra], Value | Entry]


def column(
    heading: str,
    read: str | Callable[[R], Value | Entry],
    form: Form = "text",
    *,
    tip: str = "",
    key: str = "",
    wide: bool = False,
) -> Field[R]:
    """Return a column that is read from rows by the name of an attribute, or by a function.

    >>> column("Cases", "n_cases", "count").column.key
    'n_cases'
    """
    name = read if isinstance(read, str) else ""
    return Field(
        column=Column(heading=heading, form=form, tip=tip, key=key or name, wide=wide),
        read=attrgetter(read) if isinstance(read, str) else read,
    )


def table(
    name: str,
    caption: str,
    rows: Iterable[R],
    fields: Sequence[Field[R]],
    *,
    n_labels: int = 1,
    notes: Sequence[str] = (),
) -> Table:
    """Return the table of typed rows; columns that are empty in every row are left out."""
    entries = [[as_entry(field.read(row)) for field in fields] for row in rows]
    kept = [
        i
        for i, _ in enumerate(fields)
        if not entries or any(row[i].value is not None for row in entries)
    ]
    return Table(
        name=name,
        caption=caption,
        columns=tuple(fields[i].column for i in kept),
        rows=tuple(tuple(row[i] for i in kept) for row in entries),
        notes=tuple(notes),
        n_labels=sum(i < n_labels for i in kept),
    )


class Placed(Protocol):
    """What names a place: a `medstress.core.arms.Place`, or a row of results."""

    @property
    def dataset(self) -> str:
        """Label of the data set."""

    @property
    def group(self) -> str:
        """Label of the entity group."""

    @property
    def victim(self) -> str:
        """Label of the model."""


def place_labels(of: Callable[[R], Placed]) -> list[Field[R]]:
    """Return the columns that name the place of a row: model, data set, group."""
    return [
        column("Model", lambda row: label(of(row).victim)),
        column("Data", lambda row: label(of(row).dataset), wide=True),
        column("Group", lambda row: label(of(row).group), wide=True),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class OfAttack:
    """What a row of results is of: an attack in a place."""

    dataset: str
    group: str
    victim: str
    attack: str

    @property
    def place(self) -> Place:
        """Where it was tried."""
        return Place(self.dataset, self.group, self.victim)


def attack_labels(of: Callable[[R], OfAttack]) -> list[Field[R]]:
    """Return the columns that name the attack of a row, and its place."""
    return [column("Attack", lambda row: label(of(row).attack)), *place_labels(of)]


def if_any(share: Estimate) -> Estimate | None:
    """Return a share for a table, which is empty where nothing is counted."""
    return share if share.n else None


def as_entry(value: Value | Entry) -> Entry:
    """Return a value as an entry of a table."""
    return value if isinstance(value, Entry) else Entry(value=value)


@dataclass(frozen=True, slots=True)
class Point:
    """One mark of a chart."""

    x: float | str
    y: Estimate | float
    series: str = ""
    """What has a colour: a model wherever there is one."""
    panel: str = ""
    """What has a picture of its own, under this heading."""
    tip: str = ""
    marked: bool = False
    """Whether a word has a frame, as those that an edit replaces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A picture: marks with intervals."""

    name: str
    title: str
    kind: Literal["bars", "lines", "dots", "heat", "words"]
    """`heat`: x is the column and the series the row. `words` colours texts by a value: x is the
    place, series the word."""
    x: str
    """Title of the axis."""
    y: str
    points: tuple[Point, ...]
    log_x: bool = False
    unit: bool = True
    """Whether the axis of values ends at 0 and 1."""
    by_model: bool = False
    """Whether the series are models, each with its colour everywhere."""
    counts: str = ""
    """What the counts at its marks are of."""
    notes: tuple[str, ...] = ()

    @property
    def all_notes(self) -> tuple[str, ...]:
        """What its marks, lines and counts are, then its notes."""
        shares = [point.y for point in self.points if isinstance(point.y, Estimate)]
        lines = any(share.low is not None for share in shares)
        return (
            *[f"Marks are the {self.y}; lines and shades are 95 % intervals."] * lines,
            *[f"Counts are of {self.counts}."] * bool(self.counts),
            *self.notes,
        )


@dataclass(frozen=True, slots=True)
class Remark:
    """A sentence that a reader needs, and the rule that chose it."""

    rule: str
    sentence: str
    where: tuple[str, ...] = ()
    """Data set, group, model and attack, as far as it speaks of one."""
    level: Literal["note", "warning"] = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One decision, as continuous integration reads it."""

    name: str
    """What was judged, in a few words."""
    outcome: Outcome
    """`failed` if it is not good enough, `error` if it could not be judged."""
    sentence: str
    """What was measured."""


class Shown:
    """What a result can show; the base of every result.

    Tables without rows and charts without points are left out wherever they are shown.
    """

    title: str = ""
    """Heading of its section."""
    is_brief: bool = False
    """Whether the terminal prints its first table without being asked for all."""

    def tables(self) -> Sequence[Table]:
        """Tables; the terminal prints the first."""
        return ()

    def charts(self) -> Sequence[Chart]:
        """Pictures for the page."""
        return ()

    def remarks(self) -> Sequence[Remark]:
        """Sentences and warnings."""
        return ()

    def decisions(self) -> Sequence[Decision]:
        """Decisions: criteria, comparisons."""
        return ()


def where(place: Placed, attack: str) -> tuple[str, ...]:
    """Return what a remark speaks of."""
    return place.dataset, place.group, place.victim, attack


def panel(place: Placed, places: Iterable[Placed]) -> str:
    """Return the heading of a panel: the model, and what else differs among places.

    >>> from medstress.core.arms import Place
    >>> panel(Place("q", "drugs", "m"), [Place("q", "drugs", "m"), Place("q", "diseases", "m")])
    'm, drugs'
    """
    known = list(places)
    parts = [place.victim]
    if len({p.dataset for p in known}) > 1:
        parts.append(place.dataset)
    if len({p.group for p in known}) > 1:
        parts.append(place.group)
    return ", ".join(map(spaced, parts))
