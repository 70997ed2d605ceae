"""Whether single successes are more than chance: stored tests against neutral edits (METHODS 2.6).

T is how likely the model is to give the right answer, from fresh samples. A control is as hard as
the attack where its T is no larger. A family is all that one attack attacked on one model; what
held, or was not tested, has p = 1.

References:
    Ness et al., "MedFuzz", 2024, Algorithm 2.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import exp
from typing import Any

from medstress.analyses.families import Adjust, ControlPrice, Null, Reach, Statistic, settings_key
from medstress.analyses.run import Analysis, Run
from medstress.analyses.shown import (
    HIDDEN,
    Field,
    Remark,
    Shown,
    Table,
    column,
    named,
    table,
    where,
)
from medstress.core.arms import Place
from medstress.core.trials import Trial
from medstress.stats.estimate import Estimate
from medstress.stats.means import difference_of_few
from medstress.stats.permutation import control_p
from medstress.store.reader import StoredInquiry

PURPOSE = "test"
ADJUSTED = "tests"
"""Manifest entry: settings of tests -> how their p-values are adjusted."""
FIXED = "fixed_family"
"""Manifest entry: the items that `[test]` named before the first query, with their hash."""
STOP_AT = 10
"""A test of null `matched` ends when so many controls are at least as hard."""
GUESS = 0.5
"""A success is marked a guess where P(right answer) of the clean item is below this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuccessTest:
    """The test of one success."""

    trial: Trial = field(metadata=HIDDEN)
    trial_id: str
    p: float
    """p = (1 + count) / (n_controls + 1); 10 / n_controls where it ended at ten as hard."""
    p_adjusted: float = 1.0
    p_paper: str | None = field(default=None, metadata=HIDDEN)
    """Null `neutral`: the share of controls as hard, without the +1; no p-value if `< 1/n`."""
    count: int
    """Controls at least as hard as the attack."""
    n_controls: int
    t_original: float
    t_attack: float
    effect: Estimate = field(metadata=HIDDEN)
    """t_original - t_attack."""
    guess: bool
    """Whether P(right answer) of the clean item, or else T of it, is below .5."""
    calls: int
    """Calls of models and roles that the test took."""
    n_distinct: int | None = field(default=None, metadata=HIDDEN)
    """How many controls the distinct texts make up; None if no text repeats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmTests:
    """The tests of one attack on one model: a family."""

    place: Place = field(metadata=HIDDEN)
    dataset: str
    victim: str
    attack: str
    null: Null
    n_family: int
    """Attacked items, which p-values are adjusted over."""
    items: Sequence[SuccessTest]
    adjust: Adjust = field(metadata=HIDDEN)
    n_successes: int = field(metadata=HIDDEN)
    """Successes that people do not refuse."""
    named: Sequence[str] = field(metadata=HIDDEN)
    """The items that were named before the first query; empty for all."""
    reach: Reach = field(metadata=HIDDEN)
    price: ControlPrice = field(metadata=HIDDEN)
    unfinished: Sequence[tuple[str, str]] = field(metadata=HIDDEN)
    """Items whose success could not be tested, and why."""
    why: str | None = field(metadata=HIDDEN)
    """Why calls failed, so that the tests may be asked again."""

    @property
    def n_discoveries(self) -> int:
        """Tests whose adjusted p is at most the level."""
        return sum(one.p_adjusted <= self.adjust.level for one in self.items)

    @property
    def n_guesses(self) -> int:
        """Tests of successes on items that the model hardly knew."""
        return sum(one.guess for one in self.items)


def family_of(trials: Iterable[Trial], items: Collection[str]) -> list[Trial]:
    """Return the attacked trials, of the named items alone if there are any."""
    return [
        one
        for one in trials
        if one.is_eligible and not one.arm.is_control and (not items or one.item.id in items)
    ]


def tested(trial: Trial, stored: dict[str, Any], null: Null) -> SuccessTest:
    """Return the test of one success, not adjusted yet."""
    effect = difference_of_few(stored["original"], stored["fuzz"])
    t_original = sum(stored["original"]) / len(stored["original"])
    count, n = stored["hard"], stored["n"]
    before, item = trial.before, trial.item
    p_clean = t_original
    if before is not None and before.scores is not None:
        p_clean = exp(before.scores[item.letters.index(item.key)])
    is_neutral = null is Null.NEUTRAL
    return SuccessTest(
        trial=trial,
        trial_id=trial.id,
        p=control_p(count, n, stored["distinct"], stop_at=None if is_neutral else STOP_AT),
        p_paper=(f"{count / n:.3g}" if count else f"< 1/{n}") if is_neutral else None,
        count=count,
        n_controls=n,
        t_original=t_original,
        t_attack=sum(stored["fuzz"]) / len(stored["fuzz"]),
        effect=effect,
        guess=p_clean < GUESS,
        calls=stored["calls"],
        n_distinct=stored["distinct"],
    )


def tests_of(stored: StoredInquiry, family: Sequence[Trial], run: Run) -> ArmTests:
    """Return the tests of one family, adjusted over all that was attacked.

    Args:
        stored: what was asked.
        family: the attacked trials of its arm.
        run: says how p-values are adjusted.
    """
    spec, findings = stored.spec, stored.findings or {"tests": []}
    null = Null(spec["null"])
    adjust = Adjust(run.manifest.get(ADJUSTED, {}).get(settings_key(spec), Adjust.BH))
    by_id = {trial.id: trial for trial in family if not trial.is_refused}
    ours = [one for one in findings["tests"] if one["trial"] in by_id]
    tests = [tested(by_id[one["trial"]], one, null) for one in ours if one["note"] is None]
    adjusted = adjust.of([one.p for one in tests], len(family))
    # Where texts repeat, more controls do not make p smaller.
    n = [one.n_controls if one.n_distinct is None else one.n_distinct for one in tests]
    arm = family[0].arm
    return ArmTests(
        place=arm.place,
        dataset=arm.place.dataset,
        victim=arm.place.victim,
        attack=arm.attack.label,
        null=null,
        n_family=len(family),
        items=[replace(one, p_adjusted=p) for one, p in zip(tests, adjusted, strict=True)],
        adjust=adjust,
        n_successes=sum(trial.first is not None for trial in by_id.values()),
        named=run.manifest.get(FIXED, {}).get("items", ()),
        reach=Reach(
            n_tested=len(tests),
            n_family=len(family),
            n_controls=max(n, default=0),
            adjust=adjust,
        ),
        price=ControlPrice(
            null=null,
            statistic=Statistic(findings.get("statistic", Statistic.SHARE_CORRECT)),
            attempts=arm.attack.attempts or 1,
            is_written=spec["generator"] == "attacker",
        ),
        unfinished=[
            (str(by_id[one["trial"]].item.id), one["note"])
            for one in ours
            if one["note"] is not None
        ],
        why=stored.note,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Significance(Shown):
    """All tests of successes."""

    rows: Sequence[ArmTests]
    """Families with a test that finished."""
    families: Sequence[ArmTests] = field(metadata=HIDDEN)
    """All of them."""
    title = "Tests of successes"
    is_brief = True

    def tables(self) -> Sequence[Table]:
        """What every family shows, then every test."""
        notes = (
            "Discoveries: tests whose adjusted p is up to .10 (Benjamini-Hochberg) or .05 (Holm, "
            "or nothing). What held, or is not tested, has p = 1. Needed: how many successes must "
            "sit at the smallest p for one discovery. Guesses: successes on questions that the "
            "model hardly knew.",
            *dict.fromkeys(row.null.caution for row in self.rows),
        )
        tests = [(row, one) for row in self.rows for one in row.items]
        meant = (
            "T: how likely the model is to give the right answer, from fresh samples. The paper's "
            "p is the share of controls at least as hard; below 1/n it is no p-value."
        )
        caption, each = "Are single successes more than chance?", "Every test of a success"
        return [
            table("significance", caption, self.rows, _FAMILIES, notes=notes),
            table("tests-of-successes", each, tests, _TESTS, notes=[meant]),
        ]

    def remarks(self) -> Sequence[Remark]:
        """What could not be tested, and what could not be shown."""
        return [one for family in self.families for one in _remarks(family)]


def _remarks(row: ArmTests) -> Iterator[Remark]:
    at = where(row.place, row.attack)
    if row.why is not None:
        sentence = (
            f"{row.attack}: the tests of successes could not finish: {row.why}. `medstress test` "
            "asks what is missing."
        )
        yield Remark("not_tested", sentence, at)
    elif row.unfinished:
        item, why = row.unfinished[0]
        sentence = (
            f"{row.attack}: {len(row.unfinished):,} successes could not be tested, such as that on "
            f"{item!r}: {why}."
        )
        yield Remark("not_testable", sentence, at)
    if row.items and not row.reach.can_show:
        sentence = f"{row.attack}, null {row.null}: {row.reach.shortfall(row.price)}."
        yield Remark("shows_nothing", sentence, at)
    if repeated := [one.n_distinct for one in row.items if one.n_distinct is not None]:
        sentence = (
            f"{row.attack}: the controls of {len(repeated):,} tests repeat texts, so that p is at "
            f"least 1/{max(repeated) + 1} there."
        )
        yield Remark("repeated_controls", sentence, at, "note")


def significance_of(run: Run) -> Significance | None:
    """Adjust the stored tests family by family; None where nothing was tested."""
    last: dict[tuple[str, Place, str], StoredInquiry] = {}
    for one in run.folder.inquiries:
        if one.purpose == PURPOSE:
            place = Place(one.dataset, one.group, one.victim)
            last[settings_key(one.spec), place, one.attack] = one
    family = family_of(run.trials, run.manifest.get(FIXED, {}).get("items", ()))
    families = [
        tests_of(stored, own, run)
        for (_, place, attack), stored in sorted(last.items(), key=lambda pair: pair[0][1:])
        if (own := [t for t in family if (t.arm.place, t.arm.attack.label) == (place, attack)])
    ]
    if not families:
        return None
    return Significance(rows=[one for one in families if one.items], families=families)


SIGNIFICANCE = Analysis("significance", significance_of)


def _number(pair: tuple[ArmTests, SuccessTest]) -> str:
    """Return the item of a test, with its run where there are several."""
    trial = pair[1].trial
    return f"{trial.item.id}, run {trial.repeat + 1}" if trial.repeat else str(trial.item.id)


_FAMILIES: Sequence[Field[ArmTests]] = (
    named("Model", "victim"),
    named("Attack", "attack", wide=True),
    column("Null", lambda row: str(row.null)),
    column("Tested", lambda row: len(row.items), "count"),
    column("Successes", "n_successes", "count"),
    column("Attacked", "n_family", "count", "adjusted over"),
    column("Named", lambda row: ", ".join(row.named) or None, wide=True),
    column("By", "adjust.words"),
    column("Discoveries", "n_discoveries", "count"),
    column("Guesses", "n_guesses", "count", wide=True),
    column("Smallest p", "reach.p_min", "p", "that can be reached"),
    column("Needed", "reach.n_needed", "count", "successes at the smallest p"),
)
_TESTS: Sequence[Field[tuple[ArmTests, SuccessTest]]] = (
    column("Question", _number),
    named("Model", "0.victim"),
    named("Attack", "0.attack", wide=True),
    column("Null", lambda pair: str(pair[0].null), wide=True),
    column("T clean", "1.t_original", "number"),
    column("T attacked", "1.t_attack", "number"),
    column("Difference", "1.effect", "score", wide=True),
    column("As hard", "1.count", "count", "controls at least as hard as the attack"),
    column("Controls", "1.n_controls", "count"),
    column("Paper's p", "1.p_paper", wide=True),
    column("p", "1.p", "p"),
    column("Adjusted p", "1.p_adjusted", "p"),
    column("Calls", "1.calls", "count", "that the test took", wide=True),
    column("Remark", lambda pair: "guess" if pair[1].guess else None, key="note"),
)
