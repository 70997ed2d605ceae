"""Paired tests of attacks against their controls and against each other, in families."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from medstress.analyses.as_json import HIDDEN
from medstress.analyses.results import RESULTS, Row
from medstress.analyses.run import Cell, Run, contrast, pair
from medstress.analyses.scores import score_tests
from medstress.analyses.shown import Field, Shown, Table, column, label, place_labels, table
from medstress.analyses.success import with_worst_line
from medstress.core.arms import AttackRecord, Place
from medstress.stats.estimate import Estimate, benjamini_hochberg
from medstress.stats.paired import FEW, Difference

CONTROLS, SAMPLERS = "controls", "samplers"
_PAIRED = (
    "Tango's score statistic at 0, two-sided (at least the exact binomial p where fewer than "
    f"{FEW} pairs differ and no item repeats); open answers at their worst"
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


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedTests(Shown):
    """All tests of a run."""

    rows: Sequence[PairedTest]
    title = "Tests"

    def tables(self) -> Sequence[Table]:
        """Every test."""
        caption = "Paired comparisons; p is adjusted within its family (Benjamini-Hochberg)"
        return [table("tests", caption, self.rows, FIELDS, n_labels=N_LABELS)]


class PairedTestsOfRun:
    """Tests of attacks against controls, against each other, and of scores before and after."""

    name = "tests"

    def compute(self, run: Run) -> PairedTests | None:
        """Compute every test and adjust p within each family; None without any."""
        results = run.of(RESULTS)
        rows = results.attacks if results else []
        tests = [test for row in rows for test in _against_controls(run, row)]
        tests += _samplers([row.cell for row in rows if row.success is not None])
        tests += [test for row in rows for test in _before_after(row)]
        return PairedTests(rows=adjusted(tests)) if tests else None


TESTS = PairedTestsOfRun()


def _against_controls(run: Run, row: Row) -> Iterator[PairedTest]:
    tests = row.loss.tests if row.loss else {}
    controls = run.controls(row.cell)
    for name, test in tests.items():
        yield _test(CONTROLS, row.cell, controls[name].attack.label, test)


def _samplers(cells: Sequence[Cell]) -> Iterator[PairedTest]:
    """Compare the attacks of a place that have the same goal: others do not do the same."""
    of_place: dict[tuple[Place, str], list[Cell]] = defaultdict(list)
    for cell in cells:
        of_place[cell.place, goal_of(cell.attack)].append(cell)
    for same in of_place.values():
        for first, second in combinations(same, 2):
            yield _test(SAMPLERS, first, second.attack.label, flips(first, second))


def flips(first: Cell, second: Cell) -> Difference:
    """Return how much more often one attack flips than another, each within its own budget, on the
    trials that are eligible under both."""
    pairs = pair(first, second)
    ours, others = first.read("asr").at(pairs.first), second.read("asr").at(pairs.second)
    return contrast(ours, others, pairs.units)


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
    for test in score_tests(row.scores) if row.scores else ():
        yield PairedTest(
            family=test.family,
            **row.cell.place._asdict(),
            comparison=row.name,
            against="clean",
            difference=test.difference,
            p=test.p,
            method=test.method,
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


N_LABELS = 5
FIELDS: Sequence[Field[PairedTest]] = (
    column("Attack", lambda test: label(test.comparison)),
    column("Against", lambda test: label(test.against)),
    *place_labels(lambda test: test),
    column("Family", lambda test: test.family, wide=True),
    column(
        "Difference",
        lambda test: with_worst_line(test.difference),
        "score",
        tip="of shares lost, or of scores",
    ),
    column(
        "Only attack",
        lambda test: test.only_comparison,
        "count",
        tip="pairs that it alone flips",
        wide=True,
    ),
    column("Only against", lambda test: test.only_against, "count", wide=True),
    column("p", lambda test: test.p, "p", wide=True),
    column("p, adjusted", lambda test: test.p_adjusted, "p", key="p_adjusted"),
)
