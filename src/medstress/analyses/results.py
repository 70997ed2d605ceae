"""The rows of a run: one for each attack in each place, over its seeds and seed by seed.

A row is made of parts. Each part is computed from one cell by the module of its capability; the
same functions serve rows over all seeds, rows of one seed and slices. Paired tests between rows are
here too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from typing import Any, Literal

from medstress.analyses import scores, success, validity
from medstress.analyses.run import LEDGER, Analysis, Cell, Run, compared
from medstress.analyses.shown import (
    FLAT,
    HIDDEN,
    Chart,
    Field,
    OfAttack,
    Point,
    Remark,
    Shown,
    Table,
    attack_labels,
    column,
    control_words,
    label,
    named,
    noun_of,
    panel,
    place_labels,
    right_ones,
    table,
)
from medstress.analyses.success import Counts, Diversity, Knowledge, Loss, Success
from medstress.core.arms import AttackRecord, Place
from medstress.stats.estimate import Estimate, benjamini_hochberg
from medstress.stats.paired import FEW, Difference
from medstress.tasks.scores import FEWEST, MEANINGS, RIGHT, Scoring


@dataclass(frozen=True, slots=True, kw_only=True)
class Key(OfAttack):
    """What a row speaks of."""

    attack_spec: Mapping[str, Any]
    seeds: Sequence[int | None]
    control_of: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """All about one attack in one place; a part is None where it has no meaning."""

    cell: Cell = field(metadata=HIDDEN)
    key: Key = field(metadata=FLAT)
    counts: Counts = field(metadata=FLAT)
    knows: Knowledge | None = field(metadata=FLAT)
    success: Success | None = field(metadata=FLAT)
    loss: Loss | None = field(metadata=FLAT)
    validity: validity.Validity | None = field(metadata=FLAT)
    diversity: Diversity | None = field(metadata=FLAT)
    scores: scores.Scores | None = field(metadata=FLAT)
    """Of tagged texts and pairs."""
    queries: Mapping[str, int]

    @property
    def name(self) -> str:
        """The label of the attack."""
        return self.key.attack


def row_of(run: Run, cell: Cell) -> Row:
    """Assemble a row from its parts; the only place that does."""
    attack = cell.attack
    key = Key(
        **cell.labels,
        attack_spec=attack.params,
        seeds=cell.seeds,
        control_of=cell.arm.control_of,
    )
    is_attacked = attack.judged and not attack.asks_clean_only
    return Row(
        cell=cell,
        key=key,
        counts=success.counts(cell),
        knows=success.knowledge(cell) if attack.judged else None,
        success=success.success(cell) if is_attacked else None,
        loss=success.loss(run, cell) if is_attacked else None,
        validity=validity.validity(cell, unheard=run.unheard),
        diversity=success.diversity(cell),
        scores=scores.scores(run, cell),
        queries=run.ledger(cell),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Results(Shown):
    """All rows of a run."""

    rows: Sequence[Row]
    """Over seeds, controls too."""
    run: Run = field(metadata=HIDDEN)
    title = "Results"
    is_brief = True

    def by_seed(self) -> Iterator[Row]:
        """Yield the rows of every seed; one of one seed alone is also that seed's."""
        for row in self.rows:
            alone = len(row.key.seeds) == 1
            yield from [row] if alone else (row_of(self.run, one) for one in row.cell.by_seed())

    @property
    def attacks(self) -> list[Row]:
        """The rows of attacks; their controls are parts of them."""
        return [row for row in self.rows if row.key.control_of is None]

    def tables(self) -> Sequence[Table]:
        """Rates, then outcomes and queries."""
        rows = self.attacks
        rated = [row for row in rows if row.success is not None]
        clean = [row for row in rows if row.cell.attack.asks_clean_only]
        asked = [row for row in rows if not row.cell.attack.asks_clean_only]
        right = next((row.scores.scoring.right for row in rated if row.scores), RIGHT)
        fields = [*LABELS, *_rates(right), *control_fields(rated)]
        meanings = {row.scores.scoring.meanings if row.scores else MEANINGS for row in rated}
        return [
            *_score_tables(rows),
            table("results", "Results", rated, fields, notes=sorted(meanings)),
            table("answers", "Answers to the questions as they are", clean, [*LABELS[1:], *CLEAN]),
            table("outcomes", "How every trial ended", asked, [*LABELS, *COUNTS]),
            table("queries", "Queries", asked, [*LABELS, *QUERIES]),
        ]

    def charts(self) -> Sequence[Chart]:
        """What attack and controls take, and the curves over the budget."""
        rows = [row for row in self.attacks if row.success is not None]
        places = [row.cell.place for row in rows]
        bars, curves = [], []
        for row in rows:
            assert row.success is not None
            at = panel(row.cell.place, places)
            taken = {"attack": row.success.asr, **(row.loss.control if row.loss else {})}
            bars += [Point(row.name, e, control_words(name), at) for name, e in taken.items()]
            curves += [Point(one.budget, one.estimate, row.name, at) for one in row.success.asr_at]
        title, within = (
            "Lost under attack, and under harmless edits",
            "Lost within a budget of queries",
        )
        if all(point.x == 1 for point in curves):
            curves = []
        one = self.rows[0].cell.trials[0]
        lost = f"share of {right_ones(one)} lost"
        counts = f"trials: each {noun_of(one).one} once in every seed"
        return [
            *_score_charts(self.rows),
            Chart("loss", title, "bars", "attack", lost, bars, counts=counts),
            Chart("curves", within, "lines", "queries", lost, curves, log_x=True),
        ]

    def remarks(self) -> Sequence[Remark]:
        """What each part has to say of a row."""
        of_rows = (
            remark
            for row in self.attacks
            for remark in (
                *success.remarks(row.cell, row.counts, row.knows, row.loss),
                *validity.remarks(row.cell, row.validity),
            )
        )
        return [*of_rows, *_score_remarks(self.attacks)]


def results_of(run: Run) -> Results | None:
    """Compute every row."""
    return Results(rows=[row_of(run, cell) for cell in run.cells], run=run) if run.cells else None


RESULTS = Analysis("results", results_of)


def diversity_of(run: Run, cell: Cell) -> Diversity:
    """Return the diversity of a cell of a run, which its row has too."""
    results = run.of(RESULTS)
    rows = results.rows if results else ()
    kept = next((row.diversity for row in rows if row.cell is cell), None)
    return kept or success.diversity(cell)


LABELS = attack_labels("key")


def _rates(right: str) -> Sequence[Field]:
    """Return the columns of rates; `right` is what had its answer right before any edit."""
    return (
        column(
            right,
            "knows.accuracy",
            "share",
            "right before any edit, of what could be attacked",
            key=right.lower(),
        ),
        column("Chance", "knows.chance", "number", "accuracy of guessing", wide=True),
        column(
            f"{right} after",
            "knows.accuracy_after",
            "share",
            "where every lost answer counts as wrong",
            key=f"{right.lower()}_after",
            wide=True,
        ),
        column("Lost (ASR)", "success.asr", "share", "lost under attack, of what was right"),
        column(
            "Lost, valid", "validity.asr_valid", "share", "lost where the right answer stays right"
        ),
    )


_ENDED: Mapping[str, str] = {
    "Items": "n_items",
    "Trials": "n_trials",
    "Already wrong": "n_already_wrong",
    "Not attackable": "n_not_attackable",
    "Unreadable": "n_unreadable_at_baseline",
    "Eligible": "n_eligible",
    "Flipped": "n_flipped",
    "Held": "n_held",
    "Measured": "n_measured",
    "Failed": "n_failed",
    "Saw no edit": "n_never_asked",
}
CLEAN = (
    column("Accuracy", "knows.accuracy", "share", "right, of what was asked"),
    column("Chance", "knows.chance", "number", "accuracy of guessing"),
    column("Items", "counts.n_items", "count"),
    column("Right", "counts.n_eligible", "count"),
    column("Wrong", "counts.n_already_wrong", "count"),
    column("Unreadable", "counts.n_unreadable_at_baseline", "count"),
    column("Failed", "counts.n_failed_at_baseline", "count"),
)
COUNTS = [column(h, f"counts.{name}", "count") for h, name in _ENDED.items()]
QUERIES = [column(n.capitalize(), f"queries.{n}", "count") for n in LEDGER]


def control_fields(rows: Sequence[Row]) -> list[Field]:
    """Return a column for each control of some rows."""
    names = dict.fromkeys(name for row in rows if row.loss for name in row.loss.control)
    tip = "lost under harmless edits, of the same items"
    return [
        column(
            f"Harmless edits ({label(name).words})",
            f"loss.control.{name}",
            "share",
            tip,
            key=f"control_{name}",
        )
        for name in names
    ]


# Scores of whole data sets ---------------------------------------------------------------------


def _score_tables(rows: Sequence[Row]) -> list[Table]:
    """Return the scores of rows; nothing where no row has some."""
    scorings = [row.scores.scoring for row in rows if row.scores is not None]
    scored = [row for row in rows if row.scores is not None]
    if not scored:
        return []
    fields = [*LABELS, *_score_fields(scorings[0])]
    caption, notes = "Scores of the whole data set, clean and perturbed", [scorings[0].note]
    return [table("scores", caption, scored, fields, n_labels=len(LABELS), notes=notes)]


_PARTS: Mapping[str, str] = {
    "": "",
    "_after": " after",
    "_drop": " drop",
    "_net_drop": " drop, net of control",
}
"""Ending of a score's name -> that of its heading."""


def _score_fields(scoring: Scoring) -> Iterator[Field]:
    for name in scoring.shown:
        is_main = name == scoring.main
        has_drop = name in scoring.drops
        for part in ("", "_after", *["_drop"] * has_drop, *["_net_drop"] * (has_drop and is_main)):
            words, key = f"{scoring.words[name]}{_PARTS[part]}", f"{name}{part}"
            yield column(words, partial(_score, key), "score", key=key, wide=not is_main)
        if is_main:
            yield column("p", lambda row: row.scores.main.p, "p", "of the drop", key=f"{name}_p")


def _score(key: str, row: Row) -> Estimate | None:
    # No path reads it: `Scores` is a mapping itself, so that `columns` would be one of its keys.
    return None if row.scores is None else row.scores.columns.get(key)


def _score_charts(rows: Sequence[Row]) -> list[Chart]:
    """Return the main score of the clean data, under attack and under the control."""
    scored = [(row.cell, row.scores) for row in rows if row.scores and row.scores.main.before.n]
    if not scored:
        return []
    scoring, places = scored[0][1].scoring, [cell.place for cell, _ in scored]
    word, points = scoring.words[scoring.main], []
    for cell, of in scored:
        attack, marks = cell.arm.control_of, {control_words(cell.attack.name): of.main.after}
        if attack is None:
            attack, marks = cell.attack.label, {"clean": of.main.before}
            marks["under attack"] = of.main.after
        points += [
            Point(attack, mark, name, panel(cell.place, places))
            for name, mark in marks.items()
            if mark.value is not None
        ]
    # What every row has comes first, so that it has the same colours with and without controls.
    points.sort(key=lambda point: point.series not in ("clean", "under attack"))
    title, unit = f"{word} of the clean data and of perturbed copies", not scoring.is_signed
    kind: Literal["bars", "dots"] = "bars" if unit else "dots"
    counts = scoring.counts
    return [Chart("scores", title, kind, "attack", word, points, unit=unit, counts=counts)]


def _score_remarks(rows: Sequence[Row]) -> Iterator[Remark]:
    """Say what a reader of the scores of attacks has to know."""
    warned = set()
    for row in rows:
        cell, of = row.cell, row.scores
        if of is None:
            continue
        place, main, word = cell.place, of.main, of.scoring.words[of.scoring.main]
        at, attack = (*place, cell.attack.label), cell.attack.label
        clean = main.before
        if clean.value is None and len(cell.trials) >= FEWEST and place[::2] not in warned:
            warned.add(place[::2])
            sentence = f"{place.victim} on {place.dataset}: {word} is {clean.method}."
            yield Remark("answers", sentence, place)
        if of.are_few:
            sentence = (
                f"{attack}: too few {of.clusters} for an interval of {word}: {of.n_clusters}, and "
                f"{of.scoring.enough} are needed."
            )
            yield Remark("few_clusters", sentence, at)
        if not of.has_copy:
            continue
        if main.drop.value is None:
            sentence = f"{word} of {place.victim} under {attack} is {main.drop.method}."
            yield Remark("undefined_score", sentence, at)
        elif scores.is_nothing(main.drop):
            sentence = f"{word} of {place.victim} does not change under {attack}."
            yield Remark("unchanged", sentence, at, "note")
        elif main.may_be_chance:
            sentence = f"{word} of {place.victim} may differ under {attack} by chance alone."
            yield Remark("may_be_chance", sentence, at)
        elif main.net_drop.low is not None and main.net_drop.low <= 0:
            is_worse = main.net_drop.high is not None and main.net_drop.high < 0
            how = "takes more" if is_worse else "may take as much"
            sentence = f"{attack}: its control {how} of {word}."
            yield Remark("control_takes_as_much", sentence, at)


# Paired tests ----------------------------------------------------------------------------------

CONTROLS, SAMPLERS, BEFORE_AFTER = "controls", "samplers", "before_after"
_PAIRED = (
    "Tango's score statistic at 0, two-sided (at least the exact binomial p where fewer than "
    f"{FEW} items or documents differ); open answers at their worst"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedTest:
    """One comparison on the same items."""

    family: str
    """p is adjusted among the tests of one family."""
    dataset: str
    group: str
    victim: str
    comparison: str
    against: str
    difference: Estimate
    p: float | None
    """Two-sided; None where the two share nothing that counts."""
    p_adjusted: float | None = None
    method: str
    only_comparison: int | None = field(default=None, metadata=HIDDEN)
    """Pairs that only the comparison flips."""
    only_against: int | None = field(default=None, metadata=HIDDEN)
    score: str = field(default="", metadata=HIDDEN)
    """The score that falls, in words."""

    @property
    def called(self) -> str:
        """Its family, and the score that falls."""
        return f"{self.family.removesuffix(f' {self.score}')} {self.score}".strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedTests(Shown):
    """All tests of a run."""

    rows: Sequence[PairedTest]
    title = "Tests"

    def tables(self) -> Sequence[Table]:
        """Every test."""
        caption = "Paired comparisons; p is adjusted within its family (Benjamini-Hochberg)"
        return [table("tests", caption, self.rows, _TESTS)]


def tests_of(run: Run) -> PairedTests | None:
    """Test attacks against controls, against each other, and scores before and after.

    p is adjusted within each family; None where there is nothing to test.
    """
    results = run.of(RESULTS)
    rows = results.attacks if results else []
    tests = [
        _test(CONTROLS, row.cell, run.controls(row.cell)[name].attack.label, test)
        for row in rows
        for name, test in (row.loss.tests if row.loss else {}).items()
    ]
    tests += _samplers([row.cell for row in rows if row.success is not None])
    tests += [test for row in rows for test in _before_after(row)]
    return PairedTests(rows=adjusted(tests)) if tests else None


TESTS = Analysis("tests", tests_of, is_quiet=True)


def _samplers(cells: Sequence[Cell]) -> Iterator[PairedTest]:
    """Compare the attacks of a place that have the same goal: others do not do the same."""
    of_place: dict[tuple[Place, str], list[Cell]] = defaultdict(list)
    for cell in cells:
        of_place[cell.place, goal_of(cell.attack)].append(cell)
    for same in of_place.values():
        for first, second in combinations(same, 2):
            yield _test(SAMPLERS, first, second.attack.label, compared(first, second))


def goal_of(attack: AttackRecord) -> str:
    """Return when an answer counts as a success, in words; empty for any wrong answer.

    >>> goal_of(AttackRecord(label="near", name="entity_substitution", goal="B"))
    'goal B'
    """
    parts = [] if attack.goal == "untargeted" else [f"goal {attack.goal}"]
    if attack.params.get("unreadable_is_success"):
        parts.append("unreadable answers count")
    if (most := attack.params.get("max_change")) is not None:
        parts.append(f"changes above {most:g}")
    return ", ".join(parts)


def _test(family: str, cell: Cell, against: str, test: Difference) -> PairedTest:
    goal = goal_of(cell.attack)
    return PairedTest(
        family=f"{family} ({goal})" if goal else family,
        **cell.place._asdict(),
        comparison=cell.attack.label,
        against=against,
        difference=test.estimate,
        p=test.p,
        method=_PAIRED,
        only_comparison=test.only_first,
        only_against=test.only_second,
    )


def _before_after(row: Row) -> Iterator[PairedTest]:
    """Yield a test of every score that falls, each but the main one in a family of its own."""
    of = row.scores
    for name in of.scoring.falls if of and of.has_copy else ():
        if of and name in of:
            what = of.scoring.words[name]
            yield PairedTest(
                family=BEFORE_AFTER + f" {what}" * (name != of.scoring.main),
                score=what,
                **row.cell.place._asdict(),
                comparison=row.name,
                against="clean",
                difference=of[name].drop,
                p=of[name].p,
                method=f"{what} before minus after; the two swapped at random within "
                f"{of.clusters}, two-sided",
            )


def adjusted(tests: Sequence[PairedTest]) -> list[PairedTest]:
    """Adjust p within each family; tests without a p are no members."""
    families: dict[str, list[float]] = defaultdict(list)
    for test in tests:
        if test.p is not None:
            families[test.family].append(test.p)
    after = {family: iter(benjamini_hochberg(ps)) for family, ps in families.items()}
    rows = []
    for test in tests:
        if test.p is not None:
            m = len(families[test.family])
            how = f"{test.method}; Benjamini-Hochberg over the {m} tests of the family"
            test = replace(test, p_adjusted=next(after[test.family]), method=how)
        rows.append(test)
    return rows


_TESTS = (
    named("Attack", "comparison"),
    named("Against", "against"),
    *place_labels(),
    column("Family", lambda test: test.called, key="family", wide=True),
    column("Difference", "difference", "score", "of shares lost, or of scores"),
    column("Only attack", "only_comparison", "count", "pairs that it alone flips", wide=True),
    column("Only against", "only_against", "count", wide=True),
    column("p", "p", "p", wide=True),
    column("p, adjusted", "p_adjusted", "p"),
)
