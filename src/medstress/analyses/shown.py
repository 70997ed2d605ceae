"""What results hand to renderers: tables, charts and remarks, as plain data; and results as JSON.

No renderer knows a measure, and no result knows a renderer. Below stand the names by which people
call attacks, models and items, where files use keys.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields, is_dataclass
from pathlib import PurePosixPath
from typing import Any, Literal, TypeAlias

from medstress.core.arms import NOISE_CONTROL, AttackRecord, Place
from medstress.core.items import Question
from medstress.core.sentences import SentencePair, TaggedText
from medstress.core.trials import Trial
from medstress.stats.estimate import Estimate

Outcome: TypeAlias = Literal["ok", "failed", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """A name as people read it, and the key that files and commands use."""

    words: str
    key: str


def spaced(key: str) -> str:
    """Return a key as people read it: underscores become spaces. Models keep their names.

    >>> spaced("closed_book")
    'closed book'
    """
    return key.replace("_", " ")


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
    """Shown right behind the value, such as an asterisk."""

    @property
    def is_empty(self) -> bool:
        """Whether it says nothing: no value, or an estimate of nothing without a remark."""
        nothing = isinstance(self.value, Estimate) and self.value.value is None
        return self.value is None or (nothing and not self.lines)


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
class Field:
    """A column, and how it is read from a row of results."""

    column: Column
    read: Callable[[Any], Value | Entry]


def column(
    heading: str,
    read: str | Callable[[Any], Value | Entry],
    form: Form = "text",
    tip: str = "",
    *,
    key: str = "",
    wide: bool = False,
) -> Field:
    """Return a column that is read from rows by a path, or by a function.

    A path names attributes, keys, or places in a tuple: `rates.accuracy`, `0.victim`. It reads None
    where a part is None.

    >>> one = column("Cases", "1.n_cases", "count")
    >>> one.column.key, one.read((None, None))
    ('n_cases', None)
    """
    if callable(read):
        name, function = "", read
    else:
        name, function = read.rpartition(".")[2], path(read)
    made = Column(heading=heading, form=form, tip=tip, key=key or name, wide=wide)
    return Field(column=made, read=function)


def path(name: str) -> Callable[[Any], Any]:
    """Return what reads a path from a row; the empty one is the row itself."""
    parts = name.split(".") if name else []

    def read(row: Any) -> Any:
        for part in parts:
            if row is None:
                return None
            if part.isdigit():
                row = row[int(part)]
            else:
                row = row.get(part) if isinstance(row, Mapping) else getattr(row, part)
        return row

    return read


def named(heading: str, name: str, *, wide: bool = False) -> Field:
    """Return a column of labels, read by a path."""
    read = path(name)
    return column(heading, lambda row: label(read(row)), wide=wide)


def place_labels(of: str = "") -> list[Field]:
    """Return the columns that name a place: model, data set, group; `of` is its path in a row."""
    at = f"{of}." if of else ""
    return [
        named("Model", f"{at}victim"),
        named("Data", f"{at}dataset", wide=True),
        named("Group", f"{at}group", wide=True),
    ]


def attack_labels(of: str = "") -> list[Field]:
    """Return the columns that name an attack, and its place."""
    return [named("Attack", f"{of}.attack" if of else "attack"), *place_labels(of)]


def table(
    name: str,
    caption: str,
    rows: Iterable[Any],
    fields: Sequence[Field],
    *,
    n_labels: int | None = None,
    notes: Sequence[str] = (),
) -> Table:
    """Return the table of typed rows; columns that are empty in every row are left out.

    The first columns of text name a row, unless `n_labels` says how many do.
    """
    entries = [[as_entry(field.read(row), field.column.form) for field in fields] for row in rows]
    if n_labels is None:
        forms = [field.column.form for field in fields]
        n_labels = next((i for i, form in enumerate(forms) if form != "text"), len(forms))
    kept = [
        i
        for i, _ in enumerate(fields)
        if not entries or not all(row[i].is_empty for row in entries)
    ]
    return Table(
        name=name,
        caption=caption,
        columns=tuple(fields[i].column for i in kept),
        rows=tuple(tuple(row[i] for i in kept) for row in entries),
        notes=tuple(notes),
        n_labels=sum(i < n_labels for i in kept),
    )


def decimal(value: float | None, digits: int = 3) -> str:
    """Write a number between -1 and 1 as sentences do.

    >>> decimal(-0.25), decimal(0.934, 2), decimal(1.0), decimal(None)
    ('−.250', '.93', '1.000', '–')
    """
    if value is None:
        return "–"
    text = f"{abs(value):.{digits}f}".removeprefix("0")
    return f"\N{MINUS SIGN}{text}" if value < 0 and text.strip(".0") else text


def as_entry(value: Value | Entry, form: Form = "share") -> Entry:
    """Return a value as an entry of a table; an estimate says its worst ends where it has some."""
    if isinstance(value, Entry):
        return value
    if not isinstance(value, Estimate) or value.worst is None or None in value.worst:
        return Entry(value=value)
    is_percent = form == "percent"
    low, high = (f"{100 * (end or 0):.1f}" if is_percent else decimal(end) for end in value.worst)
    return Entry(value=value, lines=(f"at worst [{low}, {high}]",))


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


Placed: TypeAlias = Place | OfAttack
"""What names a place."""


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


@dataclass(frozen=True, slots=True)
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
    points: Sequence[Point]
    _: KW_ONLY
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
        has_ends = any(share.ends[0] is not None for share in shares)
        joined = self.kind == "lines" and not isinstance(self.points[0].x, str)
        lines = "shades and upright lines" if joined else "lines"
        is_open = any(share.worst is not None for share in shares)
        worst = ", with unreadable and missing answers at their worst" if is_open else ""
        return (
            *[f"Marks are the {self.y}; {lines} are 95 % intervals{worst}."] * has_ends,
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

    def remarks(self) -> Iterable[Remark]:
        """Sentences and warnings."""
        return ()

    def decisions(self) -> Sequence[Decision]:
        """Decisions: criteria, comparisons."""
        return ()


def panel(place: Placed, places: Iterable[Placed]) -> str:
    """Return the heading of a panel: the model, and what else differs among places.

    >>> from medstress.core.arms import Place
    >>> panel(Place("q", "drugs", "m"), [Place("q", "drugs", "m"), Place("q", "diseases", "m")])
    'm, drugs'
    """
    every = list(places)
    parts = []
    if len({p.dataset for p in every}) > 1:
        parts.append(place.dataset)
    if len({p.group for p in every}) > 1:
        parts.append(place.group)
    return ", ".join([place.victim, *map(spaced, parts)])


# JSON: the only place where an `Estimate` becomes an object of a file --------------------------

Json: TypeAlias = Any
"""What `json.dumps(..., allow_nan=False)` takes."""
FLAT: Mapping[str, str] = {"json": "flat"}
"""Metadata of a field whose own fields stand in its parent."""
HIDDEN: Mapping[str, str] = {"json": "hidden"}
"""Metadata of a field that is for other analyses alone."""


def as_json(value: object) -> Json:
    """Return a result as JSON values.

    A dataclass becomes an object of its fields; a flat part that is None is left out.

    Raises:
        TypeError: a flat part has a field that its parent has too.

    >>> as_json(Estimate(value=None, n=0, low=None, high=None, method="no pair"))["n"]
    0
    """
    if isinstance(value, Estimate):
        names = ("value", "n", "hits", "low", "high", "method")
        worst = {} if value.worst is None else {"worst": list(value.worst)}
        return {name: getattr(value, name) for name in names} | worst
    if is_dataclass(value) and not isinstance(value, type):
        return _object(value)
    if isinstance(value, Mapping):
        return {str(key): as_json(part) for key, part in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [as_json(part) for part in value]
    return value


def _object(value: Any) -> Json:
    row: dict[str, Json] = {}
    for field in fields(value):
        how, part = field.metadata.get("json"), getattr(value, field.name)
        if how == "hidden" or (how == "flat" and part is None):
            continue
        new = as_json(part) if how == "flat" else {field.name: as_json(part)}
        if twice := row.keys() & new.keys():
            raise TypeError(f"{type(value).__name__}.{field.name}: {sorted(twice)} twice in a row")
        row |= new
    return row


# Names -----------------------------------------------------------------------------------------

HARMLESS: Mapping[str, str] = {
    "no_op": "harmless edits",
    "neutral_insertion": "neutral sentences",
    "paraphrase": "other wordings",
    "option_shuffle": "other orders of the options",
    "same_type": "random names of the same type",
    "repeat": "repeats of the same prompt",
}
"""Control -> words, the one that says most first."""
MEANINGLESS = tuple(name for name in HARMLESS if name != "same_type")
"""Those whose edits mean nothing; random names of the type are an attack of their own."""
CONTROL_WORDS: Mapping[str, str] = {**HARMLESS, NOISE_CONTROL: "noise outside entities"}
"""The same for all controls."""
_ATTACKS: Mapping[str, str] = {
    **CONTROL_WORDS,
    "discrete_zoo": "searched names",
    "medfuzz": "MedFuzz",
    "attacked": "stored edits",
    "ocr_noise": "OCR noise",
    "synonym": "synonyms",
    "abbreviation": "abbreviations",
    "passage_swap": "a swapped passage",
    "passage_distractor": "a passage with a wrong option",
    "passage_other": "another passage",
    "passage_none": "no passage",
}
_WEIGHTED = ("random", "pdws")
"""Samplers whose words follow from n."""


def takes_more(control: str) -> str:
    """Say that a control takes more than its attack.

    >>> takes_more("no_op")
    'harmless edits lose more than the attack'
    """
    verb = "takes" if control == NOISE_CONTROL else "lose"
    return f"{CONTROL_WORDS[control]} {verb} more than the attack"


def control_words(name: str) -> str:
    """Return what a control does, in a few words.

    >>> control_words("no_op")
    'harmless edits'
    """
    return CONTROL_WORDS.get(name, name.replace("_", " "))


def attack_words(attack: AttackRecord) -> str:
    """Return what an attack without a label of its own does, in a few words.

    >>> attack_words(AttackRecord(label="swap_noise", name="swap_noise"))
    'swap noise'
    >>> attack_words(AttackRecord(label="", name="entity_substitution", params={"n": -20}))
    'near names'
    >>> params = {"sampler": "exhaustive"}
    >>> attack_words(AttackRecord(label="", name="entity_substitution", params=params))
    'every name'
    """
    params = attack.params
    if attack.name == "entity_substitution":
        n, sampler = params.get("n") or 0, params.get("sampler", "pdws")
        if sampler in _WEIGHTED:
            words = "near names" if n < 0 else "far names" if n > 0 else "random names"
        else:
            words = "every name" if sampler == "exhaustive" else f"{sampler} names"
    else:
        words = _ATTACKS.get(attack.name, attack.name.replace("_", " "))
    return f"{words}, searched" if params.get("search", "none") != "none" else words


def attack_names(attacks: Iterable[AttackRecord]) -> dict[str, str]:
    """Return label -> name of attacks: the user's label, else words and what tells them apart.

    A label that no one wrote begins with the name that the attack is registered under.

    >>> near = AttackRecord(label="entity_substitution n=-20", name="entity_substitution",
    ...                     params={"n": -20})
    >>> attack_names([near])
    {'entity_substitution n=-20': 'near names'}
    """
    by_label = {attack.label: attack for attack in attacks}
    words = {
        label: attack_words(attack) if label.startswith(attack.name) else label
        for label, attack in by_label.items()
    }
    n_of = Counter(words.values())
    names = {}
    for label, attack in by_label.items():
        rest = label.removeprefix(attack.name).strip(" _")
        is_shared = n_of[words[label]] > 1 and label.startswith(attack.name)
        names[label] = f"{words[label]} ({rest or label})" if is_shared else words[label]
    return names


def model_names(labels: Iterable[str]) -> dict[str, str]:
    """Return label -> name of models: the last part of a path unless two models share it.

    A name with spaces is no path.

    >>> model_names(["/models/a/llama", "gpt w/ passage"])
    {'/models/a/llama': 'llama', 'gpt w/ passage': 'gpt w/ passage'}
    """
    last = {
        label: label if " " in label else PurePosixPath(label.replace("\\", "/")).name or label
        for label in labels
    }
    n_of = Counter(last.values())
    return {label: label if n_of[name] > 1 else name for label, name in last.items()}


@dataclass(frozen=True, slots=True)
class Noun:
    """What is counted."""

    one: str
    many: str

    def of(self, n: int) -> str:
        """Return the noun for a number."""
        return self.one if n == 1 else self.many

    def count(self, n: int) -> str:
        """Return a number with its noun.

        >>> Noun("item", "items").count(1_200)
        '1,200 items'
        """
        return f"{n:,} {self.of(n)}"


QUESTIONS, ENTITIES = Noun("question", "questions"), Noun("entity", "entities")
PAIRS, TEXTS = Noun("pair", "pairs"), Noun("text", "texts")
DOCUMENTS, ITEMS = Noun("document", "documents"), Noun("item", "items")
DIFFERENT = Noun("different question", "different questions")
UNLINKED = Noun("pair that shares no sentence", "pairs that share no sentence")
_NOUNS = {Question.kind: QUESTIONS, SentencePair.kind: PAIRS, TaggedText.kind: ENTITIES}


def noun_of(trial: Trial) -> Noun:
    """Return what a trial is about: a question, a pair, an entity of a tagged text, an item."""
    return _NOUNS.get(trial.item.kind, ITEMS)


def right_ones(trial: Trial) -> str:
    """Return what an attack takes: right answers of questions, else entities, pairs or items."""
    noun = noun_of(trial)
    return "right answers" if noun is QUESTIONS else noun.many


def capital(text: str) -> str:
    """Return a sentence with its first letter in upper case."""
    return text[:1].upper() + text[1:]
