"""Whether single successes are more than chance: stored tests against neutral edits (METHODS 2.6).

T is how likely the model is to give the right answer, from fresh samples. A control is as hard as
the attack where its T is no larger. Tests with the same settings and the same goal are one family,
over all places of the run, because p-values that are looked at together are adjusted together.

References:
    Ness et al., "MedFuzz", 2024, Algorithm 2.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp
from operator import attrgetter
from typing import Any

from medstress.analyses.as_json import HIDDEN
from medstress.analyses.families import (
    LEVEL,
    Adjust,
    Attainable,
    Null,
    Scope,
    Statistic,
    cost_of,
    plan_of,
    settings_key,
)
from medstress.analyses.run import Run
from medstress.analyses.shown import (
    Chart,
    Entry,
    Field,
    Form,
    Point,
    Remark,
    Shown,
    Table,
    column,
    label,
    panel,
    table,
    where,
)
from medstress.core.arms import Place
from medstress.core.trials import Trial
from medstress.stats.estimate import Estimate
from medstress.stats.means import difference_of_few
from medstress.stats.permutation import p_values
from medstress.store.reader import StoredInquiry

PURPOSE = "test"
SCOPES, REFUSED = "tests", "refused: "
"""Manifest entry: settings of tests -> the family, or this word and why they could not be used."""
GUESS = 0.5
"""A success is marked a guess where P(right answer) of the clean item is below this."""
NOT_VALID = "people find that the right answer is no longer right: left out of the family"


@dataclass(frozen=True, slots=True, kw_only=True)
class SuccessTest:
    """The test of one success; numbers are None where it ended early."""

    trial: Trial = field(metadata=HIDDEN)
    trial_id: str
    p: float | None = None
    """p = (1 + count) / (n_controls + 1); 10 / n_controls where it ended at ten as hard."""
    p_adjusted: float | None = None
    """None too for a success that is no member of the family."""
    p_paper: str | None = None
    """The paper's share of controls as hard, without the +1: no p-value where it is `< 1/n`."""
    count: int | None = None
    """Controls at least as hard as the attack."""
    n_controls: int | None = None
    t_original: float | None = None
    t_attack: float | None = None
    effect: Estimate | None = None
    """t_original - t_attack."""
    guess: bool | None = None
    """Whether P(right answer) of the clean item, or else T of it, is below .5."""
    calls: int = 0
    """Calls of models and roles that the test took."""
    note: str | None = None
    """Why there is no p, or no place in the family."""
    n_distinct: int | None = field(default=None, metadata=HIDDEN)
    """How many controls the distinct texts make up; None if no text repeats."""
    statistic: Statistic | None = field(default=None, metadata=HIDDEN)
    most: int = field(default=0, metadata=HIDDEN)
    """The most controls that it would have drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Tests whose p-values are adjusted together."""

    null: Null
    adjust: Adjust
    items: Sequence[str]
    """The items that were named before the first query; empty for all."""
    n_successes: int
    n_attacked: int
    n_refused: int
    """Successes that people find invalid; they count as held."""
    n_tested: int
    n_not_testable: int
    """Successes whose test could not be finished, so that they are no members."""
    n_family: int
    n_guesses: int
    n_significant: int
    """Tests with p <= .05."""
    n_discoveries: int
    """Tests whose adjusted p is at most the level."""
    smallest_p: float
    smallest_p_adjusted: float | None
    """What the family can show at best; None without a finished test."""
    n_needed: int | None
    """How many successes must sit at `smallest_p` for one discovery."""
    shortfall: str | None
    """Why nothing can be shown, and what it takes; None if something can."""

    @property
    def n_open(self) -> int:
        """Successes that are not tested yet; they count in the family with p = 1."""
        return max(0, self.n_successes - self.n_tested - self.n_not_testable)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmTests:
    """The tests of one attack on one model."""

    place: Place = field(metadata=HIDDEN)
    family: Family = field(metadata=HIDDEN)
    dataset: str
    victim: str
    attack: str
    null: Null
    n_family: int
    """Tests that p-values are adjusted over; families reach over attacks and models."""
    items: Sequence[SuccessTest]


def tested(trial: Trial, one: StoredInquiry) -> SuccessTest:
    """Return the test of one success, not adjusted yet."""
    findings, spec = one.findings, one.spec
    p_clean = _p_clean(trial)
    empty = SuccessTest(
        trial=trial,
        trial_id=trial.id,
        calls=one.calls,
        guess=None if p_clean is None else p_clean < GUESS,
        note=NOT_VALID if trial.is_refused else one.note,
    )
    if findings is None:
        return empty
    effect = difference_of_few(findings["original"], findings["fuzz"])
    t_original = sum(findings["original"]) / len(findings["original"])
    as_hard = [bool(hard) for hard in findings["as_hard"]]
    values = p_values(as_hard, plan_of(spec, findings), findings["n_distinct"])
    return replace(
        empty,
        p=values.p,
        p_paper=values.paper_text,
        count=values.count,
        n_controls=values.n_controls,
        t_original=t_original,
        t_attack=t_original - (effect.value or 0.0),
        effect=effect,
        guess=t_original < GUESS if empty.guess is None else empty.guess,
        n_distinct=findings["n_distinct"],
        statistic=Statistic(findings["statistic"]),
        most=findings["most"],
    )


def _p_clean(trial: Trial) -> float | None:
    before = trial.before
    if before is None or before.scores is None:
        return None
    return exp(before.scores[trial.item.letters.index(trial.item.key)])


def family_of(trials: Iterable[Trial], some: Iterable[Trial], scope: Scope) -> list[Trial]:
    """Return all trials of a family: those of the arms of some of them, tested or not.

    If only tested trials counted, testing few would make a family small.
    """
    arms = {(trial.arm.place, trial.arm.attack.label) for trial in some}
    return [t for t in trials if (t.arm.place, t.arm.attack.label) in arms and scope.holds(t)]


def family_counts(family: Iterable[Trial]) -> tuple[int, int]:
    """Count successes that people do not refuse, and attacked trials."""
    members = list(family)
    successes = sum(t.first is not None and not t.is_refused for t in members)
    return successes, sum(t.is_eligible for t in members)


def adjusted(
    tests: Sequence[SuccessTest],
    trials: Sequence[Trial],
    settings: Mapping[str, Any],
    scope: Scope,
) -> tuple[Family, list[SuccessTest]]:
    """Adjust the p-values of one family.

    A success without a test has no p-value, but counts in the family with p = 1; one whose test
    could not be finished is no member.

    Args:
        tests: of trials of one family, and of others with the same settings.
        trials: of the run.
        settings: of the tests.
        scope: says which trials are members, and how p-values are adjusted.
    """
    null = Null(settings["null"])
    family = family_of(trials, [one.trial for one in tests], scope)
    inside = {trial.id for trial in family}
    members = [one for one in tests if one.trial_id in inside and not one.trial.is_refused]
    done = [one for one in members if one.p is not None]
    n_successes, n_attacked = family_counts(family)
    n_failed = len(members) - len(done)
    n_family = (n_attacked if null.counts_attacked else n_successes) - n_failed
    ps = [one.p for one in done if one.p is not None]
    after = dict(zip((one.trial_id for one in done), scope.adjust.of(ps, n_family), strict=True))
    most = max((one.most for one in done), default=plan_of(settings).most)
    # Where texts repeat, more controls do not make p smaller.
    n_distinct = max((min(most, one.n_distinct or most) for one in done), default=most)
    best = Attainable(
        n_tested=len(done),
        n_family=n_family,
        p_min=1 / (n_distinct + 1),
        adjust=scope.adjust,
        repeated=n_distinct < most,
    )
    return (
        Family(
            null=null,
            adjust=scope.adjust,
            items=scope.items,
            n_successes=n_successes,
            n_attacked=n_attacked,
            n_refused=sum(trial.is_refused for trial in family),
            n_tested=len(done),
            n_not_testable=n_failed,
            n_family=n_family,
            n_guesses=sum(bool(one.guess) for one in done),
            n_significant=sum(p <= LEVEL for p in ps),
            n_discoveries=sum(p <= scope.adjust.level for p in after.values()),
            smallest_p=best.p_min,
            smallest_p_adjusted=best.smallest if done else None,
            n_needed=best.n_needed if done else None,
            shortfall=_shortfall(best, done, settings) if done else None,
        ),
        [replace(one, p_adjusted=after.get(one.trial_id)) for one in tests],
    )


def _shortfall(
    best: Attainable, done: Sequence[SuccessTest], settings: Mapping[str, Any]
) -> str | None:
    """Return why a family cannot show anything; where the price is bounded, by its `max_calls`."""
    if settings["controls"] != "adaptive":
        return best.shortfall()
    costs = [
        cost_of(
            Null(settings["null"]),
            one.trial.arm.attack.attempts or 1,
            one.statistic,
            written=settings["generator"] == "attacker",
        )
        for one in done
        if one.statistic is not None
    ]
    return best.shortfall(lambda n_controls: max(cost.needed(n_controls) for cost in costs))


def scopes_of(manifest: Mapping[str, Any]) -> tuple[dict[str, Scope], list[str]]:
    """Return the family of tests by their settings, and why other settings could not be used."""
    scopes: dict[str, Scope] = {}
    refused: list[str] = []
    for key, stored in manifest.get(SCOPES, {}).items():
        if isinstance(stored, str):
            refused.append(stored.removeprefix(REFUSED))
        else:
            scopes[key] = Scope(adjust=Adjust(stored["adjust"]), items=tuple(stored["items"]))
    return scopes, refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Significance(Shown):
    """All tests of successes."""

    rows: Sequence[ArmTests]
    families: Sequence[Family]
    refused: Sequence[str]
    """Why tests with other settings were not made."""
    title = "Tests of successes"
    is_brief = True

    def tables(self) -> Sequence[Table]:
        """What every family shows, then every test."""
        if not self.families:
            return ()
        cautions = dict.fromkeys(family.null.caution for family in self.families)
        notes = (
            "Discoveries: tests whose adjusted p is up to .10 (Benjamini-Hochberg) or .05 (Holm, "
            "or nothing). A success without a test counts in the family with p = 1. Needed: how "
            "many successes must sit at the smallest p for one discovery. Guesses: successes on "
            "questions that the model hardly knew.",
            *cautions,
        )
        tests = [(row, one) for row in self.rows for one in row.items]
        meant = (
            "T: how likely the model is to give the right answer, from fresh samples. The paper's "
            "p is the share of controls at least as hard; below 1/n it is no p-value."
        )
        caption = "Are single successes more than chance?"
        return [
            table("significance", caption, self.families, _FAMILIES, notes=notes),
            table(
                "tests-of-successes",
                "Every test of a success",
                tests,
                _TESTS,
                n_labels=4,
                notes=[meant],
            ),
        ]

    def charts(self) -> Sequence[Chart]:
        """How much every tested success lowers T."""
        places = [row.place for row in self.rows]
        points = tuple(
            Point(
                x=_number(one),
                y=one.effect,
                series=row.attack,
                panel=panel(row.place, places),
                tip="" if one.p_adjusted is None else f"adjusted p {one.p_adjusted:.3g}",
            )
            for row in self.rows
            for one in row.items
            if one.effect is not None
        )
        if not points:
            return ()
        return [
            Chart(
                name="effects",
                title="What each tested success takes from P(right answer)",
                kind="dots",
                x="question",
                y="T of the question - T under attack",
                points=points,
                unit=False,
            )
        ]

    def remarks(self) -> Sequence[Remark]:
        """What could not be tested, and what could not be shown."""
        return list(self._remarks())

    def _remarks(self) -> Iterator[Remark]:
        for why in self.refused:
            yield Remark(rule="not_tested", sentence=f"Successes were not tested: {why}.")
        for family in self.families:
            if family.shortfall:
                yield Remark(
                    rule="shows_nothing",
                    sentence=f"Tests of successes, null {family.null}: {family.shortfall}.",
                )
        for row in self.rows:
            at = where(row.place, row.attack)
            failed = [one for one in row.items if one.p is None and not one.trial.is_refused]
            if failed:
                yield Remark(
                    rule="not_testable",
                    where=at,
                    sentence=f"{row.attack}: {len(failed):,} successes could not be tested, such "
                    f"as that on {failed[0].trial.item.id!r}: {failed[0].note}.",
                )
            if repeated := [one for one in row.items if one.n_distinct is not None]:
                least = max(one.n_distinct or 0 for one in repeated)
                yield Remark(
                    rule="repeated_controls",
                    where=at,
                    level="note",
                    sentence=f"{row.attack}: the controls of {len(repeated):,} tests repeat texts, "
                    f"so that p is at least 1/{least + 1} there.",
                )


class SignificanceOfSuccesses:
    """Stored tests of successes."""

    name = "significance"

    def compute(self, run: Run) -> Significance | None:
        """Adjust the stored tests family by family; None where nothing was tested or refused."""
        scopes, refused = scopes_of(run.manifest)
        trials = {trial.id: trial for trial in run.trials}
        by_family: dict[tuple[str, str], dict[str, SuccessTest]] = defaultdict(dict)
        for one in run.folder.inquiries:
            trial = trials.get(str(one.spec.get("trial")))
            if one.purpose == PURPOSE and trial is not None:
                family_key = settings_key(one.spec), trial.arm.attack.goal
                by_family[family_key][trial.id] = tested(trial, one)
        if not by_family and not refused:
            return None
        families, rows = [], []
        for (key, _), by_trial in by_family.items():
            in_order = [by_trial[trial.id] for trial in run.trials if trial.id in by_trial]
            scope = scopes.get(key, Scope())
            family, tests = adjusted(in_order, run.trials, json.loads(key), scope)
            families.append(family)
            rows += _by_arm(family, tests)
        return Significance(rows=rows, families=families, refused=refused)


SIGNIFICANCE = SignificanceOfSuccesses()


def _by_arm(family: Family, tests: Iterable[SuccessTest]) -> list[ArmTests]:
    by_arm: dict[tuple[Place, str], list[SuccessTest]] = defaultdict(list)
    for one in tests:
        by_arm[one.trial.arm.place, one.trial.arm.attack.label].append(one)
    return [
        ArmTests(
            place=place,
            family=family,
            dataset=place.dataset,
            victim=place.victim,
            attack=attack,
            null=family.null,
            n_family=family.n_family,
            items=own,
        )
        for (place, attack), own in sorted(by_arm.items(), key=lambda pair: pair[0])
    ]


def _number(one: SuccessTest) -> str:
    """Return the item of a test, with its run where there are several."""
    trial = one.trial
    return f"{trial.item.id}, run {trial.repeat + 1}" if trial.repeat else str(trial.item.id)


def _members(family: Family) -> Entry:
    of = "attacked questions" if family.null.counts_attacked else "successes"
    named = f" on {', '.join(family.items)}" if family.items else ""
    return Entry(value=family.n_family, lines=(of + named,))


_FAMILIES: Sequence[Field[Any]] = (
    column("Null", lambda family: str(family.null)),
    column("Tested", "n_tested", "count"),
    column("Successes", "n_successes", "count"),
    column("Adjusted over", _members, "count", key="n_family"),
    column("By", lambda family: family.adjust.words),
    column("p up to .05", "n_significant", "count", wide=True),
    column("Discoveries", "n_discoveries", "count"),
    column("Guesses", "n_guesses", "count", wide=True),
    column("Not testable", "n_not_testable", "count", wide=True),
    column("Found invalid", "n_refused", "count", tip="by people; left out", wide=True),
    column("Smallest p", "smallest_p", "p", tip="that can be reached", wide=True),
    column("Smallest adjusted p", "smallest_p_adjusted", "p", tip="that can be reached"),
    column("Needed", "n_needed", "count", tip="successes at the smallest p", wide=True),
)


def _test(heading: str, name: str, form: Form, *, tip: str = "", wide: bool = False) -> Field[Any]:
    read = attrgetter(name)
    return column(heading, lambda pair: read(pair[1]), form, tip=tip, key=name, wide=wide)


_TESTS: Sequence[Field[Any]] = (
    column("Question", lambda pair: _number(pair[1])),
    column("Model", lambda pair: label(pair[0].victim)),
    column("Attack", lambda pair: label(pair[0].attack), wide=True),
    column("Null", lambda pair: str(pair[0].null), wide=True),
    _test("T clean", "t_original", "number"),
    _test("T attacked", "t_attack", "number"),
    _test("Difference", "effect", "score", wide=True),
    _test("As hard", "count", "count", tip="controls at least as hard as the attack"),
    _test("Controls", "n_controls", "count"),
    _test("Paper's p", "p_paper", "text", wide=True),
    _test("p", "p", "p"),
    _test("Adjusted p", "p_adjusted", "p"),
    _test("Calls", "calls", "count", tip="that the test took", wide=True),
    column("Remark", lambda pair: pair[1].note or ("guess" if pair[1].guess else None), key="note"),
)
