"""Compare two runs, or two models of one run, on what both hold: the same items and seeds.

It takes two runs and an `Analysis` takes one, so it is a function; its result shows itself like any
other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple, get_args

from medstress.analyses.comparable import (
    FACTORS,
    Differs,
    Factor,
    check_same,
    check_stored,
    differences,
    note_on_stored,
    ways_of_answering,
)
from medstress.analyses.contrasts import (
    Called,
    Contrast,
    Decision,
    Detectable,
    Matched,
    contrasts,
)
from medstress.analyses.run import Cell, Run, pair
from medstress.analyses.shown import (
    HIDDEN,
    ITEMS,
    PAIRS,
    Entry,
    Field,
    Json,
    Noun,
    Remark,
    Shown,
    Table,
    as_json,
    attack_names,
    attack_words,
    column,
    decimal,
    table,
)
from medstress.core.errors import UsageError, did_you_mean, setting
from medstress.core.trials import Trial
from medstress.stats.estimate import Ends, Estimate, holm
from medstress.stats.paired import LEAST_UNITS
from medstress.tasks.scores import OF_ATTACKABLE

DECISIONS: tuple[Decision, ...] = get_args(Decision)
"""The one to heed first."""
_CLAUSES = {
    "accuracy_after": "accuracy after the attack is {b} in B and {a} in A",
    "accuracy": "accuracy before the attack is {b} in B and {a} in A",
    "asr": "of what both know, {b} is lost in B and {a} in A",
    "asr_net": "of what both know, {b} is lost net of {control} in B and {a} in A",
}
"""Measure -> its two values in words; those of other measures are read as scores."""
LEVEL = 0.05
"""What an adjusted p may be at most for *better* and *worse*."""
_TRIALS = Noun("trial", "trials")
OF_RUN = "#"
"""Separates a run folder from the model of it that is compared."""
LABELS = {"dataset": "data set", "group": "group", "victim": "model", "attack": "attack"}
"""What tells arms apart, and what messages call it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Side:
    """One of the two things that are compared."""

    run: Run
    victim: str | None = None
    """The only model that counts; None for all."""

    @property
    def source(self) -> str:
        """Its folder, and the model where one is named."""
        return str(self.run.folder.path) + (f"{OF_RUN}{self.victim}" if self.victim else "")

    def cells(self) -> list[Cell]:
        """Return its arms, without controls.

        Raises:
            UsageError: there is none.
        """
        cells = [c for c in self.run.attacks if self.victim in (None, c.place.victim)]
        if not cells:
            names = list(dict.fromkeys(cell.place.victim for cell in self.run.attacks))
            hint = did_you_mean(self.victim or "", names)
            models = f" (models: {', '.join(names)})" if names else ""
            raise UsageError(f"{self.source}: no trial has ended there{hint}{models}")
        return cells


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Which run is A or B."""

    folder: str
    experiment: str
    fingerprint: str
    started: str
    finished: str | None
    complete: bool
    root: str | None

    @property
    def words(self) -> str:
        """The folder, and what proves its numbers."""
        if self.root is not None:
            return f"{self.folder}, root {self.root}."
        return f"{self.folder}, no root: the run is not complete."


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison(Shown):
    """What two runs show of each other."""

    format: int = 3
    verdict: Decision
    """Of all rows that decide: the one to heed."""
    fails: bool
    """Whether the exit code is 3."""
    sentence: str
    factor: Factor
    metric: str
    margin: float | None
    a: Source
    b: Source
    differs: Sequence[Differs]
    rows: Sequence[Contrast]
    """Those that decide first."""
    notes: Sequence[str]
    called: Called = field(metadata=HIDDEN)
    title = "B against A"

    @property
    def deciding(self) -> list[Contrast]:
        """The rows that decide."""
        return [row for row in self.rows if row.decides]

    def tables(self) -> Sequence[Table]:
        """What decides, then the other measures."""
        fields = _fields(self.rows, self.called)
        others = [row for row in self.rows if not row.decides]
        caption = "B against A, on the same items and seeds"
        notes = ["* for names like these"] * any(row.names_like_these for row in self.deciding)
        notes += [OF_ATTACKABLE] * any(row.metric == "accuracy_after" for row in self.rows)
        tables = [table("comparison", caption, self.deciding, fields, notes=notes)]
        return [*tables, table("others", "Other measures", others, fields)] if others else tables

    def remarks(self) -> Sequence[Remark]:
        """What differs, and what a reader of the numbers has to know."""
        words = (d.words for d in self.differs)
        listed = "; ".join(f"{what} ({a} in A, {b} in B)" for what, a, b in words)
        differs = f"A and B differ in {listed}." if listed else "Nothing that is recorded differs."
        texts = [differs, *self.notes, f"A: {self.a.words}", f"B: {self.b.words}"]
        return [Remark(rule="compared", sentence=text, level="note") for text in texts]

    def lines(self) -> list[str]:
        """Return the comparison in sentences, the decision first."""
        rows = [row.sentence for row in self.deciding] if len(self.deciding) > 1 else []
        return [self.sentence, *rows, *(remark.sentence for remark in self.remarks())]

    def as_json(self) -> Json:
        """Return the comparison as `compare --json` writes it."""
        return as_json(self)


def open_sides(a: Path, b: Path) -> tuple[Side, Side]:
    """Open what is compared: run folders, or `DIR#victim` for a model of a run with several.

    Raises:
        UsageError: both are the same.
        StoreError: a folder holds no run, or it cannot be read.
    """
    places = [_place(path) for path in (a, b)]
    if places[0][0].resolve() == places[1][0].resolve() and places[0][1] == places[1][1]:
        raise UsageError(
            f"{a} is given twice: a run cannot be compared with itself. Give two run folders, or "
            f"two models of one run as DIR{OF_RUN}victim"
        )
    runs = {folder: Run.open(folder) for folder in dict.fromkeys(place[0] for place in places)}
    first, second = (Side(run=runs[folder], victim=victim) for folder, victim in places)
    return first, second


def _place(path: Path) -> tuple[Path, str | None]:
    folder, mark, victim = str(path).rpartition(OF_RUN)
    return (Path(folder), victim) if mark and not path.exists() else (path, None)


def compare(
    first: Side,
    second: Side,
    *,
    factor: Factor = "victim",
    metric: str | None = None,
    margin: float | None = None,
) -> Comparison:
    """Compare what two sides hold.

    Args:
        first: A.
        second: B.
        factor: what may differ: the model, the attack, or what the attack draws its names from.
        metric: the measure that decides. Default: accuracy after the attack, because of two models
            the one that knows more may lose more of what both know; for attacks and groups, asr.
        margin: the largest difference that does not matter, in (0, 1).

    Raises:
        UsageError: nothing can be compared, and why.
    """
    if factor not in FACTORS:
        raise UsageError(f"factor = {factor!r}: expected one of {', '.join(FACTORS)}")
    if margin is not None and not 0 < margin < 1:
        raise UsageError(
            f"margin = {margin}: expected a difference between 0 and 1, such as 0.02 for two of "
            "100 answers"
        )
    arms = _matched(first, second)
    differs: dict[Differs, None] = {}
    notes: dict[str, None] = {}
    matched: list[Matched] = []
    rows: list[Contrast] = []
    for a, b in arms:
        pairs = pair(a, b, _content_key(a, b))
        between = differences(first.run, a, second.run, b, pairs)
        check_same(between, factor, a.attack.label)
        if factor != "victim" and not any(d.factor == factor for d in between):
            notes[f"{a.attack.label}: the same in both, so left out."] = None
            continue
        spec = check_stored([(first.run, a), (second.run, b)], metric)
        if spec is not None:
            notes[f"{note_on_stored(spec)}."] = None
        differs |= dict.fromkeys(between)
        arm = Matched(
            *(first.run, second.run, a, b, pairs),
            is_stored=spec is not None,
            is_of_one_model=all(d.factor != "victim" for d in between) and factor != "victim",
        )
        matched.append(arm)
        rows += contrasts(arm, is_of_models=factor == "victim", metric=metric, margin=margin)
    if not matched:
        raise UsageError(
            f"nothing can be compared: no {factor} differs between A and B; without "
            f"{setting('factor')} their models are compared"
        )
    if not rows:
        raise UsageError(
            "nothing can be compared: A and B have no trial of the same item and seed that can "
            "be lost"
        )
    _check_decidable(rows, metric)
    called = _called(first.run, second.run)
    is_of_one_model = all(arm.is_of_one_model for arm in matched)
    if factor != "victim" and not is_of_one_model:
        note = f"Not only the {factor} differs, so part of the difference may be the model's."
        notes[note] = None
    words = _Words(is_of_one_model, margin, _why_open(first, second), _varying(rows), called)
    rows = [words.settled(row) for row in _adjusted(rows)]
    deciding = [row for row in rows if row.decides]
    verdict = min((row.verdict for row in deciding), key=DECISIONS.index)
    n = sum(row.verdict == verdict for row in deciding)
    several = f"{verdict.capitalize()} in {n} of {len(deciding)} results."
    return Comparison(
        verdict=verdict,
        fails=any(fails(row.verdict, margin) for row in deciding),
        sentence=deciding[0].sentence if len(deciding) == 1 else several,
        factor=factor,
        metric=", ".join(dict.fromkeys(row.metric for row in deciding)),
        margin=margin,
        a=_source(first),
        b=_source(second),
        differs=list(differs),
        rows=[*deciding, *(row for row in rows if not row.decides)],
        notes=[
            *notes,
            *ways_of_answering(differs),
            *_notes(first, second, matched, deciding),
        ],
        called=called,
    )


def fails(verdict: Decision, margin: float | None) -> bool:
    """Return whether a verdict is one to stop at.

    Without a margin only *worse* is. With one, all that does not show B to be no worse than it.
    """
    is_open = verdict in ("undecided", "nothing to compare")
    return verdict == "worse" or (margin is not None and is_open)


def _matched(first: Side, second: Side) -> list[tuple[Cell, Cell]]:
    """Pair arms by their labels; a side's only label of a kind matches any.

    Raises:
        UsageError: a kind of label has nothing in common.
    """
    cells = first.cells(), second.cells()
    labels = [[(*cell.place, cell.attack.label) for cell in own] for own in cells]
    same: list[dict[str, str]] = []
    for i, what in enumerate(LABELS.values()):
        one, other = (list(dict.fromkeys(label[i] for label in own)) for own in labels)
        shared = {label: label for label in one if label in other}
        if not shared and len(one) == len(other) == 1:
            shared = {one[0]: other[0]}
        if not shared:
            raise UsageError(
                f"nothing can be compared: A has the {what} {', '.join(map(repr, one))}, B has "
                f"{', '.join(map(repr, other))}; "
                "give the same thing the same label in both"
            )
        same.append(shared)
    partners = dict(zip(labels[1], cells[1], strict=True))
    arms = []
    for cell, own in zip(cells[0], labels[0], strict=True):
        wanted = tuple(shared.get(label) for shared, label in zip(same, own, strict=True))
        if wanted in partners:
            arms.append((cell, partners[wanted]))
    if not arms:
        raise UsageError(
            f"nothing can be compared: {first.source} and {second.source} have no data set, group, "
            "model and attack in common under which both have finished trials"
        )
    return arms


def _content_key(*cells: Cell) -> Callable[[Trial], tuple[str, int, str, int]]:
    """Return what pairs trials of two runs: the item's content, its rank among its like, the part.

    Identifiers of one item may differ between runs; items of one content are told apart by rank.
    """
    keys: dict[int, tuple[str, int, str, int]] = {}
    for cell in cells:
        ids: dict[str, set[str]] = defaultdict(set)
        for trial in cell.trials:
            ids[trial.item.hash].add(trial.item.id)
        rank = {(h, item): n for h, same in ids.items() for n, item in enumerate(sorted(same))}
        for t in cell.trials:
            keys[id(t)] = (t.item.hash, rank[t.item.hash, t.item.id], t.unit, t.repeat)
    return lambda trial: keys[id(trial)]


def _adjusted(rows: Sequence[Contrast]) -> list[Contrast]:
    """Adjust p by Holm, over the rows that decide and over the others."""
    adjusted = list(rows)
    for decides in (True, False):
        family = [(k, row.p) for k, row in enumerate(rows) if row.decides == decides]
        tested = [(k, p) for k, p in family if p is not None]
        for (k, _), p in zip(tested, holm([p for _, p in tested]), strict=True):
            adjusted[k] = replace(rows[k], p_adjusted=p)
    return adjusted


def _verdict(row: Contrast) -> Decision:
    """Return what is shown of B; better and worse need an adjusted p of .05 at most as well."""
    claims = row.claims
    if row.p_adjusted is None or row.p_adjusted > LEVEL:
        claims -= {"better", "worse"}
    if not row.n_pairs:
        return "nothing to compare"
    if "worse" in claims:
        return "worse by less than the margin" if "no worse" in claims else "worse"
    if "better" in claims:
        return "better"
    if "equivalent" in claims:
        return "equivalent within the margin"
    return "no worse than the margin" if "no worse" in claims else "undecided"


def _why_undecided(row: Contrast, margin: float | None) -> str:
    """Return why a row shows nothing, by the first rule that it does not pass."""
    low, high = row.decisive.low, row.decisive.high
    if row.doubt:
        return row.doubt
    if low is None or high is None:
        return "there is no interval"
    if low <= 0 <= high:
        return "the interval reaches 0" + (" and lies beyond the margin" if margin else "")
    if row.n_differ is not None and row.n_differ < LEAST_UNITS:
        return f"{ITEMS.count(row.n_differ)} differ, and fewer than {LEAST_UNITS} may be chance"
    if row.p_adjusted is None or row.p_adjusted > LEVEL:
        return f"p is above {decimal(LEVEL)}"
    return "answers that are unreadable, failed or were never asked for leave it open"


def _check_decidable(rows: Sequence[Contrast], metric: str | None) -> None:
    """Check that something decides.

    Raises:
        UsageError: no row has the measure, or nothing is known of the pairs that have it.
    """
    deciding = [row for row in rows if row.decides]
    if not deciding:
        names = list(dict.fromkeys(row.metric for row in rows))
        control = "no control in common; " if metric == "asr_net" else ""
        raise UsageError(
            f"{setting('metric', metric)}: nothing that both runs hold has it; {control}expected "
            f"one of {', '.join(names)}{did_you_mean(str(metric), names)}"
        )
    kept = [row for row in deciding if row.n_pairs]
    if not kept:
        raise UsageError(
            f"nothing can be compared by {deciding[0].metric}: the models know no common item "
            "before the attack"
        )
    if all(row.n_open == row.n_pairs for row in kept):
        n = sum(row.n_open for row in kept)
        raise UsageError(
            f"nothing can be compared: in each of the {PAIRS.count(n)} that decide a call failed "
            "or no edit was shown; mend what failed and run the same command again"
        )


def _why_open(first: Side, second: Side) -> str | None:
    """Return why nothing is decided whatever the numbers are; None if both runs are complete."""
    sides = zip("AB", (first, second), strict=True)
    names = [name for name, side in sides if not side.run.is_complete]
    if first.run is second.run and names:
        return "the run is not complete"
    return f"the run of {' and that of '.join(names)} is not complete" if names else None


def _called(first: Run, second: Run) -> Called:
    """Return the names of attacks in A and in B, where one label may be of two attacks."""
    every = attack_names(cell.attack for run in (first, second) for cell in run.attacks)
    a, b = (attack_names(cell.attack for cell in run.attacks) for run in (first, second))
    other = {cell.attack.label: cell.attack for cell in second.attacks}
    shared = [cell.attack for cell in first.attacks if cell.attack.label in other]
    both = {one.label for one in shared if attack_words(one) != attack_words(other[one.label])}
    own_a, own_b = ({label: names[label] for label in both} for names in (a, b))
    return every | own_a, every | own_b


def _varying(rows: Sequence[Contrast]) -> frozenset[str]:
    """Return the labels in which rows differ."""
    return frozenset(name for name in LABELS if len({row.labels(name) for row in rows}) > 1)


class _Words(NamedTuple):
    """What the sentences of a comparison share."""

    is_of_one_model: bool
    margin: float | None
    why_open: str | None
    varying: frozenset[str]
    called: Called

    def settled(self, row: Contrast) -> Contrast:
        """Return a row with its verdict and its sentence: by which numbers, and what n can see."""
        verdict = _verdict(row) if self.why_open is None or not row.n_pairs else "undecided"
        why = (self.why_open or _why_undecided(row, self.margin)) if verdict == "undecided" else ""
        if verdict == "equivalent within the margin":
            why = f"90 % interval{_ends(row.interval90)}"
        if not row.n_pairs:
            text = f"Nothing to compare {self.place(row)}: no pair has {row.measure!r}."
            return replace(row, verdict=verdict, sentence=text)
        clause = _CLAUSES.get(row.metric, f"{row.measure} is {{b}} in B and {{a}} in A").format(
            a=decimal(row.value_a.value),
            b=decimal(row.value_b.value),
            control=(row.control or "").replace("_", " "),
        )
        change = f"difference {decimal(row.difference.value)}{_ends(row.difference.ends)}"
        if (like := row.names_like_these) is not None:
            change += f" for exactly these names and{_ends(like.ends)} for names like these"
        if row.difference.low is None:
            change += f", {row.difference.method}"
        if why and verdict != "undecided":
            change += f", {why}"
        if row.p_adjusted is not None:
            p = row.p_adjusted
            change += ", p < .001" if p < 0.001 else f", p = {decimal(p)}"
        n = row.noun.count(row.n_items)
        pairs = n if row.n_pairs == row.n_items else f"{row.n_pairs:,} pairs of {n}"
        text = f"{self.shown(verdict, why)} {self.place(row)}: {clause} ({change}; {pairs})."
        if row.n_open:
            text += f" In {PAIRS.count(row.n_open)} a call failed or no edit was shown."
        if row.doubt and verdict != "undecided":
            text += f" {row.doubt[0].upper()}{row.doubt[1:]}."
        if row.power and verdict == "undecided":
            text += f" {_power(row.power, of_names=row.names_like_these is not None)}"
        return replace(row, verdict=verdict, sentence=text, why=why)

    def shown(self, verdict: Decision, why: str) -> str:
        """Return what is shown, to be followed by where; or why nothing is."""
        subject = "The model is" if self.is_of_one_model else "B is"
        other = "under B than under A" if self.is_of_one_model else "than A"
        margin = f"the margin of {decimal(self.margin)}"
        words: Mapping[Decision, str] = {
            "better": f"{subject} better {other}",
            "worse": f"{subject} worse {other}",
            "worse by less than the margin": f"{subject} worse {other}, by less than {margin},",
            "no worse than the margin": f"{subject} no worse {other} by more than {margin}",
            "equivalent within the margin": f"A and B are equivalent within {margin}",
        }
        return words.get(verdict, f"Undecided, as {why},")

    def place(self, row: Contrast) -> str:
        """Return where a row was measured: the attack, and what else differs among rows."""
        attack = row.labels("attack", self.called)
        more = (row.labels(name) for name in LABELS if name in self.varying - {"attack"})
        return ", ".join(("on clean items" if attack == "none" else f"under {attack}", *more))


def _power(power: Sequence[Detectable], *, of_names: bool) -> str:
    able = [one for one in power if one.difference is not None]
    if not able:
        return "With so few pairs no difference is found with 80 % power."
    # As many pairs differ as the difference needs at least.
    parts = dict.fromkeys(
        f"{decimal(one.difference)} {'if' if one.is_assumed else 'where'} "
        f"{decimal(max(one.discordance, one.difference or 0.0))} of the pairs differ"
        for one in able
    )
    more = " for exactly these names; names like these take more" if of_names else ""
    return f"With so many pairs 80 % power finds a difference of {' or '.join(parts)}{more}."


def _ends(ends: Ends) -> str:
    low, high = ends
    return "" if low is None or high is None else f" [{decimal(low)}, {decimal(high)}]"


def _notes(
    first: Side, second: Side, matched: Sequence[Matched], deciding: Sequence[Contrast]
) -> Iterator[str]:
    """Yield what a reader of the numbers has to know."""
    if worst := max(row.n_worst for row in deciding):
        yield (
            "An unreadable, failed or missing answer counts against the model in "
            f"{_TRIALS.count(worst)} of a result that decides, so shares may differ from those of "
            "the summary."
        )
    for i, (name, side) in enumerate(zip("AB", (first, second), strict=True)):
        if not side.run.is_complete:
            yield (
                f"The run of {name} is not complete: what both hold is compared, and trials "
                "that end early are over-represented in it."
            )
        cells = [(arm.b, arm.pairs.second) if i else (arm.a, arm.pairs.first) for arm in matched]
        lost = [
            trial.item
            for cell, paired in ((cell, frozenset(own.tolist())) for cell, own in cells)
            for j, trial in enumerate(cell.trials)
            if j not in paired
        ]
        if lost:
            hashes = {
                item.id: item.hash for item in (first, second)[1 - i].run.folder.items.values()
            }
            n_other = sum(hashes.get(item.id, item.hash) != item.hash for item in lost)
            why = f" ({n_other:,} have the same id, and another text or other names marked)"
            yield (
                f"{_TRIALS.count(len(lost))} of {name} without a counterpart on the same item "
                f"and seed{why if n_other else ''}: left out."
            )
        used = {id(cell) for cell, _ in cells}
        alone = [", ".join((*c.place, c.attack.label)) for c in side.cells() if id(c) not in used]
        if alone:
            more = f" and {len(alone) - 3} more" if len(alone) > 3 else ""
            yield f"Not compared, as only {name} has it: {'; '.join(alone[:3])}{more}."


def _source(side: Side) -> Source:
    run, folder = side.run, side.run.folder
    return Source(
        folder=side.source,
        experiment=run.name,
        fingerprint=run.manifest["fingerprint"],
        started=run.manifest["started"],
        finished=run.manifest["finished"],
        complete=run.is_complete,
        root=folder.root if run.is_complete else None,
    )


def _fields(rows: Sequence[Contrast], called: Called) -> list[Field]:
    """Return the columns; labels that all rows share are for wide screens."""
    varying = _varying(rows)

    def label(name: str) -> Field:
        heading = LABELS[name].capitalize()
        return column(heading, lambda row: row.labels(name, called), wide=name not in varying)

    def deciding(row: Contrast) -> Entry:
        if row.names_like_these is None:
            return Entry(value=row.difference)
        return Entry(value=row.names_like_these, mark="*")

    def these(row: Contrast) -> Estimate | None:
        return None if row.names_like_these is None else row.difference

    def shown(row: Contrast) -> Entry:
        undefined = row.difference.method if row.difference.value is None else ""
        return Entry(value=row.verdict, lines=tuple(filter(None, (row.why, undefined))))

    def only(row: Contrast) -> str | None:
        return None if row.only_a is None else f"{row.only_a:,} / {row.only_b:,}"

    return [
        column("Measure", "measure"),
        *map(label, reversed(LABELS)),
        column("A", "value_a.value", "score", key="A"),
        column("B", "value_b.value", "score", key="B"),
        column("B − A", deciding, "score"),
        column("B − A, these names", these, "score", wide=True),
        column("Only A / only B", only, wide=True),
        column("p", "p_adjusted", "p", "adjusted by Holm"),
        column("B is", shown),
    ]
